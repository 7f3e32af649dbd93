"""π(g): the action of a group element on a whole field, its pixels or voxels and its fibres."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.actions import on_array_axes, on_grid
from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.monomials import Monomial
from steerable.algebra.representations import Representation
from steerable.errors import check_choice, expect
from steerable.filters.pixel_grids import Spacing, grid_spacing
from steerable.types.field_types import FieldType

__all__ = ["Interpolation", "elements_on_the_grid", "transform"]

Interpolation = Literal["bicubic", "bilinear", "tricubic", "trilinear"]

_WAYS: dict[int, tuple[str, str]] = {2: ("bicubic", "bilinear"), 3: ("tricubic", "trilinear")}
_SHAPES = {2: "height, width", 3: "depth, height, width"}


def transform(
    x: Tensor,
    element: Element,
    field_type: FieldType,
    *,
    interpolation: Interpolation | None = None,
    spacing: float | Sequence[float] | None = None,
) -> Tensor:
    """[π(g)x](p) = ρ(g) x(g⁻¹p): differentiable, on the tensor's own device and in its dtype.

    Elements that map pixels onto pixels, or voxels onto voxels, move fields exactly. For all others, values in between
    are interpolated, and values outside the field count as zero; this needs floating-point numbers, as does every
    matrix with fractions.

    Args:
        x: (batch, channels, height, width) for groups of the plane, (batch, channels, depth, height, width) for groups
            of space, or either without a batch, or (batch, channels) for pooled fields, on which only ρ acts.
        element: g, by name; for SO(2) and O(2) an element such as ``so2().rotation(30)``, for SO(3) and O(3) one such
            as ``so3().rotation((0, 0, 1), 30)``.
        field_type: the type of x.
        interpolation: for elements that do not map pixels onto pixels: ``"bicubic"`` (the default) or ``"bilinear"``
            for images, ``"tricubic"`` (the default) or ``"trilinear"`` for volumes.
        spacing: how far apart pixels or voxels are along each axis, if not equally far. Exchanges of axes are then
            interpolated as well.

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
    axes = _checked_axes(x, field_type, interpolation)
    motion = field_type.group.motion(element)
    channel_dim = 1 if x.ndim == 2 else x.ndim - 1 - axes
    if x.ndim > 2:
        if motion is None:
            raise ValueError(
                f"`{element}` of {field_type.group.name} does not move the plane, so it cannot move an image. Use an "
                "element of cyclic(n), dihedral(n), so2() or o2(), or for volumes of octahedral(), so3() or o3()."
            )
        apart = grid_spacing((1,) * axes, spacing)
        x = _move_pixels(x, _in_steps(motion, apart), linear=interpolation == _WAYS[axes][1])
    return _move_fibres(x, field_type.representation, element, channel_dim)


def _checked_axes(x: Tensor, field_type: FieldType, interpolation: str | None) -> int:
    """The number of axes of images or volumes, after a check that x is a field of this type."""
    if not isinstance(x, Tensor):
        raise TypeError(
            f"expected the field as a torch.Tensor, such as torch.as_tensor(image), got {type(x).__name__}."
        )
    expect(field_type, FieldType, "the field's type, such as FieldType(dihedral(4), '3*A1')")
    axes = field_type.group.axes or 2
    if interpolation is not None:
        check_choice("interpolation", interpolation, _WAYS[axes])
    if x.ndim not in (2, 1 + axes, 2 + axes):
        moved = f"{field_type.group.name}, which moves {'space' if axes == 3 else 'the plane'}"
        raise ValueError(
            f"transform takes (batch, channels, {_SHAPES[axes]}), (channels, {_SHAPES[axes]}) or (batch, channels) for "
            f"{moved}; got shape {tuple(x.shape)}."
        )
    channel_dim = 1 if x.ndim == 2 else x.ndim - 1 - axes
    if x.shape[channel_dim] != field_type.channels:
        raise ValueError(
            f"a field of type `{field_type}` has {field_type.channels} channels, got {x.shape[channel_dim]} (shape "
            f"{tuple(x.shape)}).{_volumes_meant(x, field_type)}"
        )
    return axes


