"""The test whether a function commutes with the group, on random fields.

The rules say what an operation does to types, and this is the second opinion: an operation that a rule lets pass is
still refused if it does not commute here.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.lazy import LazyModuleMixin

from steerable.algebra.embeddings import embedding
from steerable.algebra.group_interface import Element, Group
from steerable.checking.calls import replaced, tensors_in
from steerable.checking.other_angles import (
    OtherAngles,
    agree,
    constants_turn_in,
    is_nearly_invariant,
    is_pooled,
    move_field,
    rounding,
)
from steerable.nn.plain import without_acceleration
from steerable.types.field_types import FieldType

__all__ = [
    "SMALL",
    "Alike",
    "element_that_fails",
    "grid_generators",
    "in_double",
    "is_invariant",
    "left_unchanged",
    "random_like",
    "redrawn_parameters",
    "redrawn_values",
]

SMALL = 0.01
"""How much smaller a second look takes the values of fields."""

_CARRIED = 100.0  # all layers round, where only the inputs are rounded otherwise on purpose

Run = Callable[[Mapping[int, Tensor]], list[Tensor]]


def element_that_fails(
    function: Callable[..., Any],
    args: Sequence[Any],
    kwargs: Mapping[str, Any],
    types: Mapping[int, FieldType],
    results: Sequence[FieldType | None],
    *,
    slack: float = 1.0,
    network: object = None,
) -> str | None:
    """The first generator g with f(π(g)x) ≠ π(g)f(x) for random x; None if there is none.

    Args:
        function: f; it gives one tensor, or as many as there are types in ``results``.
        args, kwargs: its arguments. Fields among them are replaced by random ones, other tensors by copies.
        types: the type of each field, by its identity.
        results: the type of each tensor that comes out; None for what is not a field.
        slack: how many times more rounding is allowed than one operation leaves.
        network: f, where it is more than one operation. Its filters may not turn constant images exactly by angles
            that the pixel grid does not carry, and it may feel the border.
    """
    fields: dict[int, Tensor] = {id(t): t for t in tensors_in((*args, dict(kwargs))) if id(t) in types}

    def run(values: Mapping[int, Tensor]) -> list[Tensor]:
        def argument(value: Any) -> Any:  # a copy, since the function may write into its arguments
            return values.get(id(value), value).clone() if isinstance(value, Tensor) else value

        value = function(*replaced(args, argument), **replaced(dict(kwargs), argument))
        return list(value) if isinstance(value, tuple | list) else [value]

    with torch.no_grad(), torch.random.fork_rng(devices=[]):
        generator = torch.Generator().manual_seed(0)
        drawn = {key: random_like(field, generator) for key, field in fields.items()}
        before = run(drawn)
        in_group = next(iter(types.values())).group
        out_group = next(result.group for result in results if result is not None)
        parent_of = embedding(out_group, in_group)
        outputs = [v for v, result in zip(before, results, strict=True) if result is not None]
        pooled = all(field.ndim == 2 for field in (*drawn.values(), *outputs))
        alike = Alike(run, drawn, before, slack, deep=network is not None)
        for g in grid_generators(out_group, pooled=pooled):
            after = run({key: move_field(x, parent_of(g), types[key]) for key, x in drawn.items()})
            for number, (value, moved, result) in enumerate(zip(before, after, results, strict=True)):
                if result is not None and not alike(number, moved, move_field(value, g, result)):
                    return str(g)
        constants_turn = network is None or constants_turn_in(network)
        trial = OtherAngles(run, drawn, types, results, slack, constants_turn, feels_border=network is not None)
        off_grid = () if pooled else tuple(g for g in out_group.generators if g not in set(out_group.grid_elements))
        return next((str(g) for g in off_grid if trial.fails(g, parent_of(g))), None)


class Alike:
    """Whether an output is what it should be, up to rounding.

    Many layers may carry rounding far. So what a deep function gives may be as far off as a small multiple of what it
    gives when its inputs are rounded otherwise.

    Args:
        run: gives the outputs.
        inputs: its inputs.
        outputs: what it gives for these.
        slack: how many times more rounding is allowed than one operation leaves.
        deep: whether it is more than one operation.
    """

    def __init__(self, run: Run, inputs: Mapping[int, Tensor], outputs: Sequence[Tensor], slack: float, *, deep: bool):
        self._run, self._inputs, self._outputs, self._slack, self._deep = run, inputs, outputs, slack, deep
        self._carried: list[float] | None = None

    def __call__(self, number: int, found: Tensor, expected: Tensor) -> bool:
        if agree(found, expected, self._slack):
            return True
        if not self._deep or rounding(found) == 0:
            return False
        if self._carried is None:
            self._carried = self._far()
        least = _CARRIED * self._carried[number] / (self._slack * rounding(found))
        return agree(found, expected, self._slack, least=least)

    def _far(self) -> list[float]:
        """How far rounding of the inputs carries each output; 0 where the same inputs give other outputs."""
        if not all(agree(a, b, 0.0) for a, b in zip(self._run(self._inputs), self._outputs, strict=True)):
            return [0.0] * len(self._outputs)  # by chance, which is no rounding
        generator = torch.Generator().manual_seed(1)
        nudged = {}
        for key, x in self._inputs.items():
            sign = torch.randn(x.shape, generator=generator, dtype=torch.float64, device="cpu").sign().to(x)
            nudged[key] = x * (1 + 4 * torch.finfo(x.dtype).eps * sign)
        differences = (a.double() - b.double() for a, b in zip(self._run(nudged), self._outputs, strict=True))
        return [float(d.abs().nan_to_num(0, 0, 0).amax()) if d.numel() else 0.0 for d in differences]


@contextmanager
def left_unchanged() -> Iterator[Callable[[nn.Module], None]]:
    """A context with a function to call with each module that will run; afterwards each is as it was.

    Its attributes are, and what dicts and lists among them hold: modes, counters, kept features, buffers and their
    values.
    """
    known: set[nn.Module] = set()
    boxes: list[tuple[Any, Any]] = []
    buffers: list[tuple[Tensor, Tensor]] = []

    def remember(model: nn.Module) -> None:
        for module in () if model in known else model.modules():
            if module in known or isinstance(module, LazyModuleMixin):  # what is not made yet is made
                continue
            known.add(module)
            attributes = vars(module)
            boxes.extend((box, copy.copy(box)) for box in attributes.values() if isinstance(box, dict | list))
            boxes.append((attributes, dict(attributes)))
            buffers.extend((buffer, buffer.clone()) for buffer in module.buffers(recurse=False))

    try:
        yield remember
    finally:
        for box, contents in boxes:
            if isinstance(box, list):
                box[:] = contents
            else:
                for key in box.keys() - contents.keys():
                    del box[key]
                box.update(contents)
        with torch.no_grad():
            for buffer, values in buffers:
                buffer.copy_(values)


@contextmanager
def redrawn_parameters(model: object) -> Iterator[None]:
    """A context in which parameters have values that training may give them; frozen ones stay as they are.

    A scale of 1, a bias of 0, a matrix that begins as the identity or a filter that begins symmetric hide much. The
    model is left as it was.
    """
    parameters = list(model.parameters()) if isinstance(model, nn.Module) else []
    redrawn = [p for p in parameters if p.requires_grad and p.device.type != "meta" and p.numel()]
    kept = [parameter.data for parameter in redrawn]
    generator = torch.Generator().manual_seed(0)
    with left_unchanged() as remember:
        if isinstance(model, nn.Module):
            remember(model)
        try:
            for parameter in redrawn:
                parameter.data = redrawn_values(parameter, generator)
            yield
        finally:
            for parameter, values in zip(redrawn, kept, strict=True):
                parameter.data = values


def redrawn_values(parameter: Tensor, generator: torch.Generator) -> Tensor:
    """Other values of the same magnitudes: positive ones for zeros and if all are equal, else with their signs."""
    drawn = torch.rand(parameter.shape, generator=generator, dtype=torch.float64, device="cpu")
    drawn = drawn.to(parameter.device, parameter.dtype)
    values = parameter.detach()
    if (values == values.flatten()[:1]).all():
        return drawn + 0.5
    scale = values.abs().square().mean().sqrt()
    return torch.where(values == 0, scale * drawn, values * (drawn + 0.5))


def is_invariant(x: Tensor, field_type: FieldType) -> bool:
    """Whether π(g)x = x for all g; only nearly so, inside a disc, if the pixel grid does not carry g."""
    group = field_type.group
    if not all(agree(move_field(x, g, field_type), x) for g in grid_generators(group, pooled=is_pooled(x))):
        return False
    off_grid = () if is_pooled(x) else (g for g in group.generators if g not in set(group.grid_elements))
    return all(is_nearly_invariant(x, g, field_type) for g in off_grid)


def grid_generators(group: Group, *, pooled: bool = False) -> tuple[Element, ...]:
    """Generators of the group, or of the part that moves pixels exactly: other angles leave more than rounding.

    A group moves pooled fields by ρ alone, which is exact for each of its elements.
    """
    exact, generators = set(group.grid_elements), tuple(group.generators)
    return generators if pooled or not exact or set(generators) <= exact else group.grid_elements


def random_like(x: Tensor, generator: torch.Generator) -> Tensor:
    """Random samples of many magnitudes, since a function may behave differently on large and small ones.

    Those of the second half of a batch are small throughout: a softmax of large numbers is 1 and 0 whatever they are.
    """
    draw = partial(torch.randn, x.shape, generator=generator, dtype=torch.float64, device="cpu")
    normal, size = draw(), draw()
    values = normal * size.exp()
    values[(len(x) + 1) // 2 :] *= SMALL
    return values.to(x.device, x.dtype)


def in_double(function: Callable[[Tensor], Any], x: Tensor) -> tuple[Callable[[Tensor], Any], Tensor]:
    """A function and its input in float64, which tells a small fault from rounding; as they are where that fails.

    Of a model it is a copy.
    """
    if x.dtype == torch.float64:
        return function, x
    try:
        twin = function
        if isinstance(function, nn.Module):
            twin = without_acceleration(copy.deepcopy(getattr(function, "_orig_mod", function))).double()
        for _ in tensors_in(twin(x.double())):
            return twin, x.double()
    except Exception:  # a model that cannot be copied, or that works in one precision only
        pass
    return function, x
