"""The Steer tab: f and π(g)f through a steerable and a plain network, map by map and fibre by fibre."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from steerable.algebra.examples import elements_to_show
from steerable.explorer.groups import PLANAR_GROUPS, capsule_names, checked_group, element_named, planar_group
from steerable.explorer.images import TintedCell, picture_image, signed_image, tinted
from steerable.explorer.messages import TEMPLATES, checked_number, or_message
from steerable.explorer.pictures import PICTURES, chosen_picture
from steerable.explorer.steering_run import IMAGE_SIZE, Answer, compare
from steerable.explorer.uploads import Uploads

__all__ = ["add_steer_tab", "steer_page"]

_MOST_MAPS = 8
_NEARLY = 0.1  # a difference that interpolation and leaks leave between features off the grid
Place = tuple[int, int]


@or_message
def steer_page(
    uploads: Uploads,
    group: str,
    capsule_name: str,
    element: str,
    picture: str,
    upload: object,
    row: float,
    column: float,
) -> Markup:
    """The comparison of the two networks; an uploaded file is used in place of the bundled picture.

    Args:
        uploads: the only files that are read.
        group, capsule_name: what the features are.
        element: g.
        picture: one of ``PICTURES``.
        upload: what the browser sent for an uploaded file, or None.
        row, column: the pixel whose fibre is shown.
    """
    found = planar_group(group)
    g = element_named(found, element)
    capsule = found.capsule(capsule_name)
    last = IMAGE_SIZE - 1
    x = checked_number(row, "the row", 0, last), checked_number(column, "the column", 0, last)
    image = chosen_picture(picture, upload, uploads, IMAGE_SIZE)
    result = compare(image, g, capsule)
    gx = result.place(capsule, g, *x)
    return TEMPLATES.render(
        "steer.html",
        element=element,
        capsule=capsule,
        x=x,
        gx=gx,
        on_grid=result.steerable.on_grid,
        before=picture_image(result.picture, "f", width=150),
        after=picture_image(result.moved, f"π({element}) f", width=150),
        networks=[
            {"name": name, "title": title, **_facts(answer, element, x, gx), "fibre": _fibre(answer, x, gx)}
            for name, title, answer in (
                ("Steerable", "Steerable network", result.steerable),
                ("Plain", "Plain network of the same size", result.plain),
            )
        ],
    )


def _facts(answer: Answer, element: str, x: Place, gx: Place | None) -> dict[str, Any]:
    """The maps Φf, π'(g)Φf, Φπ(g)f and their difference, all on one scale, and how large the difference is."""
    largest = float(np.abs(answer.of_picture).max())
    shown = min(len(answer.of_picture), _MOST_MAPS)
    rows = (
        ("Φ f", answer.of_picture, x),
        (f"π′({element}) Φ f", answer.steered, gx),
        (f"Φ π({element}) f", answer.of_moved, gx),
        ("difference", answer.difference, None),
    )
    return {
        "steered": "exactly" if answer.worst < 1e-9 else "nearly" if answer.worst < _NEARLY else "",
        "worst": f"{answer.worst:.1e}" if answer.worst < 1e-3 else f"{answer.worst:.2f}",
        "map_heads": ["", *(f"channel {c + 1}" for c in range(shown))],
        "maps": [
            (
                name,
                [
                    signed_image(m, f"{name}, channel {c + 1}", largest=largest, mark=mark)
                    for c, m in enumerate(maps[:shown])
                ],
            )
            for name, maps, mark in rows
        ],
    }


def _fibre(answer: Answer, x: Place, gx: Place | None) -> list[list[TintedCell]]:
    """One row per channel: the fibre at x, the steered one at gx, the one that the network finds there, the difference.

    The steered fibre is ρ(g) times that at x, or off the grid times what is interpolated between pixels.
    """
    if gx is None:
        return []
    largest = float(np.abs(answer.of_picture).max())
    before, steered, found = answer.of_picture[:, *x], answer.steered[:, *gx], answer.of_moved[:, *gx]
    return [
        [tinted(float(v), largest, f"{v:.4f}" if abs(v) > 1e-9 * largest else "0") for v in values]
        for values in zip(before, steered, found, found - steered, strict=True)
    ]


def add_steer_tab(uploads: Uploads) -> None:
    """Add the tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    choice = partial(gr.Dropdown, filterable=False)
    start = ("D4", "qm", "r", "sailing boat", None, 20, 9)
    page_of = partial(steer_page, uploads)

    def for_group(group: str) -> tuple[Any, Any]:
        elements, names = list(elements_to_show(checked_group(group))), capsule_names(group)
        wanted = next(name for name in ("qm", "regular", "regular(2)", names[0]) if name in names)
        return gr.update(choices=elements, value=elements[-1]), gr.update(choices=names, value=wanted)

    with gr.Tab("Steer", id="steer"):
        with gr.Row():
            with gr.Column(scale=3):
                with gr.Row():
                    group = choice(list(PLANAR_GROUPS), value="D4", label="Group", elem_id="steer-group")
                    capsule = choice(capsule_names("D4"), value="qm", label="Features", elem_id="steer-capsule")
                    picture = choice(list(PICTURES), value=start[3], label="Picture", elem_id="steer-picture")
                element = gr.Radio(
                    list(elements_to_show(checked_group("D4"))), value="r", label="Element g", elem_id="steer-element"
                )
                with gr.Row():
                    row = gr.Slider(
                        0, IMAGE_SIZE - 1, value=start[5], step=1, label="Row of the fibre", elem_id="steer-row"
                    )
                    column = gr.Slider(
                        0, IMAGE_SIZE - 1, value=start[6], step=1, label="Column", elem_id="steer-column"
                    )
            with gr.Column(scale=1, min_width=220):
                upload = gr.File(
                    label="Or your own image, up to 5 MB", file_types=["image"], height=210, elem_id="steer-upload"
                )
        page = gr.HTML(page_of(*start), elem_id="steer-page")
        inputs: list[Any] = [group, capsule, element, picture, upload, row, column]
        # Values are checked by the functions themselves, and a file is read where it lies.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "preprocess": False}
        group.input(for_group, group, [element, capsule], **quiet).then(page_of, inputs, page, **quiet)
        events = [element.input, capsule.input, picture.change, upload.change, row.change, column.change]
        gr.on(events, page_of, inputs, page, trigger_mode="always_last", **quiet)
