"""Numbers per capsule and numbers per channel: reductions over each capsule's channels, and back."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from steerable.fields import FieldType
from steerable.nn.channels import capsule_of_channel, take_channels

__all__ = ["Segments"]


class Segments(nn.Module):
    """Reductions over the capsules of a type, along dimension 1; all capsules of a kind are reduced at once."""

    capsule_index: Tensor

    def __init__(self, field_type: FieldType) -> None:
        super().__init__()
        self.shapes = [(copies, capsule.dim) for capsule, copies in field_type.blocks]
        self.single = all(dim == 1 for _, dim in self.shapes)
        self.register_buffer("capsule_index", torch.tensor(capsule_of_channel(field_type)), persistent=False)

    def sum(self, x: Tensor) -> Tensor:
        """(batch, channels, …) → (batch, capsules, …): the sum over each capsule's channels."""
        return self.reduce(x, lambda part: part.sum(2))

    def mean(self, x: Tensor) -> Tensor:
        """The mean over each capsule's channels."""
        return self.reduce(x, lambda part: part.mean(2))

    def amax(self, x: Tensor) -> Tensor:
        """The largest of each capsule's channels."""
        return self.reduce(x, lambda part: part.amax(2))

    def norm(self, x: Tensor) -> Tensor:
        """The Euclidean length of each capsule; its gradient at 0 is 0."""
        square = self.sum(x * x)
        zero = square == 0
        root = torch.where(zero, torch.ones_like(square), square).sqrt()
        return torch.where(zero, square, root)

    def spread(self, values: Tensor) -> Tensor:
        """(batch, capsules, …) → (batch, channels, …): each capsule's value on all of its channels."""
        return values if self.single else take_channels(values, self.capsule_index)

    def reduce(self, x: Tensor, reduction: Callable[[Tensor], Tensor]) -> Tensor:
        """Apply a reduction of dimension 2 to (batch, copies, dim, …) for each kind, and stack the results."""
        if self.single:
            return x
        reduced, start = [], 0
        for copies, dim in self.shapes:
            part = x.narrow(1, start, copies * dim)
            reduced.append(part if dim == 1 else reduction(part.unflatten(1, (copies, dim))))
            start += copies * dim
        return torch.cat(reduced, dim=1) if len(reduced) > 1 else reduced[0]
