"""π(g): how a group element moves a whole field, its pixels and its fibres."""

from __future__ import annotations

import itertools
from typing import Literal, get_args

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.actions import on_grid
from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import check_choice, expect
from steerable.types.field_types import FieldType

__all__ = ["Interpolation", "elements_on_the_grid", "transform"]

Interpolation = Literal["bicubic", "bilinear"]


def transform(
    x: Tensor, element: Element, field_type: FieldType, *, interpolation: Interpolation = "bicubic"
) -> Tensor:
    """[π(g)x](p) = ρ(g) x(g⁻¹p): differentiable, on the tensor's own device and in its dtype.

    Elements that map pixels onto pixels move images exactly. For all others values between pixels are interpolated,
    and what comes from outside the image is zero; that takes floating point, as every matrix with fractions does.

    Args:
        x: (batch, channels, height, width), or (channels, height, width) without a batch, or (batch, channels) for
            pooled fields, on which only ρ acts.
        element: g, by name; for SO(2) and O(2) an element such as ``so2().rotation(30)``.
        field_type: the type of x.
        interpolation: ``"bicubic"`` or ``"bilinear"``, for elements that do not map pixels onto pixels.

    >>> from steerable import FieldType, dihedral
    >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> transform(image, "r", FieldType(dihedral(4), "A1"))
    tensor([[[[2., 4.],
              [1., 3.]]]])

    Turns by 90° are exact for every group that has them:

    >>> from steerable import so2
    >>> transform(image, so2().rotation(90), FieldType(so2(), "A")).flatten().tolist()
    [2.0, 4.0, 1.0, 3.0]
    """
    if not isinstance(x, Tensor):
        raise TypeError(
            f"expected the field as a torch.Tensor, such as torch.as_tensor(image), got {type(x).__name__}."
        )
    expect(field_type, FieldType, "the field's type, such as FieldType(dihedral(4), '3*A1')")
    check_choice("interpolation", interpolation, get_args(Interpolation))
    motion = field_type.group.motion(element)
    if x.ndim not in (2, 3, 4):
        raise ValueError(
            "transform takes (batch, channels, height, width), (channels, height, width) or (batch, channels); got "
            f"shape {tuple(x.shape)}."
        )
    channel_dim = 1 if x.ndim == 2 else x.ndim - 3
    if x.shape[channel_dim] != field_type.channels:
        raise ValueError(
            f"a field of type `{field_type}` has {field_type.channels} channels, got {x.shape[channel_dim]} (shape "
            f"{tuple(x.shape)})."
        )
    if x.ndim > 2:
        if motion is None or motion.shape != (2, 2):
            raise ValueError(
                f"`{element}` of {field_type.group.name} does not move the plane, so it cannot move an image. Use an "
                "element of cyclic(n), dihedral(n), so2() or o2()."
            )
        x = _move_pixels(x, motion, interpolation)
    return _move_fibres(x, field_type.representation, element, channel_dim)


def elements_on_the_grid(group: Group) -> tuple[Element, ...]:
    """The elements that map pixels onto pixels, so that :func:`transform` moves images exactly."""
    return group.grid_elements if group.axes == 2 else ()


def _move_pixels(x: Tensor, matrix: FloatArray, interpolation: Interpolation) -> Tensor:
    if not on_grid(matrix[None])[0]:
        return _interpolated(x, matrix, interpolation)
    mirrored = np.linalg.det(matrix) < 0
    rotation = np.diag([-1.0, 1.0]) @ matrix if mirrored else matrix  # g = m r^k
    quarter_turns = round(float(np.arctan2(rotation[1, 0], rotation[0, 0])) / (np.pi / 2)) % 4
    if quarter_turns:
        x = torch.rot90(x, quarter_turns, (-2, -1))
    return torch.flip(x, (-1,)) if mirrored else x


def _interpolated(x: Tensor, matrix: FloatArray, interpolation: Interpolation) -> Tensor:
    """The image whose value at p is that of x at g⁻¹p; p is counted from the centre, to the right and up."""
    height, width = x.shape[-2:]
    right, up = np.arange(width) - (width - 1) / 2, (height - 1) / 2 - np.arange(height)
    source_right, source_up = (a * right[None, :] + b * up[:, None] for a, b in matrix.T)
    columns, rows = source_right.ravel() + (width - 1) / 2, (height - 1) / 2 - source_up.ravel()
    pixels, moved = x.flatten(-2), torch.zeros_like(x).flatten(-2)
    reach = range(-1, 3) if interpolation == "bicubic" else range(2)
    for down, along in itertools.product(reach, reach):
        row, column = np.floor(rows).astype(np.int64) + down, np.floor(columns).astype(np.int64) + along
        weight = _weight(rows - row, interpolation) * _weight(columns - column, interpolation)
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        index = torch.as_tensor(np.where(inside, row * width + column, 0), device=x.device)
        moved = moved + pixels.index_select(-1, index) * _factors(weight * inside, x)
    return moved.view(x.shape)


def _weight(distance: FloatArray, interpolation: Interpolation) -> FloatArray:
    """How much a pixel at that distance along one axis counts: a hat, or Keys' cubic, which is exact for parabolas."""
    d = np.abs(distance)
    if interpolation == "bilinear":
        return np.asarray(np.clip(1 - d, 0, None))
    return np.where(d < 1, (1.5 * d - 2.5) * d**2 + 1, np.where(d < 2, ((2.5 - 0.5 * d) * d - 4) * d + 2, 0.0))


def _move_fibres(x: Tensor, rho: Representation, element: Element, dim: int) -> Tensor:
    monomial = _monomial_at(rho, element)
    if monomial is None:
        moved: Tensor = torch.tensordot(x, _factors(rho(element), x), dims=([dim], [1])).movedim(-1, dim)
        return moved
    source = np.argsort(monomial.image[0])
    scale = monomial.scale[0][source]
    if not np.array_equal(source, np.arange(rho.dim)):
        x = x.index_select(dim, torch.as_tensor(source, device=x.device))
    if (scale == 1).all():
        return x
    return x * _factors(scale, x).view(-1, *(1,) * (x.ndim - dim - 1))


def _monomial_at(rho: Representation, element: Element) -> Monomial | None:
    """ρ(g) in compact form, where it has one: turns by 90° exchange the channels of ``E1``, other turns mix them."""
    if rho.monomial is None or not isinstance(rho.group, FiniteGroup):
        return Monomial.of(rho(element)[None])
    return rho.monomial.at(rho.group.indices([element]))


def _factors(values: FloatArray, x: Tensor) -> Tensor:
    """Numbers by which x is multiplied, in its dtype and on its device; refused where its dtype would change them."""
    factors = torch.as_tensor(np.array(values), dtype=x.dtype)
    whole = not (x.is_floating_point() or x.is_complex())
    if whole and not np.array_equal(factors.to(torch.float64).numpy(), values):
        raise TypeError(
            f"this element multiplies values by numbers that {x.dtype} does not have, such as fractions between "
            "pixels or -1; turn images as floating point: x.float()."
        )
    return factors.to(x.device)
