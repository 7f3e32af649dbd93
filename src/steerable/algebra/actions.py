"""How a finite group moves the plane or space: one orthogonal matrix per element."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.metrics import TOLERANCE, is_orthogonal, snap
from steerable.algebra.multiplication_tables import MultiplicationTable

__all__ = ["checked_action", "is_faithful"]


def checked_action(group: MultiplicationTable, matrices: ArrayLike) -> FloatArray:
    """(order, k, k): the matrices, after a check that they are orthogonal and multiply as the elements do."""
    action = np.array(matrices, dtype=np.float64)
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
    """Whether no element but the identity leaves every point where it is."""
    moved = np.abs(action - np.eye(action.shape[1])).max(axis=(1, 2)) > TOLERANCE
    return int(moved.sum()) == len(action) - 1
