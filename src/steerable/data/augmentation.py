"""Random shifts, mirror images and quarter turns, on the images' own device."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, get_args

import torch
from torch import Tensor

from steerable.errors import check_choice

__all__ = ["Augmentation", "augment"]

Padding = Literal["zero", "reflect"]


@dataclass(frozen=True)
class Augmentation:
    """Random shifts and mirror images ("+" in the paper's tables).

    Args:
        shift: the largest shift up, down, left and right, in pixels.
        flip: whether to mirror left and right with probability 1/2.
        dihedral: whether to draw any of the 8 turns and mirror images of the square in place of ``flip``.
        padding: what comes in from outside: ``"zero"`` for black, ``"reflect"`` for the mirrored image.
    """

    shift: int = 4
    flip: bool = True
    dihedral: bool = False
    padding: Padding = "zero"

    def __post_init__(self) -> None:
        check_choice("padding", self.padding, get_args(Padding))
        if self.shift < 0:
            raise ValueError(f"`shift` must not be negative, got {self.shift}.")

    def check(self, height: int, width: int) -> None:
        """Raise ValueError unless images of this size can be augmented like this."""
        if self.shift >= min(height, width):
            raise ValueError(
                f"a shift by {self.shift} moves a {height}×{width} image out of sight. Use a smaller shift."
            )
        if self.dihedral and height != width:
            raise ValueError(f"quarter turns need square images, got {height}×{width}. Use dihedral=False.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the shift down, the shift to the right and the symmetry of each image: int64, (count, 3).

        A symmetry is three bits: 1 mirrors left and right, 2 up and down, and 4 swaps rows and columns after that.
        """
        where = generator.device
        shifts = torch.randint(-self.shift, self.shift + 1, (count, 2), generator=generator, device=where)
        kinds = 8 if self.dihedral else 2 if self.flip else 1
        return torch.cat([shifts, torch.randint(kinds, (count, 1), generator=generator, device=where)], dim=1)

    def apply(self, images: Tensor, draws: Tensor, rows: Tensor | None = None) -> Tensor:
        """Move image ``rows[i]`` by ``draws[i]``, for all i, in one gather.

        Args:
            images: (n, channels, height, width), of any type.
            draws: (batch, 3), from :meth:`draw`.
            rows: (batch,), by default 0, 1, 2, …
        """
        channels, height, width = images.shape[1:]
        self.check(height, width)
        device = images.device
        rows = torch.arange(len(draws), device=device) if rows is None else rows
        down, right, symmetry = draws.to(device, non_blocking=True).view(-1, 3, 1, 1).unbind(1)
        # Where each pixel of the result comes from: undo the shift, then the symmetry.
        y = torch.arange(height, device=device).view(1, -1, 1) - down
        x = torch.arange(width, device=device).view(1, 1, -1) - right
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) if self.padding == "zero" else None
        y, x = _reflected(y, height), _reflected(x, width)
        if self.dihedral:
            swap = symmetry >= 4
            y, x = torch.where(swap, x, y), torch.where(swap, y, x)
            y = torch.where((symmetry & 2) > 0, height - 1 - y, y)
        x = torch.where((symmetry & 1) > 0, width - 1 - x, x)
        source = (y * width + x).flatten(1)
        every = torch.arange(channels, device=device).view(1, -1, 1)
        moved: Tensor = images.flatten(2)[rows.view(-1, 1, 1), every, source[:, None]].unflatten(2, (height, width))
        return moved if inside is None else moved.masked_fill(~inside[:, None], 0)


def augment(
    batch: Tensor,
    generator: torch.Generator,
    shift: int = 4,
    flip: bool = True,
    *,
    dihedral: bool = False,
    padding: Padding = "zero",
) -> Tensor:
    """Move each image of (batch, channels, height, width) at random, each for itself; see :class:`Augmentation`.

    The same state of a CPU generator gives the same images on any device.
    """
    chosen = Augmentation(shift, flip, dihedral, padding)
    return chosen.apply(batch, chosen.draw(len(batch), generator))


def _reflected(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size-1 mirrored at the first and last pixel."""
    return (size - 1) - ((size - 1) - position.abs()).abs()
