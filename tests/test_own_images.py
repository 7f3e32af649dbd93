"""The tutorial on one's own images, command by command: make a folder, train, evaluate, predict, export."""

from __future__ import annotations

import csv
import json
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
from command_line import steerable
from PIL import Image

from steerable.data import read_images

BUDGET = ("--epochs", "24", "--params", "10000", "--validation", "0.1", "--accelerator", "cpu", "--no-progress")
EXAMPLES = Path(__file__).parent.parent / "examples"


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with images of three digits, one file that is no image, and a finished run."""
    work = tmp_path_factory.mktemp("work")
    options = ("--out", "my-digits", "--unlabelled", "new-digits", "--classes", "3", "--each", "60")
    made = subprocess.run(
        [sys.executable, EXAMPLES / "digits_folder.py", *options], cwd=work, capture_output=True, text=True, check=True
    )
    assert "180 images of 3 classes in my-digits" in made.stdout
    (work / "my-digits" / "1" / "notes.txt").write_text("not an image")
    (work / "new-digits" / "broken.png").write_text("not an image")
    run = steerable("train", "my-digits", *BUDGET, cwd=work)
    assert "my-digits: 130 training, 14 validation, 36 test images of 3 classes, 8×8 pixels, grey." in run.stdout
    assert "resnet with 10,911 parameters, 24 epochs" in run.stdout
    assert "warning: 1 of 181 files" in run.stderr
    assert "`1/notes.txt` (not an image of a known format)" in run.stderr
    assert "report: runs/my-digits/report.html" in run.stdout
    return work


def test_the_network_is_right_in_every_pose(work: Path) -> None:
    found = json.loads(steerable("evaluate", "runs/my-digits", "--json", cwd=work).stdout)
    results = json.loads((work / "runs" / "my-digits" / "results.json").read_text())
    # A run and its evaluation may round differently.
    drift = pytest.approx(results["poses"]["drift"], abs=1e-5)
    assert found["poses"] == {**results["poses"], "drift": drift}
    assert found["images"] == 36
    named = steerable("evaluate", "runs/my-digits", "--dataset", "my-digits", "--json", cwd=work)
    assert json.loads(named.stdout) == found  # its own folder by name: the test images, not those it was trained on
    assert len(set(found["poses"]["accuracy"].values())) == 1
    assert found["poses"]["upright"] > 0.8
    assert results["model"] == {"depth": 8, "name": "resnet", "head": "invariant", "copies": 1}
    assert 1 <= results["best_epoch"] <= 24


def test_predictions_and_onnx_agree(work: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = steerable("predict", "runs/my-digits", "new-digits", "--csv", "predictions.csv", cwd=work)
    assert "15 predictions written to predictions.csv" in run.stdout
    assert "left out new-digits/broken.png: not an image of a known format" in run.stderr
    with (work / "predictions.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    right = [row["class"] == Path(row["file"]).name.split("-")[1] for row in rows]
    assert sum(right) >= 12  # they were turned at random

    run = steerable("export", "runs/my-digits", "--onnx", "model.onnx", "--safetensors", "exported", "--json", cwd=work)
    assert json.loads(run.stdout)["input"] == ["batch", 1, 8, 8]
    session = onnxruntime.InferenceSession(work / "model.onnx", providers=["CPUExecutionProvider"])
    names, images, _ = read_images(work / "new-digits", 8, 1)
    (probabilities,) = session.run(["probabilities"], {"images": images.numpy()})
    classes = json.loads(session.get_modelmeta().custom_metadata_map["classes"])
    assert [Path(name).name for name in names] == [Path(row["file"]).name for row in rows]
    assert [classes[k] for k in probabilities.argmax(1)] == [row["class"] for row in rows]
    np.testing.assert_allclose(probabilities.max(1), [float(row["probability"]) for row in rows], atol=1e-3)

    tested = json.loads(steerable("evaluate", "exported", "--dataset", "my-digits", "--json", cwd=work).stdout)
    assert tested["images"] == 36  # not those that it was trained on
    again = json.loads(steerable("predict", "exported", "new-digits", "--json", cwd=work).stdout)
    assert [(item["file"], item["class"]) for item in again] == [(row["file"], row["class"]) for row in rows]
    monkeypatch.setenv("HOME", str(work))  # a shell leaves the second ~ as it is
    steerable("predict", "~/exported", "new-digits", "--csv=~/at-home.csv", cwd=work)
    assert (work / "at-home.csv").read_bytes() == (work / "predictions.csv").read_bytes()
    assert b"\r" not in (work / "at-home.csv").read_bytes()


def test_another_folder_is_tested_as_a_whole(work: Path) -> None:
    for digit in ("0", "2"):
        picture = next((work / "my-digits" / digit).iterdir())
        (work / "other" / digit).mkdir(parents=True)
        Image.open(picture).convert("RGB").resize((20, 30)).save(work / "other" / digit / "x.png")
    found = json.loads(steerable("evaluate", "runs/my-digits", "--dataset", "other", "--json", cwd=work).stdout)
    assert (found["dataset"], found["images"]) == ("other", 2)
    (work / "other" / "2").rename(work / "other" / "9")
    run = steerable("evaluate", "runs/my-digits", "--dataset", "other", cwd=work, code=2)
    assert "has the classes `9`, and the network knows only `0`, `1`, `2`" in run.stderr


def test_of_the_same_images_in_another_place_those_of_the_test_are_tested(work: Path) -> None:
    """Without that, moving a folder would test the network on images that it has learnt from."""
    expected = json.loads(steerable("evaluate", "runs/my-digits", "--json", cwd=work).stdout)
    (work / "my-digits").rename(work / "moved")
    run = steerable("evaluate", "runs/my-digits", cwd=work, code=2)
    assert f"the images of the run are no longer in `{work / 'my-digits'}`" in run.stderr
    run = steerable("evaluate", "runs/my-digits", "--dataset", "moved", "--json", cwd=work)
    assert json.loads(run.stdout) == expected | {"dataset": "moved"}
    assert "these are the images that the network comes from: its test images are tested" in run.stderr
    (work / "moved").rename(work / "my-digits")


class Page(HTMLParser):
    """Collects the pictures of a page."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.pictures: list[dict[str, str | None]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "img":
            self.pictures.append(dict(attrs))


