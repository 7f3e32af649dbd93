"""What a test costs and says: poses on a sample of many images, upright images all, every class alike."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from steerable.data.labelled_images import LabelledImages
from steerable.training import poses
from steerable.training.class_figures import balanced_accuracy, class_figures, macro_f1
from steerable.training.poses import pose_report, upright_scores


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
