"""Accelerated networks on a GPU: where there is none, this file is skipped."""

from __future__ import annotations

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable import models
from steerable import nn as snn

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

# Inductor's own, and torch's where a backward pass is the first thing that needs cuBLAS.
pytestmark = pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore:TensorFloat32", "ignore:Attempting to run cuBLAS"
)
halves = pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
compilation = pytest.mark.parametrize("compiled", [False, True], ids=["recorded", "compiled"])


def images(batch: int, size: int = 16) -> Tensor:
    return torch.randn(batch, 3, size, size, device="cuda")


def step(network: nn.Module, x: Tensor, half: bool) -> Tensor:
    """The loss of a step."""
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        scores = network(x)
    loss = F.cross_entropy(scores.float(), torch.arange(len(x), device="cuda") % 5)
    loss.backward()
    with torch.no_grad():
        for parameter in network.parameters():
            parameter -= 0.01 * parameter.grad
            parameter.grad = None
    return loss.detach()


def close(network: nn.Module, other: nn.Module, tolerance: float) -> None:
    for (name, value), now in zip(network.state_dict().items(), other.state_dict().values(), strict=True):
        scale = value.double().abs().max().clamp(min=1)
        assert (value.double() - now.double()).abs().max() <= tolerance * scale, name


@halves
@compilation
def test_steps_and_evaluation_are_those_of_the_network(half: bool, compiled: bool) -> None:
    """Losses, weights, running statistics and scores, over batches of two shapes."""
    torch.compiler.reset()
    torch.manual_seed(0)
    network = models.resnet(8, 2, 5).cuda()
    other = copy.deepcopy(network)
    x = images(8)
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        assert snn.accelerate(other, x, compile=compiled) is other
    assert not other.forward.notes
    close(network, other, 0)  # to accelerate it changes nothing
    network = network.to(memory_format=torch.channels_last)
    for size in (8, 8, 3, 8, 3, 3, 3, 8):
        x = images(size).contiguous(memory_format=torch.channels_last)
        losses = [step(net.train(), x, half) for net in (network, other)]
        torch.testing.assert_close(losses[1], losses[0], rtol=0.05 if half else 1e-2, atol=0)
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=half):
            scores = [net.eval()(x).float() for net in (network, other)]
        assert (scores[1] - scores[0]).norm() <= (0.05 if half else 1e-2) * scores[0].norm()
    close(network, other, 0.05 if half else 1e-2)


@halves
def test_evaluation_sees_the_weights_of_now(half: bool) -> None:
    """Whatever layers keep in evaluation must not be recorded as if it were constant."""
    torch.manual_seed(0)
    network = models.resnet(8, 2, 5).cuda().eval()
    other = snn.accelerate(copy.deepcopy(network), images(4), training=False, compile=False).eval()
    x = images(4)
    for _ in range(3):
        with torch.no_grad():
            for net in (network, other):
                for parameter in net.parameters():
                    parameter.mul_(1.1)
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                expected, found = network(x).float(), other(x).float()
        assert (found - expected).norm() <= (0.05 if half else 1e-2) * expected.norm()


def test_a_unet_is_accelerated() -> None:
    torch.manual_seed(0)
    network = models.unet(2, 1).cuda()
    other = snn.accelerate(copy.deepcopy(network), images(2), compile=False)
    assert not other.forward.notes
    x = images(2)
    found = []
    for net in (network, other):
        net(x).square().sum().backward()
        found.append([p.grad.flatten() for p in net.parameters()])
    expected, gradients = (torch.cat(parts) for parts in found)
    assert (gradients - expected).norm() < 1e-2 * expected.norm()


@halves
def test_a_network_of_volumes_is_accelerated(half: bool) -> None:
    torch.manual_seed(0)
    network = models.resnet(8, 1, 5, axes=3, in_channels=1, group="O").cuda()
    other = copy.deepcopy(network)
    x = torch.randn(4, 1, 8, 8, 8, device="cuda")
    with torch.autocast("cuda", torch.bfloat16, enabled=half):
        snn.accelerate(other, x, compile=False)
    assert not other.forward.notes
    losses = [[step(net.train(), x, half) for _ in range(3)] for net in (network, other)]
    torch.testing.assert_close(losses[1], losses[0], rtol=0.05 if half else 1e-2, atol=0)
    with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=half):
        expected, found = (net.eval()(x).float() for net in (network, other))
    assert (found - expected).norm() <= (0.1 if half else 2e-2) * expected.norm()


def test_another_device_and_back() -> None:
    network = models.resnet(8, 1, 5).cuda()
    snn.accelerate(network, images(4), compile=False)
    before = step(network.train(), images(4), False)
    assert torch.isfinite(before)
    network.cpu()
    assert network(torch.randn(4, 3, 16, 16)).device.type == "cpu"
    network.cuda()
    assert torch.isfinite(step(network.train(), images(4), False))


class Waits(nn.Module):
    """Its scores are looked at by Python, which cannot be recorded."""

    def __init__(self) -> None:
        super().__init__()
        self.network = models.resnet(8, 1, 5)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.network(x)
        return scores if float(scores.detach().sum()) > -1e9 else -scores


def test_what_cannot_be_recorded_leaves_the_gpu_in_order() -> None:
    torch.manual_seed(0)
    network = Waits().cuda()
    with pytest.warns(UserWarning, match="cannot be recorded"):
        snn.accelerate(network, images(4), compile=False)
    assert torch.isfinite(step(network.train(), images(4), False))
    assert torch.isfinite(torch.randn(5, device="cuda")).all()
    other = snn.accelerate(models.resnet(8, 1, 5).cuda(), images(4), compile=False)
    assert not other.forward.notes
    assert torch.isfinite(step(other.train(), images(4), False))
