"""The demo's picture: one digit in all poses, the answers of two networks, and how often each is right."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from matplotlib.figure import Figure
from torch import Tensor

import steerable as st
from steerable.data.datasets import load_dataset
from steerable.data.labelled_images import LabelledImages
from steerable.figures.style import INK, QUIET, house_style, show
from steerable.training.trained_networks.trained_model import TrainedModel

POSES = {
    "e": "as it is",
    "r": "turned 90°",
    "r2": "turned 180°",
    "r3": "turned 270°",
    "m": "mirrored",
    "mr": "90°, mirrored",
    "mr2": "180°, mirrored",
    "mr3": "270°, mirrored",
}
DIGITS = (3, 4, 7)  # turned or mirrored, they are no other digit, as a 6 is a 9 and a 2 nearly a 5
RIGHT, WRONG = "#1a7f37", "#b42318"


@house_style
def demo_picture(folder: Path, results: Mapping[str, Mapping[str, Any]]) -> Figure:
    """A row of poses, and below it two rows for each run in ``folder``: its answers, and its accuracy in each pose.

    On the right stands how many of the test digits get the same answer in all poses.
    """
    networks = {name: TrainedModel.load(folder / name).eval() for name in results}
    data = load_dataset("digits").test
    poses, digit = poses_that_matter(networks, data)
    figure = Figure(figsize=(10, 3.4))
    left, step = 0.235, 0.084
    for column, (pose, text) in enumerate(POSES.items()):
        axes = figure.add_axes((left + step * column, 0.65, 0.072, 0.212))
        show(axes, (poses[column, 0] / 255).numpy(), pose, picture=True)
        middle = left + step * column + 0.036
        figure.text(middle, 0.91, text, ha="center", size=7, color=QUIET)
        for row, (name, found) in enumerate(results.items()):
            top = 0.5 - 0.29 * row
            with torch.no_grad():
                answer = int(networks[name](poses)[column].argmax())
            colour = RIGHT if answer == digit else WRONG
            figure.text(middle, top, str(answer), ha="center", va="center", size=22, weight="bold", color=colour)
            accuracy = f"{found['poses']['accuracy'][pose]:.0%}"
            figure.text(middle, top - 0.13, accuracy, ha="center", va="center", size=11, color=INK)
    figure.text(0.015, 0.77, "the test digit whose\npose matters most", va="center", size=11, weight="bold")
    figure.text(0.955, 0.77, "same answer\nin all poses", ha="center", va="center", size=8, weight="bold")
    for row, name in enumerate(results):
        top = 0.5 - 0.29 * row
        steady = f"{share_of_steady_answers(networks[name], data.images):.0%}"
        figure.text(0.955, top, steady, ha="center", va="center", size=16, weight="bold", color=INK)
        figure.text(0.955, top - 0.13, "of test digits", ha="center", va="center", size=9, color=QUIET)
        figure.text(0.015, top, f"{name} network says", va="center", size=11, weight="bold")
        figure.text(0.015, top - 0.13, f"right, of {len(data)} test digits", va="center", size=10, color=QUIET)
    return figure


def poses_that_matter(networks: Mapping[str, TrainedModel], data: LabelledImages) -> tuple[Tensor, int]:
    """All poses of a test digit, and its label: of those that every network recognises upright, the one that is
    mistaken in most of its poses.
    """
    answers = torch.stack([answers_in_all_poses(network, data.images) for network in networks.values()])
    right = answers == data.labels
    known = right[:, 0].all(0) & torch.isin(data.labels, torch.tensor(DIGITS))
    worst = int(right.sum((0, 1)).masked_fill(~known, right.numel()).argmin())
    return torch.cat([posed(data.images[worst : worst + 1], pose) for pose in POSES]), int(data.labels[worst])


def share_of_steady_answers(network: TrainedModel, images: Tensor) -> float:
    """The share of the images to which the network gives the same answer in all poses."""
    answers = answers_in_all_poses(network, images)
    return float((answers == answers[0]).all(0).float().mean())


@torch.no_grad()
def answers_in_all_poses(network: TrainedModel, images: Tensor) -> Tensor:
    """(poses, images): the class that the network gives each image in each pose."""
    return torch.stack([network(posed(images, pose)).argmax(1) for pose in POSES])


def posed(images: Tensor, pose: str) -> Tensor:
    """Grey images, turned and mirrored."""
    return st.transform(images, pose, st.FieldType(st.dihedral(4), "A1"))
