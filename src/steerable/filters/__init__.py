"""Filter spaces, and the equivariant kernels on them."""

from steerable.filters.kernel_bases import kernel_basis, sparse_kernel_basis
from steerable.filters.pixel_patches import pixel_patch, pixel_space
from steerable.filters.spaces import FilterSpace

__all__ = ["FilterSpace", "kernel_basis", "pixel_patch", "pixel_space", "sparse_kernel_basis"]
