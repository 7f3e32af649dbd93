"""Runs on numbered objects: trained on vectors to their centres, found in every pose, in images of any size."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import numpy as np
import pytest
import torch
from cell_images import cells, write_cells
from PIL import Image

from steerable import FieldType, dihedral, transform
from steerable.data.mask_files import read_label_file
from steerable.data.object_fields import instance_fields, instance_type
from steerable.reporting.report import write_report
from steerable.reporting.run_records import read_runs
from steerable.training.choosing.defaults import configured
from steerable.training.evaluation.average_precision import average_precisions
from steerable.training.evaluation.pixel_answers import ObjectFields, answer_for
from steerable.training.learning.early_stopping import KeepBest
from steerable.training.learning.pixel_classifier import PixelClassifier
from steerable.training.requests.config import RunConfig
from steerable.training.running.run import train
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter, load_trained

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*training images are few.*"),
]


def asked(folder: Path, model: dict[str, Any], epochs: int, **settings: Any) -> RunConfig:
    settings = {"seed": 1, "progress": False, "accelerator": "cpu", "checkpoint_seconds": 0.0, **settings}
    return configured(str(folder), model, changes={"epochs": epochs, "batch_size": 8}, **settings)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = write_cells(tmp_path_factory.mktemp("data") / "cells", 24, size=(48, 64), instances=True)
    out = tmp_path_factory.mktemp("runs") / "cells"
    train(asked(root, {"name": "unet", "depth": 2, "copies": 2}, 25, validation=0.2), out)
    return out


@pytest.fixture
def trained(run: Path) -> TrainedSegmenter:
    found = load_trained(run)
    assert isinstance(found, TrainedSegmenter)
    return found


def test_the_best_epoch_is_the_one_that_finds_the_objects_best(run: Path) -> None:
    results, curves = json.loads((run / "results.json").read_text()), read_runs([run])[0].curves
    precision, loss = curves["val_average_precision"], curves["val_loss"]
    best = max(precision, key=lambda epoch: (precision[epoch], -loss[epoch]))
    assert results["best_epoch"] == best
    assert results["val_average_precision"] == pytest.approx(max(precision.values()), rel=1e-5)


@pytest.mark.parametrize(
    ("figures", "best"),
    [
        ([(0.0, 3.0), (0.0, 2.0), (0.4, 2.5), (0.3, 1.0)], 3),  # the figure counts, and the loss where it is equal
        ([(0.4, 2.0), (0.9, math.nan), (0.8, math.inf), (0.4, 2.0)], 1),  # weights that have diverged are never best
    ],
)
def test_epochs_are_chosen_by_the_figure_first(figures: list[tuple[float, float]], best: int) -> None:
    keeper, module = KeepBest(10), Mock(spec=PixelClassifier, chosen_by="average_precision")
    module.best_model.state_dict.return_value = {}
    for epoch, (figure, loss) in enumerate(figures):
        measured = {"val_average_precision": torch.tensor(figure), "val_loss": torch.tensor(loss)}
        keeper.on_validation_end(Mock(current_epoch=epoch, sanity_checking=False, callback_metrics=measured), module)
    assert keeper.epoch == best


def test_objects_are_found_and_the_same_in_every_pose(run: Path, trained: TrainedSegmenter) -> None:
    results = json.loads((run / "results.json").read_text())
    assert results["classes"] == ["background", "object"]
    assert results["test_average_precision"] > 0.3
    assert results["test_ap50"] > 0.6
    assert {"val_average_precision", "val_dice", "best_epoch"} <= results.keys()
    poses = results["poses"]
    assert max(poses["drift"].values()) < 1e-4
    assert len({round(value, 4) for value in poses["average_precision"].values()}) == 1
    assert list(poses["precisions"].values()) == sorted(poses["precisions"].values(), reverse=True)
    again = trained.evaluate()
    assert again["test_average_precision"] == pytest.approx(results["test_average_precision"])
    assert again["poses"]["precisions"] == pytest.approx(poses["precisions"])


def test_the_network_is_equivariant_with_its_vectors(trained: TrainedSegmenter) -> None:
    group, image = dihedral(4), torch.from_numpy(cells(8, 48, 48)[0])[None]
    trained.model.double()
    with torch.no_grad():
        upright = trained.model(image[None].double())
        for element in group.elements:
            turned = trained.model(transform(image[None], element, FieldType(group, "A1")).double())
            assert torch.allclose(turned, transform(upright, element, instance_type(group)), rtol=1e-10, atol=1e-12)
    assert trained.model.out_type == instance_type("D4")


def test_label_images_of_any_size(trained: TrainedSegmenter, tmp_path: Path) -> None:
    image, mask = cells(77, 152, 132, 14)
    (tmp_path / "images").mkdir()
    Image.fromarray(image).save(tmp_path / "images" / "large.tif")
    Image.fromarray(image[:5, :7]).save(tmp_path / "images" / "small.png")
    written, skipped = trained.write_label_images(tmp_path / "images", tmp_path / "out", tile=128)
    assert not skipped
    assert len(written) == 2
    labels = read_label_file(tmp_path / "out" / "large.png")
    assert np.unique(labels).tolist() == list(range(labels.max() + 1))
    assert average_precisions(labels, mask)[0] > 0.6
    # No border of a tile cuts an object: all at once gives the same, to rounding.
    with torch.no_grad():
        fields = trained(torch.from_numpy(image)[None, None])
    assert average_precisions(labels, trained.answer.labels(fields[0])).min() > 0.9
    # Another folder, whose masks tell objects from the background only.
    other = write_cells(tmp_path / "other", 3)
    assert trained.evaluate(str(other))["test_ap50"] > 0.3


def test_exports(trained: TrainedSegmenter, tmp_path: Path) -> None:
    again = load_trained(export_safetensors(trained, tmp_path / "exported"))
    assert isinstance(again, TrainedSegmenter)
    assert again.answer == ObjectFields()
    onnxruntime = pytest.importorskip("onnxruntime")
    session = onnxruntime.InferenceSession(str(export_onnx(trained, tmp_path / "model.onnx")))
    assert json.loads(session.get_modelmeta().custom_metadata_map["classes"]) == ["background", "inside", "boundary"]
    tiles = torch.randint(0, 256, (3, 1, 48, 48), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    scores, probabilities, vectors = session.run(None, {"images": tiles.numpy()})
    with torch.no_grad():
        expected = trained(tiles).numpy()
    assert np.allclose(np.concatenate([scores, vectors], axis=1), expected, atol=1e-4)
    assert np.allclose(probabilities.sum(1), 1, atol=1e-5)


def test_the_report_shows_objects(run: Path, tmp_path: Path) -> None:
    text = write_report([run], tmp_path / "report.html").read_text()
    assert text.count('alt="error"') == 3 * 5
    assert "Objects found" in text
    assert "Balanced accuracy" not in text  # nor F1, which is Dice
    assert "error and accuracy are shares of pixels" in text
    assert "each object has a colour" in text
    pictures = json.loads((run / "pictures.json").read_text())
    found = [example["average_precision"] for example in pictures["examples"]]
    assert found == sorted(found)


def test_a_plain_network_learns_vectors_too(tmp_path: Path) -> None:
    root = write_cells(tmp_path / "cells", 8, size=(32, 32), instances=True)
    results = train(asked(root, {"name": "plain_unet", "depth": 1, "width": 2}, 1), tmp_path / "run")
    assert 0 <= results["test_average_precision"] <= 1
    assert max(results["poses"]["drift"].values()) > 1e-3


def test_the_loss_of_objects() -> None:
    numbers = torch.from_numpy(cells(0)[1].astype(np.int64))[None]
    answer = answer_for("instances", 2)
    fields = torch.zeros(1, 5, 48, 48)
    nothing = float(answer.loss(fields, torch.zeros_like(numbers)))
    assert np.isfinite(nothing)
    before = float(answer.loss(fields, numbers))
    with_vectors = fields.clone()
    with_vectors[:, 3:] = instance_fields(numbers).vectors
    # The mean square of vectors is 1, but for the extent of a pixel; they are a half of the loss.
    assert before - float(answer.loss(with_vectors, numbers)) == pytest.approx(1 / 2, abs=0.03)
