"""Enlarging fields."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["Upsample"]


class Upsample(EquivariantModule):
    """Each pixel repeated (nearest) or interpolated (bilinear), channel by channel; exact for any size and capsules.

    Shapes: (batch, channels, n, n') → (batch, channels, scale_factor·n, scale_factor·n').
    """

    channelwise = True

    def __init__(
        self, field_type: FieldType, scale_factor: int = 2, mode: str = "nearest", align_corners: bool | None = None
    ) -> None:
        super().__init__(field_type, field_type)
        if isinstance(scale_factor, bool) or not isinstance(scale_factor, int) or scale_factor < 1:
            raise ValueError(
                "scale_factor is a whole number ≥ 1, since other factors sample the grid unevenly; got "
                f"{scale_factor!r}."
            )
        if mode not in ("nearest", "bilinear"):
            raise ValueError(f"mode is 'nearest' or 'bilinear', got {mode!r}.")
        if align_corners is not None and mode == "nearest":
            raise ValueError("align_corners goes with mode='bilinear' only.")
        self.scale_factor, self.mode, self.align_corners = scale_factor, mode, align_corners

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if self.mode == "nearest":
            return F.interpolate(x, scale_factor=self.scale_factor, mode="nearest")
        return F.interpolate(x, scale_factor=self.scale_factor, mode="bilinear", align_corners=bool(self.align_corners))

    def plain(self) -> nn.Module:
        align = bool(self.align_corners) if self.mode == "bilinear" else None
        return nn.Upsample(scale_factor=self.scale_factor, mode=self.mode, align_corners=align)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, scale_factor={self.scale_factor}, mode={self.mode}"
