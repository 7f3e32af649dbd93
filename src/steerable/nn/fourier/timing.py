"""How long a layer takes in each way, on a given input: whole forms in turns, or pass by pass."""

from __future__ import annotations

import copy
import gc
import statistics
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from typing import TYPE_CHECKING, TypeVar

import torch
from torch import Tensor, nn

from steerable.nn.fourier.by_passes import CHANNEL_MULTIPLE, gradients_by_passes, with_padded_channels
from steerable.nn.fourier.choice import Choice
from steerable.nn.fourier.passes import DENSE, FOURIER, Forward, Gradient, Passes, forward_only

if TYPE_CHECKING:
    from steerable.nn.conv import Conv2d

__all__ = ["faster_form", "fastest", "fastest_passes", "measured", "medians"]

RUNS_IN_A_ROW = 8  # on a GPU, of what is timed
MARGIN = 0.97  # another way than the usual one is taken when it needs less than this share of its time
REPEATS, REPEATS_IF_CLOSE = 5, 20
CLOSE = 0.15  # to MARGIN

Run = Callable[[], None]
Name = TypeVar("Name")


def faster_form(layer: Conv2d, x: Tensor) -> Choice:
    """Time the dense and the Fourier form, with all gradients where they are recorded."""
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
    with torch.cuda.device_of(x):
        return measured(_in_a_row(dense), _in_a_row(fourier), torch.cuda.synchronize)


def fastest_passes(layer: Conv2d, x: Tensor, *, with_fourier: bool, cuda_graphs: bool) -> Passes:
    """Time each pass in each way, and take the fastest; gradients only where they are recorded.

    What counts is the time of the GPU, by CUDA graphs. Where the network will not run as such, a Fourier pass is timed
    as Python starts its many kernels, as if the GPU had nothing else to do meanwhile: the choice errs towards the dense
    way, whose few kernels cost every network about the same to start.
    """
    with torch.cuda.device_of(x), _on_a_stream_of_its_own():
        twin = _twin(layer)
        forward = _fastest_forward(twin, x, with_fourier, cuda_graphs)
        return Passes(forward, *_fastest_gradients(twin, x, forward, with_fourier, cuda_graphs))


def _fastest_forward(twin: Conv2d, x: Tensor, with_fourier: bool, cuda_graphs: bool) -> Forward:
    casting = _autocast_as_now(x)

    @torch.no_grad()
    def run(way: Forward) -> None:
        with casting():
            twin.carrier.run(twin, x.detach(), forward_only(way))

    other: Forward = "fourier" if with_fourier else "padded"
    if other == "padded" and x.shape[1] % CHANNEL_MULTIPLE == 0:
        return "dense"
    ways: tuple[Forward, ...] = ("dense", other)
    return fastest(_seconds({way: partial(run, way) for way in ways}, cuda_graphs), usual="dense")


def _fastest_gradients(
    twin: Conv2d, x: Tensor, forward: Forward, with_fourier: bool, cuda_graphs: bool
) -> tuple[Gradient, Gradient]:
    """Of input and weights; one that is not recorded follows the other, and both where none is the forward pass.

    In the basis of irreps the two share a spectrum, so that both in that basis are timed together.
    """
    recorded = torch.is_grad_enabled()
    for_input, for_weight = recorded and x.requires_grad, recorded and twin.weight.requires_grad
    if not (for_input or for_weight):
        return ("fourier", "fourier") if forward == "fourier" else ("dense", "dense")
    gradient = twin.carrier.run(twin, x.detach(), Passes(forward)).detach()
    operands = twin.carrier.operands(twin, x.detach())
    operands = with_padded_channels(operands) if forward == "padded" else operands
    bank = operands.bank.detach()

    def run(passes: Passes, wanted: tuple[bool, bool]) -> None:
        of_filters = gradients_by_passes(gradient, operands._replace(bank=bank), passes, wanted)[1]
        if of_filters is not None and passes.for_weight != "fourier":  # on to the parameters that the bank comes from
            torch.autograd.grad(operands.bank, twin.weight, of_filters, retain_graph=True)

    ways: tuple[Gradient, ...] = ("dense", "turned", "fourier") if with_fourier else ("dense", "turned")
    runs_for_input = {way: partial(run, Passes(for_input=way), (True, False)) for way in ways}
    runs_for_weight = {way: partial(run, Passes(for_weight=way), (False, True)) for way in ways}
    if not (for_input and for_weight):
        way = fastest(_seconds(runs_for_input if for_input else runs_for_weight, cuda_graphs), usual="dense")
        return way, way
    of_input, of_weight = _seconds(runs_for_input, cuda_graphs), _seconds(runs_for_weight, cuda_graphs)
    together = {(a, b): of_input[a] + of_weight[b] for a in ways for b in ways}
    if with_fourier:
        together |= _seconds({("fourier", "fourier"): partial(run, FOURIER, (True, True))}, cuda_graphs)
    return fastest(together, usual=("dense", "dense"))


def _seconds(runs: Mapping[Name, Run], cuda_graphs: bool) -> dict[Name, float]:
    """By the name of each, a way or a pair of them; those in the basis of irreps as they will be started."""

    def timed(name: Name, run: Run) -> Run:
        return _recorded(run) if cuda_graphs or "fourier" not in str(name) else _in_a_row(run)

    return medians({name: timed(name, run) for name, run in runs.items()}, torch.cuda.synchronize)


def medians(runs: Mapping[Name, Callable[[], object]], synchronise: Callable[[], None]) -> dict[Name, float]:
    """Seconds that each takes, in turns; the first turn of each, which may compile, does not count.

    Where the faster ones are close, several times as many turns decide: other programs disturb single ones.
    """
    times: dict[Name, list[float]] = {name: [] for name in runs}
    found: dict[Name, float] = {}
    for k in range(REPEATS_IF_CLOSE + 1):
        for name, run in runs.items():
            synchronise()
            start = time.perf_counter()
            run()
            synchronise()
            if k:
                times[name].append(time.perf_counter() - start)
        if k >= REPEATS:
            found = {name: statistics.median(taken) for name, taken in times.items()}
            shortest, *others = sorted(found.values())
            if not others or abs(shortest / max(others[0], 1e-9) - MARGIN) > CLOSE:
                break
    return found


def fastest(times: Mapping[Name, float], usual: Name) -> Name:
    """What takes the shortest time, if that is clearly shorter than the usual one's."""
    name = min(times, key=times.__getitem__)
    return name if times[name] < MARGIN * times[usual] else usual


def measured(dense: Callable[[], object], fourier: Callable[[], object], synchronise: Callable[[], None]) -> Choice:
    """The faster of the two."""
    runs: dict[Choice, Callable[[], object]] = {"dense": dense, "fourier": fourier}
    return fastest(medians(runs, synchronise), usual="dense")


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
    torch.cuda.synchronize()
    graph, collecting = torch.cuda.CUDAGraph(), gc.isenabled()
    gc.disable()
    try:
        graph.capture_begin()
        try:
            for _ in range(RUNS_IN_A_ROW):
                run()
        except BaseException:
            with suppress(RuntimeError):  # what is broken off ends with an error of its own
                graph.capture_end()
            raise
        graph.capture_end()
    finally:
        if collecting:
            gc.enable()
    return graph.replay
