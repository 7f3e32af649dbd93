"""GPU kernels, timed: several in a row, started by Python or recorded as a CUDA graph."""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

__all__ = ["RUNS_IN_A_ROW", "in_a_row", "on_a_stream_of_its_own", "recorded"]

RUNS_IN_A_ROW = 8

Run = Callable[[], None]


@contextmanager
def on_a_stream_of_its_own() -> Iterator[None]:
    """A context on a separate stream: only those can be recorded, and a backward pass runs on its forward pass's."""
    before, stream = torch.cuda.current_stream(), torch.cuda.Stream()
    stream.wait_stream(before)
    try:
        with torch.cuda.stream(stream):
            yield
    finally:
        before.wait_stream(stream)


def in_a_row(run: Run) -> Run:
    """Several runs without waiting, as in a network: the slower of Python and the GPU decides."""

    def runs() -> None:
        for _ in range(RUNS_IN_A_ROW):
            run()

    return runs


def recorded(run: Run) -> Run:
    """Several runs as one CUDA graph; anything that is compiled or placed on the device happens before it.

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
