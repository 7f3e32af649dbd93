"""The Cost tab: two field types as text, and what a convolution between them takes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from steerable.explorer.group_tab import GROUPS, admitted, checked_group
from steerable.explorer.messages import MISTAKES, error_box, note, whole
from steerable.reporting.markup import Html, count, join, table, tag
from steerable.types.costs import dense_weights, fourier_products, parameter_cost
from steerable.types.field_types import FieldType

__all__ = ["Cost", "add_cost_tab", "cost_page", "pair_cost"]

_LONGEST_TEXT = 500
_MOST_CHANNELS = 100_000
_LARGEST_KERNEL, _LARGEST_IMAGE = 15, 4096
EXAMPLES = {
    "the paper's block": ("regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E"),
    "its 14-layer network": ("14*(regular + qm + qmr2 + qmr3)", "14*(A1 + A2 + B1 + B2 + 2*E)"),
    "image to regular": ("3*A1", "16*regular"),
    "regular to regular": ("16*regular", "16*regular"),
    "scalars and vectors": ("8*A1 + 8*E", "8*A1 + 8*E"),
}


@dataclass(frozen=True)
class Cost:
    """What one equivariant convolution between two types takes, per image of ``pixels`` pixels."""

    in_type: FieldType
    out_type: FieldType
    kernel_size: int
    weights: int
    """Of the dense filter bank: taps · channels in · channels out."""
    parameters: int
    fourier: int
    """Multiplications per pixel in the irreps' basis."""
    pixels: int

    @property
    def utilization(self) -> float | None:
        """μ, weights per parameter; None where there is no equivariant map."""
        return self.weights / self.parameters if self.parameters else None

    @property
    def dense_flops(self) -> int:
        return 2 * self.weights * self.pixels

    @property
    def fourier_flops(self) -> int:
        return 2 * self.fourier * self.pixels


def pair_cost(in_type: FieldType, out_type: FieldType, kernel_size: int, image_size: int) -> Cost:
    """Count weights, parameters and multiplications."""
    axes = 2 if in_type.group.action is None else in_type.group.action.shape[1]
    weights, parameters, fourier = (
        count_of(in_type, out_type, kernel_size) for count_of in (dense_weights, parameter_cost, fourier_products)
    )
    return Cost(in_type, out_type, kernel_size, weights, parameters, fourier, image_size**axes)


def cost_page(group: str, source: str, target: str, kernel_size: float, image_size: float) -> Html:
    """The costs, or for each text that is wrong the message with the place marked."""
    try:
        found = checked_group(group)
        in_space = group in ("O", "O_h")
        kernel = whole(kernel_size, "the filter's size", 1, 5 if in_space else _LARGEST_KERNEL)
        image = whole(image_size, "the image's size", 1, 256 if in_space else _LARGEST_IMAGE)
    except MISTAKES as error:
        return error_box(error)
    types: list[FieldType] = []
    problems: list[Html] = []
    for role, text in (("From", source), ("To", target)):
        try:
            if len(text) > _LONGEST_TEXT:
                raise ValueError(f"the text has {len(text)} characters; at most {_LONGEST_TEXT} are read.")
            field_type = FieldType(found, text)
            if field_type.channels > _MOST_CHANNELS:
                raise ValueError(
                    f"{count(field_type.channels)} channels; the page counts up to {count(_MOST_CHANNELS)}."
                )
            types.append(field_type)
        except MISTAKES as error:
            problems += [tag("p", tag("b", role), class_="st-note"), error_box(error)]
    if problems:
        return join(problems)
    try:
        return _page(pair_cost(types[0], types[1], kernel, image))
    except MISTAKES as error:
        return error_box(error)


