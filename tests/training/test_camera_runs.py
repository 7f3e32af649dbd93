"""From a folder of camera images to answers: training, evaluation, prediction and exported files agree on the scale."""

from __future__ import annotations

import html
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from command_line import steerable
from PIL import Image

from steerable.data.pixel_formats import EARLIER
from steerable.explorer.model_tab import model_page
from steerable.explorer.uploads import Uploads
from steerable.training.learning.preparing import prepare_data
from steerable.training.requests.config import RunConfig
from steerable.training.running.run import train
from steerable.training.trained_networks.trained_model import TrainedModel

BUDGET = ("--epochs", "3", "--params", "6000", "--accelerator", "cpu", "--no-progress")
SIZE = 16


def faint(random: np.random.Generator, name: str) -> np.ndarray:
    """12 bits, of which 290 to 420 counts are used: stripes of two widths in noise, and sometimes a hot pixel."""
    width = 2 if name == "fine" else 8
    counts = 320 + 60 * (np.arange(SIZE) // width % 2) + random.integers(-30, 31, (SIZE, SIZE))
    if random.random() < 0.2:
        counts[random.integers(SIZE), random.integers(SIZE)] = 65535
    return counts.astype(np.uint16)


def folder(root: Path, draw: Callable[[np.random.Generator, str], np.ndarray], each: int = 15) -> Path:
    random = np.random.default_rng(0)
    for name in ("coarse", "fine"):
        (root / name).mkdir(parents=True)
        for i in range(each):
            found = draw(random, name)
            if found.ndim == 2:
                Image.fromarray(found).save(root / name / f"{i}.tif")
            else:
                np.save(root / name / f"{i}.npy", found)
    return root


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of faint images, others to predict, and a finished run."""
    work = tmp_path_factory.mktemp("work")
    folder(work / "faint", faint)
    folder(work / "new", faint, each=4)
    run = steerable("train", "faint", *BUDGET, cwd=work)
    # The highest counts lie half a range above the others: the hot pixels are cut there.
    assert "16×16 pixels, 16-bit grey, counts 290 … 4" in run.stdout.splitlines()[0]
    assert " shown as 0 … 255" in run.stdout.splitlines()[0]
    return work


def scores(trained: TrainedModel, file: Path) -> torch.Tensor:
    """Of a file's counts, from Python."""
    counts = np.asarray(Image.open(file))[None, None]
    with torch.no_grad():
        return trained(torch.from_numpy(trained.pixels.to_bytes(counts)))


def test_the_scale_is_stored_with_the_run(work: Path) -> None:
    run = work / "runs" / "faint"
    trained = TrainedModel.load(run)
    assert (trained.pixels.depth, trained.pixels.low) == ("16-bit", (290.0,))
    assert 410 < trained.pixels.high[0] < 500
    assert json.loads((run / "plan.json").read_text())["data"]["pixels"] == trained.pixels.to_dict()
    assert json.loads((run / "model" / "images.json").read_text())["pixels"] == trained.pixels.to_dict()


def test_prediction_python_and_onnx_have_the_same_scores(work: Path) -> None:
    trained = TrainedModel.load(work / "runs" / "faint")
    predicted, skipped = trained.predict_files(work / "new")
    assert (len(predicted), skipped) == (8, [])
    steerable("export", "runs/faint", "--onnx", "faint.onnx", "--safetensors", "exported", cwd=work)
    session = onnxruntime.InferenceSession(work / "faint.onnx", providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.type, given.shape[1:]) == ("tensor(float)", [1, SIZE, SIZE])
    meta = session.get_modelmeta().custom_metadata_map
    assert json.loads(meta["pixels"]) == trained.pixels.to_dict()
    again = TrainedModel.load(work / "exported")
    assert again.pixels == trained.pixels
    for prediction in predicted:
        file = Path(prediction.file)
        expected = scores(trained, file)
        assert torch.equal(scores(again, file), expected)
        counts = np.asarray(Image.open(file)).astype(np.float32)[None, None]
        found, probabilities = session.run(["scores", "probabilities"], {"images": counts})
        np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-4)
        assert probabilities.max() == pytest.approx(prediction.probability, abs=1e-4)


def test_evaluation_and_the_same_command_again_read_the_same_bytes(work: Path) -> None:
    results = json.loads((work / "runs" / "faint" / "results.json").read_text())
    own = json.loads(steerable("evaluate", "runs/faint", "--json", cwd=work).stdout)  # it would warn of other images
    assert own["poses"]["confusion"] == results["poses"]["confusion"]
    other = json.loads(steerable("evaluate", "runs/faint", "--dataset", "new", "--json", cwd=work).stdout)
    assert other["images"] == 8
    assert steerable("train", "faint", *BUDGET, "--json", cwd=work).code == 0
    assert [path.name for path in (work / "runs").iterdir()] == ["faint"]


