"""Runs for segmentation: from a folder with masks to a network that finds cells in every pose and at every size."""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import lightning.pytorch as pl
import numpy as np
import pytest
import torch
from cell_images import cells, write_cells
from PIL import Image

from steerable.data.mask_folders import load_mask_folder
from steerable.locks import exclusive
from steerable.models.tiling import Tiling
from steerable.reporting.report import write_report
from steerable.training.choosing.defaults import configured
from steerable.training.evaluation.overlaps import confusion_of, dice_of, iou_of, soft_dice_loss
from steerable.training.evaluation.pixel_answers import ClassScores
from steerable.training.evaluation.segmentation_poses import segmentation_poses
from steerable.training.requests.config import RunConfig
from steerable.training.running import carrying_out
from steerable.training.running.run import prepare_data, train
from steerable.training.trained_networks.comparison import compare
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter, load_trained

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*LeafSpec.*"),
    pytest.mark.filterwarnings("ignore:.*logging interval.*"),
    pytest.mark.filterwarnings("ignore:.*training images are few.*"),
]

MODEL = {"name": "unet", "depth": 2, "copies": 1}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_cells(tmp_path_factory.mktemp("data") / "cells", 24, size=(48, 64))


def asked(folder: Path, model: dict[str, Any] = MODEL, epochs: int = 12, **settings: Any) -> RunConfig:
    settings = {"seed": 1, "progress": False, "accelerator": "cpu", "checkpoint_seconds": 0.0, **settings}
    return configured(str(folder), model, changes={"epochs": epochs}, **settings)


