"""The tutorial on volumes, command by command: make a folder, train, predict."""

from __future__ import annotations

import csv
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import steerable

from steerable.data import Selection, holds_volumes, load_dataset

EXAMPLE = Path(__file__).parent.parent / "examples" / "shapes_folder.py"
QUICK = ("--epochs", "3", "-m", "copies=1", "-m", "depth=8", "--group", "C4", "--accelerator", "cpu", "--no-progress")


def make(work: Path, *options: str) -> str:
    small = ("--out", "my-shapes", "--size", "8", "--classes", "2", *options)
    made = subprocess.run([sys.executable, EXAMPLE, *small], cwd=work, capture_output=True, text=True, check=True)
    return made.stdout


@pytest.mark.parametrize("kind", ["npz", "nii.gz"])
def test_the_example_writes_volumes_that_are_recognised(tmp_path: Path, kind: str) -> None:
    assert make(tmp_path, "--each", "3", "--format", kind) == "6 volumes of 2 classes in my-shapes\n"
    assert holds_volumes(tmp_path / "my-shapes")
    splits = load_dataset(tmp_path / "my-shapes", pixels=Selection(axes=3))
    assert (splits.classes, splits.image_size) == (("ball", "rod"), (8, 8, 8))


def test_a_folder_becomes_a_network_that_predicts(tmp_path: Path) -> None:
    made = make(tmp_path, "--each", "10", "--unlabelled", "new-shapes")
    assert "6 others, unsorted, in new-shapes" in made
    run = steerable("train", "my-shapes", *QUICK, cwd=tmp_path)
    first, second, *_ = run.stdout.splitlines()
    assert first == "my-shapes holds volumes; --no-volumes would read its files as images."
    assert "test volumes of 2 classes, 8×8×8 voxels, grey." in second
    assert "r3sr" in run.stdout  # one of the 24 poses
    steerable("predict", "runs/my-shapes", "new-shapes", "--csv", "predictions.csv", cwd=tmp_path)
    with (tmp_path / "predictions.csv").open() as file:
        assert len(list(csv.DictReader(file))) == 6


def test_stacks_are_images_unless_one_says_otherwise(tmp_path: Path) -> None:
    make(tmp_path, "--each", "3", "--format", "tif")
    assert not holds_volumes(tmp_path / "my-shapes")
    with pytest.warns(UserWarning, match=r"have several pages.*or slices of a volume with `--volumes`"):
        assert load_dataset(tmp_path / "my-shapes").image_size == (8, 8)
    assert load_dataset(tmp_path / "my-shapes", pixels=Selection(axes=3)).image_size == (8, 8, 8)
