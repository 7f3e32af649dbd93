"""The request of a run: what the user says about it, as a JSON file in the run folder."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from steerable.atomic import write_json
from steerable.data.datasets import SOURCES, check_selection_for
from steerable.data.pixel_formats import Selection
from steerable.errors import one_of
from steerable.models.registry import models_for
from steerable.training.requests.limits import Flag, OneOf, Range, Text
from steerable.training.requests.recipes import Recipe
from steerable.training.requests.run_files import read_object
from steerable.training.requests.settings import Setting, check_names, check_settings, documented, marked, setting

__all__ = [
    "CLASSIFIERS",
    "FEW_LABELS",
    "HELD_OUT",
    "KNOWN_DATA_RECIPE",
    "OWN_IMAGES",
    "PLAIN_RATES",
    "RATE_OF_VOLUMES",
    "RECIPES_OF_OWN_IMAGES",
    "SIZES",
    "TRAINED",
    "WIDTHS",
    "RunConfig",
]

CLASSIFIERS = models_for("classification")
"""The models that classify images, by name."""
TRAINED = {"classify": CLASSIFIERS, "segment": models_for("dense")}
"""The models that a run can train, by its task; the first of each is the default."""
WIDTHS = list(dict.fromkeys(entry.width for models in TRAINED.values() for entry in models.values()))
"""The options that say how wide a model is."""
SIZES = ("stem", "depth", *WIDTHS)
"""The options that a time or a number of parameters decides."""
FROM_DATA = list(
    dict.fromkeys(name for models in TRAINED.values() for entry in models.values() for name in entry.from_data)
)

OWN_IMAGES: dict[str, Any] = {
    "recipe": "images",
    "validation": None,
    "patience": 35,
    "minutes": 10.0,
    "parameters": 100_000,
}
"""Defaults for a folder or a table. Also, the classifier is invariant, and the image size is that of the images."""
RATE_OF_VOLUMES = 0.015
"""The learning rate of steerable networks for volumes: it is lower, because their larger groups multiply it by more."""
PLAIN_RATES: dict[str, Any] = {
    "optimiser": "adamw",
    "learning_rate": 0.005,
    "weight_decay": 0.05,
    "nesterov": False,
    "rates_by_sharing": False,
}
"""What suits a plain network in place of the optimiser of ``images`` or ``masks``, which are for shared weights."""
HELD_OUT = 0.1
"""The share of people's own images that is held out for validation by default."""

FEW_LABELS = 200
"""Images per class, on average: with fewer than this, none are held out, because each of them counts."""

RECIPES_OF_OWN_IMAGES = {"classify": OWN_IMAGES["recipe"], "segment": "masks"}
"""The recipe for a folder or a table, by task."""
KNOWN_DATA_RECIPE = "modern"
"""The recipe for a data set that has a name."""

BOUNDLESS = 10**9
# What a run computes, and where and how it does so.
OPTION: dict[str, Any] = {"option": True}
IMAGES = {**OPTION, "panel": "Images"}
PLANNED: dict[str, Any] = {"option": True, "panel": "Speed and hardware", "planned": True}
FREE: dict[str, Any] = {"option": True, "panel": "Speed and hardware", "free": True}


