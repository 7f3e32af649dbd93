"""The networks of this experiment: one architecture over every group, with about equal numbers of parameters.

Six convolutions of regular fields, two antialiased poolings, a maximum over the group and a mean over the image, so
that the class scores are invariant, and a small classifier. C1 gives the plain network.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.algebra.groups import FiniteGroup
from steerable.filters.space_arguments import default_space
from steerable.filters.steerable_filters import DEFAULT_LEAK

__all__ = ["KERNELS", "DigitNetwork", "Filters", "fitted_fields", "parameters_of"]

KERNELS = (7, 5, 5, 5, 5, 5)
SHAPE = (8, 12, 16, 16, 24, 32)  # numbers of fields, up to a common factor
POOLED = (1, 3)  # behind these convolutions the images are halved
HIDDEN = 64  # of the classifier


@dataclass(frozen=True)
class Filters:
    """Which filters the convolutions have.

    Args:
        kind: ``"default"``, all pixel filters where the grid carries the group and otherwise the most steerable ones;
            ``"rings"``, circular harmonics on Gaussian rings.
        leak, falloff: of the most steerable ones; None for the library's defaults.
    """

    kind: str = "default"
    leak: float | None = None
    falloff: float | None = None

    def space(self, group: st.Group, size: int) -> st.FilterSpace:
        if self.kind == "rings":
            return st.ring_space(group, size)
        found = default_space(group, size)
        if found.exact or (self.leak is None and self.falloff is None):
            return found
        leak = DEFAULT_LEAK if self.leak is None else self.leak
        return st.filter_space(group, size, leak, falloff=self.falloff or 0.0)


class DigitNetwork(nn.Module):
    """(batch, 1, 28, 28) → (batch, 10).

    Args:
        group: by name, such as ``"C8"``.
        fields: the number of regular fields behind each convolution.
        filters: of the convolutions.
        frequency: of the regular fields of SO(2) and O(2), which other groups do not need.
        kernels, pooled: the size of each convolution, and behind which of them images are halved.
    """

    def __init__(
        self,
        group: str,
        fields: Sequence[int],
        filters: Filters | None = None,
        *,
        frequency: int = 3,
        kernels: Sequence[int] = KERNELS,
        pooled: Sequence[int] = POOLED,
    ) -> None:
        super().__init__()
        filters = Filters() if filters is None else filters
        found = group_named(group)
        layers: list[snn.EquivariantModule] = []
        source = st.FieldType(found, [(1, found.trivial)])
        for k, (size, count) in enumerate(zip(kernels, fields, strict=True)):
            target = field_type(found, count, frequency)
            space = filters.space(found, size)
            layers.append(snn.Conv2d(source, target, size, padding=size // 2, bias=False, filters=space))
            layers += [snn.BatchNorm2d(target), activation(target)]
            layers += [snn.BlurPool2d(target)] if k in pooled else []
            source = target
        pool = snn.GroupPool(source, mode="max" if isinstance(found, FiniteGroup) else "norm")
        self.features = snn.Sequential(*layers)
        self.invariants = snn.Sequential(pool, snn.GlobalAvgPool(pool.out_type))
        self.classifier = nn.Sequential(
            nn.Linear(fields[-1], HIDDEN), nn.BatchNorm1d(HIDDEN), nn.ELU(), nn.Dropout(0.3), nn.Linear(HIDDEN, 10)
        )

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.classifier(self.invariants(self.features(x)))
        return scores


def field_type(group: st.Group, count: int, frequency: int) -> st.FieldType:
    """Regular fields; those of SO(2) and O(2) are functions on the group up to a frequency."""
    return st.FieldType(group, f"{count}*{'regular' if isinstance(group, FiniteGroup) else f'regular({frequency})'}")


def activation(fields: st.FieldType) -> snn.EquivariantModule:
    """ReLU, on samples of the group where the fields are functions up to a frequency."""
    return snn.ReLU(fields) if isinstance(fields.group, FiniteGroup) else snn.Fourier(fields, torch.relu)


def parameters_of(group: str, fields: Sequence[int], filters: Filters, *, frequency: int = 3) -> int:
    """The parameters of the convolutions; no layer is built."""
    found, total = group_named(group), 0
    source = st.FieldType(found, [(1, found.trivial)])
    for size, count in zip(KERNELS, fields, strict=True):
        target = field_type(found, count, frequency)
        total += st.parameter_cost(source, target, size, filters=filters.space(found, size))
        source = target
    return total


def fitted_fields(group: str, parameters: int, filters: Filters) -> tuple[int, ...]:
    """The widest network of this shape whose convolutions have at most so many parameters."""
    factor, step = 0.05, 0.05
    fields = _scaled(factor)
    while parameters_of(group, wider := _scaled(factor := factor + step), filters) <= parameters:
        fields = wider
        step = max(0.05, 0.02 * factor)
    return fields


def _scaled(factor: float) -> tuple[int, ...]:
    return tuple(max(1, round(factor * count)) for count in SHAPE)
