"""The steps of the converted network, while its field types are still to be chosen."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import fx, nn

from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.type_variables import TypeVariable
from steerable.types.field_types import FieldType

__all__ = ["Builder", "ConversionPlan", "Replacement", "Step"]

# A layer, and a note on what differs from the plain one; "" if nothing does.
Replacement = tuple[nn.Module, str]

# Makes the counterpart from the types that go in and the type that comes out.
Builder = Callable[[Sequence[FieldType], FieldType], nn.Module | Replacement]


@dataclass(frozen=True)
class Step:
    """One call of the converted network.

    Attributes:
        call: the plain call whose result it computes.
        inputs: the plain calls whose results it takes.
        before, after: the types that go in and come out.
        build: makes the counterpart; None if a function of torch stays.
        function: that function, which gets the plain call's arguments.
        rests: whether it only passes on its first input in evaluation, as dropout does.
        note: what differs from the plain call, whatever the types are; "" if nothing does.
    """

    call: PlainCall
    inputs: tuple[fx.Node, ...]
    before: tuple[TypeVariable, ...]
    after: TypeVariable
    build: Builder | None = None
    function: Callable[..., Any] | None = None
    rests: bool = False
    note: str = ""

    @property
    def mixes(self) -> bool:
        """Whether its output gets a new type."""
        return self.call.becomes in ("convolution", "linear map")


@dataclass(frozen=True)
class ConversionPlan:
    """All steps of the converted network.

    Attributes:
        steps: in order.
        image, result: the plain calls that bring the input and the output; ``result`` after aliases.
        in_variable, out_variable: their types.
        aliases: calls that only pass on what they got.
        taken: paths of the plain network.
        remark: a remark on the network as a whole; "" if there is none.
    """

    steps: tuple[Step, ...]
    image: fx.Node
    result: fx.Node
    in_variable: TypeVariable
    out_variable: TypeVariable
    aliases: dict[fx.Node, fx.Node]
    taken: frozenset[str]
    remark: str = ""

    def source(self, node: fx.Node) -> fx.Node:
        """The call that computes the tensor that a call passes on."""
        return self.aliases.get(node, node)

    @property
    def score_layers(self) -> tuple[Step, ...]:
        """The layers with weights whose results are scalars of the output, or are added to those."""
        leaves = {leaf for leaf in self.out_variable.leaves if leaf.scalar}
        return tuple(step for step in self.steps if step.mixes and leaves.intersection(step.after.leaves))
