"""The facts beside the weights of a trained network: the kind of its images, its figures, and its model card."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from torch import nn

from steerable.atomic import write_json
from steerable.data.normalisation import Normalisation
from steerable.training.requests.run_files import FACTS, FACTS_JSON, read_fields

__all__ = ["facts_in", "model_facts", "save_network"]

FIGURES = {
    "test_accuracy": "accuracy",
    "balanced_accuracy": "balanced accuracy",
    "macro_f1": "F1, mean over classes",
    "test_dice": "Dice",
    "test_iou": "IoU",
    "test_average_precision": "average precision, mean over IoU 0.5 to 0.95",
    "test_ap50": "average precision at IoU 0.5",
    "test_loss": "loss",
    "val_accuracy": "accuracy of validation images",
    "val_dice": "Dice of validation images",
}
"""The figures of ``results.json`` that a card shows; of test images, where nothing else is said."""


def model_facts(results: Mapping[str, Any], data: Mapping[str, Any], start: str | None = None) -> dict[str, Any]:
    """The facts of a run, plain values for JSON.

    Args:
        results: what ``results.json`` contains.
        data: what the plan says about the images.
        start: the network that the run started from, if it did.
    """
    figures = {words: results[name] for name, words in FIGURES.items() if results.get(name) is not None}
    poses = results.get("poses") or {}
    by_pose = poses.get("dice") or poses.get("accuracy") or {}
    if poses.get("all_poses") is not None:
        figures["accuracy, mean over poses"] = poses["all_poses"]
    channels = f", {data['channels']} channels" if data.get("channels") else ""
    return {
        "task": results.get("task", "classify"),
        "dataset": results["dataset"],
        "images": dict(data["images"]),
        "classes": list(data.get("classes") or results.get("classes") or []),
        "size": "×".join(map(str, data.get("image_size") or ())) + f" pixels{channels}",
        "digests": dict(data["digests"]),
        "start": start or "",
        "figures": figures,
        "poses": {
            "figure": "Dice" if poses.get("dice") else "accuracy",
            "values": dict(by_pose),
            "drift": dict(poses.get("drift") or {}),
        },
    }


def save_network(
    network: nn.Module,
    folder: Path,
    normalisation: Normalisation,
    *,
    images: Mapping[str, Any],
    facts: Mapping[str, Any],
    licence: str | None = None,
) -> None:
    """Write a network, its normalisation, its model card, and the facts about its images.

    Args:
        network: one of the library's models.
        folder: where to.
        normalisation: what its images go through.
        images: what ``images.json`` says about them.
        facts: those of its run, for the card.
        licence: that which the user gives to the network.
    """
    network.save_pretrained(folder, licence=licence, facts=facts)  # type: ignore[operator]
    if facts:
        write_json(folder / FACTS_JSON, facts)
    normalisation.save(folder / "normalisation.safetensors")
    write_json(folder / "images.json", images)


def facts_in(folder: Path) -> dict[str, Any]:
    """The facts beside a saved network; empty if nothing is known."""
    path = folder / FACTS_JSON
    return read_fields(path, FACTS) if path.is_file() else {}
