"""Equivariant convolutions of images and volumes between any two field types."""

from __future__ import annotations

from steerable.nn.convolution_layer import ConvolutionLayer

__all__ = ["Conv2d", "Conv3d"]


class Conv2d(ConvolutionLayer):
    """[Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y), with Ψ(hy) = ρ_out(h) Ψ(y) ρ_in(h)⁻¹ for all h in H.

    Shapes: (batch, in_type.channels, height, width) → (batch, out_type.channels, height', width'), sizes as for
    ``torch.nn.Conv2d``.

    Args:
        in_type, out_type: any two field types of one group, or their text.
        kernel_size: odd or even; a pair for groups that do not exchange height and width.
        stride, dilation: as for ``torch.nn.Conv2d``.
        padding: a number, a pair, ``"same"`` or ``"valid"``.
        groups: the number of equal shares into which both types are divided, each kind of capsule by itself.
        bias: whether there is a bias along the invariant directions of ``out_type``, True by default; None without any.
        padding_mode: ``"zeros"`` (the default), ``"reflect"``, ``"replicate"`` or ``"circular"``.
        strict: make an input size on which a stride is not exactly equivariant an error instead of a warning.
        init: ``"he"`` (the default) or ``"orthogonal"``.
        backend: ``"dense"`` convolves with the expanded filters, ``"fourier"`` multiplies by one matrix per irrep, and
            ``"auto"``, the default, uses the fastest, measured once per shape of the input. All of them compute the
            same function of the same parameters, up to rounding. It can be set later, too. A convolution that the
            Fourier form does not support, such as one with a stride, is computed densely, and its text says so.
        filters: the :class:`~steerable.FilterSpace` that the filters are from, of the size ``kernel_size``; by default
            all filters on a patch of pixels, or, for groups that turn images by other angles than 90°, those of
            :func:`~steerable.filter_space`. A warning then says once how far they are from exact.
        spacing: how far apart pixels or voxels are along each axis, such as (2, 1, 1) for thick slices; by default
            equally far. The layer is exact for the elements that the spacing leaves.
        group: the group, or its name, of types that are given as text.

    Arguments after ``groups`` are given by keyword.

    >>> import torch
    >>> conv = Conv2d("3*A1", "2*regular + E", 3, padding=1, group="D4")
    >>> conv(torch.zeros(1, 3, 8, 8)).shape
    torch.Size([1, 18, 8, 8])
    """

    axes = 2
    kernel_size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]


class Conv3d(ConvolutionLayer):
    """[Ψ ⋆ f](x) = Σ_y Ψ(y) f(x + y) on volumes, with Ψ(hy) = ρ_out(h) Ψ(y) ρ_in(h)⁻¹ for all h in H.

    Shapes: (batch, in_type.channels, depth, height, width) → (batch, out_type.channels, depth', height', width'),
    sizes as for ``torch.nn.Conv3d``. Depth is z, height y and width x; slices are counted from above, as rows are.

    Arguments are those of :class:`Conv2d`, with three numbers in place of a pair. ``"auto"`` uses the Fourier
    form for volumes only on CPUs.

    >>> import torch
    >>> from steerable import FieldType, octahedral
    >>> O = octahedral()
    >>> conv = Conv3d(FieldType(O, "A1"), FieldType(O, "2*T1 + regular"), 3, padding=1)
    >>> conv(torch.zeros(1, 1, 8, 8, 8)).shape
    torch.Size([1, 30, 8, 8, 8])
    """

    axes = 3
    kernel_size: tuple[int, int, int]
    stride: tuple[int, int, int]
    padding: tuple[int, int, int]
    dilation: tuple[int, int, int]
