"""The order of a network's numbers in memory, and the order that is faster for it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from steerable.nn.backends import MEMORY_FORMATS, remembered, tf32_allowed
from steerable.nn.channels import HALF_PRECISION, channels_second
from steerable.nn.network_places import untouched

__all__ = ["faster_memory_format", "in_mode", "laid_out"]

MARGIN = 0.97  # channels_last is taken on a CPU where a step needs less than this share of the usual time
TIMED = 5  # steps of either format, which take turns


def laid_out(x: Tensor, memory_format: torch.memory_format) -> Tensor:
    """The same field in a memory format.

    A field with one channel is dense in both formats, so torch leaves it as it is, and every layer after it would keep
    the other format. Here its strides are those of the given format.
    """
    if x.shape[1] != 1:
        return x.contiguous(memory_format=memory_format)
    values = x.squeeze(1).contiguous()
    return values.unsqueeze(1) if memory_format is torch.contiguous_format else channels_second(values.unsqueeze(-1))


def faster_memory_format(network: nn.Module, example: Tensor, *, training: bool) -> torch.memory_format | None:
    """The faster format for a step: channels_last for tensor cores; on a CPU it is measured once.

    Args:
        network: on the device of the example; its values and its mode stay as they are.
        example: a batch as in use.
        training: whether steps are timed with their gradients.

    Returns:
        None for volumes and on other devices, where a network stays as it is.
    """
    if example.ndim != 4 or example.device.type not in ("cpu", "cuda"):
        return None
    if example.is_cuda:
        cast = torch.is_autocast_enabled("cuda") or example.dtype in HALF_PRECISION
        return torch.channels_last if cast or tf32_allowed(example.device) else torch.contiguous_format
    tensors = [(name, *tensor.shape) for name, tensor in network.state_dict().items()]
    conditions = tuple(example.shape), example.dtype, training, torch.is_autocast_enabled("cpu")
    question = ("memory format", tensors, *conditions)
    return MEMORY_FORMATS[remembered(example.device, question, lambda: _measured(network, example, training))]


def _measured(network: nn.Module, example: Tensor, training: bool) -> str:
    """The name of the faster format on a CPU."""
    seconds: dict[str, list[float]] = {name: [] for name in MEMORY_FORMATS}
    with in_mode(network, training), untouched(network, example.device):
        for _ in range(1 + TIMED):
            for name, layout in MEMORY_FORMATS.items():
                network.to(memory_format=layout)  # type: ignore[call-overload]
                seconds[name].append(_seconds(network, laid_out(example, layout)))
    # The first step computes filter bases, and is not counted. Other programs make steps longer, never shorter.
    shortest = {name: min(times[1:]) for name, times in seconds.items()}
    gains = shortest["channels_last"] < MARGIN * shortest["contiguous_format"]
    return "channels_last" if gains else "contiguous_format"


def _seconds(network: nn.Module, x: Tensor) -> float:
    """The time that a pass takes, with gradients if they are recorded."""
    start = time.perf_counter()
    y: Tensor = network(x)
    if y.requires_grad:
        torch.autograd.grad(y, [p for p in network.parameters() if p.requires_grad], y.detach(), allow_unused=True)
    return time.perf_counter() - start


@contextmanager
def in_mode(network: nn.Module, training: bool) -> Iterator[None]:
    """The network in evaluation without gradients, or in training; layers with a fixed mode keep it."""
    modes = {module: module.training for module in network.modules()}
    if network.training != training:
        network.train(training)
    try:
        with torch.set_grad_enabled(training):
            yield
    finally:
        for module, before in modes.items():
            module.training = before
