"""A trained network from its run folder: evaluate it, predict with it."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from steerable.models import MODELS
from steerable.training.config import RunConfig
from steerable.training.datasets import load_dataset
from steerable.training.images import read_images
from steerable.training.labelled import LabelledImages
from steerable.training.poses import pose_report
from steerable.training.preprocessing import Normalisation

__all__ = ["Prediction", "TrainedModel"]


@dataclass(frozen=True)
class Prediction:
    """What an image was taken for."""

    file: str
    label: str
    probability: float


class TrainedModel(nn.Module):
    """Network, normalisation and class names of a finished run; uint8 images → class scores."""

    def __init__(
        self, model: nn.Module, normalisation: Normalisation, classes: tuple[str, ...], config: RunConfig, size: int
    ) -> None:
        super().__init__()
        self.model, self.normalisation = model, normalisation
        self.classes, self.config, self.image_size = classes, config, size

    @staticmethod
    def load(run: str | Path) -> TrainedModel:
        """From a run folder that ``train`` has finished; nothing is unpickled."""
        run = Path(run)
        if not (run / "results.json").is_file():
            raise FileNotFoundError(
                f"{run} has no results.json: it is no run folder, or its run has not finished. Finish it with the "
                "command that started it."
            )
        config = RunConfig.load(run / "config.json")
        results = json.loads((run / "results.json").read_text())
        model = MODELS[config.model["name"]].from_pretrained(run / "model")
        normalisation = Normalisation.load(run / "model" / "normalisation.safetensors")
        return TrainedModel(
            model, normalisation, tuple(results["classes"]), config, int(results["image_size"][0])
        ).eval()

    def forward(self, images: Tensor) -> Tensor:
        scores: Tensor = self.model(self.normalisation(images))
        return scores

    def evaluate(self, dataset: str | None = None, data_dir: str | None = None) -> dict[str, Any]:
        """Accuracy and drift under every pose of the run's own test images, or of another data set's."""
        name = dataset or self.config.dataset
        splits = load_dataset(
            name, data_dir=data_dir or self.config.data_dir, image_size=self.config.image_size or None
        )
        self._check(splits.test)
        poses = pose_report(self, splits.test)
        return {
            "dataset": name,
            "model": self.config.model,
            "parameters": sum(p.numel() for p in self.model.parameters()),
            "test_error": 1 - poses.upright,
            "poses": poses.to_dict(),
        }

    @torch.no_grad()
    def predict_files(self, path: Path) -> tuple[list[Prediction], list[tuple[str, str]]]:
        """(predictions, [(file, why it was left out)]) for an image or all images of a folder."""
        channels = self.normalisation.channels
        files, images, skipped = read_images(path, self.image_size, channels)
        predictions = []
        for start in range(0, len(files), 256):
            probabilities = self(images[start : start + 256]).softmax(1)
            best, label = probabilities.max(1)
            names = files[start : start + 256]
            predictions += [
                Prediction(file, self.classes[int(k)], float(p)) for file, k, p in zip(names, label, best, strict=True)
            ]
        return predictions, skipped

    def _check(self, data: LabelledImages) -> None:
        if data.classes != self.classes:
            raise ValueError(
                f"the network knows the classes {', '.join(self.classes[:8])}, the data have "
                f"{', '.join(data.classes[:8])}; evaluate it on data with the same classes."
            )
