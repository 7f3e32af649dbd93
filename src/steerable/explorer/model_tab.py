"""The Model tab: a run folder's network in every pose, its first filters, its report.

Run folders are read and nothing else: weights come from safetensors, and only folders below the one that the explorer
was started for are opened.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from markupsafe import Markup
from torch import Tensor, nn

from steerable.algebra.families import dihedral
from steerable.explorer.images import picture_image
from steerable.explorer.learned import learned_filters
from steerable.explorer.messages import TEMPLATES, or_message
from steerable.explorer.pictures import PICTURES, chosen_picture
from steerable.explorer.run_folders import run_folders, run_path
from steerable.explorer.uploads import Uploads
from steerable.models.registry import MODELS
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["add_model_tab", "model_page", "pose_predictions"]

_LARGEST_REPORT = 20 * 2**20  # bytes


@or_message
def model_page(root: Path, uploads: Uploads, text: object, picture: str, upload: object) -> Markup:
    """Predictions in all poses, filters and report of the run that ``text`` names.

    Args:
        root, uploads: below these lie the only run folders and image files that are read.
        text: the run folder's path from the root.
        picture: one of ``PICTURES``.
        upload: what the browser sent for an uploaded file, or None.
    """
    path = run_path(root, text)
    model = _load(path, (path / "results.json").stat().st_mtime_ns)
    size = model.image_size
    if model.channels not in (1, 3):
        raise ValueError(
            f"the network takes images of {model.channels} channels, and those on this page have 1 or 3. Use "
            "`steerable predict` for the files that it was made for."
        )
    image = chosen_picture(picture, upload, uploads, size, model.pixels)
    # The digits that a network is trained on are light ink on black; on the page they are seen as on paper.
    values = 1 - image if not upload and picture.startswith(("digit", "letter")) else image
    if model.channels == 1:
        values = values @ np.array([[0.299], [0.587], [0.114]])
    pixels = torch.from_numpy(np.rint(255 * values).astype(np.uint8).transpose(2, 0, 1).copy())
    return TEMPLATES.render(
        "model.html",
        name=str(text).strip(),
        kind=type(model.model).__name__,
        parameters=sum(p.numel() for p in model.model.parameters()),
        size=size,
        classes=len(model.classes),
        poses=list(_poses(model, pixels)),
        learned=learned_filters(model.model),
        report=_report(path),
    )


@lru_cache(maxsize=4)
def _load(path: Path, changed: int) -> TrainedModel:
    """A trained network; a new value of ``changed`` makes it read a run again that was trained again."""
    found = TrainedModel.load(path)
    if MODELS[found.model_config["name"]].task != "classification":
        raise ValueError(
            f"`{path.name}` is a network for segmentation, and this tab shows networks that classify. Its report.html "
            "has pictures; `steerable predict` writes label images."
        )
    if found.axes == 3:
        raise ValueError(
            f"`{path.name}` is a network of volumes, and this tab shows pictures. Its report.html has slices, and the "
            "Filters tab shows filters of volumes."
        )
    return found


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


def _poses(model: TrainedModel, pixels: Tensor) -> Iterator[dict[str, Any]]:
    """For each pose its image, the three most probable classes, and the drift of the scores."""
    for element, image, probabilities, drift in pose_predictions(model, pixels):
        best = probabilities.topk(min(3, len(probabilities)))
        (label, probability), *others = [
            (model.classes[int(k)], float(p)) for p, k in zip(best.values, best.indices, strict=True)
        ]
        shown = image.numpy().transpose(1, 2, 0) / 255.0
        yield {
            "element": element,
            "image": picture_image(
                shown[..., 0] if shown.shape[2] == 1 else shown, f"the image under {element}", width=64
            ),
            "label": label,
            "probability": probability,
            "others": others,
            "drift": drift,
        }


def _report(path: Path) -> str | None:
    """The run's own page; None if it has none, or one that is too large to be shown."""
    file = path / "report.html"
    if not file.is_file() or file.stat().st_size > _LARGEST_REPORT:
        return None
    return file.read_text("utf-8", errors="replace")


def add_model_tab(root: Path, uploads: Uploads) -> None:
    """Add the tab's controls; called inside ``gr.Blocks``."""
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
        page = gr.HTML(TEMPLATES.render("note.html", text="Choose a run folder and press Load."), elem_id="model-page")
        # Values are checked by the functions themselves, and a file is read where it lies.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "preprocess": False}
        inputs = [run, picture, upload]
        tab.select(lambda: gr.update(choices=run_folders(root)), None, run, **quiet)  # runs that ended in the meantime
        gr.on([load.click, picture.change, upload.change], partial(model_page, root, uploads), inputs, page, **quiet)
