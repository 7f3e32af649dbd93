"""Images and volumes turned, scaled and shifted by any amount: one affine map each, and a linear sample per pixel."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["PERMUTATIONS", "random_turns", "turned_and_scaled", "warped"]

PERMUTATIONS = {axes: tuple(itertools.permutations(range(axes))) for axes in (2, 3)}
"""The orders of the axes of an image or a volume, by their number; the second one swaps rows and columns."""


def turned_and_scaled(turn: Tensor, scale: Tensor, symmetry: Tensor) -> Tensor:
    """The matrices (n, axes, axes) that map a pixel of the result to where it comes from.

    Positions are (x, y), or (x, y, z), from the centre, to the right, down and along the depth. An image is first moved
    by its symmetry, then turned and enlarged.

    Args:
        turn: degrees, counter-clockwise as one sees it, (n, 1); of volumes the axis times the angle, (n, 3), where y
            points up and z towards the viewer.
        scale: the factor that the image is enlarged by, (n,).
        symmetry: bits, (n,): 1 mirrors left and right, 2 up and down, and for volumes 4 front and back. What is left
            when it is divided by their number is a place in ``PERMUTATIONS``: the order in which axes are put after
            that. Of images, 4 swaps rows and columns.
    """
    turned_back = _planar(turn[:, 0], scale) if turn.shape[1] == 1 else _spatial(turn) / scale.view(-1, 1, 1)
    axes = turned_back.shape[1]
    orders = torch.tensor(PERMUTATIONS[axes], device=turn.device)[symmetry >> axes]  # of (z, y, x)
    rows = (axes - 1 - orders).flip(1)[:, :, None].expand_as(turned_back)
    bits = 1 << torch.arange(axes, device=turn.device)
    mirrored = 1 - 2 * ((symmetry[:, None] & bits) > 0).to(turned_back.dtype)
    return turned_back.gather(1, rows) * mirrored[:, :, None]


def _planar(degrees: Tensor, scale: Tensor) -> Tensor:
    """(n, 2, 2): the inverse of a rotation with scaling, y pointing down."""
    radians = torch.deg2rad(degrees)
    cos, sin = radians.cos() / scale, radians.sin() / scale
    return torch.stack([torch.stack([cos, -sin], dim=1), torch.stack([sin, cos], dim=1)], dim=1)


def _spatial(vectors: Tensor) -> Tensor:
    """(n, 3, 3): the inverse of a turn about an axis, with y and z pointing the other way."""
    radians = torch.deg2rad(vectors) * vectors.new_tensor([-1, 1, 1])  # the inverse, in turned coordinates
    angles = radians.norm(dim=1).clamp_min(1e-12).view(-1, 1, 1)
    x, y, z = (radians / angles[:, 0]).unbind(1)
    nothing = torch.zeros_like(x)
    cross = torch.stack([nothing, -z, y, z, nothing, -x, -y, x, nothing], dim=1).view(-1, 3, 3)
    identity = torch.eye(3, device=vectors.device, dtype=vectors.dtype)
    found: Tensor = identity + angles.sin() * cross + (1 - angles.cos()) * (cross @ cross)
    return found


def random_turns(uniform: Tensor, largest: float) -> Tensor:
    """(n, 3): axis times angle in degrees, for turns that are equally likely up to the largest angle.

    A turn by θ has the density 1 - cos θ among all rotations of space; with 180° these are all of them.

    Args:
        uniform: numbers between -1 and 1, (n, 3).
        largest: the largest angle, in degrees.
    """
    height, around, rank = uniform.unbind(1)
    across, direction = (1 - height**2).clamp_min(0).sqrt(), math.pi * around
    axis = torch.stack([across * direction.cos(), across * direction.sin(), height], dim=1)
    angles = np.linspace(0, math.radians(largest), 1025)
    share = (angles - np.sin(angles)) / max(angles[-1] - math.sin(angles[-1]), 1e-300)
    found = np.degrees(np.interp(rank.abs().cpu().numpy(), share, angles))
    return axis * torch.from_numpy(found).to(axis)[:, None]


def warped(
    images: Tensor,
    matrices: Tensor,
    shifts: Tensor,
    *,
    reflect: bool,
    size: Sequence[int] | None = None,
    nearest: bool = False,
) -> Tensor:
    """The images after their maps: the pixel at p becomes what lay at A (p - t), with p in pixels from the centre.

    Args:
        images: floats, (n, channels, height, width), or (n, channels, depth, height, width) for volumes.
        matrices: A of each image, (n, axes, axes), for p = (x, y) or (x, y, z), with y pointing downwards and z along
            the depth.
        shifts: t of each image, (n, axes), to the right, down and along the depth.
        reflect: whether the mirrored image comes in from outside; otherwise black.
        size: the sides of the result, which has the same centre; by default those of the images.
        nearest: take the nearest pixel, as labels need it, in place of the linear mean of its neighbours.
    """
    sides = images.shape[2:]
    # `grid_sample` counts from -1 to 1 between the centres of the outermost pixels, at which it mirrors.
    halves = torch.tensor([max(side - 1, 1) / 2 for side in reversed(sides)], device=images.device)
    per_pixel = matrices / halves[:, None]
    along = []
    for axis, length in enumerate(reversed(sides if size is None else size)):
        place = torch.arange(length, device=images.device) - (length - 1) / 2
        along.append(
            per_pixel[:, None, :, axis] * (place[:, None] - shifts[:, None, axis : axis + 1])
        )  # (n, side, axes)
    return F.grid_sample(
        images,
        _sums(along),
        mode="nearest" if nearest else "bilinear",
        padding_mode="reflection" if reflect else "zeros",
        align_corners=True,
    )


def _sums(along: Sequence[Tensor]) -> Tensor:
    """(n, …, axes): for every pixel, the sum of the contributions of its coordinates."""
    if len(along) == 3:
        x, y, z = along
        return z[:, :, None, None] + y[:, None, :, None] + x[:, None, None]
    # As complex numbers, pairs are added three times faster than along an axis of two.
    columns, rows = (torch.view_as_complex(part.contiguous()) for part in along)
    return torch.view_as_real(rows[:, :, None] + columns[:, None])
