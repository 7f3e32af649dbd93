"""π(g): how a group element moves a whole field, its pixels and its fibres."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from steerable.errors import expect
from steerable.types.field_types import FieldType

__all__ = ["transform"]


def transform(x: Tensor, element: str, field_type: FieldType) -> Tensor:
    """[π(g)x](p) = ρ(g) x(g⁻¹p): differentiable, on the tensor's own device and in its dtype.

    Args:
        x: (batch, channels, height, width), or (channels, height, width) without a batch, or (batch, channels) for
            pooled fields, on which only ρ acts.
        element: g, by name.
        field_type: the type of x.

    >>> from steerable import FieldType, dihedral
    >>> image = torch.tensor([[[[1.0, 2.0], [3.0, 4.0]]]])
    >>> transform(image, "r", FieldType(dihedral(4), "A1"))
    tensor([[[[2., 4.],
              [1., 3.]]]])
    """
    expect(field_type, FieldType, "the field's type, such as FieldType(dihedral(4), '3*A1')")
    g = field_type.group.index(element)
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
        x = _move_pixels(x, field_type, g)
    return _move_fibres(x, field_type, g, channel_dim)


def _move_pixels(x: Tensor, field_type: FieldType, g: int) -> Tensor:
    action = field_type.group.action
    if action is None or action.shape[1] != 2 or not np.isin(np.abs(action[g]), (0.0, 1.0)).all():
        raise ValueError(
            f"`{field_type.group.elements[g]}` of {field_type.group.name} does not map the pixel grid onto itself, so "
            "it cannot move an image exactly. Use an element of C1, C2, C4, D1, D2 or D4."
        )
    mirrored = np.linalg.det(action[g]) < 0
    rotation = np.diag([-1.0, 1.0]) @ action[g] if mirrored else action[g]  # g = m r^k
    quarter_turns = round(float(np.arctan2(rotation[1, 0], rotation[0, 0])) / (np.pi / 2)) % 4
    if quarter_turns:
        x = torch.rot90(x, quarter_turns, (-2, -1))
    return torch.flip(x, (-1,)) if mirrored else x


def _move_fibres(x: Tensor, field_type: FieldType, g: int, dim: int) -> Tensor:
    rho = field_type.representation
    if rho.monomial is None:
        matrix = torch.as_tensor(np.array(rho.matrices[g]), dtype=x.dtype, device=x.device)
        moved: Tensor = torch.tensordot(x, matrix, dims=([dim], [1])).movedim(-1, dim)
        return moved
    source = np.argsort(rho.monomial.image[g])
    scale = rho.monomial.scale[g][source]
    if not np.array_equal(source, np.arange(rho.dim)):
        x = x.index_select(dim, torch.as_tensor(source, device=x.device))
    if (scale == 1).all():
        return x
    factors = torch.as_tensor(scale, dtype=x.dtype, device=x.device)
    return x * factors.view(-1, *(1,) * (x.ndim - dim - 1))
