"""Nonlinearities on channels: pointwise, odd and concatenated ones, each where a capsule's matrices admit it."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from torch import Tensor, nn

from steerable.algebra.capsules import Capsule, Nonlinearity
from steerable.nn.channels import merge_order, take_with_negatives
from steerable.nn.module import EquivariantModule
from steerable.nn.scalar_functions import ScalarFunction, check_odd, check_scale_free, check_valuewise, function_name
from steerable.types.field_types import FieldType

__all__ = [
    "ELU",
    "GELU",
    "CReLU",
    "Concatenated",
    "Hardtanh",
    "LeakyReLU",
    "Odd",
    "Pointwise",
    "ReLU",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "require",
]

_REMEDIES: dict[Nonlinearity, str] = {
    "pointwise": "a pointwise nonlinearity such as `ReLU`",
    "concatenated": "`CReLU`",
    "odd": "an odd nonlinearity such as `Tanh`",
    "norm": "`NormReLU`",
}

_PLURALS = {
    "permutation": "permutations",
    "signed permutation": "signed permutations",
    "monomial": "monomial, with entries other than ±1",
    "orthogonal": "orthogonal, but mix channels",
    "general": "not orthogonal",
}


def require(
    layer: str, field_type: FieldType, kind: Nonlinearity, *, remedy: Callable[[Capsule], str] | None = None
) -> None:
    """TypeError with the remedy when some capsule of the type does not admit this kind of nonlinearity.

    Args:
        layer: how the message calls what is not admissible.
        field_type: the type in question.
        kind: what each of its capsules must admit.
        remedy: a sentence for a capsule that does not; by default it names nonlinearities that the capsule admits.
    """
    for capsule, _ in field_type.blocks:
        if not capsule.admits(kind):
            raise TypeError(
                f"{layer} is not admissible for capsule `{capsule}`: its matrices are {_PLURALS[capsule.kind]}. "
                f"{remedy(capsule) if remedy else _remedy(capsule, kind)}"
            )


def _remedy(capsule: Capsule, kind: Nonlinearity) -> str:
    fitting = [text for other, text in _REMEDIES.items() if capsule.admits(other)]
    if not fitting and capsule.admits("scale-free concatenated"):
        fitting = ["`CReLU`"]
    if not fitting or kind == "norm":  # pooling asks for this too: another nonlinearity would not help
        return "Change to an orthogonal basis first, for instance with `ToIrreps`."
    if len(fitting) == 1:
        return f"Use {fitting[0]}."
    return f"Use {', '.join(fitting[:-1])}, or {fitting[-1]}."


class Pointwise(EquivariantModule):
    """y_c = ν(x_c) on each channel, for any ν; every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        function: ν, a module or a function that acts on each value alone.
    """

    kind: Nonlinearity = "pointwise"

    def __init__(self, field_type: FieldType, function: ScalarFunction) -> None:
        super().__init__(field_type, field_type)
        require(self._label(function), field_type, self.kind)
        check_valuewise(self._label(function), function, field_type.channels)
        self.function = function

    def _label(self, function: ScalarFunction) -> str:
        if type(self) in (Pointwise, Odd):
            return f"{type(self).__name__}({function_name(function)})"
        return type(self).__name__

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return self.function(x)

    def plain(self) -> nn.Module:
        if isinstance(self.function, nn.Module):
            return self.function
        return super().plain()


class Odd(Pointwise):
    """y_c = ν(x_c) with ν(-a) = -ν(a); every capsule must be a signed permutation.

    A function that is not odd is refused: it is tried on values of all magnitudes. One that is odd for some values of
    its parameters only, such as ``nn.PReLU``, is refused as well, because training changes them.

    Shapes: any (batch, channels, …) → the same.
    """

    kind: Nonlinearity = "odd"

    def __init__(self, field_type: FieldType, function: ScalarFunction) -> None:
        super().__init__(field_type, function)
        permuted = all(capsule.admits("pointwise") for capsule, _ in field_type.blocks)
        remedy = (
            "These capsules are permutations, which need no odd function: use `Pointwise`."
            if permuted
            else "Use `CReLU` or `Concatenated` with it, or an odd function such as tanh."
        )
        check_odd(self._label(function), function, field_type.channels, remedy)


class ReLU(Pointwise):
    """y_c = max(x_c, 0); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.ReLU())


