"""One convolution, several ways: plain ``F.conv2d`` of the same channels, our backends, escnn.

    python benchmarks/convolution.py [--only regular-64] [--repeats 15] [--json out/benchmarks/convolution.json]
    python benchmarks/convolution.py --device cuda --dtype bfloat16 --batch 128
    python benchmarks/convolution.py --device cuda --tf32 --batch 128
    python benchmarks/convolution.py --busy      # one thread, its own CPU time: for machines that others use as well

Contestants take turns in one process, on a GPU with ten runs in a row; figures are medians with quartiles. "forward" is
evaluation: filters are kept where the library keeps them. "step" is forward and backward with gradients of the input
and of the parameters, and with the expansion of the filters, which the plain convolution does not have.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn

from steerable import FieldType, __version__, dihedral, group_named
from steerable import nn as snn
from steerable.types.network_plans import resnet_plan

D4 = dihedral(4)
ESCNN_HINT = "escnn is not installed here. `pip install escnn` in an environment of its own, and run this file there."


@dataclass(frozen=True)
class Case:
    """A convolution with "same" padding on a square field."""

    name: str
    in_type: FieldType
    out_type: FieldType
    kernel: int
    size: int


def cases() -> Iterator[Case]:
    """Regular fields of several widths, the paper's convolutions, and 256 channels under groups of several orders.

    n counts the copies of the paper's mixes: its (400, 160) network has 20, 40 and 80 in its three stages.
    """
    for kernel, size, copies in (
        *((3, 32, n) for n in (8, 16, 32)),
        *((3, 16, n) for n in (8, 16, 32, 64)),
        *((3, 8, n) for n in (16, 32, 64, 80)),
        *((1, 16, n) for n in (16, 32, 64)),
        *((1, 8, n) for n in (64, 80)),
        *((5, 16, n) for n in (16, 32)),
        *((5, 8, n) for n in (32, 64)),
    ):
        regular = FieldType(D4, f"{copies}*regular")
        yield Case(f"regular-{copies}", regular, regular, kernel, size)
    for copies, size in ((8, 32), (20, 32), (40, 16), (80, 8)):
        block = resnet_plan(depth=14, copies=copies).blocks[1]
        for conv, role in zip(block.convolutions[:2], ("stream→inner", "inner→stream"), strict=True):
            yield Case(f"paper n={copies} {role}", conv.in_type, conv.out_type, 3, size)
    for name in ("C1", "C2", "C4", "D4"):
        group = group_named(name)
        regular = FieldType(group, f"{256 // group.order}*regular")
        yield Case(f"256 channels under {name}", regular, regular, 3, 16)


class Contestant:
    """A layer and what one run of it is."""

    def __init__(self, layer: nn.Module, x: Tensor) -> None:
        self.layer = layer.to(x.device, x.dtype)
        if x.device.type == "cuda":
            self.layer = self.layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        self.x = x.detach()
        self.leaf = x.detach().clone(memory_format=torch.preserve_format).requires_grad_()

    @torch.no_grad()
    def forward(self) -> None:
        self.layer(self.x)

    def step(self) -> None:
        y = self.layer(self.leaf)
        torch.autograd.grad(y, [self.leaf, *self.layer.parameters()], y.detach())


class Plain(nn.Module):
    """The convolution that a network without symmetry would have."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        shape = (case.out_type.channels, case.in_type.channels, case.kernel, case.kernel)
        self.weight = nn.Parameter(torch.randn(shape) / (case.kernel * case.in_type.channels**0.5))

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, padding=self.weight.shape[-1] // 2)


