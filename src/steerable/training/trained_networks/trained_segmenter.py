"""A trained network for segmentation from its run folder: evaluate it, and write label images of any size with it."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.atomic import make_folder, remove_leftovers, write_bytes, write_json
from steerable.data.datasets import DATASETS
from steerable.data.files import Unusable, files_below, left_out, named, printable
from steerable.data.given_images import given_pixels
from steerable.data.images import Progress, each_file, whole_image, with_channels
from steerable.data.label_files import label_file
from steerable.data.mask_files import COLOUR, label_name
from steerable.data.mask_folders import load_mask_folder, read_masked, stacked_masks, with_numbered_objects
from steerable.data.mask_pairs import paired_folder
from steerable.data.mask_survey import palettes_differ
from steerable.data.masked_images import MaskedImages, MaskKind
from steerable.data.splits import Splits
from steerable.errors import listing
from steerable.locks import exclusive
from steerable.models.places import is_hub_name, local_folder
from steerable.models.registry import MODELS
from steerable.models.tiling import Tiling, bands_in_tiles, predict_in_tiles
from steerable.training.evaluation.pixel_answers import Band, PixelAnswer, answer_for
from steerable.training.evaluation.segmentation_poses import SegmentationPoses, segmentation_poses
from steerable.training.requests.run_files import IMAGES, RESULTS, read_fields, read_object
from steerable.training.trained_networks.trained_model import TrainedModel

__all__ = ["TrainedSegmenter", "load_trained"]

MANIFEST = "predictions.json"
THOUSAND = 1000  # parts of an image, of which a bar shows how many are done


def load_trained(run: str | Path) -> TrainedModel:
    """The network of a run folder or an exported one: a :class:`TrainedSegmenter` if it answers for each pixel.

    A name ``owner/name`` that is not a folder is looked up on the hub.
    """
    run = local_folder(run) if is_hub_name(run) else Path(run).expanduser()
    for name, fields in (("images.json", IMAGES), ("results.json", RESULTS)):
        if (run / name).is_file():
            try:
                model = (read_fields(run / name, fields).get("model") or {}).get("name")
            except ValueError:  # which loading will explain
                break
            if model in MODELS and MODELS[model].task == "dense":
                return TrainedSegmenter.load(run)
            break
    return TrainedModel.load(run)


class TrainedSegmenter(TrainedModel):
    """Network, normalisation and class names of a finished run for segmentation.

    Called with uint8 tiles (batch, channels, height, width), whose sides are multiples of the network's stride, it
    returns scores (batch, classes, height, width); :meth:`whole` takes an image of any size. See
    :class:`~steerable.training.trained_networks.trained_model.TrainedModel` for the arguments; ``size`` is the side of
    the tiles that it was trained on.
    """

    @cached_property
    def _about(self) -> dict[str, Any]:
        """The contents of ``images.json``."""
        places = [folder / "images.json" for folder in (self.folder, self.folder / "model")]
        return next((read_fields(place, IMAGES) for place in places if place.is_file()), {})

    @property
    def mask_values(self) -> tuple[int, ...]:
        """The numbers of the classes in the masks that it was trained on; 0 and 1 if the masks held objects."""
        return tuple(self._about.get("mask_values") or ()) or tuple(range(len(self.classes)))

    @cached_property
    def answer(self) -> PixelAnswer:
        """The meaning of the network's outputs: classes, or numbered objects."""
        return answer_for(self._about.get("masks") or "classes", len(self.classes))

    def whole(self, image: Tensor, tile: int | None = None) -> Tensor:
        """Outputs for an image of any size, uint8 (channels, height, width) → float32 (outputs, height, width).

        Args:
            image: the pixels, as :attr:`pixels` makes them of a file.
            tile: the side of the squares that are looked at together; by default as large as exactness needs.
        """
        return predict_in_tiles(self, image, Tiling.for_network(self.model, tile))

    def label_image(self, image: Tensor, tile: int | None = None, progress: Progress | None = None) -> npt.NDArray[Any]:
        """The number of the most probable class of each pixel, uint8 (height, width), or of its object, int32.

        Of the network's outputs only a band is kept. Objects grow in the whole image, so that no border of a tile cuts
        them; this takes three bytes for each pixel of what is put together, and about 40 while they grow.

        Args:
            image: see :meth:`whole`.
            tile: likewise.
            progress: called with (rows done, all rows).
        """
        bands = bands_in_tiles(self, image, Tiling.for_network(self.model, tile))
        size = image.shape[1], image.shape[2]
        return self.answer.label_image(bands if progress is None else _counted(bands, size[0], progress), size)

    def predict(  # type: ignore[override]  # classes of pixels, not of images
        self, images: Iterable[Any], tile: int | None = None
    ) -> list[npt.NDArray[np.int64]]:
        """The label image of each image, (height, width): the numbers of classes as the masks have them, or of objects.

        Args:
            images: see :meth:`TrainedModel.predict`; they are taken whole, in their own size.
            tile: see :meth:`whole`.
        """
        found = (with_channels(each, self.channels) for each in given_pixels(images, None, self.pixels))
        labels = [self.label_image(torch.from_numpy(np.array(each)), tile) for each in found]
        return [self._numbers(each) for each in labels]

    def predict_files(  # type: ignore[override]  # likewise
        self, path: str | Path, progress: Progress | None = None, *, tile: int | None = None
    ) -> tuple[list[tuple[str, npt.NDArray[np.int64]]], list[tuple[str, str]]]:
        """([(file, its label image)], [(file, why it was left out)]) for an image or all images of a folder.

        All label images are in memory together; :meth:`write_label_images` keeps one at a time.
        """
        files, skipped = _files_at(Path(path).expanduser())
        found = []
        for number, file in enumerate(files, start=1):
            labels = self._labelled(file, tile)
            if isinstance(labels, str):
                skipped.append((printable(file), labels))
            else:
                found.append((printable(file), self._numbers(labels)))
            if progress is not None:
                progress(number, len(files))
        return found, skipped

    def _numbers(self, labels: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
        """A label image with the numbers that the masks have for its classes; objects have numbers already."""
        return labels.astype(np.int64) if self.answer.kind == "instances" else np.array(self.mask_values)[labels]

    def evaluate(
        self, dataset: str | None = None, data_dir: str | None = None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Overlap and drift under every pose of the run's own test images, or of another folder's with masks.

        Another folder is tested as a whole, unless it has a test folder or holds the images of the run in another
        place.
        """
        name, data = self.test_images(dataset, data_dir, progress)
        poses = segmentation_poses(self.whole, self.answer, data, progress=progress)
        table = torch.tensor(poses.confusion)
        return {
            "dataset": name,
            "task": "segment",
            "images": len(data),
            "classes": list(self.classes),
            "model": self.model_config,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "test_error": 1 - float(table.diagonal().sum() / table.sum()),
            "test_dice": _mean(poses.class_dice),
            "test_iou": _mean(poses.class_iou),
            **_of_objects(poses),
            "poses": poses.to_dict(),
        }

    def _splits(self, name: str, data_dir: str | None, progress: Progress | None) -> Splits[MaskedImages]:
        if name in DATASETS:
            raise ValueError(
                "give a folder with `images` and `labels` (or `masks`) with `--dataset`, to test a network for "
                "segmentation on."
            )
        kind: MaskKind = "instances" if self._has_objects else "classes"
        return load_mask_folder(Path(name), tile=self.image_size, kind=kind, progress=progress, pixels=self.pixels)

    @property
    def _has_objects(self) -> bool:
        """Whether it was trained with masks that number objects; networks of an early version gave them one class."""
        return self.answer.kind == "instances" or self.classes == ("background", "object")

    def _other_images(self, path: Path, progress: Progress | None) -> MaskedImages:
        """All images of a folder with their masks, or those of its test part."""
        root, found = path, paired_folder(path)
        marked = [pair for pair in found.pairs if pair.part == "test"]
        pairs = marked or found.pairs
        values = () if self._has_objects else self.mask_values
        by_colour = max(values, default=0) >= COLOUR or palettes_differ([pair.mask for pair in pairs], [])
        read, unusable = read_masked(pairs, self.pixels, progress, by_colour=by_colour)
        if not read:
            raise ValueError(f"none of the images in `{root}` can be used: {named([*found.skipped, *unusable])}.")
        if not values:
            read = with_numbered_objects(read, root, [])
        else:
            unknown = sorted({*np.concatenate([np.unique(item.labels) for item in read]).tolist()} - {*values})
            if unknown:
                raise ValueError(
                    f"the masks in `{root}` hold {listing(list(map(label_name, unknown)), 8)}, and the network knows "
                    f"only {listing(list(map(label_name, values)), 8)}; evaluate it on masks with these numbers."
                )
        if skipped := [*found.skipped, *unusable]:
            warnings.warn(left_out(skipped, root), stacklevel=4)
        data = stacked_masks(read, self.channels, self.classes, values, self.image_size)
        return data if marked else self._never_trained_on(data)

    def write_label_images(
        self, path: str | Path, out: str | Path, *, tile: int | None = None, progress: Progress | None = None
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Segment an image or all images below a folder, and write a PNG with the numbers of the masks for each.

        Label images that were written before are kept unless their images have changed, so a killed command continues.
        A folder with label images of another network, of other images or with another tile is refused.

        Args:
            path: a file or a folder.
            out: the folder for the label images, with sub-folders as ``path`` has them. It may lie inside ``path``.
            tile: see :meth:`whole`.
            progress: called with (thousandths of images done, thousandths of all images), row of tiles by row.

        Returns:
            (the files that were written now or before, [(file, why it was left out)]).
        """
        path, out = Path(path).expanduser(), Path(out).expanduser()
        Tiling.for_network(self.model, tile)  # refused before anything is read
        files, skipped = _files_at(path)
        inside = out.resolve()
        files = [file for file in files if inside not in file.resolve().parents]
        self._claim(out, tile, path if path.is_dir() else path.parent)
        with exclusive(out / MANIFEST) as alone:
            if not alone:
                raise ValueError(
                    f"another process is writing label images into `{out}`. Wait until it has ended, or choose another "
                    "folder."
                )
            remove_leftovers(out)
            written: list[str] = []
            for number, (file, target) in enumerate(_targets(files, path, out), start=1):
                rows = None if progress is None else partial(_within, progress, number - 1, len(files))
                found = self._write_one(file, target, tile, rows)
                if isinstance(found, Path):
                    written.append(str(found))
                else:
                    skipped.append((printable(file), found))
                if progress is not None:
                    progress(THOUSAND * number, THOUSAND * len(files))
        return written, skipped

    def _write_one(self, file: Path, target: Path, tile: int | None, progress: Progress | None) -> Path | str:
        """The path of a file's label image, which is written unless it exists; or the reason why there is none."""
        for place in (target, target.with_suffix(".tif")):
            if place.is_file() and not (file.is_file() and file.stat().st_mtime_ns > place.stat().st_mtime_ns):
                return place
        labels = self._labelled(file, tile, progress)
        if isinstance(labels, str):
            return labels
        make_folder(target.parent)
        place, content = self._encoded(labels, target)
        write_bytes(place, content)
        return place

    def _encoded(self, labels: npt.NDArray[Any], target: Path) -> tuple[Path, bytes]:
        """The file of a label image; one with more objects than a PNG can number becomes a TIFF."""
        if self.answer.kind == "classes":
            return target, label_file(labels, self.mask_values)
        if labels.max(initial=0) < 2**16:
            return target, label_file(labels.astype(np.uint16))
        return target.with_suffix(".tif"), label_file(labels, kind="TIFF")

    def _labelled(self, file: Path, tile: int | None, progress: Progress | None = None) -> npt.NDArray[Any] | str:
        """The label image of a file, or why there is none."""

        def found(file: Path) -> npt.NDArray[Any]:
            pixels = whole_image(file, self.pixels)
            if len(pixels) != self.channels and not {len(pixels), self.channels} <= {1, 3}:
                raise Unusable(f"it has {len(pixels)} channels, expected {self.channels} as in the training images")
            return self.label_image(torch.from_numpy(np.array(with_channels(pixels, self.channels))), tile, progress)

        return each_file(found, [file])[0]

    def _claim(self, out: Path, tile: int | None, images: Path) -> None:
        """Note in the folder what is written there; a ValueError if that was something else."""
        mine = {"network": self._digest(), "images": str(images.resolve()), "tile": tile}
        if (out / MANIFEST).is_file():
            if read_object(out / MANIFEST) != mine:
                raise ValueError(
                    f"`{out}` holds label images of another network, of images from another folder, or with another "
                    "tile. Choose another folder."
                )
            return
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            what = "is not empty" if out.is_dir() else "is a file"
            raise FileExistsError(f"`{out}` exists and {what}; choose another folder for the label images.")
        make_folder(out)
        write_json(out / MANIFEST, mine)

    def _digest(self) -> str:
        found = hashlib.sha256()
        for name, value in sorted(self.state_dict().items()):
            found.update(name.encode())
            found.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()


def _files_at(path: Path) -> tuple[list[Path], list[tuple[str, str]]]:
    """The file, or all below a folder; and the folders in it that cannot be opened, with the reasons."""
    return files_below(path) if path.is_dir() else ([path], [])


def _targets(files: Sequence[Path], path: Path, out: Path) -> Iterator[tuple[Path, Path]]:
    """Each file with the name of its label image; images that differ in their endings alone keep these."""
    taken: set[Path] = set()
    for file in files:
        target = out / (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix(".png")
        if target in taken:
            target = target.with_name(f"{file.name}.png")
        taken.add(target)
        yield file, target


def _counted(bands: Iterable[Band], rows: int, progress: Progress) -> Iterator[Band]:
    """The bands of an image with this many rows; ``progress`` is called after each."""
    for first, band in bands:
        yield first, band
        progress(first + band.shape[1], rows)


def _within(progress: Progress, before: int, files: int, done: int, rows: int) -> None:
    """Report that this many files are finished, and of the next one this many rows."""
    progress(THOUSAND * before + THOUSAND * done // rows, THOUSAND * files)


def _of_objects(poses: SegmentationPoses) -> dict[str, float]:
    """How well objects are found, by the names in ``results.json``; nothing for classes."""
    found = list(poses.precisions.values())
    return {"test_average_precision": sum(found) / len(found), "test_ap50": found[0]} if found else {}


def _mean(values: dict[str, float | None]) -> float:
    known = [value for value in values.values() if value is not None]
    return sum(known) / len(known)
