"""Two settings tried on images in seconds: a small network for each, with the same steps and validation images."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from steerable.data.batches import Batches
from steerable.data.images import Progress
from steerable.training.choosing.speed import this_machine
from steerable.training.choosing.timing import take_step
from steerable.training.evaluation.intervals import Difference, Estimate, difference, estimate
from steerable.training.evaluation.posed_values import upright_values
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.optimiser import set_learning_rate
from steerable.training.learning.pixel_classifier import PixelClassifier
from steerable.training.learning.preparing import TrainingData, make_classifier, training_batches
from steerable.training.requests.config import RunConfig

__all__ = ["Trial", "try_both"]

SIMPLE: dict[str, Any] = {"parameters": None, "backend": "dense", "precision": "32-true"}
SIMPLE |= dict.fromkeys(("channels_last", "cuda_graphs", "compile"), False)


@dataclass(frozen=True)
class Trial:
    """The results of two small networks on the same upright validation images: accuracy, or Dice of the images.

    Args:
        images: how many there were.
        steps: how many steps each network took.
        usual: the figure of the usual network.
        other: that of the other one.
        difference: the other's figure less the usual one's.
    """

    images: int
    steps: int
    usual: Estimate
    other: Estimate
    difference: Difference


def try_both(
    usual: RunConfig, other: RunConfig, data: TrainingData, *, steps: int, progress: Progress | None = None
) -> Trial:
    """Train the networks of two configs for the same number of steps, and compare them on the validation images.

    The outcome depends on neither the machine nor what else it does.

    Args:
        usual: the one config, with a small network.
        other: the other one.
        data: the images, of which some are for validation; the test images are not looked at.
        steps: of each network.
        progress: called with (steps done, those of both networks).
    """
    validation = data.validation
    if validation is None:
        raise ValueError("two settings are compared on validation images, and none are held out.")
    values = []
    for number, settings in enumerate((usual, other)):

        def tell(done: int, before: int = number * steps) -> None:
            if progress is not None:
                progress(before + done, 2 * steps)

        simple = replace(settings, recipe=replace(settings.recipe, ema_decay=0.0), **SIMPLE)
        module = _trained(simple, data, steps, tell)
        if isinstance(module, PixelClassifier):
            values.append(upright_values(module.whole, validation, answer=module.answer))
        else:
            values.append(upright_values(module, validation, device=module.device))
    specimens = getattr(validation, "specimens", ())
    ours, theirs = (estimate(each, specimens) for each in values)
    return Trial(len(validation), steps, ours, theirs, difference(values[1], values[0], specimens))


def _trained(settings: RunConfig, data: TrainingData, steps: int, tell: Callable[[int], None]) -> Classifier:
    """The network after these steps; the recipe's schedule is spread over them."""
    device = torch.device(this_machine(settings).device)
    module = make_classifier(settings, data).to(device).train()
    optimiser, recipe = module.configure_optimizers(), settings.recipe
    batches = training_batches(settings, data, device)
    endless = itertools.chain.from_iterable(_epoch(batches, epoch) for epoch in itertools.count())
    for step in range(steps):
        set_learning_rate(optimiser, recipe.learning_rate_at(step / steps * recipe.epochs))
        take_step(module, optimiser, *next(endless))
        tell(step + 1)
    return module.eval()


def _epoch(batches: Batches, number: int) -> Iterator[tuple[Tensor, Tensor]]:
    batches.set_epoch(number)
    return iter(batches)
