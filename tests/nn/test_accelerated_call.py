"""An accelerated network computes what the network computes, whatever is done to it.

Without a GPU a fake takes the place of CUDA graphs; where there is one, every test also runs with the real ones.
"""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import torch
from cases import GROUPS, small_net
from fake_graphs import FakeGraphs
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, update_bn
from torch.utils.checkpoint import checkpoint

from steerable import FieldType
from steerable import nn as snn
from steerable.nn import accelerated_call, replay
from steerable.nn.accelerated_call import AcceleratedCall
from steerable.nn.network_places import NetworkPlaces
from steerable.nn.recorded_network import record

D4 = GROUPS["D4"]
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


class Here:
    """Where the tests run."""

    device = "cpu"


@pytest.fixture(autouse=True, params=["fake", pytest.param("cuda", marks=needs_gpu)])
def recordings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> list[tuple[torch.Size, int]]:
    """The shape of everything that is recorded, and the network."""
    made: list[tuple[torch.Size, int]] = []
    kind = record if request.param == "cuda" else FakeGraphs

    def counted(network: nn.Module, run: Callable[[Tensor], Tensor], x: Tensor) -> Callable[[Tensor], Tensor]:
        found = kind(network, run, x)
        made.append((x.shape, id(network)))
        return found

    monkeypatch.setattr(Here, "device", "cpu" if kind is FakeGraphs else "cuda")
    monkeypatch.setattr(replay, "record", counted)
    return made


def pair() -> tuple[nn.Module, nn.Module]:
    """A network, and the same one accelerated."""
    torch.manual_seed(0)
    net = small_net(D4).double().to(Here.device)
    other = copy.deepcopy(net)
    other.forward = AcceleratedCall(other, compiles=False, records=True)
    return net, other


