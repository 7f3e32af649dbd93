"""The way from a request to a plan: how wide, how long, how fast, and how each convolution is computed."""

from __future__ import annotations

import math
import time
import warnings
from dataclasses import replace

import torch

from steerable import nn as snn
from steerable.training.choosing.fitting import fitted_to_minutes, with_sized_model
from steerable.training.choosing.speed import Machine, this_machine, with_speed
from steerable.training.choosing.timing import settle_backends, steps_per_epoch, with_memory_format
from steerable.training.learning.preparing import TrainingData, make_classifier, training_batches
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.requests.settings import marked
from steerable.types.network_plans import check_stem

__all__ = ["make_plan", "plan_here"]

MEASURED_FROM = 20  # steps; a shorter run is over before a measurement pays
SHORTEST = 0.05  # of the minutes; training gets them even where reading the images has taken all


def make_plan(request: RunConfig, data: TrainingData, *, fit: bool = True, started: float | None = None) -> Plan:
    """The plan of a request, for these images on this machine.

    Args:
        request: what the user says.
        data: the images.
        fit: whether the run is still to be fitted to its minutes, where it has some.
        started: when the run's minutes began, by ``time.monotonic``; now by default.
    """
    check_stem(request.model.get("stem", 1), data.side)
    timed = request.minutes is not None and fit
    machine = this_machine(request)
    settings = with_speed(request, machine, _steps(request, data))
    if settings.minutes is not None and timed:
        used = 0.0 if started is None else (time.monotonic() - started) / 60
        left = max(settings.minutes - used, SHORTEST * settings.minutes)
        settings = fitted_to_minutes(settings, data, left, used)
        data = data.at_size(settings.image_size)
    settings = _with_memory_format(with_sized_model(settings, data), data)
    backends = _backends(settings, data, machine)
    return Plan(
        settings, data.summary(), backends, machine.accelerator, machine.threads, rescheduled=() if timed else None
    )


def plan_here(plan: Plan, request: RunConfig, data: TrainingData) -> Plan:
    """An earlier plan as this machine follows it: to the letter, if the machine is of the same kind."""
    machine = this_machine(request)
    plan = plan.elsewhere(request)
    if machine.accelerator != plan.accelerator:
        warnings.warn(
            f"the run was planned for `{plan.accelerator}` and now runs on `{machine.accelerator}`. It continues, but "
            "agrees with the planned one only up to rounding.",
            stacklevel=3,
        )
        open_again = {name: getattr(request, name) for name in marked(RunConfig, "planned")}
        settings = with_speed(replace(plan.settings, **open_again), machine, _steps(plan.settings, data))
        settings = _with_memory_format(settings, data)
        backends = _backends(settings, data, machine)
        return replace(
            plan, settings=settings, backends=backends, accelerator=machine.accelerator, threads=machine.threads
        )
    return plan


def _backends(settings: RunConfig, data: TrainingData, machine: Machine) -> dict[str, str]:
    """Backends measured on a batch of the run; dense if that does not pay, or if processes would choose differently."""
    worthwhile = machine.device != "mps" and settings.nodes == 1 and _steps(settings, data) >= MEASURED_FROM
    if settings.backend == "auto" and not worthwhile:
        return snn.recorded_backends(make_classifier(replace(settings, backend="dense"), data).model)
    module = make_classifier(settings, data).to(torch.device(machine.device))
    images, _ = training_batches(settings, data, machine.device).batch(0)
    return settle_backends(module, images[: math.ceil(len(images) / settings.devices)])  # what one process gets


def _with_memory_format(settings: RunConfig, data: TrainingData) -> RunConfig:
    """The settings with a memory format, measured if that pays; a short run keeps the usual one."""
    is_short = settings.channels_last is None and _steps(settings, data) < MEASURED_FROM
    return replace(settings, channels_last=False) if is_short else with_memory_format(settings, data)


def _steps(config: RunConfig, data: TrainingData) -> int:
    return config.recipe.epochs * steps_per_epoch(config, data)
