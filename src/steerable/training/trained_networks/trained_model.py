"""A trained network from its run folder: evaluate it, predict with it."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.data.assembling import FoundFiles, read_labelled, stacked
from steerable.data.datasets import DATASETS, check_source, load_dataset
from steerable.data.files import left_out, named, source_name
from steerable.data.folders import labelled_folder
from steerable.data.given_images import given_pixels
from steerable.data.images import Progress, image_chunks
from steerable.data.label_tables import labelled_table
from steerable.data.labelled_images import LabelledImages
from steerable.data.masked_images import MaskedImages
from steerable.data.normalisation import Normalisation
from steerable.data.pixel_formats import EARLIER, PixelFormat
from steerable.data.splits import TEST_FRACTION
from steerable.data.squares import with_channels
from steerable.errors import did_you_mean, listing
from steerable.models import MODELS
from steerable.models.places import local_folder
from steerable.training.evaluation.class_figures import class_figures
from steerable.training.evaluation.poses import pose_report
from steerable.training.evaluation.turns import group_of
from steerable.training.requests.config import RunConfig
from steerable.training.requests.run_files import IMAGES, RESULTS, data_of_run, read_fields, read_object
from steerable.training.trained_networks.model_facts import facts_in

__all__ = ["Prediction", "TrainedModel"]

Images = TypeVar("Images", LabelledImages, MaskedImages)


@dataclass(frozen=True)
class Prediction:
    """The predicted class of an image, and how probable each class is, in the order of the network's classes."""

    file: str
    label: str
    probability: float
    probabilities: tuple[float, ...] = ()


