"""Networks of everyday sizes beside plain ones with the same layers and channels: the first table of docs/speed.md.

    python benchmarks/everyday.py [--device cpu] [--rows resnet(14] [--ways eager accelerated] [--tf32] [--quick]
    python benchmarks/everyday.py --json out/benchmarks/everyday.json --minutes 9

Each row is measured in several ways: in ordinary code (eager), by ``torch.compile`` with its defaults, and by
``snn.accelerate``, to which the plain network's counterpart is ``torch.compile(mode="reduce-overhead")`` on a GPU and
ordinary code in channels_last on a CPU. "recorded" is ``snn.accelerate(compile=False)``, beside the plain network as
CUDA graphs that are not compiled either. Both networks take turns in one process, on a GPU with ten steps in a row, as
in training. Besides, there is Python's own time per layer in ordinary code, and on a GPU the peak memory of a step.

A file that ``--json`` names is added to: what it has from this machine is not measured again. With ``--minutes`` the
script ends when the next measurement may not fit; call it again to go on. Calls that run side by side, with ``--rows``,
``--ways`` and a file of their own, take turns to measure.
"""

from __future__ import annotations

import argparse
import gc
import json
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from convolution import processor
from fourier_gpu import starting
from network import Contestant, interleaved, milliseconds, peak_memory, summary
from rich.console import Console
from rich.table import Table
from torch import Tensor, nn
from turns import turn

from steerable import FieldType, __version__, dihedral, models
from steerable import nn as snn
from steerable.nn.accelerated_call import AcceleratedCall

WAYS = ("eager", "recorded", "accelerated", "compiled")
TASKS = {"train": "train_step", "eval": "evaluate"}
SECONDS = 8  # of measuring a task of one row, roughly


@dataclass(frozen=True)
class Row:
    """A steerable network, its plain counterpart, and the images that they get."""

    name: str
    build: Callable[[], nn.Module]
    build_plain: Callable[[], nn.Module]
    batch: int
    size: int
    axes: int = 2
    channels: int = 3

    @property
    def title(self) -> str:
        return f"{self.name}, {self.size}{'³' if self.axes == 3 else '²'}, batch {self.batch}"

    @property
    def channels_last(self) -> torch.memory_format:
        return torch.channels_last_3d if self.axes == 3 else torch.channels_last

    def images(self, device: torch.device) -> tuple[Tensor, Tensor]:
        """A batch and its labels, of whole images or of pixels."""
        x = torch.randn(self.batch, self.channels, *[self.size] * self.axes, device=device)
        per_pixel = x.shape[2:] if self.name.startswith("unet") else ()
        return x, torch.randint(2, (self.batch, *per_pixel), device=device)


def residual(depth: int, copies: int, size: int, batch: int) -> Row:
    plain = partial(models.plain_resnet, depth, 20 * copies, inner=8 * copies, crelu=True)
    return Row(f"resnet({depth}, copies={copies})", partial(models.resnet, depth, copies), plain, batch, size)


def rows(device: torch.device) -> list[Row]:
    if device.type == "cuda":
        unet = Row("unet(3, copies=8)", partial(models.unet, 3, 8), partial(models.plain_unet, 3, 64), 8, 256)
        return [residual(20, 8, 32, 128), residual(14, 2, 96, 64), unet, residual(14, 20, 32, 128)]
    narrow = [residual(14, copies, size, 16) for size in (16, 32) for copies in (1, 2, 4)]
    large = [residual(14, copies, size, 4) for size in (64, 128) for copies in (1, 2, 4)]
    return [residual(20, 1, 8, 16), *narrow, *large]


# ---------------------------------------------------------------- networks


def contestants(row: Row, way: str, x: Tensor, half: bool) -> dict[str, Contestant]:
    """Both networks, ready to run in this way."""
    found = {}
    for name, build in (("plain", row.build_plain), ("steerable", row.build)):
        torch.manual_seed(0)
        net = build().to(x.device)
        if x.is_contiguous(memory_format=row.channels_last):
            net = net.to(memory_format=row.channels_last)  # type: ignore[call-overload]
        call: Callable[[Tensor], Tensor] = net
        if way == "compiled":
            call = torch.compile(net)
        elif way in ("recorded", "accelerated") and name == "steerable":
            with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
                with turn():  # `accelerate` remembers what was chosen
                    snn.choose_backends(net, x, cuda_graphs=x.is_cuda)
                call = snn.accelerate(net, x, compile=False if way == "recorded" else None)
        elif way == "recorded":
            call = AcceleratedCall(net, compiles=False, records=True)
        elif way == "accelerated" and x.is_cuda:
            call = torch.compile(net, mode="reduce-overhead")
        found[name] = Contestant(net, call, half=half)
    return found


