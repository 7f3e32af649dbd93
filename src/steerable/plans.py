"""The paper's residual networks as tensor-free plans: which convolutions between which types, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from steerable.families import dihedral
from steerable.fields import FieldType, parameter_cost
from steerable.groups import FiniteGroup

__all__ = ["ConvolutionPlan", "resnet_plan"]


@dataclass(frozen=True)
class ConvolutionPlan:
    """One convolution of a network."""

    name: str
    in_type: FieldType
    out_type: FieldType
    kernel_size: int
    stride: int = 1

    @property
    def parameters(self) -> int:
        """The number of free parameters of its filter bank."""
        return parameter_cost(self.in_type, self.out_type, self.kernel_size)


def resnet_plan(
    depth: int,
    copies: int,
    *,
    group: FiniteGroup | None = None,
    image_type: str = "3*A1",
    stream: str = "regular + qm + qmr2 + qmr3",
    inner: str = "A1 + A2 + B1 + B2 + 2*E",
    stages: Sequence[int] = (1, 2, 4),
) -> tuple[ConvolutionPlan, ...]:
    """The convolutions of the paper's network: depth = 6·blocks + 2, three stages of 1, 2 and 4 times ``copies``.

    A block is a 3×3 convolution from the residual stream to the inner type, CReLU, and a 3×3 convolution back; where
    the stream's type changes, a 1×1 convolution carries it over.

    >>> sum(conv.parameters for conv in resnet_plan(depth=14, copies=14))
    4448374
    """
    blocks, rest = divmod(depth - 2, 2 * len(stages))
    if rest or blocks < 1:
        raise ValueError(
            f"a residual network of {len(stages)} stages has a depth of {2 * len(stages)}·blocks + 2, that is "
            f"{2 * len(stages) + 2}, {4 * len(stages) + 2}, …; got {depth}."
        )
    if copies < 1:
        raise ValueError(f"the number of copies of each capsule is at least 1, got {copies}.")
    group = group or dihedral(4)
    unit_stream, unit_inner = FieldType(group, stream), FieldType(group, inner)
    now = copies * stages[0] * unit_stream
    convolutions = [ConvolutionPlan("stem", FieldType(group, image_type), now, 3)]
    for s, factor in enumerate(stages, start=1):
        for b in range(1, blocks + 1):
            name = f"stage{s}.block{b}"
            before, now = now, copies * factor * unit_stream
            middle = copies * factor * unit_inner
            stride = 2 if s > 1 and b == 1 else 1
            convolutions.append(ConvolutionPlan(f"{name}.conv1", before, middle, 3, stride))
            convolutions.append(ConvolutionPlan(f"{name}.conv2", middle.after_concatenation(), now, 3))
            if before != now:
                convolutions.append(ConvolutionPlan(f"{name}.shortcut", before, now, 1, stride))
    return tuple(convolutions)
