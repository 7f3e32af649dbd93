"""The beginning of a run: its images in three parts, and its network with normalisation and schedule."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import torch

from steerable import nn as snn
from steerable.data.augmentation import Augmentation
from steerable.data.batches import Batches, DeviceBatches
from steerable.data.datasets import load_dataset
from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.data.mask_folders import load_mask_folder
from steerable.data.masked_images import MaskedImages
from steerable.data.normalisation import Normalisation
from steerable.data.pixel_formats import PixelFormat, Selection
from steerable.data.splits import Splits
from steerable.data.squares import reduced
from steerable.data.tile_batches import TileBatches
from steerable.models import MODELS, build_model
from steerable.training.evaluation.pixel_answers import answer_for
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.moves_to_show import Moves, moves_to_show
from steerable.training.learning.pixel_classifier import PixelClassifier
from steerable.training.requests.config import FEW_LABELS, HELD_OUT, RunConfig

__all__ = [
    "Images",
    "TrainingData",
    "augmentation",
    "from_data",
    "make_classifier",
    "prepare_data",
    "training_batches",
]

Images = LabelledImages | MaskedImages
"""What a run is trained or tested on: images with a class each, or with a mask each."""

FEWEST_TO_CHOOSE_BY = 3  # validation images; fewer are not held out


@dataclass(frozen=True)
class TrainingData:
    """The images that a run trains, validates and tests on; ``validation`` is None if nothing was held out.

    ``for_statistics`` are the images that the normalisation is fitted on. ``skipped`` and ``notes`` say what was left
    out and what looked odd; ``pixels`` says how the numbers in files became bytes. ``mask_values`` are the numbers in
    mask files that the classes stand for.
    """

    train: Images
    validation: Images | None
    test: Images
    for_statistics: torch.Tensor
    name: str = ""
    skipped: tuple[tuple[str, str], ...] = ()
    notes: tuple[str, ...] = ()
    pixels: PixelFormat | None = None
    mask_values: tuple[int, ...] = ()

    @property
    def side(self) -> int:
        """The larger of the images' height and width, or the largest side of volumes."""
        return max(self.train.image_size)

    @property
    def colours(self) -> str:
        """The kind of the images, in words."""
        return (self.pixels or PixelFormat(channels=self.train.channels)).in_words()

    def at_size(self, side: int | None) -> TrainingData:
        """The same data with images of this side, which divides theirs; None leaves them as they are."""
        if side in (None, self.side):
            return self
        parts = self.train, self.validation, self.test
        train, validation, test = (part if isinstance(part, LabelledImages) else None for part in parts)
        if self.pixels is None or self.side % side or train is None or test is None:
            raise ValueError(f"images of {self.side}×{self.side} pixels cannot be reduced exactly to {side}×{side}.")
        factor = self.side // side
        has_more = self.for_statistics is not train.images
        smaller = train.reduced(factor)
        statistics = torch.from_numpy(reduced(self.for_statistics.numpy(), factor)) if has_more else smaller.images
        return replace(
            self,
            train=smaller,
            validation=validation and validation.reduced(factor),
            test=test.reduced(factor),
            for_statistics=statistics,
            pixels=replace(self.pixels, reduction=factor * self.pixels.reduction),
        )

    def summary(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        parts = {"train": self.train, "validation": self.validation, "test": self.test}
        return {
            "name": self.name,
            "classes": list(self.train.classes),
            "image_size": list(self.train.image_size),
            "channels": self.train.channels,
            "pixels": None if self.pixels is None else self.pixels.to_dict(),
            "images": {part: 0 if found is None else len(found) for part, found in parts.items()},
            "digests": {part: None if found is None else found.digest for part, found in parts.items()},
            "skipped": [list(pair) for pair in self.skipped],
            "notes": list(self.notes),
        }


def prepare_data(
    config: RunConfig, pixels: PixelFormat | None = None, progress: Progress | None = None
) -> TrainingData:
    """Load the data set, take the labelled subset, and hold out the validation images.

    Args:
        config: the request.
        pixels: how the numbers in files become bytes, where an earlier run has found it out.
        progress: called with (images read, all images) for folders and tables.
    """
    splits = _loaded(config, config.selection if pixels is None else pixels, progress)
    train: Images = splits.train
    if config.labels is not None and config.labels != len(train):
        _check_labels_suffice(config.labels, train)
        train = train.balanced_subset(config.labels, seed=config.seed)
    if config.labels_per_class is not None and isinstance(train, LabelledImages):
        train = train.at_most(config.labels_per_class, seed=config.seed)
    train, validation, notes = _held_out(config, train, splits.validation)
    notes = (*splits.notes, *notes)
    if chosen := augmentation(config, train):  # a shift that is too large is refused before a run folder is made
        chosen.check(*train.image_size)
    for_statistics = _pixels(splits.train if config.recipe.statistics_of_all else train)
    if isinstance(train, MaskedImages) and isinstance(validation, MaskedImages):
        validation, notes = _quick_to_validate(validation, train, notes)
    told = (splits.name, splits.skipped, notes, splits.pixels)
    return TrainingData(train, validation, splits.test, for_statistics, *told, mask_values=splits.values)


def _check_labels_suffice(labels: int, train: Images) -> None:
    classes = len(train.classes)
    if isinstance(train, LabelledImages) and labels < classes:
        raise ValueError(
            f"{labels} labelled image{'s' * (labels > 1)} cannot show {classes} classes, and each of them needs one at "
            f"least. Give --labels {classes} or more, or --labels-per-class 1."
        )


def _held_out(config: RunConfig, train: Images, known: Images | None) -> tuple[Images, Images | None, tuple[str, ...]]:
    """The images to learn from, those to validate on, and a note on the latter.

    Args:
        config: the request.
        train: all labelled images that it uses.
        known: validation images that the data set comes with.
    """
    share = config.validation
    if share != 0 and known is not None:
        return train, known, ()
    if share is None:
        are_few = isinstance(train, LabelledImages) and len(train) < FEW_LABELS * len(train.classes)
        if are_few and config.evaluate == "test":
            few = f"classes have fewer than {FEW_LABELS} images on average, so all of them are used for training"
            return train, None, (f"{few}; the last weights are kept. --validation holds some of them out.",)
        share = HELD_OUT
    if not share:
        return train, None, ()
    if config.patience and config.evaluate == "test" and _too_few_to_choose_by(share, train):
        # Early stopping is a default for people's own images; one or two of them cannot tell which epoch is best.
        few = "1 training image is too few" if len(train) == 1 else f"{len(train)} training images are few"
        note = f"{few}: nothing is held out for validation, and the last weights are kept."
        warnings.warn(note, stacklevel=3)
        return train, None, (note,)
    return *train.split(share, seed=config.seed), ()


def _loaded(
    config: RunConfig, pixels: PixelFormat | Selection, progress: Progress | None
) -> Splits[LabelledImages] | Splits[MaskedImages]:
    if config.task == "segment":
        kind: Any = None if config.masks == "auto" else config.masks
        stretch: Any = config.stretch
        return load_mask_folder(
            config.dataset, tile=config.tile, kind=kind, progress=progress, pixels=pixels, stretch=stretch
        )
    return load_dataset(
        config.dataset,
        data_dir=config.data_dir,
        image_size=config.image_size,
        progress=progress,
        pixels=pixels,
        group_by=config.group_by,
    )


def _pixels(images: Images) -> torch.Tensor:
    """All pixels as one tensor (n, channels, height, width); images of different sizes become one long row."""
    if isinstance(images, LabelledImages):
        return images.images
    return torch.cat([image.flatten(1) for image in images.images], dim=1)[None, :, None]


def _quick_to_validate(
    validation: MaskedImages, train: MaskedImages, notes: tuple[str, ...]
) -> tuple[MaskedImages, tuple[str, ...]]:
    """Validation images that take no more time than an epoch: of large ones, only the middle is used."""
    middles = validation.middles(float(train.samples_per_epoch))
    if middles is validation:
        return validation, notes
    side = max(max(mask.shape) for mask in middles.masks)
    note = f"validation looks at the middle of large images, up to {side}×{side} pixels; the test uses whole images."
    return middles, (*notes, note)


def _too_few_to_choose_by(validation: float, train: Images) -> bool:
    """Whether a share of the training images is too small to choose the best epoch by, or cannot be spared."""
    return max(train.counts) == 1 or (validation < 1 and validation * len(train) < FEWEST_TO_CHOOSE_BY)


def augmentation(settings: RunConfig, images: Images) -> Augmentation | None:
    """The run's augmentation of these training images, if its recipe has any."""
    recipe = settings.recipe
    if not recipe.augment:
        return None
    moves = moves_to_show(settings.model) if recipe.turn else Moves(angle=0.0, flip=True)
    moves["flip"] = moves["flip"] and recipe.mirror
    # Tiles lie anywhere in their image already.
    shift = 0 if isinstance(images, MaskedImages) else recipe.shift_of(min(images.image_size))
    return Augmentation(
        shift,
        axes=len(images.image_size),
        dihedral=recipe.quarter_turns,
        padding=recipe.padding,  # type: ignore[arg-type]
        scale=recipe.scale,
        brightness=recipe.brightness,
        contrast=recipe.contrast,
        **moves,
    )


def training_batches(
    settings: RunConfig, data: TrainingData, device: torch.device | str, rank: int = 0, world_size: int = 1
) -> Batches:
    """The run's training images, batch by batch."""
    how: dict[str, Any] = {
        "seed": settings.seed,
        "device": device,
        "augment": augmentation(settings, data.train),
        "rank": rank,
        "world_size": world_size,
    }
    if isinstance(data.train, MaskedImages):
        return TileBatches(data.train, settings.recipe.batch_size, **how)
    return DeviceBatches(data.train, settings.recipe.batch_size, shuffle=True, **how)


def from_data(model: dict[str, Any], data: TrainingData) -> dict[str, Any]:
    """The options of a model that follow from the images and the task."""
    classes = len(data.train.classes)
    known: dict[str, Any] = {"in_channels": data.train.channels, "num_classes": classes}
    if isinstance(data.train, MaskedImages):
        said = answer_for(data.train.kind, classes).out_type(model.get("group", "D4"))
        known |= {"out_channels": said.channels, "out_type": str(said)}
    return {name: known[name] for name in MODELS[model["name"]].from_data if name in known}


def make_classifier(settings: RunConfig, data: TrainingData) -> Classifier:
    """The network, its normalisation and its schedule, from nothing but the decided config and the seed."""
    torch.manual_seed(settings.seed)
    model = build_model(**{**from_data(settings.model, data), **settings.model})
    for layer in model.modules():
        if isinstance(layer, snn.Conv2d | snn.Conv3d):
            layer.backend = settings.backend
        if isinstance(layer, snn.BatchNorm2d | snn.BatchNorm3d) and settings.devices * settings.nodes > 1:
            layer.sync = True
    normalisation = Normalisation.fit(data.for_statistics, settings.recipe.normalisation)  # type: ignore[arg-type]
    counts: dict[str, Any] = {"num_classes": len(data.train.classes), "train_size": data.train.samples_per_epoch}
    if isinstance(data.train, MaskedImages):
        return PixelClassifier(model, normalisation, settings, kind=data.train.kind, **counts)
    return Classifier(model, normalisation, settings, **counts)