@pytest.fixture(scope="module")
def run(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("runs") / "cells"
    train(asked(folder, epochs=40, validation=0.2), out)
    return out


def test_a_folder_with_masks_is_recognised(folder: Path) -> None:
    found = configured(str(folder), {})
    assert (found.task, found.model["name"], found.minutes) == ("segment", "unet", 10.0)
    assert configured("digits", {}).task == "classify"
    assert prepare_data(found).train.image_size == (48, 48)


def test_it_learns_and_says_the_same_in_every_pose(run: Path) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["task"] == "segment"
    assert results["test_dice"] > 0.85
    assert results["test_dice"] == pytest.approx(results["poses"]["dice"]["e"])
    assert max(results["poses"]["drift"].values()) < 1e-4
    assert len(set(np.round(list(results["poses"]["dice"].values()), 4))) == 1
    assert {"val_dice", "val_iou", "val_loss", "best_epoch"} <= results.keys()
    pictures = json.loads((run / "pictures.json").read_text())
    assert [pose["pose"] for pose in pictures["examples"][0]["poses"]] == ["e", "r", "m"]
    dices = [example["dice"] for example in pictures["examples"]]
    assert dices == sorted(dices)


def test_the_report_shows_pictures_and_overlaps(run: Path, tmp_path: Path) -> None:
    text = write_report([run], tmp_path / "report.html").read_text()
    assert text.count('alt="error"') == 3 * 5
    assert "foreground" in text
    assert "Overlap by class" in text
    broken = tmp_path / "broken"
    shutil.copytree(run, broken)
    found = json.loads((broken / "pictures.json").read_text())
    found["examples"][0]["poses"][0]["image"] = '"><script>'
    found["colours"] = {"a": "red; }"}
    (broken / "pictures.json").write_text(json.dumps(found))
    text = write_report([broken], tmp_path / "broken.html").read_text()
    assert "<script>" not in text
    assert "background: red" not in text
    assert "pictures.json` has " in text
    assert 'alt="error"' not in text  # nothing of a file that is not what a run writes


class _KilledError(Exception):
    pass


class _Killer(pl.Callback):
    def on_train_epoch_start(self, trainer: pl.Trainer, module: pl.LightningModule) -> None:
        if trainer.current_epoch == 2:
            raise _KilledError


def test_a_run_that_was_killed_goes_on_bit_for_bit(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = asked(folder, epochs=4, validation=0.2)
    train(config, tmp_path / "whole")

    make = carrying_out.make_trainer
    with monkeypatch.context() as patched:
        patched.setattr(carrying_out, "make_trainer", lambda *given: make(*given[:3], [*given[3], _Killer()]))
        with pytest.raises(_KilledError):
            train(config, tmp_path / "killed")
    train(config, tmp_path / "killed")
    whole, resumed = (TrainedSegmenter.load(tmp_path / name) for name in ("whole", "killed"))
    for a, b in zip(whole.state_dict().values(), resumed.state_dict().values(), strict=True):
        assert torch.equal(a, b)


def test_a_run_is_tested_on_its_own_test_images_however_its_path_is_written(
    run: Path, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = load_trained(run).evaluate()
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    checked: list[str] = []
    monkeypatch.setattr(TrainedModel, "_warn_if_changed", lambda self, digest: checked.append(digest))
    for dataset in ("link", str(tmp_path / "link"), os.path.relpath(folder)):
        trained = load_trained(run)
        assert trained.config is not None
        trained.config = replace(trained.config, dataset=dataset)
        for asked_for in (None, str(folder), "link"):
            assert trained.evaluate(asked_for) == expected | {"dataset": Path(dataset).resolve().name}
        assert compare(trained, trained)["images"] == expected["images"]
    assert len(checked) == 12  # whether the images are those of the run, each time that they are read
    assert len(set(checked)) == 1


def test_of_a_copy_of_its_images_the_test_images_are_tested(run: Path, folder: Path, tmp_path: Path) -> None:
    shutil.copytree(folder, tmp_path / "copy")
    trained = load_trained(run)
    with pytest.warns(UserWarning, match="these are the images that the network comes from: its test"):
        found = trained.evaluate(str(tmp_path / "copy"))
    assert found == trained.evaluate() | {"dataset": "copy"}


def test_a_trained_network_evaluates_and_predicts(run: Path, folder: Path, tmp_path: Path) -> None:
    trained = load_trained(run)
    assert isinstance(trained, TrainedSegmenter)
    assert isinstance(TrainedModel.load(run), TrainedModel)
    results = json.loads((run / "results.json").read_text())
    assert trained.evaluate()["test_dice"] == pytest.approx(results["test_dice"])
    other = write_cells(tmp_path / "other", 3)
    assert trained.evaluate(str(other))["images"] == 3
    write_cells(tmp_path / "numbers", 3, instances=True)
    with pytest.raises(ValueError, match="the network knows only"):
        trained.evaluate(str(tmp_path / "numbers"))
    images = tmp_path / "images"
    (images / "deeper").mkdir(parents=True)
    image, mask = cells(77, 150, 130, 12)
    Image.fromarray(image).save(images / "deeper" / "large.tif")
    Image.fromarray(image[:5, :7]).convert("RGBA").save(images / "small.png")
    (images / "text.txt").write_text("not an image")
    written, skipped = trained.write_label_images(images, tmp_path / "out", tile=64)
    assert [Path(name).relative_to(tmp_path / "out").as_posix() for name in written] == [
        "deeper/large.png",
        "small.png",
    ]
    assert skipped[0][0].endswith("text.txt")
    labels = np.asarray(Image.open(tmp_path / "out" / "deeper" / "large.png"))
    assert set(np.unique(labels)) == {0, 255}
    table = confusion_of(torch.tensor(labels > 0).long(), torch.tensor(mask > 0).long(), 2)
    assert dice_of(table).min() > 0.7
    # What is there is kept, what is missing is made, and another tile does not mix with it.
    large, small = tmp_path / "out" / "deeper" / "large.png", tmp_path / "out" / "small.png"
    large.unlink()
    before = small.stat().st_mtime_ns
    leftover = tmp_path / "out" / "deeper" / ".large.png.0123456789abcdef.part"  # as a killed process leaves it
    leftover.write_bytes(b"half")
    with (
        exclusive(tmp_path / "out" / "predictions.json"),
        pytest.raises(ValueError, match="another process is writing label images"),
    ):
        trained.write_label_images(images, tmp_path / "out", tile=64)
    trained.write_label_images(images, tmp_path / "out", tile=64)
    assert large.is_file()
    assert not leftover.exists()
    assert small.stat().st_mtime_ns == before
    # The label image of another image, or of an earlier version of it, is not what was asked for.
    Image.fromarray(255 - image[:5, :7]).save(images / "small.png")
    os.utime(small, ns=(before, before))
    trained.write_label_images(images, tmp_path / "out", tile=64)
    assert small.stat().st_mtime_ns > before
    for asked, tile in ((images, 128), (folder / "images", 64), (images / "deeper" / "large.tif", 64)):
        with pytest.raises(ValueError, match="another network, of images from another folder, or with another tile"):
            trained.write_label_images(asked, tmp_path / "out", tile=tile)
    # Label images among the images are none of them.
    for _ in range(2):
        assert len(trained.write_label_images(images, images / "labels", tile=64)[0]) == 2
    shutil.rmtree(images / "labels")
    found, skipped = trained.predict_files(images, tile=64)
    for (name, numbers), file in zip(found, written, strict=True):
        assert Path(name).stem == Path(file).stem
        assert np.array_equal(numbers, np.asarray(Image.open(file)))
    assert skipped[0][0].endswith("text.txt")
    with pytest.raises(ValueError, match=r"image 0 cannot be used: it holds uint8 of shape \(0, 7\)"):
        trained.predict([np.zeros((0, 7), np.uint8)])
    with pytest.raises(FileExistsError, match="not empty"):
        trained.write_label_images(images, folder)


def test_tiles_of_prediction_leave_no_seam(run: Path) -> None:
    trained = load_trained(run)
    assert isinstance(trained, TrainedSegmenter)
    image = torch.from_numpy(cells(5, 200, 160, 20)[0])[None]
    tiling = Tiling.for_network(trained.model, 128)
    assert tiling.margin == trained.model.reach
    with torch.no_grad():
        whole = trained(image[None])[0]
    assert torch.allclose(trained.whole(image, 128), whole, atol=1e-4)
    assert np.array_equal(trained.label_image(image, 128), whole.argmax(0).numpy())


def test_exports(run: Path, tmp_path: Path) -> None:
    trained = load_trained(run)
    again = load_trained(export_safetensors(trained, tmp_path / "exported"))
    assert isinstance(again, TrainedSegmenter)
    assert again.mask_values == (0, 255)
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(export_onnx(trained, tmp_path / "model.onnx")))
    tiles = torch.randint(0, 256, (3, 1, 48, 40), dtype=torch.uint8)
    scores, probabilities = session.run(None, {"images": tiles.numpy()})
    with torch.no_grad():
        expected = trained(tiles)
    assert np.allclose(scores, expected.numpy(), atol=1e-4)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)


def test_a_plain_network_and_three_classes(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 10, size=(32, 32))
    for path in (root / "masks").iterdir():
        labels = (np.asarray(Image.open(path)) > 0) * 4
        labels[:, :6] = 9
        Image.fromarray(labels.astype(np.uint8)).save(path)
    with pytest.warns(UserWarning, match="gaps"):
        results = train(asked(root, {"name": "plain_unet", "depth": 1, "width": 4}, epochs=2), tmp_path / "run")
    assert results["classes"] == ["0", "4", "9"]
    assert len(results["poses"]["confusion"]) == 3
    trained = load_trained(tmp_path / "run")
    assert isinstance(trained, TrainedSegmenter)
    trained.write_label_images(root / "images", tmp_path / "out")
    assert set(np.unique(np.asarray(Image.open(tmp_path / "out" / "000.png")))) <= {0, 4, 9}


def test_objects_are_told_from_the_background(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 8, size=(32, 32), instances=True)
    results = train(asked(root, {"name": "unet", "depth": 1, "copies": 1}, epochs=1), tmp_path / "run")
    assert results["classes"] == ["background", "object"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"image_size": 64}, "image_size=64 is for classification"),
        ({"tile": 40}, "multiple of 16"),
        ({"model": {"name": "resnet"}}, "a run trains a network for segmentation, unet or plain_unet"),
        ({"task": "paint"}, "task is 'paint', expected classify or segment"),
        ({"recipe": "few", "changes": {"normalisation": "zca"}}, "whitening"),
        ({"model": {"name": "unet", "out_type": "E"}}, "out_type comes from the images"),
    ],
)
def test_requests_that_cannot_be(folder: Path, settings: dict[str, Any], words: str) -> None:
    settings = {"model": MODEL, **settings}
    with pytest.raises(ValueError, match=words):
        configured(str(folder), settings.pop("model"), **settings)


