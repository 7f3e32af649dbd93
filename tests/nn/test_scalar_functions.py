"""Functions that people bring along: what a layer admits is checked on values of all magnitudes, not taken on trust."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
import refusals
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.nn import scalar_functions

D4 = st.dihedral(4)
REGULAR = FieldType(D4, "2*regular")
SIGNED = FieldType(D4, "8*A2")
MIXED = FieldType(D4, "2*E + A2 + regular")
LONG = FieldType(D4, st.Capsule(D4.irrep("E").change_basis(np.diag([1.0, 2.0])), "long"))

Function = Callable[[Tensor], Tensor]


refusal = partial(refusals.refusal, TypeError)


def clamp_between(low: float, high: float) -> Function:
    return lambda x: x.clamp(low, high)


class Steep(nn.Module):
    """tanh(ax) with a trained a: odd for every a."""

    def __init__(self) -> None:
        super().__init__()
        self.a = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.a * x)


class Offset(nn.Module):
    """tanh(x) + b with a trained b that begins as zero: odd at the start only."""

    def __init__(self) -> None:
        super().__init__()
        self.b = nn.Parameter(torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(x) + self.b


class Far(nn.Module):
    """Odd up to 3·10⁷, a limit that only its code knows."""

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x > 3e7, torch.zeros_like(x), x)


class Cubic(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("coefficients", torch.tensor([1.0, -0.1]))

    def forward(self, x: Tensor) -> Tensor:
        return self.coefficients[0] * x + self.coefficients[1] * x**3


class Counting(nn.Module):
    """The same output every time, and a buffer that remembers the calls."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        return x.relu()


# -------------------------------------------------------------------- odd functions

_LIMITS = (1e-9, 1e-3, 0.5, 1.0, 4.0, 6.0, 100.0, 1e5, 1e7)


@pytest.mark.parametrize("low", _LIMITS)
@pytest.mark.parametrize("high", _LIMITS)
def test_limits_are_admitted_where_they_are_symmetric_and_only_there(low: float, high: float) -> None:
    for function in (
        nn.Hardtanh(-low, high),
        functools.partial(torch.clamp, min=-low, max=high),
        functools.partial(F.hardtanh, min_val=-low, max_val=high),
        clamp_between(-low, high),
    ):
        if low == high:
            snn.Odd(SIGNED, function)
        else:
            assert "the function is not odd" in refusal(snn.Odd, SIGNED, function)


LIMIT, LIMITS, NESTED = 7.3e6, (-7.3e6, 9e6), ((-7.3e6,), (9e6, 10**400))


def by_a_global(x: Tensor) -> Tensor:
    return x.clamp(-LIMIT, math.inf)


def by_a_global_tuple(x: Tensor) -> Tensor:
    return x.clamp(*LIMITS)


def by_a_nested_tuple(x: Tensor) -> Tensor:
    return x.clamp(NESTED[0][0], NESTED[1][0])


def by_a_default_tuple(x: Tensor, limits: tuple[float, float] = (-7.3e6, 9e6)) -> Tensor:
    return x.clamp(*limits)


def by_a_constant_tuple(x: Tensor) -> Tensor:
    low, high = (-7.3e6, 9e6)
    return x.clamp(low, high)


@pytest.mark.parametrize(
    "function", [by_a_global, by_a_global_tuple, by_a_nested_tuple, by_a_default_tuple, by_a_constant_tuple]
)
def test_limits_are_found_wherever_code_keeps_them(function: Function) -> None:
    """They lie beyond the values that every function is tried on."""
    assert "the function is not odd" in refusal(snn.Odd, SIGNED, function)


@pytest.mark.parametrize("part", [1 - 1e-4, 1 + 1e-4])
def test_limits_that_hardly_differ_are_told_apart(part: float) -> None:
    assert "the function is not odd" in refusal(snn.Odd, SIGNED, nn.Hardtanh(-4.0, 4.0 * part))