def images(batch: int = 4, size: int = 8, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(batch, 3, size, size, dtype=torch.float64, generator=generator).to(Here.device)


def same_state(net: nn.Module, other: nn.Module) -> None:
    assert net.state_dict().keys() == other.state_dict().keys()
    for name, value in net.state_dict().items():
        torch.testing.assert_close(other.state_dict()[name], value, msg=name)


def same_gradients(net: nn.Module, other: nn.Module) -> None:
    for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
        assert p.grad is not None
        assert q.grad is not None
        torch.testing.assert_close(q.grad, p.grad, msg=name)


def step(net: nn.Module, x: Tensor, optimiser: torch.optim.Optimizer) -> None:
    net(x).square().sum().backward()
    optimiser.step()
    optimiser.zero_grad()


def trained(net: nn.Module, shapes: tuple[tuple[int, int], ...] = ((4, 8),) * 3) -> nn.Module:
    optimiser = torch.optim.SGD(net.parameters(), lr=1e-3, momentum=0.9)
    for k, (batch, size) in enumerate(shapes):
        step(net.train(), images(batch, size, k), optimiser)
    return net


@torch.no_grad()
def same_evaluation(net: nn.Module, other: nn.Module, batches: Sequence[int] = (4,), times: int = 4) -> None:
    """Four times is often enough for a shape to be recorded."""
    for seed in range(times):
        for batch in batches:
            x = images(batch, seed=seed)
            torch.testing.assert_close(other.eval()(x), net.eval()(x))


# ---------------------------------------------------------------- training and evaluation


def test_steps_over_batches_of_several_shapes(recordings: list[tuple[torch.Size, int]]) -> None:
    """Weights and running statistics; a shape is recorded when it comes first, others when they come a third time."""
    shapes = ((4, 8), (4, 8), (3, 8), (4, 8), (3, 8), (3, 8), (3, 8), (4, 6), (4, 8))
    net, other = (trained(network, shapes) for network in pair())
    same_state(net, other)
    assert [shape for shape, _ in recordings] == [(4, 3, 8, 8), (3, 3, 8, 8)]


def test_evaluation_follows_training_and_training_evaluation(recordings: list[tuple[torch.Size, int]]) -> None:
    net, other = pair()
    for _ in range(3):
        trained(net), trained(other)
        same_evaluation(net, other)
        same_evaluation(net, other, [5])
    same_state(net, other)
    assert len(recordings) == 3  # steps, evaluation of the same batches and of others; each once


def test_inference_mode_and_back() -> None:
    net, other = pair()
    x = images()
    for mode in (torch.inference_mode, torch.no_grad, torch.inference_mode):
        with mode():
            torch.testing.assert_close(other.eval()(x), net.eval()(x))


def test_outputs_are_the_callers_own() -> None:
    net, other = pair()
    inputs = [images(seed=k) for k in range(3)]
    with torch.no_grad():
        kept = [other.eval()(x) for x in inputs]
        for y, x in zip(kept, inputs, strict=True):
            torch.testing.assert_close(y, net.eval()(x))


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_accumulate(set_to_none: bool) -> None:
    net, other = pair()
    for network in (net, other):
        for k in range(6):
            network(images(seed=k)).square().sum().backward()
            if k == 2:
                network.zero_grad(set_to_none=set_to_none)
    same_gradients(net, other)


def test_two_calls_before_one_backward_pass(recordings: list[tuple[torch.Size, int]]) -> None:
    """Siamese networks, or losses that are added up: the second call runs as it is, and says so once."""
    net, other = pair()
    trained(net), trained(other)

    def siamese(network: nn.Module) -> None:
        for _ in range(2):
            (network(images(seed=1)) * network(images(seed=2))).sum().backward()

    siamese(net)
    with pytest.warns(UserWarning, match="called again before the backward pass of an earlier call") as caught:
        siamese(other)
    assert len(caught) == 1
    same_gradients(net, other)
    assert len(recordings) == 1
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        other(images()).sum()  # its graph is dropped with it, so that the next call is replayed
        other(images()).sum().backward()


def test_losses_of_earlier_steps_may_be_kept(recordings: list[tuple[torch.Size, int]]) -> None:
    """Their graphs hold the parameters while another shape is recorded, and so does what autocast keeps."""
    net, other = (network.float() for network in pair())
    losses: list[Tensor] = []
    for network in (net, other):
        for batch in (4, 3, 3, 3, 3, 4):
            with torch.autocast(Here.device, torch.bfloat16):
                loss = network(images(batch).float()).float().square().sum()
                loss.backward()
            losses.append(loss)
    for (name, p), q in zip(net.named_parameters(), other.parameters(), strict=True):
        scale = p.grad.norm() + 1e-3 * max(r.grad.norm() for r in net.parameters())
        assert (p.grad - q.grad).norm() <= 0.1 * scale, name
    assert len(recordings) == 2


def test_evaluation_between_a_forward_and_its_backward_pass() -> None:
    net, other = pair()
    trained(net), trained(other)
    same_evaluation(net, other)
    for network in (net, other):
        loss = network.train()(images(seed=7)).square().sum()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            network.eval()(images(seed=8))
        loss.backward()
    same_gradients(net, other)


def test_two_backward_passes_of_one_output() -> None:
    _, other = pair()
    y = other(images())
    y.sum().backward(retain_graph=True)
    with pytest.raises(RuntimeError, match=r"a second time.*on the sum of both losses.*forward\.plain"):
        y.square().sum().backward()
    other(images()).sum().backward()  # and goes on


@pytest.mark.parametrize("with_weights", [True, False])
def test_gradients_of_the_input(with_weights: bool) -> None:
    net, other = pair()
    found = []
    for network in (net, other):
        network.eval().requires_grad_(with_weights)
        x = images().requires_grad_()
        for _ in range(2):
            network(x).square().sum().backward()
        found.append(x.grad)
    torch.testing.assert_close(found[1], found[0])


def test_unused_and_other_arguments_reach_the_network() -> None:
    net, other = pair()
    torch.testing.assert_close(other(x=images()), net(x=images()))
    with pytest.raises(TypeError):
        other(images(), images())
    with pytest.raises(ValueError, match="expected 3 channels"):
        other(images()[:, :2])


# ---------------------------------------------------------------- what is done to the network


def replace_head(net: nn.Module) -> None:
    torch.manual_seed(1)
    last = net[-1]
    net._modules["8"] = snn.Linear(last.in_type, FieldType(D4, "3*A1")).double().to(Here.device)


def swap_memory(net: nn.Module) -> None:
    first = next(net.parameters())
    first.data = first.data.clone() + 1


CHANGES: dict[str, Callable[[nn.Module], object]] = {
    "load_state_dict": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}),
    "assigned": lambda net: net.load_state_dict({k: v + 1 for k, v in net.state_dict().items()}, assign=True),
    "frozen": lambda net: next(net.parameters()).requires_grad_(False),
    "there and back": lambda net: net.cpu().float().double().to(Here.device),
    "a layer in its place": replace_head,
    "other memory": swap_memory,
    "a norm in evaluation": lambda net: net[2].eval(),
    "in place": lambda net: next(net.parameters()).mul_(-2),
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_changes_are_noticed(change: Callable[[nn.Module], object]) -> None:
    net, other = pair()
    for network in (net, other):
        trained(network)
        with torch.no_grad():
            network.eval()(images())
        network.train()
        with torch.no_grad():
            change(network)
        for k in range(3):
            network.zero_grad()
            network(images(seed=k)).square().sum().backward()
    for (name, p), q in zip(net.named_parameters(), other.named_parameters(), strict=True):
        assert (p.grad is None) == (q[1].grad is None), name
        if p.grad is not None:
            torch.testing.assert_close(q[1].grad, p.grad)
    same_evaluation(net, other)


