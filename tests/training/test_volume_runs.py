"""Runs on volumes: recognised by their files, trained, tested in 24 poses, resumed, predicted with and exported."""

from __future__ import annotations

import base64
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch
from PIL import Image

from steerable.algebra.families import group_on
from steerable.data import LabelledImages, load_dataset
from steerable.reporting.report import write_report
from steerable.training.choosing.defaults import configured
from steerable.training.choosing.sizing import sides_to_try, sizes_to_try
from steerable.training.evaluation.mistakes import thumbnail
from steerable.training.evaluation.poses import all_poses
from steerable.training.learning.moves_to_show import moves_to_show
from steerable.training.requests.config import RunConfig
from steerable.training.running.run import train
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel

SMALL: dict[str, Any] = {"copies": 1, "depth": 8, "group": "C4"}
QUICK: dict[str, Any] = {"accelerator": "cpu", "progress": False, "validation": 0, "backend": "dense"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Plates and rods, which no turn about z makes alike, with 16 bits."""
    root, random = tmp_path_factory.mktemp("volumes"), np.random.default_rng(0)
    for number in range(20):
        label = ("plate", "rod")[number % 2]
        (root / label).mkdir(exist_ok=True)
        volume = random.integers(300, 400, (8, 8, 8)).astype(np.uint16)
        volume[(slice(3, 5), slice(1, 7), slice(1, 7)) if number % 2 else (slice(1, 7), slice(3, 5), slice(3, 5))] += (
            500
        )
        np.save(root / label / f"{number}.npy", volume)
    return root


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "shapes"
    told: list[str] = []
    config = configured(str(folder), SMALL, changes={"epochs": 30, "batch_size": 8}, **QUICK)
    assert config.volumes
    train(config, out, tell=told.append)
    assert "16 training, 4 test volumes of 2 classes, 8×8×8 voxels, 16-bit grey, counts 300 … 899" in told[0]
    assert "Augmentation: turns up to 45° about z" in told[0]
    write_report([out], out / "report.html")
    return out


def test_a_run_on_volumes_is_tested_in_24_poses(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["image_size"] == [8, 8, 8]
    assert results["model"]["axes"] == 3
    assert len(results["poses"]["accuracy"]) == 24
    for element in ("r", "r2", "r3"):  # the network is invariant under these
        assert results["poses"]["drift"][element] < 1e-4
    assert results["poses"]["drift"]["s"] > 1e-3
    assert results["test_error"] == 0


def test_the_run_goes_on_where_it_ended(run: Path, folder: Path) -> None:
    told: list[str] = []
    config = configured(str(folder), SMALL, changes={"epochs": 30, "batch_size": 8}, **QUICK)
    assert train(config, run, tell=told.append) == json.loads((run / "results.json").read_text())
    assert "has finished earlier" in told[0]


def test_the_report_speaks_of_volumes(run: Path) -> None:
    page = (run / "report.html").read_text()
    assert "8×8×8 voxels" in page
    assert "<code>s</code> one about the width axis" in page


def test_a_trained_network_of_volumes_evaluates_and_predicts(run: Path, folder: Path) -> None:
    trained = TrainedModel.load(run)
    results = json.loads((run / "results.json").read_text())
    assert trained.input_shape == (1, 8, 8, 8)
    poses = trained.evaluate()["poses"]
    assert poses["accuracy"] == results["poses"]["accuracy"]
    assert poses["drift"] == pytest.approx(results["poses"]["drift"], abs=1e-5)
    np.save(folder.parent / "flat.npy", np.zeros((8, 8)))
    predictions, skipped = trained.predict_files(folder / "rod")
    assert [prediction.label for prediction in predictions] == ["rod"] * 10
    assert not skipped
    volumes = [np.load(file) for file in sorted((folder / "plate").iterdir())]
    assert {prediction.label for prediction in trained.predict(volumes)} == {"plate"}
    tensors = [torch.from_numpy(volume.astype(np.int32))[None] for volume in volumes]
    with pytest.raises(ValueError, match="image 0 cannot be used: its pixels are 32-bit, expected 16-bit"):
        trained.predict(tensors)
    with pytest.raises(TypeError, match="a volume is an array"):
        trained.predict([None])
    _, skipped = trained.predict_files(folder.parent / "flat.npy")
    assert "expected numbers (depth, height, width)" in skipped[0][1]


def test_an_exported_network_takes_volumes(run: Path, folder: Path, tmp_path: Path) -> None:
    trained = TrainedModel.load(run)
    path = export_onnx(trained, tmp_path / "model.onnx")
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    counts = np.stack([np.load(file)[None] for file in sorted((folder / "plate").iterdir())]).astype(np.float32)
    scores, probabilities = session.run(None, {"images": counts})
    expected = trained(torch.from_numpy(trained.pixels.to_bytes(counts)))
    assert np.abs(scores - expected.detach().numpy()).max() < 1e-4
    assert (probabilities.argmax(1) == 0).all()
    again = TrainedModel.load(export_safetensors(trained, tmp_path / "folder"))
    images = torch.from_numpy(trained.pixels.to_bytes(counts))
    assert torch.equal(again(images), trained(images))


def test_defaults_for_volumes(folder: Path) -> None:
    config = configured(str(folder), {})
    assert (config.volumes, config.model) == (True, {"name": "resnet", "axes": 3, "head": "invariant"})
    assert group_on(None, 3).name == "O"
    assert config.recipe.learning_rate == 0.015  # which 24 shared weights multiply
    assert configured(str(folder), {"name": "plain_resnet"}).recipe.optimiser == "adamw"
    assert configured(str(folder), {}, changes={"learning_rate": 0.03}).recipe.learning_rate == 0.03
    images = configured(str(folder), {}, volumes=False)
    assert (images.volumes, images.model) == (False, {"name": "resnet", "head": "invariant"})
    assert load_dataset(folder, pixels=images.selection).image_size == (8, 8)
    with pytest.raises(
        ValueError, match=r"wide_resnet is a network of images, and these are volumes\. Use resnet or pl"
    ):
        configured(str(folder), {"name": "wide_resnet"})
    with pytest.raises(ValueError, match=r"the model sees volumes, and the run reads images: axes=3 and volumes=False"):
        RunConfig("digits", {"name": "resnet", "axes": 3})
    assert configured(str(folder), {}, backend="fourier").backend == "fourier"
    with pytest.raises(ValueError, match=r"`digits` is a known data set of images; got volumes=True\. Leave that out"):
        configured("digits", {}, volumes=True)
    with pytest.raises(ValueError, match=r"page is '0', and a volume has no pages to choose from"):
        configured(str(folder), {}, page="0")
    with pytest.raises(ValueError, match=r"runs can segment only images; for volumes build models\.unet\(axes=3\)"):
        RunConfig("digits", {"name": "unet", "axes": 3}, task="segment", volumes=True)


@pytest.mark.parametrize(
    ("model", "expected"),
    [
        ({"name": "plain_resnet"}, (180.0, True, False)),
        ({"name": "resnet"}, (0.0, True, False)),
        ({"name": "resnet", "head": "invariant", "group": "T"}, (90.0, False, False)),
        ({"name": "resnet", "head": "invariant", "group": "C4"}, (45.0, False, True)),
        ({"name": "resnet", "head": "invariant", "group": "D2"}, (90.0, False, True)),
        ({"name": "unet", "group": "O"}, (63.0, False, False)),
    ],
)
def test_a_network_of_volumes_is_shown_what_it_does_not_know(
    model: dict[str, Any], expected: tuple[float, bool, bool]
) -> None:
    moves = moves_to_show({**model, "axes": 3, "depth": 1 if model["name"] == "unet" else 8})
    assert (moves["angle"], moves["flip"], moves.get("upright", False)) == expected


def test_sizes_of_networks_of_volumes() -> None:
    sizes = sizes_to_try({"name": "resnet", "axes": 3}, 32)
    assert [(size["depth"], size["copies"], size.get("stem")) for size in sizes] == [
        *((8, 1, 4), (8, 1, 2), (8, 2, 2)),
        *((14, 2, 2), (14, 4, 2)),
    ]
    assert sides_to_try({"name": "resnet", "axes": 3}, 64) == [64]


def test_poses_of_volumes() -> None:
    assert [all_poses(sides).name for sides in ((8, 8, 8), (4, 8, 8), (4, 8, 6))] == ["O", "C4 about z", "C2 about z"]
    assert [all_poses(sides).name for sides in ((8, 8), (4, 8))] == ["D4", "D2"]


def test_a_volume_is_pictured_by_its_middle_slices() -> None:
    volume = torch.randint(256, (1, 6, 8, 10), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    with Image.open(io.BytesIO(base64.b64decode(thumbnail(volume)))) as picture:
        pixels = np.asarray(picture)
    assert pixels.shape == (8, 10 + 1 + 10 + 1 + 8)
    assert np.array_equal(pixels[:, :10], volume[0, 3])
    assert np.array_equal(pixels[1:7, 11:21], volume[0, :, 4])


def test_modelnet_is_read_upright(tmp_path: Path) -> None:
    solid = np.zeros((10, 32, 32, 32), bool)
    solid[:, 4:20, 8:10, :6] = True  # long along x, low along z
    labels = np.arange(10, dtype=np.uint8)
    np.savez(tmp_path / "modelnet10.npz", X_train=solid, y_train=labels, X_test=solid[:2], y_test=labels[:2])
    splits = load_dataset("modelnet10", data_dir=tmp_path)
    assert isinstance(splits.train, LabelledImages)
    assert splits.image_size == (32, 32, 32)
    inside = splits.train.images[0, 0].nonzero()
    assert inside.min(0).values.tolist() == [26, 22, 4]  # at the end of the depth: the floor
    assert inside.max(0).values.tolist() == [31, 23, 19]
    assert splits.resized(16).image_size == (16, 16, 16)
    with pytest.raises(FileNotFoundError, match=r"modelnet10 is read from `modelnet10.npz`, and no folder was given"):
        load_dataset("modelnet10")
    np.savez(tmp_path / "modelnet10.npz", X_train=solid)
    with pytest.raises(ValueError, match="has no array X_test, y_test, y_train"):
        load_dataset("modelnet10", data_dir=tmp_path)


def test_the_explorer_says_that_it_shows_pictures(run: Path) -> None:
    from steerable.explorer import model_tab

    with pytest.raises(ValueError, match="`shapes` is a network of volumes, and this tab shows pictures"):
        model_tab._load(run, 0)
