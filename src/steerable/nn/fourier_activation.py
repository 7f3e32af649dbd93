"""Nonlinearities on functions given by Fourier coefficients: sample, apply, transform back."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from steerable.algebra.capsules import Capsule
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.sampled_functions import common_domain, cut_off, why_not_functions
from steerable.algebra.spatial_groups import SpatialGroup
from steerable.nn.admissibility import alternatives
from steerable.nn.aliasing import SampledCapsule
from steerable.nn.capsule_products import multiply_capsules
from steerable.nn.function_trials import FunctionTrial, trials_of
from steerable.nn.module import EquivariantModule
from steerable.nn.scalar_functions import ScalarFunction, check_valuewise, function_name
from steerable.types.field_types import FieldType

__all__ = ["Fourier"]

_TOLERANCE, _TOLERANCE_IN_SPACE = 0.01, 0.05


class Fourier(EquivariantModule):
    """y = A⁺ν(Ax) for each capsule x: A gives a function's values at samples, and A⁺ coefficients by least squares.

    The capsules are spaces of functions: ``regular(3)``, ``qm(2)`` and similar ones over SO(2) and O(2), ``sphere(2)``
    and ``regular(1)`` over SO(3) and O(3), and for every group any capsule that contains a constant function and no
    irrep more often than the functions on the group do. Functions on SO(2) and O(2) are sampled on C_N or D_N, to which
    the layer is exactly equivariant, with N a multiple of 4, so that turns of the pixel grid are among them. Functions
    on the sphere and on SO(3) are sampled at weighted points that the rotations of the cube exchange. Other rotations
    have an error, the *aliasing*, which is measured on random functions: √(E‖y(ρ(g)x) - ρ(g)y(x)‖² / E‖y(x)‖²) for
    normally distributed x and uniform g. It is 0, up to rounding, for a polynomial ν with enough samples. Over a finite
    group all points are used, and the layer is exact. A capsule of permutations, such as ``A``, is already made of
    values: there the layer is ``Pointwise``.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: the type that goes in.
        function: ν, a module or a function that acts on each value alone.
        samples: N, a multiple of 4, in space of 24 or more; by default the smallest whose aliasing is within the
            tolerance.
        tolerance: the largest aliasing if ``samples`` is not given; by default 0.01, and 0.05 for
            SO(3) and O(3), which need many more samples.
        out_type: the type that comes out, by default the same. It has the same numbers of copies, of capsules with
            another cut-off, for instance ``8*regular(4)`` for ``8*regular(2)``.

    Attributes:
        samples: N of each kind of capsule, and for finite groups the number of points.
        aliasing: the largest aliasing among the kinds, for the function as it was when the layer was made; nan if its
            parameters were on the meta device.

    >>> from steerable import FieldType, so2
    >>> Fourier(FieldType(so2(), "8*regular(2)"), torch.relu)
    Fourier(8*regular(2), relu, samples=20, aliasing=0.0098)
    """

    matrices: Tensor

    def __init__(
        self,
        field_type: FieldType,
        function: ScalarFunction,
        samples: int | None = None,
        *,
        tolerance: float | None = None,
        out_type: FieldType | None = None,
    ) -> None:
        super().__init__(field_type, field_type if out_type is None else out_type)
        self._label = f"Fourier({function_name(function)})"
        if tolerance is None:
            tolerance = _TOLERANCE_IN_SPACE if isinstance(field_type.group, SpatialGroup) else _TOLERANCE
        pairs = _pairs(self._label, self.in_type, self.out_type)
        plans = [_plan(self._label, source, target) for source, target, _ in pairs]
        _check_numbers(self._label, samples, tolerance, list(zip([source for source, *_ in pairs], plans, strict=True)))
        check_valuewise(self._label, function, field_type.channels)
        self.function = function
        trial = next(iter(trials_of(self._label, function, np.zeros((1, 1)))), None)
        chosen = [self._chosen(plan, trial, samples, tolerance) for plan in plans]
        self.samples = tuple(number for number, _ in chosen)
        self.aliasing = max((error for _, error in chosen), key=lambda error: (math.isnan(error), error))
        there_and_back = [None if p is None else p.matrices(n) for p, n in zip(plans, self.samples, strict=True)]
        flat = [matrix.ravel() for pair in there_and_back if pair is not None for matrix in pair]
        self.register_constant("matrices", np.concatenate([np.zeros(0), *flat]))
        # Copies, channels before and after, and points of each kind; no points where the channels are values already.
        self.kinds = [
            (copies, source.dim, target.dim, 0 if pair is None else len(pair[0]))
            for (source, target, copies), pair in zip(pairs, there_and_back, strict=True)
        ]

    def _chosen(
        self, plan: SampledCapsule | None, trial: FunctionTrial | None, samples: int | None, tolerance: float
    ) -> tuple[int, float]:
        """The number of samples of a kind, and its aliasing."""
        if plan is None:
            return 0, 0.0
        if not plan.domain.step:
            return len(plan.matrices(0)[0]), 0.0
        if samples is not None:
            return int(samples), math.nan if trial is None else plan.aliasing(trial, int(samples))
        if trial is None:
            raise ValueError(
                f"{self._label}: the number of samples is chosen by trying the function, whose parameters are on the "
                f"meta device and have no values. Give samples=..., a multiple of {plan.domain.step}."
            )
        number, error = plan.samples_within(trial, tolerance)
        if not error <= tolerance:
            raise ValueError(
                f"{self._label}: {number} samples of `{plan.source}` have an aliasing of {error:.2g}, more than "
                f"tolerance={tolerance:g}. Functions with jumps have waves of all frequencies: use a smoother one, or "
                "accept its aliasing with samples=..."
            )
        return number, error

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        parts: list[Tensor] = []
        at = matrix_at = 0
        for copies, source, target, points in self.kinds:
            part = x.narrow(1, at, copies * source) if len(self.kinds) > 1 else x
            if points:
                there = self.matrices.narrow(0, matrix_at, points * source).view(points, source)
                matrix_at += points * source
                back = self.matrices.narrow(0, matrix_at, target * points).view(target, points)
                matrix_at += target * points
                parts.append(multiply_capsules(self.function(multiply_capsules(part, there, copies)), back, copies))
            else:
                parts.append(self.function(part))
            at += copies * source
        if len(parts) == 1:
            return parts[0]
        # Autocast makes half precision of products only.
        first = next((part for part, kind in zip(parts, self.kinds, strict=True) if kind[3]), parts[0])
        return torch.cat([part.type_as(first) for part in parts], dim=1)

    def extra_repr(self) -> str:
        sampled = sorted({number for number in self.samples if number})
        numbers = f", samples={'/'.join(map(str, sampled))}" if sampled else ""
        return f"{super().extra_repr()}, {function_name(self.function)}{numbers}, aliasing={self.aliasing:.2g}"


def _pairs(label: str, in_type: FieldType, out_type: FieldType) -> list[tuple[Capsule, Capsule, int]]:
    """Each kind of capsule with its image, and the number of copies."""
    numbers = [[copies for _, copies in t.terms] for t in (in_type, out_type)]
    if in_type.group != out_type.group or numbers[0] != numbers[1]:
        raise TypeError(
            f"{label} changes the cut-off of functions, and keeps their group and the number of copies of each kind: "
            f"`8*regular(2)` may become `8*regular(4)`. Got in_type `{in_type}` of {in_type.group.name} and out_type "
            f"`{out_type}` of {out_type.group.name}. Change the number of copies with "
            f"`snn.Conv{in_type.group.axes or 2}d`."
        )
    return [(a, b, n) for (a, n), (b, _) in zip(in_type.terms, out_type.terms, strict=True)]


def _plan(label: str, source: Capsule, target: Capsule) -> SampledCapsule | None:
    """The sampling of a kind; None if its channels are values already."""
    if source == target and source.admits("pointwise"):
        return None
    for capsule in (source, target):
        reason = why_not_functions(capsule.representation)
        if reason is not None:
            raise TypeError(
                f"{label} is not admissible for capsule `{capsule}`: {reason}. "
                f"{alternatives(capsule, *_all_functions(capsule))}"
            )
    rho, after = source.representation, target.representation
    return SampledCapsule(common_domain([rho, after]), rho, rho if source == target else after)


def _all_functions(capsule: Capsule) -> list[str]:
    """The remedy for a capsule that only lacks some functions, as the end of a sentence."""
    rho = capsule.representation
    if why_not_functions(rho + capsule.group.trivial) is not None:
        return []
    highest = cut_off(rho)
    return [f"put it into `{'regular' if highest is None else f'regular({highest})'}`, which contains it"]


def _check_numbers(
    label: str, samples: int | None, tolerance: float, plans: list[tuple[Capsule, SampledCapsule | None]]
) -> None:
    if not tolerance > 0:
        raise ValueError(f"{label}: tolerance must be a number above 0, such as 0.01; got {tolerance!r}.")
    if samples is None:
        return
    if isinstance(samples, bool) or not isinstance(samples, int | np.integer):
        raise TypeError(
            f"{label}: samples must be a whole number, such as 16; got {type(samples).__name__} {samples!r}."
        )
    for capsule, plan in plans:
        if isinstance(capsule.group, FiniteGroup):
            raise ValueError(
                f"{label}: got samples={samples}, but functions on {capsule.group.name} have finitely many points, and "
                "all of them are taken. Leave samples out."
            )
        step, fewest = (1, 0) if plan is None else (plan.domain.step, plan.domain.fewest)
        exchanged = "" if plan is None else plan.domain.exchanged_by
        if samples < fewest or samples % step:
            enough = max(fewest, step * math.ceil(samples / step))
            raise ValueError(
                f"{label}: expected samples for capsule `{capsule}` to be a multiple of {step}, so that "
                f"{exchanged} exchange them, and at least {fewest}, so that they tell its waves apart; got {samples}. "
                f"Use samples={enough}."
            )
