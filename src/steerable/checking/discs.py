"""Fields inside a disc or ball, for moves that leave the square or cube: smooth fields, and their distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from steerable.filters.pixel_grids import Spacing

__all__ = ["distance_in_disc", "in_disc", "smoothed"]

# As shares of half the smaller extent: up to where a field is left as it is, and where it has become zero. What is
# left of the square keeps the border, with its padding, out of the comparison.
_INNER, _OUTER = 0.5, 0.75
_SMOOTHNESS = 1.5  # the standard deviation of a Gaussian in pixels


def smoothed(x: Tensor) -> Tensor:
    """Random values (batch, channels, …) without high frequencies, and with the same mean square."""
    sizes, options = x.shape[2:], {"dtype": x.dtype, "device": x.device}
    rows = [torch.fft.fftfreq(size, **options) for size in sizes[:-1]]
    squares = [(2 * math.pi * f) ** 2 for f in (*rows, torch.fft.rfftfreq(sizes[-1], **options))]
    low = torch.exp(-0.5 * _SMOOTHNESS**2 * _outer_sum(squares))
    axes = tuple(range(2, x.ndim))
    smooth: Tensor = torch.fft.irfftn(torch.fft.rfftn(x, dim=axes) * low, s=sizes, dim=axes)
    return smooth * (x.square().mean() / smooth.square().mean()).sqrt()


def in_disc(x: Tensor, spacing: Spacing = ()) -> Tensor:
    """The field (batch, channels, …), faded out towards the border of a disc or ball around the centre."""
    share = ((_OUTER - _radii(x, spacing)) / (_OUTER - _INNER)).clamp(0, 1)
    return x * (share * share * (3 - 2 * share)).to(x.dtype)


def distance_in_disc(moved: Tensor, expected: Tensor, y: Tensor, spacing: Spacing = ()) -> float:
    """The root mean square of the difference, divided by that of y, inside the disc; pooled fields have all of it."""
    inside = _radii(y, spacing) < _OUTER if y.ndim > 2 else torch.ones((), dtype=torch.bool, device=y.device)
    difference, scale = (float((t.double().square() * inside).mean().sqrt()) for t in (moved - expected, y))
    return difference / scale if scale > 0 else difference


def _radii(x: Tensor, spacing: Spacing) -> Tensor:
    """(height, width) or (depth, height, width): distances from the centre, where half the smallest extent is 1."""
    sizes, apart = x.shape[2:], spacing or (1.0,) * (x.ndim - 2)
    lines = [torch.arange(size, dtype=torch.float64, device=x.device) - (size - 1) / 2 for size in sizes]
    squares = [(line * step).square() for line, step in zip(lines, apart, strict=True)]
    return _outer_sum(squares).sqrt() / (min(size * step for size, step in zip(sizes, apart, strict=True)) / 2)


def _outer_sum(lines: list[Tensor]) -> Tensor:
    """a_i + b_j + …, for numbers along each axis."""
    total = lines[0]
    for line in lines[1:]:
        total = total[..., None] + line
    return total
