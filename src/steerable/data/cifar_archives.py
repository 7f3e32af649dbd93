"""The official archives of CIFAR-10 and CIFAR-100: their files, with the numbers of images and the MD5s."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

__all__ = ["CIFAR10", "CIFAR10_UNCHECKED", "CIFAR100", "CIFAR100_UNCHECKED", "CifarFile", "CifarLayout", "CifarSet"]


@dataclass(frozen=True)
class CifarFile:
    """A file of ``images`` records; if its MD5 is None, it is not checked."""

    name: str
    images: int
    md5: str | None = None


@dataclass(frozen=True)
class CifarLayout:
    """One of the official archives: the folder that it unpacks to, and its files."""

    kind: Literal["python", "binary"]
    folder: str
    archive: str
    archive_md5: str | None
    train: tuple[CifarFile, ...]
    test: CifarFile


@dataclass(frozen=True)
class CifarSet:
    """A data set in several layouts; the first one is downloaded.

    Args:
        name: the name in ``DATASETS``, ``"cifar10"``.
        classes: their names, by label.
        label_bytes: the bytes in front of a binary record; the last is the label (CIFAR-100 has a coarse one first).
        label_key: the key of the labels in the python layout.
        layouts: where the images may be found.
        checked: whether files with another MD5 than the official one are refused; otherwise that is noted.
    """

    name: str
    classes: tuple[str, ...]
    label_bytes: int
    label_key: str
    layouts: tuple[CifarLayout, ...]
    checked: bool = True


def _layouts(
    number: int, folders: tuple[str, str], archive_md5: tuple[str, str], train: dict[str, str], test: dict[str, str]
) -> tuple[CifarLayout, ...]:
    """The python and the binary layout; ``train`` and ``test`` map files to MD5s, and binary files end in .bin."""
    kinds: tuple[Literal["python", "binary"], ...] = ("python", "binary")
    found = []
    for kind, folder, md5 in zip(kinds, folders, archive_md5, strict=True):
        files, tests = (
            [(name, md5) for name, md5 in which.items() if name.endswith(".bin") == (kind == "binary")]
            for which in (train, test)
        )
        found.append(
            CifarLayout(
                kind=kind,
                folder=folder,
                archive=f"cifar-{number}-{kind}.tar.gz",
                archive_md5=md5,
                train=tuple(CifarFile(name, 50_000 // len(files), md5) for name, md5 in files),
                test=CifarFile(tests[0][0], 10_000, tests[0][1]),
            )
        )
    return tuple(found)


CIFAR10 = CifarSet(
    name="cifar10",
    classes=("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"),
    label_bytes=1,
    label_key="labels",
    layouts=_layouts(
        10,
        ("cifar-10-batches-py", "cifar-10-batches-bin"),
        ("c58f30108f718f92721af3b95e74349a", "c32a1d4ab5d03f1284b67883e8d87530"),
        train={
            "data_batch_1": "c99cafc152244af753f735de768cd75f",
            "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
            "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
            "data_batch_4": "634d18415352ddfa80567beed471001a",
            "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
            "data_batch_1.bin": "5dd7e06a14cb22eb9f671a540d1b7c25",
            "data_batch_2.bin": "5ea93a67294ea407fff1d09f752e9692",
            "data_batch_3.bin": "942cd6a4bcdd0dd3c604fbe906cb4421",
            "data_batch_4.bin": "ae636b3ba5c66a11e91e8cb52e771fcb",
            "data_batch_5.bin": "53f37980c15c3d472c316c40844f3f0d",
        },
        test={
            "test_batch": "40351d587109b95175f43aff81a1287e",
            "test_batch.bin": "803d5f7f4d78ea53de84dbe85f74fb6d",
        },
    ),
)

FINE_CLASSES = """
apple aquarium_fish baby bear beaver bed bee beetle bicycle bottle bowl boy bridge bus butterfly camel
can castle caterpillar cattle chair chimpanzee clock cloud cockroach couch crab crocodile cup dinosaur
dolphin elephant flatfish forest fox girl hamster house kangaroo keyboard lamp lawn_mower leopard lion
lizard lobster man maple_tree motorcycle mountain mouse mushroom oak_tree orange orchid otter palm_tree
pear pickup_truck pine_tree plain plate poppy porcupine possum rabbit raccoon ray road rocket rose sea
seal shark shrew skunk skyscraper snail snake spider squirrel streetcar sunflower sweet_pepper table tank
telephone television tiger tractor train trout tulip turtle wardrobe whale willow_tree wolf woman worm
"""

CIFAR100 = CifarSet(
    name="cifar100",
    classes=tuple(FINE_CLASSES.split()),
    label_bytes=2,
    label_key="fine_labels",
    layouts=_layouts(
        100,
        ("cifar-100-python", "cifar-100-binary"),
        ("eb9058c3a382ffc7106e4002c42a8d85", "03b5dce01913d631647c71ecec9e9cb8"),
        train={"train": "16019d7e3df5f24257cddd939b257f8d", "train.bin": "6172c7755cfe09b2fe270c85cebc1b15"},
        test={"test": "f0ef6b0ae62326f3e7ffdfab6717acfc", "test.bin": "4499cfba6c016c1be1438163640a0898"},
    ),
)

CIFAR10_UNCHECKED, CIFAR100_UNCHECKED = (
    replace(cifar, name=f"{cifar.name}-unchecked", checked=False) for cifar in (CIFAR10, CIFAR100)
)