class TrainedModel(nn.Module):
    """Network, normalisation and class names of a finished run; uint8 images → class scores.

    A network that was trained on counts, such as those of 16-bit images, takes ``pixels.to_bytes(counts)``.

    Args:
        model: (batch, channels, image_size, image_size), or with one side more for volumes → (batch, classes).
        normalisation: uint8 images → what the model takes.
        classes: their names.
        config: of the run; None for an exported network.
        size: the side of the images or volumes.
        model_config: the model's name and options.
        folder: where it was loaded from.
        pixels: how the numbers in image files become bytes.
    """

    def __init__(
        self,
        model: nn.Module,
        normalisation: Normalisation,
        classes: tuple[str, ...],
        config: RunConfig | None,
        size: int,
        model_config: dict[str, Any],
        folder: Path,
        pixels: PixelFormat = EARLIER,
    ) -> None:
        super().__init__()
        self.model, self.normalisation = model, normalisation
        self.classes, self.config, self.image_size, self.folder = classes, config, size, folder
        self.model_config, self.pixels = model_config, pixels

    @classmethod
    def load(cls, run: str | Path) -> Self:
        """The network of a finished run folder, or of a folder that ``export`` wrote; nothing is unpickled."""
        run = Path(run)
        exported = (run / "images.json").is_file()
        if not exported and not (run / "results.json").is_file():
            raise FileNotFoundError(
                f"`{run}` has no results.json: it is not a run folder, or its run has not finished. Finish it with the "
                "command that started it."
            )
        try:
            needed = ("classes", "image_size", "model")
            if exported:
                source = run / "images.json"
                return cls(**_read(run, None, read_fields(source, IMAGES, needed), source)).eval()
            source = run / "results.json"
            images = read_fields(source, RESULTS, needed)
            images = {**images, "image_size": images["image_size"][0]}
            config = RunConfig.load(run / "config.json")
            return cls(**_read(run / "model", config, images, source)).eval()
        except (OSError, ValueError, TypeError) as error:
            raise ValueError(
                f"the run `{run.name}` cannot be loaded: {error} A file in it was damaged, edited or removed; train or "
                "export it again."
            ) from error

    @classmethod
    def from_pretrained(cls, name: str | Path, **options: Any) -> Self:
        """The network of a run folder, an exported folder, or such a folder on the hub by its name, ``owner/name``.

        Args:
            name: the folder, or the name; names of another form are not looked up on any server.
            **options: arguments of ``huggingface_hub.snapshot_download``, such as ``revision``.
        """
        run = Path(name).expanduser()
        return cls.load(run if (run / "results.json").is_file() else local_folder(name, **options))

    @property
    def channels(self) -> int:
        """The number of channels: 1 for grey images, 3 for RGB, or as many as the files have."""
        return self.normalisation.channels

    @property
    def axes(self) -> int:
        """2 if it takes images, 3 if it takes volumes."""
        return self.normalisation.mean.ndim - 1

    @property
    def input_shape(self) -> tuple[int, ...]:
        """(channels, size, size), or (channels, size, size, size) for volumes."""
        return (self.channels, *[self.image_size] * self.axes)

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(self.normalisation(images))
        return scores

    def evaluate(
        self, dataset: str | None = None, data_dir: str | None = None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Accuracy and drift under every pose of the run's own test images, or of another data set's.

        Another folder or table is tested as a whole, unless it has a test folder, or holds the images of the run in
        another place. Its classes are the network's or some of them.
        """
        name, data = self.test_images(dataset, data_dir, progress)
        poses = pose_report(self, data, own=group_of(self.model), progress=progress)
        return {
            "dataset": name,
            "images": len(data),
            "image_size": list(data.image_size),
            "classes": list(self.classes),
            "model": self.model_config,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "test_error": 1 - poses.upright,
            **class_figures(poses.confusion),
            "poses": poses.to_dict(),
        }

    def test_images(
        self, dataset: str | None = None, data_dir: str | None = None, progress: Progress | None = None
    ) -> tuple[str, Any]:
        """(name, images) that :meth:`evaluate` tests on; the same images with masks if the network segments."""
        known = None if self.config is None else self.config.dataset
        asked: str | None = known if dataset is None else dataset
        if asked is None:
            raise ValueError("an exported network does not know its data; name a data set or folder with `--dataset`.")
        if dataset is None and asked not in DATASETS and not Path(asked).expanduser().exists():
            raise FileNotFoundError(
                f"the images of the run are no longer in `{asked}`. Say where they are now, or where others are, with "
                "`--dataset`."
            )
        check_source(asked)
        own = known if known is not None and _place(asked) == _place(known) else None
        if own is None and asked not in DATASETS:
            path = Path(asked).expanduser().resolve()
            return source_name(path), self._other_images(path, progress)
        splits = self._splits(own or asked, data_dir, progress)
        if splits.test.classes != self.classes:
            raise ValueError(
                f"the network knows the classes {listing(self.classes, 8)}, the data have "
                f"{listing(splits.test.classes, 8)}; evaluate it on data with the same classes."
            )
        if own is not None:
            self._warn_if_changed(splits.test.digest)
        return splits.name, splits.test

    def _splits(self, name: str, data_dir: str | None, progress: Progress | None) -> Any:
        """The data set of the run, or another one that has a name, read as the run's was."""
        group_by = self.config.group_by if self.config is not None and name == self.config.dataset else None
        found = self.config.data_dir if self.config is not None and data_dir is None else data_dir
        how: dict[str, Any] = {"image_size": self.image_size, "progress": progress, "pixels": self.pixels}
        return load_dataset(name, data_dir=found, group_by=group_by, **how)

    def _other_images(self, path: Path, progress: Progress | None) -> Any:
        """All labelled images of a folder or table, with the network's size, channels and numbering of classes."""
        files, skipped, _ = self._files_at(path)
        marked = [file for file in files if file.part == "test"]
        files = marked or files
        if unknown := sorted({file.label for file in files} - set(self.classes)):
            raise ValueError(
                f"`{path}` has the classes {listing(unknown, 8)}, and the network knows only "
                f"{listing(self.classes, 8)}; evaluate it on images of these."
            )
        read, unreadable = read_labelled(files, self.image_size, progress, self.pixels)
        data = stacked(read, self.channels, self.classes)
        if data is None:
            raise ValueError(f"none of the images in `{path}` can be read: {named([*skipped, *unreadable])}.")
        if skipped or unreadable:
            warnings.warn(left_out([*skipped, *unreadable], path), stacklevel=4)
        return data if marked else self._never_trained_on(data)

    def _files_at(self, path: Path) -> FoundFiles:
        """The labelled files of a folder or table, with their specimens where the run has some and these have them."""
        find = partial(labelled_folder, path, fewest_classes=1) if path.is_dir() else partial(labelled_table, path)
        try:
            return find(group_by=None if self.config is None else self.config.group_by)
        except ValueError:
            return find()

    def _never_trained_on(self, data: Images) -> Images:
        """The test images among these, if they are those of the run in another place; otherwise all of them."""
        facts = facts_in(self.folder if self.config is None else self.folder / "model")
        before = (facts.get("digests") or {}).get("test")
        try:
            _, test = data.split(TEST_FRACTION)
        except ValueError:  # none can be held out
            return data
        if test.digest != before:
            return data
        warnings.warn("these are the images that the network comes from: its test images are tested.", stacklevel=5)
        return test

    def _warn_if_changed(self, digest: str) -> None:
        try:
            before = data_of_run(self.folder)
        except FileNotFoundError:  # a run of an early version
            return
        if before["digests"].get("test") != digest:
            warnings.warn(
                "the images have changed since the run, and other ones are held out for the test now; some of them "
                "may have been trained on. Train again for an honest figure.",
                stacklevel=4,
            )

    def predict_files(
        self, path: str | Path, progress: Progress | None = None
    ) -> tuple[list[Prediction], list[tuple[str, str]]]:
        """(predictions, [(file, why it was left out)]) for an image or all images of a folder."""
        predictions: list[Prediction] = []
        skipped: list[tuple[str, str]] = []
        size, channels = self.image_size, self.channels
        for files, images, unreadable in image_chunks(path, size, channels, progress, pixels=self.pixels):
            predictions += self._predictions(files, images)
            skipped += unreadable
        return predictions, skipped

    def predict(self, images: Iterable[Any]) -> list[Prediction]:
        """The prediction for each image that a program has in memory; images may have any size.

        Args:
            images: arrays (height, width) or (height, width, channels), tensors (channels, height, width), or Pillow's
                images. Their numbers are those of the image files that the network was trained on: bytes, or the
                counts of a camera. They are cut to the middle square and resized as files are.
        """
        found = [with_channels(each, self.channels) for each in given_pixels(images, self.image_size, self.pixels)]
        names = [f"image {number}" for number in range(len(found))]
        return list(self._predictions(names, torch.from_numpy(np.stack(found)))) if found else []

    @torch.no_grad()
    def _predictions(self, files: list[str], images: Tensor) -> Iterator[Prediction]:
        for name, probabilities in zip(files, _each(self, images), strict=True):
            best, label = probabilities.max(0)
            yield Prediction(name, self.classes[int(label)], float(best), tuple(probabilities.tolist()))


def _place(dataset: str) -> str | Path:
    """A data set's name, or the absolute path of a folder or table, however its path was written."""
    return dataset if dataset in DATASETS else Path(dataset).expanduser().resolve()


def _each(model: TrainedModel, images: Tensor) -> Iterator[Tensor]:
    """The probabilities of each image, computed in batches that fit into memory."""
    batch = max(1, min(256, 256 * 64 * 64 // model.image_size**model.axes))
    with torch.no_grad():
        for part in images.split(batch) if len(images) else ():
            yield from model(part).softmax(1)


def _read(folder: Path, config: RunConfig | None, images: dict[str, Any], source: Path) -> dict[str, Any]:
    """The arguments for the network in ``folder``; ``source`` is the file that has its name and its classes."""
    name = images["model"]["name"]
    if name not in MODELS:
        raise ValueError(f"`{source}` names the unknown model `{name}`. {did_you_mean(name, MODELS)}")
    weights, settings = folder / "model.safetensors", folder / "config.json"
    if not weights.is_file():  # else a name on the hub would be looked for
        raise FileNotFoundError(f"there is no file `{weights}`.")
    normalisation = Normalisation.load(folder / "normalisation.safetensors")
    about = folder / "images.json"
    pixels = PixelFormat.from_dict(read_fields(about, IMAGES).get("pixels") if about.is_file() else None)
    if pixels.depth and pixels.channels != normalisation.channels:
        raise ValueError(f"`{about}` has pixels of {pixels.channels} channels, expected {normalisation.channels}.")
    has = read_object(settings)
    found = {"num_classes": (len(images["classes"]), source), "in_channels": (normalisation.channels, folder)}
    for key, (number, where) in found.items():
        if key in has and has[key] != number:
            raise ValueError(f"`{settings}` has {has[key]!r} for `{key}`, and `{where}` has {number}.")
    try:
        network = MODELS[name].from_pretrained(folder)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        if isinstance(error.__cause__, RuntimeError):  # torch's list of tensors would fill a page
            reason = f"the {name} that this config describes has other tensors."
        raise ValueError(f"`{weights}` does not fit `{settings}`: {reason}") from error
    except TypeError as error:
        raise ValueError(f"`{settings}` is not the config of a {name}: {error}") from error
    for layer in network.modules():
        if isinstance(layer, snn.Conv2d | snn.Conv3d):
            layer.backend = "dense"  # to measure what is faster takes longer than a few hundred images
    last = torch.channels_last if normalisation.mean.ndim == 3 else torch.channels_last_3d
    return {
        "model": network.to(memory_format=last),  # type: ignore[call-overload]
        "normalisation": normalisation,
        "classes": tuple(images["classes"]),
        "config": config,
        "size": int(images["image_size"]),
        "model_config": images["model"],
        "folder": folder.parent if config is not None else folder,
        "pixels": pixels,
    }
