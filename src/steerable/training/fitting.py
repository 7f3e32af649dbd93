"""How large a network is and how long it is trained, so that it learns what it can in the time that it has."""

from __future__ import annotations

import itertools
import math
import statistics
import time
import warnings
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.training.classifier import Classifier
from steerable.training.config import RunConfig
from steerable.training.limits import MOST_EPOCHS
from steerable.training.preparing import TrainingData, make_classifier, training_batches
from steerable.training.sizing import sides_to_try, sized_model, sizes_to_try, with_depth, with_stem
from steerable.training.speed import autocast, this_machine

__all__ = ["fitted_to_minutes", "most_epochs", "settle_backends", "steps_per_epoch", "with_sized_model"]

FEW_EPOCHS = 30  # a run with fewer says what would have to give
ENOUGH = ((40, 500), (30, 1_000))  # epochs and steps; a larger network that has them is better than more of them
MOST_STEPS = 3_000  # a run with few images has more epochs than its recipe, up to these steps
TOO_FEW = (2, 50)  # epochs and steps; with fewer of both, or less than one epoch, a network learns nothing
WORTH_A_HALVING = 1.5  # times the epochs, where none has enough: for less, images are not made smaller
LARGEST_FIRST_STAGE = 48  # pixels; a network that sees more than that at first is slow
TIMED_STEPS = 25
LONGEST_TRIAL = 0.6  # seconds that the steps of one size are timed
TEST_LOOKS = 10  # how often each test image is looked at: the test, eight poses, the mistakes
BETWEEN_EPOCHS = 0.05  # seconds that validation and bookkeeping take at least
SPARE = 0.93  # the share of the time that is planned; checkpoints and reports take the rest


def with_sized_model(config: RunConfig, data: TrainingData) -> RunConfig:
    """The config with the network that its number of parameters asks for, where it has one."""
    if config.parameters is None:
        return config
    kind = {"in_channels": data.train.channels, "num_classes": len(data.train.classes)}
    # Small images need few convolutions to be seen as a whole.
    model = with_stem(with_depth(config.model, 8 if data.side < 32 else 14), data.side)
    return replace(config, model=sized_model(model, config.parameters, **kind), parameters=None)


