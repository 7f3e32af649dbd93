"""Time of one training step of the paper's network beside a plain one of the same dense channels; medians.

python benchmarks/step_time.py [--copies 14] [--batch 128] [--compile]
"""

from __future__ import annotations

import argparse
import statistics
import time

import torch
from torch import nn

from steerable import models


def milliseconds(net: nn.Module, x: torch.Tensor, y: torch.Tensor, half: bool, repeats: int) -> list[float]:
    optimiser = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    times = []
    for _ in range(repeats):
        if x.is_cuda:
            torch.cuda.synchronize()
        start = time.perf_counter()
        with torch.autocast(x.device.type, torch.bfloat16, enabled=half):
            loss = nn.functional.cross_entropy(net(x).float(), y)
        loss.backward()
        optimiser.step()
        optimiser.zero_grad()
        if x.is_cuda:
            torch.cuda.synchronize()
        times.append(1e3 * (time.perf_counter() - start))
    return times


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--depth", type=int, default=14)
    parser.add_argument("--copies", type=int, default=14)
    parser.add_argument("--batch", type=int, default=128)
    parser.add_argument("--compile", action="store_true")
    arguments = parser.parse_args()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    half = device.type == "cuda"
    started = time.perf_counter()
    steerable = models.resnet(arguments.depth, arguments.copies)
    built = time.perf_counter() - started
    n = arguments.copies
    plain = models.plain_resnet(arguments.depth, 20 * n, inner=8 * n, crelu=True)
    x = torch.randn(arguments.batch, 3, 32, 32, device=device).contiguous(memory_format=torch.channels_last)
    y = torch.randint(10, (arguments.batch,), device=device)
    nets: dict[str, nn.Module] = {"steerable": steerable, "plain": plain}
    for name, net in nets.items():
        nets[name] = net.to(device).to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    if arguments.compile:
        nets = {name: torch.compile(net) for name, net in nets.items()}  # type: ignore[misc]
    for name, net in nets.items():
        begun = time.perf_counter()
        milliseconds(net, x, y, half, 3)
        print(f"{name}: warm-up {time.perf_counter() - begun:.1f} s")
    times: dict[str, list[float]] = {name: [] for name in nets}
    for _ in range(5 if half else 2):  # interleaved
        for name, net in nets.items():
            times[name] += milliseconds(net, x, y, half, 8 if half else 2)
    medians = {name: statistics.median(values) for name, values in times.items()}
    print(f"{device.type}, depth {arguments.depth}, n = {n}, batch {arguments.batch}, compile {arguments.compile}")
    print(f"build {built:.2f} s; " + ", ".join(f"{name} {ms:.1f} ms" for name, ms in medians.items()))


if __name__ == "__main__":
    main()
