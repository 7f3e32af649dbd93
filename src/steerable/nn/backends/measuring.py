"""The time that each backend takes for a convolution of a given input, as a whole or pass by pass."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import torch
from torch import Tensor

from steerable.nn.backends.combined import carry_out, combined_gradients
from steerable.nn.backends.cuda_timing import in_a_row, on_a_stream_of_its_own, recorded
from steerable.nn.backends.filter_sources import FiltersApart, FilterSource
from steerable.nn.backends.known import BACKENDS, forward_only
from steerable.nn.backends.passes import Passes
from steerable.nn.backends.problem import ConvolutionProblem, Operands

__all__ = ["fastest", "fastest_backend", "fastest_passes", "shortest_times"]

MARGIN = 0.97  # another backend than the usual one is taken when it needs less than this share of its time
REPEATS, REPEATS_IF_CLOSE = 5, 20
CLOSE = 0.15  # to MARGIN

Run = Callable[[], None]
Name = TypeVar("Name", str, tuple[str, str])


def fastest_backend(problem: ConvolutionProblem, x: Tensor, filters: FilterSource, names: Sequence[str]) -> str:
    """The fastest of the dense backend and those of these names, gradients included if they are recorded."""
    own, casting, records = FiltersApart(filters), _autocast_as_now(x), torch.is_grad_enabled()
    field = x.detach().requires_grad_(records and x.requires_grad)
    leaves = [t for t in (field, own.weight, own.bias) if t is not None and t.requires_grad]

    def step(name: str) -> None:
        with casting():
            y = carry_out(problem, Passes.all_by(name), field, own)
        if records and leaves:
            torch.autograd.grad(y, leaves, y.detach())

    runs = {name: partial(step, name) for name in ("dense", *names)}
    if not x.is_cuda:
        return fastest(shortest_times(runs, lambda: None))
    with torch.cuda.device_of(x):
        return fastest(shortest_times({name: in_a_row(run) for name, run in runs.items()}, torch.cuda.synchronize))


@dataclass(frozen=True)
class _Question:
    """The question which of these backends computes each pass of a convolution fastest on a GPU."""

    problem: ConvolutionProblem
    x: Tensor
    filters: FilterSource
    names: Sequence[str]
    cuda_graphs: bool


def fastest_passes(
    problem: ConvolutionProblem, x: Tensor, filters: FilterSource, names: Sequence[str], *, cuda_graphs: bool
) -> Passes:
    """The fastest backend of each pass, from timings; gradients only if they are recorded.

    What counts is the time of the GPU, by CUDA graphs. Where the network will not run as such, backends whose kernels
    Python starts are timed as it starts them, as if the GPU had nothing else to do meanwhile: the choice errs towards
    the dense one, whose few kernels cost every network about the same to start.
    """
    by_parameters = any(BACKENDS[name].weight_gradient == "parameters" for name in names)
    if by_parameters:  # parameters belong to operands that are not changed
        names = [name for name in names if not BACKENDS[name].changes_operands]
    with torch.cuda.device_of(x), on_a_stream_of_its_own():
        question = _Question(problem, x, FiltersApart(filters), names, cuda_graphs)
        forward = _fastest_forward(question)
        return Passes(forward, *_fastest_gradients(question, forward))


def _fastest_forward(question: _Question) -> str:
    x, casting = question.x.detach(), _autocast_as_now(question.x)

    @torch.no_grad()
    def run(name: str) -> None:
        with casting():
            carry_out(question.problem, forward_only(name), x, question.filters)

    names = ["dense", *(name for name in question.names if BACKENDS[name].forwards)]
    return fastest(_seconds({name: partial(run, name) for name in names}, question.cuda_graphs))


def _fastest_gradients(question: _Question, forward: str) -> tuple[str, str]:
    """The fastest backends of both gradients; one that is not recorded follows the other, else the forward pass."""
    x, filters, graphs = question.x.detach(), question.filters, question.cuda_graphs
    records = torch.is_grad_enabled()
    for_input, for_weight = records and question.x.requires_grad, records and filters.weight.requires_grad
    if not (for_input or for_weight):
        return forward_only(forward)[1:]
    gradient = carry_out(question.problem, Passes(forward), x, filters).detach()
    operands = BACKENDS[forward].changed(Operands.of(question.problem, x, filters)[0])
    bank = operands.bank.detach()

    def run(passes: Passes, wanted: tuple[bool, bool]) -> None:
        of_filters = combined_gradients(gradient, operands._replace(bank=bank), passes, wanted)[1]
        if of_filters is not None and BACKENDS[passes.for_weight].weight_gradient == "bank":  # and on to the parameters
            torch.autograd.grad(operands.bank, filters.weight, of_filters, retain_graph=True)

    names = ["dense", *(name for name in question.names if BACKENDS[name].differentiates)]
    runs_for_input = {name: partial(run, Passes(for_input=name), (True, False)) for name in names}
    runs_for_weight = {name: partial(run, Passes(for_weight=name), (False, True)) for name in names}
    if not (for_input and for_weight):
        name = fastest(_seconds(runs_for_input if for_input else runs_for_weight, graphs))
        return name, name
    of_input, of_weight = _seconds(runs_for_input, graphs), _seconds(runs_for_weight, graphs)
    together = {(a, b): of_input[a] + of_weight[b] for a in names for b in names}
    sharing = [name for name in names if BACKENDS[name].gradients_share_work]
    both = {(name, name): partial(run, Passes.all_by(name), (True, True)) for name in sharing}
    return fastest(together | _seconds(both, graphs))


def _seconds(runs: Mapping[Name, Run], cuda_graphs: bool) -> dict[Name, float]:
    """Seconds by name, of a backend or a pair; runs that Python will start in use are started by it here, too."""

    def timed(name: str | tuple[str, str], run: Run) -> Run:
        names = (name,) if isinstance(name, str) else name
        started = any(BACKENDS[each].started_by_python for each in names) and not cuda_graphs
        return in_a_row(run) if started else recorded(run)

    if len(runs) == 1 and "dense" in runs:  # nothing to compare it with
        return dict.fromkeys(runs, 0.0)
    timed_runs = {name: timed(name, run) for name, run in runs.items()}
    return shortest_times(timed_runs, torch.cuda.synchronize) if runs else {}


def shortest_times(runs: Mapping[Name, Callable[[], object]], synchronise: Callable[[], None]) -> dict[Name, float]:
    """Seconds of each one's shortest turn; the first turn, which may compile, does not count.

    Other programs make turns longer and never shorter, and on a busy machine most turns of most runs. Where the faster
    ones are close, several times as many turns decide.
    """
    found: dict[Name, float] = dict.fromkeys(runs, float("inf"))
    for k in range(REPEATS_IF_CLOSE + 1):
        for name, run in runs.items():
            synchronise()
            start = time.perf_counter()
            run()
            synchronise()
            if k:
                found[name] = min(found[name], time.perf_counter() - start)
        if k >= REPEATS:
            shortest, *others = sorted(found.values())
            if not others or abs(shortest / max(others[0], 1e-9) - MARGIN) > CLOSE:
                break
    return found


def fastest(times: Mapping[Name, float]) -> Name:
    """The key with the shortest time, if it is clearly shorter than that of the first, the usual one."""
    name, usual = min(times, key=times.__getitem__), next(iter(times))
    return name if times[name] < MARGIN * times[usual] else usual


def _autocast_as_now(x: Tensor) -> Callable[[], torch.autocast]:
    """The autocast of this moment; without its cache, which would spare the dense form a cast."""
    device = x.device.type
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return partial(torch.autocast, device, dtype, enabled=enabled, cache_enabled=False)
