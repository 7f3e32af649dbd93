"""Folders with `images/` beside `labels/` or `masks/`: the mask of each image, and the part it belongs to."""

from __future__ import annotations

import re
import unicodedata
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

from steerable.data.files import files_below, printable
from steerable.data.part_folders import Part, part_folders, sub_folders, with_test_part
from steerable.errors import listing

__all__ = ["LAYOUT", "FoundPairs", "ImageAndMask", "has_masks", "paired_folder"]

IMAGE_FOLDERS = ("images", "image", "imgs")
MASK_FOLDERS = ("labels", "masks", "label", "mask", "annotations")
WORDS = frozenset(
    ("image", "img", "mask", "masks", "label", "labels", "seg", "segmentation", "gt", "annotation", "ome")
)
"""What people and microscopes (`.ome.tif`) add to the names of images and masks."""
LAYOUT = (
    "`images` and `labels` (or `masks`), with one label image for each image and of the same name, or one folder of "
    "that name with a mask of each object"
)
"""What a folder for segmentation holds, in words."""


@dataclass(frozen=True)
class ImageAndMask:
    """An image file and its mask, its name in messages, and the part of the data that it belongs to.

    The mask is a file, or a folder with a file for each object.
    """

    image: Path
    mask: Path
    name: str
    part: Part = "train"


class FoundPairs(NamedTuple):
    """The pairs of a folder, (name, reason) of files that cannot be used, and other notes."""

    pairs: list[ImageAndMask]
    skipped: list[tuple[str, str]]
    notes: list[str]


def has_masks(root: str | Path) -> bool:
    """Whether a folder is laid out for segmentation."""
    root = Path(root).expanduser()
    return root.is_dir() and bool(_part_folders(root))


def paired_folder(root: Path) -> FoundPairs:
    """The images of a folder with their masks; an image without a mask, or a mask without an image, is named.

    ``root`` holds ``images`` and ``labels`` (or ``masks``); or ``train`` and ``test`` (and ``val``) do; or ``images``
    and ``labels`` have the sub-folders ``train`` and ``test``. Files belong together that have the same name up to the
    ending, as ``a.jpg`` and ``a.png`` or ``a.jpg.png``, or up to words such as ``_mask`` and ``img_``. In place of a
    mask there may be a folder of that name, with a mask of each object. Any of these may be divided among sub-folders
    that have ``images`` and ``masks`` each; if such a folder has a single image, all its masks are of objects in it.
    """
    if not root.is_dir():
        raise FileNotFoundError(f"`{root}` is not a folder. Give a folder with {LAYOUT}.")
    folders = _part_folders(root)
    if not folders:
        raise ValueError(f"`{root}` is not laid out for segmentation, expected {LAYOUT}, in it or in its `train`.")
    images, masks = folders["train"][0]
    found = FoundPairs([], [], _other_masks(root, masks))
    for part, pairs in folders.items():
        for pair in pairs:
            _pair(root, part, *pair, found)
    if not any(pair.part == "train" for pair in found.pairs):
        why = "; ".join(f"`{name}` ({reason})" for name, reason in found.skipped[:5])
        raise ValueError(
            f"no image in `{images}` has a mask in `{masks}`, expected {LAYOUT}. {why or 'They have no files.'}"
        )
    return found


Pairs = list[tuple[Path, Path]]
"""Folders with images, each with that of its masks."""


def _part_folders(root: Path) -> dict[Part, Pairs]:
    """(images, masks) of each part; empty if there are none to train on."""
    found = {part: pairs for part, folder in part_folders(root).items() if (pairs := _pairs_below(folder))}
    if (here := _pair_of_folders(root)) is not None:
        images, masks = map(part_folders, here)
        found |= {part: [(images[part], masks[part])] for part in images if part in masks}
    if "train" in found:
        return with_test_part(found)
    pairs = _pairs_below(root)
    return {"train": pairs} if pairs else {}


def _pairs_below(root: Path) -> Pairs:
    """The pairs of a folder itself, or else those of its sub-folders."""
    folders = (root, *(root / name for name in sub_folders(root)))
    return [pair for folder in folders if (pair := _pair_of_folders(folder)) is not None]


def _pair_of_folders(root: Path) -> tuple[Path, Path] | None:
    names = {entry.name.lower(): entry for entry in root.iterdir() if entry.is_dir()} if root.is_dir() else {}
    images = next((names[name] for name in IMAGE_FOLDERS if name in names), None)
    masks = next((names[name] for name in MASK_FOLDERS if name in names), None)
    return None if images is None or masks is None else (images, masks)


def _pair(root: Path, part: Part, images: Path, masks: Path, found: FoundPairs) -> None:
    """Add the pairs of two folders."""
    image_files, closed = files_below(images)
    mask_files, also_closed = files_below(masks)
    found.skipped.extend([*closed, *also_closed])
    exact, similar = (_by(key, masks, mask_files) for key in (_stem, _key))
    common = _by(_key, images, image_files)
    inside = {_stem(file.parent.relative_to(masks)): file.parent for file in mask_files if file.parent != masks}
    used: set[Path] = set()
    for path in image_files:
        name = printable(path.relative_to(root))
        relative = path.relative_to(images).with_suffix("")
        stem = _stem(relative)
        candidates = exact.get(_stem(path.relative_to(images))) or exact.get(stem, [])
        if not candidates and len(common[_key(relative)]) == 1:
            candidates = similar.get(_key(relative), [])
        if not candidates and stem in inside:
            candidates = [inside[stem]]
        if not candidates and images.parent != root and len(image_files) == 1 and mask_files:
            candidates = [masks]
        shared = used.intersection(candidates)
        used.update(candidates)
        if shared:
            found.skipped.append((name, f"its mask, `{printable(min(shared).name)}`, is that of another image as well"))
        elif len(candidates) == 1:
            found.pairs.append(ImageAndMask(path, candidates[0], name, part))
        elif candidates:
            several = listing([printable(mask.name) for mask in candidates], 3)
            found.skipped.append((name, f"it has several masks, {several}, expected one"))
        else:
            found.skipped.append((name, f"it has no mask of this name in `{printable(masks.name)}`"))
    if unused := [printable(path.relative_to(root)) for path in mask_files if used.isdisjoint((path, path.parent))]:
        found.notes.append(f"no image belongs to {listing(unused, 5)}; such masks are not used. Are images missing?")


def _other_masks(root: Path, masks: Path) -> list[str]:
    """A note on masks that lie beside those that are used, in a folder of another name."""
    folder = masks if masks.name.lower() in MASK_FOLDERS else masks.parent
    others = [name for name in sub_folders(folder.parent) if name.lower() in MASK_FOLDERS and name != folder.name]
    if not others:
        return []
    used, here = printable(folder.relative_to(root)), printable(folder.parent)
    return [f"the masks of `{here}` are read from `{used}`, and {listing(others)} is not used. Remove the wrong one."]


def _by(key: Callable[[Path], str], folder: Path, files: Iterable[Path]) -> dict[str, list[Path]]:
    """The files of a folder by the key of their names, without the endings."""
    found: defaultdict[str, list[Path]] = defaultdict(list)
    for path in files:
        found[key(path.relative_to(folder).with_suffix(""))].append(path)
    return found


def _stem(relative: Path) -> str:
    """A name as text; some systems write the dots of ü as a separate character."""
    return unicodedata.normalize("NFC", str(relative))


def _key(relative: Path) -> str:
    """A name in small letters, without the words that tell images and masks apart."""
    parts = re.split(r"[\W_]+", _stem(Path(relative.name)).lower())
    return _stem(relative.parent / "_".join(part for part in parts if part not in WORDS))
