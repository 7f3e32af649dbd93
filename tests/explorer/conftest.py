"""Run folders as ``steerable train`` leaves them, with networks that were not trained, and a server for them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from explorer_client import Server, running_explorer

from steerable.data.normalisation import Normalisation
from steerable.models import build_model
from steerable.reporting.report import write_report
from steerable.training.evaluation.poses import PoseReport
from steerable.training.requests.config import RunConfig


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
def server(runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    pytest.importorskip("gradio", reason="gradio is not installed")
    with running_explorer(runs, tmp_path_factory.mktemp("temporary")) as found:
        yield found


@pytest.fixture(scope="session")
def address(server: Server) -> str:
    return server.address


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