def measured(row: Row, way: str, device: torch.device, half: bool, quick: bool) -> dict[str, Any]:
    """Times of both networks in training and evaluation, the time until they are ready, and the memory of a step."""
    torch.compiler.reset()
    gc.collect()
    x, y = row.images(device)
    if x.is_cuda or way == "accelerated":
        x = x.contiguous(memory_format=row.channels_last)
    start = time.perf_counter()
    both = contestants(row, way, x, half)
    found: dict[str, Any] = {"built_s": time.perf_counter() - start}
    for task, method in TASKS.items():
        start = time.perf_counter()
        interleaved(both, method, x, y, 1, 2)
        found[f"{task}_ready_s"] = time.perf_counter() - start
        in_a_row, most = (10, 15) if x.is_cuda else (1, 100)
        with turn():
            slowest = max(
                milliseconds(partial(getattr(c, method), x, y), 1, device, in_a_row)[0] for c in both.values()
            )
            rounds = 3 if quick else max(5, min(most, int(500 * SECONDS / (slowest * in_a_row))))
            times = interleaved(both, method, x, y, rounds, 1, in_a_row)
        found[task] = {name: summary(values) for name, values in times.items()}
    if way == "eager":
        found["memory"] = {name: peak_memory(contestant, x, y) for name, contestant in both.items()}
    if way in ("recorded", "accelerated"):
        found["words"] = repr(both["steerable"].net.forward)
    return found


# ---------------------------------------------------------------- single layers


def layers(device: torch.device) -> Iterator[tuple[str, nn.Module, nn.Module]]:
    """Layers of 64 channels: ours, and torch's."""
    fields = FieldType(dihedral(4), "8*regular")
    yield "Conv2d", snn.Conv2d(fields, fields, 3, padding=1).to(device), nn.Conv2d(64, 64, 3, padding=1).to(device)
    yield "BatchNorm2d", snn.BatchNorm2d(fields).to(device), nn.BatchNorm2d(64).to(device)
    yield "ReLU", snn.ReLU(fields).to(device), nn.ReLU().to(device)


