"""What a report shows of segmentation: overlap by class, and pictures of image, truth, prediction and error."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from steerable.reporting.run_records import RunRecord

__all__ = ["PosedExample", "SegmentationExamples", "overlap_rows", "precision_rows", "segmentation_examples"]

PICTURES = ("image", "truth", "prediction", "error")
LARGEST = 12
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")
_COLOUR = re.compile(r"#[0-9a-f]{6}")


@dataclass(frozen=True)
class PosedExample:
    """A test image in one pose: base64 of four PNGs by what they show, "" where the file has something else there."""

    file: str
    dice: float | None
    average_precision: float | None
    pose: str
    pictures: Mapping[str, str]


@dataclass(frozen=True)
class SegmentationExamples:
    """The colours of the classes, and test images from the worst to the best, each in several poses."""

    colours: Mapping[str, str]
    examples: tuple[PosedExample, ...]


def overlap_rows(run: RunRecord) -> list[tuple[str, float | None, float | None]]:
    """(class, Dice, IoU) for all test images of a run; nothing where it does not segment."""
    dice, iou = (run.poses.get(f"class_{name}") for name in ("dice", "iou"))
    if not isinstance(dice, dict) or not isinstance(iou, dict):
        return []
    return [(str(name), _number(value), _number(iou.get(name))) for name, value in dice.items()]


def precision_rows(run: RunRecord) -> list[tuple[str, float | None]]:
    """(overlap, average precision) of the objects in all test images of a run; nothing where it numbers none."""
    found = run.poses.get("precisions")
    return [(str(name), _number(value)) for name, value in found.items()] if isinstance(found, dict) else []


def segmentation_examples(run: RunRecord) -> SegmentationExamples:
    """A run's examples; only what is base64 or a colour goes into the page."""
    found = run.pictures.get("examples")
    examples = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    colours = run.pictures.get("colours")
    shades = colours.items() if isinstance(colours, dict) else ()
    known = {str(name): str(shade) for name, shade in shades if _COLOUR.fullmatch(str(shade))}
    return SegmentationExamples(known, tuple(posed for item in examples[:LARGEST] for posed in _posed(item)))


def _posed(example: Mapping[str, Any]) -> list[PosedExample]:
    poses = example.get("poses")
    found = []
    for pose in poses if isinstance(poses, list) else []:
        if isinstance(pose, dict):
            texts = {name: str(pose.get(name, "")) for name in PICTURES}
            pictures = {name: text if _BASE64.fullmatch(text) else "" for name, text in texts.items()}
            file = str(example.get("file") or "")
            figures = _number(example.get("dice")), _number(example.get("average_precision"))
            found.append(PosedExample(file, *figures, str(pose.get("pose", "?")), pictures))
    return found


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None
