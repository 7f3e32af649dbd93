"""Each pass of a convolution in its own way: all of them compute the same."""

from __future__ import annotations

import copy
import gc
import itertools
import pickle
from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import nn as snn
from steerable.nn.backends import DENSE, Choice, ConvolutionRunner, Passes, combined, cuda_timing, measuring, runner
from steerable.nn.backends.combined import carry_out, combined_gradients
from steerable.nn.backends.known import passes_from_text
from steerable.nn.channels import in_channels_last

D4 = st.dihedral(4)
FOURIER = Passes.all_by("fourier")
TYPES = st.FieldType(D4, "3*A1 + 2*E"), st.FieldType(D4, "regular + 2*qm + A1")
ALL = [
    *(Passes(*ways) for ways in itertools.product(("dense", "fourier"), *2 * [("dense", "turned", "fourier")])),
    *(Passes("padded", *ways) for ways in itertools.product(("dense", "turned"), repeat=2)),
]
pytestmark = pytest.mark.filterwarnings("ignore:`torch.jit.*` is deprecated")  # torch.func's own, and compilers'
every_combination = pytest.mark.parametrize("passes", ALL, ids=Passes.to_text)


def settled(layer: snn.Conv2d, passes: Passes) -> snn.Conv2d:
    twin = copy.deepcopy(layer)
    twin.runner.use(Choice(passes, passes.forward))
    return twin


def dense(layer: snn.Conv2d, x: Tensor) -> Tensor:
    return carry_out(layer.runner.problem, DENSE, x, layer)


def results(layer: snn.Conv2d, x: Tensor) -> list[Tensor]:
    """The output, and the gradients of its weighted square."""
    y = layer(x)
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
    return [y, *torch.autograd.grad((weights * y.square()).sum(), [x, *layer.parameters()])]


def assert_same(layer: snn.Conv2d, x: Tensor, passes: Passes) -> None:
    other = settled(layer, passes)
    assert other.runner.passes_for(x, other) == passes
    for found, expected in zip(results(other, x), results(layer, x), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-11, atol=1e-11)


@every_combination
@pytest.mark.parametrize(
    ("kernel", "options"),
    [
        (3, {"padding": 1}),
        (3, {"padding": 1, "padding_mode": "circular", "bias": False}),
        (1, {"padding": 1}),  # more than the kernel reaches: the outer output sees zeros only
        (2, {"padding": 0, "dilation": 2}),
        (5, {"padding": 2}),
    ],
    ids=str,
)
def test_all_ways_are_the_dense_one(passes: Passes, kernel: int, options: dict[str, object]) -> None:
    layer = snn.Conv2d(*TYPES, kernel, backend="dense", **options).double()  # type: ignore[arg-type]
    x = torch.randn(2, TYPES[0].channels, 6, 7, dtype=torch.float64, requires_grad=True)
    assert_same(layer, x, passes)


@every_combination
def test_memory_formats_are_kept(passes: Passes) -> None:
    layer = snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double().to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    x = torch.randn(2, TYPES[0].channels, 6, 7, dtype=torch.float64).contiguous(memory_format=torch.channels_last)
    assert_same(layer, x.requires_grad_(), passes)
    y, for_x, *_ = results(settled(layer, passes), x)
    assert in_channels_last(y)
    assert in_channels_last(for_x)


@every_combination
def test_gradients_of_gradients(passes: Passes) -> None:
    layer = snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double()
    x = torch.randn(1, TYPES[0].channels, 4, 4, dtype=torch.float64, requires_grad=True)
    found = []
    for conv in (layer, settled(layer, passes)):
        leaves = [x, *conv.parameters()]
        first = torch.autograd.grad(conv(x).pow(3).sum(), leaves, create_graph=True)
        found.append(torch.autograd.grad(sum(g.square().sum() for g in first), leaves))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


