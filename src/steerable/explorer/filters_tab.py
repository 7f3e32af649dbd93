"""The Filters tab: all equivariant filters between two capsules, their number with its derivation, and every pose.

Groups that the pixel grid does not carry have the most steerable filters up to a leak, which is drawn under each.
Filters of volumes are shown as slices.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from markupsafe import Markup

from steerable.algebra.capsules import Capsule
from steerable.algebra.examples import capsules_to_show
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.intertwiners import SparseBasis
from steerable.explorer.groups import FILTER_GROUPS, capsule_names, checked_group, filter_group
from steerable.explorer.images import figure_image, shown_number
from steerable.explorer.messages import MISTAKES, TEMPLATES, checked_number, error_box, or_message
from steerable.figures.filter_spaces import filter_space_figure
from steerable.figures.filters import filter_poses_figure, kernel_basis_figure, patch_basis_figure
from steerable.filters import FilterSpace, filter_space, sparse_kernel_basis
from steerable.filters.space_arguments import as_filter_space
from steerable.filters.steerable_filters import DEFAULT_LEAK

__all__ = ["LARGEST_KERNEL", "add_filters_tab", "filter_count", "filters_page", "poses_page"]

LARGEST_KERNEL = 7
LARGEST_IN_SPACE = 3  # whose slices fit a page
LEAKS = (0.003, 0.01, DEFAULT_LEAK, 0.05, 0.1)
_DRAWN = 36


def filter_count(group: str, source: str, target: str, size: int, leak: float = DEFAULT_LEAK) -> int:
    """The number of equivariant filters, dim Hom_H(V ⊗ ρ_in, ρ_out)."""
    a, b = _capsules(group, source, target)
    return _basis(a, b, _space(a, size, leak)).count


@or_message
def filters_page(group: str, source: str, target: str, size: int, leak: float = DEFAULT_LEAK) -> Markup:
    """The dimension, the sum of characters that gives it, and the filters themselves."""
    a, b = _capsules(group, source, target)
    space = _space(a, size, leak)
    rho_v, what = space.representation, "the patch" if space.is_pixel_patch else "the filters"
    finite = isinstance(a.group, FiniteGroup)  # the sum over an infinite group is an integral, which no table shows
    factors = [(f"χ of {what}", rho_v), (f"χ of {a}", a.representation), (f"χ of {b}", b.representation)]
    products = np.prod([rho.character for _, rho in factors], axis=0) if finite else np.zeros(0)
    incoming = (rho_v @ a.representation).type
    irreps = a.group.irreps_of(max(incoming, b.type, key=len))
    from_image = a.representation.is_trivial and a.dim == 1 and space.size[0] <= 5
    return TEMPLATES.render(
        "filters.html",
        group=a.group,
        irreps=irreps,
        source=a,
        target=b,
        size="×".join(map(str, space.size)),
        space=space,
        count=_basis(a, b, space).count,
        characters=[(name, [shown_number(v) for v in rho.character]) for name, rho in factors] if finite else [],
        products=[shown_number(v) for v in products],
        total=shown_number(float(np.sum(products))),
        incoming=incoming,
        terms=[
            " · ".join(map(str, ([irrep.commutant_dim] if irrep.commutant_dim > 1 else []) + [m, n]))
            for irrep, m, n in zip(irreps, incoming, b.type, strict=False)
            if m and n
        ],
        filters=figure_image(kernel_basis_figure(a, b, space, limit=_DRAWN), f"filters from {a} to {b}"),
        patch_filters=figure_image(patch_basis_figure(a.group, size), "the basis filters of a patch, by irrep")
        if from_image and space.is_pixel_patch
        else None,
        turned_filters=figure_image(filter_space_figure(space), "the filters, by angular frequency, with their leaks")
        if space.harmonics
        else None,
    )


@or_message
def poses_page(group: str, source: str, target: str, size: int, number: int, leak: float = DEFAULT_LEAK) -> Markup:
    """Filter ``number``, counted from 1, under every element."""
    a, b = _capsules(group, source, target)
    space = _space(a, size, leak)
    count = _basis(a, b, space).count
    if not count:
        return TEMPLATES.render("note.html", text="There is no filter to turn.")
    chosen = checked_number(number, "the filter's number", 1, count)
    image = figure_image(filter_poses_figure(a, b, space, chosen - 1), f"filter {chosen} in every pose")
    return TEMPLATES.render("figure.html", image=image)


def _capsules(group: str, source: str, target: str) -> tuple[Capsule, Capsule]:
    found = filter_group(group)
    return found.capsule(source), found.capsule(target)


def _space(capsule: Capsule, size: float, leak: float) -> FilterSpace:
    """All pixel filters if the grid carries the group; otherwise the filters up to the leak."""
    largest = LARGEST_KERNEL if capsule.group.axes == 2 else LARGEST_IN_SPACE
    chosen = checked_number(size, "the filter's size", 1, largest)
    space = as_filter_space(capsule.group, chosen)
    return space if space.is_pixel_patch else filter_space(capsule.group, chosen, leak)


def _basis(a: Capsule, b: Capsule, space: FilterSpace) -> SparseBasis:
    return sparse_kernel_basis(a.representation, b.representation, space)


def _vectors(group: str) -> str:
    """The first of the largest irreps, mostly the vectors; the last irrep if all have dimension 1."""
    irreps = {name: c.dim for name, c in capsules_to_show(checked_group(group)).items() if sum(c.type) == 1}
    largest = max(irreps.values())
    return next(name for name in irreps if irreps[name] == largest) if largest > 1 else list(irreps)[-1]


def add_filters_tab() -> None:
    """Add the tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    choice = partial(gr.Dropdown, filterable=False)
    start = ("D4", "A1", "E", 3)

    def for_group(group: str) -> tuple[Any, Any]:
        names = capsule_names(group)
        return gr.update(choices=names, value=names[0]), gr.update(choices=names, value=_vectors(group))

    def show(group: str, source: str, target: str, size: int, number: float | None, leak: float) -> tuple[Markup, Any]:
        try:
            count = filter_count(group, source, target, size, leak)
        except MISTAKES as error:
            return error_box(error), gr.update()
        # The number changes only if it must: what somebody types while this is on its way is kept.
        bounds: dict[str, Any] = {"maximum": max(count, 2), "interactive": count > 1}
        if number is None or number > count:
            bounds["value"] = max(count, 1)
        return filters_page(group, source, target, size, leak), gr.update(**bounds)

    with gr.Tab("Filters", id="filters"):
        with gr.Row():
            group = choice(list(FILTER_GROUPS), value=start[0], label="Group", elem_id="filters-group")
            names = capsule_names(start[0])
            source = choice(names, value=start[1], label="From capsule", elem_id="filters-source")
            target = choice(names, value=start[2], label="To capsule", elem_id="filters-target")
            size = gr.Slider(1, LARGEST_KERNEL, value=start[3], step=1, label="Filter size", elem_id="filters-size")
            leak = choice(list(LEAKS), value=DEFAULT_LEAK, label="Largest leak, off the grid", elem_id="filters-leak")
        page = gr.HTML(filters_page(*start), elem_id="filters-page")
        number = gr.Slider(
            1, filter_count(*start), value=1, step=1, label="This filter in every pose", elem_id="filters-number"
        )
        poses = gr.HTML(poses_page(*start, 1), elem_id="filters-poses")
        inputs, outputs = [group, source, target, size, number, leak], [page, number]
        # Values are checked by the functions themselves, which say more than Gradio would.
        quiet: dict[str, Any] = {"api_visibility": "private", "show_progress": "minimal", "preprocess": False}
        last: dict[str, Any] = {**quiet, "trigger_mode": "always_last"}
        # Two groups may have capsules of the same names, and then nothing but the group changes.
        regrouped = group.input(for_group, group, [source, target], **quiet).then(show, inputs, outputs, **quiet)
        chosen = gr.on([source.input, target.input, size.change, leak.input], show, inputs, outputs, **last)
        for event in (regrouped, chosen):
            event.then(poses_page, inputs, poses, **quiet)
        number.input(poses_page, inputs, poses, **last)
