"""The common part of vector_field.py and cells.py: U-Nets of equal size, steerable and plain, trained alike."""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table
from torch import Tensor, nn

import steerable as st
from steerable.models import plain_unet, plain_unet_width, unet

Measure = Callable[[Tensor, Tensor], Tensor]


@dataclass(frozen=True)
class Task:
    """Images and the target of each pixel, with their types, and the way in which an output is judged.

    Attributes:
        train, test: (inputs, targets), both (n, channels, height, width).
        in_type, target_type, out_type: of the inputs, the targets and the network's output.
        loss: of (output, target), what training lowers.
        score: of (output, target), one number per image.
    """

    train: tuple[Tensor, Tensor]
    test: tuple[Tensor, Tensor]
    in_type: st.FieldType
    target_type: st.FieldType
    out_type: st.FieldType
    loss: Measure
    score: Measure


@dataclass(frozen=True)
class Result:
    """A trained network and its scores: upright, and as the mean of the seven other poses."""

    net: nn.Module
    parameters: int
    upright: float
    turned: float
    seconds: float


def arguments(description: str | None, out: str, steps: int) -> argparse.Namespace:
    """--out, --seed, --steps and --quick; and how many images there are to train and to test with."""
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path(out), help="where the figure goes")
    parser.add_argument("--seed", type=int, default=0, help="of the data and of all networks")
    parser.add_argument("--steps", type=int, default=steps, help="training steps of each network")
    parser.add_argument("--quick", action="store_true", help="few steps and images, to see that it runs")
    parsed = parser.parse_args()
    parsed.training_images, parsed.test_images = 48, 64
    if parsed.quick:
        parsed.steps, parsed.training_images, parsed.test_images = 2, 8, 2
    parsed.out.mkdir(parents=True, exist_ok=True)
    return parsed


def compare(task: Task, console: Console, *, depth: int, copies: int, steps: int, seed: int) -> dict[str, Result]:
    """Two trainings with the same images, optimiser and schedule: steerable, and plain with images in all poses."""

    def steerable() -> nn.Module:
        return unet(depth, copies, task.out_type, in_type=task.in_type)

    size = _parameters(steerable())
    channels = {"in_channels": task.in_type.channels, "out_channels": task.out_type.channels}

    def plain() -> nn.Module:
        return plain_unet(depth, plain_unet_width(depth, size, **channels), **channels)

    contestants = (("steerable", steerable, False), ("plain, shown all poses", plain, True))
    results = {}
    columns = (TextColumn("{task.description:<28}"), BarColumn(), TextColumn("{task.completed}/{task.total} steps"))
    with Progress(*columns, TimeElapsedColumn(), console=console) as progress:
        for name, build, augmented in contestants:
            torch.manual_seed(seed)
            net = build()
            bar, started = progress.add_task(f"training {name}", total=steps), time.perf_counter()
            train(net, task, steps=steps, seed=seed, augmented=augmented, after_step=partial(progress.advance, bar))
            seconds = time.perf_counter() - started
            results[name] = Result(net, _parameters(net), *pose_scores(net, task), seconds)
    return results


def train(
    net: nn.Module,
    task: Task,
    *,
    steps: int,
    seed: int,
    augmented: bool,
    after_step: Callable[[], object],
    batch: int = 8,
    learning_rate: float = 1e-2,
) -> None:
    """AdamW with one cycle of the learning rate; ``augmented`` moves every image by a random element of the group."""
    inputs, targets = task.train
    generator = torch.Generator().manual_seed(seed)
    elements = task.in_type.group.elements
    optimiser = torch.optim.AdamW(net.parameters(), lr=learning_rate, weight_decay=1e-3)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, learning_rate, total_steps=steps)
    net.train()
    for _ in range(steps):
        chosen = torch.randint(len(inputs), (batch,), generator=generator)
        x, y = inputs[chosen], targets[chosen]
        if augmented:
            moves = [elements[k] for k in torch.randint(len(elements), (batch,), generator=generator).tolist()]
            x = torch.stack([st.transform(a, g, task.in_type) for a, g in zip(x, moves, strict=True)])
            y = torch.stack([st.transform(b, g, task.target_type) for b, g in zip(y, moves, strict=True)])
        optimiser.zero_grad()
        task.loss(net(x), y).backward()
        optimiser.step()
        schedule.step()
        after_step()
    net.eval()


@torch.no_grad()
def pose_scores(net: nn.Module, task: Task) -> tuple[float, float]:
    """The mean score of the test images as they are, and of the images moved by all other elements of the group."""
    scores = {}
    for g in task.in_type.group.elements:
        x, y = (st.transform(t, g, kind) for t, kind in zip(task.test, (task.in_type, task.target_type), strict=True))
        scores[g] = float(task.score(net(x), y).mean())
    upright = scores.pop("e")
    return upright, sum(scores.values()) / len(scores)


def show(results: dict[str, Result], console: Console, title: str, form: str) -> None:
    """The table that an example prints; ``form`` is the format of a score."""
    table = Table(title=title)
    for column, side in (("network", "left"), ("parameters", "right"), ("upright", "right")):
        table.add_column(column, justify=side)  # type: ignore[arg-type]
    table.add_column("turned, mirrored", justify="right")
    table.add_column("training", justify="right")
    for name, found in results.items():
        scores = (format(value, form) for value in (found.upright, found.turned))
        table.add_row(name, f"{found.parameters:,}", *scores, f"{found.seconds:.0f} s")
    console.print(table)


def _parameters(net: nn.Module) -> int:
    return sum(p.numel() for p in net.parameters())
