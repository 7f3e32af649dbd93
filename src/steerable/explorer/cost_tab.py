"""The Cost tab: two field types as text, and the cost of a convolution between them."""

from __future__ import annotations

from functools import partial
from typing import Any

from markupsafe import Markup

from steerable.algebra.group_interface import Group
from steerable.explorer.groups import GROUPS, admitted, checked_group
from steerable.explorer.messages import MISTAKES, TEMPLATES, checked_number, or_message
from steerable.types.convolution_costs import axes_moved_by, convolution_cost
from steerable.types.field_types import FieldType

__all__ = ["add_cost_tab", "cost_page"]

_LONGEST_TEXT = 500
_MOST_CHANNELS = 100_000
_LARGEST = {2: (15, 4096), 3: (5, 256)}  # filter and image, by the number of axes
EXAMPLES = {
    "the paper's block": ("regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E"),
    "its 14-layer network": ("14*(regular + qm + qmr2 + qmr3)", "14*(A1 + A2 + B1 + B2 + 2*E)"),
    "image to regular": ("3*A1", "16*regular"),
    "regular to regular": ("16*regular", "16*regular"),
    "scalars and vectors": ("8*A1 + 8*E", "8*A1 + 8*E"),
    "for SO2 and O2": ("8*regular(2)", "8*regular(2) + 4*E1"),
}


@or_message
def cost_page(group: str, source: str, target: str, kernel_size: float, image_size: float) -> Markup:
    """The costs, or, for each text that is wrong, the message with the place marked."""
    found = checked_group(group)
    axes = axes_moved_by(found)
    largest_kernel, largest_image = _LARGEST[axes]
    kernel = checked_number(kernel_size, "the filter's size", 1, largest_kernel)
    image = checked_number(image_size, "the image's size", 1, largest_image)
    types: list[FieldType] = []
    mistakes: list[tuple[str, str]] = []
    for role, text in (("From", source), ("To", target)):
        try:
            types.append(_field_type(found, text))
        except MISTAKES as error:
            mistakes.append((role, str(error)))
    if mistakes:
        return TEMPLATES.render("cost_mistakes.html", mistakes=mistakes)
    cost = convolution_cost(types[0], types[1], kernel, image)
    return TEMPLATES.render(
        "cost.html",
        cost=cost,
        irreps=found.irreps_of(max((c.type for t in types for c, _ in t.terms), key=len, default=found.trivial.type)),
        fourier=cost.fourier,
        extent="×".join([str(kernel)] * axes),
        dense_flops=_flops(cost.dense_flops),
        fourier_flops=_flops(cost.fourier_flops),
        admitted=admitted,
    )


def _field_type(group: Group, text: str) -> FieldType:
    if len(text) > _LONGEST_TEXT:
        raise ValueError(f"the text has {len(text)} characters; at most {_LONGEST_TEXT} are read.")
    found = FieldType(group, text)
    if found.channels > _MOST_CHANNELS:
        raise ValueError(f"the type has {found.channels:,} channels; the page counts up to {_MOST_CHANNELS:,}.")
    return found


def _flops(number: int) -> str:
    """A number of floating-point operations, in a unit that leaves few digits.

    >>> _flops(1_500_000)
    '1.5 MFLOP'
    """
    for exponent, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**exponent:
            return f"{number / 10**exponent:.3g} {prefix}FLOP"
    return f"{number} FLOP"


def add_cost_tab() -> None:
    """Add the tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    choice = partial(gr.Dropdown, filterable=False)
    first, (source_text, target_text) = next(iter(EXAMPLES.items()))
    with gr.Tab("Cost", id="cost"):
        with gr.Row():
            group = choice(list(GROUPS), value="D4", label="Group", elem_id="cost-group")
            kernel = gr.Number(3, label="Filter size", minimum=1, precision=0, elem_id="cost-kernel")
            image = gr.Number(32, label="Image size", minimum=1, precision=0, elem_id="cost-image")
            example = choice(list(EXAMPLES), value=first, label="Examples for D4, SO2, O2", elem_id="cost-example")
        with gr.Row():
            source = gr.Textbox(source_text, label="From", max_lines=1, max_length=_LONGEST_TEXT, elem_id="cost-source")
            target = gr.Textbox(target_text, label="To", max_lines=1, max_length=_LONGEST_TEXT, elem_id="cost-target")
        inputs: list[Any] = [group, source, target, kernel, image]
        page = gr.HTML(cost_page("D4", source_text, target_text, 3, 32), elem_id="cost-page")
        # Values are checked by the functions themselves, which say more than Gradio would.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "preprocess": False}
        example.input(lambda name: EXAMPLES[name], example, [source, target], **quiet)
        gr.on([part.change for part in inputs], cost_page, inputs, page, trigger_mode="always_last", **quiet)