def test_frozen_weights_that_are_thawed_get_gradients() -> None:
    net, other = pair()
    for network in (net, other):
        network[0].requires_grad_(False)
        trained(network)
        network[0].requires_grad_(True)
        network(images()).square().sum().backward()
    same_gradients(net, other)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_another_dtype(dtype: torch.dtype) -> None:
    net, other = pair()
    for network in (net, other):
        trained(network)
        network.to(dtype)
    x = images().to(dtype)
    torch.testing.assert_close(other(x), net(x))


def test_autocast_on_and_off() -> None:
    net, other = (network.float() for network in pair())
    x = images().float()
    for enabled in (False, True, False, True):
        with torch.no_grad(), torch.autocast(Here.device, torch.bfloat16, enabled=enabled):
            found, expected = other.eval()(x), net.eval()(x)
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)


def test_copies_record_for_themselves(recordings: list[tuple[torch.Size, int]]) -> None:
    net, other = (trained(network) for network in pair())
    twin, loaded = copy.deepcopy(other), pickle.loads(pickle.dumps(other))
    for found in (twin, loaded):
        assert isinstance(found.forward, AcceleratedCall)
        assert found.forward.network is found
        same_evaluation(net, found)
        trained(found)
    same_state(twin, loaded)
    same_evaluation(net, other)  # unchanged by the training of its copies
    assert len({network for _, network in recordings}) == 3


def test_averaged_weights_and_their_statistics() -> None:
    averages = []
    for network in pair():
        average = AveragedModel(network)
        optimiser = torch.optim.SGD(network.parameters(), lr=1e-2)
        for k in range(4):
            step(network.train(), images(seed=k), optimiser)
            average.update_parameters(network)
        update_bn([images(seed=k) for k in range(5)], average)
        averages.append(average)
    same_state(*averages)
    same_evaluation(*averages)


def test_parameters_that_are_lent(recordings: list[tuple[torch.Size, int]]) -> None:
    net, other = (trained(network) for network in pair())
    lent = {name: value + 0.1 for name, value in net.named_parameters()}
    for _ in range(4):
        expected = torch.func.functional_call(net.eval(), lent, (images(),))
        torch.testing.assert_close(torch.func.functional_call(other.eval(), lent, (images(),)), expected)
    trained(net), trained(other)
    same_state(net, other)
    assert len(recordings) == 1  # nothing was recorded anew


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_torch_func_compilers_and_exports_see_the_network() -> None:
    net, other = (trained(network).eval() for network in pair())
    x = images()
    expected = net(x).detach()
    torch.testing.assert_close(torch.func.vmap(other)(x[None])[0], expected)
    torch.testing.assert_close(torch.func.jvp(other, (x,), (x,))[1], torch.func.jvp(net, (x,), (x,))[1])
    torch.testing.assert_close(torch.compile(other, backend="eager", fullgraph=True)(x), expected)
    torch.testing.assert_close(torch.export.export(other, (x,)).module()(x), expected)
    torch.testing.assert_close(torch.jit.trace(other, x, check_trace=False)(x), expected)
    torch.testing.assert_close(snn.to_plain(other)(x), expected)


@pytest.mark.parametrize("reentrant", [False, True])
def test_activation_checkpointing(reentrant: bool) -> None:
    net, other = pair()
    for network in (net, other):
        for k in range(3):
            x = images(seed=k).requires_grad_()
            checkpoint(network, x, use_reentrant=reentrant).square().sum().backward()
    same_gradients(net, other)


def test_distributed_data_parallel(tmp_path: Path) -> None:
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        net, other = (trained(nn.parallel.DistributedDataParallel(network)) for network in pair())
        same_state(net, other)
        same_evaluation(net, other)
    finally:
        torch.distributed.destroy_process_group()


def test_hooks_inside_are_heard(recordings: list[tuple[torch.Size, int]]) -> None:
    _, other = pair()
    trained(other)
    heard: list[torch.Size] = []
    hook = other[0].register_forward_hook(lambda module, inputs, y: heard.append(y.shape))
    with pytest.warns(UserWarning, match="have hooks, so it runs as it is") as caught:
        trained(other)
    assert (len(heard), len(caught)) == (3, 1)
    hook.remove()
    before_gradients = other[0].register_full_backward_pre_hook(lambda module, grad: heard.append(grad[0].shape))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Full backward hook is firing")
        trained(other)
    assert len(heard) > 3
    before_gradients.remove()
    heard = heard[:3]
    trained(other)
    assert len(heard) == 3
    assert len(recordings) == 1