@every_combination
def test_compiled_they_are_the_same(passes: Passes) -> None:
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double(), passes)
    x = torch.randn(2, TYPES[0].channels, 5, 5, dtype=torch.float64, requires_grad=True)
    expected = results(layer, x)
    torch.compiler.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    y = compiled(x)
    weights = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
    found = [y, *torch.autograd.grad((weights * y.square()).sum(), [x, *layer.parameters()])]
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize("passes", [p for p in ALL if "fourier" not in p], ids=Passes.to_text)
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_under_autocast(passes: Passes, compiled: bool) -> None:
    """Also where the backward pass is under it; passes in the basis of irreps run in half precision on GPUs only."""
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1, backend="dense"), passes)
    x = torch.randn(2, TYPES[0].channels, 5, 5, requires_grad=True)
    torch.compiler.reset()
    run = torch.compile(layer, fullgraph=True, backend="aot_eager") if compiled else layer
    with torch.autocast("cpu", torch.bfloat16):
        y = run(x)
        found = torch.autograd.grad(y.float().square().sum(), [x, *layer.parameters()])
    assert y.dtype == torch.bfloat16
    for a, b in zip(found, torch.autograd.grad(dense(layer, x).square().sum(), [x, *layer.parameters()]), strict=True):
        assert (a - b).abs().max() <= 0.03 * b.abs().max()


