"""Predictions from Python, for images in memory, and networks from a hub that is a folder here."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from huggingface_hub.errors import LocalEntryNotFoundError
from PIL import Image

from steerable.data.normalisation import Normalisation
from steerable.data.pixel_formats import EARLIER, PixelFormat
from steerable.models import FeatureMaps, ResNet, UNet, build_model, from_pretrained
from steerable.training import TrainedModel, TrainedSegmenter, load_trained
from steerable.training.running.start import Start
from steerable.training.trained_networks.export import export_safetensors

BYTES = PixelFormat(depth="8-bit", channels=3)


def trained(pixels: PixelFormat, channels: int) -> TrainedModel:
    options = {"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"}
    torch.manual_seed(0)
    model = build_model(**options, in_channels=channels, num_classes=2)  # type: ignore[arg-type]
    noise = torch.randint(256, (8, channels, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    network = TrainedModel(model, Normalisation.fit(noise), ("a", "b"), None, 8, options, Path("nowhere"), pixels)
    network.train()(noise)
    return network.eval()


@pytest.mark.parametrize("pixels", [BYTES, EARLIER], ids=["with a format", "of an early version"])
def test_images_in_memory_get_the_answers_of_their_files(pixels: PixelFormat, tmp_path: Path) -> None:
    network = trained(pixels, 3)
    generator = np.random.default_rng(0)
    arrays = [generator.integers(0, 256, shape).astype(np.uint8) for shape in ((12, 9, 3), (8, 8, 3), (30, 30))]
    for number, array in enumerate(arrays):
        Image.fromarray(array).save(tmp_path / f"{number}.png")
    expected, skipped = network.predict_files(tmp_path)
    assert not skipped
    tensors = [torch.from_numpy(np.atleast_3d(array).transpose(2, 0, 1).copy()) for array in arrays]
    for images in (arrays, tensors, [Image.fromarray(array) for array in arrays]):
        found = network.predict(images)
        assert [p.file for p in found] == ["image 0", "image 1", "image 2"]
        assert [p.probabilities for p in found] == [p.probabilities for p in expected]
        assert [(p.label, p.probability) for p in found] == [(p.label, p.probability) for p in expected]
    stacked = np.stack([arrays[1], arrays[1][::-1]])
    assert network.predict(stacked) == network.predict(list(stacked))
    assert network.predict(torch.from_numpy(stacked).permute(0, 3, 1, 2)) == network.predict(stacked)
    assert network.predict([]) == []
    assert network.predict(iter(arrays)) == network.predict(arrays)


def test_counts_are_scaled_as_those_of_files(tmp_path: Path) -> None:
    network = trained(PixelFormat("16-bit", 1, (100.0,), (4000.0,)), 1)
    array = np.random.default_rng(0).integers(0, 4000, (10, 10)).astype(np.uint16)
    Image.fromarray(array).save(tmp_path / "0.png")
    np.save(tmp_path / "1.npy", array)
    (png, npy), _ = network.predict_files(tmp_path)
    for image in (array, Image.fromarray(array)):
        (found,) = network.predict([image])
        for other in (png, npy):  # in a batch of two, whose sums are rounded differently
            assert found.probabilities == pytest.approx(other.probabilities, abs=1e-6)
    with pytest.raises(ValueError, match=r"image 0 cannot be used: its pixels are 8-bit, expected 16-bit"):
        network.predict([array.astype(np.uint8)])


@pytest.mark.parametrize(
    ("images", "error", "words"),
    [
        (
            np.zeros((8, 8, 3), np.uint8),
            TypeError,
            r"expected several images, got one ndarray\. Give a list, \[image\]",
        ),
        (Image.new("L", (8, 8)), TypeError, "expected several images, got one Image"),
        ("folder", TypeError, "files and folders are read by predict_files"),
        ([np.zeros((8, 8, 3))], ValueError, r"image 0 cannot be used: its pixels are floating-point, expected 8-bit"),
        ([np.zeros((8, 8, 7), np.uint8)], ValueError, "it has 7 channels, expected 3"),
        (
            [np.zeros(8, np.uint8)],
            ValueError,
            r"it holds uint8 of shape \(8,\), expected numbers \(height, width\) or \(height, width, channels\)",
        ),
        (["a.png"], TypeError, "an image is an array .* got str"),
    ],
)
def test_what_is_not_a_list_of_images_is_refused(images: Any, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        trained(BYTES, 3).predict(images)


def segmenter() -> TrainedSegmenter:
    options = {"name": "unet", "depth": 1, "copies": 1}
    torch.manual_seed(0)
    model = build_model(**options, in_channels=1, out_type="2*A1")  # type: ignore[arg-type]
    normalisation = Normalisation(torch.zeros(1, 1, 1), torch.ones(1, 1, 1))
    pixels = PixelFormat(depth="8-bit", channels=1)
    return TrainedSegmenter(model, normalisation, ("0", "255"), None, 32, options, Path("nowhere"), pixels).eval()


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A hub with models of somebody; everything else is asked in vain."""
    export_safetensors(trained(BYTES, 3), tmp_path / "hub" / "somebody" / "shapes")
    export_safetensors(segmenter(), tmp_path / "hub" / "somebody" / "cells")

    def snapshot_download(name: str, *, revision: str | None = None, allow_patterns: object = None) -> str:
        if not (tmp_path / "hub" / name).is_dir():
            raise LocalEntryNotFoundError("401 Client Error.\nRepository Not Found")
        place = tmp_path / "cache" / name / (revision or "main")
        if not place.exists():
            shutil.copytree(tmp_path / "hub" / name, place)
        return str(place)

    monkeypatch.setattr("huggingface_hub.snapshot_download", snapshot_download)
    (tmp_path / "work").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    return tmp_path / "hub"


