"""Numbered objects from a network's answer at each pixel: pixels follow vectors, and meet in one object.

Everything after the first rounding is done with whole numbers. The objects of a turned or mirrored output are therefore
the turned or mirrored objects, exactly, up to their numbering.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.data.instance_merging import merged_parts
from steerable.data.object_fields import BACKGROUND, INSIDE, PARTS, RADIUS
from steerable.data.regions import Regions, connected_regions

__all__ = ["Course", "courses", "grown_instances"]

Whole = npt.NDArray[np.int16]
Places = npt.NDArray[np.int32]
Course = npt.NDArray[np.int8]
"""(3, height, width): the part that a pixel belongs to, and its vector to the right and down in 1/32 of a radius."""

FINENESS = 32
HALT = 4  # of these: so near to the centre along an axis, an eighth of the radius, a pixel does not move along it
DOUBLINGS = 12  # paths of up to 4,096 pixels are followed to their ends
SMALLEST = 8  # pixels; what is smaller is not an object
JUMP = 2  # of these, a sixteenth of a radius: what vectors on both sides of a border between objects differ by


def courses(fields: Tensor) -> Course:
    """The part and the direction of each pixel from scores and a vector, (5, height, width), pixel by pixel.

    A pixel belongs to an object where the probability of the background is below 1/2.
    """
    scores, vectors = fields.float().split([len(PARTS), 2])
    chosen = scores[INSIDE:].argmax(0) + INSIDE
    part = torch.where(torch.logsumexp(scores[INSIDE:], 0) > scores[BACKGROUND], chosen, BACKGROUND)
    # Rounded in the same way to both sides; an image's rows are counted downwards.
    rounded = (vectors.sign() * (vectors.abs() * (FINENESS / RADIUS) + 0.5).floor()).clamp(-127, 127).nan_to_num()
    return torch.stack([part, rounded[0], -rounded[1]]).to(torch.int8).numpy()


def grown_instances(course: Course, smallest: int = SMALLEST, jump: int = JUMP) -> tuple[Regions, int]:
    """Number the objects, int32 (height, width) with 0 for the background, and count them.

    Every pixel of an object goes step by step towards the centre. Where paths end, next to each other, is one centre,
    and all pixels that get there are one part of an object. Noise makes several parts of an object; see
    :func:`~steerable.data.instance_merging.merged_parts` for how they are united. What is not connected is not one
    object.

    Args:
        course: what :func:`courses` gives, of a whole image.
        smallest: objects of fewer pixels are left out.
        jump: by how much vectors on both sides of a border between objects differ at least, in 1/32 of a radius.
    """
    part = course[0]
    found = part != BACKGROUND
    ends = _ends(course, found)
    is_end = np.zeros(part.size, bool)
    is_end[ends] = True
    centres, _ = connected_regions(is_end.reshape(part.shape), diagonal=True)
    numbers = np.zeros(part.shape, np.int32)
    numbers[found] = centres.ravel()[ends]
    parts, _ = connected_regions(numbers, diagonal=True)
    objects, count = connected_regions(merged_parts(parts, course[1:], jump, smallest), diagonal=True)
    kept = np.bincount(objects.ravel(), minlength=count + 1) >= smallest
    kept[0] = False
    order = np.where(kept, np.cumsum(kept), 0).astype(np.int32)
    return order[objects], int(kept.sum())


def _ends(course: Course, found: npt.NDArray[np.bool_]) -> Places:
    """The end of the path of each pixel of an object: the place in the image, counted row by row.

    A pixel goes by its own vector and, with the same weight, the mean of those around it: a network that is sure on the
    whole may be wrong here and there.
    """
    height, width = found.shape
    here = np.flatnonzero(np.pad(found, 1))  # places in an image that has a rim, which belongs to no object
    place = np.full((height + 2) * (width + 2), -1, np.int32)  # nobody steps out of the objects, nor out of the image
    place[here] = np.arange(len(here))
    follow = np.arange(len(here), dtype=np.int32)
    waits = np.ones(len(here), bool)
    near = _with_neighbours(found.astype(np.int16))[found]
    x, y = (_with_neighbours(np.where(found, vectors, 0).astype(np.int16))[found] for vectors in course[1:])
    for right, down in _preferences(x, y, HALT * near):
        there = place[here + (width + 2) * down.astype(np.int64) + right]
        goes = waits & (there >= 0)
        follow[goes] = there[goes]
        waits &= ~goes
    for _ in range(DOUBLINGS):
        further = follow[follow]
        if np.array_equal(further, follow):
            break
        follow = further
    ends: Places = np.flatnonzero(found).astype(np.int32)[follow]
    return ends


def _with_neighbours(values: Whole) -> Whole:
    """The sum over each pixel, eight times, and its eight neighbours, as far as they lie inside the image."""
    sums = values
    for axis in range(2):
        padded = np.pad(sums, [(1, 1) if side == axis else (0, 0) for side in range(2)])
        first, middle, last = (np.take(padded, range(k, k + values.shape[axis]), axis) for k in range(3))
        sums = first + middle + last
    return sums + 7 * values


def _preferences(x: Whole, y: Whole, halt: Whole) -> Iterator[tuple[Whole, Whole]]:
    """The steps to try one after another: in the direction of (x, y), then on one side of it, then on the other.

    Along an axis in which (x, y) is shorter than ``halt``, nobody moves at first.
    """
    wide, high = np.abs(x), np.abs(y)
    right, down = np.sign(x), np.sign(y)
    moves_x, moves_y = wide >= halt, high >= halt
    yield right * moves_x, down * moves_y
    both = moves_x & moves_y
    stays = ~(moves_x | moves_y)
    along_x = wide > high  # where neither is larger, no step beside this one is nearer than the other
    along_y = high > wide
    yield right * np.where(both, along_x, ~stays), down * np.where(both, along_y, ~stays)
    yield (
        right * np.where(both, along_y, np.where(moves_x, 1, -1) * ~stays),
        down * np.where(both, along_x, np.where(moves_y, 1, -1) * ~stays),
    )
