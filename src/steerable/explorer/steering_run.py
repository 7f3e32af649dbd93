"""What the Steer tab computes: a steerable and a plain network on a picture and on the moved picture, in float64."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.filters.pixel_patches import pixel_patch
from steerable.transforms import transform
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

    @property
    def difference(self) -> FloatArray:
        return self.of_moved - self.steered

    @property
    def worst(self) -> float:
        """The largest difference, as a share of the largest feature."""
        return float(np.abs(self.difference).max() / max(float(np.abs(self.of_picture).max()), 1e-300))


@dataclass(frozen=True)
class Comparison:
    """A picture before and after g, and what the two networks make of it."""

    picture: FloatArray
    moved: FloatArray
    steerable: Answer
    plain: Answer

    @staticmethod
    def place(capsule: Capsule, element: str, row: int, column: int) -> tuple[int, int]:
        """gx for the pixel x = (row, column)."""
        patch = pixel_patch(capsule.group, IMAGE_SIZE)
        if patch.monomial is None:
            raise RuntimeError("a patch is a permutation")
        image = patch.monomial.image[capsule.group.index(element)]
        moved_row, moved_column = divmod(int(image[row * IMAGE_SIZE + column]), IMAGE_SIZE)
        return moved_row, moved_column


@torch.no_grad()
def compare(picture: FloatArray, element: str, capsule: Capsule) -> Comparison:
    """Run both networks, with fixed random weights, on f and on π(g) f.

    Args:
        picture: (IMAGE_SIZE, IMAGE_SIZE, 3).
        element: g.
        capsule: what the networks' output is made of; for the plain one only the number of channels counts.
    """
    image_type, out_type = FieldType(capsule.group, "3*A1"), FieldType(capsule.group, capsule)
    f = torch.from_numpy(np.ascontiguousarray(picture.transpose(2, 0, 1)))[None]
    moved = transform(f, element, image_type)

    def answer(network: nn.Module) -> Answer:
        before, after = network(f), network(moved)
        return Answer(*(_array(x) for x in (before, transform(before, element, out_type), after)))

    steerable, plain = _networks(capsule)
    return Comparison(picture, _array(moved).transpose(1, 2, 0), answer(steerable), answer(plain))


@lru_cache(maxsize=64)
def _networks(capsule: Capsule) -> tuple[nn.Module, nn.Module]:
    """Two layers each, with the same channels: a steerable network and an ordinary one."""
    image, hidden = FieldType(capsule.group, "3*A1"), FieldType(capsule.group, "2*regular")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        steerable = snn.Sequential(
            snn.Conv2d(image, hidden, 5, padding=2, padding_mode="replicate"),
            snn.ReLU(hidden),
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
