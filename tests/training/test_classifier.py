"""The training module: averaged weights, backends, and a network that is compiled for one shape."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from small_runs import request
from torch import nn

from steerable import nn as snn
from steerable.data import Normalisation
from steerable.models import build_model
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.compiled_network import CompiledNetwork
from steerable.training.learning.preparing import make_classifier, prepare_data, training_batches
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe

IMAGES = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def classifier() -> Classifier:
    torch.manual_seed(0)
    model = build_model("resnet", depth=8, copies=1, in_channels=1, num_classes=3)
    settings = RunConfig("digits", {"name": "resnet"}, recipe=Recipe(epochs=1, ema_decay=0.7))
    return Classifier(model, Normalisation.fit(IMAGES), settings, num_classes=3, train_size=6)


def test_averaged_weights_follow_with_a_short_memory_at_first(monkeypatch: pytest.MonkeyPatch) -> None:
    module = classifier()
    module.on_train_start()
    expected = copy.deepcopy(module.model.state_dict())
    for step in range(1, 40):
        monkeypatch.setattr(Classifier, "global_step", step)
        with torch.no_grad():
            for value in module.model.state_dict().values():
                value.add_(torch.randn(value.shape).to(value.dtype) if value.is_floating_point() else 1)
        module.on_train_batch_end(None, (IMAGES, IMAGES), 0)
        keep = min(0.7, (1 + step) / (10 + step))
        for name, now in module.model.state_dict().items():
            floating = now.is_floating_point()
            expected[name] = keep * expected[name] + (1 - keep) * now if floating else now.clone()
    assert module.averaged is not None
    for name, value in module.averaged.state_dict().items():
        torch.testing.assert_close(value, expected[name])


def test_the_averaged_network_runs_with_the_same_backends() -> None:
    module = classifier()
    names = list(snn.recorded_backends(module.model))
    recorded = dict.fromkeys(names, "dense/dense/dense/dense")
    module.use_backends(recorded)
    assert module.averaged is not None
    assert snn.recorded_backends(module.model) == snn.recorded_backends(module.averaged) == recorded


def test_the_last_smaller_batch_of_an_epoch_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    model = nn.Conv2d(1, 2, 3)
    compiled: list[int] = []

    def compile_and_count(network: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        def run(x: torch.Tensor) -> torch.Tensor:
            compiled.append(len(x))
            y: torch.Tensor = network(x)
            return y

        return run

    monkeypatch.setattr(torch, "compile", compile_and_count)
    network = CompiledNetwork(model)
    for size in (4, 4, 3, 4):
        x = torch.randn(size, 1, 5, 5)
        torch.testing.assert_close(network(x), model(x))
    assert compiled == [4, 4, 4]


@pytest.mark.parametrize(
    "model",
    [
        {"group": "D4"},
        {"group": "D8"},
        {"group": "C8"},
        {"group": "D8", "copies": 3},
        {"group": "D4", "head": "mirror"},
    ],
)
def test_a_run_begins_with_scores_that_prefer_no_class(model: dict[str, Any]) -> None:
    """Large ones drive the features of a network over D8 to zero in its first steps, and it never learns anything."""
    asked = request(model={"name": "resnet", "depth": 8, "copies": 1, "head": "invariant", **model})
    data = prepare_data(asked)
    module = make_classifier(asked, data).train()
    images, labels = training_batches(asked, data, "cpu").batch(0)
    loss = F.cross_entropy(module.model(module.prepare(images)), labels)
    assert float(loss.detach()) == pytest.approx(math.log(len(data.train.classes)), abs=0.15)
