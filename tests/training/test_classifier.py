"""The training module: averaged weights, and backends that are settled before compilation."""

from __future__ import annotations

import copy
from collections.abc import Callable

import pytest
import torch
from torch import nn

from steerable import nn as snn
from steerable.data import Normalisation
from steerable.models import build_model
from steerable.training.classifier import Classifier
from steerable.training.compiled_network import CompiledNetwork
from steerable.training.recipes import Recipe

IMAGES = torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def classifier(**options: object) -> Classifier:
    torch.manual_seed(0)
    model = build_model("resnet", depth=8, copies=1, in_channels=1, num_classes=3)
    recipe = Recipe(epochs=1, ema_decay=0.7)
    normalisation = Normalisation.fit(IMAGES)
    return Classifier(model, normalisation, recipe, num_classes=3, train_size=6, **options)  # type: ignore[arg-type]


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


@pytest.mark.parametrize("compiled", [False, True])
def test_backends_are_settled_before_compilation(compiled: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[set[str]] = []

    def backends(model: nn.Module) -> set[str]:
        return {layer.backend for layer in model.modules() if isinstance(layer, snn.Conv2d)}

    def compile_nothing(model: nn.Module) -> nn.Module:
        seen.append(backends(model))
        return model

    monkeypatch.setattr(torch, "compile", compile_nothing)
    monkeypatch.setattr(Classifier, "trainer", type("OneProcess", (), {"world_size": 1}), raising=False)
    monkeypatch.setattr(Classifier, "log", lambda *arguments, **options: None)
    module = classifier(compile_model=compiled)
    labels = torch.arange(6) % 3
    for _ in range(2):
        assert torch.isfinite(module.training_step((IMAGES, labels), 0))
    assert seen == ([{"dense"}] if compiled else [])
    assert backends(module.model) == ({"dense"} if compiled else {"auto"})


@pytest.mark.parametrize("cuda_graphs", [False, True])
def test_backends_are_chosen_for_how_the_network_runs(cuda_graphs: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    chosen: list[dict[str, object]] = []
    monkeypatch.setattr(snn, "choose_backends", lambda model, x, **options: chosen.append(options))
    monkeypatch.setattr(torch, "compile", lambda model: model)
    monkeypatch.setattr("steerable.training.classifier.RecordedNetwork", lambda model, run: run)  # without a GPU
    monkeypatch.setattr(Classifier, "trainer", type("OneProcess", (), {"world_size": 1}), raising=False)
    monkeypatch.setattr(Classifier, "log", lambda *arguments, **options: None)
    module = classifier(compile_model=True, cuda_graphs=cuda_graphs)
    for _ in range(2):
        module.training_step((IMAGES, torch.arange(6) % 3), 0)
    assert chosen == [{"cuda_graphs": cuda_graphs}]


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
