"""Functions that are handed weights of the network's own become what the modules would that hold them."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from plain_networks import images
from torch import Tensor, nn

import steerable as st
from steerable.conversion import ConversionError

Forward = Callable[[Any, Tensor], Tensor]


def convolved(m: Any, x: Tensor) -> Tensor:
    return F.conv2d(x, m.weight, m.bias, m.stride, m.padding, m.dilation, m.groups)


def normalised(m: Any, x: Tensor, training: bool | None = None) -> Tensor:
    training = m.training if training is None else training
    return F.batch_norm(x, m.running_mean, m.running_var, m.weight, m.bias, training, m.momentum, m.eps)


# Each layer, and what its forward does in a subclass that writes it out.
LAYERS: list[tuple[Callable[[type], Any], type[nn.Module], Forward]] = [
    (lambda kind: kind(16, 24, 3, 2, 1, groups=2, bias=False), nn.Conv2d, convolved),
    (
        lambda kind: kind(16, 24, 2, 2),
        nn.ConvTranspose2d,
        lambda m, x: F.conv_transpose2d(x, m.weight, m.bias, stride=m.stride),
    ),
    (lambda kind: kind(16, eps=0.3, momentum=0.7), nn.BatchNorm2d, normalised),
    (
        lambda kind: kind(16, affine=False, track_running_stats=False),
        nn.BatchNorm2d,
        lambda m, x: F.batch_norm(x, None, None, training=True),
    ),
    (
        lambda kind: kind(2, 16, eps=0.3),
        nn.GroupNorm,
        lambda m, x: F.group_norm(x, m.num_groups, m.weight, m.bias, m.eps),
    ),
    (lambda kind: kind(1, 16, affine=False), nn.GroupNorm, lambda m, x: F.group_norm(x, 1)),
    (
        lambda kind: kind(16, affine=True),
        nn.InstanceNorm2d,
        lambda m, x: F.instance_norm(x, weight=m.weight, bias=m.bias),
    ),
    (lambda kind: kind(), nn.PReLU, lambda m, x: F.prelu(x, m.weight)),
]


def network(layer: nn.Module) -> nn.Module:
    width = 24 if isinstance(layer, nn.Conv2d | nn.ConvTranspose2d) else 16
    head = Own(width, 4, bias=False) if type(layer).__name__ == "Own" else nn.Linear(width, 4, bias=False)
    return nn.Sequential(nn.Conv2d(3, 16, 3), layer, nn.AdaptiveAvgPool2d(1), nn.Flatten(), head)


class Own(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return F.linear(x, self.weight, bias=self.bias)


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize(("make", "kind", "forward"), LAYERS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_forward_that_is_written_out_is_converted_as_the_module_is(
    make: Callable[[type], Any], kind: type[nn.Module], forward: Forward, training: bool
) -> None:
    written_out = type("Own", (kind,), {"forward": forward})
    nets = []
    for layer in (make(kind), make(written_out)):
        torch.manual_seed(0)  # the same weights for both
        nets.append(st.convert(network(layer).train(training), "D4").double())
    module, function = nets
    assert module.report.parameters_after == function.report.parameters_after
    for seed in range(3):
        x = (1 + seed) * images(3)
        torch.testing.assert_close(function.train()(x), module.train()(x))
    torch.testing.assert_close(function.eval()(images(3)), module.eval()(images(3)))


class Weights(nn.Module):
    """Parameters of its own, and what is done with them."""

    def __init__(self, forward: Forward) -> None:
        super().__init__()
        self.enter = nn.Conv2d(3, 16, 3)
        self.norm = nn.BatchNorm2d(16)
        self.weight, self.bias = nn.Parameter(torch.randn(16, 16, 1, 1)), nn.Parameter(torch.zeros(16))
        self.register_buffer("kernel", torch.randn(16, 16, 1, 1))
        self.function = forward

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self, self.enter(x))


@pytest.mark.parametrize(
    ("forward", "complaint"),
    [
        (lambda m, x: F.conv2d(x, 2 * m.weight), "it takes `weight`, one of the network's own tensors"),
        (lambda m, x: F.conv2d(x, m.kernel), "its weight is computed, or is a constant"),
        (lambda m, x: F.conv2d(x, torch.ones(16, 16, 1, 1)), "its weight is computed, or is a constant"),
        (lambda m, x: F.conv2d(x, m.weight, torch.ones(16)), "its bias is computed, or is a constant"),
        (lambda m, x: F.conv2d(x, m.weight, padding=x.shape[2] // 8), "its arguments are computed from sizes"),
        (lambda m, x: F.conv2d(F.conv2d(x, m.weight), m.weight, stride=2), "`weight` is used in another way as well"),
        (lambda m, x: F.conv2d(F.conv2d(x, m.weight, m.bias), m.weight), "`weight` is used in another way as well"),
        (lambda m, x: F.conv_transpose2d(x, m.enter.weight), "`enter.weight` is used in another way as well"),
        (lambda m, x: normalised(m.norm, x, True), "only if `training` follows the mode of the network"),
        (lambda m, x: normalised(m.norm, x, False), "only if `training` follows the mode of the network"),
        (lambda m, x: m.norm(normalised(m.norm, x)), "`norm.running_mean` is used in another way as well"),
        (lambda m, x: F.batch_norm(x, None, None, None, m.bias, True), "a bias without a weight"),
        (lambda m, x: F.instance_norm(x, m.norm.running_mean, m.norm.running_var), "running statistics"),
    ],
)
def test_other_uses_of_weights_are_refused(forward: Forward, complaint: str) -> None:
    with pytest.raises(ConversionError, match=complaint):
        st.convert(Weights(forward), "D4")


def test_weights_that_are_used_twice_in_one_way_stay_one() -> None:
    net = st.convert(Weights(lambda m, x: F.conv2d(F.relu(F.conv2d(x, m.weight, m.bias)), m.weight, m.bias)), "D4")
    assert [row.path for row in net.report.rows if "conv2d" in row.before] == ["conv2d"]


def test_layers_that_share_a_parameter_are_refused() -> None:
    """Their counterparts would have one each."""
    plain = nn.Sequential(nn.Conv2d(3, 8, 1), nn.Conv2d(8, 8, 3), nn.ReLU(), nn.Conv2d(8, 8, 3))
    plain[3].bias = plain[1].bias
    with pytest.raises(ConversionError, match=r"`3` \(Conv2d\): its `bias` is that of `1` too"):
        st.convert(plain, "D4")
    once = nn.Sequential(plain[0], plain[1], plain[2], plain[1])
    assert [row.path for row in st.convert(once, "D4").report.rows] == ["0", "1", "2"]


@pytest.mark.filterwarnings("ignore:.torch.jit.script:DeprecationWarning")
def test_compiled_networks() -> None:
    plain = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU())
    assert st.convert(torch.compile(plain, backend="eager"), "D4").plain_name == "Sequential"
    with pytest.raises(ConversionError, match="of what TorchScript has compiled, no call is seen"):
        st.convert(torch.jit.script(plain), "D4")


# -------------------------------------------------------------------- chance, and what training alone does


class Branch(nn.Module):
    """A residual branch that is left out at random, by numbers that no graph shows."""

    def __init__(self, chance: Callable[[], Any]) -> None:
        super().__init__()
        self.conv, self.chance = nn.Conv2d(4, 4, 3, padding=1), chance

    def forward(self, x: Tensor) -> Tensor:
        return x if self.training and self.chance() > 0.5 else x + self.conv(x)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    "chance",
    [
        random.random,
        lambda: np.random.rand(),  # noqa: NPY002
        lambda: int(torch.randint(2, (1,))),
        lambda: float(torch.bernoulli(torch.full((), 0.5))),
    ],
    ids=["python", "numpy", "randint", "bernoulli"],
)
def test_no_draw_is_kept_for_good(chance: Callable[[], Any], seed: int) -> None:
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    torch.manual_seed(seed)
    with pytest.raises(ConversionError, match="in training it draws random numbers that are not tensors of its graph"):
        st.convert(Branch(chance), "C4")
    net = st.convert(Branch(chance).eval(), "C4")
    assert "it differs in training, by something that cannot be followed" in str(net.report)
    assert any("conv" in row.path for row in net.report.rows)


class Auxiliary(nn.Module):
    """A head of training that has no counterpart, as in GoogLeNet."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.aux = nn.Conv2d(3, 8, 3), nn.Linear(8 * 36, 5)

    def forward(self, x: Tensor) -> Any:
        x = self.conv(x)
        return (x, self.aux(x.flatten(1))) if self.training else x


def test_what_training_alone_does_may_be_without_a_counterpart() -> None:
    net = st.convert(Auxiliary().eval(), "D4")
    assert "it differs in training, by" in str(net.report)
    assert [row.path for row in net.report.rows] == ["conv"]
    with pytest.raises(ConversionError):
        st.convert(Auxiliary(), "D4")