def _page(cost: Cost) -> Html:
    a, b, group = cost.in_type, cost.out_type, cost.in_type.group
    axes = 2 if group.action is None else group.action.shape[1]
    mu = "no value" if cost.utilization is None else f"{cost.utilization:.2f}"
    extent = "×".join([str(cost.kernel_size)] * axes)
    saving = f"{cost.weights / cost.fourier:.2f} times fewer" if cost.fourier else "none"
    cards = (
        ("channels", f"{count(a.channels)} → {count(b.channels)}"),
        ("parameters", count(cost.parameters)),
        ("utilisation μ", mu),
        ("dense", _flops(cost.dense_flops)),
        ("Fourier", _flops(cost.fourier_flops)),
    )
    boxes = [tag("div", tag("small", name), tag("b", value), class_="st-card") for name, value in cards]
    rows = [
        [
            "weights of a plain convolution",
            f"{extent} · {count(a.channels)} · {count(b.channels)}",
            count(cost.weights),
        ],
        ["parameters of the equivariant one", "dim Hom = ⟨χ_patch χ_in, χ_out⟩", count(cost.parameters)],
        ["multiplications per pixel, dense", "one per weight", count(cost.weights)],
        ["multiplications per pixel, Fourier", "Σ sᵢ dᵢ nᵢ mᵢ over the irreps", f"{count(cost.fourier)}, {saving}"],
    ]
    warning = (
        ()
        if cost.parameters
        else (
            error_box(f"There is no equivariant map from `{a}` to `{b}` with this filter size: they share no irrep."),
        )
    )
    return tag(
        "div",
        tag("div", *boxes, class_="st-cards"),
        *warning,
        table(("", "how it is counted", ""), rows, class_="st-table", numbers=(2,)),
        note(
            "FLOPs are two per multiplication, on all pixels of one image. Fourier counts the products in the irreps' "
            "basis, not the additions that lead there and back: it says what is possible, not what a machine gains."
        ),
        tag("h3", "What the types are made of"),
        _capsule_table(("from", a), ("to", b)),
        class_="st-page",
    )


def _capsule_table(*types: tuple[str, FieldType]) -> Html:
    rows = [
        [role, copies, tag("b", str(capsule)), capsule.dim, str(capsule.type), admitted(capsule)]
        for role, field_type in types
        for capsule, copies in field_type.terms
    ]
    group = types[0][1].group
    heads = ("", "copies", "capsule", "channels", f"type ({', '.join(map(str, group.irreps))})", "admits")
    return table(heads, rows, class_="st-table", numbers=(1, 3))


def _flops(number: int) -> str:
    """In a unit that leaves few digits.

    >>> _flops(1_500_000)
    '1.5 MFLOP'
    """
    for exponent, prefix in ((12, "T"), (9, "G"), (6, "M"), (3, "k")):
        if number >= 10**exponent:
            return f"{number / 10**exponent:.3g} {prefix}FLOP"
    return f"{number} FLOP"


def add_cost_tab() -> None:
    """The tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    first, (source_text, target_text) = next(iter(EXAMPLES.items()))
    with gr.Tab("Cost", id="cost"):
        with gr.Row():
            group = gr.Dropdown(list(GROUPS), value="D4", label="Group", elem_id="cost-group", filterable=False)
            kernel = gr.Number(3, label="Filter size", minimum=1, precision=0, elem_id="cost-kernel")
            image = gr.Number(32, label="Image size", minimum=1, precision=0, elem_id="cost-image")
            example = gr.Dropdown(
                list(EXAMPLES), value=first, label="Examples for D4", elem_id="cost-example", filterable=False
            )
        with gr.Row():
            source = gr.Textbox(source_text, label="From", max_lines=1, max_length=_LONGEST_TEXT, elem_id="cost-source")
            target = gr.Textbox(target_text, label="To", max_lines=1, max_length=_LONGEST_TEXT, elem_id="cost-target")
        inputs: list[Any] = [group, source, target, kernel, image]
        page = gr.HTML(cost_page("D4", source_text, target_text, 3, 32), elem_id="cost-page")
        # Values are checked by the functions themselves, which say more than Gradio would.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "hidden", "preprocess": False}
        example.input(lambda name: EXAMPLES[name], example, [source, target], **quiet)
        gr.on([part.change for part in inputs], cost_page, inputs, page, trigger_mode="always_last", **quiet)
