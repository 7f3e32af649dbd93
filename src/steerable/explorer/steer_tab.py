"""The Steer tab: f and π(g)f through a steerable and a plain network, map by map and fibre by fibre."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from steerable.algebra.capsules import Capsule
from steerable.explorer.filters_tab import capsule_names
from steerable.explorer.group_tab import PLANAR_GROUPS, checked_group
from steerable.explorer.inline import head_cell, picture_image, signed_image, tinted
from steerable.explorer.messages import note, or_message, whole
from steerable.explorer.pictures import PICTURES, chosen_picture
from steerable.explorer.steering_run import IMAGE_SIZE, Answer, compare
from steerable.explorer.uploads import Uploads
from steerable.reporting.markup import Html, table, tag

__all__ = ["add_steer_tab", "steer_page"]

_MOST_MAPS = 8


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
) -> Html:
    """The comparison of the two networks; an uploaded file is used in place of the bundled picture.

    Args:
        uploads: the only files that are read.
        group, capsule_name: what the features are.
        element: g.
        picture: one of ``PICTURES``.
        upload: what the browser sent for an uploaded file, or None.
        row, column: the pixel whose fibre is shown.
    """
    if group not in PLANAR_GROUPS:
        raise ValueError(f"pictures are moved exactly by {', '.join(PLANAR_GROUPS)}; got `{group}`.")
    found = checked_group(group)
    found.index(element)  # refuses an unknown element with the known ones
    capsule = found.capsule(capsule_name)
    last = IMAGE_SIZE - 1
    x = whole(row, "the row", 0, last), whole(column, "the column", 0, last)
    image = chosen_picture(picture, upload, uploads, IMAGE_SIZE)
    result = compare(image, element, capsule)
    gx = result.place(capsule, element, *x)
    pictures = tag(
        "div",
        tag("figure", picture_image(result.picture, "f", width=150), tag("figcaption", "f")),
        tag("span", f"π({element}) →", class_="st-arrow"),
        tag("figure", picture_image(result.moved, f"π({element}) f", width=150), tag("figcaption", f"π({element}) f")),
        class_="st-strip",
    )
    networks = (("Steerable network", result.steerable), ("Plain network of the same size", result.plain))
    sections = [_maps(title, answer, element, x, gx) for title, answer in networks]
    fibres = _fibres(capsule, element, x, gx, result.steerable, result.plain)
    return tag("div", pictures, tag("div", *sections, class_="st-side"), fibres, class_="st-page")


def _maps(title: str, answer: Answer, element: str, x: tuple[int, int], gx: tuple[int, int]) -> Html:
    """Rows Φf, π'(g)Φf, Φπ(g)f and their difference; one column per channel, all on one scale."""
    largest = float(np.abs(answer.of_picture).max())
    rows = (
        ("Φ f", answer.of_picture, x),
        (f"π′({element}) Φ f", answer.steered, gx),
        (f"Φ π({element}) f", answer.of_moved, gx),
        ("difference", answer.difference, None),
    )
    shown = min(len(answer.of_picture), _MOST_MAPS)
    lines = [
        [
            head_cell(name),
            *(
                tag("td", signed_image(m, f"{name}, channel {c + 1}", largest=largest, mark=mark))
                for c, m in enumerate(maps[:shown])
            ),
        ]
        for name, maps, mark in rows
    ]
    size = f"{answer.worst:.1e}" if answer.worst < 1e-3 else f"{answer.worst:.2f}"
    verdict = f"largest difference: {size} of the largest feature"
    exact = answer.worst < 1e-9
    meaning = " – zero, but for rounding: the features are steered" if exact else " – they are not steered"
    badge = tag("p", tag("b", verdict), meaning, class_="st-good" if exact else "st-bad")
    heads = ["", *(f"channel {c + 1}" for c in range(shown))]
    return tag("section", tag("h3", title), badge, table(heads, lines, class_="st-table st-maps"))


def _fibres(
    capsule: Capsule, element: str, x: tuple[int, int], gx: tuple[int, int], steerable: Answer, plain: Answer
) -> Html:
    """ρ(g) times the fibre at x, beside the fibre that the network finds at gx."""
    tables = []
    for name, answer in (("Steerable", steerable), ("Plain", plain)):
        largest = float(np.abs(answer.of_picture).max())
        before, found = answer.of_picture[:, x[0], x[1]], answer.of_moved[:, gx[0], gx[1]]
        mixed = capsule.representation(element) @ before
        rows = []
        for channel, values in enumerate(zip(before, mixed, found, found - mixed, strict=True)):
            texts = [f"{value:.4f}" if abs(value) > 1e-9 * largest else "0" for value in values]
            cells = (tinted(float(v), largest, text) for v, text in zip(values, texts, strict=True))
            rows.append([head_cell(f"channel {channel + 1}"), *cells])
        heads = (name, "Φf at x", f"ρ({element}) Φf(x)", f"Φπ({element})f at gx", "difference")
        tables.append(tag("div", table(heads, rows, class_="st-table", numbers=range(1, 5))))
    text = (
        f"The fibre at row {x[0]}, column {x[1]} (framed above) is carried to row {gx[0]}, column {gx[1]}, and "
        f"ρ({element}) mixes its {capsule.dim} channels."
    )
    return tag("section", tag("h3", "Fibre by fibre"), note(text), tag("div", *tables, class_="st-side"))


def add_steer_tab(uploads: Uploads) -> None:
    """The tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    start = ("D4", "qm", "r", "sailing boat", None, 20, 9)
    page_of = partial(steer_page, uploads)

    def for_group(group: str) -> tuple[Any, Any]:
        elements, names = list(checked_group(group).elements), capsule_names(group)
        wanted = next(name for name in ("qm", "regular", names[0]) if name in names)
        return gr.update(choices=elements, value=elements[-1]), gr.update(choices=names, value=wanted)

    with gr.Tab("Steer", id="steer"):
        with gr.Row():
            with gr.Column(scale=3):
                with gr.Row():
                    group = gr.Dropdown(
                        list(PLANAR_GROUPS), value="D4", label="Group", elem_id="steer-group", filterable=False
                    )
                    capsule = gr.Dropdown(
                        capsule_names("D4"), value="qm", label="Features", elem_id="steer-capsule", filterable=False
                    )
                    picture = gr.Dropdown(
                        list(PICTURES), value=start[3], label="Picture", elem_id="steer-picture", filterable=False
                    )
                element = gr.Radio(
                    list(checked_group("D4").elements), value="r", label="Element g", elem_id="steer-element"
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