def test_networks_of_the_hub_have_their_normalisation_and_say_so_without(hub: Path) -> None:
    image = np.full((8, 8, 3), 77, np.uint8)
    expected = trained(BYTES, 3).predict([image])
    assert TrainedModel.from_pretrained("somebody/shapes").predict([image]) == expected
    assert load_trained("somebody/shapes").predict([image]) == expected
    for read in (ResNet.from_pretrained, from_pretrained):
        with pytest.warns(UserWarning, match=r"without the normalisation that it was trained with.*TrainedModel\.load"):
            network = read("somebody/shapes", revision="v1")
        assert isinstance(network, ResNet)
    with pytest.warns(UserWarning, match="without the normalisation"):
        assert isinstance(UNet.from_pretrained("somebody/cells", features_only=True), FeatureMaps)
    for read in (TrainedModel.from_pretrained, load_trained, ResNet.from_pretrained, from_pretrained):
        with pytest.raises(
            FileNotFoundError, match=r"no model of that name could be fetched from the hub\. Check .* 401 Client Error"
        ):
            read("nobody/shapes")


def test_a_run_starts_from_a_network_of_the_hub(hub: Path) -> None:
    start = Start.found("somebody/shapes", "classify")
    assert (start.name, start.classes, start.model["copies"]) == ("somebody/shapes", ("a", "b"), 1)
    with pytest.raises(ValueError, match="`somebody/cells` holds a unet, which gives classes of pixels"):
        Start.found("somebody/cells", "classify")
    with pytest.raises(FileNotFoundError, match="no model of that name could be fetched from the hub"):
        Start.found("nobody/shapes", "classify")


def test_a_network_that_is_called_with_an_array_says_what_takes_it() -> None:
    with pytest.raises(TypeError, match=r"got ndarray\. .* takes arrays with `predict\(\[x\]\)`"):
        trained(BYTES, 3)(np.zeros((1, 3, 8, 8), np.uint8))


def test_a_segmenter_labels_images_of_any_size(hub: Path) -> None:
    network = load_trained("somebody/cells")
    assert isinstance(network, TrainedSegmenter)
    image = np.random.default_rng(0).integers(0, 256, (41, 33)).astype(np.uint8)
    (labels,) = network.predict([image])
    assert labels.shape == (41, 33)
    assert set(np.unique(labels)) <= {0, 1}
    assert np.array_equal(labels, network.label_image(torch.from_numpy(image)[None]))
