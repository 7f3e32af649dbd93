"""The code for GPUs on a machine without one.

Tensors say that they are on a GPU, so that layers take the way that they take there, and stay where they are. Triton
either interprets the kernels (``TRITON_INTERPRET=1``), or compiles them for an H200 and starts nothing.
"""

from __future__ import annotations

import os
from importlib.util import find_spec
from typing import Any

import pytest
import torch
from torch import Tensor

HAS_TRITON = find_spec("triton") is not None
INTERPRETED = HAS_TRITON and os.environ.get("TRITON_INTERPRET") == "1"

STREAM = 7


def pretend(monkeypatch: pytest.MonkeyPatch) -> None:
    """All tensors are on a GPU from now on, as far as they say."""
    monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda x: True), raising=False)
    monkeypatch.setattr(torch.Tensor, "is_cpu", property(lambda x: False), raising=False)
    monkeypatch.setattr(torch.cuda, "current_device", lambda: -1)  # which is what tensors on a CPU say
    monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda: False)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentRawStream", lambda device: STREAM, raising=False)
    for operation in (batch_norm_stats, batch_norm_elemt, batch_norm_backward_reduce, batch_norm_backward_elemt):
        monkeypatch.setattr(torch, operation.__name__, operation)
    for module in ("bank", "norm"):  # an interpreted kernel is not one that torch knows how to trace
        monkeypatch.setattr(f"steerable.nn.triton.{module}.wrap_triton", lambda kernel: kernel)


def compile_only(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Triton compiles the kernels that are started for an H200; returns the names of those, as they come."""
    from triton.backends.compiler import GPUTarget
    from triton.runtime import driver
    from triton.runtime.jit import JITFunction

    class OneH200:
        def get_current_target(self) -> GPUTarget:
            return GPUTarget("cuda", 90, 32)

        def get_current_device(self) -> int:
            return 1000  # where there are GPUs, what is compiled for them is kept by their numbers

        def get_current_stream(self, device: int | None = None) -> int:
            return STREAM

    started: set[str] = set()
    run = JITFunction.run

    def compiled(kernel: Any, *arguments: Any, grid: Any, warmup: bool, **options: Any) -> None:
        started.add(kernel.__name__)
        run(kernel, *arguments, grid=grid, warmup=True, **options)

    monkeypatch.setattr(JITFunction, "run", compiled)
    monkeypatch.setattr(driver, "_active", OneH200())
    return started


def interpreted(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """The names of the kernels that Triton's interpreter runs, as they come."""
    from triton.runtime.interpreter import InterpretedFunction

    started: set[str] = set()
    run = InterpretedFunction.run

    def noted(kernel: Any, *arguments: Any, **options: Any) -> Any:
        started.add(kernel.fn.__name__)
        return run(kernel, *arguments, **options)

    monkeypatch.setattr(InterpretedFunction, "run", noted)
    return started


# ---------------------------------------------------------------- operations that torch has on GPUs only


def batch_norm_stats(x: Tensor, eps: float) -> tuple[Tensor, Tensor]:
    """The mean and 1/√(σ² + ε) of each channel, in float32 at least."""
    variance, mean = torch.var_mean(_wide(x), _pixels(x), correction=0)
    return mean, (variance + eps).rsqrt()


def batch_norm_elemt(x: Tensor, weight: Tensor, bias: Tensor, mean: Tensor, inverse: Tensor, eps: float) -> Tensor:
    y = (_wide(x) - _on(x, mean)) * _on(x, inverse * weight) + _on(x, bias)
    return y.to(x.dtype)


def batch_norm_backward_reduce(
    grad: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, weight: None, input_g: bool, weight_g: bool, bias_g: bool
) -> tuple[Tensor, Tensor, None, None]:
    """Σ g and Σ g·(x - μ) of each channel."""
    if not (input_g and weight is None) or weight_g or bias_g:
        raise AssertionError("only the sums for the gradient of the input are written out here")
    centred = _wide(grad) * (_wide(x) - _on(x, mean))
    return _wide(grad).sum(_pixels(x)), centred.sum(_pixels(x)), None, None


def batch_norm_backward_elemt(
    grad: Tensor, x: Tensor, mean: Tensor, inverse: Tensor, weight: Tensor, along: Tensor, spread: Tensor, count: Tensor
) -> Tensor:
    if count.dtype != torch.int32:
        raise AssertionError("counts are whole numbers of 32 bits")
    share = 1 / count.sum().item()
    centred = (_wide(x) - _on(x, mean)) * _on(x, inverse * inverse * spread * share)
    return ((_wide(grad) - _on(x, along * share) - centred) * _on(x, inverse * weight)).to(x.dtype)


def _wide(x: Tensor) -> Tensor:
    """In the dtype in which torch's kernels add up; x is dense in one of the formats that they know."""
    if not (x.is_contiguous() or x.is_contiguous(memory_format=torch.channels_last)):
        raise AssertionError("torch's kernels of batch norm take dense images")
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _pixels(x: Tensor) -> list[int]:
    return [0, *range(2, x.ndim)]


def _on(x: Tensor, numbers: Tensor) -> Tensor:
    return numbers.view(-1, *[1] * (x.ndim - 2))
