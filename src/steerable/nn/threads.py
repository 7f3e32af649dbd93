"""Tiles side by side on torch's own threads.

A tile goes through several kernels and products. Each thread takes whole tiles, so that a tile stays in one core's
cache and threads wait for each other only at the end; threads inside a product would meet at every one of them.

The threads are those on which torch runs its own operations: between two of these they wait for a while without going
to sleep, and would keep other threads from the cores. They belong to OpenMP, whose entry ``GOMP_parallel`` is called
with a function that comes back to Python; inside it torch uses one thread. If torch is built on something else, Python
threads are used.
"""

from __future__ import annotations

import ctypes
import os
import sys
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from functools import lru_cache, partial
from pathlib import Path
from typing import Any

import torch

__all__ = ["on_all_threads"]

Task = Callable[[int, int], None]


def on_all_threads(task: Task, *, uses_torch: bool = True) -> None:
    """Call ``task(k, n)`` for k = 0 … n-1, n being torch's number of threads, and wait for all of them.

    Torch records no gradients in a task. One that does not use torch need not be told so, which takes a third of the
    time that it takes to start it.
    """
    if uses_torch:
        task = partial(_without_gradients, task)
    threads = torch.get_num_threads()
    if threads == 1:
        task(0, 1)
        return
    openmp = _openmp()
    if openmp is None:
        pool = _pool(os.getpid(), threads)  # a forked process has no threads but its own
        shares = [pool.submit(task, k, threads) for k in range(threads)]
        try:
            for share in shares:
                share.result()
        finally:  # after Ctrl-C too: what they write to would be freed under them
            wait(shares)
    else:
        _on_openmp(openmp, task, threads)


def _without_gradients(task: Task, number: int, count: int) -> None:
    with torch.no_grad():  # a setting of each thread
        task(number, count)


# ---------------------------------------------------------------- torch's threads


_CALLBACK = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


@lru_cache(maxsize=1)
def _openmp() -> Any:
    """``GOMP_parallel`` of the library that torch runs on, or None."""
    if sys.platform != "linux" or "OpenMP" not in torch.__config__.parallel_info().partition("parallel backend:")[2]:
        return None
    folder = str(Path(torch.__file__).parent.parent)
    try:
        loaded = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libgomp" in line}
        (path,) = [path for path in loaded if path.startswith(folder) and "torch" in path.removeprefix(folder)]
        run = ctypes.CDLL(path).GOMP_parallel
    except (OSError, ValueError, AttributeError):
        return None
    run.argtypes, run.restype = (_CALLBACK, ctypes.c_void_p, ctypes.c_uint, ctypes.c_uint), None
    return run


def _on_openmp(openmp: Any, task: Task, threads: int) -> None:
    numbers = iter(range(threads))
    lock = threading.Lock()
    errors: list[BaseException] = []

    def part(_: object) -> None:
        try:
            while True:  # OpenMP may give fewer threads than it was asked for; then some take a second turn
                with lock:
                    number = next(numbers, None)
                if number is None:
                    return
                task(number, threads)
        except BaseException as error:  # it must not pass through foreign code
            errors.append(error)

    openmp(_CALLBACK(part), None, threads, 0)
    if errors:
        raise errors[0]


# ---------------------------------------------------------------- Python's threads


@lru_cache(maxsize=4)
def _pool(process: int, threads: int) -> ThreadPoolExecutor:
    started = threading.Barrier(threads + 1)
    pool = ThreadPoolExecutor(threads, "steerable-fourier", initializer=_on_one_core)
    for _ in range(threads):
        pool.submit(started.wait)
    started.wait()
    torch.set_num_threads(threads)  # the workers keep their 1; threads that others start find what they found before
    return pool


def _on_one_core() -> None:
    torch.set_num_threads(1)
    torch.get_num_threads()  # a thread takes over the common number when it first asks for one: now, while that is 1
