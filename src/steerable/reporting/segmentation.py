"""The part of a report about segmentation: overlap by class, and pictures of image, truth, prediction and error."""

from __future__ import annotations

from typing import Any

from steerable.reporting.run_records import RunRecord

__all__ = ["example_rows", "overlap_rows", "precision_rows"]

LARGEST = 12


def overlap_rows(run: RunRecord) -> list[tuple[str, float | None, float | None]]:
    """(class, Dice, IoU) for all test images of a run; nothing if it does not segment."""
    dice, iou = (run.poses.get(f"class_{name}") or {} for name in ("dice", "iou"))
    return [(name, value, iou.get(name)) for name, value in dice.items()]


def precision_rows(run: RunRecord) -> list[tuple[str, float]]:
    """(overlap, average precision) of the objects in all test images of a run; nothing if it numbers none."""
    return list((run.poses.get("precisions") or {}).items())


def example_rows(run: RunRecord) -> list[dict[str, Any]]:
    """Each pose of a run's examples, with file and figures of the example, and base64 of its pictures."""
    figures = {"file": None, "dice": None, "average_precision": None}
    examples = run.pictures.get("examples", [])[:LARGEST]
    return [{**figures, **example, **pose} for example in examples for pose in example["poses"]]
