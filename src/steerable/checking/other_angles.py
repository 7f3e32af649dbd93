"""The test whether a function commutes with turns that the pixel grid does not carry, as far as pixels can tell.

Constant images turn by every angle without interpolation, π(g)x = ρ(g)x, and so do the results of a correct function,
away from the border. If the border reaches everywhere, or filters do not respond to constant images as they should,
only a coarse comparison remains, on constant images and on smooth ones inside a disc.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from steerable.algebra.group_interface import Element
from steerable.checking.discs import distance_in_disc, in_disc, smoothed
from steerable.filters.spaces import FilterSpace
from steerable.nn.fourier_activation import Fourier
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["OtherAngles", "agree", "constants_turn_in", "is_nearly_invariant", "is_pooled", "move_field", "rounding"]

_TOLERANCES = {torch.float64: 1e-9, torch.float32: 1e-4}
# Relative root mean squares; fields that have nothing to do with each other are 1.4 apart, and sound networks whose
# responses to constant images cannot be trusted are less than 0.5 apart on smooth ones.
_FAR_APART, _UNRELATED = 0.5, 1.0
_NEARLY = 0.1


@dataclass(frozen=True)
class OtherAngles:
    """A function of fields, to be tried on constant and on smooth ones.

    Attributes:
        run: what the function returns where each field is replaced by the one given under its key.
        fields: the fields, by their keys; their values do not count.
        types: the types of the fields, by their keys.
        results: the type of each tensor that comes out; None for what is not a field.
        slack: how many times more rounding is allowed than one operation leaves.
        constants_turn: whether the function should turn constant images exactly.
        feels_border: whether it may mix what is at the border into what it pools, as a padded network does.
    """

    run: Callable[[Mapping[int, Tensor]], list[Tensor]]
    fields: Mapping[int, Tensor]
    types: Mapping[int, FieldType]
    results: Sequence[FieldType | None]
    slack: float
    constants_turn: bool
    feels_border: bool

    def fails(self, g: Element, parent: Element) -> bool:
        """Whether the function and g do not commute; ``parent`` is g as an element of the input's group."""
        settled, distance = self._on_constants(g, parent)
        in_a_disc = self._in_a_disc(g, parent) if self.feels_border or distance > _FAR_APART else 0.0
        return settled or (distance > _FAR_APART and in_a_disc > _FAR_APART) or in_a_disc > _UNRELATED

    def fails_on_constants(self, g: Element, parent: Element) -> bool:
        """Whether they do not commute on constant images, where no border reaches the centre."""
        return self._on_constants(g, parent)[0]

    def _on_constants(self, g: Element, parent: Element) -> tuple[bool, float]:
        """(whether the centres differ although no border reaches them, how far they are apart)."""
        fibres = {key: _drawn(_centre(x), k) for k, (key, x) in enumerate(self.fields.items())}
        moved = {key: move_field(x, parent, self.types[key]) for key, x in fibres.items()}
        before, after = (
            self.run({key: x.expand_as(self.fields[key]).contiguous() for key, x in values.items()})
            for values in (fibres, moved)
        )
        size = max(float(x.abs().max()) for x in fibres.values())
        failed, far = False, 0.0
        for one, other, result in zip(before, after, self.results, strict=True):
            if result is None or one.shape != other.shape:
                continue
            centres = [_centre(value) for value in (one, other)]
            expected = move_field(centres[0], g, result)
            settled = not (self.feels_border and is_pooled(one)) and all(
                agree(_centre(value, 2), c.expand_as(_centre(value, 2)))
                for value, c in zip((one, other), centres, strict=True)
            )
            if self.constants_turn and settled:
                failed = failed or not agree(centres[1], expected, self.slack, least=size)
            far = max(far, _distance(centres[1], expected))
        return failed, far

    def _in_a_disc(self, g: Element, parent: Element) -> float:
        if any(x.ndim < 4 or not _has_equal_sides(x) for x in self.fields.values()):
            return 0.0  # turns by such angles are not defined there
        drawn = {key: in_disc(smoothed(_drawn(x, k))) for k, (key, x) in enumerate(self.fields.items())}
        before = self.run(drawn)
        after = self.run({key: transform(x, parent, self.types[key]) for key, x in drawn.items()})
        compared = [
            distance_in_disc(other, move_field(one, g, result), one)
            for one, other, result in zip(before, after, self.results, strict=True)
            if result is not None and one.shape == other.shape and (is_pooled(one) or _has_equal_sides(one))
        ]
        return max((d for d in compared if d == d), default=0.0)


def constants_turn_in(model: object) -> bool:
    """Whether all layers respond to constant images as they should; False for what has no layers.

    Some filters do not, and functions of a few samples turn up to their aliasing only.
    """
    return isinstance(model, nn.Module) and all(_turns_constants(layer) for layer in model.modules())


def _turns_constants(layer: nn.Module) -> bool:
    if isinstance(layer, Fourier):
        return layer.aliasing < _TOLERANCES[torch.float64]
    space = getattr(getattr(layer, "plan", None), "space", None)
    return not isinstance(space, FilterSpace) or space.turns_constants


def is_nearly_invariant(x: Tensor, g: Element, field_type: FieldType) -> bool:
    """Whether π(g)x is close to x, by ρ alone if x is constant, and otherwise inside a disc."""
    centre = _centre(x)
    if agree(x, centre.expand_as(x)):
        return agree(move_field(centre, g, field_type), centre)
    return not _has_equal_sides(x) or distance_in_disc(transform(x, g, field_type), x, x) < _NEARLY


def move_field(x: Tensor, element: Element, field_type: FieldType) -> Tensor:
    """π(g)x, for maps and for pooled fields, which may have dimensions of size 1 after their channels."""
    if is_pooled(x):
        return transform(x.reshape(x.shape[:2]), element, field_type).reshape(x.shape)
    return transform(x, element, field_type)


def _has_equal_sides(x: Tensor) -> bool:
    """Whether images are squares, and volumes cubes."""
    return len({*x.shape[2:]}) == 1


def is_pooled(x: Tensor) -> bool:
    return all(n == 1 for n in x.shape[2:])


def agree(a: Tensor, b: Tensor, slack: float = 1.0, *, least: float = 0.0) -> bool:
    """Whether two tensors are equal up to rounding, relative to the largest value, or to ``least`` if that is more."""
    if a.shape != b.shape:
        return False
    tolerance = slack * rounding(a)
    a, b = a.double(), b.double()
    same = (a == b) | (a.isnan() & b.isnan())
    finite = a.isfinite() & b.isfinite()
    scale = max(least, float(b[finite].abs().max())) if finite.any() else least
    return bool((same | (finite & ((a - b).abs() <= tolerance * scale))).all())


def rounding(x: Tensor) -> float:
    """The possible difference between two orders of a computation in x's precision, relative to the largest value."""
    return _TOLERANCES.get(x.dtype, 5e-2 if x.is_floating_point() else 0.0)


def _drawn(x: Tensor, seed: int) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(x.shape, generator=generator, dtype=torch.float64).to(x.device, x.dtype)


def _centre(x: Tensor, reach: int = 0) -> Tensor:
    """The pixel in the middle, (batch, channels, 1, …), and those around it up to so far away."""
    places: list[slice] = [slice(max(0, n // 2 - reach), n // 2 + reach + 1) for n in x.shape[2:]]
    return x[(slice(None), slice(None), *places)]


def _distance(a: Tensor, b: Tensor) -> float:
    difference, scale = (float(t.double().square().mean().sqrt()) for t in (a - b, b))
    return difference / scale if scale > 0 else 0.0
