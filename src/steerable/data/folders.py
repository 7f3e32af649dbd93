"""Image folders with one sub-folder per class: people's own data, of any size, colour or grey."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Unpack

from steerable.data.assembling import FoundFiles, LabelledFile, Reading, assemble
from steerable.data.files import files_below, looks_like_an_image, printable
from steerable.data.labelled_images import LabelledImages
from steerable.data.part_folders import PART_OF, Part, part_folders, sub_folders, with_test_part
from steerable.data.specimens import BY_FOLDER
from steerable.data.splits import Splits
from steerable.errors import listing

__all__ = ["labelled_folder", "load_image_folder"]

MASK = "_mask"  # with which the names of masks end


def load_image_folder(
    root: str | Path, *, group_by: str | None = None, **how: Unpack[Reading]
) -> Splits[LabelledImages]:
    """All images under ``root``, as squares (n, channels, image_size, image_size).

    The sub-folders of ``root/train`` and ``root/test`` (or ``root/val``) are the classes; where there are both ``test``
    and ``val``, the latter is for validation. ``Training``, ``testing`` and ``validation`` are as good. Otherwise the
    sub-folders of ``root`` are the classes, and a share of each becomes the test images. Images keep their aspect, and
    lose what sticks out of the middle square; see :func:`~steerable.data.images.read_squares`. They are grey (1
    channel) if all are, else RGB. Files that cannot be read are left out, named in one warning and listed in
    ``skipped``.

    Args:
        root: the folder.
        group_by: ``"folder"`` where the folders inside each class folder are specimens. Images of one specimen are then
            all trained on or all tested on; folders of the same name in several classes are the same specimen.
        **how: image size, pixels, seed and more, see :class:`~steerable.data.assembling.Reading`.
    """
    root = Path(root).expanduser()
    return assemble(labelled_folder(root, group_by=group_by), root, **how)


def labelled_folder(root: Path, *, fewest_classes: int = 2, group_by: str | None = None) -> FoundFiles:
    """The files below the class folders, and the folders that cannot be opened."""
    if group_by not in (None, BY_FOLDER):
        raise ValueError(
            f"`{root}` is a folder, whose images are grouped by {BY_FOLDER!r}: the folders inside each class folder "
            f"are the specimens. Got {group_by!r}; columns are those of a .csv file."
        )
    if not root.is_dir():
        raise FileNotFoundError(f"`{root}` is not a folder. Give a folder with one sub-folder of images per class.")
    parts = _parts(root)
    classes = _classes(parts["train"], fewest_classes)
    files: list[LabelledFile] = []
    skipped: list[tuple[str, str]] = []
    notes: list[str] = []
    for part, folder in parts.items():
        if unknown := sorted(set(sub_folders(folder)) - set(classes)):
            raise ValueError(
                f"`{folder}` has {listing(unknown)}, expected only the training classes {listing(classes)}. Rename or "
                "remove these folders."
            )
        empty = []
        for name in classes:
            found, closed = files_below(folder / name) if (folder / name).is_dir() else ([], [])
            for path in found:
                shown = printable(path.relative_to(root))
                specimen = _specimen(path.relative_to(folder / name), shown) if group_by else ""
                files.append(LabelledFile(path, shown, printable(name), part, specimen))
            skipped += [(os.path.relpath(name, root), why) for name, why in closed]
            if not found and not closed:
                empty.append(name)
        if empty and part == "train":
            notes.append(f"{listing(empty)} in `{folder}` has no images and is left out. Add some if it is a class.")
    if not any(file.part == "train" for file in files) and not skipped:
        raise ValueError(f"no class in `{parts['train']}` has an image: {listing(classes)} are empty. Add images.")
    if group_by and files and all(file.specimen == file.name for file in files):
        raise ValueError(
            f"no image in `{root}` lies in a folder inside its class folder, and --group-by {BY_FOLDER} takes such "
            "folders for specimens. Make one for each specimen, or leave the option out."
        )
    if "test" in parts and not any(file.part == "test" for file in files):
        raise ValueError(
            f"`{parts['test']}` has no images, expected test images there. Add some, or remove the folder and let "
            "training images be held out."
        )
    return FoundFiles(files, skipped, [*notes, *_odd(parts["train"], files, grouped=group_by is not None)])


def _odd(folder: Path, files: Sequence[LabelledFile], *, grouped: bool) -> list[str]:
    """Notes on files and folders that probably mean something else than what they are read as."""
    notes = []
    loose = sorted(printable(path.name) for path in folder.iterdir() if looks_like_an_image(path))
    if loose:
        notes.append(
            f"{listing(loose, 5)} in `{folder}` {'lies' if len(loose) == 1 else 'lie'} beside the class "
            "folders, without a label, and cannot be used. Put such files into the folder of their class."
        )
    inside: dict[str, set[str]] = {}
    for file in files:
        parts = file.path.relative_to(folder).parts if file.part == "train" else ()
        inside.setdefault(file.label, set()).update(parts[1:2] if len(parts) > 2 else ())
    shared = set.intersection(*inside.values()) if inside else set()
    if len(shared) > 1 and not grouped:
        notes.append(
            f"each of {listing(sorted(inside), 5)} has the folders {listing(sorted(map(printable, shared)), 5)}. If "
            f"these are specimens, give --group-by {BY_FOLDER}, or the test has specimens that were trained on; if "
            "they are the classes, call the folders above them `train` and `test`."
        )
    stems = {str(file.path.with_suffix("")): file.name for file in files}
    masks = [name for stem, name in stems.items() if stem.endswith(MASK) and stem.removesuffix(MASK) in stems]
    if masks:
        notes.append(
            f"{listing(masks, 5)} look like masks of the images beside them, and are taken for images of their class. "
            "Move them to another folder."
        )
    return notes


def _specimen(inside: Path, shown: str) -> str:
    """The folder inside the class folder; an image outside such folders is a specimen of its own."""
    return printable(inside.parts[0]) if len(inside.parts) > 1 else shown


def _parts(root: Path) -> dict[Part, Path]:
    """The folders whose sub-folders are classes; if others lie beside a ``train``, it is a class as well."""
    found = part_folders(root)
    others = {name.lower() for name in sub_folders(root)} - PART_OF.keys()
    if "train" not in found or (len(found) == 1 and others):
        return {"train": root}
    return with_test_part(found)


def _classes(folder: Path, fewest: int) -> list[str]:
    """The sub-folders, sorted by name."""
    names = sub_folders(folder)
    table = next(iter(sorted(folder.glob("*.csv"))), None)
    hint = f" Or give the table: {table}." if table is not None else ""
    if not names:
        raise ValueError(
            f"`{folder}` has no sub-folders, expected one for each class: its name is the label of the images in it. "
            f"Sort the images into such folders.{hint}"
        )
    if len(names) < fewest:
        inside = folder / names[0]
        hint = f" Or did you mean {inside}?" if len(sub_folders(inside)) > 1 else hint
        raise ValueError(
            f"`{folder}` has only one class, {listing(names)}; expected at least two sub-folders, as otherwise "
            f"there is nothing to tell apart. Give the folder above the classes, or above `train` and `test`.{hint}"
        )
    return names