@every_combination
def test_without_gradients_only_the_forward_way_counts(passes: Passes) -> None:
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double(), passes)
    x = torch.randn(2, TYPES[0].channels, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        alone = layer.runner.passes_for(x, layer)
        assert alone == (FOURIER if passes.forward == "fourier" else Passes(passes.forward))
        torch.testing.assert_close(layer(x), dense(layer, x), rtol=1e-12, atol=1e-12)


@every_combination
@pytest.mark.parametrize("frozen", [False, True], ids=["input without gradient", "frozen filters"])
def test_only_what_is_asked_for_is_computed(passes: Passes, frozen: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[tuple[bool, bool]] = []

    def watched(*args: Any) -> tuple[Tensor | None, Tensor | None]:
        asked.append(args[-1])
        return combined_gradients(*args)

    monkeypatch.setattr(combined, "combined_gradients", watched)
    layer = snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double()
    x = torch.randn(2, TYPES[0].channels, 5, 5, dtype=torch.float64, requires_grad=frozen)
    found = []
    for conv in (layer, settled(layer, passes)):
        conv.weight.requires_grad_(not frozen)
        found.append(torch.autograd.grad(conv(x).square().sum(), x if frozen else conv.weight)[0])
    torch.testing.assert_close(found[1], found[0], rtol=1e-11, atol=1e-11)
    assert asked == ([(frozen, not frozen)] if passes not in (DENSE, FOURIER) else [])


@every_combination
def test_a_backward_pass_may_come_when_the_layer_is_gone(passes: Passes) -> None:
    """Whatever it needs it holds itself; a type that no other layer of this process has."""
    types = st.FieldType(D4, "2*A1 + B2"), st.FieldType(D4, "3*B1 + E")
    layer = settled(snn.Conv2d(*types, 3, padding=1, backend="dense"), passes)
    x = torch.randn(1, types[0].channels, 4, 4, requires_grad=True)
    y = layer(x)
    del layer
    y.sum().backward()
    assert x.grad is not None


@pytest.mark.parametrize("passes", [DENSE, FOURIER, Passes("dense", "turned", "dense"), Passes("fourier", "turned")])
def test_transforms_of_something_else_that_runs_the_layer(passes: Passes) -> None:
    """None of the layer's tensors is a transformed one, and still torch.func takes plain operations only."""
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double(), passes)
    act = snn.CReLU(TYPES[1])
    x = torch.randn(2, TYPES[0].channels, 5, 5, dtype=torch.float64)

    def loss(scale: Tensor) -> Tensor:
        return (scale * act(layer(x))).square().sum()

    scale = torch.tensor(1.5, dtype=torch.float64)
    expected = 2 * loss(scale) / scale
    torch.testing.assert_close(torch.func.grad(loss)(scale), expected.detach(), rtol=1e-11, atol=1e-11)
    several = torch.func.vmap(loss)(scale.repeat(3))
    torch.testing.assert_close(several, loss(scale).repeat(3), rtol=1e-11, atol=1e-11)


def test_transforms_and_exports_get_the_dense_one() -> None:
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1, backend="dense").double(), Passes("dense", "turned", "fourier"))
    x = torch.randn(2, TYPES[0].channels, 5, 5, dtype=torch.float64)
    jvp = torch.func.jvp(layer, (x,), (x,))[1]
    torch.testing.assert_close(jvp, dense(layer, x) - layer.expand()[1][:, None, None], rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(torch.func.vmap(layer)(x[:, None])[:, 0], dense(layer, x), rtol=1e-12, atol=1e-12)
    held = {str(node.target) for node in torch.export.export(layer, (x,)).graph.nodes}
    assert not [name for name in held if name.startswith("steerable")]


def test_settled_ways_are_kept_and_told() -> None:
    passes = Passes("dense", "turned", "fourier")
    layer = settled(snn.Conv2d(*TYPES, 3, padding=1), passes)
    assert "backend=dense, input gradient turned, weight gradient fourier" in repr(layer)
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert twin.runner.choice == Choice(passes, passes.forward)
        twin(torch.randn(1, TYPES[0].channels, 4, 4)).sum().backward()
    layer.runner.use(Choice(Passes("padded", "turned", "dense"), "padded"))
    assert "backend=dense, channels padded, input gradient turned" in repr(layer)
    layer.runner.use(Choice(FOURIER, "dense"))
    assert "backend=fourier, without gradients dense" in repr(layer)
    layer.backend = "dense"  # what a user says holds for all
    assert layer.runner.choice == Choice(DENSE, "dense")


def test_texts_of_passes() -> None:
    for passes in ALL:
        assert passes_from_text(passes.to_text()) == passes
    shapes = ("", "dense", "dense/dense", "dense/dense/dense/dense", "dense/dense/other", "dense//dense")
    for text in (*shapes, "turned/dense/dense", "dense/padded/dense", "dense/dense/padded", "padded/dense/fourier"):
        assert passes_from_text(text) is None


# ---------------------------------------------------------------- the fastest way of each


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> dict[str, float]:
    """Seconds of each way, 1 per pass where nothing is said; what is timed runs once, here in place of on a GPU."""
    seconds: dict[str, float] = {}

    def shortest_times(runs: dict[object, Callable[[], None]], synchronise: object) -> dict[object, float]:
        for run in runs.values():
            run()
        passes = [timed.pop(0) for _ in runs]
        return {
            name: seconds.get(f"{what} {name}", 2.0 if what.endswith("both") else 1.0)
            for what, name in zip(passes, runs, strict=True)
        }

    timed: list[str] = []

    def noted(how: str, run: partial[None]) -> Callable[[], None]:
        gradients = len(run.args) == 2
        both, filters = gradients and all(run.args[1]), gradients and run.args[1][1]
        timed.append(how + ("both" if both else "weight" if filters else "input" if gradients else "forward"))
        return run

    monkeypatch.setattr(measuring, "shortest_times", shortest_times)
    monkeypatch.setattr(measuring, "recorded", partial(noted, ""))
    monkeypatch.setattr(measuring, "in_a_row", partial(noted, "started "))
    monkeypatch.setattr(measuring, "on_a_stream_of_its_own", nullcontext)
    monkeypatch.setattr(torch.cuda, "device_of", lambda x: nullcontext())
    return seconds


def fastest_passes(layer: snn.Conv2d, x: Tensor, *, with_fourier: bool, cuda_graphs: bool) -> Passes:
    names = ("padded", "turned", "fourier") if with_fourier else ("padded", "turned")
    for name in names:
        layer.runner._prepare(name)
    return measuring.fastest_passes(layer.runner.problem, x, layer, names, cuda_graphs=cuda_graphs)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ({}, DENSE),
        ({"forward fourier": 0.9}, Passes("fourier", "dense", "dense")),
        ({"input turned": 0.5, "weight fourier": 0.6}, Passes("dense", "turned", "fourier")),
        ({"weight turned": 0.96}, DENSE),  # less than 3 % of both together
        ({"both ('fourier', 'fourier')": 1.2, "input turned": 0.5}, Passes("dense", "fourier", "fourier")),
        ({"both ('fourier', 'fourier')": 1.6, "input turned": 0.5}, Passes("dense", "turned", "dense")),
    ],
    ids=str,
)
def test_the_fastest_way_of_each_pass_is_taken(
    seconds: dict[str, float], expected: Passes, clock: dict[str, float]
) -> None:
    clock |= seconds
    layer = snn.Conv2d(*TYPES, 3, padding=1)
    x = torch.randn(2, TYPES[0].channels, 5, 5, requires_grad=True)
    assert fastest_passes(layer, x, with_fourier=True, cuda_graphs=True) == expected
    assert layer.weight.grad is x.grad is None


