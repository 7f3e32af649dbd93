"""Two settings tried on images in seconds: a small network for each, the same time, the same validation images."""

from __future__ import annotations

import itertools
import math
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from steerable.data.batches import Batches
from steerable.data.images import Progress
from steerable.models.registry import MODELS
from steerable.training.choosing.sizing import sized_model, with_depth, with_stem
from steerable.training.choosing.speed import this_machine
from steerable.training.choosing.timing import take_step
from steerable.training.evaluation.intervals import Difference, Estimate, difference, estimate
from steerable.training.evaluation.posed_values import upright_values
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.optimiser import set_learning_rate
from steerable.training.learning.pixel_classifier import PixelClassifier
from steerable.training.learning.preparing import TrainingData, from_data, make_classifier, training_batches
from steerable.training.requests.config import RunConfig

__all__ = ["Trial", "changed_model", "try_both"]

PARAMETERS = 30_000  # of each network


@dataclass(frozen=True)
class Trial:
    """What two small networks made of the same validation images, upright: accuracy, or Dice of the images.

    Args:
        images: how many there were.
        seconds: how long each network was trained.
        steps: how many steps each of them took in that time.
        usual: the figure of the usual network.
        other: that of the other one.
        difference: the other's figure less the usual one's.
    """

    images: int
    seconds: float
    steps: tuple[int, int]
    usual: Estimate
    other: Estimate
    difference: Difference


def try_both(
    config: RunConfig,
    data: TrainingData,
    model: Mapping[str, Any],
    changes: Mapping[str, Any],
    *,
    seconds: float = math.inf,
    steps: int | None = None,
    progress: Progress | None = None,
) -> Trial:
    """Train the network of a config and another one for as long each, and compare them on the validation images.

    Args:
        config: the request with the usual network.
        data: its images, of which some are for validation; the test images are not looked at.
        model: options in which the other network differs, with its name where that is another one.
        changes: settings of the recipe in which it differs.
        seconds: for each network, where it has no number of steps.
        steps: of each network, with which the outcome does not depend on the machine's speed.
        progress: called with (hundredths of the training, 200).
    """
    validation = data.validation
    if validation is None:
        raise ValueError("two settings are compared on validation images, and none are held out.")
    other = replace(config, model=changed_model(config.model, model), recipe=replace(config.recipe, **changes))
    values, counts = [], []
    for number, settings in enumerate((config, other)):

        def tell(share: float, before: int = 100 * number) -> None:
            if progress is not None:
                progress(before + int(100 * share), 200)

        module, taken = _trained(_small(settings, data), data, (seconds, steps), tell)
        if isinstance(module, PixelClassifier):
            values.append(upright_values(module.whole, validation, answer=module.answer))
        else:
            values.append(upright_values(module, validation, device=module.device))
        counts.append(taken)
    specimens = getattr(validation, "specimens", ())
    usual, tried = values
    figures = estimate(usual, specimens), estimate(tried, specimens), difference(tried, usual, specimens)
    return Trial(len(validation), seconds, (counts[0], counts[1]), *figures)


def changed_model(model: Mapping[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The model with other options; another model has only those."""
    return dict(changes) if "name" in changes else {**model, **changes}


def _small(settings: RunConfig, data: TrainingData) -> RunConfig:
    """The settings with a small network, unless they say how wide it is, run in the simplest way."""
    model = with_stem(with_depth(settings.model, shallow=True), data.side)
    if MODELS[model["name"]].width not in model:
        model = sized_model(model, PARAMETERS, **from_data(model, data))
    return replace(
        settings,
        model=model,
        recipe=replace(settings.recipe, ema_decay=0.0),
        parameters=None,
        backend="dense",
        precision="32-true",
        channels_last=False,
        cuda_graphs=False,
        compile=False,
    )


def _trained(
    settings: RunConfig, data: TrainingData, length: tuple[float, int | None], tell: Callable[[float], None]
) -> tuple[Classifier, int]:
    """(the network after some seconds or steps, its steps); the learning rate follows the one or the other."""
    seconds, count = length
    device = torch.device(this_machine(settings).device)
    module = make_classifier(settings, data).to(device).train()
    optimiser, recipe = module.configure_optimizers(), settings.recipe
    batches = training_batches(settings, data, device)
    endless = itertools.chain.from_iterable(_epoch(batches, epoch) for epoch in itertools.count())
    take_step(module, optimiser, *next(endless))  # which computes filter bases
    begun, steps = time.monotonic(), 1
    while (share := (time.monotonic() - begun) / seconds if count is None else steps / count) < 1:
        set_learning_rate(optimiser, recipe.learning_rate_at(share * recipe.epochs))
        take_step(module, optimiser, *next(endless))
        steps += 1
        tell(share)
    return module.eval(), steps


def _epoch(batches: Batches, number: int) -> Iterator[tuple[Tensor, Tensor]]:
    batches.set_epoch(number)
    return iter(batches)
