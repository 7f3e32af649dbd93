"""The converted network, and the few layers that only a conversion needs."""

from __future__ import annotations

from torch import Tensor, fx

from steerable import nn as snn
from steerable.conversion.report import ConversionReport
from steerable.fields import FieldType

__all__ = ["Converted", "FibreToMap"]


class Converted(snn.EquivariantModule):
    """The steerable counterpart of a plain network: a layer like any other, from the image's type to the output's.

    Shapes: those of the plain network.

    Attributes:
        net: the network, with every counterpart at the path of the module that it replaces; ``net.code`` shows it.
        report: what was replaced.
    """

    def __init__(self, net: fx.GraphModule, in_type: FieldType, out_type: FieldType, report: ConversionReport) -> None:
        super().__init__(in_type, out_type)
        self.net = net
        self.report = report

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        y: Tensor = self.net(x)
        return y


class FibreToMap(snn.EquivariantModule):
    """A pooled field as a map of one pixel, so that it can scale or shift a whole field.

    Shapes: (batch, channels) → (batch, channels, 1, 1).
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2,))
        return x.unsqueeze(-1).unsqueeze(-1)
