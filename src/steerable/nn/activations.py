"""Nonlinearities on single channels: pointwise ones on permutations, odd ones on signed permutations too."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steerable.algebra.capsules import Nonlinearity
from steerable.nn.admissibility import require
from steerable.nn.module import EquivariantModule
from steerable.nn.scalar_functions import ScalarFunction, check_odd, check_valuewise, function_name, is_bare_relu
from steerable.types.field_types import FieldType

__all__ = [
    "ELU",
    "GELU",
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
]


class Pointwise(EquivariantModule):
    """y_c = ν(x_c) on each channel, for any ν; every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        function: ν, a module or a function that acts on each value alone.
    """

    parameters_serve_subgroups = True  # those of the function, which is the same for all channels

    channelwise = True

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
        self.check_input(x, pooled=True)
        return self.function(x)

    def plain(self) -> nn.Module:
        if isinstance(self.function, nn.Module):
            return self.function
        return super().plain()


class Odd(Pointwise):
    """y_c = ν(x_c) with ν(-a) = -ν(a); every capsule must be a signed permutation.

    A function that is not odd is refused: it is tried on values of all magnitudes. A function that is odd only for some
    values of its parameters, such as ``nn.PReLU``, is refused as well, because training changes them.

    Shapes: any (batch, channels, …) → the same.
    """

    kind: Nonlinearity = "odd"

    def __init__(self, field_type: FieldType, function: ScalarFunction) -> None:
        super().__init__(field_type, function)
        permuted = all(capsule.admits("pointwise") for capsule, _ in field_type.terms)
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

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return torch.relu(x) if is_bare_relu(self.function) else self.function(x)  # one call less


class LeakyReLU(Pointwise):
    """y_c = x_c if it is positive, else slope · x_c; every capsule must be a permutation.

    Shapes: any (batch, channels, …) → the same.
    """

    def __init__(self, field_type: FieldType, negative_slope: float = 0.01) -> None:
        super().__init__(field_type, nn.LeakyReLU(negative_slope))


class ELU(Pointwise):
    """y_c = x_c if it is positive, else α(exp x_c - 1); every capsule must be a permutation.

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
