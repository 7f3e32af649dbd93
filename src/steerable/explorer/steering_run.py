"""The computation of the Steer tab: a steerable and a plain network on a picture and a moved picture, in float64.

Elements that the pixel grid does not carry move pictures by interpolation, and some of the picture out of the square.
For them the picture fades to white towards the border of a disc, and features are compared inside the disc.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Element
from steerable.algebra.groups import FiniteGroup
from steerable.checking.discs import distance_in_disc, in_disc
from steerable.transforms import elements_on_the_grid, transform
from steerable.types.field_types import FieldType

__all__ = ["IMAGE_SIZE", "Answer", "Comparison", "compare"]

IMAGE_SIZE = 32


@dataclass(frozen=True)
class Answer:
    """One network's feature maps, each (channels, height, width)."""

    of_picture: FloatArray
    """Φ f"""
    steered: FloatArray
    """π'(g) Φ f, without running the network again"""
    of_moved: FloatArray
    """Φ π(g) f"""
    on_grid: bool
    """Whether g maps pixels onto pixels"""

    @property
    def difference(self) -> FloatArray:
        return self.of_moved - self.steered

    @property
    def worst(self) -> float:
        """The largest difference, as a share of the largest feature; off the grid, root mean square in the disc."""
        if not self.on_grid:
            moved, steered, before = map(torch.from_numpy, (self.of_moved, self.steered, self.of_picture))
            return distance_in_disc(moved, steered, before)
        return float(np.abs(self.difference).max() / max(float(np.abs(self.of_picture).max()), 1e-300))


@dataclass(frozen=True)
class Comparison:
    """A picture before and after g, and the answers of the two networks."""

    picture: FloatArray
    moved: FloatArray
    steerable: Answer
    plain: Answer

    @staticmethod
    def place(capsule: Capsule, element: Element, row: int, column: int) -> tuple[int, int] | None:
        """gx for the pixel x = (row, column), or the nearest pixel; None if it lies outside the picture."""
        motion, middle = capsule.group.motion(element), (IMAGE_SIZE - 1) / 2
        if motion is None:
            raise RuntimeError("a group of the plane has an action")
        right, up = motion @ (column - middle, middle - row)
        moved = round(float(middle - up)), round(float(middle + right))
        return moved if all(0 <= k < IMAGE_SIZE for k in moved) else None


@torch.no_grad()
def compare(picture: FloatArray, element: Element, capsule: Capsule) -> Comparison:
    """Run both networks, with fixed random weights, on f and on π(g) f.

    Args:
        picture: (IMAGE_SIZE, IMAGE_SIZE, 3).
        element: g.
        capsule: what the networks' output is made of; for the plain one only the number of channels counts.
    """
    image_type, out_type = FieldType(capsule.group, "3*A1"), FieldType(capsule.group, capsule)
    on_grid = element in elements_on_the_grid(capsule.group)
    ink = 1 - torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None]  # white is 0, as is the outside
    ink = ink if on_grid else in_disc(ink)
    f, moved = ink, transform(ink, element, image_type)

    def answer(network: nn.Module) -> Answer:
        before, after = network(f), network(moved)
        return Answer(_array(before), _array(transform(before, element, out_type)), _array(after), on_grid)

    steerable, plain = _networks(capsule)
    before, after = (1 - _array(x).transpose(1, 2, 0) for x in (f, moved))  # as it looks on paper
    return Comparison(before, after, answer(steerable), answer(plain))


@lru_cache(maxsize=64)
def _networks(capsule: Capsule) -> tuple[nn.Module, nn.Module]:
    """Two layers each, with the same channels: a steerable network and an ordinary one."""
    finite = isinstance(capsule.group, FiniteGroup)
    image = FieldType(capsule.group, "3*A1")
    hidden = FieldType(capsule.group, "2*regular" if finite else "2*regular(2)")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        steerable = snn.Sequential(
            snn.Conv2d(image, hidden, 5, padding=2, padding_mode="replicate"),
            snn.ReLU(hidden) if finite else snn.Fourier(hidden, torch.relu),
            snn.Conv2d(hidden, FieldType(capsule.group, capsule), 3, padding=1, padding_mode="replicate"),
        )
        plain = nn.Sequential(
            nn.Conv2d(3, hidden.channels, 5, padding=2, padding_mode="replicate"),
            nn.ReLU(),
            nn.Conv2d(hidden.channels, capsule.dim, 3, padding=1, padding_mode="replicate"),
        )
    return steerable.double().eval(), plain.double().eval()


def _array(x: Tensor) -> FloatArray:
    return np.asarray(x[0].numpy(), dtype=np.float64)
