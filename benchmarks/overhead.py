"""What Python costs per call, beside another checkout: ``python benchmarks/overhead.py --other CHECKOUT``.

Both run at once, in processes of their own, but only one of them computes at a time: they take turns after every few
milliseconds, so that both see the machine in the same states. The CPU time of the quickest turn counts, since a busy
machine makes the others slower; the last column is this checkout's time divided by the other's.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parents[1]


class Case(NamedTuple):
    """What is called, how many calls make one turn, and how many turns each checkout takes."""

    name: str
    calls: int
    turns: int
    call: Callable[[], object]


def cases() -> list[Case]:
    import torch

    import steerable as st

    torch.manual_seed(0)
    torch.set_num_threads(1)

    def step(module: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
        return lambda: module(x).sum().backward()

    def evaluation(module: torch.nn.Module, x: torch.Tensor) -> Callable[[], object]:
        return torch.no_grad()(lambda: module(x))

    fields, x = st.FieldType(st.dihedral(4), "2*regular"), torch.randn(1, 16, 5, 5)
    found = []
    for backend in ("auto", "dense"):
        training, evaluated = (st.nn.Conv2d(fields, fields, 3, padding=1, backend=backend) for _ in range(2))
        found += [
            Case(f"tiny layer, {backend}, forward pass in training", 50, 200, partial(training, x)),
            Case(f"tiny layer, {backend}, training step", 20, 200, step(training, x)),
            Case(f"tiny layer, {backend}, evaluation", 50, 200, evaluation(evaluated.eval(), x)),
        ]
    for size, turns in ((8, 60), (32, 20)):
        images = torch.randn(16, 3, size, size)
        found += [
            Case(f"ResNet-8, {size}×{size}, training step", 1, turns, step(st.models.resnet(8, 2), images)),
            Case(f"ResNet-8, {size}×{size}, evaluation", 1, turns, evaluation(st.models.resnet(8, 2).eval(), images)),
        ]
    images = torch.randn(16, 3, 32, 32)
    return [*found, Case("ResNet-14 of the paper, 32×32, training step", 1, 8, step(st.models.resnet(14, 4), images))]


def serve() -> None:
    """Read the number of a case, carry out one turn, write its CPU time per call; again until nothing more comes."""
    known = cases()
    print(*(f"{case.name}|{case.turns}" for case in known), sep=";", flush=True)
    for line in sys.stdin:
        case = known[int(line)]
        start = time.process_time()
        for _ in range(case.calls):
            case.call()
        print((time.process_time() - start) / case.calls, flush=True)


class Checkout:
    """A process that serves the cases of one checkout."""

    def __init__(self, folder: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(folder / "src"), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__]
        self.process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names = self.answer().split(";")

    def answer(self) -> str:
        if self.process.stdout is None:
            raise RuntimeError("the process has no output")
        return self.process.stdout.readline().strip()

    def turn(self, number: int) -> float:
        if self.process.stdin is None:
            raise RuntimeError("the process has no input")
        print(number, file=self.process.stdin, flush=True)
        return float(self.answer())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--other", type=Path, help="the other checkout")
    parser.add_argument("--only", default="", help="a part of the names of the cases that are measured")
    arguments = parser.parse_args()
    if arguments.other is None:
        serve()
        return
    other, here = Checkout(arguments.other.resolve()), Checkout(HERE)
    print(f"{'µs of CPU time per call':45} {'other':>10} {'here':>10} {'ratio':>7}")
    for number, text in enumerate(here.names):
        name, turns = text.split("|")
        if arguments.only not in name:
            continue
        times = [(other.turn(number), here.turn(number)) for _ in range(int(turns))][1:]  # the first one warms up
        before, after = (1e6 * min(column) for column in zip(*times, strict=True))
        print(f"{name:45} {before:10.1f} {after:10.1f} {after / before:7.3f}", flush=True)
    for checkout in (other, here):
        checkout.process.communicate()


if __name__ == "__main__":
    main()
