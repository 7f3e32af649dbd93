"""The converted network."""

from __future__ import annotations

import copy
from typing import Any

from torch import Tensor, fx

from steerable import nn as snn
from steerable.algebra.group_interface import Group
from steerable.conversion.report import ConversionReport
from steerable.nn.plain import without_acceleration
from steerable.types.field_types import FieldType
from steerable.types.restriction import seen_by

__all__ = ["Converted"]


class Converted(snn.EquivariantModule):
    """The steerable counterpart of a plain network: a layer like any other, from the image's type to the output's.

    Shapes: those of the plain network.

    Attributes:
        net: the network, with every counterpart at the path of the module that it replaces; ``net.code`` shows it.
        report: what was replaced.
        request: the arguments of ``convert``, as text and numbers; None if they cannot be written down.
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

    def restricted_to(self, subgroup: Group) -> Converted:
        """Layer by layer; the functions in between add and multiply fields of one type, whose channels move alike."""
        twin = without_acceleration(copy.deepcopy(self))
        for node in twin.net.graph.nodes:
            if "field_type" in node.meta:
                node.meta["field_type"] = seen_by(node.meta["field_type"], subgroup).field_type
        for path in {str(node.target) for node in twin.net.graph.nodes if node.op == "call_module"}:
            layer = self.net.get_submodule(path)
            if isinstance(layer, snn.EquivariantModule):
                twin.net.set_submodule(path, layer.restrict(subgroup))
        twin.in_type = seen_by(self.in_type, subgroup).field_type
        twin.out_type = seen_by(self.out_type, subgroup).field_type
        return twin
