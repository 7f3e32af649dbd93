"""The converted network."""

from __future__ import annotations

from typing import Any

from torch import Tensor, fx

from steerable import nn as snn
from steerable.conversion.report import ConversionReport
from steerable.types.field_types import FieldType

__all__ = ["Converted"]


class Converted(snn.EquivariantModule):
    """The steerable counterpart of a plain network: a layer like any other, from the image's type to the output's.

    Shapes: those of the plain network.

    Attributes:
        net: the network, with every counterpart at the path of the module that it replaces; ``net.code`` shows it.
        report: what was replaced.
        request: the arguments of ``convert``, as text and numbers; None where they cannot be written down.
        plain_name: the class of the plain network.
    """

    request: dict[str, Any] | None = None
    plain_name: str = ""

    def __init__(self, net: fx.GraphModule, in_type: FieldType, out_type: FieldType, report: ConversionReport) -> None:
        super().__init__(in_type, out_type)
        self.net = net
        self.report = report

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        y: Tensor = self.net(x)
        return y
