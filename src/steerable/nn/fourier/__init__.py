"""The group Fourier convolution: one matrix product per irrep in place of the dense filter bank."""

from steerable.nn.fourier.function import fourier_conv
from steerable.nn.fourier.plan import FourierPlan, fourier_plan

__all__ = ["FourierPlan", "fourier_conv", "fourier_plan"]
