"""Random shifts, mirror images, turns, scales and grey levels, on the images' or volumes' own device."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

import torch
from torch import Tensor

from steerable.data.warping import PERMUTATIONS, random_turns, turned_and_scaled, warped
from steerable.errors import check_choice

__all__ = ["Augmentation", "Padding", "augment"]

Padding = Literal["zero", "reflect"]

LIMITS = {"angle": (0, 180), "scale": (1, 4), "brightness": (0, 1), "contrast": (0, 1)}


@dataclass(frozen=True)
class Augmentation:
    """Random changes of images. Shifts and mirror images are the "+" in the paper's tables.

    Without an angle and a scale, pixels move to other pixels as they are; with either, they are interpolated.

    Args:
        shift: the largest shift up, down, left and right, in pixels.
        flip: whether to mirror left and right with probability 1/2.
        dihedral: whether to draw any of the 8 turns and mirror images of the square in place of ``flip``, or of the 48
            of the cube.
        padding: what comes in from outside: ``"zero"`` for black, ``"reflect"`` for the mirrored image.
        angle: the largest turn to either side, in degrees; of a volume, about an axis of any direction. All turns up
            to that angle are equally likely.
        scale: the largest factor s; images are enlarged by a factor between 1/s and s, as often as they are shrunk.
        brightness: the largest share of the full range, 255, that is added to the grey levels or taken away.
        contrast: the largest share by which the grey levels are multiplied up or down.
        axes: 2 for images, 3 for volumes.
        upright: whether volumes are turned about z alone, the axis of their depth, and z is kept by ``dihedral``.
    """

    shift: int = 4
    flip: bool = True
    dihedral: bool = False
    padding: Padding = "zero"
    angle: float = 0.0
    scale: float = 1.0
    brightness: float = 0.0
    contrast: float = 0.0
    axes: int = 2
    upright: bool = False

    def __post_init__(self) -> None:
        check_choice("padding", self.padding, get_args(Padding))
        check_choice("axes", self.axes, (2, 3))
        if self.shift < 0:
            raise ValueError(f"`shift` must not be negative, got {self.shift}.")
        for name, (lowest, highest) in LIMITS.items():
            if not lowest <= getattr(self, name) <= highest:
                raise ValueError(f"`{name}` must lie between {lowest} and {highest}, got {getattr(self, name)}.")

    def __str__(self) -> str:
        """The changes, in words.

        >>> print(Augmentation(3, angle=45, contrast=0.1))
        turns up to 45°, mirror images, shifts up to 3 pixels, contrast ±10 %
        """
        about = " about z" if self.upright and self.axes == 3 else ""
        done = {
            f"turns up to {self.angle:g}°{about}": self.angle,
            "mirror images": self.flip and not self.dihedral,
            "quarter turns and mirror images": self.dihedral,
            f"shifts up to {self.shift} {'pixel' if self.axes == 2 else 'voxel'}{'s' * (self.shift > 1)}": self.shift,
            f"sizes up to ×{self.scale:g}": self.scale > 1,
            f"brightness ±{self.brightness:.0%}".replace("%", " %"): self.brightness,
            f"contrast ±{self.contrast:.0%}".replace("%", " %"): self.contrast,
        }
        return ", ".join(words for words, is_done in done.items() if is_done) or "nothing"

    @property
    def interpolates(self) -> bool:
        """Whether images are turned or scaled, so that pixels come to lie between pixels."""
        return self.angle > 0 or self.scale > 1

    def check(self, *sides: int) -> None:
        """Raise ValueError unless images (height, width) or volumes (depth, height, width) can be changed like this."""
        size, kind = "×".join(map(str, sides)), "image" if self.axes == 2 else "volume"
        if len(sides) != self.axes:
            raise ValueError(
                f"this augmentation is for {kind}s with {self.axes} sides, got {size}. Use axes={len(sides)}."
            )
        if self.shift >= min(sides):
            raise ValueError(f"a shift by {self.shift} moves a {size} {kind} out of sight. Use a smaller shift.")
        if self.dihedral and len(set(sides[-2:] if self.upright else sides)) > 1:
            shape = "square" if self.axes == 2 or self.upright else "cubic"
            raise ValueError(f"quarter turns need {shape} {kind}s, got {size}. Use dihedral=False.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """Draw the change of each image: the shift down, the shift to the right and the symmetry, int64, (count, 3).

        A symmetry is three bits: 1 mirrors left and right, 2 up and down, and 4 swaps rows and columns after that.
        With a turn, a scale or a change of the grey levels it is float32, (count, 7), and continues with the angle in
        degrees, the logarithm of the scale, and what is added to the grey levels' factor 1 and to the levels.

        For volumes it is (count, 4) or (count, 10). Shifts begin with the one along the depth, symmetries are those of
        :func:`~steerable.data.warping.turned_and_scaled`, and an angle is three numbers, the axis (x, y, z) times the
        angle.
        """
        where, axes = generator.device, self.axes
        shifts = torch.randint(-self.shift, self.shift + 1, (count, axes), generator=generator, device=where)
        every = 8 if self.upright or axes == 2 else 48
        kinds = every if self.dihedral else 2 if self.flip else 1
        symmetry = torch.randint(kinds, (count, 1), generator=generator, device=where)
        if axes == 3 and kinds == 8:
            symmetry = symmetry + (symmetry & 4)  # the bit that swaps rows and columns is the one above that of z
        exact = torch.cat([shifts, symmetry], dim=1)
        largest = (self.angle, math.log(self.scale), self.contrast, 255 * self.brightness)
        if not any(largest):
            return exact
        turns = self._numbers_of_a_turn
        between = 2 * torch.rand(count, turns + 3, generator=generator, device=where) - 1  # from -1 to 1
        if axes == 2 or self.upright:
            turn = torch.cat([torch.zeros_like(between[:, 1:turns]), between[:, :1] * self.angle], dim=1)
        else:
            turn = random_turns(between[:, :turns], self.angle)
        return torch.cat([exact, turn, between[:, turns:] * torch.tensor(largest[1:], device=where)], dim=1)

    @property
    def _numbers_of_a_turn(self) -> int:
        return 1 if self.axes == 2 else 3

    def apply(
        self, images: Tensor, draws: Tensor, rows: Tensor | None = None, size: Sequence[int] | None = None
    ) -> Tensor:
        """Change image ``rows[i]`` as ``draws[i]`` says, for all i at once.

        Args:
            images: (n, channels, height, width), or (n, channels, depth, height, width) for volumes, of any type; grey
                levels go from 0 to 255.
            draws: from :meth:`draw`.
            rows: (batch,), by default 0, 1, 2, …
            size: the sides of the middle that is cut out after that; by default all of it.
        """
        moves, more, rows = self._prepared(images, draws, rows)
        if self.interpolates:
            levels = self._warped(images.index_select(0, rows).float(), moves, more, size, nearest=False)
        else:
            moved = _middle(self._gathered(images, moves, rows), size)
            if not more.numel():
                return moved
            levels = moved.float()
        levelled = more[:, self._numbers_of_a_turn + 1 :]
        factor, added = (column.view(-1, *[1] * (images.ndim - 1)) for column in levelled.unbind(1))
        if images.is_floating_point():
            return levels.mul_(1 + factor).add_(added).to(images.dtype)
        # Cutting off what follows the point rounds to the nearest level once 1/2 has been added.
        return levels.mul_(1 + factor).add_(added + 0.5).clamp_(0, 255).to(images.dtype)

    def apply_to_labels(self, labels: Tensor, draws: Tensor, size: Sequence[int] | None = None) -> Tensor:
        """Move labels, whole numbers below 2^24 of shape (batch, height, width), as :meth:`apply` moves the images.

        Between pixels the nearest one counts, and outside what :meth:`apply` shows there; grey levels do not matter.
        """
        moves, more, rows = self._prepared(labels[:, None], draws, None)
        if self.interpolates:
            return self._warped(labels[:, None].float(), moves, more, size, nearest=True)[:, 0].to(labels.dtype)
        return _middle(self._gathered(labels[:, None], moves, rows), size)[:, 0]

    def _prepared(self, images: Tensor, draws: Tensor, rows: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """(exact moves, everything else that is drawn, rows) on the images' device."""
        self.check(*images.shape[2:])
        draws = draws.to(images.device, non_blocking=True)
        rows = torch.arange(len(draws), device=images.device) if rows is None else rows
        return draws[:, : self.axes + 1].long(), draws[:, self.axes + 1 :], rows

    def _warped(
        self, images: Tensor, moves: Tensor, more: Tensor, size: Sequence[int] | None, *, nearest: bool
    ) -> Tensor:
        turns = self._numbers_of_a_turn
        matrices = turned_and_scaled(more[:, :turns], more[:, turns].exp(), moves[:, -1])
        shifts = moves[:, :-1].flip(1)
        return warped(images, matrices, shifts, reflect=self.padding == "reflect", size=size, nearest=nearest)

    def _gathered(self, images: Tensor, moves: Tensor, rows: Tensor) -> Tensor:
        """Pixels in their new places, in one gather."""
        device, axes, sides = images.device, self.axes, images.shape[2:]
        shifts, symmetry = moves[:, :-1], moves[:, -1].view(-1, *[1] * axes)
        # Where each pixel of the result comes from: undo the shift, then the symmetry.
        places: Sequence[Tensor] = ()
        for axis, side in enumerate(sides):
            along = torch.arange(side, device=device).view(-1, *[1] * (axes - 1 - axis))
            places = (*places, along - shifts[:, axis].view(-1, *[1] * axes))
        inside = None
        if self.padding == "zero":
            for place, side in zip(places, sides, strict=True):
                within = (place >= 0) & (place < side)
                inside = within if inside is None else inside & within
        places = [_reflected(place, side) for place, side in zip(places, sides, strict=True)]
        if self.dihedral:
            places = _permuted(places, moves[:, -1] >> axes)
        source: Tensor | int = 0
        for axis, (place, side) in enumerate(zip(places, sides, strict=True)):
            bit = 1 << (axes - 1 - axis)
            if self.dihedral or bit == 1:
                place = torch.where((symmetry & bit) > 0, side - 1 - place, place)
            source = source * side + place
        every = torch.arange(images.shape[1], device=device).view(1, -1, 1)
        flat = torch.as_tensor(source).flatten(1)[:, None]
        moved: Tensor = images.flatten(2)[rows.view(-1, 1, 1), every, flat].unflatten(2, sides)
        return moved if inside is None else moved.masked_fill(~inside[:, None], 0)