def fitted_to_minutes(config: RunConfig, data: TrainingData, minutes: float) -> RunConfig:
    """The same config with a size and a number of epochs that fit the time, by timing steps of throw-away copies.

    ``config.fit`` says whether there may be more epochs than the recipe has, and whether the network's size is chosen
    too: then it is the largest of :func:`~steerable.training.sizing.sizes_to_try` that has enough epochs. Images that
    are too large for any of them, and have no ``config.image_size``, get a smaller one. The steps are timed as the run
    will take them: augmented, with its precision, recorded or not, with measured backends.
    """
    end = time.perf_counter() + 60 * minutes
    if config.fit == "shrink":
        config, data = _largest_that_learns(config, data, end)
        _warn_of_slow_size(data.side // config.model.get("stem", 1), data.side)
    sized = with_sized_model(config, data)
    epochs = _epochs_within(end, sized, data, settle=True)
    if config.fit == "shrink":
        _refuse_too_few(epochs, steps_per_epoch(config, data), minutes)
    whole = min(most_epochs(config, data), max(1, int(epochs)))
    if config.fit != "stretch" and whole < min(FEW_EPOCHS, config.recipe.epochs):
        _warn_of_few(whole, minutes, data)
    patience = config.patience and max(10, round(config.patience * whole / config.recipe.epochs))
    return replace(config, recipe=config.recipe.with_epochs(whole), patience=patience)


def most_epochs(request: RunConfig, data: TrainingData) -> int:
    """How many epochs a run may have, however much time there is."""
    if request.fit == "stretch":
        return MOST_EPOCHS
    more = MOST_STEPS // steps_per_epoch(request, data) if request.fit == "shrink" else 0
    return max(request.recipe.epochs, more)


def settle_backends(module: Classifier, images: Tensor) -> dict[str, str]:
    """Measure how each convolution is best carried out in training on such images, and return the choice as text."""
    settings = module.settings
    with autocast(images.device, settings.precision):
        snn.choose_backends(module.model, module.prepare(images), cuda_graphs=bool(settings.cuda_graphs))
    return snn.recorded_backends(module.model)


class _Choice(NamedTuple):
    """A network for images of some size.

    Args:
        config: with the network, and with the image size where it is another one than that of the images.
        data: with images of that size.
        place: of the network among its sizes, from 0 on; -1 where even the quickest has too few epochs.
        epochs: how many it has.
    """

    config: RunConfig
    data: TrainingData
    place: int
    epochs: float

    def is_better(self, other: _Choice) -> bool:
        """Whether it makes up for images that are smaller than those of the other."""
        if self.place < 0 and other.place < 0:
            return self.epochs > WORTH_A_HALVING * other.epochs
        return self.place >= (2 if other.place == 0 else 0)


def _largest_that_learns(config: RunConfig, data: TrainingData, end: float) -> tuple[RunConfig, TrainingData]:
    """The config with the largest network that has enough epochs until ``end``, and the images that it sees.

    Resolution is given up late: only where no network has enough epochs, or the quickest one alone.
    """
    sides = (
        sides_to_try(config.model, data.side) if config.image_size is None and data.pixels is not None else [data.side]
    )
    best = _largest_at_size(config, data, end)
    for side in sides[1:]:
        if best.place > 0:
            break
        tried = _largest_at_size(replace(config, image_size=side), data.at_size(side), end)
        if not tried.is_better(best):
            break
        best = tried
    return best.config, best.data


def _largest_at_size(config: RunConfig, data: TrainingData, end: float) -> _Choice:
    """The largest network for images of this size that has enough epochs until ``end``, else the quickest one."""
    steps = steps_per_epoch(config, data)
    best = None
    for place, model in enumerate(sizes_to_try(config.model, data.side)):
        sized = replace(config, model=model, parameters=None)
        epochs = _epochs_within(end, sized, data, settle=False)
        enough = any(epochs >= few and epochs * steps >= least for few, least in ENOUGH)
        if best is None or enough:
            best = _Choice(sized, data, place if enough else -1, epochs)
        if not enough:
            break
    return best or _Choice(config, data, -1, 0.0)


def _epochs_within(end: float, config: RunConfig, data: TrainingData, *, settle: bool) -> float:
    """How many epochs fit until ``end``, by ``time.perf_counter``; where ``settle``, with measured backends."""
    device = torch.device(this_machine(config).device)
    module = make_classifier(config, data).to(device)
    batches = training_batches(config, data, device)
    if settle:
        settle_backends(module, batches.batch(0)[0])
    endless = itertools.chain.from_iterable(itertools.repeat(batches))
    times: list[float] = []
    optimiser = module.configure_optimizers()
    longest = min(LONGEST_TRIAL, (end - time.perf_counter()) / 100)
    last = time.perf_counter()
    whole = min(config.recipe.batch_size, len(data.train))
    for images, labels in endless:
        _step(module, optimiser, images, labels)
        if len(labels) == whole:  # the last batch of an epoch may be smaller
            times.append(time.perf_counter() - last)
        # The first step, which computes filter bases, is not counted; three at least are.
        if len(times) > TIMED_STEPS or (len(times) > 3 and sum(times[1:]) >= longest):
            break
        last = time.perf_counter()
    typical = statistics.median(times[1:])
    # An image in an evaluation costs a third of one in a step.
    validation = len(data.validation) / len(data.train) / 3 if data.validation is not None else 0.0
    tests = len(data.test) * TEST_LOOKS / len(data.train) / 3 if config.evaluate == "test" else 0.0
    training = typical * len(data.train) / whole
    left = SPARE * (end - time.perf_counter()) - tests * training
    return max(0.0, left / (training * (1 + validation) + BETWEEN_EPOCHS))


def steps_per_epoch(config: RunConfig, data: TrainingData) -> int:
    """The steps of an epoch; the last one may be of fewer images."""
    return math.ceil(len(data.train) / config.recipe.batch_size)


def _step(module: Classifier, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    with autocast(images.device, module.settings.precision):
        scores = module.network(module.prepare(images))
    nn.functional.cross_entropy(scores.float(), labels).backward()
    optimiser.step()
    optimiser.zero_grad()
    if images.is_cuda:
        torch.cuda.synchronize()


def _refuse_too_few(epochs: float, steps: int, minutes: float) -> None:
    """ValueError for a run that would end before it has learnt anything."""
    few, least = TOO_FEW
    if epochs < 1 or (epochs < few and epochs * steps < least):
        needed = 1.3 * minutes * max(1.0, min(few, least / steps)) / max(epochs, 1e-3)
        shown = f"{epochs:.1f}" if epochs >= 0.1 else "less than 0.1"
        raise ValueError(
            f"{_in_words(minutes)} minutes are left after reading the images, and the smallest network can be trained "
            f"for {shown} epochs of {steps} steps in that time, which is too little to learn anything. Give at least "
            f"--minutes {_in_words(needed)}, a smaller --image-size, fewer --labels, or a number of --epochs."
        )


def _in_words(minutes: float) -> str:
    return str(math.ceil(minutes)) if minutes >= 3 else f"{minutes:.1f}"


def _warn_of_few(epochs: int, minutes: float, data: TrainingData) -> None:
    """What would have to give for a run of many images in little time."""
    side, share = max(data.train.image_size), FEW_EPOCHS / epochs
    smaller = f", --image-size {side // 2 // 4 * 4} (about {4 * epochs} epochs)" if side >= 48 else ""
    warnings.warn(
        f"only {epochs} {'epoch fits' if epochs == 1 else 'epochs fit'} the time, fewer than the {FEW_EPOCHS} that a "
        f"network usually needs. For that many give --minutes {math.ceil(minutes * share)}{smaller}, or --labels "
        f"{int(len(data.train) / share)}.",
        stacklevel=3,
    )


def _warn_of_slow_size(first_stage: int, side: int) -> None:
    """Say which size would be quicker, where no exact reduction suits the images."""
    if first_stage > LARGEST_FIRST_STAGE:
        warnings.warn(
            f"images of {side}×{side} pixels cannot be reduced much without losing exactness, so that the first layers "
            f"see {first_stage}×{first_stage} pixels, which takes long. --image-size {max(16, side // 16 * 16)} is "
            "much quicker.",
            stacklevel=3,
        )
