"""A run that diverges is stopped with a message, and saves nothing of what came of it."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from steerable.data import Normalisation
from steerable.models import build_model
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.divergence import DivergenceError, StopWhenDiverged
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe
from steerable.training.running.run import train


@pytest.mark.parametrize("patience", [0, 2])
def test_a_diverging_run_is_stopped(patience: int, tmp_path: Path) -> None:
    recipe = Recipe(epochs=30, learning_rate=1e6, weight_decay=1e6, schedule="cosine", batch_size=32)
    model = {"name": "plain_resnet", "depth": 8, "width": 2}
    config = RunConfig(
        "digits", model, recipe, labels=200, validation=0.2, patience=patience, checkpoint_seconds=0, progress=False
    )
    with pytest.raises(DivergenceError, match=r"the training loss is (nan|inf) after \d+ epochs.*rate below 1e\+06"):
        train(config, tmp_path)
    assert not (tmp_path / "results.json").exists()
    assert not (tmp_path / "checkpoints" / "last.ckpt").exists()


def test_statistics_that_are_not_finite_stop_a_run_whose_loss_is() -> None:
    model = build_model("resnet", depth=8, copies=1, in_channels=1, num_classes=3)
    normalisation = Normalisation.fit(torch.randint(0, 256, (6, 1, 8, 8), dtype=torch.uint8))
    settings = RunConfig("digits", {"name": "resnet"}, Recipe(epochs=1, ema_decay=0.7))
    module = Classifier(model, normalisation, settings, num_classes=3, train_size=6)
    trainer = SimpleNamespace(callback_metrics={"train_loss": torch.tensor(0.5)}, current_epoch=4, precision="16-mixed")
    stop = StopWhenDiverged(0.1)
    stop.on_train_epoch_end(trainer, module)  # type: ignore[arg-type]
    assert module.averaged is not None
    module.averaged.get_buffer("features.norm.running_var")[1] = torch.inf
    with pytest.raises(DivergenceError, match=r"`features.norm.running_var` .* not finite after 5 epochs.*16-mixed"):
        stop.on_train_epoch_end(trainer, module)  # type: ignore[arg-type]
