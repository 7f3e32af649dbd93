"""The choice of a network's size and epochs, so that it learns as much as it can in the time that it has."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace
from typing import Any, NamedTuple

from steerable.data.labelled_images import LabelledImages
from steerable.training.choosing.sizing import (
    count_parameters,
    sides_to_try,
    sized_model,
    sizes_to_try,
    with_depth,
    with_stem,
)
from steerable.training.choosing.timing import Fit, epochs_within, steps_per_epoch, with_memory_format
from steerable.training.learning.preparing import Images, TrainingData, from_data
from steerable.training.requests.config import RunConfig
from steerable.training.requests.limits import MOST_EPOCHS

__all__ = ["FEW_EPOCHS", "fitted_to_minutes", "most_epochs", "with_sized_model"]

FEW_EPOCHS = 30  # a run with fewer says what would have to give
# Epochs and steps; a larger network that has them is better than more of them. With many images steps are what counts.
ENOUGH = ((40, 500), (30, 1_000), (8, 1_300))
MOST_STEPS = 3_000  # a run with few images has more epochs than its recipe, up to these steps
TOO_FEW = (2, 50)  # epochs and steps; with fewer of both, or less than one epoch, a network learns nothing
UNSURE = 1.3  # times the minutes that are thought to be needed
WORTH_A_HALVING = 1.5  # times the epochs, where none has enough: for less, images are not made smaller
CLEARLY_LARGER = 2  # places in the list of sizes
CLEARLY_NEARER = 1.2  # to a number of parameters; the usual depth is given up for that
LARGEST_FIRST_STAGE = 48  # pixels; a network that sees more than that at first is slow


def with_sized_model(config: RunConfig, data: TrainingData) -> RunConfig:
    """The config with a network of the number of parameters that it names, if it names one."""
    if config.parameters is None:
        return config
    # Small images need few convolutions to be seen as a whole.
    shallow = data.side < 32
    usual, other = (_sized(config, config.parameters, data, shallow=each) for each in (shallow, not shallow))
    return replace(config, model=other[0] if other[1] * CLEARLY_NEARER < usual[1] else usual[0], parameters=None)


def _sized(config: RunConfig, parameters: int, data: TrainingData, *, shallow: bool) -> tuple[dict[str, Any], float]:
    """(the network of this depth with about this many parameters, the factor by which it has more or fewer)."""
    model = with_stem(with_depth(config.model, shallow=shallow), data.side)
    kind = from_data(model, data)
    model = sized_model(model, parameters, **kind)
    share = count_parameters({**model, **kind}) / parameters
    return model, max(share, 1 / share)


def fitted_to_minutes(config: RunConfig, data: TrainingData, minutes: float, used: float = 0.0) -> RunConfig:
    """The same config with a size and a number of epochs that fit the time, from timed steps of throw-away copies.

    ``config.fit`` says whether there may be more epochs than the recipe has, and whether the network's size is chosen
    too: then it is the largest of :func:`~steerable.training.choosing.sizing.sizes_to_try` that has enough epochs.
    Images that are too large for any of them, and have no ``config.image_size``, get a smaller one. The steps are timed
    as the run will take them: augmented, with its precision, recorded or not, with measured backends.

    Args:
        config: the request.
        data: its images.
        minutes: how much time is left.
        used: the minutes that were spent before, which would be spent again.
    """
    begun, image_size = time.perf_counter(), config.image_size
    end = begun + 60 * minutes
    if config.fit == "shrink":
        config, data = _largest_that_learns(config, data, end)
        if config.task == "classify":
            _warn_of_slow_size(data.side // config.model.get("stem", 1), data.side)
    sized = with_memory_format(with_sized_model(config, data), data)
    found = epochs_within(end, sized, data, settle=True)
    before = used + (time.perf_counter() - begun) / 60
    if config.fit == "shrink":
        _refuse_too_few(found, steps_per_epoch(config, data), minutes, before, config)
    whole = min(most_epochs(config, data), max(1, int(found.epochs)))
    if config.fit != "stretch" and whole < min(FEW_EPOCHS, config.recipe.epochs):
        _warn_of_few(whole, before + found.minutes_for(FEW_EPOCHS), data.train, image_size)
    patience = config.patience and max(10, round(config.patience * whole / config.recipe.epochs))
    return replace(
        config, channels_last=sized.channels_last, recipe=config.recipe.with_epochs(whole), patience=patience
    )


def most_epochs(request: RunConfig, data: TrainingData) -> int:
    """The largest number of epochs that a run may have, however much time there is."""
    if request.fit == "stretch":
        return MOST_EPOCHS
    more = MOST_STEPS // steps_per_epoch(request, data) if request.fit == "shrink" else 0
    return max(request.recipe.epochs, more)


class _Choice(NamedTuple):
    """A network for images of some size.

    Args:
        config: with the network, and with the image size where it is another one than that of the images.
        data: with images of that size.
        place: of the network among its sizes, from 0 on; -1 if even the fastest has too few epochs.
        epochs: how many it has.
    """

    config: RunConfig
    data: TrainingData
    place: int
    epochs: float

    def is_better(self, other: _Choice) -> bool:
        """Whether it makes up for images that are smaller than those of the other choice."""
        return self.place >= 0 or (other.place < 0 and self.epochs > WORTH_A_HALVING * other.epochs)


def _largest_that_learns(config: RunConfig, data: TrainingData, end: float) -> tuple[RunConfig, TrainingData]:
    """The config with the largest network that has enough epochs until ``end``, and the images that it sees.

    Resolution is given up late: only if no network has enough epochs, or only the fastest one.
    """
    best = _largest_at_size(config, data, end)
    may_be_smaller = config.image_size is None and data.pixels is not None
    for side in sides_to_try(config.model, data.side)[1:] if may_be_smaller else ():
        if best.place > 0:
            break
        # If the fastest network has enough epochs, a smaller image is worth it for one that is clearly larger.
        first = CLEARLY_LARGER if best.place == 0 else 0
        tried = _largest_at_size(replace(config, image_size=side), data.at_size(side), end, first)
        if not tried.is_better(best):
            break
        best = tried
    return best.config, best.data


def _largest_at_size(config: RunConfig, data: TrainingData, end: float, first: int = 0) -> _Choice:
    """The largest network from place ``first`` on that has enough epochs until ``end``, else the fastest of them."""
    steps = steps_per_epoch(config, data)
    best = None
    for place, model in list(enumerate(sizes_to_try(config.model, data.side)))[first:]:
        sized = replace(config, model=model, parameters=None)
        epochs = epochs_within(end, sized, data, settle=False).epochs
        enough = any(epochs >= few and epochs * steps >= least for few, least in ENOUGH)
        if best is None or enough:
            best = _Choice(sized, data, place if enough else -1, epochs)
        if not enough:
            break
    return best or _Choice(config, data, -1, 0.0)


def _refuse_too_few(found: Fit, steps: int, minutes: float, before: float, config: RunConfig) -> None:
    """Raise a ValueError for a run that would end before it has learnt anything, after ``before`` minutes."""
    few, least = TOO_FEW
    enough = max(1.0, min(few, least / steps))
    if found.epochs >= enough:
        return
    needed = _in_words(before + UNSURE * found.minutes_for(enough))
    if not found.epochs:
        raise ValueError(
            "reading the images, measuring this machine's speed and the test take all of --minutes "
            f"{config.minutes or minutes:g}, and no time is left to train. Give at least --minutes {needed}, or a "
            "number of --epochs."
        )
    smaller = " a smaller --image-size," if config.task == "classify" else ""
    shown = f"{found.epochs:.1f}" if found.epochs >= 0.1 else "less than 0.1"
    raise ValueError(
        f"{minutes:.1f} minutes are left after reading the images, and the smallest network can be trained "
        f"for {shown} epochs of {steps} {'step' if steps == 1 else 'steps'} in that time, which is too little to "
        f"learn anything. Give at least --minutes {needed},{smaller} fewer --labels, or a number of --epochs."
    )


def _in_words(minutes: float) -> str:
    """The minutes, rounded up."""
    return str(math.ceil(minutes)) if minutes >= 3 else f"{math.ceil(10 * minutes) / 10:.1f}"


def _warn_of_few(epochs: int, needed: float, train: Images, image_size: int | None) -> None:
    """Warn of few epochs, and say what would help; that includes a smaller size if the user has chosen one.

    Args:
        epochs: how many fit.
        needed: the minutes for enough of them.
        train: the images.
        image_size: that which the user has given.
    """
    labels = int(len(train) * epochs / FEW_EPOCHS)
    smaller = f", an --image-size below {image_size}" if image_size is not None else ""
    fewer, classes = "", len(train.classes)
    if 0 < labels <= min(train.counts) * classes:  # every class gives as many labels as the others
        fewer = f", or --labels {labels}"
    elif isinstance(train, LabelledImages) and labels >= classes:
        fewer = f", or --labels-per-class {labels // classes}"
    warnings.warn(
        f"only {epochs} {'epoch fits' if epochs == 1 else 'epochs fit'} the time, fewer than the {FEW_EPOCHS} that a "
        f"network usually needs. For that many give --minutes {math.ceil(needed)}{smaller}{fewer}.",
        stacklevel=3,
    )


def _warn_of_slow_size(first_stage: int, side: int) -> None:
    """Say which size would be faster, if no exact reduction suits the images."""
    if first_stage > LARGEST_FIRST_STAGE:
        warnings.warn(
            f"images of {side}×{side} pixels cannot be reduced much without losing exactness, so the first layers "
            f"see {first_stage}×{first_stage} pixels, which takes long. --image-size {max(16, side // 16 * 16)} is "
            "much faster.",
            stacklevel=3,
        )
