"""Lines through the centre of space, and motions of the plane across such a line as motions of space."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import final

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.metrics import TOLERANCE, snap
from steerable.algebra.motions_in_space import about_z, checked_direction, rotation_matrix

__all__ = ["Line", "axis_in", "line_along"]

_NAMED = {(1.0, 0.0, 0.0): "x", (0.0, 1.0, 0.0): "y", (0.0, 0.0, 1.0): "z"}


@final
@dataclass(frozen=True)
class Line:
    """A directed line; the plane across it is seen from the side that it points to.

    Attributes:
        direction: its unit vector.
        label: how it is called in text, from which it can be read again; it does not count where lines are compared.
        flips: what reflections of the plane become: mirrors of space whose planes contain the line, or with
            ``flips=True`` turns by 180° about lines across it.
    """

    direction: tuple[float, float, float]
    label: str = field(compare=False)
    flips: bool = False

    @cached_property
    def frame(self) -> FloatArray:
        """(3, 3): a rotation that takes z to the line; it permutes x, y and z if the line is one of them."""
        axis = np.array(self.direction)
        if np.abs(axis).max() == 1:
            k = int(np.argmax(np.abs(axis)))
            turned = np.roll(np.eye(3), k + 1, axis=0)
            return read_only(turned if axis[k] > 0 else turned @ np.diag([1.0, -1, -1]))
        across = np.cross([0.0, 0, 1], axis)
        return read_only(rotation_matrix(across, math.degrees(math.atan2(float(np.linalg.norm(across)), axis[2]))))

    def in_space(self, planar: FloatArray) -> FloatArray:
        """(…, 3, 3): motions (…, 2, 2) of the plane as motions of space."""
        return snap(self.frame @ about_z(planar, proper=self.flips) @ self.frame.T)

    def across(self, motions: FloatArray) -> tuple[FloatArray, FloatArray] | None:
        """(…, 2, 2) and (…,): motions (…, 3, 3) in the plane across the line, and 1 or -1 along it.

        None if a motion does not keep the line. Whether reflections flip the line plays no part.
        """
        seen = self.frame.T @ motions @ self.frame
        along = np.round(seen[..., 2, 2])
        if np.abs(seen[..., 2, 2] - along).max(initial=0) > TOLERANCE or (along == 0).any():
            return None
        return seen[..., :2, :2], along

    def __str__(self) -> str:
        return f"about {self.label}{' with flips' if self.flips else ''}"


def axis_in(label: str) -> ArrayLike:
    """The axis in a line's label, from which :func:`line_along` makes the line again."""
    return label if label in ("x", "y", "z") else [float(number) for number in label.strip("()").split(",")]


def line_along(axis: ArrayLike, *, flips: bool = False) -> Line:
    """The line along a vector such as ``(0, 0, 1)``, of any length, or along ``"x"``, ``"y"`` or ``"z"``.

    >>> line_along("x").frame.astype(int).tolist()
    [[0, 0, 1], [1, 0, 0], [0, 1, 0]]
    """
    x, y, z = checked_direction(axis).tolist()
    if (x, y, z) in _NAMED:
        return Line((x, y, z), _NAMED[x, y, z], bool(flips))
    given = (repr(c).removesuffix(".0") for c in np.asarray(axis, dtype=np.float64).tolist())
    return Line((x, y, z), f"({', '.join(given)})", bool(flips))
