"""Layers that bring one field to the size of another, as decoders do before they join them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Self

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.nn.admissibility import require
from steerable.nn.channels import is_traced
from steerable.nn.sampling import axes_reversed
from steerable.nn.seen_by_subgroup import retyped
from steerable.types.field_types import FieldType
from steerable.types.restriction import seen_by

__all__ = ["ExpandTo", "FittedTo", "PadTo", "ResizeTo"]


class FittedTo(snn.EquivariantModule):
    """A field brought to the height and width of another, or to its three extents; the base of the layers below.

    It warns of sizes on which that is not exactly equivariant.

    Shapes: (batch, channels, n, n'), (batch, like.channels, m, m') → (batch, channels, m, m').

    Args:
        field_type: the type of the field, which stays the same.
        like: the type of the other field.
    """

    def __init__(self, field_type: FieldType, like: FieldType) -> None:
        super().__init__(field_type, field_type)
        self.in_types = (field_type, like)
        self.reversed = axes_reversed(field_type.group, len(self.map_axes))
        self.warned: set[tuple[tuple[int, int], ...]] = set()

    def fits(self, before: int, after: int) -> bool:
        """Whether a change of one extent is exact along an axis that the group reverses."""
        raise NotImplementedError

    def reason(self, sizes: Sequence[tuple[int, int]]) -> str:
        """The part of a warning about sizes that do not fit, from "where" on."""
        raise NotImplementedError

    def wanted(self, x: Tensor, like: Tensor) -> list[int]:
        """The extents of the other field, after a check of both."""
        self.check_input(x)
        sizes = tuple((x.shape[axis], like.shape[axis]) for axis in self.map_axes)
        if not is_traced(x) and not torch.compiler.is_compiling():
            uneven = any(not self.fits(*size) for size, turned in zip(sizes, self.reversed, strict=True) if turned)
            if uneven and sizes not in self.warned:
                self.warned.add(sizes)
                warnings.warn(
                    f"{type(self).__name__} is not exactly equivariant to {self.in_type.group.name} "
                    f"{self.reason(sizes)} Choose an input size that the network halves without remainder, such as a "
                    "multiple of 32.",
                    snn.EquivarianceWarning,
                    stacklevel=4,
                )
        return [after for _, after in sizes]

    def restricted_to(self, subgroup: Group) -> Self:
        types = [seen_by(field_type, subgroup).field_type for field_type in self.in_types]
        new = retyped(self, types[0], types[0])
        new.in_types, new.reversed = (types[0], types[1]), axes_reversed(subgroup, len(self.map_axes))
        return new


class PadTo(FittedTo):
    """A field padded on all sides, or cropped, to the size of another; see :class:`FittedTo`.

    Exact where an even number of pixels is added along each axis that the group reverses.

    Args:
        field_type, like: the types of both fields.
        mode, value: as for ``torch.nn.functional.pad``.
    """

    def __init__(self, field_type: FieldType, like: FieldType, mode: str = "constant", value: float = 0.0) -> None:
        super().__init__(field_type, like)
        if mode == "constant" and value:
            require(f"PadTo(value={value})", field_type, "pointwise")
        self.mode, self.value = mode, value

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        added = [m - x.shape[axis] for m, axis in zip(self.wanted(x, like), self.map_axes, strict=True)]
        sides = [side for n in reversed(added) for side in (n // 2, n - n // 2)]
        return F.pad(x, sides, self.mode, self.value if self.mode == "constant" else None)

    def fits(self, before: int, after: int) -> bool:
        return (after - before) % 2 == 0

    def reason(self, sizes: Sequence[tuple[int, int]]) -> str:
        names = ("slices", "rows", "columns")[-len(sizes) :]
        *first, last = [f"{after - before} {name}" for (before, after), name in zip(sizes, names, strict=True)]
        return f"where it adds {', '.join(first)} and {last}, since an odd number cannot be shared between both sides."


class ResizeTo(FittedTo):
    """A field interpolated to the size of another; see :class:`FittedTo`.

    Exact on every size where it interpolates between pixels, and for nearest neighbours by whole factors.

    Args:
        field_type, like: the types of both fields.
        mode, align_corners: as for ``torch.nn.functional.interpolate``.
    """

    def __init__(
        self, field_type: FieldType, like: FieldType, mode: str = "nearest", align_corners: bool | None = None
    ) -> None:
        super().__init__(field_type, like)
        self.mode, self.align_corners = mode, align_corners

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        return F.interpolate(x, self.wanted(x, like), mode=self.mode, align_corners=self.align_corners)

    def fits(self, before: int, after: int) -> bool:
        return not self.mode.startswith("nearest") or after % before == 0

    def reason(self, sizes: Sequence[tuple[int, int]]) -> str:
        before, after = ("×".join(map(str, side)) for side in zip(*sizes, strict=True))
        return f"from {before} to {after} pixels, where the nearest ones are not shared out evenly."


class ExpandTo(FittedTo):
    """A field of one pixel, repeated at every pixel of another; see :class:`FittedTo`. It is exact on every size."""

    def forward(self, x: Tensor, like: Tensor) -> Tensor:
        return x.expand(-1, -1, *self.wanted(x, like))

    def fits(self, before: int, after: int) -> bool:
        return True
