"""Estimates of how long a run takes, from timed steps of a throw-away copy that runs as the real one will."""

from __future__ import annotations

import itertools
import math
import statistics
import time
from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from steerable import nn as snn
from steerable.algebra.families import group_on
from steerable.data.masked_images import MaskedImages
from steerable.nn.memory_formats import faster_memory_format
from steerable.training.choosing.speed import autocast, this_machine
from steerable.training.evaluation.poses import POSE_SAMPLE, VOLUME_POSE_SAMPLE
from steerable.training.evaluation.segmentation_poses import POSED
from steerable.training.evaluation.turns import TURNED, TURNS, turns_off_the_grid
from steerable.training.learning.classifier import Classifier
from steerable.training.learning.preparing import TrainingData, make_classifier, training_batches
from steerable.training.requests.config import RunConfig

__all__ = [
    "EVALUATION",
    "Fit",
    "epochs_within",
    "images_to_test",
    "settle_backends",
    "steps_per_epoch",
    "take_step",
    "with_memory_format",
]

TIMED_STEPS = 25
LONGEST_TRIAL = 0.6  # seconds that the steps of one size are timed
LONGEST_STEPS = 3.0  # seconds after which not even three steps are waited for
OTHER_POSES = {2: 7, 3: 23}  # in which some of them are looked at as well, by the number of axes
EVALUATION = 1 / 3  # the cost of an image in an evaluation, relative to one in a step
BETWEEN_EPOCHS = 0.05  # seconds that validation and bookkeeping take at least
SPARE = 0.93  # the share of the time that is planned; checkpoints and reports take the rest


class Fit(NamedTuple):
    """The numbers that fit into a time.

    Args:
        epochs: how many, when the test is paid for.
        epoch: the seconds that one takes, validation included.
        test: those of the evaluation at the end of the run.
    """

    epochs: float
    epoch: float
    test: float

    def minutes_for(self, epochs: float) -> float:
        """The minutes that a number of epochs and the test need."""
        return (epochs * self.epoch + self.test) / SPARE / 60


def epochs_within(end: float, config: RunConfig, data: TrainingData, *, settle: bool) -> Fit:
    """The epochs that fit until ``end``, by ``time.perf_counter``; with ``settle``, with measured backends."""
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
    whole = min(config.recipe.batch_size, data.train.samples_per_epoch)
    for images, labels in endless:
        take_step(module, optimiser, images, labels)
        if len(labels) == whole:  # the last batch of an epoch may be smaller
            times.append(time.perf_counter() - last)
        # The first step, which computes filter bases, is not counted; three others are, unless they take very long.
        if len(times) > TIMED_STEPS or sum(times[1:]) >= (longest if len(times) > 3 else LONGEST_STEPS):
            break
        last = time.perf_counter()
    typical = statistics.median(times[1:])
    per_image = typical / whole
    validation = 0 if data.validation is None else data.validation.samples
    epoch = per_image * (data.train.samples_per_epoch + EVALUATION * validation) + BETWEEN_EPOCHS
    test = EVALUATION * per_image * images_to_test(config, data)
    return Fit(max(0.0, (SPARE * (end - time.perf_counter()) - test) / epoch), epoch, test)


def images_to_test(settings: RunConfig, data: TrainingData) -> float:
    """How many images a run evaluates after its last epoch; an image that is looked at nine times counts as nine."""
    if settings.evaluate == "test":
        axes = len(data.test.image_size)
        tried = POSED if isinstance(data.test, MaskedImages) else POSE_SAMPLE if axes == 2 else VOLUME_POSE_SAMPLE
        group = settings.model.get("group")
        turned = len(TURNS) * TURNED if isinstance(group, str) and turns_off_the_grid(group_on(group, axes)) else 0
        again = 1 if isinstance(data.test, MaskedImages) else 0  # for the loss, and for the answers
        looks = (1 + again + OTHER_POSES[axes] * min(1.0, tried / len(data.test))) * data.test.samples
        return looks + min(turned, len(TURNS) * data.test.samples)
    return 0 if data.validation is None else data.validation.samples


def with_memory_format(config: RunConfig, data: TrainingData) -> RunConfig:
    """The config with the memory format in which its network trains faster here, unless it has one already.

    It is measured as backends are; where these are given, the network stays as it is.
    """
    if config.channels_last is not None:
        return config
    if config.backend != "auto":
        return replace(config, channels_last=False)
    device = torch.device(this_machine(config).device)
    module = make_classifier(config, data).to(device)
    images, _ = training_batches(config, data, device).batch(0)
    with autocast(device, config.precision):
        found = faster_memory_format(module.model, module.prepare(images), training=True)
    return replace(config, channels_last=found is torch.channels_last)


def settle_backends(module: Classifier, images: Tensor) -> dict[str, str]:
    """Measure the best way to compute each convolution in training on such images, and return the choice as text."""
    settings = module.settings
    with autocast(images.device, settings.precision):
        snn.choose_backends(module.model, module.prepare(images), cuda_graphs=bool(settings.cuda_graphs))
    return snn.recorded_backends(module.model)


def steps_per_epoch(config: RunConfig, data: TrainingData) -> int:
    """The steps of an epoch; the last one may have fewer images."""
    return math.ceil(data.train.samples_per_epoch / config.recipe.batch_size)


def take_step(module: Classifier, optimiser: torch.optim.Optimizer, images: Tensor, labels: Tensor) -> None:
    """One step of a run's network outside a trainer."""
    with autocast(images.device, module.settings.precision):
        scores = module.network(module.prepare(images))
    module.loss(scores.float(), labels).backward()
    optimiser.step()
    optimiser.zero_grad()
    if images.is_cuda:
        torch.cuda.synchronize()
