"""The costs of one equivariant convolution: weights, parameters, and multiplications, also in the basis of irreps."""

from __future__ import annotations

from dataclasses import dataclass

from steerable.algebra.group_interface import Group
from steerable.types.costs import dense_weights, fourier_products, parameter_cost
from steerable.types.field_types import FieldType

__all__ = ["ConvolutionCost", "axes_moved_by", "convolution_cost"]


@dataclass(frozen=True)
class ConvolutionCost:
    """The costs of one equivariant convolution between two types, per image of ``pixels`` pixels."""

    in_type: FieldType
    out_type: FieldType
    kernel_size: int
    weights: int
    """Of the dense filter bank: taps · channels in · channels out."""
    parameters: int
    pixels: int

    @property
    def utilization(self) -> float | None:
        """μ, the number of weights per parameter; None if there is no equivariant map."""
        return self.weights / self.parameters if self.parameters else None

    @property
    def dense_flops(self) -> int:
        """The FLOPs of the dense convolution: two per multiplication."""
        return 2 * self.weights * self.pixels

    @property
    def fourier(self) -> int:
        """The number of multiplications per pixel in the basis of irreps."""
        return fourier_products(self.in_type, self.out_type, self.kernel_size)

    @property
    def fourier_flops(self) -> int:
        """The FLOPs in the basis of irreps: two per multiplication."""
        return 2 * self.fourier * self.pixels


def convolution_cost(in_type: FieldType, out_type: FieldType, kernel_size: int, image_size: int) -> ConvolutionCost:
    """The costs of a convolution on an image, or a volume, whose sides are ``image_size`` long."""
    weights = dense_weights(in_type, out_type, kernel_size)
    parameters = parameter_cost(in_type, out_type, kernel_size)
    pixels: int = image_size ** axes_moved_by(in_type.group)
    return ConvolutionCost(in_type, out_type, kernel_size, weights, parameters, pixels)


def axes_moved_by(group: Group) -> int:
    """2 for groups that move images, 3 for those that move volumes."""
    return group.axes or 2
