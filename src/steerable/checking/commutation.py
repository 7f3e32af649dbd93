"""Whether a function commutes with the group, tried on random fields.

The rules say what an operation does to types, and this is the second opinion: an operation that a rule lets pass is
still refused if it does not commute here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from steerable.algebra.embeddings import embedding
from steerable.algebra.group_interface import Element, Group
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["element_that_fails", "is_invariant", "move_field", "redrawn_parameters", "replaced"]

# How far two orders of doing the same may differ by rounding, relative to the largest value.
_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}


def element_that_fails(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    types: Mapping[int, FieldType],
    results: Sequence[FieldType | None],
    *,
    slack: float = 1.0,
) -> str | None:
    """The first generator g with f(π(g)x) ≠ π(g)f(x) for random x, None where there is none.

    Args:
        function: f; it gives one tensor, or as many as there are types in ``results``.
        args, kwargs: its arguments. Fields among them are replaced by random ones, other tensors by copies.
        types: the type of each field, by its identity.
        results: the type of each tensor that comes out; None for what is not a field.
        slack: how many times more rounding is allowed than one operation leaves.
    """
    generator = torch.Generator().manual_seed(0)
    drawn: dict[int, Tensor] = {}

    def run(element: Element | None) -> list[Tensor]:
        def argument(tensor: Tensor) -> Tensor:
            key = id(tensor)
            if key not in types:
                return tensor.clone()  # a copy, since the function may write into its arguments
            if key not in drawn:
                drawn[key] = _random_like(tensor, generator)
            moved = drawn[key] if element is None else move_field(drawn[key], element, types[key])
            return moved.clone()  # as it may be drawn[key] itself

        value = function(*replaced(args, argument), **replaced(dict(kwargs), argument))
        return list(value) if isinstance(value, tuple | list) else [value]

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        before = run(None)
        in_group = next(iter(types.values())).group
        out_group = next(result.group for result in results if result is not None)
        parent_of = embedding(out_group, in_group)
        fields = [*drawn.values(), *(v for v, result in zip(before, results, strict=True) if result is not None)]
        pooled = all(field.ndim == 2 for field in fields)
        for g in _tried(out_group, pooled=pooled):
            after = run(parent_of(g))
            for value, moved, result in zip(before, after, results, strict=True):
                if result is not None and not _agree(moved, move_field(value, g, result), slack):
                    return str(g)
    return None


@contextmanager
def redrawn_parameters(model: object) -> Iterator[None]:
    """A context in which parameters whose entries are all equal are random: scales of 1 and biases of 0 hide much.

    Parameters and buffers are restored afterwards.
    """
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
    buffers = [(buffer, buffer.clone()) for buffer in model.buffers()] if isinstance(model, nn.Module) else []
    alike = [p for p in parameters if p.device.type != "meta" and p.numel() and bool((p == p.flatten()[:1]).all())]
    kept = [parameter.data for parameter in alike]
    generator = torch.Generator().manual_seed(0)
    try:
        for parameter in alike:
            drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64, device="cpu") + 0.5
            parameter.data = drawn.to(parameter.device, parameter.dtype)
        yield
    finally:
        for parameter, values in zip(alike, kept, strict=True):
            parameter.data = values
        with torch.no_grad():
            for buffer, values in buffers:
                buffer.copy_(values)


def is_invariant(x: Tensor, field_type: FieldType) -> bool:
    """Whether π(g)x = x for all g."""
    return all(_agree(move_field(x, g, field_type), x) for g in _tried(field_type.group, pooled=_is_pooled(x)))


def _tried(group: Group, *, pooled: bool) -> tuple[Element, ...]:
    """Generators of the group, or of the part that moves pixels exactly: other angles leave more than rounding.

    A group moves pooled fields by ρ alone, which is exact for each of its elements.
    """
    exact, generators = set(group.grid_elements), tuple(group.generators)
    return generators if pooled or not exact or set(generators) <= exact else group.grid_elements


def _is_pooled(x: Tensor) -> bool:
    return all(n == 1 for n in x.shape[2:])


def move_field(x: Tensor, element: Element, field_type: FieldType) -> Tensor:
    """π(g)x, for maps and for pooled fields, which may have dimensions of size 1 after their channels."""
    if _is_pooled(x):
        return transform(x.reshape(x.shape[:2]), element, field_type).reshape(x.shape)
    return transform(x, element, field_type)


def _random_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """Random values of many magnitudes, since a function may behave differently on large and small ones."""
    draw = partial(torch.randn, x.shape, generator=generator, dtype=torch.float64, device="cpu")
    normal, size = draw(), draw()
    return (normal * size.exp()).to(x.device, x.dtype)


def replaced(value: Any, replace: Callable[[Tensor], Tensor]) -> Any:
    """The same structure of tuples, lists and dicts with other tensors."""
    if isinstance(value, Tensor):
        return replace(value)
    if type(value) in (tuple, list):
        return type(value)(replaced(item, replace) for item in value)
    if type(value) is dict:
        return {key: replaced(item, replace) for key, item in value.items()}
    return value


def _agree(a: Tensor, b: Tensor, slack: float = 1.0) -> bool:
    if a.shape != b.shape:
        return False
    tolerance = slack * _TOLERANCES.get(a.dtype, 5e-2 if a.is_floating_point() else 0.0)
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    finite = a.isfinite() & b.isfinite()
    scale = float(b[finite].abs().max()) if finite.any() else 0.0
    return bool((same | (finite & ((a - b).abs() <= tolerance * scale))).all())
