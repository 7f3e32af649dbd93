"""Intervals and tests from images: against known values, and as laws over random figures."""

from __future__ import annotations

import numpy as np
import pytest

from steerable.training.evaluation.intervals import difference, estimate, wilson


@pytest.mark.parametrize(
    ("successes", "count", "low", "high"),
    [(8, 10, 0.4902, 0.9433), (0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (81, 263, 0.2553, 0.3662)],
)
def test_wilsons_interval_is_that_of_the_literature(successes: int, count: int, low: float, high: float) -> None:
    """81 of 263 is Newcombe's example (Statistics in Medicine 17, 1998); the others follow from the formula."""
    found = wilson(successes, count)
    assert (found.low, found.high) == pytest.approx((low, high), abs=2e-4)


def test_intervals_cover_the_truth_about_as_often_as_they_say() -> None:
    generator = np.random.default_rng(1)
    for draw in (lambda: generator.integers(2, size=40), lambda: generator.beta(4, 2, size=40)):
        truth = 0.5 if set(draw()) <= {0, 1} else 2 / 3
        found = [estimate(draw()) for _ in range(100)]
        assert sum(each.low <= truth <= each.high for each in found) >= 88


def test_a_difference_by_chance_is_called_one_and_another_is_not() -> None:
    generator = np.random.default_rng(2)
    right = generator.integers(2, size=(60, 100))
    assert sum(difference(a, generator.permutation(a)).beyond_chance for a in right) <= 7
    better = np.maximum(right, generator.integers(2, size=right.shape))
    assert all(difference(b, a).p < 0.01 and difference(b, a).low > 0 for a, b in zip(right, better, strict=True))


def test_signs_at_random_are_mcnemars_test_for_ones_and_zeros() -> None:
    ours, theirs = np.repeat([1, 0, 1, 0], [12, 4, 20, 5]), np.repeat([0, 1, 1, 0], [12, 4, 20, 5])
    exact = difference(ours, theirs)
    assert (exact.test, exact.value) == ("McNemar", 8 / 41)
    assert exact.p == pytest.approx(2 * sum([1, 16, 120, 560, 1820]) / 2**16)
    flipped = difference(0.5 * ours, 0.5 * theirs)
    assert flipped.test == "sign flips"
    assert flipped.p == pytest.approx(exact.p, abs=0.02)
    assert difference(theirs, ours).p == exact.p
    assert difference(ours, ours).p == 1.0


def test_images_of_one_specimen_count_once() -> None:
    right = np.repeat([1.0, 0.0, 1.0, 1.0, 0.0, 1.0], 20)
    specimens = [f"patient {k // 20}" for k in range(120)]
    alone, together = estimate(right), estimate(right, specimens)
    assert alone.value == together.value
    assert together.high - together.low > 3 * (alone.high - alone.low)
    assert difference(right, 0 * right).p < 1e-9
    assert difference(right, 0 * right, specimens).p > 0.05
