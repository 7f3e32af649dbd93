"""Run folders as ``steerable train`` leaves them, with networks that were not trained, and a server for them."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from steerable.models import build_model
from steerable.training.config import RunConfig
from steerable.training.poses import PoseReport
from steerable.training.preprocessing import Normalisation
from steerable.training.report import write_report


@pytest.fixture(scope="session")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with two runs, ``steerable`` and ``deeper/plain``, and one that was not finished."""
    root = tmp_path_factory.mktemp("runs")
    steerable = {"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"}
    write_run(root / "steerable", steerable)
    write_run(root / "deeper" / "plain", {"name": "plain_resnet", "depth": 8, "width": 4})
    (root / "unfinished").mkdir()
    RunConfig(dataset="digits", model=steerable).save(root / "unfinished" / "config.json")
    return root


@pytest.fixture(scope="session")
def address(runs: Path) -> Iterator[str]:
    """Where ``steerable explore``, a process of its own, serves the page; Ctrl+C ends it without a complaint."""
    pytest.importorskip("gradio", reason="gradio is not installed")
    command = [sys.executable, "-m", "steerable.cli", "explore", "--port", "0", "--runs", str(runs)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment) as server:
        try:
            line = "" if server.stdout is None else server.stdout.readline()
            found = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert found is not None, line
            yield found[0]
        finally:
            server.send_signal(signal.SIGINT)
            assert server.wait(timeout=30) == 0


def write_run(folder: Path, model: dict[str, object]) -> None:
    folder.mkdir(parents=True)
    options = {key: value for key, value in model.items() if key != "name"}
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        network = build_model(str(model["name"]), **options, in_channels=1, num_classes=10)
    network.save_pretrained(folder / "model")  # type: ignore[operator]
    Normalisation(torch.full((1, 1, 1), 0.3), torch.full((1, 1, 1), 0.35)).save(
        folder / "model" / "normalisation.safetensors"
    )
    RunConfig(dataset="digits", model=model).save(folder / "config.json")
    classes = [str(digit) for digit in range(10)]
    poses = PoseReport({"e": 0.5, "r": 0.4}, {"e": 0.0, "r": 1e-7}, torch.eye(10, dtype=torch.long).tolist())
    results = {"classes": classes, "image_size": [8, 8], "model": model, "poses": poses.to_dict(), "dataset": "digits"}
    (folder / "results.json").write_text(json.dumps(results))
    write_report([folder], folder / "report.html")
