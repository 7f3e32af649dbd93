"""``accelerate`` sets what is fast, compares the outcome, goes without what differs, and refuses bad input in words."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

import pytest
import torch
from cases import GROUPS, small_net
from fake_graphs import FakeGraphs
from torch import Tensor, nn

from steerable import FieldType, models
from steerable import nn as snn
from steerable.nn import accelerated_call, acceleration, memory_formats, replay
from steerable.nn.backends.store import ChoiceStore
from steerable.nn.memory_formats import laid_out

D4 = GROUPS["D4"]
X = torch.randn(4, 3, 8, 8, generator=torch.Generator().manual_seed(0))


def network() -> snn.Sequential:
    torch.manual_seed(0)
    return small_net(D4)


@pytest.fixture
def on_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    """As if there were one."""
    monkeypatch.setattr(acceleration, "_can_record", lambda example: True)
    monkeypatch.setattr(replay, "record", FakeGraphs)


@pytest.mark.parametrize("training", [False, True])
def test_the_same_network_with_the_same_function(training: bool) -> None:
    net = network()
    before = copy.deepcopy(net)
    found = snn.accelerate(net, X, training=training)
    assert found is net
    assert net.training
    assert (net.in_type, net.out_type) == (before.in_type, before.out_type)
    assert all(p.grad is None for p in net.parameters())
    for (name, value), now in zip(before.state_dict().items(), net.state_dict().values(), strict=True):
        assert torch.equal(value, now), name
    for shape in ((4, 3, 8, 8), (2, 3, 6, 6)):
        x = torch.randn(shape)
        torch.testing.assert_close(net(x), before(x))
    before.load_state_dict(net.state_dict())
    torch.testing.assert_close(net.eval()(X), before.eval()(X))


def test_backends_are_settled() -> None:
    net = snn.accelerate(network(), X)
    assert "auto" not in snn.recorded_backends(net).values()


@pytest.mark.parametrize("winner", [torch.channels_last, torch.contiguous_format], ids=str)
def test_the_faster_memory_format(winner: torch.memory_format, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("STEERABLE_CACHE_DIR", str(tmp_path))

    def seconds(net: nn.Module, x: Tensor) -> float:
        return 1.0 if x.is_contiguous(memory_format=winner) else 2.0

    monkeypatch.setattr(memory_formats, "_seconds", seconds)
    net = snn.accelerate(network(), X)
    assert str(winner).removeprefix("torch.").removesuffix("_format") in repr(net.forward)
    assert net.forward.laid_out(X).is_contiguous(memory_format=winner)
    torch.testing.assert_close(net.eval()(X), network().eval()(X))
    torch.save(net, tmp_path / "network.pt")
    assert torch.load(tmp_path / "network.pt", weights_only=False).forward.memory_format == winner
    # It is remembered, so that the same program run once more computes the same numbers.
    monkeypatch.setattr(memory_formats, "_seconds", None)
    monkeypatch.setattr("steerable.nn.backends.store._store", ChoiceStore)  # as in another process
    assert snn.accelerate(network(), X).forward.memory_format == winner


@pytest.mark.parametrize("shape", [(2, 1, 5, 6), (2, 3, 5, 6), (2, 1, 4, 5, 6), (2, 3, 4, 5, 6)], ids=str)
def test_fields_of_one_channel_have_a_memory_format_too(shape: tuple[int, ...]) -> None:
    """Torch leaves their strides as they are, and then no convolution would give channels_last."""
    x, axes = torch.randn(shape), len(shape) - 2
    last = torch.channels_last if axes == 2 else torch.channels_last_3d
    moved, back = laid_out(x, last), laid_out(laid_out(x, last), torch.contiguous_format)
    assert torch.equal(moved, x)
    assert torch.equal(back, x)
    convolve = torch.conv2d if axes == 2 else torch.conv3d
    filters = torch.randn(4, shape[1], *[3] * axes)
    assert convolve(moved, filters).is_contiguous(memory_format=last)
    assert convolve(back, filters).is_contiguous()


def test_random_numbers_and_modes_stay_as_they_are() -> None:
    net = network()
    net[2].eval()
    modes, before = [m.training for m in net.modules()], torch.get_rng_state()
    snn.accelerate(net, X)
    assert [m.training for m in net.modules()] == modes
    assert torch.equal(torch.get_rng_state(), before)


def test_a_saved_network_is_the_plain_one(tmp_path: Path) -> None:
    net = snn.accelerate(models.resnet(8, 1), X)
    net.save_pretrained(tmp_path / "saved")
    loaded = models.ResNet.from_pretrained(tmp_path / "saved")
    assert "forward" not in vars(loaded)
    torch.testing.assert_close(loaded.eval()(X), net.eval()(X))


def test_twice_is_once(on_a_gpu: None) -> None:
    net = snn.accelerate(network(), X)
    call = net.forward
    assert snn.accelerate(net, X) is net
    assert snn.accelerate(net, X + 1, training=False).forward is call
    assert call.shapes == [X.shape]


def test_for_another_example_it_is_prepared_as_well(on_a_gpu: None) -> None:
    net = snn.accelerate(network(), X)
    call, ready = net.forward, len(net.forward._ready)
    assert snn.accelerate(net, X[:2]).forward is call
    assert call.shapes == [X.shape, X[:2].shape]
    assert (ready, len(call._ready)) == (2, 4)  # training and evaluation of each


def test_networks_with_dropout_are_accelerated_though_they_cannot_be_compared(on_a_gpu: None) -> None:
    fields = FieldType(D4, "2*regular")
    net = snn.Sequential(snn.Conv2d(FieldType(D4, "3*A1"), fields, 3), snn.Dropout(fields, 0.5))
    call = snn.accelerate(net, X).forward
    assert not call.notes
    assert len(call._ready) == 2


class TwoOutputs(nn.Module):
    """Scores and features."""

    def __init__(self) -> None:
        super().__init__()
        self.features = network()

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.features(x), x


class Wrong(FakeGraphs):
    """Stale gradients."""

    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        return [None if g is None else g + 1 for g in super().backward(upstream)]


def test_a_result_that_differs_is_not_used(on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay, "record", Wrong)
    words = r"its result would differ from the network's own by [\d.,]+%.*, so the network is run as it is\."
    with pytest.warns(UserWarning, match=words) as caught:
        net = snn.accelerate(network(), X)
    assert len(caught) == 1
    assert not net.forward.records
    twin = network()
    for other in (net, twin):
        other(X).square().sum().backward()
    for p, q in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


class WrongOnce(FakeGraphs):
    """A unit on the other side of a kink, for one input among others."""

    wrong: ClassVar[list[bool]] = []

    def backward(self, upstream: Tensor) -> list[Tensor | None]:
        off = 0.0 if self.wrong else 1.0
        self.wrong.append(True)
        return [None if g is None else g + off for g in super().backward(upstream)]


def test_a_unit_that_rounding_carries_across_a_kink_is_no_objection(
    on_a_gpu: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WrongOnce, "wrong", [])
    monkeypatch.setattr(replay, "record", WrongOnce)
    net = snn.accelerate(network(), X)
    assert net.forward.records
    assert len(WrongOnce.wrong) == 2  # the first input disagreed, the second one did not


def test_a_compiler_that_is_wrong_is_left_out(on_a_gpu: None, monkeypatch: pytest.MonkeyPatch) -> None:
    def miscompile(run: Callable[[Tensor], Tensor], dynamic: bool) -> Callable[[Tensor], Tensor]:
        return lambda x: 2 * run(x)

    monkeypatch.setattr(torch, "compile", miscompile)
    with pytest.warns(UserWarning, match="so the network is recorded without being compiled"):
        net = snn.accelerate(network(), X, compile=True)
    assert (net.forward.compiles, net.forward.records) == (False, True)
    torch.testing.assert_close(net.eval()(X), network().eval()(X))


# ---------------------------------------------------------------- bad input


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")  # of the compiler's own modules
@pytest.mark.parametrize(
    ("build", "example", "error", "words"),
    [
        (lambda: 3, X, TypeError, "takes a network, a `torch.nn.Module`; got int"),
        (
            lambda: nn.Conv2d(3, 4, 3),
            X,
            TypeError,
            "is for networks with layers of `steerable.nn`, and Conv2d has none",
        ),
        (lambda: models.plain_resnet(8, 4), X, TypeError, "and PlainResNet has none. Use `torch.compile"),
        (
            lambda: nn.DataParallel(network()),
            X,
            TypeError,
            "got a DataParallel around one. Put that around the network after",
        ),
        (
            lambda: torch.compile(network()),
            X,
            TypeError,
            "got a OptimizedModule around one. It compiles the network by itself",
        ),
        (TwoOutputs, X, TypeError, "for networks that return one tensor, and TwoOutputs returns a tuple. Accelerate"),
        (network, [X], TypeError, "`example` must be a tensor, a batch as in use; got list"),
        (network, X.to("meta"), ValueError, "`example` is on meta and the network on cpu. Move both"),
        (network, X.long(), ValueError, "has numbers of torch.int64, and a network computes with floating-point"),
        (network, X.double(), ValueError, "of torch.float64 and the network parameters of torch.float32. Convert"),
        (network, X[0], ValueError, r"has shape \(3, 8, 8\), and the network takes fields of type `3\*A1`: expected"),
        (network, X[:, :2], ValueError, r"has shape \(4, 2, 8, 8\), .* expected \(batch, 3, height, width\)"),
        (network, X[:0], ValueError, r"of shape \(0, 3, 8, 8\) is empty"),
        (lambda: models.unet(3, 1), X[..., :6, :6], ValueError, "multiples of"),
    ],
)
def test_bad_input_is_named(build: Callable[[], Any], example: Any, error: type[Exception], words: str) -> None:
    net = build()
    with pytest.raises(error, match=words):
        snn.accelerate(net, example)
    assert not isinstance(getattr(net, "forward", None), accelerated_call.AcceleratedCall)
