"""Volumes: steerable convolutions and networks beside plain ``Conv3d`` of the same channels, and escnn's ``R3Conv``.

    python benchmarks/volumes.py [--only O_h] [--repeats 7] [--busy] [--json benchmarks/results/volumes-cpu.json]
    python benchmarks/volumes.py networks [--minutes 9] [--ways eager compiled] [--json out/benchmarks/volumes-gpu.json]

Contestants take turns in one process; figures are medians. "forward" is evaluation, "step" is forward and backward with
all gradients. With --busy the clock is the CPU time of one thread, for machines that others use as well. The file also
has the parameters of a filter between two regular fields, the error of a convolution over all elements of its group,
and the seconds that ten layers take to build. escnn needs an environment of its own, which benchmarks/README.md
describes; without it its figures are left out.

"networks" is for a GPU: whole networks, in the ways of everyday.py, whose options it takes and whose file it writes.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from convolution import ESCNN_HINT, Contestant, interleaved, processor, summary
from everyday import Row
from everyday import main as measure_networks
from torch import Tensor, nn

from steerable import FieldType, __version__, models, octahedral, transform
from steerable import nn as snn

Array = npt.NDArray[Any]
SIGNS = (-1, -1, 1)
CUBE, CUBE_WITH_MIRRORS = octahedral(), octahedral(reflections=True)
BUILD = {
    "steerable": """
from steerable import FieldType, octahedral
from steerable import nn as snn
start = time.{clock}()
t = FieldType(octahedral(reflections={mirrors}), "4*regular")
layers = [snn.Conv3d(t, t, 3, padding=1) for _ in range(10)]
""",
    "escnn": """
