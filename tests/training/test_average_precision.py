"""Average precision of objects is what counting them one by one gives."""

from __future__ import annotations

import numpy as np
import pytest

from steerable.training.evaluation.average_precision import OVERLAPS, average_precisions


def counted(predicted: np.ndarray, true: np.ndarray, overlap: float) -> float:
    guesses, truths = ([labels == k for k in np.unique(labels[labels > 0])] for labels in (predicted, true))
    right = sum((a & b).sum() / (a | b).sum() > overlap for a in guesses for b in truths)
    total = len(guesses) + len(truths) - right
    return right / total if total else 1.0


@pytest.mark.parametrize("seed", range(5))
def test_it_is_that_of_pairs(seed: int) -> None:
    generator = np.random.default_rng(seed)
    true = np.kron(generator.integers(0, 9, (4, 5)), np.ones((6, 6), np.int64)) * 7
    predicted = np.roll(true, generator.integers(0, 3), axis=0)
    predicted[generator.uniform(size=true.shape) < 0.1] = 0
    found = average_precisions(predicted, true)
    assert found.tolist() == pytest.approx([counted(predicted, true, overlap) for overlap in OVERLAPS])
    assert average_precisions(true, true).min() == 1
    assert 0 < found[0] <= 1


def test_images_without_objects() -> None:
    empty, one = np.zeros((3, 4), int), np.ones((3, 4), int)
    assert average_precisions(empty, empty).min() == 1
    assert average_precisions(one, empty).max() == 0
    assert average_precisions(empty, one).max() == 0
