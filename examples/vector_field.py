"""A network whose output is a vector field: the flow between two frames of drifting particles.

The output has the type E: when both frames are turned, the predicted arrows move and turn with them. A steerable
U-Net learns from 48 pairs that drift to the right, and a plain one of equal size is shown them in all poses. Both are
tested on pairs that drift anywhere.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
from dense_comparison import Result, Task, arguments, compare, show
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from synthetic import particle_flow
from torch import Tensor

import steerable as st

G = st.dihedral(4)


def main() -> None:
    options = arguments(__doc__, "out/vector_field", steps=250)
    console, started = Console(), time.perf_counter()
    n = options.training_images
    frames, flow = particle_flow(n + options.test_images, seed=options.seed)
    task = Task(
        train=(frames[:n], flow[:n]),
        test=(frames[n:], flow[n:]),
        in_type=st.FieldType(G, "2*A1"),
        target_type=st.FieldType(G, "E"),
        out_type=st.FieldType(G, "E"),
        loss=lambda output, target: _distance(output, target).mean(),
        score=lambda output, target: _distance(output, target).mean((1, 2)),
    )
    console.print(
        f"Two frames of particles go in, their displacement comes out. {n} pairs to learn from, all "
        f"drifting to the right; {options.test_images} to test on, as they are, and turned and mirrored in seven ways."
    )
    results = compare(task, console, depth=2, copies=4, steps=options.steps, seed=options.seed)
    show(results, console, "Mean distance to the true displacement, in pixels; less is better", ".2f")
    mean_drift = task.train[1].mean((0, 2, 3)).view(2, 1, 1)
    still, steady = (_distance(guess, task.test[1]).mean() for guess in (torch.zeros(2, 1, 1), mean_drift))
    console.print(
        f"For comparison, upright: {still:.2f} for no motion at all, {steady:.2f} for the mean drift everywhere."
    )
    figure = options.out / "vector_field.png"
    draw(results, task, figure)
    console.print(f"{time.perf_counter() - started:.0f} s. Picture: {figure}")


def _distance(output: Tensor, target: Tensor) -> Tensor:
    """(n, height, width): how far the arrows' tips are apart."""
    return (output - target).square().sum(1).add(1e-8).sqrt()


@torch.no_grad()
def draw(results: dict[str, Result], task: Task, path: Path) -> None:
    """One test pair upright and turned by 90°: both frames, the true field, and each network's."""
    figure = Figure(figsize=(3 * (len(results) + 2), 6.4), layout="constrained")
    axes = figure.subplots(2, len(results) + 2)
    for row, (element, pose) in zip(axes, (("e", "upright"), ("r", "turned by 90°")), strict=True):
        x = st.transform(task.test[0][:1], element, task.in_type)
        true = st.transform(task.test[1][:1], element, task.target_type)
        row[0].imshow(torch.stack([x[0, 0], x[0, 1], x[0, 1]], dim=-1).clamp(0, 1))
        row[0].set_title(f"{pose}: first frame red, second cyan", fontsize=9)
        arrows(row[1], true[0], "true field")
        for ax, (name, found) in zip(row[2:], results.items(), strict=True):
            field = found.net(x)
            arrows(ax, field[0], f"{name}: {_distance(field, true).mean():.2f} px off")
        for ax in row:
            ax.set_xticks([])
            ax.set_yticks([])
    figure.savefig(path, dpi=110)


def arrows(ax: Axes, field: Tensor, title: str, every: int = 2) -> None:
    """A field of type E: its first component points to the right, its second up."""
    places = torch.arange(0, field.shape[-1], every)
    right, up = field[:, ::every, ::every]
    ax.quiver(places, places, right, up, right.hypot(up), angles="uv", scale_units="xy", scale=1, cmap="viridis")
    ax.set(xlim=(-1, field.shape[-1]), ylim=(field.shape[-2], -1), aspect="equal")
    ax.set_title(title, fontsize=9)


if __name__ == "__main__":
    main()
