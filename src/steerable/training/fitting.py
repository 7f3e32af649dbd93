"""How wide a network is and how long it is trained, from a number of parameters and a time."""

from __future__ import annotations

import itertools
import time
import warnings
from dataclasses import replace

import torch
from torch import nn

from steerable.data.batches import DeviceBatches
from steerable.training.classifier import Classifier
from steerable.training.config import RunConfig
from steerable.training.limits import MOST_EPOCHS
from steerable.training.preparing import TrainingData, make_classifier
from steerable.training.sizing import sized_model

__all__ = ["fitted_to_minutes", "with_sized_model"]

FEWEST_EPOCHS = 30  # below these a smaller network is the better use of the time
TIMED_STEPS = 25


def with_sized_model(config: RunConfig, data: TrainingData) -> RunConfig:
    """The config with the width that its number of parameters asks for, where it has one."""
    if config.parameters is None:
        return config
    kind = {"in_channels": data.train.channels, "num_classes": len(data.train.classes)}
    # Small images need few convolutions to be seen as a whole.
    depth = 8 if max(data.train.image_size) < 32 else 14
    model = sized_model({"depth": depth, **config.model}, config.parameters, **kind)
    return replace(config, model=model, parameters=None)


def fitted_to_minutes(config: RunConfig, data: TrainingData, minutes: float) -> RunConfig:
    """The same config with as many epochs as fit the time, by timing a few steps of a throw-away copy.

    ``config.fit`` says whether that may be more epochs than the recipe has, and whether a narrower network is taken
    where fewer than 30 epochs would fit.
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
                f"only {epochs} epochs fit {minutes:g} minutes, which is little to learn in. Give more minutes or a "
                "smaller image size.",
                stacklevel=2,
            )
        epochs = min(epochs, config.recipe.epochs)
    return replace(config, recipe=config.recipe.with_epochs(epochs))


def _epochs_within(seconds: float, config: RunConfig, data: TrainingData) -> int:
    module = make_classifier(config, data)
    device = torch.device("cuda" if config.accelerator != "cpu" and torch.cuda.is_available() else "cpu")
    module.to(device)
    batches = DeviceBatches(data.train, config.recipe.batch_size, shuffle=True, seed=config.seed, device=device)
    longest = seconds / (50 if config.fit == "shrink" else 10)  # several sizes may be tried
    times = _step_times(module, batches, config.precision, longest)
    typical = sorted(times)[len(times) // 2]
    # A twentieth is left for checkpoints and the test; validation costs a third of training, image by image.
    shares = 1 + (len(data.validation) / len(data.train) / 3 if data.validation is not None else 0)
    return min(MOST_EPOCHS, max(1, int(0.95 * seconds / (typical * len(batches) * shares))))


def _step_times(module: Classifier, batches: DeviceBatches, precision: str, longest: float) -> list[float]:
    """Seconds of each of a few steps, three at least; a first one, which computes filter bases, is not counted."""
    optimiser = module.configure_optimizers()
    device = next(module.parameters()).device
    times: list[float] = []
    endless = itertools.chain.from_iterable(itertools.repeat(batches))
    for step, (images, labels) in enumerate(endless):
        started = time.perf_counter()
        with torch.autocast(device.type, torch.bfloat16, enabled=precision.startswith("bf16")):
            scores = module.network(module.prepare(images))
        nn.functional.cross_entropy(scores.float(), labels).backward()
        optimiser.step()
        optimiser.zero_grad()
        if device.type == "cuda":
            torch.cuda.synchronize()
        if step:
            times.append(time.perf_counter() - started)
        if len(times) == TIMED_STEPS or (len(times) >= 3 and sum(times) >= longest):
            break
    return times
