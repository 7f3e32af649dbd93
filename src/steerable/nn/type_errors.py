"""The reasons why two fields may not be added, in words."""

from __future__ import annotations

import contextlib

import numpy as np

from steerable.algebra.characters import inner_product
from steerable.filters.pixel_grids import movers
from steerable.types.costs import parameter_cost
from steerable.types.field_types import FieldType

__all__ = ["bridge", "mismatch"]


def mismatch(a: FieldType, b: FieldType) -> str:
    """The message for an addition of fields of different types, with the reason and the remedy."""
    opening = f"cannot add a field of type `{b}` to one of type `{a}`"
    if a.group != b.group:
        groups = f"{b.group.name} acts on the one, {a.group.name} on the other"
        return f"{opening}: {groups}. Use `snn.Restrict` on one of them."
    remedy = f"map one onto the other with `{bridge(a, b)}`"
    return f"{opening}: {_reason(a, b)}. Only identical capsules may be added; {remedy}."


def bridge(a: FieldType, b: FieldType) -> str:
    """The smallest convolution that is not zero from one type to another of the same group."""
    size = 1
    if inner_product(a.character, b.character) < 0.5:  # no common irrep: a wider kernel, from A1 to A2 one of 5×5
        with contextlib.suppress(ValueError):  # the group moves no pixels
            size = next((k for k in (3, 5) if parameter_cost(a, b, k)), 1)
    return f"snn.Conv{a.group.axes or 2}d({a}, {b}, {size})"


def _reason(a: FieldType, b: FieldType) -> str:
    if a.channels != b.channels:
        return f"they have {a.channels} and {b.channels} channels"
    for element in movers(a.group):
        if not np.allclose(a.representation(element), b.representation(element), atol=1e-9):
            return f"`{element}` moves their channels differently"
    return "their capsules divide the same channels differently"
