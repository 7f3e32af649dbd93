"""What one equivariant convolution takes: weights, parameters and multiplications, densely and in the irreps' basis."""

from __future__ import annotations

from dataclasses import dataclass

from steerable.algebra.groups import FiniteGroup
from steerable.filters.pixel_patches import pixel_patch
from steerable.types.field_types import FieldType, parameter_cost

__all__ = ["ConvolutionCost", "axes_moved_by", "convolution_cost"]


@dataclass(frozen=True)
class ConvolutionCost:
    """What one equivariant convolution between two types takes, per image of ``pixels`` pixels."""

    in_type: FieldType
    out_type: FieldType
    kernel_size: int
    weights: int
    """Of the dense filter bank: taps · channels in · channels out."""
    parameters: int
    pixels: int

    @property
    def utilization(self) -> float | None:
        """μ, weights per parameter; None where there is no equivariant map."""
        return self.weights / self.parameters if self.parameters else None

    @property
    def dense_flops(self) -> int:
        """Two per multiplication of the dense convolution."""
        return 2 * self.weights * self.pixels

    @property
    def fourier(self) -> int:
        """Multiplications per pixel in the irreps' basis, in which patch ⊗ ρ_in → ρ_out is block diagonal.

        With nᵢ copies of irrep i coming in and mᵢ going out these are Σ sᵢ dᵢ nᵢ mᵢ; for D4 the change of basis is
        additions only.
        """
        group = self.in_type.group
        patch = pixel_patch(group, self.kernel_size)
        incoming = [0] * len(group.irreps)
        for capsule, copies in self.in_type.blocks:
            incoming = [n + copies * m for n, m in zip(incoming, (patch @ capsule.representation).type, strict=True)]
        return sum(
            irrep.commutant_dim * irrep.dim * n * m
            for irrep, n, m in zip(group.irreps, incoming, self.out_type.type, strict=True)
        )

    @property
    def fourier_flops(self) -> int:
        """Two per multiplication in the irreps' basis."""
        return 2 * self.fourier * self.pixels


def convolution_cost(in_type: FieldType, out_type: FieldType, kernel_size: int, image_size: int) -> ConvolutionCost:
    """Count what a convolution takes on an image, or a volume, whose sides are ``image_size`` long."""
    weights = pixel_patch(in_type.group, kernel_size).dim * in_type.channels * out_type.channels
    parameters = parameter_cost(in_type, out_type, kernel_size)
    pixels: int = image_size ** axes_moved_by(in_type.group)
    return ConvolutionCost(in_type, out_type, kernel_size, weights, parameters, pixels)


def axes_moved_by(group: FiniteGroup) -> int:
    """2 for groups that move images, 3 for those that move volumes."""
    return 2 if group.action is None else int(group.action.shape[1])
