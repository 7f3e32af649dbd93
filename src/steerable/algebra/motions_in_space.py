"""Motions of space: rotations by axis and angle, reflections by their normal, and the motion of a matrix in words.

Coordinates are x to the right, y up, z towards the viewer. Rotations are counter-clockwise where their axis points at
the viewer, so that one about z moves x and y as a rotation of the plane does.
"""

from __future__ import annotations

import itertools
import math

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray
from steerable.algebra.metrics import snap

__all__ = [
    "about_z",
    "axis_and_angle",
    "checked_direction",
    "motion_of_space",
    "reflection_matrix",
    "rotation_matrix",
    "signed_permutations",
    "straightened",
]

_AXES = {"x": (1.0, 0.0, 0.0), "y": (0.0, 1.0, 0.0), "z": (0.0, 0.0, 1.0)}

# Entries that rounding alone keeps from 0, ±1/2 and ±1.
_ROUNDING = 1e-14


def checked_direction(value: ArrayLike, what: str = "an axis") -> FloatArray:
    """(3,): a vector of length 1; an error unless it was given as three finite numbers, not all 0, or as x, y or z."""
    given = _AXES.get(value) if isinstance(value, str) else value
    expected = f"{what} is three numbers such as (0, 0, 1), or 'x', 'y' or 'z'; got {value!r}."
    try:
        vector = np.array(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise TypeError(expected) from None
    if vector.shape != (3,) or given is None:
        raise ValueError(expected)
    if not np.isfinite(vector).all():
        raise ValueError(f"{what} has finite coordinates; got {value!r}.")
    largest = np.abs(vector).max()
    if largest == 0:
        raise ValueError(f"{what} has a direction, which (0, 0, 0) does not have. Use (0, 0, 1) for z.")
    vector = vector / largest
    return np.asarray(vector / np.linalg.norm(vector))


def rotation_matrix(axis: ArrayLike, degrees: float) -> FloatArray:
    """(3, 3): the rotation about an axis; 1 + sin θ [n]× + (1 - cos θ) [n]×².

    >>> rotation_matrix("z", 90).astype(int).tolist()
    [[0, -1, 0], [1, 0, 0], [0, 0, 1]]
    """
    x, y, z = checked_direction(axis)
    angle = math.radians(math.remainder(degrees, 360))
    cross = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    return straightened(np.eye(3) + math.sin(angle) * cross + 2 * math.sin(angle / 2) ** 2 * (cross @ cross))


def reflection_matrix(normal: ArrayLike) -> FloatArray:
    """(3, 3): the reflection in the plane through the origin that is orthogonal to the normal, 1 - 2nnᵀ."""
    n = checked_direction(normal, "the normal of a mirror")
    return straightened(np.eye(3) - 2 * np.outer(n, n))


def about_z(matrices: FloatArray, *, proper: bool = False) -> FloatArray:
    """(…, 3, 3): motions of the plane as motions of space that keep z.

    With ``proper`` a reflection of the plane also turns z over, which makes it a rotation by 180° about its line.
    """
    spatial = np.zeros((*matrices.shape[:-2], 3, 3))
    spatial[..., :2, :2] = matrices
    spatial[..., 2, 2] = np.round(np.linalg.det(matrices)) if proper else 1.0
    return spatial


def signed_permutations() -> list[FloatArray]:
    """The 48 matrices that permute the axes up to signs: all motions that map voxels onto voxels."""
    return [
        np.diag(signs) @ np.eye(3)[list(order)]
        for order in itertools.permutations(range(3))
        for signs in itertools.product((1.0, -1.0), repeat=3)
    ]


def straightened(matrix: FloatArray) -> FloatArray:
    """The nearest orthogonal matrix to one that is orthogonal up to rounding errors; exact at 0, ±1/2 and ±1."""
    for _ in range(2):  # Newton's method for the polar decomposition, which squares the error
        matrix = matrix @ (3 * np.eye(3) - matrix.T @ matrix) / 2
    return snap(matrix, _ROUNDING)


def axis_and_angle(rotation: FloatArray) -> tuple[FloatArray, float]:
    """The unit axis, and the angle in degrees from 0 to 180. At 180° the last coordinate that is not 0 is positive."""
    turning = np.array([rotation[2, 1], rotation[0, 2], rotation[1, 0]]) - rotation[[1, 2, 0], [2, 0, 1]]
    sine, cosine = np.linalg.norm(turning) / 2, (np.trace(rotation) - 1) / 2
    angle = math.degrees(math.atan2(sine, cosine))
    if sine < 1e-12 and cosine > 0:
        return np.array(_AXES["z"]), 0.0
    if cosine > 0:
        return turning / np.linalg.norm(turning), angle
    projector = (rotation + rotation.T) / 2 - cosine * np.eye(3)  # (1 - cos θ) n nᵀ
    axis = projector[:, int(np.argmax(np.diag(projector)))]
    axis = axis / np.linalg.norm(axis)
    last = axis[np.flatnonzero(np.abs(axis) > 1e-9)[-1]]
    return (axis if (axis @ turning if sine > 1e-9 else last) > 0 else -axis), angle


def motion_of_space(matrix: FloatArray) -> str:
    """An orthogonal 3×3 matrix as text: ``rotation((0, 0, 1), 30)``, ``reflection((1, 0, 0))`` or ``inversion``.

    All others are the inversion x ↦ -x after a rotation: ``inversion·rotation((0, 0, 1), 30)``.
    """
    mirrored = bool(np.linalg.det(matrix) < 0)
    axis, angle = axis_and_angle(-matrix if mirrored else matrix)
    direction = f"({', '.join(f'{c:g}' for c in np.round(axis, 6) + 0.0)})"
    if not mirrored:
        return f"rotation({direction}, {angle:g})"
    if angle < 1e-9:
        return "inversion"
    return f"reflection({direction})" if 180 - angle < 1e-9 else f"inversion·rotation({direction}, {angle:g})"