def test_python_starts_fourier_passes_where_no_cuda_graph_does(clock: dict[str, float]) -> None:
    """Then their time is that of starting them, where it is the longer one; compilers see into all other ways."""
    layer = snn.Conv2d(*TYPES, 3, padding=1)
    x = torch.randn(2, TYPES[0].channels, 5, 5, requires_grad=True)
    passes = partial(fastest_passes, layer, x, with_fourier=True)
    clock |= {"forward fourier": 0.5, "both ('fourier', 'fourier')": 0.5, "input turned": 0.9}
    assert passes(cuda_graphs=True) == FOURIER
    assert passes(cuda_graphs=False) == Passes("dense", "turned", "dense")
    clock |= {"started forward fourier": 0.8, "started weight fourier": 0.7}
    assert passes(cuda_graphs=False) == Passes("fourier", "turned", "fourier")
    clock |= {"started both ('fourier', 'fourier')": 1.5}
    assert passes(cuda_graphs=False) == FOURIER


@pytest.mark.parametrize("options", [{}, {"cuda_graphs": False}, {"cuda_graphs": True}], ids=str)
def test_networks_say_whether_they_run_as_cuda_graphs(
    options: dict[str, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[bool] = []

    def choose(self: object, x: object, filters: object, *, cuda_graphs: bool) -> Passes:
        asked.append(cuda_graphs)
        return DENSE

    monkeypatch.setattr(ConvolutionRunner, "fastest_passes", choose)
    x = torch.randn(2, TYPES[0].channels, 5, 5)
    assert snn.choose_backends(snn.Conv2d(*TYPES, 3, padding=1), x, **options) == {"": "dense"}
    assert asked == 2 * [options.get("cuda_graphs", False)]  # a step, and a forward pass alone


def test_what_needs_no_gradient_is_not_timed(clock: dict[str, float]) -> None:
    clock |= {"input turned": 0.1, "weight turned": 0.1, "forward padded": 0.1}
    layer, x = snn.Conv2d(*TYPES, 3, padding=1), torch.randn(2, TYPES[0].channels, 5, 5)
    # What is not wanted follows what is.
    passes = partial(fastest_passes, layer, x, cuda_graphs=True)
    assert passes(with_fourier=False) == Passes("padded", "turned", "turned")
    clock |= {"input turned": 2.0}
    layer.requires_grad_(False)
    x.requires_grad_()
    assert passes(with_fourier=False) == Passes("padded", "dense", "dense")
    clock |= {"forward fourier": 0.1}
    with torch.no_grad():
        assert passes(with_fourier=False) == Passes("padded")
        assert passes(with_fourier=True) == FOURIER


def test_a_recording_holds_several_runs_and_begins_after_one(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Graph:
        def capture_begin(self) -> None:
            assert not gc.isenabled()
            events.append("begin")

        def capture_end(self) -> None:
            events.append("end")

        def replay(self) -> None:
            events.append("replay")

    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: events.append("wait"))
    replay = cuda_timing.recorded(lambda: events.append("run"))
    assert gc.isenabled()
    replay()
    assert events == ["run", "wait", "begin", *["run"] * cuda_timing.RUNS_IN_A_ROW, "end", "replay"]


class BrokenGraph:
    """A recording that runs out of memory, and then ends with an error of its own."""

    def capture_begin(self) -> None:
        assert not gc.isenabled()

    def capture_end(self) -> None:
        raise RuntimeError("operation failed due to a previous error during capture")


def test_a_recording_that_fails_leaves_no_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", BrokenGraph)
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    runs = iter([None])

    def run() -> None:
        try:
            next(runs)
        except StopIteration:
            raise torch.cuda.OutOfMemoryError from None

    with pytest.raises(torch.cuda.OutOfMemoryError):
        cuda_timing.recorded(run)
    assert gc.isenabled()


def test_the_question_says_whether_the_basis_of_irreps_is_allowed_and_how_its_kernels_are_started(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What was found with TF32 must not be taken from the cache where it is not allowed."""

    def fastest(*_: object, cuda_graphs: bool) -> Passes:
        return DENSE if "fourier" not in names else FOURIER if cuda_graphs else Passes(for_weight="fourier")

    monkeypatch.setenv("STEERABLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(runner, "fastest_passes", fastest)
    monkeypatch.setattr(Tensor, "is_cuda", property(lambda x: True))
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    layer, x = snn.Conv2d(*TYPES, 3, padding=1), torch.randn(2, TYPES[0].channels, 5, 5)
    for names in (["turned", "fourier"], ["turned"], ["turned", "fourier"]):
        monkeypatch.setattr(ConvolutionRunner, "_worth_measuring", lambda *_, ahead, names=names: names)
        for graphs in (True, False):
            expected = fastest(cuda_graphs=graphs)
            assert layer.runner.fastest_passes(x, layer, cuda_graphs=graphs) == expected
