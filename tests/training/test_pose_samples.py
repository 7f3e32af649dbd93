"""What a test costs and says: poses on a sample of many images, upright images all, every class alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from steerable.algebra.families import group_named
from steerable.data.labelled_images import LabelledImages
from steerable.training.evaluation import poses, turns
from steerable.training.evaluation.class_figures import balanced_accuracy, class_figures, macro_f1
from steerable.training.evaluation.poses import pose_report, upright_scores


def images(count: int) -> LabelledImages:
    """Image k is black but for its top left pixel, in which its label is; two classes, one of them rare."""
    labels = torch.tensor([int(k % 10 == 0) for k in range(count)])
    pixels = torch.zeros(count, 1, 4, 4, dtype=torch.uint8)
    pixels[:, 0, 0, 0] = 100 + labels.byte()
    return LabelledImages(pixels, labels, ("frequent", "rare"))


class Reader:
    """Right on upright images; sees nothing where a turn has taken the pixel away."""

    def __init__(self) -> None:
        self.seen = 0

    def __call__(self, x: Tensor) -> Tensor:
        self.seen += len(x)
        return torch.nn.functional.one_hot((x[:, 0, 0, 0] == 101).long(), 2).float()


def test_all_upright_images_are_tested_and_a_sample_of_them_in_all_poses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(poses, "POSE_SAMPLE", 30)
    data, reader, told = images(100), Reader(), []
    report = pose_report(reader, data, batch_size=16, progress=lambda done, total: told.append((done, total)))
    assert reader.seen == 100 + 7 * 30
    assert (report.images, report.upright, sum(map(sum, report.confusion))) == (30, 1.0, 100)
    assert told == [(16, 30), (30, 30)]
    assert report.accuracy["e"] == 1
    assert report.accuracy["r"] == report.accuracy["m"] < 1  # the rare class is missed
    assert report == pose_report(reader, data, batch_size=7)  # the same sample each time


def test_a_small_test_set_is_tried_as_a_whole_and_known_scores_are_not_computed_again() -> None:
    data, reader = images(20), Reader()
    known = upright_scores(reader, data)
    report = pose_report(reader, data, upright=known)
    assert reader.seen == 20 + 7 * 20
    assert report.images == 20
    assert report.accuracy["r"] == 0.9


def test_figures_in_which_every_class_counts_alike() -> None:
    """Against their definitions, class by class."""
    confusion = np.random.default_rng(0).integers(0, 20, (5, 5))
    confusion[3] = 0  # a class without test images
    recalls, f1 = [], []
    for c in range(5):
        right, true, named = confusion[c, c], confusion[c].sum(), confusion[:, c].sum()
        if true:
            recalls.append(right / true)
        precision, recall = right / max(named, 1), right / max(true, 1)
        f1.append(2 * precision * recall / (precision + recall) if right else 0.0)
    assert balanced_accuracy(confusion.tolist()) == pytest.approx(np.mean(recalls))
    assert macro_f1(confusion.tolist()) == pytest.approx(np.mean(f1))
    assert class_figures([[90, 0], [10, 0]])["balanced_accuracy"] == 0.5
    assert class_figures([[0, 0], [0, 0]]) == {"balanced_accuracy": 0.0, "macro_f1": 0.0}


def blobs(count: int) -> LabelledImages:
    """A bright bar through the centre, wide or narrow."""
    labels = torch.arange(count) % 2
    pixels = torch.full((count, 1, 17, 17), 20, dtype=torch.uint8)
    for image, label in zip(pixels, labels.tolist(), strict=True):
        image[0, 8 - 2 * label - 1 : 8 + 2 * label + 2, 3:14] = 220
    return LabelledImages(pixels, labels, ("narrow", "wide"))


def by_brightness(x: Tensor) -> Tensor:
    """It looks at the mean of all pixels, which no turn changes much."""
    brightness = x.float().mean(dim=(1, 2, 3))
    return torch.stack([70 - brightness, brightness - 70], dim=1)


def by_rows(x: Tensor) -> Tensor:
    """It looks above the centre, where the wide bar is while it lies."""
    above = x[:, 0, 5:7, 3:14].float().mean(dim=(1, 2))
    return torch.stack([160 - above, above - 160], dim=1)


@pytest.mark.parametrize(
    ("group", "own", "turned"),
    [("C4", ["e", "r", "r2", "r3"], False), ("D8", ["e", "r", "r2", "r3", "m", "mr", "mr2", "mr3"], True),
     ("C1", ["e"], False), ("C3", ["e"], True), ("SO2", ["e", "r", "r2", "r3"], True)],
)  # fmt: skip
def test_a_report_says_which_poses_are_the_network_s_own_and_turns_by_other_angles(group, own, turned) -> None:
    report = pose_report(by_brightness, blobs(6), own=group_named(group))
    assert (report.group, report.own_poses) == (group, own)
    assert list(report.turned_accuracy) == ([str(angle) for angle in range(0, 360, 15)] if turned else [])


def test_accuracy_over_angles(monkeypatch: pytest.MonkeyPatch) -> None:
    steady, fickle = (pose_report(f, blobs(10), own=group_named("C8")) for f in (by_brightness, by_rows))
    assert set(steady.turned_accuracy.values()) == {1.0}
    assert max(steady.turned_drift.values()) < 0.2
    assert (fickle.turned_accuracy["0"], fickle.turned_accuracy["180"]) == (1.0, 1.0)
    assert fickle.turned_accuracy["90"] < 1
    assert fickle.turned_drift["90"] > 0.2 > fickle.turned_drift["180"] == fickle.turned_drift["0"] == 0
    assert pose_report(by_rows, blobs(10), own=None).turned_accuracy == {}
    monkeypatch.setattr(turns, "TURNED", 4)
    few = pose_report(by_rows, blobs(10), own=group_named("C8"))
    assert set(few.turned_accuracy.values()) <= {0, 0.25, 0.5, 0.75, 1}
