"""A trained network for segmentation from its run folder: evaluate it, and write label images of any size with it."""

from __future__ import annotations

import hashlib
import io
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from steerable.atomic import make_folder, write_bytes, write_json
from steerable.data.datasets import DATASETS
from steerable.data.files import Unusable, files_below, named, printable, source_name
from steerable.data.images import Progress, each_file, whole_image, with_channels
from steerable.data.mask_files import COLOUR
from steerable.data.mask_folders import load_mask_folder, read_masked, stacked_masks
from steerable.data.mask_pairs import paired_folder
from steerable.data.masked_images import MaskedImages
from steerable.errors import listing
from steerable.models.registry import MODELS
from steerable.models.tiling import Tiling, bands_in_tiles, predict_in_tiles
from steerable.training.run_files import IMAGES, RESULTS, read_fields, read_object
from steerable.training.segmentation_poses import segmentation_poses
from steerable.training.trained_model import TrainedModel

__all__ = ["TrainedSegmenter", "load_trained"]

MANIFEST = "predictions.json"


def load_trained(run: str | Path) -> TrainedModel:
    """The network of a run folder or an exported one: a :class:`TrainedSegmenter` where it says something of pixels."""
    run = Path(run)
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
    gives scores (batch, classes, height, width); :meth:`whole` takes an image of any size. See
    :class:`~steerable.training.trained_model.TrainedModel` for the arguments; ``size`` is the side of the tiles that
    it was trained on.
    """

    @property
    def mask_values(self) -> tuple[int, ...]:
        """The numbers that the classes have in the masks that it was trained on; 0 and 1 where these held objects."""
        for folder in (self.folder, self.folder / "model"):
            if (folder / "images.json").is_file():
                found = read_fields(folder / "images.json", IMAGES).get("mask_values") or ()
                return tuple(found) or tuple(range(len(self.classes)))
        return tuple(range(len(self.classes)))

    def whole(self, image: Tensor, tile: int | None = None) -> Tensor:
        """Scores of an image of any size, uint8 (channels, height, width) → float32 (classes, height, width).

        Args:
            image: the pixels, as :attr:`pixels` makes them of a file.
            tile: the side of the squares that are looked at together; by default as large as exactness needs.
        """
        return predict_in_tiles(self, image, Tiling.for_network(self.model, tile))

    def label_image(self, image: Tensor, tile: int | None = None) -> npt.NDArray[np.uint8]:
        """The number of the most probable class of each pixel, uint8 (height, width); only a band of scores is kept."""
        found = np.empty(image.shape[1:], np.uint8)
        for first, band in bands_in_tiles(self, image, Tiling.for_network(self.model, tile)):
            found[first : first + band.shape[1]] = band.argmax(0).numpy()
        return found

    def evaluate(
        self, dataset: str | None = None, data_dir: str | None = None, progress: Progress | None = None
    ) -> dict[str, Any]:
        """Overlap and drift under every pose of the run's own test images, or of another folder's with masks.

        Another folder is tested as a whole, unless it has a test folder.
        """
        name, data = self.test_images(dataset, data_dir, progress)
        poses = segmentation_poses(self.whole, data, progress=progress)
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
            "poses": poses.to_dict(),
        }

    def test_images(
        self, dataset: str | None = None, data_dir: str | None = None, progress: Progress | None = None
    ) -> tuple[str, MaskedImages]:
        asked = None if dataset is None else str(Path(dataset).expanduser().resolve())
        if self.config is not None and asked in (None, self.config.dataset):
            root, kind = Path(self.config.dataset), self.config.masks
            chosen: Any = None if kind == "auto" else kind
            splits = load_mask_folder(root, tile=self.image_size, kind=chosen, progress=progress, pixels=self.pixels)
            if splits.test.classes != self.classes:
                raise ValueError(
                    f"the network knows the classes {listing(self.classes, 8)}, and the masks in `{root}` have "
                    f"{listing(splits.test.classes, 8)} now. Train again."
                )
            self._warn_if_changed(splits.test.digest)
            return splits.name, splits.test
        if dataset is None or dataset in DATASETS:
            raise ValueError(
                "give a folder with `images` and `labels` (or `masks`) with `--dataset`, to test a network for "
                "segmentation on."
            )
        root = Path(dataset).expanduser()
        return source_name(root), self._all_of(root, progress)

    def _all_of(self, root: Path, progress: Progress | None) -> MaskedImages:
        """All images of a folder with their masks, or those of its test part."""
        found = paired_folder(root)
        pairs = [pair for pair in found.pairs if pair.part == "test"] or found.pairs
        read, unusable = read_masked(pairs, self.pixels, progress)
        if not read:
            raise ValueError(f"none of the images in `{root}` can be used: {named([*found.skipped, *unusable])}.")
        values = () if self.classes == ("background", "object") else self.mask_values
        if values:
            unknown = sorted({*np.concatenate([np.unique(item.labels) for item in read]).tolist()} - {*values})
            if unknown:
                raise ValueError(
                    f"the masks in `{root}` hold {listing(list(map(str, unknown)), 8)}, and the network knows only "
                    f"{listing(list(map(str, values)), 8)}; evaluate it on masks with these numbers."
                )
        if skipped := [*found.skipped, *unusable]:
            warnings.warn(f"{len(skipped)} images in `{root}` are left out: {named(skipped)}.", stacklevel=4)
        return stacked_masks(read, self.channels, self.classes, values, self.image_size)

    def write_label_images(
        self, path: str | Path, out: str | Path, *, tile: int | None = None, progress: Progress | None = None
    ) -> tuple[list[str], list[tuple[str, str]]]:
        """Segment an image or all images below a folder, and write a PNG with the numbers of the masks for each.

        What was written before is kept, so that a command that was killed goes on; a folder with the label images of
        another network or tile is refused.

        Args:
            path: a file or a folder.
            out: the folder for the label images, with sub-folders as ``path`` has them.
            tile: see :meth:`whole`.
            progress: called with (images done, all images) after each image.

        Returns:
            (the files that were written now or before, [(file, why it was left out)]).
        """
        path, out = Path(path).expanduser(), Path(out).expanduser()
        Tiling.for_network(self.model, tile)  # refused before anything is read
        files, skipped = files_below(path) if path.is_dir() else ([path], [])
        self._claim(out, tile)
        written: list[str] = []
        taken: dict[Path, Path] = {}
        for number, file in enumerate(files, start=1):
            target = out / (file.relative_to(path) if path.is_dir() else Path(file.name)).with_suffix(".png")
            if target in taken:  # two images that differ in their endings alone
                target = target.with_name(f"{file.name}.png")
            taken[target] = file
            if not target.is_file():
                (result,) = each_file(lambda each: self._labelled(each, tile), [file])
                if isinstance(result, str):
                    skipped.append((printable(file), result))
                else:
                    make_folder(target.parent)
                    write_bytes(target, _png(result, self.mask_values))
            if target.is_file():
                written.append(str(target))
            if progress is not None:
                progress(number, len(files))
        return written, skipped

    def _labelled(self, file: Path, tile: int | None) -> npt.NDArray[np.uint8]:
        pixels = whole_image(file, self.pixels)
        if len(pixels) != self.channels and not {len(pixels), self.channels} <= {1, 3}:
            raise Unusable(f"it has {len(pixels)} channels, expected {self.channels} as in the training images")
        image = torch.from_numpy(np.array(with_channels(pixels, self.channels)))
        return self.label_image(image, tile)

    def _claim(self, out: Path, tile: int | None) -> None:
        """Note in the folder which network writes there; ValueError where another one did."""
        mine = {"network": self._digest(), "tile": tile}
        if (out / MANIFEST).is_file():
            if read_object(out / MANIFEST) != mine:
                raise ValueError(
                    f"`{out}` holds label images of another network, or with another tile. Choose another folder."
                )
            return
        if out.exists() and (not out.is_dir() or any(out.iterdir())):
            raise FileExistsError(f"`{out}` exists and is not empty; choose another folder for the label images.")
        make_folder(out)
        write_json(out / MANIFEST, mine)

    def _digest(self) -> str:
        found = hashlib.sha256()
        for name, value in sorted(self.state_dict().items()):
            found.update(name.encode())
            found.update(value.cpu().contiguous().reshape(-1).view(torch.uint8).numpy().tobytes())
        return found.hexdigest()


def _png(labels: npt.NDArray[np.uint8], values: Sequence[int]) -> bytes:
    """A label image as PNG with 8 or 16 bits, or with the colours that the masks had."""
    from PIL import Image

    numbers = np.array(values, np.int64)[labels]
    if max(values) >= COLOUR:
        colours = numbers - COLOUR
        picture = np.stack([colours >> 16, colours >> 8 & 255, colours & 255], axis=2).astype(np.uint8)
    elif max(values) < 2**16:
        picture = numbers.astype(np.uint8 if max(values) < 256 else np.uint16)
    else:
        picture = labels
    file = io.BytesIO()
    Image.fromarray(picture).save(file, "PNG")
    return file.getvalue()


def _mean(values: dict[str, float | None]) -> float:
    known = [value for value in values.values() if value is not None]
    return sum(known) / len(known)
