"""Random shifts, mirror images, turns, scales and grey levels, on the images' own device."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from steerable.data.warping import turned_and_scaled, warped
from steerable.errors import check_choice

__all__ = ["Augmentation", "Padding", "augment"]

Padding = Literal["zero", "reflect"]

LIMITS = {"angle": (0, 180), "scale": (1, 4), "brightness": (0, 1), "contrast": (0, 1)}


@dataclass(frozen=True)
class Augmentation:
    """What is done to images at random. Shifts and mirror images are the "+" in the paper's tables.

    Without an angle and a scale, pixels move to other pixels as they are; with either, they are interpolated.

    Args:
        shift: the largest shift up, down, left and right, in pixels.
        flip: whether to mirror left and right with probability 1/2.
        dihedral: whether to draw any of the 8 turns and mirror images of the square in place of ``flip``.
        padding: what comes in from outside: ``"zero"`` for black, ``"reflect"`` for the mirrored image.
        angle: the largest turn to either side, in degrees.
        scale: the largest factor s; images are enlarged by a factor between 1/s and s, as often as they are shrunk.
        brightness: the largest share of the full range, 255, that is added to the grey levels or taken away.
        contrast: the largest share by which the grey levels are multiplied up or down.
    """

    shift: int = 4
    flip: bool = True
    dihedral: bool = False
    padding: Padding = "zero"
    angle: float = 0.0
    scale: float = 1.0
    brightness: float = 0.0
    contrast: float = 0.0

    def __post_init__(self) -> None:
        check_choice("padding", self.padding, get_args(Padding))
        if self.shift < 0:
            raise ValueError(f"`shift` must not be negative, got {self.shift}.")
        for name, (lowest, highest) in LIMITS.items():
            if not lowest <= getattr(self, name) <= highest:
                raise ValueError(f"`{name}` must lie between {lowest} and {highest}, got {getattr(self, name)}.")

    def __str__(self) -> str:
        """What is done, in words.

        >>> print(Augmentation(3, angle=45, contrast=0.1))
        turns up to 45°, mirror images, shifts up to 3 pixels, contrast ±10 %
        """
        done = {
            f"turns up to {self.angle:g}°": self.angle,
            "mirror images": self.flip and not self.dihedral,
            "quarter turns and mirror images": self.dihedral,
            f"shifts up to {self.shift} pixel{'s' if self.shift > 1 else ''}": self.shift,
            f"sizes up to ×{self.scale:g}": self.scale > 1,
            f"brightness ±{self.brightness:.0%}".replace("%", " %"): self.brightness,
            f"contrast ±{self.contrast:.0%}".replace("%", " %"): self.contrast,
        }
        return ", ".join(words for words, is_done in done.items() if is_done) or "nothing"

    @property
    def interpolates(self) -> bool:
        """Whether images are turned or scaled, so that pixels come to lie between pixels."""
        return self.angle > 0 or self.scale > 1

    def check(self, height: int, width: int) -> None:
        """Raise ValueError unless images of this size can be augmented like this."""
        if self.shift >= min(height, width):
            raise ValueError(
                f"a shift by {self.shift} moves a {height}×{width} image out of sight. Use a smaller shift."
            )
        if self.dihedral and height != width:
            raise ValueError(f"quarter turns need square images, got {height}×{width}. Use dihedral=False.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw what happens to each image: the shift down, the shift to the right and the symmetry, int64, (count, 3).

        A symmetry is three bits: 1 mirrors left and right, 2 up and down, and 4 swaps rows and columns after that.
        With a turn, a scale or a change of the grey levels it is float32, (count, 7), and goes on with the angle in
        degrees, the logarithm of the scale, and what is added to the grey levels' factor 1 and to the levels.
        """
        where = generator.device
        shifts = torch.randint(-self.shift, self.shift + 1, (count, 2), generator=generator, device=where)
        kinds = 8 if self.dihedral else 2 if self.flip else 1
        exact = torch.cat([shifts, torch.randint(kinds, (count, 1), generator=generator, device=where)], dim=1)
        largest = (self.angle, math.log(self.scale), self.contrast, 255 * self.brightness)
        if not any(largest):
            return exact
        between = 2 * torch.rand(count, 4, generator=generator, device=where) - 1  # from -1 to 1
        return torch.cat([exact, between * torch.tensor(largest, device=where)], dim=1)

    def apply(
        self, images: Tensor, draws: Tensor, rows: Tensor | None = None, size: tuple[int, int] | None = None
    ) -> Tensor:
        """Change image ``rows[i]`` as ``draws[i]`` says, for all i at once.

        Args:
            images: (n, channels, height, width), of any type; grey levels go from 0 to 255.
            draws: (batch, 3) or (batch, 7), from :meth:`draw`.
            rows: (batch,), by default 0, 1, 2, …
            size: height and width of the middle that is cut out after that; by default all of it.
        """
        moves, more, rows = self._prepared(images, draws, rows)
        if self.interpolates:
            levels = self._warped(images.index_select(0, rows).float(), moves, more, size, nearest=False)
        else:
            moved = _middle(self._gathered(images, moves, rows), size)
            if not more.numel():
                return moved
            levels = moved.float()
        factor, added = (column.view(-1, 1, 1, 1) for column in more[:, 2:].unbind(1))
        if images.is_floating_point():
            return levels.mul_(1 + factor).add_(added).to(images.dtype)
        # Cutting off what follows the point rounds to the nearest level once 1/2 has been added.
        return levels.mul_(1 + factor).add_(added + 0.5).clamp_(0, 255).to(images.dtype)

    def apply_to_labels(self, labels: Tensor, draws: Tensor, size: tuple[int, int] | None = None) -> Tensor:
        """Move labels, whole numbers below 2^24 of shape (batch, height, width), as :meth:`apply` moves the images.

        Between pixels the nearest one counts, and outside what :meth:`apply` shows there; grey levels do not matter.
        """
        moves, more, rows = self._prepared(labels[:, None], draws, None)
        if self.interpolates:
            return self._warped(labels[:, None].float(), moves, more, size, nearest=True)[:, 0].to(labels.dtype)
        return _middle(self._gathered(labels[:, None], moves, rows), size)[:, 0]

    def _prepared(self, images: Tensor, draws: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(exact moves, what is drawn besides, rows) on the images' device."""
        self.check(*images.shape[2:])
        draws = draws.to(images.device, non_blocking=True)
        rows = torch.arange(len(draws), device=images.device) if rows is None else rows
        return draws[:, :3].long(), draws[:, 3:], rows

    def _warped(
        self, images: Tensor, moves: Tensor, more: Tensor, size: tuple[int, int] | None, *, nearest: bool
    ) -> Tensor:
        matrices = turned_and_scaled(more[:, 0], more[:, 1].exp(), moves[:, 2])
        shifts = moves[:, :2].flip(1)
        return warped(images, matrices, shifts, reflect=self.padding == "reflect", size=size, nearest=nearest)

    def _gathered(self, images: Tensor, moves: Tensor, rows: Tensor) -> Tensor:
        """Pixels as they are in their new places, in one gather."""
        channels, height, width = images.shape[1:]
        device = images.device
        down, right, symmetry = moves.view(-1, 3, 1, 1).unbind(1)
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


def augment(batch: Tensor, generator: torch.Generator, shift: int = 4, flip: bool = True, **more: Any) -> Tensor:
    """Change each image of (batch, channels, height, width) at random, each for itself; see :class:`Augmentation`.

    The same state of a CPU generator gives the same images on any device; where pixels are interpolated, to rounding.
    """
    chosen = Augmentation(shift, flip, **more)
    return chosen.apply(batch, chosen.draw(len(batch), generator))


def _middle(images: Tensor, size: tuple[int, int] | None) -> Tensor:
    if size is None:
        return images
    top, left = ((whole - part) // 2 for whole, part in zip(images.shape[-2:], size, strict=True))
    return images[..., top : top + size[0], left : left + size[1]]


def _reflected(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size-1 mirrored at the first and last pixel."""
    return (size - 1) - ((size - 1) - position.abs()).abs()
