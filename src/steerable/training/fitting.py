"""How wide a network is and how long it is trained, from a number of parameters and a time."""

from __future__ import annotations

import itertools
import time
import warnings
from dataclasses import replace

import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.training.classifier import Classifier
from steerable.training.config import RunConfig
from steerable.training.limits import MOST_EPOCHS
from steerable.training.preparing import TrainingData, make_classifier, training_batches
from steerable.training.sizing import sized_model, with_depth
from steerable.training.speed import autocast, this_machine

__all__ = ["fitted_to_minutes", "settle_backends", "with_sized_model"]

FEWEST_EPOCHS = 30  # below these a smaller network is the better use of the time
TIMED_STEPS = 25


def with_sized_model(config: RunConfig, data: TrainingData) -> RunConfig:
    """The config with the width that its number of parameters asks for, where it has one."""
    if config.parameters is None:
        return config
    kind = {"in_channels": data.train.channels, "num_classes": len(data.train.classes)}
    # Small images need few convolutions to be seen as a whole.
    depth = 8 if max(data.train.image_size) < 32 else 14
    model = sized_model(with_depth(config.model, depth), config.parameters, **kind)
    return replace(config, model=model, parameters=None)


def fitted_to_minutes(config: RunConfig, data: TrainingData, minutes: float) -> RunConfig:
    """The same config with as many epochs as fit the time, by timing a few steps of a throw-away copy.

    ``config.fit`` says whether that may be more epochs than the recipe has, and whether a narrower network is taken
    where fewer than 30 epochs would fit. The steps are timed as the run will take them: with its precision, recorded or
    not, and with backends that have been measured.
    """
    seconds = 60 * minutes
    while True:
        started = time.perf_counter()
        epochs = _epochs_within(seconds, with_sized_model(config, data), data)
        seconds -= time.perf_counter() - started
        smaller = None if config.parameters is None else replace(config, parameters=config.parameters // 2)
        if (
            config.fit != "shrink"
            or smaller is None
            or epochs >= min(FEWEST_EPOCHS, config.recipe.epochs)
            or with_sized_model(smaller, data) == with_sized_model(config, data)
        ):
            break
        config = smaller
    if config.fit != "stretch":
        if epochs < min(10, config.recipe.epochs):
            warnings.warn(
                f"only {epochs} {'epoch fits' if epochs == 1 else 'epochs fit'} {minutes:g} minutes, which is little "
                "to learn in. Give more minutes or a smaller image size.",
                stacklevel=2,
            )
        epochs = min(epochs, config.recipe.epochs)
    return replace(config, recipe=config.recipe.with_epochs(epochs))


def settle_backends(module: Classifier, images: Tensor) -> dict[str, str]:
    """Measure how each convolution is best carried out in training on such images, and return the choice as text."""
    settings = module.settings
    with autocast(images.device, settings.precision):
        snn.choose_backends(module.model, module.prepare(images), cuda_graphs=bool(settings.cuda_graphs))
    return snn.recorded_backends(module.model)


def _epochs_within(seconds: float, config: RunConfig, data: TrainingData) -> int:
    device = torch.device(this_machine(config).device)
    module = make_classifier(config, data).to(device)
    batches = training_batches(config, data, device)
    settle_backends(module, batches.batch(0)[0])
    longest = seconds / (50 if config.fit == "shrink" else 10)  # several sizes may be tried
    endless = itertools.chain.from_iterable(itertools.repeat(batches))
    times: list[float] = []
    optimiser = module.configure_optimizers()
    for images, labels in endless:
        times.append(_step_time(module, optimiser, images, labels))
        # The first step, which computes filter bases, is not counted; three at least are.
        if len(times) > TIMED_STEPS or (len(times) > 3 and sum(times[1:]) >= longest):
            break
    typical = sorted(times[1:])[len(times) // 2 - 1]
    # A twentieth is left for checkpoints and the test; validation costs a third of training, image by image.
    shares = 1 + (len(data.validation) / len(data.train) / 3 if data.validation is not None else 0)
    return min(MOST_EPOCHS, max(1, int(0.95 * seconds / (typical * len(batches) * shares))))


def _step_time(module: Classifier, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> float:
    """Seconds that one step takes."""
    started = time.perf_counter()
    with autocast(images.device, module.settings.precision):
        scores = module.network(module.prepare(images))
    nn.functional.cross_entropy(scores.float(), labels).backward()
    optimiser.step()
    optimiser.zero_grad()
    if images.is_cuda:
        torch.cuda.synchronize()
    return time.perf_counter() - started
