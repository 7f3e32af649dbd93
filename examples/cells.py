"""Segmentation with few images: outlined cells among debris and fibres, in an image whose orientation means nothing.

The output has the type 2*A1, the scores of background and cell: they stay with their pixels when the image is turned.
A steerable U-Net learns from 48 images whose cells lie flat; a plain one of equal size is shown them in all poses.
"""

from __future__ import annotations

import time
from pathlib import Path

import torch
import torch.nn.functional as F
from dense_comparison import Result, Task, arguments, compare, show
from matplotlib.figure import Figure
from rich.console import Console
from synthetic import cell_images
from torch import Tensor

import steerable as st

G = st.dihedral(4)


def main() -> None:
    options = arguments(__doc__, "out/cells", steps=150)
    console, started = Console(), time.perf_counter()
    n = options.training_images
    images, masks = cell_images(n + options.test_images, size=40, seed=options.seed)
    masks = masks.unsqueeze(1)
    task = Task(
        train=(images[:n], masks[:n]),
        test=(images[n:], masks[n:]),
        in_type=st.FieldType(G, "A1"),
        target_type=st.FieldType(G, "A1"),
        out_type=st.FieldType(G, "2*A1"),
        loss=lambda output, target: F.cross_entropy(output, target.squeeze(1)),
        score=overlap,
    )
    console.print(
        f"{n} images to learn from, whose cells all lie flat; {options.test_images} to test on, as they are, and "
        "turned and mirrored in seven ways."
    )
    results = compare(task, console, depth=2, copies=4, steps=options.steps, seed=options.seed)
    show(results, console, "Mean intersection over union of the cells; more is better", ".1%")
    figure = options.out / "cells.png"
    draw(results, task, figure)
    console.print(f"{time.perf_counter() - started:.0f} s. Picture: {figure}")


def overlap(output: Tensor, target: Tensor) -> Tensor:
    """(n,): |found ∩ true| / |found ∪ true|, in pixels; 1 if there is nothing and nothing was found."""
    found, true = output.argmax(1, keepdim=True) == 1, target == 1
    both, either = (mask.sum((1, 2, 3)) for mask in (found & true, found | true))
    return torch.where(either > 0, both / either.clamp_min(1), 1.0)


@torch.no_grad()
def draw(results: dict[str, Result], task: Task, path: Path) -> None:
    """One test image upright and turned by 90°: the image, the true cells, and what each network finds."""
    figure = Figure(figsize=(3 * (len(results) + 2), 6.4), layout="constrained")
    axes = figure.subplots(2, len(results) + 2)
    for row, (element, pose) in zip(axes, (("e", "upright"), ("r", "turned by 90°")), strict=True):
        x = st.transform(task.test[0][:1], element, task.in_type)
        true = st.transform(task.test[1][:1], element, task.target_type)
        row[0].imshow(x[0, 0], cmap="gray")
        row[0].set_title(pose, fontsize=9)
        row[1].imshow(true[0, 0], cmap="gray")
        row[1].set_title("true cells", fontsize=9)
        for ax, (name, found) in zip(row[2:], results.items(), strict=True):
            scores = found.net(x)
            ax.imshow(scores.softmax(1)[0, 1], cmap="gray", vmin=0, vmax=1)
            ax.contour(true[0, 0], levels=[0.5], colors="tab:orange", linewidths=0.8)
            ax.set_title(f"{name}: overlap {float(overlap(scores, true)):.0%}", fontsize=9)
        for ax in row:
            ax.set_xticks([])
            ax.set_yticks([])
    figure.savefig(path, dpi=110)


if __name__ == "__main__":
    main()
