"""Where the time of a Fourier convolution goes on a GPU, kernel by kernel, beside the dense one.

    python benchmarks/fourier_gpu.py [--copies 80] [--batch 128] [--tf32] [--json out/benchmarks/fourier_gpu.json]

Convolutions of the paper's network in bfloat16 or TF32, channels_last: GPU time of each kernel of a training step, by
torch's profiler, averaged over ten steps, and the time that Python takes to start one.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table
from torch.profiler import ProfilerActivity, profile

from steerable import __version__
from steerable import nn as snn
from steerable.types.network_plans import resnet_plan

STEPS = 10


def kernels(run: Callable[[], object]) -> dict[str, float]:
    """Microseconds of GPU time per step, by kernel."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    with profile(activities=[ProfilerActivity.CUDA, ProfilerActivity.CPU]) as recorded:
        for _ in range(STEPS):
            run()
        torch.cuda.synchronize()
    found: dict[str, float] = {}
    for event in recorded.key_averages():
        annotation = "#" in event.key  # such as Optimizer.step#SGD.step, whose kernels are counted by themselves
        if "CUDA" in str(event.device_type) and event.self_device_time_total and not annotation:
            found[event.key] = event.self_device_time_total / STEPS
    return dict(sorted(found.items(), key=lambda item: -item[1]))


def starting(run: Callable[[], None]) -> float:
    """Microseconds that Python takes to start a step: the GPU is kept busy meanwhile, so that nothing waits for it."""
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    torch.cuda._sleep(200_000_000)
    start = time.perf_counter()
    for _ in range(STEPS):
        run()
    taken = time.perf_counter() - start
    torch.cuda.synchronize()
    return 1e6 * taken / STEPS


def measure(copies: int, size: int, batch: int, tf32: bool) -> list[dict[str, Any]]:
    results = []
    dtype = torch.float32 if tf32 else torch.bfloat16
    block = resnet_plan(depth=14, copies=copies).blocks[1]
    for conv, role in zip(block.convolutions[:2], ("stream→inner", "inner→stream"), strict=True):
        layer = snn.Conv2d(conv.in_type, conv.out_type, 3, padding=1, bias=False).cuda()
        layer = layer.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        x = torch.randn(batch, conv.in_type.channels, size, size, device="cuda", dtype=dtype)
        x = x.contiguous(memory_format=torch.channels_last).requires_grad_()
        upstream = torch.randn(batch, conv.out_type.channels, size, size, device="cuda", dtype=dtype)
        upstream = upstream.contiguous(memory_format=torch.channels_last)
        row: dict[str, Any] = {"case": f"n={copies} {role}, {size}²"}
        for backend in ("dense", "fourier"):
            layer.backend = backend

            def forward(layer: snn.Conv2d = layer, x: torch.Tensor = x) -> None:
                with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=not tf32):
                    layer(x)

            def step(layer: snn.Conv2d = layer, x: torch.Tensor = x, upstream: torch.Tensor = upstream) -> None:
                with torch.autocast("cuda", torch.bfloat16, enabled=not tf32):
                    y = layer(x)
                torch.autograd.grad(y, [x, layer.weight], upstream)

            row[backend] = {"forward": kernels(forward), "step": kernels(step), "starting_us": starting(step)}
        results.append(row)
    return results


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--copies", type=int, nargs="*", default=[20, 40, 80], help="32², 16² and 8² in turn")
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--tf32", action="store_true", help="float32 in place of bfloat16, with TF32 allowed")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    console = Console(width=150)
    if not torch.cuda.is_available():
        console.print("This benchmark needs a CUDA device.")
        return
    torch.backends.cudnn.allow_tf32 = arguments.tf32
    results = []
    for copies in arguments.copies:
        size = 640 // copies if copies in (20, 40, 80) else 8
        for row in measure(copies, size, arguments.batch, arguments.tf32):
            results.append(row)
            totals = {
                task: {backend: sum(row[backend][task].values()) for backend in ("dense", "fourier")}
                for task in ("forward", "step")
            }
            table = Table(title=f"{row['case']}: microseconds of GPU time in a step")
            table.add_column("kernel of the Fourier path")
            table.add_column("forward", justify="right")
            table.add_column("step", justify="right")
            for name, taken in row["fourier"]["step"].items():
                table.add_row(name[:100], f"{row['fourier']['forward'].get(name, 0):.1f}", f"{taken:.1f}")
            table.caption = "; ".join(
                f"{task}: Fourier {times['fourier']:.0f}, dense {times['dense']:.0f}, "
                f"ratio {times['dense'] / times['fourier']:.2f}"
                for task, times in totals.items()
            )
            table.caption += "; Python starts a step in " + ", ".join(
                f"{row[backend]['starting_us']:.0f} ({backend})" for backend in ("fourier", "dense")
            )
            console.print(table)
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        versions = {"torch": torch.__version__, "steerable": __version__}
        machine = {"hardware": torch.cuda.get_device_name(), "versions": versions}
        precision = "float32 (TF32)" if arguments.tf32 else "bfloat16"
        content = {**machine, "batch": arguments.batch, "precision": precision, "results": results}
        arguments.json.write_text(json.dumps(content, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
