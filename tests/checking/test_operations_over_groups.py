"""What typecheck lets pass is equivariant, over groups of the plane and of space, on the grid and off it.

Every operation is tried on every type, right or wrong; the verdict is compared with the numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import steerable as st
from steerable.transforms import elements_on_the_grid

Function = Callable[[Tensor], Tensor]

TYPES: dict[str, tuple[st.Group, tuple[str, ...]]] = {
    "C2": (st.cyclic(2), ("2*A", "2*B", "regular")),
    "D1": (st.dihedral(1), ("2*A1", "2*A2", "regular")),
    "D2": (st.dihedral(2), ("2*A1", "2*B1", "regular", "qm")),
    "C8": (st.cyclic(8), ("B", "E1", "regular")),
    "D6": (st.dihedral(6), ("A2", "E1", "qm")),
    "SO(2)": (st.so2(), ("A + E1",)),
    "O": (st.octahedral(), ("2*A1", "A2", "T1", "E")),
    "SO(3)": (st.so3(), ("L0 + L1",)),
    "C4 about z": (st.about_axis(st.cyclic(4)), ("2*A", "B", "regular")),
    "D4 about z": (st.about_axis(st.dihedral(4)), ("2*A1", "A2", "E")),
    "SO(2) about z": (st.about_axis(st.so2()), ("2*A", "E1")),
}


def _by_rank(images: Function, volumes: Function) -> Function:
    return lambda x: (images if x.ndim == 4 else volumes)(x)


def _all_sides(x: Tensor) -> tuple[int, ...]:
    return (1, 1) * (x.ndim - 2)


OPERATIONS: dict[str, Function] = {
    "relu": F.relu,
    "tanh": torch.tanh,
    "square": lambda x: x * x,
    "cube": lambda x: x**3,
    "shift": lambda x: x + 1,
    "clamp": lambda x: x.clamp(-1, 1),
    "sum of channels": lambda x: x.sum(1, keepdim=True),
    "softmax": lambda x: x.softmax(1),
    "first channel": lambda x: x[:, :1] * x,
    "group norm": lambda x: F.group_norm(x, 1),
    "attention": lambda x: (x.flatten(2) @ (x.flatten(2).transpose(1, 2) @ x.flatten(2)).softmax(1)).view_as(x),
    "mirror": lambda x: x.flip(-1),
    "shifted pixels": lambda x: x.roll(1, -1),
    "transposition": lambda x: x.transpose(-1, -2),
    "cropping": lambda x: x[..., 1:-1],
    "padding": lambda x: F.pad(x, _all_sides(x)),
    "padding with ones": lambda x: F.pad(x, _all_sides(x), value=1.0),
    "circular padding": lambda x: F.pad(x, _all_sides(x), mode="circular"),
    "padding of the last axis": lambda x: F.pad(x, (1, 1)),
    "padding of one side": lambda x: F.pad(x, (1, 0)),
    "padding of all but the first axis": lambda x: F.pad(x, (1, 1) * (x.ndim - 3)),
    "means": _by_rank(lambda x: F.avg_pool2d(x, 3, 2, 1), lambda x: F.avg_pool3d(x, 3, 2, 1)),
    "uneven means": _by_rank(lambda x: F.avg_pool2d(x, 2), lambda x: F.avg_pool3d(x, 2)),
    "maxima": _by_rank(lambda x: F.max_pool2d(x, 3, 1, 1), lambda x: F.max_pool3d(x, 3, 1, 1)),
    "flat windows": _by_rank(
        lambda x: F.avg_pool2d(x, (1, 3), 1, (0, 1)), lambda x: F.avg_pool3d(x, (1, 3, 3), 1, (0, 1, 1))
    ),
    "long windows": _by_rank(
        lambda x: F.avg_pool2d(x, (3, 1), 1, (1, 0)), lambda x: F.avg_pool3d(x, (1, 1, 3), 1, (0, 0, 1))
    ),
    "a coarse grid": _by_rank(lambda x: F.adaptive_avg_pool2d(x, 4), lambda x: F.adaptive_avg_pool3d(x, 4)),
    "an oblong grid": _by_rank(
        lambda x: F.adaptive_avg_pool2d(x, (2, 4)), lambda x: F.adaptive_avg_pool3d(x, (2, 4, 4))
    ),
    "a finer grid": lambda x: F.interpolate(x, scale_factor=2),
    "mean of pixels": lambda x: x.mean(tuple(range(2, x.ndim))),
    "mean of the last two axes": lambda x: x.mean((-2, -1)),
    "maximum of pixels": lambda x: x.amax(tuple(range(2, x.ndim))),
    "one fibre everywhere": lambda x: x + x.mean(tuple(range(2, x.ndim)), keepdim=True).expand_as(x),
}


def _difference(function: Function, x: Tensor, types: tuple[st.FieldType, st.FieldType]) -> float:
    """The largest relative difference over all elements that the grid carries."""
    y, found = function(x), [0.0]
    for g in elements_on_the_grid(types[0].group):
        moved, expected = function(st.transform(x, g, types[0])), st.transform(y, g, types[1])
        if moved.shape != expected.shape:
            return float("inf")
        found.append(float((moved - expected).abs().max() / expected.abs().max().clamp_min(1e-30)))
    return max(found)


def _difference_on_constants(function: Function, fibre: Tensor, axes: int, types: tuple[st.FieldType, ...]) -> float:
    """The same over other elements, for a constant field and one pixel far from the border."""

    def centre(value: Tensor) -> Tensor:
        y = function(value.view(*value.shape, *(1,) * axes).expand(*value.shape, *(11 - 2 * axes,) * axes).clone())
        return y[(slice(None), slice(None), *(n // 2 for n in y.shape[2:]))]

    before, found = centre(fibre), [0.0]
    for g in types[0].group.random(4, seed=0):
        expected = st.transform(before, g, types[1])
        scale = max(float(fibre.abs().max()), float(expected.abs().max()))
        found.append(float((centre(st.transform(fibre, g, types[0])) - expected).abs().max()) / scale)
    return max(found)


@pytest.mark.parametrize("name", TYPES)
def test_what_passes_is_equivariant(name: str) -> None:
    group, texts = TYPES[name]
    axes, generator, accepted = group.axes or 2, torch.Generator().manual_seed(0), 0
    size = 7 if axes == 2 else 5
    for text in texts:
        in_type = st.FieldType(group, text)
        x = torch.randn(2, in_type.channels, *(size,) * axes, generator=generator, dtype=torch.float64)
        for title, operation in OPERATIONS.items():
            try:
                out_type = st.typecheck(operation, in_type, size=size)
            except (TypeError, RuntimeError, ValueError):
                continue
            accepted += 1
            types = (in_type, out_type)
            assert _difference(operation, x, types) < 1e-5, f"{title} on {in_type!r}"
            assert _difference_on_constants(operation, x[(..., *(2,) * axes)], axes, types) < 1e-5, f"{title} on {text}"
    assert len(texts) * 4 <= accepted <= len(texts) * 26  # a test that accepts nothing, or everything, says nothing
