"""Settings that make a run fast on its machine, apart from backends: bfloat16, channels_last, CUDA graphs."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

import torch

from steerable.training.requests.config import RunConfig

__all__ = ["Machine", "autocast", "this_machine", "threads_of_torch", "with_speed"]

TENSOR_CORES = (8, 0)  # the first capability whose tensor cores multiply bfloat16
RECORDED_FROM = 300  # steps; recording takes as long as about two hundred of them save


@dataclass(frozen=True)
class Machine:
    """The machine that a run uses.

    Args:
        device: ``"cpu"``, ``"cuda"`` or ``"mps"``, as torch calls it.
        capability: that of an NVIDIA GPU.
        threads: how many threads torch has on the CPU.
    """

    device: str
    capability: tuple[int, int] | None = None
    threads: int = 1

    @property
    def accelerator(self) -> str:
        """The device as a plan names it."""
        return "gpu" if self.device == "cuda" else self.device


def this_machine(config: RunConfig) -> Machine:
    """The machine that a run would have here."""
    threads = torch.get_num_threads()
    if config.accelerator != "cpu" and torch.cuda.is_available():
        return Machine("cuda", torch.cuda.get_device_capability(), threads)
    if config.accelerator != "cpu" and torch.backends.mps.is_available():
        return Machine("mps", threads=threads)
    return Machine("cpu", threads=threads)


def with_speed(config: RunConfig, machine: Machine, steps: int) -> RunConfig:
    """The config with precision, recording and a GPU's memory format decided; what the user says about them stays.

    On a CPU the memory format is measured when the network is known, by
    :func:`~steerable.training.choosing.timing.with_memory_format`.

    Args:
        config: the request.
        machine: the machine that it will use.
        steps: roughly how many steps the run has: recording takes seconds, which a short run does not regain.
    """
    modern = machine.capability is not None and machine.capability >= TENSOR_CORES
    precision = config.precision
    if precision == "auto":
        precision = "bf16-mixed" if modern else "32-true"
    one_process = config.devices * config.nodes == 1
    recorded = modern and one_process and not config.eager and steps >= RECORDED_FROM
    return replace(
        config,
        precision=precision,
        channels_last=config.channels_last
        if machine.device == "cpu"
        else _said(config.channels_last, modern and precision != "32-true" and not config.volumes),
        cuda_graphs=_said(config.cuda_graphs, recorded),
        compile=_said(config.compile, False),
    )


@contextmanager
def threads_of_torch(count: int) -> Iterator[None]:
    """A context in which torch has this many threads; their number decides in which order gradients are summed."""
    before = torch.get_num_threads()
    torch.set_num_threads(count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def autocast(device: torch.device, precision: str) -> torch.autocast:
    """The context in which Lightning runs a network with this precision."""
    dtype = {"bf16-mixed": torch.bfloat16, "16-mixed": torch.float16}.get(precision)
    return torch.autocast(device.type, dtype or torch.bfloat16, enabled=dtype is not None)


def _said(value: bool | None, otherwise: bool) -> bool:
    return otherwise if value is None else value