def test_the_report_shows_poses_mistakes_and_what_was_left_out(work: Path) -> None:
    text = (work / "runs" / "my-digits" / "report.html").read_text("utf-8")
    mistakes = json.loads((work / "runs" / "my-digits" / "mistakes.json").read_text("utf-8"))
    results = json.loads((work / "runs" / "my-digits" / "results.json").read_text())
    assert mistakes["count"] == round(36 * results["test_error"])
    assert len(Page(text).pictures) == len(mistakes["worst"]) == mistakes["count"]
    assert "Turned and mirrored images" in text
    assert "`1/notes.txt` (not an image of a known format)" in text


def test_the_same_command_again_changes_nothing_and_other_settings_go_elsewhere(work: Path) -> None:
    before = (work / "runs" / "my-digits" / "results.json").stat().st_mtime_ns
    steerable("train", "my-digits", *BUDGET, "--json", cwd=work)
    assert (work / "runs" / "my-digits" / "results.json").stat().st_mtime_ns == before
    steerable("train", "my-digits", *BUDGET, "--epochs", "1", "--json", cwd=work)
    assert sorted(path.name for path in (work / "runs").iterdir()) == ["my-digits", "my-digits-2"]
    extra = work / "my-digits" / "0" / "extra.png"
    Image.new("L", (8, 8), 33).save(extra)
    try:
        run = steerable("train", "my-digits", *BUDGET, cwd=work, code=2)
        assert "have changed since the run in runs/my-digits began: 130 training and 36 test images then" in run.stderr
        assert "the images have changed since the run" in steerable("evaluate", "runs/my-digits", cwd=work).stderr
    finally:
        extra.unlink()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("export", "runs/my-digits"), "nothing to export: give --onnx FILE, --safetensors FOLDER, or both"),
        (("export", "runs/my-digits", "--onnx", "runs"), "runs is a folder, expected the name of a file"),
        (("export", "my-digits", "--onnx", "x.onnx"), "it is not a run folder, or its run has not finished"),
        (("predict", "runs/my-digits", "my-digits/1/notes.txt"), "no image in my-digits/1/notes.txt can be read"),
        (("predict", "runs/my-digits", "new-digits", "--csv", "x", "--json"), "give one of the two"),
        (("predict", "runs/my-digits", "new-digits", "--csv", "runs"), "runs is a folder, expected the name of a file"),
        (("evaluate", "runs/absent"), "does not exist"),
    ],
)
def test_mistakes_are_one_message_and_exit_code_2(arguments: tuple[str, ...], message: str, work: Path) -> None:
    run = steerable(*arguments, cwd=work, code=2)
    assert message in " ".join(run.stderr.replace("│", " ").split())