def test_segmentation_needs_masks(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    with pytest.raises(ValueError, match="has no masks to learn segmentation from, expected a folder with `images`"):
        configured(str(tmp_path), {}, task="segment")
    with pytest.raises(ValueError, match="tile=64 is for segmentation"):
        configured("digits", {}, tile=64)


def test_overlaps_are_those_of_sets() -> None:
    generator = torch.Generator().manual_seed(0)
    predicted, true = (torch.randint(0, 3, (40,), generator=generator) for _ in range(2))
    table = confusion_of(predicted, true, 4)
    for k in range(3):
        a, b = ({int(i) for i in (labels == k).nonzero()} for labels in (predicted, true))
        assert float(dice_of(table)[k]) == pytest.approx(2 * len(a & b) / (len(a) + len(b)))
        assert float(iou_of(table)[k]) == pytest.approx(len(a & b) / len(a | b))
    assert dice_of(table)[3].isnan()


def test_the_dice_loss_sees_small_classes() -> None:
    truth = torch.zeros(1, 16, 16, dtype=torch.long)
    truth[0, 3, 4] = 1
    right = torch.stack([truth == 0, truth == 1], 1).float() * 40
    assert float(soft_dice_loss(right, truth)) == pytest.approx(0, abs=1e-5)
    missed = torch.stack([torch.ones_like(truth), torch.zeros_like(truth)], 1).float() * 40
    assert float(soft_dice_loss(missed, truth)) == pytest.approx(0.5, abs=0.01)
    empty = torch.zeros(1, 16, 16, dtype=torch.long)  # a class that no mask shows does not count
    assert float(soft_dice_loss(missed, empty)) == pytest.approx(0, abs=1e-5)


def test_poses_turn_answers_back(folder: Path) -> None:
    data = load_mask_folder(folder).test

    def perfect(image: torch.Tensor) -> torch.Tensor:
        """Knows the truth by the image's brightness, and something that depends on the place in the image."""
        bright = (image[0].float() - 110) / 20
        slope = torch.linspace(0, 0.1, image.shape[2]).expand_as(bright)
        return torch.stack([-bright, bright + slope])

    poses = segmentation_poses(perfect, ClassScores(2), data)
    assert poses.dice["e"] > 0.9
    assert poses.drift["e"] == 0
    assert poses.drift["m"] > 1e-3
    assert poses.drift["mr2"] == pytest.approx(0, abs=1e-6)  # up and down, along which nothing changes
