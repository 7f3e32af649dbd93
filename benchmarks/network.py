"""The paper's network beside a plain one with the same dense channels: build, training step, evaluation, memory.

    python benchmarks/network.py [--copies 20] [--compile] [--mode reduce-overhead] [--tf32] [--json network.json]

The networks take turns in one process; the figures are medians with quartiles. Steps are timed one by one, waiting for
the device after each. On a GPU they are also timed ten in a row without waiting, as in training, and kernel by kernel.
Networks are channels_last and bfloat16 (autocast) or TF32 on a GPU, float32 on a CPU. Run this file once for each case,
because compiled code stays in memory; runs side by side take turns to measure. ``--record`` is for training steps:
evaluation then uses the backends that were chosen for them, and is not recorded.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from convolution import processor
from fourier_gpu import kernels
from rich.console import Console
from rich.table import Table
from speed_page import how
from torch import Tensor, nn
from turns import turn

from steerable import __version__, models
from steerable import nn as snn
from steerable.nn.recorded_network import RecordedNetwork

Call = Callable[[Tensor], Tensor]

CASE = ("depth", "copies", "batch", "size", "compile", "mode", "record", "backend")


class Contestant:
    """A network with what it takes to run a step of it.

    Args:
        net: the network, on its device.
        call: how it is run, for instance compiled.
        half: whether it runs in bfloat16.
        in_training: how it is run in training, by default by ``call``.
    """

    def __init__(self, net: nn.Module, call: Call, *, half: bool, in_training: Call | None = None) -> None:
        self.net, self.call, self.half = net, call, half
        self.in_training = in_training or call
        self.device = next(net.parameters()).device
        self.optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)

    def train_step(self, x: Tensor, y: Tensor) -> None:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            scores = self.in_training(x)
        nn.functional.cross_entropy(scores.float(), y).backward()
        self.optimiser.step()
        self.optimiser.zero_grad()

    @torch.no_grad()
    def evaluate(self, x: Tensor, y: Tensor) -> None:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            self.call(x)


def contestant(net: nn.Module, device: torch.device, arguments: argparse.Namespace) -> Contestant:
    """The network on its device, compiled and recorded as the arguments say."""
    net = net.to(device)
    if device.type == "cuda":
        net = net.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    call = torch.compile(net, mode=arguments.mode) if arguments.compile else net
    recorded = RecordedNetwork(net, call) if arguments.record else None
    return Contestant(net, call, half=in_half(device, arguments), in_training=recorded)


def in_half(device: torch.device, arguments: argparse.Namespace) -> bool:
    """Whether networks run in bfloat16."""
    return device.type == "cuda" and not arguments.tf32


def milliseconds(run: Callable[[], None], repeats: int, device: torch.device, in_a_row: int = 1) -> list[float]:
    times = []
    for _ in range(repeats):
        _wait(device)
        start = time.perf_counter()
        for _ in range(in_a_row):
            run()
        _wait(device)
        times.append(1e3 * (time.perf_counter() - start) / in_a_row)
    return times


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def interleaved(
    contestants: dict[str, Contestant], task: str, x: Tensor, y: Tensor, rounds: int, repeats: int, in_a_row: int = 1
) -> dict[str, list[float]]:
    """Times of each contestant, taken in turns."""
    times: dict[str, list[float]] = {name: [] for name in contestants}
    for contestant in contestants.values():
        contestant.net.train(task == "train_step")
    for _ in range(rounds):
        for name, contestant in contestants.items():
            run = partial(getattr(contestant, task), x, y)
            times[name] += milliseconds(run, repeats, x.device, in_a_row)
    return times


def peak_memory(contestant: Contestant, x: Tensor, y: Tensor) -> int | None:
    """Bytes of one training step, weights, gradients and momenta included; None on a CPU."""
    if x.device.type != "cuda":
        return None
    contestant.net.train()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    contestant.train_step(x, y)
    torch.cuda.synchronize()
    held = [*contestant.net.parameters(), *contestant.net.buffers()]
    held += [t for state in contestant.optimiser.state.values() for t in state.values() if isinstance(t, Tensor)]
    return torch.cuda.max_memory_allocated() - before + sum(t.numel() * t.element_size() for t in held)


def summary(times: list[float]) -> dict[str, float]:
    low, middle, high = statistics.quantiles(times, n=4) if len(times) > 1 else 3 * times
    return {"median_ms": middle, "low_ms": low, "high_ms": high}


def measure(arguments: argparse.Namespace) -> dict[str, Any]:
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    torch.manual_seed(0)
    console = Console(width=130)
    builds, steerable = [], nn.Module()
    for _ in range(2):
        start = time.perf_counter()
        steerable = models.resnet(arguments.depth, arguments.copies)
        builds.append(time.perf_counter() - start)
    convolutions = {name: layer for name, layer in steerable.named_modules() if isinstance(layer, snn.Conv2d)}
    for layer in convolutions.values():
        layer.backend = arguments.backend
    plain = models.plain_resnet(arguments.depth, 20 * arguments.copies, inner=8 * arguments.copies, crelu=True)
    x = torch.randn(arguments.batch, 3, arguments.size, arguments.size, device=device)
    x = x.contiguous(memory_format=torch.channels_last) if device.type == "cuda" else x
    y = torch.randint(10, (arguments.batch,), device=device)
    chosen_s = settle(steerable, x, arguments)
    if chosen_s is not None:
        console.print(f"backends chosen in {chosen_s:.1f} s")
    contestants = {
        "plain": contestant(plain, device, arguments),
        "steerable": contestant(steerable, device, arguments),
    }
    result: dict[str, Any] = {
        "case": {k: getattr(arguments, k) for k in CASE},
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "steerable": __version__, "python": platform.python_version()},
        "precision": "bfloat16" if in_half(device, arguments) else "float32 (TF32)" if arguments.tf32 else "float32",
        "choose_backends_s": chosen_s,
        "build_s": {"cold": builds[0], "warm": builds[1]},
        "backends": {name: str(layer.runner) for name, layer in convolutions.items()},
        "networks": {},
    }
    for name, found in contestants.items():
        result["networks"][name] = first_steps(found, x, y)
        console.print(f"{name}: first steps {result['networks'][name]['first_steps_s']:.1f} s")
    with turn():
        add_timings(result["networks"], contestants, "train_step", x, y, arguments.rounds)
    fixed = contestant(snn.to_plain(steerable.eval()), device, arguments)
    contestants["steerable, to_plain"] = fixed
    result["networks"]["steerable, to_plain"] = {"parameters": sum(p.numel() for p in fixed.net.parameters())}
    interleaved(contestants, "evaluate", x, y, 1, 2)
    with turn():
        add_timings(result["networks"], contestants, "evaluate", x, y, arguments.rounds)
    console.print(table(result))
    return result


def settle(steerable: nn.Module, x: Tensor, arguments: argparse.Namespace) -> float | None:
    """Choose the backends where a network that is compiled cannot do so itself; returns the seconds that this took."""
    if arguments.backend != "auto" or not (arguments.compile or arguments.record):
        return None
    layout = torch.channels_last if x.device.type == "cuda" else torch.preserve_format
    in_place: nn.Module = steerable.to(x.device).to(memory_format=layout)  # type: ignore[call-overload]
    with turn(), torch.autocast(x.device.type, torch.bfloat16, enabled=in_half(x.device, arguments)):
        start = time.perf_counter()
        snn.choose_backends(in_place, x, cuda_graphs=arguments.record or arguments.mode == "reduce-overhead")
        return time.perf_counter() - start


def first_steps(contestant: Contestant, x: Tensor, y: Tensor) -> dict[str, Any]:
    """What a network has before it is timed: its size, how long its first steps took, and its memory."""
    start = time.perf_counter()
    contestant.net.train()
    milliseconds(partial(contestant.train_step, x, y), 3, x.device)
    return {
        "parameters": sum(p.numel() for p in contestant.net.parameters()),
        "first_steps_s": time.perf_counter() - start,
        "peak_memory": peak_memory(contestant, x, y),
    }


def add_timings(
    found: dict[str, Any], contestants: dict[str, Contestant], task: str, x: Tensor, y: Tensor, rounds: int
) -> None:
    """Add the times of a task to what was found of each network; on a GPU also those in a row and by kernel."""
    on_gpu = x.device.type == "cuda"
    interleaved(contestants, task, x, y, 1, 2)
    rounds, repeats = (10, 10) if on_gpu else (rounds, 1)
    for name, times in interleaved(contestants, task, x, y, rounds, repeats).items():
        found[name][task] = summary(times)
    if not on_gpu:
        return
    for name, times in interleaved(contestants, task, x, y, 10, 1, in_a_row=10).items():
        found[name][f"{task}_in_a_row"] = summary(times)
    for name, contestant in contestants.items():
        by_kernel = kernels(partial(getattr(contestant, task), x, y))
        longest = dict(list(by_kernel.items())[:25])
        found[name][f"{task}_gpu_us"] = {"all": sum(by_kernel.values()), **longest}


def table(result: dict[str, Any]) -> Table:
    case = result["case"]
    lines = Table(
        title=f"{case['depth']} layers, ({20 * case['copies']}, {8 * case['copies']}), batch {case['batch']}, "
        f"{case['size']}², {how(result)}, {result['hardware']}"
    )
    titles = ("network", "parameters", "training step", "of plain", "in a row", "of plain", "evaluation", "of plain")
    for column in titles:
        lines.add_column(column, justify="left" if column == "network" else "right")
    plain = result["networks"]["plain"]
    for name, row in result["networks"].items():
        cells = [f"{row['parameters']:,}"]
        for task in ("train_step", "train_step_in_a_row", "evaluate"):
            if task in row:
                ms = row[task]["median_ms"]
                cells += [f"{ms:.1f} ms", f"{plain[task]['median_ms'] / ms:.2f}"]
            else:
                cells += ["", ""]
        lines.add_row(name, *cells)
    build = result["build_s"]
    lines.caption = f"built in {build['cold']:.2f} s, a second time in {build['warm']:.2f} s"
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=14)
    parser.add_argument("--copies", type=int, default=20)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--size", type=int, default=32)
    parser.add_argument("--rounds", type=int, default=5, help="how often each network takes its turn on a CPU")
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--mode", choices=["default", "reduce-overhead"], default="default", help="of torch.compile")
    parser.add_argument("--record", action="store_true", help="training steps as CUDA graphs")
    parser.add_argument("--tf32", action="store_true", help="on a GPU float32 in place of bfloat16, with TF32 allowed")
    parser.add_argument("--backend", default="auto", choices=["auto", "dense", "fourier"], help="of the convolutions")
    parser.add_argument("--device")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.record and not torch.cuda.is_available():
        parser.error("--record is for a GPU")
    if arguments.tf32 and (arguments.device == "cpu" or not torch.cuda.is_available()):
        parser.error("--tf32 is for a GPU")
    if arguments.tf32:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    result = measure(arguments)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(result, indent=1))


if __name__ == "__main__":
    main()
