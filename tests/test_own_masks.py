"""The tutorial on segmentation, command by command: make a folder, train, evaluate, predict, export."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from command_line import steerable
from PIL import Image

from steerable.data.instance_growing import courses, grown_instances
from steerable.training.evaluation.average_precision import average_precisions

ROOT = Path(__file__).parent.parent
BUDGET = (
    "--epochs",
    "60",
    "--batch-size",
    "8",
    "-m",
    "copies=1",
    "-m",
    "depth=2",
    "--accelerator",
    "cpu",
    "--no-progress",
)


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cells, one image whose mask is missing, and a finished run."""
    work = tmp_path_factory.mktemp("work")
    script, options = ROOT / "examples" / "cells_folder.py", ("--out", "my-cells", "--unlabelled", "new-cells")
    made = subprocess.run(
        [sys.executable, script, *options, "--count", "40", "--size", "48"], cwd=work, capture_output=True, text=True
    )
    assert "40 images with masks in my-cells" in made.stdout, made.stderr
    Image.new("L", (48, 48)).save(work / "my-cells" / "images" / "alone.png")
    run = steerable("train", "my-cells", *BUDGET, cwd=work)
    assert "my-cells: 29 training, 3 validation, 8 test images of 3 classes, tiles of 48×48 pixels, grey." in run.stdout
    assert re.search(r"1 image in `.*my-cells` is left out: `images/alone.png` \(it has no mask", run.stderr)
    assert "Next: steerable predict runs/my-cells IMAGES --out LABELS" in run.stdout
    return work


def test_every_pose_gives_the_same(work: Path) -> None:
    found = json.loads(steerable("evaluate", "runs/my-cells", "--json", cwd=work).stdout)
    results = json.loads((work / "runs" / "my-cells" / "results.json").read_text())
    # A run and its evaluation may round differently.
    drift = pytest.approx(results["poses"]["drift"], abs=1e-5)
    assert found["poses"] == {**results["poses"], "drift": drift}
    assert found["test_dice"] > 0.5
    assert max(found["poses"]["dice"].values()) - min(found["poses"]["dice"].values()) < 1e-6
    shown = steerable("evaluate", "runs/my-cells", "--dataset", "my-cells", cwd=work).stdout
    assert "Dice of all test images" in shown


def test_the_report_has_pictures(work: Path) -> None:
    page = (work / "runs" / "my-cells" / "report.html").read_text()
    for what in ("image", "truth", "prediction", "error"):
        assert page.count(f'alt="{what}"') == 15


def test_large_images_are_labelled_and_again_only_what_is_missing(work: Path) -> None:
    said = steerable("predict", "runs/my-cells", "new-cells", "--out", "labels", "--tile", "96", cwd=work).stdout
    assert "1 label image in labels: 0, 1, 2" in said
    labels = np.asarray(Image.open(work / "labels" / "large.png"))
    assert labels.shape == (300, 500)
    assert set(np.unique(labels)) <= {0, 1, 2}
    again = steerable("predict", "runs/my-cells", "new-cells", "--out", "labels", "--tile", "96", cwd=work).stdout
    assert "1 label image" in again
    for arguments, words in (
        (("--out", "labels"), "another tile"),
        ((), "give a folder for the label images"),
        (("--out", "x", "--csv", "a.csv"), "--csv is for networks that classify"),
        (("--out", "x", "--tile", "50"), "multiple of 4"),
    ):
        refused = steerable("predict", "runs/my-cells", "new-cells", *arguments, cwd=work, code=2)
        assert words in refused.stderr
    assert not (work / "x").exists()


def test_the_exported_file_takes_images_of_any_size(work: Path) -> None:
    said = steerable("export", "runs/my-cells", "--onnx", "cells.onnx", "--json", cwd=work).stdout
    assert json.loads(said)["input"] == ["batch", 1, "height", "width"]
    names = {item.key: item.value for item in onnx.load(work / "cells.onnx").metadata_props}
    assert json.loads(names["classes"]) == ["0", "1", "2"]


def test_the_same_command_trains_nothing_again(work: Path) -> None:
    before = (work / "runs" / "my-cells" / "results.json").read_bytes()
    steerable("train", "my-cells", *BUDGET, cwd=work)
    assert (work / "runs" / "my-cells" / "results.json").read_bytes() == before


@pytest.fixture(scope="module")
def numbered(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with cells that touch and are numbered, and a finished run."""
    work = tmp_path_factory.mktemp("work")
    script, options = ROOT / "examples" / "cells_folder.py", ("--out", "many-cells", "--unlabelled", "crowd")
    made = [sys.executable, script, *options, "--numbered", "--count", "24", "--size", "48"]
    subprocess.run(made, cwd=work, check=True, capture_output=True)
    budget = ("--epochs", "16", "--batch-size", "8", "-m", "copies=2", "-m", "depth=2", "--accelerator", "cpu")
    run = steerable("train", "many-cells", *budget, "--stretch", "yes", "--no-progress", cwd=work)
    assert re.search(
        r"many-cells: 19 training, 5 test images with \d+ numbered objects to train on \(instances\)", run.stdout
    )
    assert "mean average" in run.stdout
    return work


def test_numbered_cells_are_found_in_every_pose(numbered: Path) -> None:
    found = json.loads(steerable("evaluate", "runs/many-cells", "--json", cwd=numbered).stdout)
    assert found["test_ap50"] > 0.3
    precisions = found["poses"]["average_precision"].values()
    assert max(precisions) - min(precisions) < 0.01
    page = (numbered / "runs" / "many-cells" / "report.html").read_text()
    assert "Objects found" in page


def test_numbered_cells_of_a_large_image_have_numbers(numbered: Path) -> None:
    said = steerable("predict", "runs/many-cells", "crowd", "--out", "numbered", cwd=numbered).stdout
    assert "1 label image in numbered: 0 background, 1, 2, … objects" in said
    labels = np.asarray(Image.open(numbered / "numbered" / "large.png"))
    assert labels.dtype == np.uint16
    assert labels.shape == (300, 500)
    assert np.unique(labels).tolist() == list(range(labels.max() + 1))
    assert labels.max() > 50


def test_the_export_says_that_its_file_stretches_images(numbered: Path) -> None:
    said = steerable("export", "runs/many-cells", "--onnx", "cells.onnx", cwd=numbered).stdout
    assert "The ONNX file stretches each image to its own range, as `predict` does; give it whole images." in said
    session = onnxruntime.InferenceSession(numbered / "cells.onnx")
    image = np.asarray(Image.open(numbered / "crowd" / "large.png"))
    scores, _, vectors = session.run(None, {"images": image[None, None]})
    steerable("predict", "runs/many-cells", "crowd", "--out", "again", cwd=numbered)
    found = grown_instances(courses(torch.from_numpy(np.concatenate([scores[0], vectors[0]]))))[0]
    predicted = np.asarray(Image.open(numbered / "again" / "large.png")).astype(np.int64)
    assert average_precisions(found, predicted).min() > 0.95  # rounding may move single pixels