def _permuted(places: Sequence[Tensor], numbers: Tensor) -> Sequence[Tensor]:
    """Coordinates along each axis with the axes in another order, each image in its own."""
    orders = torch.tensor(PERMUTATIONS[len(places)], device=numbers.device)[numbers]  # (n, axes)
    every = torch.stack(torch.broadcast_tensors(*places), dim=1)
    return every[torch.arange(len(every), device=numbers.device)[:, None], orders].unbind(1)


def augment(batch: Tensor, generator: torch.Generator, shift: int = 4, flip: bool = True, **more: Any) -> Tensor:
    """Change each image of (batch, channels, height, width) at random by itself; see :class:`Augmentation`.

    The same state of a CPU generator gives the same images on any device; where pixels are interpolated, to rounding.
    """
    chosen = Augmentation(shift, flip, **more)
    return chosen.apply(batch, chosen.draw(len(batch), generator))


def _middle(images: Tensor, size: Sequence[int] | None) -> Tensor:
    if size is None:
        return images
    starts = [(whole - part) // 2 for whole, part in zip(images.shape[-len(size) :], size, strict=True)]
    for axis, (start, part) in enumerate(zip(starts, size, strict=True), start=images.ndim - len(size)):
        images = images.narrow(axis, start, part)
    return images


def _reflected(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size-1 mirrored at the first and last pixel."""
    return (size - 1) - ((size - 1) - position.abs()).abs()
