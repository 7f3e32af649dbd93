"""Actions of groups on the plane or space: one orthogonal matrix per element, x to the right and y up."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from steerable.algebra.arrays import FloatArray, is_real, read_only, real_numbers
from steerable.algebra.metrics import TOLERANCE, is_orthogonal, snap
from steerable.algebra.motions_in_space import motion_of_space
from steerable.algebra.multiplication_tables import MultiplicationTable
from steerable.errors import listing

__all__ = [
    "checked_action",
    "checked_degrees",
    "checked_motion",
    "is_faithful",
    "motion_text",
    "moved_like",
    "on_array_axes",
    "on_grid",
    "planar_matrix",
    "turn",
]

_KEPT = 1e-12  # by how much the square of a length may change where a cosine or a sine is made exact


def checked_action(group: MultiplicationTable, matrices: ArrayLike) -> FloatArray:
    """(order, k, k): the matrices, after a check that they are orthogonal and multiply as the elements do."""
    action = real_numbers(matrices, "an action has one matrix of real numbers per element")
    if action.ndim != 3 or action.shape[0] != group.order or action.shape[1] != action.shape[2]:
        raise ValueError(f"an action has shape ({group.order}, k, k), one matrix per element; got {action.shape}.")
    if not is_orthogonal(action):
        raise ValueError("a group moves the plane or space by rotations and reflections: its matrices are orthogonal.")
    for s in [group.identity_index, *group.indices(group.generators)]:
        wrong = np.abs(action @ action[s] - action[group.table[:, s]]).max(axis=(1, 2)) > TOLERANCE
        if wrong.any():
            g = int(np.argmax(wrong))
            raise ValueError(
                f"the action is not a homomorphism: action(`{group.elements[g]}`) @ action(`{group.elements[s]}`) is "
                f"not action(`{group.elements[group.table[g, s]]}`)."
            )
    return read_only(snap(action))


def is_faithful(action: FloatArray) -> bool:
    """Whether every element but the identity moves some point."""
    moved = np.abs(action - np.eye(action.shape[1])).max(axis=(1, 2)) > TOLERANCE
    return int(moved.sum()) == len(action) - 1


def on_grid(action: FloatArray) -> NDArray[np.bool_]:
    """(order,): whether each matrix permutes the axes up to signs, so that it maps pixels onto pixels."""
    return np.asarray(np.isin(np.abs(action), (0.0, 1.0)).all(axis=(1, 2)))


def on_array_axes(action: FloatArray) -> FloatArray:
    """(n, k, k): the action of matrices (n, k, k) on the places of an array, (row, column) or (slice, row, column).

    x runs along the last axis; y and z run against the axes before it, since rows are counted downwards.
    """
    to_array = np.diag([1.0] + [-1.0] * (action.shape[1] - 1))[::-1]
    return np.asarray(to_array @ action @ to_array.T)


def planar_matrix(power: int, n: int, *, mirrored: bool = False) -> FloatArray:
    """The 2×2 matrix of r^power, or of m r^power, for rotations by multiples of 360°/n; exact at 0, ±1/2, ±1."""
    return turn(360 * (power % n) / n, mirrored=mirrored)


def turn(degrees: float, *, mirrored: bool = False) -> FloatArray:
    """The 2×2 matrix of a rotation counter-clockwise, or of m after that rotation; exact at 0, ±1/2, ±1."""
    angle = math.radians(degrees % 360)
    own = np.array([math.cos(angle), math.sin(angle)])
    near = snap(own)
    # Near 0° a cosine is 1 to nine digits long before the sine is 0; made exact alone it would change lengths.
    c, s = near if abs(near @ near - 1) < _KEPT else own
    rotation = np.array([[c, -s], [s, c]])
    return np.diag([-1.0, 1.0]) @ rotation + 0.0 if mirrored else rotation


def checked_degrees(value: object) -> float:
    """An angle in degrees; an error unless it is a finite number."""
    if not is_real(value):
        raise TypeError(f"an angle must be a number of degrees, such as 30; got {type(value).__name__} {value!r}.")
    if not math.isfinite(value):
        raise ValueError(f"an angle must be a finite number of degrees, such as 30; got {value!r}.")
    return float(value)


def checked_motion(name: str, axes: int | None, matrix: ArrayLike) -> FloatArray:
    """(axes, axes): an orthogonal matrix by which a group of that name may move the plane or space; an error if not."""
    m = real_numbers(matrix, f"an element of {name} is given by an orthogonal matrix")
    if axes is None:
        raise ValueError(f"{name} is abstract, and nothing says how its elements move anything; name one.")
    if m.shape != (axes, axes) or not np.isfinite(m).all() or not is_orthogonal(m[None]):
        what = "the plane" if axes == 2 else "space"
        raise ValueError(f"{name} moves {what} by orthogonal {axes}×{axes} matrices; got {m.tolist()}.")
    return m


def moved_like(group: MultiplicationTable, action: FloatArray | None, matrix: FloatArray) -> str:
    """The one element of a finite group that moves the plane or space by this matrix."""
    what = motion_text(matrix)
    if action is None:
        raise ValueError(f"{group.name} is abstract, and nothing says which of its elements is the {what}; name it.")
    if action.shape[1] != len(matrix):
        moves, remedy = (
            ("space and not the plane", "an axis, as in rotation((0, 0, 1), 90)")
            if len(matrix) == 2
            else ("the plane and not space", "an angle alone, as in rotation(90)")
        )
        raise ValueError(f"{group.name} moves {moves}, so it has no {what}; name an element, or give {remedy}.")
    found = group.names(np.flatnonzero(np.abs(action - matrix).max(axis=(1, 2)) <= TOLERANCE))
    if len(found) > 1:
        raise ValueError(f"{len(found)} elements of {group.name} are the {what}: {listing(found)}. Name one of them.")
    if not found:
        raise ValueError(f"{group.name} has no {what}: {_moves_instead(action)}")
    return found[0]


def _moves_instead(action: FloatArray) -> str:
    """What a group does, for a message about an element that it lacks, and what to use instead."""
    mirrors = "and mirrors it" if (np.linalg.det(action) < 0).any() else "and does not mirror it"
    turns = len(np.unique(np.round(action[np.linalg.det(action) > 0], 6), axis=0))
    how, larger = f"space in {turns} ways", "so3() has all rotations, and o3() all reflections too."
    if action.shape[1] == 2:
        how = f"the plane by multiples of {360 / turns:g}°"
        larger = "so2() has all rotations, and o2() all reflections too."
    return f"it turns {how} {mirrors}. Use an element that it has, or a larger group; {larger}"


def motion_text(matrix: FloatArray) -> str:
    """The motion of the plane or of space by an orthogonal matrix, in words."""
    if len(matrix) != 2:
        return motion_of_space(matrix)
    angle = math.degrees(math.atan2(matrix[1, 0], matrix[1, 1]))
    if np.linalg.det(matrix) > 0:
        return f"rotation by {angle % 360:g}°"
    return f"reflection in the line at {-angle / 2 % 180:g}° from the vertical"
