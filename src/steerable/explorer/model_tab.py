"""The Model tab: a run folder's network in every pose, its first filters, its report.

Run folders are read and nothing else: weights come from safetensors, and only folders below the one that the explorer
was started for are opened.
"""

from __future__ import annotations

import html
import itertools
import os
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from steerable.algebra.families import dihedral
from steerable.explorer.inline import picture_image
from steerable.explorer.learned import learned_filters
from steerable.explorer.messages import note, or_message
from steerable.explorer.pictures import PICTURES, chosen_picture
from steerable.explorer.uploads import Uploads
from steerable.reporting.markup import Html, percent, small, table, tag
from steerable.training.trained_model import TrainedModel
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["add_model_tab", "model_page", "pose_predictions", "run_folders", "run_path"]

# A search from a home folder should end soon.
_MOST_RUNS, _DEEPEST, _MOST_FOLDERS = 200, 4, 20_000
_LARGEST_REPORT = 20 * 2**20


def run_folders(root: Path) -> list[str]:
    """Finished runs below a folder, by their paths from there; hidden folders are left out."""
    found = []
    for folder, below, files in itertools.islice(os.walk(root), _MOST_FOLDERS):
        depth = len(Path(folder).relative_to(root).parts)
        below[:] = sorted(name for name in below if not name.startswith(".")) if depth < _DEEPEST else []
        if {"results.json", "config.json"} <= set(files):
            found.append(Path(folder).relative_to(root).as_posix())
            below[:] = []
        if len(found) >= _MOST_RUNS:
            break
    return sorted(found)


def run_path(root: Path, text: object) -> Path:
    """The run folder that a text names, from the root; ValueError when it or a file in it lies elsewhere or is none."""
    if not isinstance(text, str) or not text.strip():  # a control that was cleared gives None
        raise ValueError("no run folder was given. Choose one, or train one with `steerable train`.")
    path = (root / text.strip()).resolve()
    if not path.is_relative_to(root.resolve()):
        raise ValueError(
            f"`{text}` is not below the folder that the explorer was started for. Start it with `steerable explore "
            "--runs FOLDER`, the folder that holds your runs."
        )
    for file in ("results.json", "config.json", "model/model.safetensors"):
        if not (path / file).is_file():
            raise ValueError(
                f"`{text}` is no finished run folder: it has no {file}. A run folder is what `steerable train --out` "
                "writes."
            )
    for entry in (*path.iterdir(), *(path / "model").iterdir()):
        if not entry.resolve().is_relative_to(root.resolve()):
            raise ValueError(
                f"`{entry.relative_to(path)}` of the run `{text}` is a link to a file that is not below the folder "
                "that the explorer was started for. Put the file itself there."
            )
    return path


@or_message
def model_page(root: Path, uploads: Uploads, text: object, picture: str, upload: object) -> Html:
    """Predictions in all poses, filters and report of the run that ``text`` names.

    Args:
        root, uploads: below these lie the only run folders and image files that are read.
        text: the run folder's path from the root.
        picture: one of ``PICTURES``.
        upload: what the browser sent for an uploaded file, or None.
    """
    path = run_path(root, text)
    model = _load(path, (path / "results.json").stat().st_mtime_ns)
    size, channels = model.image_size, model.normalisation.channels
    image = chosen_picture(picture, upload, uploads, size)
    # The digits that a network is trained on are light ink on black; on the page they are seen as on paper.
    values = 1 - image if not upload and picture.startswith(("digit", "letter")) else image
    if channels == 1:
        values = values @ np.array([[0.299], [0.587], [0.114]])
    pixels = torch.from_numpy(np.rint(255 * values).astype(np.uint8).transpose(2, 0, 1).copy())
    parameters = sum(p.numel() for p in model.model.parameters())
    lead = (
        f"{type(model.model).__name__}, {parameters:,} parameters, {size}×{size} images, {len(model.classes)} classes"
    )
    return tag(
        "div",
        tag("p", tag("b", str(text).strip()), f": {lead}.", class_="st-lead"),
        tag("section", tag("h3", "Predictions in every pose"), _predictions(model, pixels)),
        tag("section", tag("h3", "Learned filters of the first layer"), learned_filters(model.model)),
        tag("section", tag("h3", "Report"), _report(path)),
        class_="st-page",
    )


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> TrainedModel:
    """A trained network; ``changed`` makes a run that was trained again be read again."""
    return TrainedModel.load(path)


