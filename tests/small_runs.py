"""Runs that take a second: the request of one, a kill at an epoch that a test chooses, and the weights at its end."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import torch
from lightning.pytorch import Trainer
from safetensors.torch import load_file
from torch import Tensor

from steerable.training.learning.divergence import StopWhenDiverged
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import load_recipe

STEERABLE = {"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"}
PLAIN = {"name": "plain_resnet", "depth": 8, "width": 2}


def request(**changes: Any) -> RunConfig:
    """One epoch of a tiny network on a few digits; the run saves itself after each of its epochs."""
    settings: dict[str, Any] = {
        "dataset": "digits",
        "model": STEERABLE,
        "recipe": load_recipe("demo", epochs=1),
        "labels": 60,
        "accelerator": "cpu",
        "progress": False,
        "checkpoint_seconds": 0.0,
    }
    return RunConfig(**{**settings, **changes})


class Killed(Exception):
    """Stands for kill -9, at a moment that the test chooses."""


@contextmanager
def killed_in(epoch: int) -> Iterator[None]:
    """The run that is trained meanwhile is killed at the beginning of this epoch, counted from 0."""

    def kill(self: object, trainer: Trainer, module: object) -> None:
        if trainer.current_epoch == epoch:
            raise Killed

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StopWhenDiverged, "on_train_epoch_start", kill, raising=False)
        with pytest.raises(Killed):
            yield


def weights(run: Path) -> dict[str, Tensor]:
    """Those of a finished run."""
    return load_file(run / "model" / "model.safetensors")


def same_weights(one: Path, other: Path) -> bool:
    """Whether two runs have ended with the same bits."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
