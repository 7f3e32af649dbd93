"""Synthetic images with dense targets: pairs of particle images with their flow, and cells with their masks.

Both are drawn in one pose: the flow drifts to the right, the cells lie flat. A network that has seen nothing else meets
the other poses for the first time in the test.
"""

from __future__ import annotations

import math
from functools import partial

import torch
from torch import Tensor

__all__ = ["cell_images", "particle_flow"]


def particle_flow(count: int, size: int = 32, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return two frames of drifting particles, and how far each place moves between them.

    A particle at p moves by u(p) = drift + Σ_k a_k (p - c_k)^⊥ exp(-|p - c_k|² / 2s_k²), vortices on a drift to the
    right; it is drawn at p - u/2 and at p + u/2. Some are seen in one frame only, and both frames are noisy.

    Args:
        count: how many pairs.
        size: height and width.
        seed: the same seed draws the same pairs.

    Returns:
        Frames (count, 2, size, size), a field of type ``2*A1``, and u in pixels (count, 2, size, size), a field of type
        ``E``: its components point to the right and up.
    """
    _check(count, size)
    draw = _Draws(seed)
    frames, flows = [], []
    for _ in range(count):
        angle, speed = draw.normal(1) * math.radians(12), 1.5 + 0.3 * draw.normal(1)
        drift = speed * torch.cat([angle.cos(), angle.sin()])
        centres, widths = draw.uniform(-0.5, 0.5, 3, 2) * size, draw.uniform(0.1, 0.25, 3) * size
        strengths = 2.0 * draw.normal(3) / widths
        flow = partial(_flow, drift=drift, centres=centres, widths=widths, strengths=strengths)
        places = draw.uniform(-0.5, 0.5, size * size // 8, 2) * (size + 8)  # some come in from outside
        bright = draw.uniform(0.5, 1.0, len(places))
        half = flow(places) / 2
        pair = []
        for moved in (places - half, places + half):
            seen = bright * (draw.uniform(0, 1, len(places)) > 0.1)
            spots = torch.exp(-(_grid(size).unsqueeze(-2) - moved).square().sum(-1) / (2 * 0.8**2))
            pair.append((spots * seen).sum(-1) + 0.1 * draw.normal(size, size))
        frames.append(torch.stack(pair))
        flows.append(flow(_grid(size)).movedim(-1, 0))
    return torch.stack(frames), torch.stack(flows)


def _flow(p: Tensor, *, drift: Tensor, centres: Tensor, widths: Tensor, strengths: Tensor) -> Tensor:
    """(…, 2): u at the places p, by the formula of ``particle_flow``."""
    away = p.unsqueeze(-2) - centres
    weight = strengths * torch.exp(-away.square().sum(-1) / (2 * widths.square()))
    turned = torch.stack([-away[..., 1], away[..., 0]], dim=-1)
    return drift + (weight.unsqueeze(-1) * turned).sum(-2)


def cell_images(count: int, size: int = 48, *, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Return images of cells that lie flat, among round debris and long fibres, in uneven light and with noise.

    All three are bright outlines, and inside they look like the background: shape and size tell a cell.

    Args:
        count: how many images.
        size: height and width.
        seed: the same seed draws the same images.

    Returns:
        Images (count, 1, size, size), and masks (count, size, size): 1 in a cell, 0 elsewhere.
    """
    _check(count, size)
    draw = _Draws(seed)
    images, masks = [], []
    for _ in range(count):
        cells, debris = _ellipses(draw, size, 7, (5.0, 8.0), (3.0, 4.5)), _ellipses(draw, size, 8, (1.2, 2.2), None)
        fibres = _ellipses(draw, size, 3, (12.0, 24.0), (0.6, 0.9))
        mask = (cells > 0).any(0)
        # Every outline is a bright rim; what is inside looks like the background.
        rims = sum(torch.exp(-shapes.square()).amax(0) for shapes in (cells, debris, fibres))
        tilt = _grid(size) @ draw.normal(2) / size
        images.append(0.5 * torch.as_tensor(rims) + 0.3 * tilt + 0.15 * draw.normal(size, size))
        masks.append(mask.long())
    return torch.stack(images).unsqueeze(1), torch.stack(masks)


def _ellipses(
    draw: _Draws, size: int, count: int, long: tuple[float, float], short: tuple[float, float] | None
) -> Tensor:
    """How many pixels deep each pixel lies in each ellipse, roughly, (count, size, size); circles without ``short``."""
    centres = draw.uniform(-0.5, 0.5, count, 2) * size
    a = draw.uniform(*long, count)
    b = a if short is None else draw.uniform(*short, count)
    angle = draw.normal(count) * math.radians(12)
    away = _grid(size).unsqueeze(-2) - centres
    along = away[..., 0] * angle.cos() + away[..., 1] * angle.sin()
    across = away[..., 1] * angle.cos() - away[..., 0] * angle.sin()
    radius = ((along / a).square() + (across / b).square()).sqrt()
    return ((1 - radius) * torch.minimum(a, b)).movedim(-1, 0)


def _grid(size: int) -> Tensor:
    """(size, size, 2): the coordinates (x to the right, y up) of every pixel, from the image's centre."""
    line = torch.arange(size) - (size - 1) / 2
    return torch.stack(torch.meshgrid(line, -line, indexing="xy"), dim=-1)


class _Draws:
    """Random numbers of one seed."""

    def __init__(self, seed: int) -> None:
        self.generator = torch.Generator().manual_seed(seed)

    def normal(self, *shape: int) -> Tensor:
        return torch.randn(*shape, generator=self.generator)

    def uniform(self, low: float, high: float, *shape: int) -> Tensor:
        return low + (high - low) * torch.rand(*shape, generator=self.generator)


def _check(count: int, size: int) -> None:
    if count < 1 or size < 8:
        raise ValueError(f"at least 1 image of at least 8×8 pixels can be drawn, got count={count}, size={size}.")
