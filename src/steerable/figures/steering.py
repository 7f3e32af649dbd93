"""The computation behind the paper's figures: a field, an equivariant filter bank, and what g does to them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F

from steerable.algebra.arrays import FloatArray
from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.errors import expect
from steerable.figures.filters import check_grid
from steerable.filters import kernel_basis
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["Steering", "chosen", "paper_capsule", "random_bank"]


def paper_capsule(group: Group) -> Capsule:
    """The capsule that the paper draws, four channels that r shifts cyclically, or the regular one outside D4."""
    return group.capsule("qm" if group.name == "D4" else "regular")


def chosen(group: Group, element: str | None, capsule: Capsule | None) -> tuple[str, Capsule]:
    """The element and the capsule that a figure of a group on the pixel grid shows; by default those of the paper.

    The paper draws r; for other groups it is the first generator, or e where there is none.
    """
    check_grid(group)
    g = next(iter(group.generators), group.identity) if element is None else element
    return str(g), paper_capsule(group) if capsule is None else capsule


def random_bank(target: Capsule, size: int, seed: int = 0) -> FloatArray:
    """(dim, 1, s, s): Ψ = Σ αᵢ ψᵢ, a combination of all equivariant filter banks from grey images, α drawn by seed.

    Each filter's mean is subtracted unless nothing would be left: a bank that responds to edges shows more. The mean
    over taps commutes with H, so that the bank stays equivariant.
    """
    expect(target, Capsule, "a capsule, such as dihedral(4).capsule('qm')")
    basis = kernel_basis(target.group.trivial, target.representation, size)
    if not len(basis):
        raise ValueError(
            f"there is no equivariant {size}×{size} filter from grey images to `{target}` of {target.group.name}, so "
            "there is nothing to draw. Choose a larger filter, or another capsule such as `regular`."
        )
    bank: FloatArray = np.tensordot(np.random.default_rng(seed).normal(size=len(basis)), basis, axes=1)
    edges = bank - bank.mean(axis=(2, 3), keepdims=True)
    return edges if np.abs(edges).max() > 1e-9 else bank


@dataclass(frozen=True)
class Steering:
    """A grey picture f, (height, width), and the network Φ f = Ψ ⋆ f with an equivariant bank Ψ, (dim, 1, s, s)."""

    picture: FloatArray
    bank: FloatArray
    capsule: Capsule

    def moved_picture(self, element: str) -> FloatArray:
        """π(g) f."""
        grey = self.capsule.group.capsule("trivial")
        return np.asarray(self._transformed(self.picture[None], element, grey)[0], dtype=np.float64)

    def features(self, element: str | None = None) -> FloatArray:
        """Φ π(g) f, (dim, height, width); without an element, Φ f."""
        f = self.picture if element is None else self.moved_picture(element)
        x, weight = (torch.from_numpy(np.ascontiguousarray(a)) for a in (f[None, None], self.bank))
        maps = F.conv2d(x, weight, padding=(self.bank.shape[-1] - 1) // 2)
        return np.asarray(maps[0].numpy(), dtype=np.float64)

    def moved_features(self, element: str) -> FloatArray:
        """π'(g) Φ f, without running Φ again."""
        return self._transformed(self.features(), element, self.capsule)

    def difference(self, element: str) -> float:
        """The largest |Φ π(g) f − π'(g) Φ f|: rounding error."""
        return float(np.abs(self.features(element) - self.moved_features(element)).max())

    @staticmethod
    def _transformed(field: FloatArray, element: str, capsule: Capsule) -> FloatArray:
        x = torch.from_numpy(np.ascontiguousarray(field))
        return np.asarray(transform(x, element, FieldType(capsule.group, capsule)).numpy(), dtype=np.float64)