@pytest.mark.parametrize(
    "function",
    [
        torch.tanh, torch.sin, torch.erf, torch.sign, torch.round, torch.sinh, torch.atan, nn.Tanhshrink(),
        nn.Hardshrink(0.5), nn.Hardshrink(1e7), nn.Softshrink(20.0), nn.Softsign(), nn.Hardtanh(-2, 2), nn.Identity(),
        lambda x: x**3, lambda x: x.sigmoid() - 0.5, lambda x: x / (1 + x * x).sqrt(), Steep(), Cubic(),
    ],
    ids=scalar_functions.function_name,
)  # fmt: skip
def test_odd_functions_are_admitted(function: Function) -> None:
    layer = snn.Odd(MIXED, function).double()
    x = torch.randn(2, MIXED.channels, 3, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(layer(x), function(x))
    st.testing.assert_equivariant(layer, 3 * x)


@pytest.mark.parametrize(
    "function",
    [
        torch.exp, torch.relu, torch.abs, torch.floor, nn.Hardtanh(-4.0, 6.0), nn.Threshold(100.0, 0.0), nn.ReLU6(),
        nn.LeakyReLU(0.999), nn.ELU(), nn.SELU(), nn.Hardswish(), nn.Softplus(), lambda x: x + 1e-6, Far(),
        lambda x: torch.where(x > 2e5, 2 * x, x), lambda x: x.clamp(max=50.0), lambda x: torch.where(x == 0, 1.0, x),
    ],
    ids=scalar_functions.function_name,
)  # fmt: skip
def test_functions_that_are_not_odd_somewhere_are_refused(function: Function) -> None:
    assert "the function is not odd, ν(-a) differs from -ν(a) for a = " in refusal(snn.Odd, MIXED, function)


def test_the_refusal_says_where_and_what_to_do() -> None:
    assert refusal(snn.Odd, SIGNED, torch.exp) == (
        "Odd(exp): the function is not odd, ν(-a) differs from -ν(a) for a = 0. Use `CReLU` or `Concatenated` with it, "
        "or an odd function such as tanh."
    )
    assert refusal(snn.Odd, REGULAR, nn.ELU()).endswith(
        "These capsules are permutations, which need no odd function: use `Pointwise`."
    )


@pytest.mark.parametrize("slope", [0.25, 1.0])
def test_a_trained_slope_is_not_odd_for_good(slope: float) -> None:
    """A PReLU is odd where its slope is 1, and training moves it; concatenated it serves signed capsules."""
    found = refusal(snn.Odd, SIGNED, nn.PReLU(init=slope))
    other = " once training has changed its parameters" if slope == 1 else ""
    assert found == (
        f"Odd(PReLU): the function is not odd, ν(-a) differs from -ν(a) for a = 1e-06{other}. Use `CReLU` or "
        "`Concatenated` with it, or an odd function such as tanh."
    )
    assert "use `Pointwise`" in refusal(snn.Odd, REGULAR, nn.PReLU(init=slope))
    for layer in (snn.Concatenated(SIGNED, nn.PReLU(init=slope)), snn.Pointwise(REGULAR, nn.PReLU(init=slope))):
        with torch.no_grad():
            layer.function.weight.fill_(0.6)
        st.testing.assert_equivariant(layer)


def test_other_trained_functions() -> None:
    snn.Odd(SIGNED, Steep())
    assert "for a = 0 once training has changed its parameters" in refusal(snn.Odd, SIGNED, Offset())


# -------------------------------------------------------------------- scale-free functions


@pytest.mark.parametrize(
    "function", [torch.relu, torch.abs, nn.LeakyReLU(0.3), nn.PReLU(), nn.Identity(), lambda x: x.clamp(min=0)]
)
def test_scale_free_functions_are_admitted(function: Function) -> None:
    st.testing.assert_equivariant(snn.Concatenated(LONG, function, scale_free=True))


@pytest.mark.parametrize(
    "function",
    [
        nn.Softshrink(100.0), nn.Hardshrink(1e7), nn.Threshold(50.0, 0.0), nn.ReLU6(), nn.Hardtanh(-1e8, 1e8), Steep(),
        lambda x: x.clamp(min=0, max=3e5), lambda x: torch.where(x > 1e7, 0 * x, x.relu()), nn.Softshrink(1e-9),
    ],
)  # fmt: skip
def test_functions_that_are_not_scale_free_somewhere_are_refused(function: Function) -> None:
    found = refusal(snn.Concatenated, LONG, function, scale_free=True)
    assert "the function is not scale-free, ν(ca) differs from cν(a) for c = " in found
    assert found.endswith("Leave scale_free off.")


# -------------------------------------------------------------------- functions of single values

makes = {
    "Pointwise": lambda f: snn.Pointwise(REGULAR, f),
    "Odd": lambda f: snn.Odd(MIXED, f),
    "Concatenated": lambda f: snn.Concatenated(MIXED, f),
}


@pytest.mark.parametrize("make", makes.values(), ids=makes)
@pytest.mark.parametrize(
    "function",
    [
        nn.Softmax(1), nn.Softmax(-1), lambda x: x - x.mean(), lambda x: x / x.abs().max(), lambda x: x.flip(-1),
        lambda x: F.normalize(x, dim=1), lambda x: torch.cumsum(x, 2), lambda x: x - x.median(),
    ],
)  # fmt: skip
def test_functions_of_more_than_one_value_are_refused(make: Callable[[Function], object], function: Function) -> None:
    found = refusal(make, function)
    assert "the function does not act on each value alone" in found
    assert found.endswith("Use a function of single values, without parameters per channel.")


def test_parameters_per_channel_are_refused() -> None:
    """Also where they begin equal."""
    for layer in (
        lambda: snn.Pointwise(REGULAR, nn.PReLU(16)),
        lambda: snn.Odd(SIGNED, nn.PReLU(8, init=1.0)),
        lambda: snn.Concatenated(SIGNED, nn.PReLU(16)),
        lambda: snn.Pointwise(REGULAR, nn.BatchNorm2d(16)),
    ):
        assert "the function" in refusal(layer)


@pytest.mark.parametrize("make", makes.values(), ids=makes)
@pytest.mark.parametrize(
    "function",
    [nn.RReLU(), nn.RReLU().eval(), nn.Dropout(), nn.Dropout().eval(), lambda x: x * torch.rand(()), Counting()],
)
def test_functions_that_are_random_or_keep_a_state_are_refused(
    make: Callable[[Function], object], function: Function
) -> None:
    """Also those that are so in training only, and are given in evaluation mode."""
    state = torch.get_rng_state()
    found = refusal(make, function)
    assert "the function is random or keeps a state" in found
    assert "`snn.Dropout`" in found
    assert torch.equal(torch.get_rng_state(), state), "trying a function draws from the user's random numbers"


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        (lambda x: x.sum(1, keepdim=True), "the result should be a tensor of the same shape, and is of shape"),
        (lambda x: (x, x), "the result should be a tensor of the same shape, and is of tuple"),
        (nn.PReLU(5), "Mismatch of parameter numbers and input channel size"),
    ],
)
def test_functions_that_cannot_be_called_are_refused_with_the_reason(function: Function, reason: str) -> None:
    found = refusal(snn.Pointwise, REGULAR, function)
    assert found.startswith(f"Pointwise({scalar_functions.function_name(function)}): the function cannot be called")
    assert reason in found


