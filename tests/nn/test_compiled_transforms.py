"""torch.func inside torch.compile: derivatives are those of eager code, or there is an error, never a silent zero."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.nn.backends.fourier.backend import FourierBackend

# torch's own, when it prepares forward-mode differentiation
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.script.*` is deprecated")

KIND = st.FieldType(st.dihedral(4), "2*regular + E")
LAYERS: dict[str, Callable[[], nn.Module]] = {
    "fourier": lambda: snn.Conv2d(KIND, KIND, 3, padding=1, backend="fourier"),
    "dense": lambda: snn.Conv2d(KIND, KIND, 3, padding=1, backend="dense"),
    "CReLU": lambda: snn.CReLU(KIND),
    "Linear": lambda: snn.Sequential(snn.GlobalAvgPool(KIND), snn.Linear(KIND, KIND)),
}
TRANSFORMS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "jvp": lambda layer, x: torch.func.jvp(layer, (x,), (torch.ones_like(x),))[1],
    "grad": lambda layer, x: torch.func.grad(lambda t: layer(t).square().sum())(x),
    "vmap of grad": lambda layer, x: torch.func.vmap(torch.func.grad(lambda t: layer(t[None]).square().sum()))(x),
}


@pytest.fixture(autouse=True)
def nothing_compiled_yet() -> None:
    torch.compiler.reset()


@pytest.mark.parametrize("transform", TRANSFORMS.values(), ids=TRANSFORMS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_compiled_transforms_equal_eager_ones(
    make: Callable[[], nn.Module], transform: Callable[[nn.Module, Tensor], Tensor]
) -> None:
    layer = make().double()
    x = torch.randn(2, KIND.channels, 5, 5, dtype=torch.float64)
    compiled = torch.compile(lambda t: transform(layer, t), fullgraph=True, backend="eager")
    torch.testing.assert_close(compiled(x), transform(layer, x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("called_before", [False, True])
def test_a_transform_of_a_compiled_fourier_layer_is_right_or_refused(called_before: bool) -> None:
    layer = LAYERS["fourier"]().double()
    x = torch.randn(2, KIND.channels, 5, 5, dtype=torch.float64)
    compiled = torch.compile(layer, backend="eager")
    if called_before:
        compiled(x)
    found = None
    with contextlib.suppress(NotImplementedError):
        found = TRANSFORMS["jvp"](compiled, x)
    if found is not None:
        torch.testing.assert_close(found, TRANSFORMS["jvp"](layer, x), rtol=1e-12, atol=1e-12)


def test_the_operation_itself_refuses_forward_mode() -> None:
    layer = snn.Conv2d(KIND, KIND, 3, padding=1, backend="fourier").double()
    x = torch.randn(2, KIND.channels, 5, 5, dtype=torch.float64)
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="set the layer's backend"):
        FourierBackend().convolve(layer.runner.problem, x, layer)