@documented
@dataclass(frozen=True)
class RunConfig:
    """The request of one training run. What it leaves open is decided in the run's plan.

    ``model`` is the model's name and its arguments, ``{"name": "resnet", "depth": 14, …}``; channels and classes come
    from the data. If the run starts from a network, all of it comes from that network. ``recipe`` says how the model is
    trained. Every other field is listed here; ``steerable train`` has an option for each field that is marked as one.
    """

    dataset: str = field(metadata={"setting": Setting(f"{SOURCES[0].upper()}{SOURCES[1:]}.", Text())})
    model: dict[str, Any] = field()
    recipe: Recipe = field(default_factory=Recipe)
    task: str = setting(
        "classify",
        OneOf(tuple(TRAINED)),
        "What the network learns: a class for each image (classify) or for each pixel (segment). By default segment "
        "for a folder with `images` beside `labels` or `masks`.",
        **OPTION,
    )
    orientation: str = setting(
        "model",
        OneOf(("model", "auto", "free", "upright", "fixed")),
        "What the pose of an image means: nothing (free); which way is up, with mirror images alike (upright); or all "
        "of it (fixed). auto, the default for a folder or .csv, finds out from the images, in a few per cent of the "
        "time. model leaves it to the options of the network.",
        **OPTION,
    )
    start: str | None = setting(
        None,
        Text(optional=True),
        "Start from the weights of a trained network: a run folder, a folder with a saved model, or its name "
        "`owner/name` on the Hugging Face hub. The new network has the same layout and group.",
        flags=("--from",),
        **OPTION,
    )
    freeze: str | None = setting(
        None,
        Text(optional=True),
        "With --from, the parts that are not trained: all-but-head, a number of parts counted from the image on, or "
        "the names of parts separated by commas. A residual network has stem, stage1, stage2, stage3; a U-Net level1, "
        "level2, … on the way down, and …, up2, up1 on the way up.",
        **OPTION,
    )
    tile: int | None = setting(
        None,
        Range(32, 1024, whole=True, optional=True),
        "For segmentation, the side of the squares that are trained on, a multiple of 16. By default the images' "
        "median size, up to 128.",
        **IMAGES,
    )
    masks: str = setting(
        "auto",
        OneOf(("auto", "classes", "instances")),
        "For segmentation, what the numbers in masks are: classes, or one number for each object (instances), so that "
        "each object is found. By default the masks themselves decide.",
        **IMAGES,
    )
    stretch: str = setting(
        "auto",
        OneOf(("auto", "yes", "no")),
        "For segmentation, whether each image is stretched to its own range of grey levels, so that dim and bright "
        "ones look alike. By default if the ranges of the training images differ by more than a factor of two.",
        **IMAGES,
    )
    # More parameters or pixels fit no machine.
    parameters: int | None = setting(
        None,
        Range(1, BOUNDLESS, whole=True, optional=True),
        "Roughly how many parameters the network has. By default a folder or .csv gets the largest network that can be "
        f"trained in the time, or {OWN_IMAGES['parameters']} parameters if --epochs is given.",
        flags=("--params",),
        **OPTION,
    )
    minutes: float | None = setting(
        None,
        Range(0, 10**6, above=True, optional=True),
        f"Fit the run to this many minutes. By default {OWN_IMAGES['minutes']:g} for a folder or .csv.",
        flags=("--minutes", "--max-minutes"),
        **OPTION,
    )
    image_size: int | None = setting(
        None,
        Range(4, 4096, whole=True, optional=True),
        "The side that images are resized to. By default their median size, up to 128 (volumes: 32), or a half or a "
        "quarter of that if too few epochs would fit into the time; with --from a size that the network fits exactly.",
        **IMAGES,
    )
    volumes: bool = setting(
        False,
        Flag(),
        "Whether the files hold volumes: arrays (depth, height, width), NIfTI scans, or TIFF stacks, whose pages are "
        "slices. By default the files themselves decide, except for TIFF.",
        **IMAGES,
    )
    channels: str | None = setting(
        None,
        Text(optional=True),
        "The channels of the image files to use, counted from 0, such as 1 or 0,2. By default all except transparency.",
        **IMAGES,
    )
    page: str | None = setting(
        None,
        Text(optional=True),
        "The page of the image files to use, counted from 0, or all, which makes the pages channels of one image. By "
        "default the first page.",
        **IMAGES,
    )
    group_by: str | None = setting(
        None,
        Text(optional=True),
        "Where to find the specimen, such as a patient, that an image belongs to: a column of the .csv, or `folder` "
        "for the folders inside the class folders. No specimen is then used for both training and testing.",
        flags=("--group-by",),
        **IMAGES,
    )
    validation: float | None = setting(
        0.0,
        Range(0, BOUNDLESS, optional=True),
        "How many of the labelled images to hold out for validation, or which share of them (below 1). By "
        f"default {HELD_OUT} for a folder or .csv, and none if classes have fewer than {FEW_LABELS} images on "
        "average. If a data set comes with validation images, those are used instead.",
        **IMAGES,
    )
    patience: int = setting(
        0,
        Range(0, BOUNDLESS, whole=True),
        "Stop after this many epochs without improvement, and keep the best weights; 0 never stops early. "
        f"By default {OWN_IMAGES['patience']} of 100 epochs for a folder or .csv, and the same share of any other "
        "number.",
        **OPTION,
    )
    labels: int | None = setting(
        None,
        Range(1, BOUNDLESS, whole=True, optional=True),
        "How many labelled images to use, balanced over the classes. By default all of them.",
        **IMAGES,
    )
    labels_per_class: int | None = setting(
        None,
        Range(1, BOUNDLESS, whole=True, optional=True),
        "How many labelled images of each class to use, or all of a class that has fewer. By default all of them.",
        **IMAGES,
    )
    # Seeds are those of numpy.
    seed: int = setting(
        0,
        Range(0, 2**32 - 1, whole=True),
        "The seed for choosing images, initial weights, order and augmentation.",
        **OPTION,
    )
    data_dir: str | None = setting(
        None, Text(optional=True), "The folder with the data set's files, or to download them to.", free=True, **IMAGES
    )
    fit: str = setting(
        "stretch",
        OneOf(("stretch", "shorten", "shrink")),
        "What fitting to a time may change: the number of epochs, up or down (stretch) or only down (shorten); or the "
        "network's size as well, so that enough epochs fit (shrink).",
    )
    evaluate: str = setting(
        "test",
        OneOf(("test", "validation")),
        "Which images the results are about. `validation` is for choosing settings: test images are not looked at, "
        "and the results have a `validation_error` in place of a `test_error`.",
    )
    backend: str = setting(
        "auto",
        OneOf(("auto", "dense", "fourier")),
        "How convolutions are computed: dense, fourier, or auto, which measures once which is faster and writes its "
        "choice into the run's plan.",
        **PLANNED,
    )
    precision: str = setting(
        "auto",
        OneOf(("32-true", "bf16-mixed", "16-mixed", "auto")),
        "The precision of the computation: 32-true, bf16-mixed, 16-mixed, or auto, which chooses bf16-mixed on GPUs "
        "that are made for it.",
        **PLANNED,
    )
    channels_last: bool | None = setting(
        None,
        Flag(optional=True),
        "Keep the channels of a pixel side by side in memory. By default on with bf16-mixed; on a CPU a measurement "
        "decides, as for the backend.",
        **PLANNED,
    )
    cuda_graphs: bool | None = setting(
        None,
        Flag(optional=True),
        "Record the network's passes, compiled or not, as CUDA graphs, so that a GPU does not wait for Python. By "
        "default on for runs that are long enough.",
        **PLANNED,
    )
    compile: bool | None = setting(None, Flag(optional=True), "Use torch.compile. Off by default.", **PLANNED)
    eager: bool = setting(
        False,
        Flag(),
        "Run the network as ordinary code: neither compile nor record it.",
        option=True,
        flags=("--eager",),
        panel="Speed and hardware",
    )
    accelerator: str = setting("auto", OneOf(("auto", "cpu", "gpu")), "Where to run: auto, cpu or gpu.", **FREE)
    devices: int = setting(
        1, Range(1, 10**4, whole=True), "How many processes each machine runs; several train together with DDP.", **FREE
    )
    nodes: int = setting(1, Range(1, 10**5, whole=True), "How many machines share the run.", **FREE)
    progress: bool = setting(True, Flag(), "Show progress bars.", **FREE)
    checkpoint_seconds: float = setting(
        60.0, Range(0, BOUNDLESS), "How many seconds pass between checkpoints; 0 saves after every epoch.", **FREE
    )

    def __post_init__(self) -> None:
        known = "" if self.start is not None else None  # the name of a network that is there already may be left out
        if not isinstance(self.model, dict) or not isinstance(self.model.get("name", known), str):
            raise ValueError("a run's model needs a name, as in {'name': 'resnet', ...}.")
        check_settings("", self)
        self._check_images()
        self._check_masks()
        self._check_model()
        self._check_orientation()
        self._check_machine()

    @property
    def selection(self) -> Selection:
        """The pages and channels of the image files that are used."""
        return Selection.parse(self.page, self.channels, 3 if self.volumes else 2)

    def _check_images(self) -> None:
        check_selection_for(self.dataset, self.selection)
        if self.validation is not None and self.validation > 1 and self.validation != int(self.validation):
            raise ValueError(f"validation is a share below 1 or a number of images, got {self.validation}.")
        if self.labels is not None and self.labels_per_class is not None:
            raise ValueError(
                f"labels={self.labels} and labels_per_class={self.labels_per_class} both say how many images to learn "
                "from. Give one of the two."
            )
        if self.patience and self.validation == 0:
            raise ValueError(
                f"patience {self.patience} watches the loss on validation images, and none are held out. Hold some out "
                "with validation=0.15."
            )
        if self.evaluate == "validation" and self.validation == 0:
            raise ValueError(
                "evaluate is `validation`, and no images are held out for it. Hold some out with validation=0.25."
            )

    def _check_masks(self) -> None:
        """Refuse settings of masks in other tasks, and settings that segmentation cannot follow."""
        if self.volumes and self.task == "segment":
            raise ValueError(
                "runs can segment only images; for volumes build models.unet(axes=3) and train it yourself."
            )
        if self.task != "segment":
            for name, value in {"tile": self.tile, "masks": self.masks, "stretch": self.stretch}.items():
                if value not in (None, "auto"):
                    raise ValueError(f"{name}={value} is for segmentation, and the task is {self.task}. Leave it out.")
            return
        if self.labels_per_class is not None:
            raise ValueError(
                f"labels_per_class={self.labels_per_class} is for classification: a mask has pixels of several classes."
                " Give labels, the number of images."
            )
        if self.image_size is not None:
            raise ValueError(
                f"image_size={self.image_size} is for classification: segmentation takes images in their own size, "
                "tile by tile. Give tile=128, or resize the images and their masks."
            )
        if self.tile is not None and self.tile % 16:
            raise ValueError(f"tile={self.tile} must be a multiple of 16, because networks halve tiles up to 4 times.")
        if self.recipe.normalisation != "channels":
            raise ValueError("whitening (zca) needs images of one size; segmentation normalises by channels.")

    def _check_model(self) -> None:
        if "name" in self.model and (self.model.get("axes", 2) == 3) != self.volumes:
            seen, read = ("volumes", "images") if self.model.get("axes", 2) == 3 else ("images", "volumes")
            raise ValueError(
                f"the model sees {seen}, and the run reads {read}: axes={self.model.get('axes', 2)} and volumes="
                f"{self.volumes}. Give a model of {read}, or data that are {seen}."
            )
        for name in FROM_DATA:
            if name in self.model:
                raise ValueError(
                    f"{name} comes from the images and is not an option of a run's model; got {name}="
                    f"{self.model[name]!r}. Leave it out."
                )
        if self.parameters is not None and (given := [key for key in WIDTHS if key in self.model]):
            raise ValueError(
                f"parameters={self.parameters:,} chooses the network's width, and {given[0]}={self.model[given[0]]} "
                "gives it already. Give one of the two."
            )
        if self.parameters is not None and self.start is not None:
            raise ValueError(
                f"parameters={self.parameters:,} chooses the network's width, and start={self.start!r} gives the "
                "network. Give one of the two."
            )
        if self.freeze is not None and self.start is None:
            raise ValueError(
                f"freeze={self.freeze!r} keeps parts of a trained network as they are, and this run starts from random "
                "weights. Give the network to start from (--from), or leave freeze out."
            )

    def _check_orientation(self) -> None:
        """Refuse an orientation unless it can choose the head of a new network that classifies images."""
        if self.orientation == "model":
            return
        entry = CLASSIFIERS.get(self.model.get("name", ""))
        if self.volumes or self.start is not None or entry is None or "head" not in entry.options:
            known = [name for name, other in CLASSIFIERS.items() if "head" in other.options]
            raise ValueError(
                f"orientation={self.orientation} chooses the head of a new network that classifies images, "
                f"{one_of(known)}, and this run trains another one. Leave it out."
            )

    def _check_machine(self) -> None:
        if self.cuda_graphs and self.devices * self.nodes > 1:
            raise ValueError(f"cuda_graphs works on one device only; got {self.devices} devices on {self.nodes} nodes.")
        for name in ("compile", "cuda_graphs"):
            if self.eager and getattr(self, name):
                raise ValueError(f"eager runs the network as ordinary code, and {name} is on. Give one of the two.")
        if self.recipe.batch_size < self.devices * self.nodes:
            raise ValueError(
                f"the batch of {self.recipe.batch_size} images is shared by {self.devices * self.nodes} processes; "
                "use a larger batch or fewer devices."
            )

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {**values, "recipe": self.recipe.to_dict()}

    @staticmethod
    def from_dict(values: dict[str, Any]) -> RunConfig:
        """From JSON; unknown keys are refused."""
        check_names("a run", RunConfig, values)
        for key in ("dataset", "model"):
            if key not in values:
                raise ValueError(f"a run's config has no `{key}`, which every run needs.")
        recipe = values.get("recipe", {})
        return RunConfig(**{**values, "recipe": recipe if isinstance(recipe, Recipe) else Recipe.from_dict(recipe)})

    def save(self, path: Path) -> None:
        write_json(path, self.to_dict())

    @staticmethod
    def load(path: Path) -> RunConfig:
        """The request that ``save`` wrote; a ValueError with the file's name if it was damaged or edited."""
        values = read_object(path)
        try:
            return RunConfig.from_dict(values)
        except (ValueError, TypeError) as error:
            raise ValueError(f"`{path}` is not the config of a run: {error}") from error

    @property
    def left_open(self) -> list[str]:
        """The settings that a plan has to decide."""
        return [name for name in marked(RunConfig, "planned") if getattr(self, name) in (None, "auto")]

    def left_open_again(self) -> RunConfig:
        """This run without what a plan decides for its machine; ``backend`` stays as the user gave it."""
        planned = {*marked(RunConfig, "planned")} - {"backend"}
        defaults: dict[str, Any] = {
            item.name: item.default for item in dataclasses.fields(self) if item.name in planned
        }
        return dataclasses.replace(self, **defaults)

    def elsewhere(self, other: RunConfig) -> RunConfig:
        """This run, on the machine of the other one."""
        where: dict[str, Any] = {name: getattr(other, name) for name in marked(RunConfig, "free")}
        return dataclasses.replace(self, **where)

    def as_settled_in(self, settled: RunConfig) -> RunConfig:
        """This request with its open settings as another config of the same run has them: speed, epochs, sizes."""
        taken: dict[str, Any] = {name: getattr(settled, name) for name in self.left_open}
        if self.minutes is not None and self.minutes == settled.minutes:
            taken |= {"recipe": self.recipe.with_epochs(settled.recipe.epochs), "patience": settled.patience}
            if self.fit == "shrink":
                taken["parameters"] = settled.parameters
                taken["image_size"] = self.image_size or settled.image_size
        if self.parameters is not None and settled.parameters is None:
            sized = {key: settled.model[key] for key in SIZES if key in settled.model}
            taken |= {"parameters": None, "model": {**sized, **self.model}}
        if self.start is not None:
            taken |= {"model": settled.model, "image_size": self.image_size or settled.image_size}
        if self.orientation == "auto" and settled.orientation != "auto":
            head = {"head": settled.model["head"]} if "head" in settled.model else {}
            recipe = dataclasses.replace(taken.get("recipe", self.recipe), mirror=settled.recipe.mirror)
            model = {**taken.get("model", self.model), **head}
            taken |= {"orientation": settled.orientation, "model": model, "recipe": recipe}
        return dataclasses.replace(self, **taken)

    def differences(self, other: RunConfig) -> list[str]:
        """The settings in which two runs would give different results."""
        mine, theirs = self.to_dict(), other.to_dict()
        free = marked(RunConfig, "free")
        return [key for key in mine if key not in free and mine[key] != theirs[key]]
