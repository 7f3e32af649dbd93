"""Fields inside a disc, for moves that leave the square: smooth ones, their confinement, and their distance."""

from __future__ import annotations

import math

import torch
from torch import Tensor

__all__ = ["distance_in_disc", "in_disc", "smoothed"]

# As shares of half the smaller extent: up to where a field is left as it is, and where it has become zero. What is
# left of the square keeps the border, with its padding, out of the comparison.
_INNER, _OUTER = 0.5, 0.75
_SMOOTHNESS = 1.5  # the standard deviation of a Gaussian in pixels


def smoothed(x: Tensor) -> Tensor:
    """Random values (…, height, width) without high frequencies, and with the same mean square."""
    height, width = x.shape[-2:]
    rows = torch.fft.fftfreq(height, dtype=x.dtype, device=x.device) * 2 * math.pi
    columns = torch.fft.rfftfreq(width, dtype=x.dtype, device=x.device) * 2 * math.pi
    low = torch.exp(-0.5 * _SMOOTHNESS**2 * (rows[:, None] ** 2 + columns**2))
    smooth: Tensor = torch.fft.irfft2(torch.fft.rfft2(x) * low, s=(height, width))
    return smooth * (x.square().mean() / smooth.square().mean()).sqrt()


def in_disc(x: Tensor) -> Tensor:
    """The field (batch, channels, height, width), faded out towards the border of a disc around the centre."""
    share = ((_OUTER - _radii(x)) / (_OUTER - _INNER)).clamp(0, 1)
    return x * (share * share * (3 - 2 * share)).to(x.dtype)


def distance_in_disc(moved: Tensor, expected: Tensor, y: Tensor) -> float:
    """The root mean square of the difference, divided by that of y, inside the disc; pooled fields have all of it."""
    inside = _radii(y) < _OUTER if y.ndim > 2 else torch.ones((), dtype=torch.bool, device=y.device)
    difference, scale = (float((t.double().square() * inside).mean().sqrt()) for t in (moved - expected, y))
    return difference / scale if scale > 0 else difference


def _radii(x: Tensor) -> Tensor:
    """(height, width): the distance of each pixel from the centre, where half the smaller extent is 1."""
    height, width = x.shape[-2:]
    rows = torch.arange(height, dtype=torch.float64, device=x.device) - (height - 1) / 2
    columns = torch.arange(width, dtype=torch.float64, device=x.device) - (width - 1) / 2
    return torch.hypot(rows[:, None], columns[None, :]) / (min(height, width) / 2)
