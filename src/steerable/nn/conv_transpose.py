"""Equivariant transposed convolutions of images and volumes, which enlarge a field."""

from __future__ import annotations

from steerable.nn.transposed_convolution_layer import TransposedConvolutionLayer

__all__ = ["ConvTranspose2d", "ConvTranspose3d"]


class ConvTranspose2d(TransposedConvolutionLayer):
    """[Ψ ⋆ᵀ f](x) = Σ_i Ψ(x - s·i) f(i) for stride s: the adjoint of a strided convolution, which enlarges a field.

    Shapes: (batch, in_type.channels, n, n') → (batch, out_type.channels, (n-1)·s - 2p + d(k-1) + 1, …).

    Exactly equivariant for any input size; to double a size use an even kernel (k = 4, s = 2, p = 1, or k = s = 2). An
    ``output_padding`` adds rows only below and columns only on the right. It is exact for groups that reverse neither
    axis: the trivial one, and the mirror in the main diagonal if both axes have the same. For turns off the pixel grid,
    as in C8, a layer with a stride is not even nearly equivariant; ``Upsample`` by interpolation with a ``Conv2d`` is.

    Args:
        in_type, out_type: any two field types of one group.
        kernel_size: odd or even; a pair for groups that do not exchange height and width.
        stride, padding: as for ``torch.nn.ConvTranspose2d``; the stride is the factor by which the field grows.
        output_padding: rows and columns that are added on one side, none by default.
        bias: whether there is a bias along the invariant directions of ``out_type``, True by default; None without any.
        dilation: as for ``torch.nn.ConvTranspose2d``.
        strict: raise an error instead of a warning for an ``output_padding`` that is not exactly equivariant.
        init: ``"he"`` (the default) or ``"orthogonal"``.
        filters: the :class:`~steerable.FilterSpace` that the filters are from, of the size ``kernel_size``; by default
            all filters on a patch of pixels.

    Arguments after ``padding`` are given by keyword.
    """

    axes = 2


class ConvTranspose3d(TransposedConvolutionLayer):
    """[Ψ ⋆ᵀ f](x) = Σ_i Ψ(x - s·i) f(i) on volumes for stride s: the adjoint of a strided convolution.

    Shapes: (batch, in_type.channels, n, n', n") → (batch, out_type.channels, (n-1)·s - 2p + d(k-1) + 1, …).

    Arguments are those of :class:`ConvTranspose2d`, with three numbers in place of a pair. Exactly equivariant for any
    input size without ``output_padding``.
    """

    axes = 3
