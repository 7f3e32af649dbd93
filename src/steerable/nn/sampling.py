"""Symmetric sampling grids: the conditions under which a stride, a window or a padding keeps a layer equivariant.

A window of extent k slides over n + 2p pixels in steps of s. The positions that it visits are symmetric about the
image's centre when nothing is left over: (n + 2p - k) mod s = 0. Otherwise their own centre lies elsewhere, which is
harmless only along axes on which the group does not move that point: those that no symmetry of the grid reverses, and
that no turn by another angle, such as those of C3, turns away.
"""

from __future__ import annotations

import copy
import itertools
import warnings
from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.actions import on_array_axes, on_grid
from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.filters.pixel_grids import Spacing
from steerable.nn.channels import hides_shapes
from steerable.nn.geometry import axis_names
from steerable.nn.module import EquivariantModule

__all__ = [
    "EquivarianceWarning",
    "SamplingGuard",
    "axes_exchanged",
    "axes_reversed",
    "one_extent_missing",
    "pads_alike",
    "require_grid",
]


_SMALLEST_TURN = 1e-6  # smaller entries of a motion's matrix are rounding errors


class EquivarianceWarning(UserWarning):
    """Something is not exactly equivariant; the message says what, and what to do."""


def axes_reversed(group: Group, axes: int = 2, spacing: Spacing = ()) -> tuple[bool, ...]:
    """(rows, columns), or (slices, rows, columns): whether some element reverses that axis of the array.

    An element that the grid does not carry counts where it turns the axis at all.
    """
    carried, others = _array_matrices(group, axes, spacing)
    backwards = carried.min(axis=(0, 1)) < -0.5
    turned = (np.diagonal(others, axis1=1, axis2=2) < 1 - _SMALLEST_TURN).any(axis=0)
    return tuple((backwards | turned).tolist())


def axes_exchanged(group: Group, axes: int = 2, spacing: Spacing = ()) -> list[tuple[int, int]]:
    """The pairs of the array's axes that some element which the grid carries exchanges."""
    moved = np.abs(_array_matrices(group, axes, spacing)[0]).max(axis=0) > 0.5
    return [(a, b) for a, b in itertools.combinations(range(axes), 2) if moved[a, b]]


def one_extent_missing(
    group: Group, what: str, values: Sequence[float], spacing: Spacing = (), *, mixed: bool = True
) -> str:
    """The reason why these numbers, one per axis, do not suit the group; empty if they do.

    ``mixed`` adds the axes that it mixes by turns which the grid does not carry, such as those of C3 by 120°.
    """
    axes = len(values)
    exchanged, others = axes_exchanged(group, axes, spacing), _array_matrices(group, axes, spacing)[1]
    near = (np.abs(others) > _SMALLEST_TURN).any(axis=0) & ~_uneven(axes, spacing)
    for a, b in itertools.combinations(range(axes), 2):
        if values[a] != values[b] and ((a, b) in exchanged or (mixed and near[a, b])):
            verb, names = "exchanges" if (a, b) in exchanged else "mixes", axis_names(axes)
            return (
                f"{group.name} {verb} {names[a]} and {names[b]}, so the {what} has one extent for both; got "
                f"{tuple(values)}."
            )
    return ""


def pads_alike(group: Group, sides: Sequence[int]) -> bool:
    """Whether a padding, (left, right, top, bottom), adds the same on sides that the group exchanges.

    Of volumes it is (left, right, top, bottom, above, below): the last axis of an array comes first, as for ``F.pad``.

    >>> from steerable import dihedral
    >>> main_diagonal = dihedral(4).subgroup(["e", "mr3"])
    >>> pads_alike(main_diagonal, (1, 2, 1, 2)), pads_alike(main_diagonal, (1, 2, 1, 0))
    (True, False)
    """
    axes = len(sides) // 2
    outward = np.concatenate([[-direction, direction] for direction in np.eye(axes)[::-1]])
    widths = {tuple(side): width for side, width in zip(outward, sides, strict=True)}
    carried, others = _array_matrices(group, axes)
    alike = all(widths[tuple(np.rint(g @ side) + 0.0)] == width for g in carried for side, width in widths.items())
    if not alike or not len(others):
        return alike
    before, after = sides[-2::-2], sides[::-2]  # the first axis of the array comes last
    return all(before[a] == after[a] for a, turned in enumerate(axes_reversed(group, axes)) if turned)


_CARRIED = {2: ("images", "C1, C2, C4, D1, D2 or D4"), 3: ("volumes", "O, O_h or their subgroups")}
"""What lies on a grid of that many axes, and the groups that map the grid onto itself."""


