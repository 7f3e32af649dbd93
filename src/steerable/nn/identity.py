"""The layer that does nothing."""

from __future__ import annotations

from torch import Tensor, nn

from steerable.nn.module import EquivariantModule
from steerable.types.field_types import FieldType

__all__ = ["Identity"]


class Identity(EquivariantModule):
    """y = x.

    Shapes: any → the same.
    """

    channelwise = True

    computes = False

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return x

    def plain(self) -> nn.Module:
        return nn.Identity()
