"""Exported networks: ONNX that onnxruntime runs with the same answers, and folders that are read again."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
import torch

from steerable.data.normalisation import Normalisation
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.models import ResNet, build_model
from steerable.training.trained_networks.export import export_onnx, export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter

CLASSES = ("Äpfel", "苹果", "pear")


def trained(kind: str = "channels", channels: int = 1, size: int = 8, **model: Any) -> TrainedModel:
    """A network with drawn weights and norms that have seen something."""
    generator = torch.Generator().manual_seed(0)
    images = torch.randint(256, (40, channels, size, size), generator=generator, dtype=torch.uint8)
    options = {"name": "resnet", "depth": 8, "copies": 1, "head": "invariant", **model}
    torch.manual_seed(0)
    network = build_model(
        options["name"],
        in_channels=channels,
        num_classes=len(CLASSES),
        **{key: value for key, value in options.items() if key != "name"},
    )
    normalisation = Normalisation.fit(images, kind)  # type: ignore[arg-type]
    with torch.no_grad():
        network.train()(normalisation(images))
    return TrainedModel(network, normalisation, CLASSES, None, size, options, Path("nowhere")).eval()


@pytest.mark.parametrize(
    ("kind", "channels", "model"),
    [
        ("channels", 3, {}),
        ("zca", 1, {}),
        ("channels", 1, {"head": "max", "group": "C4", "stream": "regular", "inner": "A + B"}),
    ],
    ids=["colour", "whitened", "C4"],
)
def test_onnx_gives_the_same_answers_for_any_batch(
    kind: str, channels: int, model: dict[str, Any], tmp_path: Path
) -> None:
    network = trained(kind, channels, **model)
    path = export_onnx(network, tmp_path / "deep" / "model.onnx")
    assert [file.name for file in path.parent.iterdir()] == ["model.onnx"]
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (given,) = session.get_inputs()
    assert (given.name, given.type, given.shape[1:]) == ("images", "tensor(uint8)", [channels, 8, 8])
    meta = session.get_modelmeta().custom_metadata_map
    assert tuple(json.loads(meta["classes"])) == CLASSES
    assert (meta["image_size"], meta["channels"]) == ("8", str(channels))
    for count in (1, 3, 17):
        images = np.random.default_rng(count).integers(0, 256, (count, channels, 8, 8), dtype=np.uint8)
        scores, probabilities = session.run(["scores", "probabilities"], {"images": images})
        with torch.no_grad():
            expected = network(torch.from_numpy(images))
        np.testing.assert_allclose(scores, expected, rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(probabilities, expected.softmax(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "pixels",
    [
        PixelFormat("8-bit", 3),
        PixelFormat("8-bit", 3, stretch=20.0),
        PixelFormat("16-bit", 2, selection=Selection(channels=(0, 2)), stretch=30.0),
        PixelFormat("16-bit", 1, (100.0,), (900.0,)),
    ],
    ids=["bytes", "stretched colours", "stretched channels", "counts"],
)
def test_onnx_segments_images_of_any_size_as_predict_does(pixels: PixelFormat, tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    torch.manual_seed(0)
    model = {"depth": 2, "copies": 1, "out_type": "3*A1", "in_channels": pixels.channels}
    normalisation = Normalisation.fit(torch.randint(256, (9, pixels.channels, 8, 8), dtype=torch.uint8))
    network = build_model("unet", **model)
    told = (CLASSES, None, 32, {"name": "unet", **model}, tmp_path, pixels)
    segmenter = TrainedSegmenter(network, normalisation, *told).eval()
    session = onnxruntime.InferenceSession(export_onnx(segmenter, tmp_path / "model.onnx"))
    (given,) = session.get_inputs()
    kind = np.uint8 if pixels.depth == "8-bit" else np.float32
    assert given.type == ("tensor(uint8)" if kind is np.uint8 else "tensor(float)")
    assert given.shape[1:] == [pixels.channels, "height", "width"]
    for height, width, brightest in ((45, 67, 256), (64, 32, 60), (3, 2, 120), (300, 260, 22)):
        # A dim image and a bright one in a batch: each has its own range.
        dim, bright = generator.integers(0, [[brightest // 2], [brightest]], (2, pixels.channels * height * width))
        counts = np.stack([dim, bright]).reshape(2, pixels.channels, height, width).astype(kind)
        scores, probabilities = session.run(None, {"images": counts})
        for count, said, chances in zip(counts, scores, probabilities, strict=True):
            expected = segmenter.whole(torch.from_numpy(pixels.to_bytes(count)))
            np.testing.assert_allclose(said, expected, atol=1e-5)
            np.testing.assert_allclose(chances, expected.softmax(0), atol=1e-5)


def test_a_folder_of_safetensors_is_read_again(tmp_path: Path) -> None:
    network = trained()
    folder = export_safetensors(network, tmp_path / "model")
    again = TrainedModel.load(folder)
    images = torch.arange(128, dtype=torch.uint8).view(2, 1, 8, 8)
    with torch.no_grad():
        assert torch.equal(again(images), network(images))
        with pytest.warns(UserWarning, match=r"without the normalisation.*TrainedModel\.load"):
            alone = ResNet.from_pretrained(folder).eval()
        assert torch.equal(alone(network.normalisation(images)), network(images))
    assert (again.classes, again.image_size, again.model_config) == (CLASSES, 8, network.model_config)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model"]
    with pytest.raises(FileExistsError, match="exists already; choose another folder, or remove it first"):
        export_safetensors(network, folder)
    with pytest.raises(ValueError, match="does not know its data; name a data set or folder with `--dataset`"):
        again.evaluate()


def test_the_licence_of_a_model_is_its_authors(tmp_path: Path) -> None:
    card = (export_safetensors(trained(), tmp_path / "unsaid") / "README.md").read_text()
    assert "license" not in card
    assert "| licence | not stated. It is for the author" in card
    assert "apache" not in card.lower()
    assert "pushed" not in card
    card = (export_safetensors(trained(), tmp_path / "said", licence="cc-by-4.0") / "README.md").read_text()
    assert "license: cc-by-4.0" in card
    assert "| licence | cc-by-4.0 |" in card


def test_a_network_with_its_normalisation_from_a_folder_of_any_kind(tmp_path: Path) -> None:
    network = trained()
    export_safetensors(network, tmp_path / "run" / "model")
    images = torch.arange(128, dtype=torch.uint8).view(2, 1, 8, 8)
    for place in (tmp_path / "run", str(tmp_path / "run" / "model")):
        again = TrainedModel.from_pretrained(place)
        assert torch.equal(again(images), network(images))
    with pytest.raises(FileNotFoundError, match="there is no folder `missing-folder`"):
        TrainedModel.from_pretrained("missing-folder")


def test_places_that_cannot_be_written_are_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(FileExistsError, match="is a file, expected a folder"):
        export_safetensors(trained(), tmp_path / "file" / "model")


def test_a_file_is_asked_for(tmp_path: Path) -> None:
    with pytest.raises(IsADirectoryError, match=r"is a folder, expected the name of a file such as .*model\.onnx"):
        export_onnx(trained(), tmp_path)


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxscript", None)
    with pytest.raises(ImportError, match=r"`onnxscript`, which is not installed: pip install 'steerable\[onnx\]'"):
        export_onnx(trained(), tmp_path / "x.onnx")
    assert not list(tmp_path.iterdir())