def test_images_of_another_depth_are_left_out(work: Path) -> None:
    shutil.copytree(work / "new", work / "mixed")
    Image.new("L", (SIZE, SIZE), 9).save(work / "mixed" / "bytes.png")
    run = steerable("predict", "runs/faint", "mixed", cwd=work)
    assert "left out mixed/bytes.png: its pixels are 8-bit, expected 16-bit as in the training images" in run.stderr
    run = steerable("predict", "runs/faint", "mixed/bytes.png", cwd=work, code=2)
    assert "no image in mixed/bytes.png can be read: `mixed/bytes.png` (its pixels are 8-bit" in run.stderr


def test_a_model_without_an_entry_reads_files_as_before(work: Path) -> None:
    run = Path(shutil.copytree(work / "runs" / "faint", work / "before"))
    path = run / "model" / "images.json"
    path.write_text(json.dumps({key: value for key, value in json.loads(path.read_text()).items() if key != "pixels"}))
    trained = TrainedModel.load(run)
    assert trained.pixels == EARLIER
    file = next((work / "new" / "fine").iterdir())
    divided = torch.from_numpy(np.rint(np.asarray(Image.open(file)) / 257).astype(np.uint8))[None, None]
    ((prediction,), _) = trained.predict_files(file)
    with torch.no_grad():
        assert float(trained(divided).softmax(1).max()) == pytest.approx(prediction.probability, abs=1e-6)


@pytest.mark.parametrize(
    "entry", [{"depth": "16-bit"}, {"depth": "16-bit", "low": [9], "high": [3], "channels": 1, "selection": {}}, 3, "x"]
)
def test_a_damaged_entry_is_named(entry: Any, work: Path, tmp_path: Path) -> None:
    run = Path(shutil.copytree(work / "runs" / "faint", tmp_path / "run"))
    path = run / "model" / "images.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "pixels": entry}))
    with pytest.raises(ValueError, match=r"images.json` has .* for `pixels`, expected how the numbers in image files"):
        TrainedModel.load(run)


def test_an_unfinished_run_without_an_entry_goes_on_with_the_images_that_it_began_with(tmp_path: Path) -> None:
    """The plan of an earlier revision says nothing about pixels; its 16-bit images were divided by 257."""
    config = RunConfig(
        dataset=str(folder(tmp_path / "faint", lambda random, name: 100 * faint(random, name), each=5)),
        model={"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"},
        recipe=RunConfig("digits", {"name": "resnet"}).recipe.with_epochs(1),
        accelerator="cpu",
        progress=False,
    )
    run = tmp_path / "run"
    train(config, run)
    for left in ("checkpoints", "model"):
        shutil.rmtree(run / left)
    (run / "results.json").unlink()
    plan = json.loads((run / "plan.json").read_text())
    divided = prepare_data(config, pixels=EARLIER).summary()
    assert divided["digests"] != plan["data"]["digests"]
    del divided["pixels"]
    (run / "plan.json").write_text(json.dumps({**plan, "data": divided}))
    train(config, run)
    assert TrainedModel.load(run).pixels == EARLIER


def test_channels_and_pages_are_options(tmp_path: Path) -> None:
    def draw(random: np.random.Generator, name: str) -> np.ndarray:
        return np.stack([random.integers(0, 900, (SIZE, SIZE)), faint(random, name), np.zeros((SIZE, SIZE))]).astype(
            "u2"
        )

    folder(tmp_path / "three", draw)
    run = steerable("train", "three", *BUDGET, "--channels", "1,0", cwd=tmp_path)
    assert "16-bit 2 channels, channels 1 and 0, counts 290 … 4" in run.stdout
    trained = TrainedModel.load(tmp_path / "runs" / "three")
    assert (trained.channels, trained.pixels.selection.channels) == (2, (1, 0))
    predicted, skipped = trained.predict_files(tmp_path / "three")
    assert (len(predicted), skipped) == (30, [])
    page = model_page(tmp_path / "runs", Uploads(tmp_path), "three", "digit 3", None)
    assert "the network takes images of 2 channels, and those on this page have 1 or 3" in html.unescape(page)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("faint", "--channels", "red"), "channels is 'red', expected different numbers with commas between them"),
        (("faint", "--page", "last"), "page is 'last', expected the number of a page, counted from 0, or `all`"),
        (("faint", "--channels", "2"), "(it has 1 channel, counted from 0, and no channel 2)"),
        (("faint", "--page", "4"), "(it has 1 page, counted from 0, and no page 4)"),
        (("digits", "--page", "4"), "`digits` is a known data set, whose images have neither pages nor channels"),
    ],
)
def test_mistakes_are_one_message(options: tuple[str, ...], message: str, work: Path) -> None:
    run = steerable("train", *options, *BUDGET, "--out", "refused", cwd=work, code=2)
    assert message in run.stderr
    assert not (work / "refused").exists()