from escnn import gspaces, nn
start = time.{clock}()
space = gspaces.fullOctaOnR3() if {mirrors} else gspaces.octaOnR3()
t = nn.FieldType(space, 4 * [space.regular_repr])
layers = [nn.R3Conv(t, t, 3, padding=1) for _ in range(10)]
""",
}


def cases() -> Iterator[tuple[FieldType, int, int, int]]:
    """Regular fields, kernel, size and batch."""
    for group, widths in ((CUBE, (2, 4, 8, 16)), (CUBE_WITH_MIRRORS, (1, 2, 4, 8))):
        for copies in widths:
            yield FieldType(group, f"{copies}*regular"), 3, 8, 4
    for group, copies in ((CUBE, 4), (CUBE, 8), (CUBE_WITH_MIRRORS, 2), (CUBE_WITH_MIRRORS, 4)):
        yield FieldType(group, f"{copies}*regular"), 3, 16, 1
    for group, copies in ((CUBE, 8), (CUBE, 16), (CUBE_WITH_MIRRORS, 8)):
        yield FieldType(group, f"{copies}*regular"), 1, 8, 4


class R3Conv(nn.Module):
    """escnn's layer between regular fields of the rotations of the cube, or of these and the inversion."""

    def __init__(self, kind: FieldType, kernel: int) -> None:
        super().__init__()
        from escnn import gspaces  # type: ignore[import-not-found, import-untyped, unused-ignore]
        from escnn import nn as enn

        space = gspaces.octaOnR3() if kind.group == CUBE else gspaces.fullOctaOnR3()
        self.wrap: Callable[..., Any] = enn.GeometricTensor
        self.fields = enn.FieldType(space, [space.regular_repr] * (kind.channels // kind.group.order))
        self.layer = enn.R3Conv(self.fields, self.fields, kernel, padding=kernel // 2, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        y: Tensor = self.layer(self.wrap(x, self.fields)).tensor
        return y

    def turns(self) -> Iterator[Callable[[Tensor], Tensor]]:
        """What each element does to fields on a cube of voxels, which it permutes: no interpolation takes part."""
        group = self.fields.gspace.fibergroup
        for element in group.elements:
            # escnn's x, y and z are the last axis, and the other two from their ends to their beginnings.
            moved = self.fields.gspace.basespace_action(element).round()[::-1, ::-1] * np.outer(SIGNS, SIGNS)
            yield partial(turned, self.fields.representation(element), moved.astype(int))


def turned(fibre: Array, moved: Array, x: Tensor) -> Tensor:
    """A field, (batch, channels, n, n, n), after fibre and voxels have each been moved by their matrix."""
    middle = (x.shape[-1] - 1) / 2
    places = np.stack(np.meshgrid(*3 * [np.arange(x.shape[-1]) - middle], indexing="ij"), axis=-1)
    i, j, k = torch.from_numpy((places @ moved + middle).round().astype(int)).unbind(-1)  # of the inverse, transposed
    return torch.einsum("cd,bdijk->bcijk", torch.from_numpy(fibre).to(x), x[..., i, j, k])


def times(layers: dict[str, nn.Module], x: Tensor, arguments: argparse.Namespace) -> dict[str, Any]:
    """Milliseconds of each, forward and step."""
    clock = time.thread_time if arguments.busy else time.perf_counter
    found, contestants = {}, {name: Contestant(layer, x) for name, layer in layers.items()}
    for task in ("forward", "step"):
        for layer in layers.values():
            layer.train(task == "step")
        runs = {name: getattr(contestant, task) for name, contestant in contestants.items()}
        taken = interleaved(runs, arguments.repeats, clock, 1)
        found[task] = {name: summary(values) for name, values in taken.items()}
    return found


def convolution(kind: FieldType, kernel: int, size: int, batch: int, arguments: argparse.Namespace) -> dict[str, Any]:
    torch.manual_seed(0)
    options: dict[str, Any] = {"padding": kernel // 2, "bias": False}
    layers: dict[str, nn.Module] = {"plain": nn.Conv3d(kind.channels, kind.channels, kernel, **options)}
    for backend in ("dense", "fourier", "auto"):
        layers[backend] = snn.Conv3d(kind, kind, kernel, backend=backend, **options)
    if find_spec("escnn") is not None:
        layers["escnn"] = R3Conv(kind, kernel)
    x = torch.randn(batch, kind.channels, size, size, size)
    fields = f"{kind.channels // kind.group.order}"
    case = {"group": kind.group.name, "fields": fields, "channels": kind.channels, "kernel": kernel}
    return {**case, "size": size, "batch": batch, **times(layers, x, arguments)}


def network(group: str, copies: int, arguments: argparse.Namespace) -> dict[str, Any]:
    """A residual network of eight layers on 16³ voxels and its plain counterpart."""
    torch.manual_seed(0)
    options: dict[str, Any] = {"axes": 3, "in_channels": 1}
    layers: dict[str, nn.Module] = {"steerable": models.resnet(8, copies, group=group, **options)}
    layers["plain"] = models.plain_resnet(8, copies * (24 if group == "O" else 48), **options)
    x = torch.randn(2, 1, 16, 16, 16)
    return {"name": f"resnet(8, copies={copies}, group={group})", **times(layers, x, arguments)}


def rows(device: torch.device) -> list[Row]:
    """Residual networks of eight layers whose first convolution halves 32³ voxels, or small ones on a CPU."""
    on_gpu, options = device.type == "cuda", {"axes": 3, "in_channels": 1, "stem": 2}
    widths = (("O", 4), ("O_h", 2), ("O", 8), ("C4", 24)) if on_gpu else (("O", 1),)
    order = {"O": 24, "O_h": 48, "C4": 4}
    size, batch = (32, 32) if on_gpu else (8, 2)
    return [
        Row(
            f"resnet(8, copies={copies}, group={group})",
            partial(models.resnet, 8, copies, group=group, **options),
            partial(models.plain_resnet, 8, copies * order[group], **options),
            batch,
            size,
            axes=3,
            channels=1,
        )
        for group, copies in widths
    ]


def filters(kind: FieldType, kernel: int, size: int = 9) -> dict[str, Any]:
    """The parameters of a filter between two fields, and the largest relative error over the group, in float64."""
    torch.manual_seed(0)
    x = torch.randn(1, kind.channels, size, size, size, dtype=torch.float64)
    ours = snn.Conv3d(kind, kind, kernel, padding=kernel // 2, bias=False)
    found: dict[str, tuple[nn.Module, Iterable[Callable[[Tensor], Tensor]]]] = {
        "steerable": (ours, [partial(transform, element=g, field_type=kind) for g in kind.group.elements])
    }
    if find_spec("escnn") is not None:
        theirs = R3Conv(kind, kernel)
        found["escnn"] = (theirs, theirs.turns())
    result: dict[str, Any] = {"group": kind.group.name, "kernel": kernel, "size": size, "taps": kernel**3}
    for name, (layer, turns) in found.items():
        with torch.no_grad():
            y = layer.double().eval()(x)
            error = max(float((layer(turn(x)) - turn(y)).norm() / y.norm()) for turn in turns)
        result[name] = {"parameters": sum(p.numel() for p in layer.parameters()), "error": error}
    return result


def build_seconds(*, busy: bool) -> dict[str, dict[str, float]]:
    """Of ten layers in a fresh process, after the imports and after another one that may have filled caches on disk."""
    clock = "process_time" if busy else "perf_counter"
    threads = {"OMP_NUM_THREADS": "1"} if busy else {}
    seconds: dict[str, dict[str, float]] = {}
    for (name, script), group in itertools.product(BUILD.items(), (CUBE, CUBE_WITH_MIRRORS)):
        if name == "steerable" or find_spec(name) is not None:
            text = script.format(clock=clock, mirrors=group == CUBE_WITH_MIRRORS)
            command = [sys.executable, "-c", f"import time\n{text}\nprint(time.{clock}() - start)"]
            for _ in range(2):
                said = subprocess.run(
                    command, capture_output=True, text=True, check=True, env={**os.environ, **threads}
                )
            seconds.setdefault(name, {})[group.name] = float(said.stdout.split()[-1])
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="the name of a group")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--busy", action="store_true", help="one thread, its own CPU time")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    if arguments.busy:
        torch.set_num_threads(1)
    results: dict[str, Any] = {
        "hardware": processor(),
        "threads": torch.get_num_threads(),
        "clock": "CPU time of one thread" if arguments.busy else "wall",
        "dtype": "float32",
        "repeats": arguments.repeats,
        "versions": {"torch": torch.__version__, "steerable": __version__, "python": platform.python_version()},
        "build_seconds": build_seconds(busy=arguments.busy),
        "filters": [filters(FieldType(g, "regular"), k) for g, k in ((CUBE, 1), (CUBE, 3), (CUBE_WITH_MIRRORS, 3))],
        "convolutions": [],
        "networks": [],
    }
    if find_spec("escnn") is None:
        print(ESCNN_HINT)

    def keep(part: str, result: dict[str, Any]) -> None:
        results[part].append(result)
        medians = {t: {n: round(v["median_ms"], 1) for n, v in result[t].items()} for t in ("forward", "step")}
        print({name: value for name, value in result.items() if name not in medians}, medians, flush=True)
        if arguments.json:
            arguments.json.parent.mkdir(parents=True, exist_ok=True)
            arguments.json.write_text(json.dumps(results, indent=1))

    for kind, kernel, size, batch in cases():
        if arguments.only in ("", kind.group.name):
            keep("convolutions", convolution(kind, kernel, size, batch, arguments))
    for group, copies in (("O", 2), ("O", 4), ("O_h", 2)):
        if arguments.only in ("", group):
            keep("networks", network(group, copies, arguments))


if __name__ == "__main__":
    if "networks" in sys.argv[1:2]:
        del sys.argv[1]
        measure_networks(rows, description=__doc__, with_layers=False)
    else:
        main()
