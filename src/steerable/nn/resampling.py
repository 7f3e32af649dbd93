"""Enlarging fields."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["Upsample"]


class Upsample(EquivariantModule):
    """Each pixel or voxel repeated (nearest) or interpolated, channel by channel; exact for any size and capsules.

    Shapes: (batch, channels, n, …) → (batch, channels, scale_factor·n, …).

    Args:
        field_type: the type, which stays the same.
        scale_factor: a whole number.
        mode: ``"nearest"``, or ``"bilinear"`` for images and ``"trilinear"`` for volumes.
        align_corners: as for ``torch.nn.Upsample``; with interpolation only.
    """

    channelwise = True

    def __init__(
        self, field_type: FieldType, scale_factor: int = 2, mode: str = "nearest", align_corners: bool | None = None
    ) -> None:
        super().__init__(field_type, field_type)
        if isinstance(scale_factor, bool) or not isinstance(scale_factor, int) or scale_factor < 1:
            raise ValueError(
                "scale_factor must be a whole number ≥ 1, since other factors sample the grid unevenly; got "
                f"{scale_factor!r}."
            )
        kind, linear = ("images", "bilinear") if len(self.map_axes) == 2 else ("volumes", "trilinear")
        if mode not in ("nearest", linear):
            other = mode in ("bilinear", "trilinear")
            reason = f": fields of {field_type.group.name} are {kind}" if other else ""
            raise ValueError(f"mode must be 'nearest' or {linear!r}, got {mode!r}{reason}.")
        if align_corners is not None and mode == "nearest":
            raise ValueError(f"align_corners can only be used with mode={linear!r} only.")
        self.scale_factor, self.mode, self.align_corners = scale_factor, mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if self.mode == "nearest":
            return F.interpolate(x, scale_factor=self.scale_factor, mode="nearest")
        return F.interpolate(x, scale_factor=self.scale_factor, mode=self.mode, align_corners=bool(self.align_corners))

    def plain(self) -> nn.Module:
        align = None if self.mode == "nearest" else bool(self.align_corners)
        return nn.Upsample(scale_factor=self.scale_factor, mode=self.mode, align_corners=align)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale_factor={self.scale_factor}, mode={self.mode}"