def require_grid(group: Group, axes: int = 2) -> None:
    """Raise a ValueError for a group that does not map the pixel grid onto itself."""
    if group.axes != axes or not group.keeps_grid:
        kind, carried = _CARRIED[axes]
        raise ValueError(
            f"{group.name} does not map the pixel grid onto itself, so no layer on {kind} is exactly equivariant "
            f"to it. Use {carried}."
        )


@lru_cache(maxsize=256)
def _array_matrices(group: Group, axes: int = 2, spacing: Spacing = ()) -> tuple[FloatArray, FloatArray]:
    """(n, axes, axes) twice: how elements act on an array's axes, rows downwards; those that the grid carries first.

    Where pixels or voxels are not equally far apart along two axes, no element that exchanges them is carried. The
    others are all others of a finite group, and generators of an infinite one.
    """
    if group.axes != axes:
        require_grid(group, axes)
    elements = group.elements if isinstance(group, FiniteGroup) else (*group.grid_elements, *group.generators)
    moved = on_array_axes(np.stack([group.motion(g) for g in elements]))  # type: ignore[misc]
    carried = on_grid(moved) & ~(np.abs(moved) * _uneven(axes, spacing) > 0.5).any(axis=(1, 2))
    return moved[carried], moved[~carried]


def _uneven(axes: int, spacing: Spacing) -> NDArray[np.bool_]:
    """(axes, axes): whether pixels or voxels are not equally far apart along two axes."""
    apart = np.array(spacing or (1.0,) * axes)
    return np.asarray(np.abs(np.subtract.outer(apart, apart)) > 1e-6)


class SamplingGuard:
    """The grid of a layer with windows: refuses what never fits, and warns of sizes that do not fit.

    Args:
        owner: the layer.
        extent, stride, padding: one number per axis; the extent is that of the dilated kernel.
        strict: raise where the grid of an input is not symmetric, rather than warn.
        remedy: what else the user may do.
        padding_mode: what the padding is made of; reflections and repetitions need something to repeat.
        spacing: how far apart pixels or voxels are along each axis, where not equally far.
    """

    def __init__(
        self,
        owner: EquivariantModule,
        extent: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...],
        *,
        strict: bool,
        remedy: str,
        padding_mode: str = "zeros",
        spacing: Spacing = (),
    ) -> None:
        group, self.axes, self.spacing = owner.in_type.group, axis_names(len(extent)), spacing
        for what, value in (("kernel", extent), ("stride", stride), ("padding", padding)):
            # How far oblong filters turn is said by their leaks.
            if reason := one_extent_missing(group, what, value, spacing, mixed=what == "stride"):
                raise ValueError(f"{type(owner).__name__}: {reason}")
        self.owner_name = type(owner).__name__
        self.types = f"`{owner.in_type}` to `{owner.out_type}`"  # to find it in a network of many
        self.group_name = group.name
        self.extent, self.stride, self.padding = extent, stride, padding
        self.reversed = axes_reversed(group, len(extent), spacing)
        self.strict = strict
        self.padding_mode = padding_mode
        self.remedy = remedy
        self.warned: set[tuple[int, ...]] = set()
        self.fitting: set[tuple[int, ...]] = set()  # sizes that need no second look

    def of_group(self, group: Group) -> SamplingGuard:
        """The same window for a subgroup, which reverses at most the same axes."""
        guard = copy.copy(self)
        backwards = axes_reversed(group, len(self.extent), self.spacing)
        guard.group_name = group.name
        guard.reversed = tuple(a and b for a, b in zip(self.reversed, backwards, strict=True))
        guard.warned, guard.fitting = set(), set()
        return guard

    def check(self, x: Tensor) -> None:
        """Raise if the window does not fit at all; warn once per size (or raise) if the grid is not symmetric."""
        if hides_shapes(x):
            return
        compiling = torch.compiler.is_compiling()
        if (compiling and not self.strict) or (not compiling and x.shape[2:] in self.fitting):
            return
        size = tuple(map(int, x.shape[2:]))
        for axis, name in enumerate(self.axes):
            n, k, s, p = size[axis], self.extent[axis], self.stride[axis], self.padding[axis]
            if n + 2 * p < k:
                raise ValueError(
                    f"{self.owner_name}: the kernel spans {k} pixels but the padded {name} is only {n + 2 * p} ({n} + "
                    f"2·{p}). Use a larger input, more padding or a smaller kernel."
                )
            if p > {"reflect": n - 1, "circular": n}.get(self.padding_mode, p):
                way = "reflecting" if self.padding_mode == "reflect" else "repeating"
                raise ValueError(
                    f"{self.owner_name}: a {name} of {n} cannot be padded by {way} {p} pixels at its border. Use a "
                    "larger input, or padding_mode 'zeros'."
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
                warnings.warn(message, EquivarianceWarning, stacklevel=5)
                self.warned.add(size)  # not where the warning is an error, which has to come again
        if not compiling and size not in self.warned:
            self.fitting.add(size)
