"""The Group tab: a group in tables and pictures."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from markupsafe import Markup

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule, quotient_name
from steerable.algebra.characters import character_table
from steerable.algebra.examples import capsules_to_show, elements_to_show
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.representations import Representation
from steerable.explorer.groups import GROUPS, admitted, checked_group
from steerable.explorer.images import InlineImage, figure_image, picture_image, shown_number, tinted
from steerable.explorer.messages import TEMPLATES, or_message
from steerable.figures.pictures import sailing_boat
from steerable.figures.tables import irreps_figure
from steerable.transforms import elements_on_the_grid, transform
from steerable.types.field_types import FieldType

__all__ = ["add_group_tab", "group_page"]

_SMALL = 16  # elements, up to which every matrix and every subgroup is listed
_MEMBERS = 8  # of a subgroup, up to which all are named


@or_message
def group_page(name: str) -> Markup:
    """Everything about one group."""
    group = checked_group(name)
    return _page(group) if isinstance(group, FiniteGroup) else _page_of_all_rotations(group)


@lru_cache(maxsize=len(GROUPS))
def _page(group: FiniteGroup) -> Markup:
    elements = group.elements if group.order <= _SMALL else tuple(group.generators)
    found = character_table(group)
    largest = float(np.abs(found.values).max())
    return TEMPLATES.render(
        "group.html",
        group=group,
        small_order=_SMALL,
        poses=_poses(group),
        on_grid=elements_on_the_grid(group),
        multiplication=[
            [(group.elements[p], f"hsl({360 * p / group.order:.0f} 65% 82%)") for p in products]
            for products in group.table
        ],
        character_heads=[f"{len(c)} × {c[0]}" if len(c) > 1 else c[0] for c in found.classes],
        characters=[
            (irrep, [tinted(float(v), largest, shown_number(float(v))) for v in values])
            for irrep, values in zip(found.irreps, found.values, strict=True)
        ],
        shown_elements=elements,
        irreps=[(irrep, [_matrix(irrep(g)) for g in elements]) for irrep in group.irreps],
        irreps_figure=figure_image(irreps_figure(group), f"the irreps of {group.name} as pictures"),
        subgroups=list(_subgroups(group)),
    )


@lru_cache(maxsize=len(GROUPS))
def _page_of_all_rotations(group: Group) -> Markup:
    """SO(2) and O(2): some elements, the first irreps and their products, and the first capsules."""
    elements, capsules = elements_to_show(group), capsules_to_show(group)
    irreps = [group.irrep(name) for name, capsule in capsules.items() if sum(capsule.type) == 1]
    return TEMPLATES.render(
        "compact_group.html",
        group=group,
        poses=_poses(group),
        on_grid=elements_on_the_grid(group),
        shown_elements=list(elements),
        irreps=[(irrep, [_matrix(irrep(g)) for g in elements.values()]) for irrep in irreps],
        products=[(str(a), [_as_irreps(a @ b) for b in irreps]) for a in irreps],
        capsules=[
            {
                "capsule": name,
                "channels": capsule.dim,
                "irreps": _as_irreps(capsule.representation),
                "admits": admitted(capsule),
            }
            for name, capsule in capsules.items()
        ],
    )


def _poses(group: Group) -> list[tuple[str, InlineImage]]:
    """The boat under every element that is shown; nothing for a group that does not move the plane."""
    if group.axes != 2:
        return []
    ink = torch.from_numpy(1 - sailing_boat(48).transpose(2, 0, 1))  # white is 0, as is what lies outside
    poses = []
    for name, element in elements_to_show(group).items():
        moved = 1 - transform(ink, element, FieldType(group, "3*A1")).numpy().transpose(1, 2, 0)
        poses.append((name, picture_image(moved, f"the boat under {name}", width=96)))
    return poses


def _subgroups(group: FiniteGroup) -> Iterator[dict[str, Any]]:
    """A row for each subgroup; if the group is large, for each class of conjugate subgroups."""
    for members in group.subgroups(up_to_conjugacy=group.order > _SMALL):
        name, quotient = quotient_name(group, members), group.quotient(members)
        named = " ".join(members[:_MEMBERS]) + (" …" if len(members) > _MEMBERS else "")
        yield {
            "members": f"{{{named}}}",
            "order": len(members),
            "capsule": name or "–",
            "channels": quotient.dim,
            "irreps": _as_irreps(quotient),
            "admits": admitted(Capsule(quotient, name or "quotient")),
        }


def _as_irreps(rho: Representation) -> str:
    """A sum of irreps as text, such as ``A + 2·E1``."""
    irreps = zip(rho.type, rho.group.irreps_of(rho.type), strict=True)
    return " + ".join(str(irrep) if m == 1 else f"{m}·{irrep}" for m, irrep in irreps if m)


def _matrix(values: FloatArray) -> list[list[str]]:
    return [[shown_number(float(value)) for value in row] for row in values]


def add_group_tab() -> None:
    """Add the tab's controls; called inside ``gr.Blocks``."""
    import gradio as gr

    with gr.Tab("Group", id="group"):
        choice = gr.Radio(list(GROUPS), value="D4", label="Group", elem_id="group-choice")
        page = gr.HTML(group_page("D4"), elem_id="group-page")
        # The name is checked by the function itself.
        choice.change(group_page, choice, page, api_visibility="private", show_progress="minimal", preprocess=False)