def _volumes_meant(x: Tensor, field_type: FieldType) -> str:
    """A sentence about images that are mistaken for a volume without a batch."""
    if x.ndim != 4 or x.shape[1] != field_type.channels or field_type.group.axes != 3:
        return ""
    return f" Fields of {field_type.group.name} are volumes: (batch, channels, {_SHAPES[3]}), or without a batch."


def elements_on_the_grid(group: Group, spacing: float | Sequence[float] | None = None) -> tuple[Element, ...]:
    """The elements that map pixels onto pixels or voxels onto voxels, so that :func:`transform` moves them exactly."""
    if group.axes not in _WAYS:
        return ()
    if spacing is None:
        return group.grid_elements
    apart = grid_spacing((1,) * group.axes, spacing)
    motions = [_in_steps(np.asarray(group.motion(g)), apart) for g in group.grid_elements]
    return tuple(g for g, motion in zip(group.grid_elements, motions, strict=True) if on_grid(motion[None])[0])


def _in_steps(matrix: FloatArray, spacing: Spacing) -> FloatArray:
    """The action of a motion on the places of an array that are this far apart, in steps along each axis."""
    apart = np.array(spacing)
    return np.asarray(on_array_axes(matrix[None])[0] * apart / apart[:, None])


def _move_pixels(x: Tensor, motion: FloatArray, *, linear: bool) -> Tensor:
    if not on_grid(motion[None])[0]:
        return _interpolated(x, motion, linear=linear)
    # Each axis of the result is one axis of the field, forwards or backwards.
    axes, first = len(motion), x.ndim - len(motion)
    source = np.abs(motion).argmax(axis=1)
    if not np.array_equal(source, np.arange(axes)):
        x = x.permute(*range(first), *(first + source).tolist())
    backwards = [first + axis for axis in range(axes) if motion[axis, source[axis]] < 0]
    return torch.flip(x, backwards) if backwards else x


def _interpolated(x: Tensor, motion: FloatArray, *, linear: bool) -> Tensor:
    """The field whose value at p is that of x at g⁻¹p; p is counted from the centre along the array's axes."""
    shape = x.shape[x.ndim - len(motion) :]
    centre = (np.array(shape) - 1) / 2
    places = np.stack([grid.ravel() for grid in np.indices(shape)]).astype(np.float64) - centre[:, None]
    source = np.linalg.inv(motion) @ places + centre[:, None]
    corner = np.floor(source).astype(np.int64)
    pixels, moved = x.flatten(-len(motion)), torch.zeros_like(x).flatten(-len(motion))
    reach = range(2) if linear else range(-1, 3)
    for step in itertools.product(reach, repeat=len(motion)):
        neighbour = corner + np.array(step)[:, None]
        weight = _weight(source - neighbour, linear=linear).prod(axis=0)
        inside = ((neighbour >= 0) & (neighbour < np.array(shape)[:, None])).all(axis=0)
        index = np.ravel_multi_index(tuple(np.where(inside, neighbour, 0)), shape)
        moved = moved + pixels.index_select(-1, torch.as_tensor(index, device=x.device)) * _factors(weight * inside, x)
    return moved.view(x.shape)


def _weight(distance: FloatArray, *, linear: bool) -> FloatArray:
    """The weight of a pixel at that distance along one axis: a hat, or Keys' cubic, which is exact for parabolas."""
    d = np.abs(distance)
    if linear:
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
    """ρ(g) in compact form, if it has one: turns by 90° exchange the channels of ``E1``, other turns mix them."""
    if rho.monomial is None or not isinstance(rho.group, FiniteGroup):
        return Monomial.of(rho(element)[None])
    return rho.monomial.at(rho.group.indices([element]))


def _factors(values: FloatArray, x: Tensor) -> Tensor:
    """Numbers to multiply x by, in its dtype and on its device; refused if its dtype would change them."""
    factors = torch.as_tensor(np.array(values), dtype=x.dtype)
    whole = not (x.is_floating_point() or x.is_complex())
    if whole and not np.array_equal(factors.to(torch.float64).numpy(), values):
        raise TypeError(
            f"this element multiplies values by numbers that {x.dtype} does not have, such as fractions between "
            "pixels or -1; turn images as floating point: x.float()."
        )
    return factors.to(x.device)
