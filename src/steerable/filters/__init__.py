"""Filter spaces, and the equivariant kernels on them."""

from steerable.filters.gaussian_rings import ring_space
from steerable.filters.kernel_bases import kernel_basis, sparse_kernel_basis
from steerable.filters.pixel_patches import pixel_patch, pixel_space
from steerable.filters.spaces import FilterSpace
from steerable.filters.steerable_filters import filter_space
from steerable.lazy import public_names

__dir__ = public_names(__name__)

__all__ = [
    "FilterSpace",
    "filter_space",
    "kernel_basis",
    "pixel_patch",
    "pixel_space",
    "ring_space",
    "sparse_kernel_basis",
]
