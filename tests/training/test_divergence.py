"""A run that diverges is stopped with a message, and saves nothing of what came of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from steerable.training.config import RunConfig
from steerable.training.divergence import DivergenceError
from steerable.training.recipes import Recipe
from steerable.training.run import train


@pytest.mark.parametrize("patience", [0, 2])
def test_a_diverging_run_is_stopped(patience: int, tmp_path: Path) -> None:
    recipe = Recipe(epochs=30, learning_rate=1e30, schedule="cosine", batch_size=64)
    model = {"name": "plain_resnet", "depth": 8, "width": 2}
    config = RunConfig(
        "digits", model, recipe, labels=200, validation=0.2, patience=patience, checkpoint_seconds=0, progress=False
    )
    with pytest.raises(DivergenceError, match=r"the training loss is (nan|inf) after \d+ epochs.*rate below 1e\+30"):
        train(config, tmp_path)
    assert not (tmp_path / "results.json").exists()
    assert not (tmp_path / "checkpoints" / "last.ckpt").exists()
