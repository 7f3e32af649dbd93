"""How long a layer takes in each way, on a given input: whole forms in turns, or pass by pass."""

from __future__ import annotations

import copy
import gc
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from steerable.nn.fourier.by_passes import CHANNELS, gradients_by_passes
from steerable.nn.fourier.choice import Choice, fastest, measured, medians
from steerable.nn.fourier.passes import DENSE, FOURIER, Passes, Way, without_gradients

if TYPE_CHECKING:
    from steerable.nn.conv import Conv2d

__all__ = ["faster_form", "fastest_passes"]

RUNS_IN_A_ROW = 8  # on a GPU, of what is timed

Run = Callable[[], None]
Name = TypeVar("Name")


def faster_form(layer: Conv2d, x: Tensor, ahead: bool) -> Choice:
    """Time the dense and the Fourier form, with all gradients where they are recorded.

    ``ahead``: as in a compiled or recorded network, where a GPU need not wait for Python.
    """
    recorded, twin, casting = torch.is_grad_enabled(), _twin(layer), _autocast_as_now(x)
    field = x.detach().requires_grad_(recorded and x.requires_grad)
    leaves = [t for t in (field, *twin._parameters.values()) if t is not None and t.requires_grad]

    def step(passes: Passes) -> None:
        with casting():
            y = twin.dense(field) if passes == DENSE else twin.carrier.run(twin, field, passes)
        if recorded and leaves:
            torch.autograd.grad(y, leaves, y.detach())

    dense, fourier = partial(step, DENSE), partial(step, FOURIER)
    if not x.is_cuda:
        return measured(dense, fourier, lambda: None)
    with torch.cuda.device_of(x), _on_a_stream_of_its_own():
        several = _recorded if ahead else _in_a_row
        return measured(several(dense), several(fourier), torch.cuda.synchronize)


def fastest_passes(layer: Conv2d, x: Tensor, *, with_fourier: bool) -> Passes:
    """Time each pass in each way, as CUDA graphs, and take the fastest; gradients only where they are recorded."""
    with torch.cuda.device_of(x), _on_a_stream_of_its_own():
        twin = _twin(layer)
        forward = _fastest_forward(twin, x, with_fourier)
        return Passes(forward, *_fastest_gradients(twin, x, forward, with_fourier))


def _fastest_forward(twin: Conv2d, x: Tensor, with_fourier: bool) -> Way:
    casting = _autocast_as_now(x)

    @torch.no_grad()
    def run(way: Way) -> None:
        with casting():
            twin.carrier.run(twin, x.detach(), without_gradients(way))

    ways: list[Way] = ["dense"]
    if with_fourier:
        ways.append("fourier")
    elif x.shape[1] % CHANNELS:
        ways.append("padded")
    if len(ways) == 1:
        return "dense"
    return fastest(_seconds({way: partial(run, way) for way in ways}), usual="dense")


def _fastest_gradients(twin: Conv2d, x: Tensor, forward: Way, with_fourier: bool) -> tuple[Way, Way]:
    """Of input and weights, where they are recorded.

    In the basis of irreps the two share a spectrum, so that both in that basis are timed together.
    """
    recorded = torch.is_grad_enabled()
    wanted = recorded and x.requires_grad, recorded and twin.weight.requires_grad
    if not any(wanted):
        return "dense", "dense"
    operands = twin.carrier.operands(twin, x.detach())
    gradient = twin.carrier.run(twin, x.detach(), Passes(forward)).detach()
    bank = operands.bank.detach()

    def run(passes: Passes, wanted: tuple[bool, bool]) -> None:
        of_filters = gradients_by_passes(gradient, operands._replace(bank=bank), passes, wanted)[1]
        if of_filters is not None and passes.for_weight != "fourier":  # on to the parameters that the bank comes from
            torch.autograd.grad(operands.bank, twin.weight, of_filters, retain_graph=True)

    ways: tuple[Way, ...] = ("dense", "turned", "fourier") if with_fourier else ("dense", "turned")
    nothing = dict.fromkeys(ways, 0.0)
    runs_for_input = {way: partial(run, Passes(for_input=way), (True, False)) for way in ways}
    runs_for_weight = {way: partial(run, Passes(for_weight=way), (False, True)) for way in ways}
    for_input = _seconds(runs_for_input) if wanted[0] else nothing
    for_weight = _seconds(runs_for_weight) if wanted[1] else nothing
    together = {(a, b): for_input[a] + for_weight[b] for a in ways for b in ways}
    if with_fourier and all(wanted):
        together |= _seconds({("fourier", "fourier"): partial(run, FOURIER, (True, True))})
    return fastest(together, usual=("dense", "dense"))


def _seconds(runs: Mapping[Name, Run]) -> dict[Name, float]:
    return medians({name: _recorded(run) for name, run in runs.items()}, torch.cuda.synchronize)


def _twin(layer: Conv2d) -> Conv2d:
    """The layer once more, sharing its memory; without hooks, and with parameters that are leaves of their own.

    So nothing of what is done with it is seen from outside.
    """
    twin = copy.copy(layer)
    twin._parameters = {
        name: None if p is None else nn.Parameter(p.detach(), requires_grad=p.requires_grad)
        for name, p in layer._parameters.items()
    }
    twin._kept = None
    twin.carrier = copy.copy(layer.carrier)
    twin.carrier._kept = None
    return twin


def _autocast_as_now(x: Tensor) -> Callable[[], torch.autocast]:
    """The autocast of this moment; without its cache, which would spare the dense form a cast."""
    device = x.device.type
    enabled, dtype = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)
    return partial(torch.autocast, device, dtype, enabled=enabled, cache_enabled=False)


@contextmanager
def _on_a_stream_of_its_own() -> Iterator[None]:
    """Only such a stream can be recorded, and a backward pass runs on the stream of its forward pass."""
    before, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)


def _in_a_row(run: Run) -> Run:
    """Several runs without waiting, as in a network: the slower of Python and the GPU decides."""

    def runs() -> None:
        for _ in range(RUNS_IN_A_ROW):
            run()

    return runs


def _recorded(run: Run) -> Run:
    """Several runs as one CUDA graph; what is compiled or placed on the device at first is before it.

    As ``torch.cuda.graph`` does it, but without its collection of garbage, which takes longer than all the rest; it
    only must not happen while kernels are recorded, for it may free what a recording may not touch.
    """
    run()
    graph, collecting = torch.cuda.CUDAGraph(), gc.isenabled()
    torch.cuda.synchronize()
    gc.disable()
    graph.capture_begin()
    try:
        for _ in range(RUNS_IN_A_ROW):
            run()
    finally:
        graph.capture_end()
        if collecting:
            gc.enable()
    return graph.replay
