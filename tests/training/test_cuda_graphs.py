"""Runs whose passes are recorded on a GPU. Where there is no GPU they are refused."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from steerable.training.config import RunConfig
from steerable.training.recipes import Recipe
from steerable.training.run import train

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
def test_a_recorded_run_learns_the_digits(compiled: bool, tmp_path: Path) -> None:
    options = {"cuda_graphs": True, "compile": compiled, "channels_last": True, "progress": False}
    config = RunConfig("digits", MODEL, recipe=Recipe(epochs=8), **options)
    assert train(config, tmp_path / "run")["test_error"] < 0.1
