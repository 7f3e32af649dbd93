"""Filter spaces, and the equivariant kernels on them."""

from steerable.filters.pixel_patches import kernel_basis, pixel_patch, sparse_kernel_basis

__all__ = ["kernel_basis", "pixel_patch", "sparse_kernel_basis"]