@torch.no_grad()
def pose_predictions(model: nn.Module, pixels: Tensor) -> list[tuple[str, Tensor, Tensor, float]]:
    """(element of D4, the moved image, probabilities, drift of the scores) of one uint8 image (channels, n, n).

    The drift is ‖f(gx) − f(x)‖ / ‖f(x)‖, f being the class scores.
    """
    group = dihedral(4)
    image_type = FieldType(group, [(len(pixels), group.trivial)])
    poses = [transform(pixels, element, image_type) for element in group.elements]
    scores = model(torch.stack(poses)).double()
    drift = (scores - scores[:1]).norm(dim=1) / scores[:1].norm().clamp_min(1e-12)
    return list(zip(group.elements, poses, scores.softmax(1), drift.tolist(), strict=True))


def _predictions(model: TrainedModel, pixels: Tensor) -> Html:
    rows = []
    for element, image, probabilities, drift in pose_predictions(model, pixels):
        best = probabilities.topk(min(3, len(probabilities)))
        others = ", ".join(
            f"{model.classes[int(k)]} {percent(float(p), 1)}"
            for p, k in zip(best.values[1:], best.indices[1:], strict=True)
        )
        shown = image.numpy().transpose(1, 2, 0) / 255.0
        share = float(best.values[0])
        bar = tag("div", tag("div", style=f"width:{100 * share:.1f}%"), class_="st-bar")
        rows.append(
            [
                tag("code", element),
                picture_image(shown[..., 0] if shown.shape[2] == 1 else shown, f"the image under {element}", width=64),
                tag("b", model.classes[int(best.indices[0])]),
                tag("td", bar, percent(share, 1)),
                others,
                small(drift),
            ]
        )
    heads = ("pose", "image", "prediction", "probability", "then", "drift of the scores")
    return table(heads, rows, class_="st-table", numbers=(5,))


def _report(path: Path) -> Html:
    """The run's own page in a frame of its own that may run nothing."""
    file = path / "report.html"
    if not file.is_file() or file.stat().st_size > _LARGEST_REPORT:
        return note("This run has no report here; write one with ", tag("code", f"steerable report {path.name}"), ".")
    # Not by ``tag``, which would be the same but for the attribute without a value.
    page = html.escape(file.read_text("utf-8", errors="replace"))
    return Html(f'<iframe class="st-report" sandbox title="report of the run" srcdoc="{page}"></iframe>')


def add_model_tab(root: Path, uploads: Uploads) -> None:
    """The tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    runs = run_folders(root)
    hint = (
        f"finished runs below {root.name or root}"
        if runs
        else f"no finished run below {root.name or root} yet; give its path"
    )
    with gr.Tab("Model", id="model") as tab:
        with gr.Row():
            with gr.Column(scale=3):
                with gr.Row():
                    run = gr.Dropdown(
                        runs,
                        value=runs[0] if runs else "",
                        label=f"Run folder: {hint}",
                        allow_custom_value=True,
                        elem_id="model-run",
                    )
                    picture = gr.Dropdown(
                        list(PICTURES), value="digit 3", label="Picture", elem_id="model-picture", filterable=False
                    )
                load = gr.Button("Load", variant="primary", elem_id="model-load")
            with gr.Column(scale=1, min_width=220):
                upload = gr.File(
                    label="Or your own image, up to 5 MB", file_types=["image"], height=140, elem_id="model-upload"
                )
        page = gr.HTML(note("Choose a run folder and press Load."), elem_id="model-page")
        # Values are checked by the functions themselves, and a file is read where it lies.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "preprocess": False}
        inputs = [run, picture, upload]
        tab.select(lambda: gr.update(choices=run_folders(root)), None, run, **quiet)  # runs that ended in the meantime
        gr.on([load.click, picture.change, upload.change], partial(model_page, root, uploads), inputs, page, **quiet)
