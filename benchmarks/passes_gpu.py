"""GPU time of each pass of the paper's convolutions in each way that is not Fourier; that one is in fourier_gpu.py.

    python benchmarks/passes_gpu.py [--batch 128] [--json out/benchmarks/passes_gpu.json]

In bfloat16 and channels_last; ten runs in a row as one CUDA graph, by the GPU's clock. The sum of a profiler's kernels
would be more: cuDNN prepares a pass while the one before it still runs. The expansion of filters is not counted.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

from steerable import __version__
from steerable.nn.backends import Passes, Window
from steerable.nn.backends.combined import combined_convolution, combined_gradients
from steerable.nn.backends.problem import Operands
from steerable.types.network_plans import resnet_plan

COLUMNS: dict[str, tuple[Passes, tuple[bool, bool] | None]] = {  # and which gradients are wanted
    "forward": (Passes(), None),
    "forward, padded": (Passes("padded"), None),
    "input gradient": (Passes(), (True, False)),
    "input gradient, turned": (Passes(for_input="turned"), (True, False)),
    "weight gradient": (Passes(), (False, True)),
    "weight gradient, turned": (Passes(for_weight="turned"), (False, True)),
}


RUNS, REPLAYS = 10, 5


def microseconds(run: Callable[[], object]) -> float:
    """Of GPU time, the median of some replays."""
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream()
    with torch.cuda.stream(stream):
        run()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph, stream=stream):
            for _ in range(RUNS):
                run()
        times: list[float] = []
        for _ in range(REPLAYS):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            times.append(1e3 * start.elapsed_time(end) / RUNS)
    return statistics.median(times)


def measure(inputs: int, outputs: int, size: int, batch: int) -> dict[str, Any]:
    """Microseconds of a 3×3 convolution of that many channels, by pass and way."""

    def random(*shape: int) -> torch.Tensor:
        values = torch.randn(*shape, device="cuda", dtype=torch.bfloat16)
        return values.contiguous(memory_format=torch.channels_last)

    bank, gradient = random(outputs, inputs, 3, 3), random(batch, outputs, size, size)
    window = Window((1, 1), (1, 1), (1, 1), 1)
    operands = Operands(random(batch, inputs, size, size), torch.empty(0, device="cuda"), bank, "", window)
    times: dict[str, float] = {}
    for name, (passes, wanted) in COLUMNS.items():
        if passes.forward == "padded" and inputs % 8 == 0:
            continue
        run: Callable[[], object]
        if wanted is None:
            run = partial(combined_convolution, operands, None, passes)
        else:
            run = partial(combined_gradients, gradient, operands, passes, wanted)
        with torch.no_grad():
            times[name] = microseconds(run)
    return {"case": f"{inputs} → {outputs}, {size}²", "us": times}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    console = Console(width=150)
    if not torch.cuda.is_available():
        console.print("This benchmark needs a CUDA device.")
        return
    cases = [(3, 400, 32)]
    for copies, size in ((20, 32), (40, 16), (80, 8)):
        convolutions = resnet_plan(depth=14, copies=copies).blocks[1].convolutions[:2]
        cases += [(conv.in_type.channels, conv.out_type.channels, size) for conv in convolutions]
    results = [measure(*case, arguments.batch) for case in cases]
    table = Table(title=f"microseconds of GPU time, bfloat16, batch {arguments.batch}")
    for column in ("convolution", *COLUMNS):
        table.add_column(column, justify="left" if column == "convolution" else "right")
    for row in results:
        table.add_row(row["case"], *(f"{row['us'][name]:.0f}" if name in row["us"] else "" for name in COLUMNS))
    console.print(table)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        versions = {"torch": torch.__version__, "steerable": __version__}
        machine = {"hardware": torch.cuda.get_device_name(), "versions": versions}
        content = {**machine, "batch": arguments.batch, "results": results}
        arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