def host_time(run: Callable[[], None], device: torch.device) -> float:
    """Microseconds that Python takes for a call, on a CPU with all that a tiny layer computes."""
    if device.type == "cuda":
        return sorted(starting(run) for _ in range(5))[2]
    for _ in range(20):
        run()
    times = []
    for _ in range(20):
        start = time.process_time()
        for _ in range(50):
            run()
        times.append(time.process_time() - start)
    return 1e6 * sorted(times)[len(times) // 4] / 50


def layer_times(device: torch.device, half: bool) -> dict[str, Any]:
    """Python's time per layer, in microseconds: of a step, and of a pass without gradients in evaluation."""
    x = torch.randn(*((8, 64, 16, 16) if device.type == "cuda" else (1, 64, 4, 4)), device=device)
    x = x.contiguous(memory_format=torch.channels_last) if x.is_cuda else x
    leaf = x.clone().requires_grad_()

    def step(layer: nn.Module) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            y: Tensor = layer(leaf)
        y.backward(y.detach())

    @torch.no_grad()
    def evaluation(layer: nn.Module) -> None:
        with torch.autocast(device.type, torch.bfloat16, enabled=half):
            layer(x)

    found: dict[str, Any] = {}
    for name, ours, theirs in layers(device):
        found[name] = {}
        for task, run in (("train", step), ("eval", evaluation)):
            pair = (("torch", theirs), ("steerable", ours))
            found[name][task] = {
                who: host_time(partial(run, layer.train(task == "train")), device) for who, layer in pair
            }
    return found


# ---------------------------------------------------------------- results


def header(device: torch.device, arguments: argparse.Namespace) -> dict[str, Any]:
    """The machine, and what else the figures depend on."""
    half = device.type == "cuda" and not arguments.tf32
    return {
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else processor(),
        "threads": torch.get_num_threads(),
        "versions": {"torch": torch.__version__, "steerable": __version__, "python": platform.python_version()},
        "precision": "bfloat16" if half else "float32 (TF32)" if arguments.tf32 else "float32",
    }


def earlier(path: Path | None, expected: dict[str, Any]) -> dict[str, Any]:
    """What a file has from this machine; a file from another one is refused."""
    if path is None or not path.is_file():
        return {**expected, "rows": {}}
    found: dict[str, Any] = json.loads(path.read_text())
    for key, value in expected.items():
        if found.get(key) != value:
            raise SystemExit(f"{path} has figures of another kind ({key} is {found.get(key)}, here {value}).")
    return found


def likely_seconds(results: dict[str, Any], row: Row, way: str) -> float:
    """How long a measurement may take: as long as others of this network, or of any; compiled ones of any."""
    every: list[float] = [found["seconds"] for ways in results["rows"].values() for found in ways.values()]
    same_row: list[float] = [found["seconds"] for found in results["rows"][row.title].values()]
    if "NVIDIA" not in results["hardware"] or way in ("eager", "recorded"):
        return max(same_row or every, default=0.0)
    compiled: list[float] = [ways[way]["seconds"] for ways in results["rows"].values() if way in ways]
    return max(compiled, default=90.0)


def speeds(ways: dict[str, Any], way: str) -> list[str]:
    """The speed of the steerable network in training and evaluation, the plain one being 1."""
    if way not in ways:
        return ["–", "–"]
    return [
        f"{ways[way][task]['plain']['median_ms'] / ways[way][task]['steerable']['median_ms']:.2f}" for task in TASKS
    ]


def show(results: dict[str, Any], console: Console) -> None:
    table = Table(title=f"speed, plain = 1; {results['precision']}, {results['hardware']}")
    table.add_column("network")
    shown = [way for way in WAYS if any(way in ways for ways in results["rows"].values())]
    for column in (*(f"{way}: {task}" for way in shown for task in TASKS), "memory"):
        table.add_column(column, justify="right")
    for title, ways in results["rows"].items():
        memory = ways.get("eager", {}).get("memory", {}).get("plain")
        ratio = f"{ways['eager']['memory']['steerable'] / memory:.2f}" if memory else "–"
        table.add_row(title, *(cell for way in shown for cell in speeds(ways, way)), ratio)
    console.print(table)
    if "layers" in results:
        table = Table("layer", "train: torch", "steerable", "eval: torch", "steerable", title="Python's time, µs")
        for name, tasks in results["layers"].items():
            table.add_row(name, *(f"{tasks[task][who]:.0f}" for task in TASKS for who in ("torch", "steerable")))
        console.print(table)


def main(
    rows: Callable[[torch.device], list[Row]] = rows, *, description: str | None = __doc__, with_layers: bool = True
) -> None:
    """Measure rows, by default those of this script, as the command line says."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device")
    parser.add_argument("--rows", nargs="+", default=[""], help="parts of the names of the rows that are measured")
    parser.add_argument("--ways", nargs="+", choices=WAYS, help="by default all, on a CPU without the compiler")
    parser.add_argument("--tf32", action="store_true", help="on a GPU float32 in place of bfloat16, with TF32 allowed")
    parser.add_argument("--quick", action="store_true", help="few repetitions, and nothing is compiled by default")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="after which nothing more is begun")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    device = torch.device(arguments.device or ("cuda" if torch.cuda.is_available() else "cpu"))
    if arguments.tf32:
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True
    half = device.type == "cuda" and not arguments.tf32
    results = earlier(arguments.json, header(device, arguments))
    console, started = Console(width=130), time.perf_counter()

    def save() -> None:
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(results, indent=1))

    quick_ways = WAYS[:2] if device.type == "cuda" else ("eager", "accelerated")
    ways = arguments.ways or (WAYS if device.type == "cuda" and not arguments.quick else quick_ways)
    if with_layers and "eager" in ways and "layers" not in results:
        with turn():
            results["layers"] = layer_times(device, half)
        save()
    chosen = [row for row in rows(device) if any(part in row.title for part in arguments.rows)]
    for way in WAYS:
        for row in chosen if way in ways else []:
            if way in results["rows"].setdefault(row.title, {}):
                continue
            begun = time.perf_counter()
            if begun - started + likely_seconds(results, row, way) > 60 * arguments.minutes:
                console.print(f"left for the next call: {row.title}, {way}, and what follows")
                show(results, console)
                return
            found = measured(row, way, device, half, arguments.quick)
            results["rows"][row.title][way] = {**found, "seconds": time.perf_counter() - begun}
            save()
            console.print(f"{row.title}, {way}: {', '.join(speeds(results['rows'][row.title], way))}")
    show(results, console)


if __name__ == "__main__":
    main()
