"""The common properties of the masks of a data set: classes or objects, their numbers, and a size for tiles."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from steerable.data.images import each_file
from steerable.data.mask_files import COLOUR, Labels, colours_shown, label_name
from steerable.data.masked_images import MaskKind
from steerable.data.regions import connected_regions
from steerable.errors import listing

__all__ = ["class_values", "kind_of_masks", "object_numbers", "palettes_differ", "tile_for"]

MOST_CLASSES = 64  # with more, a mask holds something else than classes
LARGEST_TILE, SMALLEST_TILE, STEP = 128, 32, 16
LOOKED_AT = 40  # masks, to find out whether they hold objects
FEW_CLASSES = 10  # numbers with gaps; more of them are the numbers of objects
FEW_VALUES = 3  # a mask with more objects than that is needed to tell objects from classes


def tile_for(sizes: Sequence[tuple[int, ...]]) -> int:
    """The side of the tiles for images of these sizes: the median of their shorter sides, 32 to 128, in steps of 16.

    >>> tile_for([(100, 300)]), tile_for([(2048, 2048)]), tile_for([(20, 24)])
    (96, 128, 32)
    """
    median = int(np.median([min(size) for size in sizes]))
    return max(SMALLEST_TILE, min(LARGEST_TILE, median // STEP * STEP))


def kind_of_masks(masks: Sequence[Labels]) -> MaskKind:
    """``"instances"`` if nearly every number is one connected object and masks have different highest numbers.

    They are numbered without many gaps, or by numbers that are many or that some masks alone have, as in parts of one
    large picture and where objects are followed through time. Few numbers with gaps that come again are classes.
    """
    some = masks[:: max(1, len(masks) // LOOKED_AT)]
    highest = [int(labels.max()) for labels in some]
    if max(highest) <= FEW_VALUES or max(highest) >= COLOUR or (len(set(highest)) < 2 and len(some) > 1):
        return "classes"
    numbers = [np.unique(labels[labels > 0]) for labels in some]
    shown_in = np.unique(np.concatenate(numbers), return_counts=True)[1]
    values, different, alone = sum(map(len, numbers)), len(shown_in), int((shown_in == 1).sum())
    come_again = 2 * different < values and alone <= max(1, different // 3)
    if 2 * values < sum(highest) and come_again and different <= FEW_CLASSES:
        return "classes"
    regions = sum(connected_regions(labels)[1] for labels in some)
    return "instances" if regions <= 1.25 * values else "classes"


def palettes_differ(masks: Sequence[Path], notes: list[str]) -> bool:
    """Whether the numbers in masks with palettes say nothing, because each file numbers the colours that it shows.

    Colours are then the classes, which ``notes`` say. Where there are too many of them, numbers are those of objects.
    """
    known: dict[int, tuple[int, ...]] = {}
    colours, differ = set(), False
    for found in each_file(colours_shown, masks):
        for number, colour in found.items() if isinstance(found, dict) else ():
            differ |= known.setdefault(number, colour) != colour
            colours.add(colour)
    if differ := differ and len(colours) <= MOST_CLASSES:
        notes.append("the palettes of the masks differ, and the colours are the classes, not their numbers.")
    return differ


def object_numbers(masks: Sequence[Labels], root: Path, notes: list[str]) -> list[Labels]:
    """Masks with one number for each object, and 0 for the background; masks without any object are refused.

    Black is the background of masks with colours. Where masks tell objects from the background only, so that several
    have the same number, what is connected is one object.

    Args:
        masks: of all images.
        root: where they come from, for messages.
        notes: what is noticed is added to them.
    """
    masks = [np.where(labels == COLOUR, 0, labels) for labels in masks]
    values = [len(np.unique(labels[labels > 0])) for labels in masks]
    if not any(values):
        raise ValueError(
            f"the masks in `{root}` hold no object: all pixels are 0, the background. Are they the right files?"
        )
    if max(values) == 1:
        regions = [connected_regions(labels) for labels in masks]
        if sum(count for _, count in regions) > sum(values):
            notes.append(
                "the masks have one number for all objects of an image; what is connected counts as one object."
            )
            return [found.astype(np.int64) for found, _ in regions]
    return masks


def class_values(masks: Sequence[Labels], root: Path, notes: list[str]) -> tuple[int, ...]:
    """The different numbers in these masks, sorted: the classes. Too many or too few are refused.

    Args:
        masks: those of the training images.
        root: where they come from, for messages.
        notes: what is noticed is added to them.
    """
    shown: Counter[int] = Counter()
    for labels in masks:
        shown.update(np.unique(labels).tolist())
    values = tuple(sorted(shown))
    if len(values) < 2:
        raise ValueError(
            f"the masks in `{root}` hold only the value {label_name(values[0])}, expected at least two, as otherwise "
            "there is nothing to tell apart. Are they the right files, or all empty?"
        )
    if len(values) > MOST_CLASSES:
        raise ValueError(
            f"the masks in `{root}` hold {len(values):,} different values, expected at most {MOST_CLASSES} classes. "
            "Were they resized, or saved with lossy compression? Masks with one number for each object need --masks "
            "instances."
        )
    if values[-1] < COLOUR and len(values) > 2 and values != tuple(range(len(values))):
        notes.append(
            f"the masks hold the numbers {listing(list(map(label_name, values)), 8)}, with gaps between them; each is "
            "a class."
        )
    return values
