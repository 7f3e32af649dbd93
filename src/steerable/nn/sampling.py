"""Which sampled grids are symmetric: when a stride, a window or a padding keeps a layer exactly equivariant.

A window of extent k slides over n + 2p pixels in steps of s. The positions that it visits are symmetric about the
image's centre when nothing is left over: (n + 2p - k) mod s = 0. Only axes that some element of the group reverses
need this.
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.groups import FiniteGroup
from steerable.nn.channels import hides_shapes
from steerable.nn.module import EquivariantModule

__all__ = ["EquivarianceWarning", "SamplingGuard", "axes_reversed", "axes_swapped", "pads_alike", "pair"]


class EquivarianceWarning(UserWarning):
    """Something is not exactly equivariant; the message says what, and what to do."""


def pair(value: int | Sequence[int], what: str, *, minimum: int) -> tuple[int, int]:
    """(height, width) from one number or two, checked."""
    values = tuple(value) if isinstance(value, Sequence) else (value, value)
    if len(values) != 2 or any(isinstance(v, bool) or not isinstance(v, int | np.integer) for v in values):
        raise TypeError(f"{what} is a whole number or a pair of them, got {value!r}.")
    if min(values) < minimum:
        raise ValueError(f"{what} is at least {minimum}, got {value!r}.")
    return int(values[0]), int(values[1])


def axes_reversed(group: FiniteGroup) -> tuple[bool, bool]:
    """(rows, columns): whether some element runs along that axis of the array backwards."""
    matrices = _array_matrices(group)
    return bool((matrices[:, :, 0] < -0.5).any()), bool((matrices[:, :, 1] < -0.5).any())


def axes_swapped(group: FiniteGroup) -> bool:
    """Whether some element exchanges rows and columns."""
    return bool((np.abs(_array_matrices(group)[:, 0, 1]) > 0.5).any())


def pads_alike(group: FiniteGroup, sides: Sequence[int]) -> bool:
    """Whether a padding, (left, right, top, bottom), adds as much on sides that the group exchanges.

    >>> from steerable import dihedral
    >>> main_diagonal = dihedral(4).subgroup(["e", "mr3"])
    >>> pads_alike(main_diagonal, (1, 2, 1, 2)), pads_alike(main_diagonal, (1, 2, 1, 0))
    (True, False)
    """
    left, right, top, bottom = sides
    widths = {(-1, 0): top, (1, 0): bottom, (0, -1): left, (0, 1): right}  # by outward direction, (row, column)
    return all(
        widths[tuple(np.rint(g @ side))] == width for g in _array_matrices(group) for side, width in widths.items()
    )


def _array_matrices(group: FiniteGroup) -> np.ndarray:
    """(order, 2, 2): the action on (row, column), row downwards; a layer on images needs a group that moves pixels."""
    action = group.action
    if action is None or action.shape[1] != 2 or not np.isin(np.abs(action), (0.0, 1.0)).all():
        raise ValueError(
            f"{group.name} does not map the pixel grid onto itself, so that no layer on images is exactly equivariant "
            "to it. Use C1, C2, C4, D1, D2 or D4."
        )
    to_array = np.array([[0.0, -1.0], [1.0, 0.0]])  # (x, y) -> (row, column) = (-y, x)
    return np.asarray(to_array @ action @ to_array.T)


class SamplingGuard:
    """What a layer with windows knows of its grid: refuses what never fits, warns of sizes that do not."""

    def __init__(
        self,
        owner: EquivariantModule,
        group: FiniteGroup,
        extent: tuple[int, int],
        stride: tuple[int, int],
        padding: tuple[int, int],
        *,
        strict: bool,
        remedy: str,
        mirrored: bool = False,
    ) -> None:
        if axes_swapped(group):
            for what, value in (("kernel", extent), ("stride", stride), ("padding", padding)):
                if value[0] != value[1]:
                    raise ValueError(
                        f"{type(owner).__name__}: {group.name} exchanges height and width, so that the {what} has one "
                        f"extent for both; got {value}."
                    )
        self.owner_name = type(owner).__name__
        self.types = f"`{owner.in_type}` to `{owner.out_type}`"  # to find it in a network of many
        self.group_name = group.name
        self.extent, self.stride, self.padding = extent, stride, padding
        self.reversed = axes_reversed(group)
        self.strict = strict
        self.mirrored = mirrored  # padding by reflection needs something to reflect
        self.remedy = remedy
        self.warned: set[tuple[int, ...]] = set()

    def check(self, x: Tensor) -> None:
        """Raise where the window does not fit at all, warn once per size (or raise) where the grid is not symmetric."""
        if hides_shapes(x):
            return
        if torch.compiler.is_compiling() and not self.strict:
            return
        size = (int(x.shape[-2]), int(x.shape[-1]))
        for axis, name in enumerate(("height", "width")):
            n, k, s, p = size[axis], self.extent[axis], self.stride[axis], self.padding[axis]
            if n + 2 * p < k:
                raise ValueError(
                    f"{self.owner_name}: the kernel spans {k} pixels but the padded {name} is only {n + 2 * p} ({n} + "
                    f"2·{p}). Use a larger input, more padding or a smaller kernel."
                )
            if self.mirrored and p >= n:
                raise ValueError(
                    f"{self.owner_name}: a {name} of {n} cannot be padded by reflecting {p} pixels at its border. Use "
                    "a larger input, or padding_mode 'zeros'."
                )
            rest = (n + 2 * p - k) % s
            if rest and self.reversed[axis] and size not in self.warned:
                below, above, shift = n - rest, n + s - rest, 2 * p - k
                fitting = f"{below} or {above}" if below >= max(1, k - 2 * p) else f"{above}"
                shifted = "n" if shift == 0 else f"n {'+' if shift > 0 else '-'} {abs(shift)}"
                message = (
                    f"{self.owner_name} is not exactly equivariant to {self.group_name} on inputs of {name} {n}: with "
                    f"kernel {k}, stride {s} and padding {p} the sampled grid is not symmetric. Sizes that fit: "
                    f"{fitting} (in general those with {shifted} divisible by {s}). {self.remedy} The layer maps "
                    f"{self.types}."
                )
                if self.strict:
                    raise ValueError(message)
                self.warned.add(size)
                warnings.warn(message, EquivarianceWarning, stacklevel=5)