def test_functions_of_one_dtype_are_admitted() -> None:
    weight = torch.full((1,), 0.2)
    layer = snn.Pointwise(REGULAR, lambda x: F.prelu(x, weight))
    x = torch.randn(1, 16, 2, 2)
    torch.testing.assert_close(layer(x), F.leaky_relu(x, 0.2))


def test_a_function_is_left_as_it_was() -> None:
    function = nn.PReLU(init=0.7).half().eval()
    layer = snn.Pointwise(REGULAR, function)
    assert layer.function is function
    assert function.weight.dtype == torch.float16
    assert float(function.weight.detach()) == pytest.approx(0.7, abs=1e-3)
    assert not function.training
    x = torch.randn(1, 16, 2, 2)
    before = x.clone()
    snn.Pointwise(REGULAR, nn.ReLU6(inplace=True))(x.clone())
    assert torch.equal(x, before)


def test_functions_of_lengths_act_on_each_pixel_alone() -> None:
    """One of its own for each capsule is equivariant; one that sees the place is not."""
    slopes = nn.PReLU(len(MIXED))
    with torch.no_grad():
        slopes.weight.copy_(torch.linspace(0, 1, len(MIXED)))
    st.testing.assert_equivariant(snn.NormActivation(MIXED, slopes))
    st.testing.assert_equivariant(snn.NormActivation(MIXED, nn.Softmax(1)))
    for function in (nn.Softmax(-1), lambda x: x.flip(-1), lambda x: torch.cumsum(x, 2)):
        assert "the function does not act on each pixel alone" in refusal(snn.NormActivation, MIXED, function)
    assert "is random or keeps a state" in refusal(snn.NormActivation, MIXED, nn.Dropout())


# -------------------------------------------------------------------- what is known without a trial


@pytest.mark.parametrize("kind", scalar_functions.KNOWN)
def test_what_is_known_of_torchs_functions_is_true(kind: type[nn.Module], monkeypatch: pytest.MonkeyPatch) -> None:
    known = scalar_functions.KNOWN[kind]
    monkeypatch.setattr(scalar_functions, "KNOWN", {})
    scalar_functions.check_valuewise("it", kind(), 5)
    scalar_functions.check_pixelwise("it", kind(), 5)
    for word, check in (
        ("odd", lambda: scalar_functions.check_odd("it", kind(), 5, "")),
        ("scale-free", lambda: scalar_functions.check_scale_free("it", kind(), 5)),
    ):
        if word in known:
            check()
        else:
            assert f"the function is not {word}" in refusal(check)