class Escnn(nn.Module):
    """escnn's layer between regular fields."""

    def __init__(self, case: Case) -> None:
        super().__init__()
        from escnn import gspaces  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from escnn import nn as enn

        space = gspaces.flipRot2dOnR2(4)
        self.wrap: Callable[..., Any] = enn.GeometricTensor
        self.fields = enn.FieldType(space, [space.regular_repr] * (case.in_type.channels // 8))
        self.layer = enn.R2Conv(self.fields, self.fields, case.kernel, padding=case.kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(self.wrap(x, self.fields)).tensor
        return y


def contestants(case: Case, x: Tensor) -> dict[str, Contestant]:
    def ours(backend: str) -> nn.Module:
        return snn.Conv2d(case.in_type, case.out_type, case.kernel, padding="same", bias=False, backend=backend)

    layers: dict[str, nn.Module] = {"plain": Plain(case)}
    for backend in ("auto", "dense", "fourier"):
        layers[backend] = ours(backend)
        layers[backend].load_state_dict(layers["auto"].state_dict())
    if find_spec("escnn") is not None and case.name.startswith("regular"):
        layers["escnn"] = Escnn(case)
    return {name: Contestant(layer, x) for name, layer in layers.items()}


def interleaved(
    runs: dict[str, Callable[[], None]], repeats: int, clock: Callable[[], float], in_a_row: int
) -> dict[str, list[float]]:
    """Milliseconds of each, in turns that go to and fro; two rounds before, which may compile, do not count."""
    times: dict[str, list[float]] = {name: [] for name in runs}
    for k in range(repeats + 2):
        for name, run in sorted(runs.items(), reverse=k % 2 == 1):
            start = clock()
            for _ in range(in_a_row):
                run()
            if k >= 2:
                times[name].append(1e3 * (clock() - start) / in_a_row)
    return times


def summary(times: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else 3 * times
    return {"median_ms": middle, "low_ms": low, "high_ms": high}


def measure(case: Case, arguments: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    device = torch.device(arguments.device)
    x = torch.randn(arguments.batch, case.in_type.channels, case.size, case.size, device=device)
    x = x.to(getattr(torch, arguments.dtype))
    x = x.contiguous(memory_format=torch.channels_last) if device.type == "cuda" else x

    def clock() -> float:
        if device.type == "cuda":
            torch.cuda.synchronize()
        return time.thread_time() if arguments.busy else time.perf_counter()

    found = contestants(case, x)
    with torch.no_grad():
        exact = found["dense"].layer.double()(x.double())
        found["dense"].layer.to(x.dtype)
        errors = {
            name: float((found[name].layer(x).double() - exact).norm() / exact.norm()) for name in ("dense", "fourier")
        }
    result: dict[str, Any] = {
        "case": {"name": case.name, "kernel": case.kernel, "size": case.size, "batch": arguments.batch},
        "channels": [case.in_type.channels, case.out_type.channels],
        "relative_error": errors,
    }
    for task in ("forward", "step"):
        for contestant in found.values():
            contestant.layer.train(task == "step")
        runs = {name: getattr(contestant, task) for name, contestant in found.items()}
        times = interleaved(runs, arguments.repeats, clock, 10 if device.type == "cuda" else 1)
        result[task] = {name: summary(values) for name, values in times.items()}
    return result


def row(result: dict[str, Any]) -> list[str]:
    case = result["case"]
    cells = [f"{case['name']}", f"{case['kernel']}×{case['kernel']}", f"{case['size']}²"]
    for task in ("forward", "step"):
        times = {name: values["median_ms"] for name, values in result[task].items()}
        cells += [f"{times['plain']:.2f}", f"{times['dense']:.2f}", f"{times['fourier']:.2f}"]
        cells.append(f"[bold]{times['plain'] / times['fourier']:.2f}[/bold]")
        if "escnn" in times:
            cells[-2] += f" (escnn {times['escnn']:.2f})"
    return cells


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="cases whose name contains this")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--tf32", action="store_true", help="float32 in 10 bits of mantissa, where the GPU multiplies")
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--busy", action="store_true", help="one thread, its own CPU time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.busy:
        torch.set_num_threads(1)
    if arguments.tf32 and (arguments.dtype != "float32" or arguments.device == "cpu"):
        parser.error("--tf32 is for float32 on a GPU")
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = arguments.tf32
    dtype = "float32 (TF32)" if arguments.tf32 else arguments.dtype
    device = torch.device(arguments.device)
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else processor()
    threads = torch.get_num_threads()
    table = Table(title=f"milliseconds, batch {arguments.batch}, {dtype}, {hardware}, {threads} threads")
    for column in ("case", "kernel", "field", *(2 * ("plain", "dense", "fourier", "plain/fourier"))):
        table.add_column(column, justify="left" if column == "case" else "right")
    table.caption = "first four columns of times: forward; last four: forward and backward"
    results = []
    console = Console(width=150)
    chosen = [case for case in cases() if arguments.only in case.name]
    if not chosen:
        known = ", ".join(dict.fromkeys(case.name for case in cases()))
        parser.error(f"no case has {arguments.only!r} in its name; there are {known}")
    for case in chosen:
        results.append(measure(case, arguments))
        table.add_row(*row(results[-1]))
        console.print(" ".join(row(results[-1])).replace("[bold]", "").replace("[/bold]", ""))
    console.print(table)
    if find_spec("escnn") is None:
        console.print(ESCNN_HINT)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        content = {
            "hardware": hardware,
            "threads": threads,
            "clock": "CPU time of one thread" if arguments.busy else "wall",
            "dtype": dtype,
            "repeats": arguments.repeats,
            "versions": {"torch": torch.__version__, "steerable": __version__, "python": platform.python_version()},
            "results": results,
        }
        arguments.json.write_text(json.dumps(content, indent=1))


def processor() -> str:
    """What this machine calls its CPU."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.machine())


if __name__ == "__main__":
    main()
