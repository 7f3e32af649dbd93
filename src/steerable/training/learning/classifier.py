"""The Lightning module: one network, one recipe, and an averaged copy of the weights."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any, Self

import lightning.pytorch as pl
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torchmetrics.classification import MulticlassAccuracy

from steerable import nn as snn
from steerable.data.normalisation import Normalisation
from steerable.models.parts import freeze
from steerable.nn.memory_formats import laid_out
from steerable.nn.recorded_network import RecordedNetwork
from steerable.training.learning.compiled_network import CompiledNetwork
from steerable.training.learning.optimiser import make_optimiser, set_learning_rate
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Rescheduled

__all__ = ["Classifier"]

Batch = tuple[Tensor, Tensor]


class Classifier(pl.LightningModule):
    """Trains a network on uint8 images by cross-entropy.

    Args:
        model: (batch, channels, height, width), or with a depth for volumes → (batch, classes).
        normalisation: uint8 images → what the model takes.
        settings: of the run, settled: its recipe, its seed, and how the network is run. The seed seeds what is random
            in the model itself, epoch by epoch, so that a resumed run repeats it.
        num_classes: for the metrics.
        train_size: the number of training images; the schedule counts in epochs, the optimiser in steps.
    """

    def __init__(
        self, model: nn.Module, normalisation: Normalisation, settings: RunConfig, *, num_classes: int, train_size: int
    ) -> None:
        super().__init__()
        self.model, self.normalisation, self.settings = model, normalisation, settings
        self.recipe, self.train_size = settings.recipe, train_size
        self.steps_per_epoch = math.ceil(train_size / self.recipe.batch_size)
        last = torch.channels_last_3d if settings.volumes else torch.channels_last
        self.memory_format = last if settings.channels_last else torch.contiguous_format
        self.model.to(memory_format=self.memory_format)  # type: ignore[call-overload]
        self.frozen = [] if settings.freeze is None else freeze(model, settings.freeze)
        self.averaged = copy.deepcopy(model).requires_grad_(False) if self.recipe.ema_decay else None
        self.figures = self.make_figures(num_classes)
        self.rescheduled: Rescheduled = ()
        self._averaging: list[tuple[list[Tensor], list[Tensor]]] = []

    def train(self, mode: bool = True) -> Self:
        super().train(mode)
        for module in self.frozen:
            module.eval()
        return self

    def make_figures(self, num_classes: int) -> nn.ModuleDict:
        """The figures that are counted in an evaluation, for ``"val"`` and ``"test"``."""
        return nn.ModuleDict({stage: MulticlassAccuracy(num_classes, average="micro") for stage in ("val", "test")})

    @cached_property
    def network(self) -> Callable[[Tensor], Tensor]:
        """The model as it runs in training, kept outside the module tree so that checkpoints have its own keys."""
        run = CompiledNetwork(self.model) if self.settings.compile else self.model
        return RecordedNetwork(self.model, run) if self.settings.cuda_graphs else run

    @property
    def chosen_by(self) -> str:
        """The validation figure that is highest in the best epoch; "" if the loss decides."""
        return ""

    @property
    def best_model(self) -> nn.Module:
        """The network to evaluate: the averaged one if there is one."""
        return self.model if self.averaged is None else self.averaged

    def use_backends(self, recorded: Mapping[str, str]) -> None:
        """Compute the convolutions as a plan says; the module must be on its device, and not yet compiled."""
        for network in (self.model, self.averaged):
            if network is not None:
                snn.use_backends(network, recorded)

    def forward(self, images: Tensor) -> Tensor:
        """Class scores of uint8 images, from the averaged weights if there are any."""
        scores: Tensor = self.best_model(self.prepare(images))
        return scores

    def prepare(self, images: Tensor) -> Tensor:
        """The images as floats in the model's memory format."""
        floats: Tensor = self.normalisation(images)
        return laid_out(floats, self.memory_format)

    def on_train_epoch_start(self) -> None:
        torch.manual_seed(hash((self.settings.seed, self.current_epoch, self.global_rank)) % 2**63)

    def training_step(self, batch: Batch, batch_index: int) -> Tensor:
        images, labels = batch
        scores = self.network(self.prepare(images))
        loss = self.loss(scores.float(), labels)
        if self.trainer.world_size > 1:
            # Processes average their gradients; the last batch of an epoch may be shared unevenly.
            whole = min(self.recipe.batch_size, self.train_size - batch_index * self.recipe.batch_size)
            loss = loss * (len(labels) * self.trainer.world_size / whole)
        together = self.trainer.world_size > 1
        self.log("train_loss", loss.detach(), on_step=False, on_epoch=True, batch_size=len(labels), sync_dist=together)
        return loss

    def loss(self, scores: Tensor, labels: Tensor) -> Tensor:
        """The loss that training minimises."""
        return F.cross_entropy(scores, labels, label_smoothing=self.recipe.label_smoothing)

    def on_train_start(self) -> None:
        """Pair the averaged weights with their own, now that both are where they stay; record anew what has moved."""
        self.__dict__.pop("network", None)
        if self.averaged is None:
            return
        pairs = list(zip(self.averaged.state_dict().values(), self.model.state_dict().values(), strict=True))
        floating = [pair for pair in pairs if pair[0].is_floating_point()]
        counts = [pair for pair in pairs if not pair[0].is_floating_point()]
        self._averaging = [([kept for kept, _ in part], [now for _, now in part]) for part in (floating, counts)]

    def on_train_batch_start(self, batch: Batch, batch_index: int) -> None:
        rate = self.recipe.learning_rate_at(self.global_step / self.steps_per_epoch, self.rescheduled)
        set_learning_rate(self.optimizers(), rate)  # type: ignore[arg-type]

    @torch.no_grad()
    def on_train_batch_end(self, outputs: Any, batch: Batch, batch_index: int) -> None:
        if self.averaged is None:
            return
        # A short memory at first, when the weights still move fast.
        step = self.global_step
        keep = min(self.recipe.ema_decay, (1 + step) / (10 + step))
        # All at once: they are many and small.
        (kept, now), (kept_counts, counts) = self._averaging
        torch._foreach_lerp_(kept, now, 1 - keep)
        if counts:
            torch._foreach_copy_(kept_counts, counts)

    def validation_step(self, batch: Batch, batch_index: int) -> None:
        self._score(batch, "val")

    def test_step(self, batch: Batch, batch_index: int) -> None:
        self._score(batch, "test")

    def _score(self, batch: Batch, stage: str) -> None:
        images, labels = batch
        scores = self(images).float()
        self.figures[stage].update(scores, labels)  # type: ignore[operator]
        self.log(f"{stage}_accuracy", self.figures[stage], on_epoch=True, on_step=False)  # type: ignore[arg-type]
        loss = F.cross_entropy(scores, labels)
        # Over all processes: they decide together when to stop.
        together = self.trainer.world_size > 1
        self.log(f"{stage}_loss", loss, on_epoch=True, on_step=False, batch_size=len(labels), sync_dist=together)

    def configure_optimizers(self) -> torch.optim.Optimizer:
        return make_optimiser(self.model, self.recipe)