class LeakyReLU(Pointwise):
    """y_c = x_c where it is positive, else slope · x_c; every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType, negative_slope: float = 0.01) -> None:
        super().__init__(field_type, nn.LeakyReLU(negative_slope))


class ELU(Pointwise):
    """y_c = x_c where it is positive, else α(exp x_c - 1); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType, alpha: float = 1.0) -> None:
        super().__init__(field_type, nn.ELU(alpha))


class GELU(Pointwise):
    """y_c = x_c Φ(x_c); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.GELU())


class SiLU(Pointwise):
    """y_c = x_c σ(x_c); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.SiLU())


class Sigmoid(Pointwise):
    """y_c = 1 / (1 + exp(-x_c)); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.Sigmoid())


class Softplus(Pointwise):
    """y_c = log(1 + exp x_c); every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.Softplus())


class Tanh(Odd):
    """y_c = tanh x_c, odd: for signed permutations too.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.Tanh())


class Softsign(Odd):
    """y_c = x_c / (1 + |x_c|), odd: for signed permutations too.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.Softsign())


class Hardtanh(Odd):
    """y_c = x_c cut off at ±1, odd: for signed permutations too.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.Hardtanh())


class Concatenated(EquivariantModule):
    """x ↦ (ν(x), ν(-x)) capsule by capsule, for any ν; signed permutations become permutations of twice the size.

    Shapes: (batch, in_type.channels, …) → (batch, 2 · in_type.channels, …); ``out_type`` is Act_ν of each capsule:
    D4's ``A1`` gives ``2*A1``, ``E`` gives ``qmr2``.

    Args:
        field_type: what goes in.
        function: ν, a module or a function that acts on each value alone.
        scale_free: ν(ca) = cν(a) for c > 0, as for ReLU; then monomial capsules are admissible too.
    """

    source: Tensor
    sign: Tensor
    plus: Tensor
    minus: Tensor

    def __init__(self, field_type: FieldType, function: ScalarFunction, *, scale_free: bool = False) -> None:
        label = f"Concatenated({function_name(function)})" if type(self) is Concatenated else type(self).__name__
        require(label, field_type, "scale-free concatenated" if scale_free else "concatenated")
        stack = [after for capsule in field_type.capsules for after in capsule.after_concatenation()]
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type)
        check_valuewise(label, function, out_type.channels)
        if scale_free:
            check_scale_free(label, function, out_type.channels)
        self.function = function
        channels = np.arange(field_type.channels)
        # Capsule by capsule: all of its channels, then all of them negated.
        raw = np.concatenate([np.tile(channels[s], 2) for s in field_type.slices] or [channels])
        sign = np.concatenate([np.repeat([1.0, -1.0], c.dim) for c in field_type.capsules] or [np.zeros(0)])
        order = merge_order(stack, out_type)
        source, sign = raw[order], sign[order]
        places = np.argsort(source, kind="stable").reshape(-1, 2)  # the two places of each channel
        first = sign[places[:, 0]] > 0
        self.register_index("source", source)
        self.register_constant("sign", sign)
        self.register_index("plus", np.where(first, places[:, 0], places[:, 1]))
        self.register_index("minus", np.where(first, places[:, 1], places[:, 0]))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return self.function(take_with_negatives(x, self.source, self.sign.to(x.dtype), self.plus, self.minus))


class CReLU(Concatenated):
    """x ↦ (max(x, 0), max(-x, 0)) capsule by capsule; for signed permutations and monomial capsules.

    Shapes: (batch, in_type.channels, …) → (batch, 2 · in_type.channels, …).
    """

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, nn.ReLU(), scale_free=True)
