"""Recorded passes on a GPU: the same training as without. Where there is no GPU they are refused."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from steerable.models import build_model
from steerable.nn.recorded_network import RecordedNetwork
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe
from steerable.training.running.run import train

MODEL = {"name": "resnet", "depth": 8, "copies": 1}
needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def test_a_run_without_a_gpu_refuses_them(tmp_path: Path) -> None:
    config = RunConfig("digits", MODEL, cuda_graphs=True, accelerator="cpu")
    with pytest.raises(ValueError, match="cuda_graphs need an NVIDIA GPU"):
        train(config, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@needs_gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32")  # inductor's own
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_recorded_steps_are_those_of_the_network(half: bool, compiled: bool) -> None:
    """Losses, gradients and running statistics; over batches of two shapes in turns, but compiled for one."""
    torch.manual_seed(0)
    network = build_model("resnet", depth=8, copies=2, in_channels=3, num_classes=5).cuda()
    network = network.to(memory_format=torch.channels_last)
    other = copy.deepcopy(network)
    recorded = RecordedNetwork(other, torch.compile(other) if compiled else None)
    for size in (8, 8, 8) if compiled else (8, 8, 3, 8, 3):
        x = torch.randn(size, 3, 16, 16, device="cuda").contiguous(memory_format=torch.channels_last)
        labels = torch.arange(size, device="cuda") % 5
        losses = []
        for call, parameters in ((network, network.parameters()), (recorded, other.parameters())):
            with torch.autocast("cuda", torch.bfloat16, enabled=half):
                scores = call(x)
            loss = F.cross_entropy(scores.float(), labels)
            loss.backward()
            losses.append(loss.detach().clone())
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 0.01 * parameter.grad
                    parameter.grad = None
        torch.testing.assert_close(losses[1], losses[0], rtol=0.05 if half else 1e-4, atol=0)
    for (name, value), now in zip(network.state_dict().items(), other.state_dict().values(), strict=True):
        scale = value.double().abs().max().clamp(min=1)
        assert (value.double() - now.double()).abs().max() <= (0.05 if half else 1e-4) * scale, name


@needs_gpu
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32")  # inductor's own
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "compiled"])
def test_a_recorded_run_learns_the_digits(compiled: bool, tmp_path: Path) -> None:
    options = {"cuda_graphs": True, "compile": compiled, "channels_last": True, "progress": False}
    config = RunConfig("digits", MODEL, recipe=Recipe(epochs=8), **options)
    assert train(config, tmp_path / "run")["test_error"] < 0.1
