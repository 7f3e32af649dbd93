"""Numbers per capsule and numbers per channel: reductions over each capsule's channels, and back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Self

import numpy as np
import torch
from torch import Tensor, nn

from steerable.nn.channels import capsule_of_channel, take_channels, widened
from steerable.nn.constants import restore_constants
from steerable.types.field_types import FieldType

__all__ = ["Segments"]


class Segments(nn.Module):
    """Reductions over the capsules of a type, along dimension 1; neighbours of one size are reduced at once."""

    capsule_index: Tensor
    channel_table: Tensor

    def __init__(self, field_type: FieldType) -> None:
        super().__init__()
        runs = itertools.groupby(capsule.dim for capsule in field_type.capsules)
        self.shapes = [(len(list(alike)), dim) for dim, alike in runs]
        self.single = all(dim == 1 for _, dim in self.shapes)
        widest = max(dim for _, dim in self.shapes)
        # The channels of each capsule; shorter capsules are filled up with a channel after the last one, a zero.
        rows = [[*range(s.start, s.stop), *[field_type.channels] * widest][:widest] for s in field_type.slices]
        self._tables = {"capsule_index": capsule_of_channel(field_type), "channel_table": np.array(rows)}
        self._table_shape = (len(rows), widest)
        for name, table in self._tables.items():
            self.register_buffer(name, torch.tensor(table), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        if self.capsule_index.device.type != "meta":  # to_empty() leaves a buffer without values
            for name, table in self._tables.items():
                setattr(self, name, torch.tensor(table, device=self.capsule_index.device))
        return self

    def train(self, mode: bool = True) -> Self:
        restore_constants(self._buffers, self._tables)
        return super().train(mode)

    def sum_statistics(self, x: Tensor) -> Tensor:
        """``sum`` of a small (rows, channels) tensor in three operations, however many kinds there are."""
        if self.single:
            return x
        padded = torch.nn.functional.pad(x, (0, 1))
        gathered: Tensor = padded.index_select(1, self.channel_table.flatten()).unflatten(1, self._table_shape)
        return gathered.sum(2)

    def sum(self, x: Tensor) -> Tensor:
        """(batch, channels, …) → (batch, capsules, …): the sum over each capsule's channels."""
        return self.reduce(x, lambda part: part.sum(2))

    def amax(self, x: Tensor) -> Tensor:
        """The largest of each capsule's channels."""
        return self.reduce(x, lambda part: part.amax(2))

    def norm(self, x: Tensor) -> Tensor:
        """The Euclidean length of each capsule; its gradient at 0 is 0."""
        wide = widened(x)  # a square overflows float16 from 256 on
        square = self.sum(wide * wide)
        zero = square == 0
        root = torch.where(zero, torch.ones_like(square), square).sqrt()
        length = torch.where(zero, square, root)
        return length if wide is x else length.to(x.dtype)

    def spread(self, values: Tensor) -> Tensor:
        """(batch, capsules, …) → (batch, channels, …): each capsule's value on all of its channels."""
        return values if self.single else take_channels(values, self.capsule_index)

    def scale(self, x: Tensor, factors: Tensor) -> Tensor:
        """x times the factor of each capsule, (batch, capsules, …)."""
        if len(self.shapes) > 1:
            return x * self.spread(factors)
        capsules: Tensor = x.unflatten(1, self.shapes[0]) * factors.unsqueeze(2)
        return capsules.flatten(1, 2)

    def reduce(self, x: Tensor, reduction: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a reduction of dimension 2 to (batch, copies, dim, …) for each size, and stack the results."""
        if self.single:
            return x
        # One split, since the gradient of each narrow() would be as large as x.
        parts = x.split([copies * dim for copies, dim in self.shapes], 1) if len(self.shapes) > 1 else [x]
        reduced = [
            parts[k] if dim == 1 else reduction(parts[k].unflatten(1, (copies, dim)))
            for k, (copies, dim) in enumerate(self.shapes)
        ]
        return torch.cat(reduced, dim=1) if len(reduced) > 1 else reduced[0]
