"""The results of a run when it ends: its network, its figures, its worst mistakes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from steerable.atomic import write_json
from steerable.data.images import Progress
from steerable.data.labelled_images import LabelledImages
from steerable.data.masked_images import MaskedImages
from steerable.training.evaluation.class_figures import class_figures
from steerable.training.evaluation.mistakes import worst_mistakes
from steerable.training.evaluation.poses import PoseReport, pose_report, upright_scores
from steerable.training.evaluation.segmentation_pictures import example_pictures
from steerable.training.evaluation.segmentation_poses import segmentation_poses
from steerable.training.evaluation.turns import group_of
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.pixel_classifier import PixelClassifier
from steerable.training.learning.preparing import Images, TrainingData, augmentation
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RunConfig
from steerable.training.running.environment import environment
from steerable.training.trained_networks.model_facts import model_facts, save_network

__all__ = ["Measured", "save_model", "upright_figures", "write_outcome"]


@dataclass(frozen=True)
class Measured:
    """Measurements made while a run was trained.

    Args:
        figures: losses and accuracies of validation and test.
        epochs: how many were trained.
        minutes: how long that took.
        stopped: whether somebody ended the training before its last epoch.
        upright: the scores of the test images as they are, (n, classes), where they are known already.
    """

    figures: Mapping[str, float]
    epochs: int
    minutes: float
    stopped: bool = False
    upright: Tensor | None = None


def write_outcome(
    folder: Path | None,
    settings: RunConfig,
    module: Classifier,
    data: TrainingData,
    measured: Measured,
    phase: Phase = unseen,
) -> dict[str, Any]:
    """Write the network and its facts into the run folder, and return what ``results.json`` contains.

    Args:
        folder: the run folder; None in all processes but the first, which write nothing and look at no poses.
        settings: of the run.
        module: the trained network, on its device.
        data: what it was trained and is tested on.
        measured: while it was trained.
        phase: shows what is being done.
    """
    poses: PoseReport | None = None
    shown: dict[str, Any] = {}
    if settings.evaluate == "test" and folder is not None:
        with phase("testing all poses") as progress:
            poses, shown = _looked_at(module.eval(), data.test, measured.upright, progress)
    results = _results(settings, module, data, measured, poses)
    if folder is not None:
        # A card is for others: of a folder it has the name, not the place.
        origin = Path(settings.start).name if settings.start and Path(settings.start).is_absolute() else settings.start
        facts = model_facts(results, data.summary(), origin)
        save_model(module, folder / "model", data, settings.model, facts)
        for name, values in shown.items():
            write_json(folder / name, values)
        write_json(folder / "environment.json", environment())
        write_json(folder / "results.json", results)
    return results


def upright_figures(scores: Tensor, labels: Tensor) -> dict[str, float]:
    """The loss and the accuracy of these scores (n, classes) of the test images."""
    labels = labels.to(scores.device)
    right = (scores.argmax(1) == labels).double().mean()
    return {"test_accuracy": float(right), "test_loss": float(F.cross_entropy(scores, labels))}


def save_model(
    module: Classifier, folder: Path, data: TrainingData, model: dict[str, Any], facts: Mapping[str, Any]
) -> None:
    """Save the trained network and its normalisation in safetensors, a model card, and the classes' names."""
    images = {
        "classes": list(data.train.classes),
        "image_size": data.train.image_size[0],
        "channels": data.train.channels,
        "pixels": None if data.pixels is None else data.pixels.to_dict(),
        "model": model,
    }
    if isinstance(data.train, MaskedImages):
        images |= {"masks": data.train.kind, "mask_values": list(data.mask_values)}
    save_network(module.best_model, folder, module.normalisation, images=images, facts=facts)


def _looked_at(
    module: Classifier, test: Images, upright: Tensor | None, progress: Progress | None
) -> tuple[PoseReport, dict[str, Any]]:
    """(the effect of a pose on scores or pixels of the test images, what is shown of single images, by file)."""
    if isinstance(module, PixelClassifier) and isinstance(test, MaskedImages):
        whole, answer = module.whole, module.answer
        poses = segmentation_poses(whole, answer, test, progress=progress)
        return poses, {"pictures.json": example_pictures(whole, answer, test)}
    if not isinstance(test, LabelledImages):
        raise TypeError(f"images with masks need a PixelClassifier, got {type(module).__name__}.")
    device = module.device
    known = upright_scores(module, test, device=device) if upright is None else upright
    own = group_of(module.model)
    found = pose_report(module, test, own=own, device=device, progress=progress, upright=known)
    return found, {"mistakes.json": worst_mistakes(known, test)}


def _results(
    settings: RunConfig, module: Classifier, data: TrainingData, measured: Measured, poses: PoseReport | None
) -> dict[str, Any]:
    right = "test_accuracy" if settings.evaluate == "test" else "val_accuracy"
    device = module.device
    return {
        "dataset": data.name,
        "task": settings.task,
        "labels": len(data.train),
        "augmentation": str(augmentation(settings, data.train) or "none"),
        "classes": list(data.train.classes),
        "image_size": list(data.train.image_size),
        "model": settings.model,
        "seed": settings.seed,
        "parameters": sum(p.numel() for p in module.model.parameters()),
        "epochs": measured.epochs,
        f"{settings.evaluate}_error": 1 - measured.figures[right],
        **measured.figures,
        **(class_figures(poses.confusion) if poses is not None else {}),
        "poses": poses.to_dict() if poses is not None else None,
        "training_minutes": measured.minutes,
        "stopped": measured.stopped,
        "hardware": torch.cuda.get_device_name(device) if device.type == "cuda" else environment()["cpu"],
    }
