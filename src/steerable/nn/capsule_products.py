"""One matrix times every capsule of a kind, in ways that keep a tensor's memory format and that torch.fx can follow."""

from __future__ import annotations

import torch
from torch import Tensor

from steerable.nn.channels import channels_at_end, channels_second, hides_shapes, in_channels_last

__all__ = ["multiply_capsules"]


def multiply_capsules(x: Tensor, matrix: Tensor, copies: int, *, each: bool = False) -> Tensor:
    """(batch, copies · d, …) → (batch, copies · D, …): y_c = M x_c for each of the copies c.

    Args:
        x: fields of one kind of capsule; pooled ones, or images or volumes in either memory format, which is kept.
        matrix: M, of shape (D, d), or (copies, D, d).
        copies: how many capsules a fibre has.
        each: whether there is a matrix for each copy.
    """
    matrix = matrix.to(x.dtype)
    if hides_shapes(x) or x.ndim == 2:  # right for all ranks
        product = "bci...,coi->bco..." if each else "bci...,oi->bco..."
        return torch.einsum(product, x.unflatten(1, (copies, -1)), matrix).flatten(1, 2)
    if in_channels_last(x):
        fibres = channels_at_end(x).unflatten(-1, (copies, -1))
        y = torch.einsum("...ci,coi->...co", fibres, matrix) if each else fibres @ matrix.T
        return channels_second(y.flatten(-2))
    flat = matrix @ x.unflatten(1, (copies, -1)).flatten(3)
    maps: Tensor = flat.unflatten(3, x.shape[2:])
    return maps.flatten(1, 2)
