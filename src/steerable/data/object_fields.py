"""The fields that a network learns for numbered objects: inside, boundary, and a vector to the centre, per pixel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.types.field_types import FieldType

__all__ = ["PARTS", "InstanceFields", "instance_fields", "instance_type"]

PARTS = ("background", "inside", "boundary")
"""The parts that a pixel may belong to; a network gives a score to each, and a vector as well."""
BACKGROUND, INSIDE, BOUNDARY = range(len(PARTS))
RADIUS = 4.0  # what a vector as long as the radius of its object measures
PIXEL = 1 / 6  # the mean squared distance from the centre of a pixel to what it covers


class InstanceFields(NamedTuple):
    """Parts, int64 (batch, height, width) with numbers of ``PARTS``, and vectors (batch, 2, height, width).

    A vector is (x to the right, y up) and points from a pixel to the centre c of its object, which is the mean of the
    object's pixels: 4 (c - p) / r. Its unit is a quarter of the object's own radius, r² = mean |c - p|² + 1/6, so that
    objects of every size have vectors of the same lengths, and following them takes small steps. It is 0 in the
    background.
    """

    parts: Tensor
    vectors: Tensor


def instance_fields(numbers: Tensor) -> InstanceFields:
    """The parts and vectors of label images, whole numbers (batch, height, width) with 0 for the background.

    A pixel of an object is on its boundary if one of its eight neighbours belongs to something else. The fields of a
    turned or mirrored label image are the turned or mirrored fields, exactly: parts stay, and vectors turn with it.

    >>> parts, vectors = instance_fields(torch.tensor([[[7, 7, 7, 0, 0]]]))
    >>> parts.tolist(), [round(x, 3) for x in vectors[0, 0, 0].tolist()]
    ([[[1, 1, 2, 0, 0]]], [4.382, 0.0, -4.382, 0.0, 0.0])
    """
    found = numbers > 0
    parts = found.long() * INSIDE
    parts[found & _is_next_to_another(numbers)] = BOUNDARY
    image, row, column = found.nonzero(as_tuple=True)
    batch, height, width = numbers.shape
    # Counted from the middle of the image in halves of pixels, coordinates are whole numbers, and their sums are exact.
    places = (2 * column - (width - 1)).double(), ((height - 1) - 2 * row).double()
    most = int(numbers.max()) + 1 if numbers.numel() else 1
    index = image * most + numbers[found]
    size = torch.bincount(index, minlength=batch * most).clamp_min(1).double()
    offsets = [(_sums(place, index, size)[index] / size[index] - place) / 2 for place in places]
    squares = offsets[0] * offsets[0] + offsets[1] * offsets[1]
    # Rounded to a grid, squares have exact sums, which do not depend on the order of pixels.
    radius = (_sums((squares * 2**20).round() / 2**20, index, size) / size + PIXEL).sqrt()[index]
    vectors = torch.zeros(2, *numbers.shape, device=numbers.device)
    vectors[:, found] = torch.stack([RADIUS * offset / radius for offset in offsets]).float()
    return InstanceFields(parts, vectors.transpose(0, 1))


def _sums(values: Tensor, index: Tensor, like: Tensor) -> Tensor:
    return torch.zeros_like(like).index_add_(0, index, values)


def instance_type(group: Group | str) -> FieldType:
    """The type of a network's output for numbered objects: three scores, and a vector that turns with the image.

    >>> str(instance_type("D4")), str(instance_type("C8"))
    ('3*A1 + E', '3*A + E1')
    """
    group = group_named(group) if isinstance(group, str) else group
    scores = f"{len(PARTS)}*{group.trivial.name}"
    if not isinstance(group, FiniteGroup):
        return FieldType(group, f"{scores} + E1")
    if group.action is not None and group.action.shape[1] == 2:
        vectors = [str(irrep.name) for irrep in group.irreps if np.array_equal(irrep.matrices, group.action)]
        if not vectors and not group.action[:, 0, 1].any():  # turns by 180° and mirror images keep the axes
            axes = [group.action[:, k, k] for k in range(2)]
            lines = [(str(irrep.name), irrep.matrices[:, 0, 0]) for irrep in group.irreps if irrep.dim == 1]
            vectors = [name for axis in axes for name, values in lines if np.array_equal(values, axis)]
        found = FieldType(group, " + ".join([scores, *vectors]))
        if found.channels == len(PARTS) + 2 and np.array_equal(
            found.representation.matrices[:, -2:, -2:], group.action
        ):
            return found
    raise ValueError(
        f"objects that are numbered need a vector at each pixel, and the channels of {group.name} cannot hold one "
        "beside the scores. Use another group, such as D4 or C4."
    )


def _is_next_to_another(numbers: Tensor) -> Tensor:
    """Whether one of the eight neighbours inside the image has another number."""
    height, width = numbers.shape[1:]
    other = torch.zeros_like(numbers, dtype=torch.bool)
    for down, right in ((0, 1), (1, 0), (1, 1), (1, -1)):
        here = ..., slice(0, height - down), slice(max(0, -right), width - max(0, right))
        there = ..., slice(down, height), slice(max(0, right), width - max(0, -right))
        differs = numbers[here] != numbers[there]
        other[here] |= differs
        other[there] |= differs
    return other