def test_hooks_of_the_network_itself_are_heard() -> None:
    _, other = pair()
    heard: list[torch.Size] = []
    other.register_forward_hook(lambda module, inputs, y: heard.append(y.shape))
    trained(other)
    assert len(heard) == 3


def test_a_network_with_stand_ins_is_the_same_one() -> None:
    """Their gradients are its own, its parameters take no part, and come back."""
    net, _ = pair()
    tied = nn.ModuleList([net, net[0]])
    tied.shared = net[0].weight
    own = dict(tied.named_parameters(remove_duplicate=False))
    expected = torch.autograd.grad(net(images()).square().sum(), list(net.parameters()))
    with NetworkPlaces(tied).stand_ins() as stand_ins:
        found = torch.autograd.grad(net(images()).square().sum(), list(net.parameters()))
        assert tied.shared is net[0].weight
        assert [p.data_ptr() for p in stand_ins] == [p.data_ptr() for p in tied.parameters()]
        assert not {id(p) for p in own.values()} & {id(p) for p in tied.parameters()}
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b)
    assert all(p is own[name] for name, p in tied.named_parameters(remove_duplicate=False))


# ---------------------------------------------------------------- what cannot be recorded


def test_many_shapes_are_right_and_said_once(
    monkeypatch: pytest.MonkeyPatch, recordings: list[tuple[torch.Size, int]]
) -> None:
    monkeypatch.setattr(accelerated_call, "MOST_READY", 3)
    net, other = pair()
    with pytest.warns(UserWarning, match="has received inputs of many shapes") as caught:
        same_evaluation(net, other, batches=(1, 2, 3, 4, 5, 6))
    assert (len(recordings), len(caught)) == (3, 1)


def test_shapes_that_come_once_are_not_recorded(recordings: list[tuple[torch.Size, int]]) -> None:
    net, other = pair()
    with pytest.warns(UserWarning, match="has received inputs of many shapes"):
        same_evaluation(net, other, batches=range(1, 80), times=2)
    assert len(recordings) == 1


def test_what_fails_is_left_out_and_said_once(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object) -> None:
        raise RuntimeError("CUDA error: out of luck\nand more")

    monkeypatch.setattr(replay, "record", refuse)
    net, other = pair()
    words = (
        r"inputs of shape \(4, 3, 8, 8\) cannot be recorded \(RuntimeError: CUDA error: out of luck\), so they are run "
        "as they are"
    )
    with pytest.warns(UserWarning, match=words) as caught:
        trained(other)
    trained(net)
    same_state(net, other)
    assert len(caught) == 1
    assert "out of luck" in repr(other.forward)


def test_norms_over_several_processes_are_not_recorded(
    monkeypatch: pytest.MonkeyPatch, recordings: list[tuple[torch.Size, int]]
) -> None:
    _, other = pair()
    snn.convert_sync_batchnorm(other)
    monkeypatch.setattr(accelerated_call, "several_processes", lambda: True)
    with pytest.warns(UserWarning, match="statistics over several processes cannot be recorded"):
        trained(other)
    assert not recordings


# ---------------------------------------------------------------- compiled


@pytest.mark.parametrize("records", [False, True])
def test_one_shape_is_compiled(
    records: bool, monkeypatch: pytest.MonkeyPatch, recordings: list[tuple[torch.Size, int]]
) -> None:
    """A second one would be a minute of waiting, for one batch of an epoch."""
    compiled: list[int] = []

    def compile_and_count(run: Callable[[Tensor], Tensor], dynamic: bool) -> Callable[[Tensor], Tensor]:
        def counted(x: Tensor) -> Tensor:
            compiled.append(len(x))
            return run(x)

        return counted

    monkeypatch.setattr(torch, "compile", compile_and_count)
    net, other = pair()
    other.forward.compiles, other.forward.records = True, records
    shapes = ((4, 8), (4, 8), (3, 8), (4, 8))
    same_state(trained(net, shapes), trained(other, shapes))
    assert set(compiled) == {4}
    assert len(recordings) == records


def test_without_a_compiler_it_is_recorded_all_the_same(
    monkeypatch: pytest.MonkeyPatch, recordings: list[tuple[torch.Size, int]]
) -> None:
    def refuse(run: object, dynamic: bool) -> Callable[[Tensor], Tensor]:
        def fail(x: Tensor) -> Tensor:
            raise OSError("no C compiler")

        return fail

    monkeypatch.setattr(torch, "compile", refuse)
    net, other = pair()
    other.forward.compiles = True
    with pytest.warns(UserWarning, match=r"cannot be compiled \(OSError: no C compiler\), so they are run without the"):
        trained(other)
    same_state(trained(net), other)
    assert len(recordings) == 1
