"""Images turned, scaled and shifted by any amount: one affine map per image, and a bilinear sample for each pixel."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["turned_and_scaled", "warped"]


def turned_and_scaled(degrees: Tensor, scale: Tensor, symmetry: Tensor) -> Tensor:
    """The matrices (n, 2, 2) that map a pixel of the result, (x, y) from the centre, to where it comes from.

    An image is first moved by its symmetry, then turned and enlarged. Each argument is (n,).

    Args:
        degrees: the turn, counter-clockwise as one sees it.
        scale: the factor that the image is enlarged by.
        symmetry: three bits: 1 mirrors left and right, 2 up and down, and 4 swaps rows and columns after that.
    """
    radians = torch.deg2rad(degrees)
    cos, sin = radians.cos() / scale, radians.sin() / scale
    x, y = torch.stack([cos, -sin], dim=1), torch.stack([sin, cos], dim=1)  # y points downwards
    swap = (symmetry >= 4).view(-1, 1)
    x, y = torch.where(swap, y, x), torch.where(swap, x, y)
    mirrored = [1 - 2 * ((symmetry & bit) > 0).to(cos.dtype).view(-1, 1) for bit in (1, 2)]
    return torch.stack([x * mirrored[0], y * mirrored[1]], dim=1)


def warped(
    images: Tensor,
    matrices: Tensor,
    shifts: Tensor,
    *,
    reflect: bool,
    size: tuple[int, int] | None = None,
    nearest: bool = False,
) -> Tensor:
    """The images after their maps: the pixel at p becomes what lay at A (p - t), with p in pixels from the centre.

    Args:
        images: floats, (n, channels, height, width).
        matrices: A of each image, (n, 2, 2), for p = (x, y) with y pointing downwards.
        shifts: t of each image, (n, 2), to the right and down.
        reflect: whether the mirrored image comes in from outside; otherwise black.
        size: height and width of the result, which has the same centre; by default those of the images.
        nearest: take the nearest pixel, as labels need it, in place of the bilinear mean of four.
    """
    height, width = images.shape[-2:]
    # `grid_sample` counts from -1 to 1 between the centres of the outermost pixels, at which it mirrors.
    halves = torch.tensor([max(width - 1, 1) / 2, max(height - 1, 1) / 2], device=images.device)
    down, across = (height, width) if size is None else size
    x, y = (torch.arange(length, device=images.device) - (length - 1) / 2 for length in (across, down))
    per_pixel = matrices / halves[:, None]
    columns = per_pixel[:, None, :, 0] * (x[:, None] - shifts[:, None, :1])  # (n, width, 2)
    rows = per_pixel[:, None, :, 1] * (y[:, None] - shifts[:, None, 1:])  # (n, height, 2)
    # As complex numbers, pairs are added three times faster than along an axis of two.
    pairs = torch.view_as_complex(rows)[:, :, None] + torch.view_as_complex(columns)[:, None]
    return F.grid_sample(
        images,
        torch.view_as_real(pairs),
        mode="nearest" if nearest else "bilinear",
        padding_mode="reflection" if reflect else "zeros",
        align_corners=True,
    )
