"""Confidence intervals and tests of differences, for figures from a limited number of test images."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Difference", "Estimate", "difference", "estimate", "wilson"]

Z = 1.959964  # of 95 %
RESAMPLES = 2_000
FLIPS = 10_000
FLIPS_AT_ONCE = 500
DRAWS_AT_ONCE = 10**6  # of all observations together, so that memory is bounded
SEED = 0  # the same images give the same intervals

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Estimate:
    """A mean, and the ends of its 95 % confidence interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Difference(Estimate):
    """A mean difference with its interval, the probability of one as large by chance, and the test that gives it."""

    p: float
    test: str

    @property
    def beyond_chance(self) -> bool:
        """Whether fewer than one in twenty such differences would arise by chance."""
        return self.p < 0.05


def wilson(successes: float, count: int) -> Estimate:
    """Wilson's interval for a share; it has some width even if all or none of a few were successes.

    >>> found = wilson(36, 36)
    >>> found.value, round(found.low, 3), found.high
    (1.0, 0.904, 1.0)
    """
    share = successes / count
    spread = Z / (1 + Z**2 / count) * math.sqrt(share * (1 - share) / count + Z**2 / (4 * count**2))
    centre = (share + Z**2 / (2 * count)) / (1 + Z**2 / count)
    low = 0.0 if share == 0 else max(0.0, centre - spread)
    high = 1.0 if share == 1 else min(1.0, centre + spread)
    return Estimate(share, low, high)


def estimate(values: npt.ArrayLike, specimens: Sequence[str] = ()) -> Estimate:
    """The mean of one figure per image, and its interval: Wilson's if each is 0 or 1, else by the bootstrap.

    Args:
        values: (n,), each between 0 and 1.
        specimens: what each image shows a part of, or nothing. Images of one specimen are alike, so that the specimens
            count as observations in place of the images.
    """
    found = np.asarray(values, np.float64)
    sums, counts = _by_specimen(found, specimens)
    if np.isin(found, (0, 1)).all():
        return wilson(len(sums) * found.mean(), len(sums))
    return Estimate(float(found.mean()), *_bootstrap(sums, counts))


def difference(ours: npt.ArrayLike, theirs: npt.ArrayLike, specimens: Sequence[str] = ()) -> Difference:
    """The mean difference of two networks on the same images, image by image.

    The interval is that of a bootstrap of the pairs. Where every image is right or wrong, p is that of McNemar's exact
    test: among the images that one network alone gets right, each is equally likely to get them. Else the sign of each
    difference is equally likely to be either, which is the same test for figures of any size.

    Args:
        ours, theirs: (n,), a figure of each image between 0 and 1.
        specimens: see :func:`estimate`.

    >>> found = difference([1, 1, 1, 1, 1, 1, 0, 1], [0, 0, 0, 0, 0, 0, 0, 1])
    >>> found.value, found.p, found.test
    (0.75, 0.03125, 'McNemar')
    """
    apart = np.asarray(ours, np.float64) - np.asarray(theirs, np.float64)
    sums, counts = _by_specimen(apart, specimens)
    ends = _bootstrap(sums, counts)
    if not specimens and np.isin(apart, (-1, 0, 1)).all():
        p, test = _mcnemar(int((apart > 0).sum()), int((apart < 0).sum())), "McNemar"
    else:
        p, test = _sign_flips(sums), "sign flips"
    return Difference(float(apart.mean()), *ends, p, test)


def _by_specimen(values: Values, specimens: Sequence[str]) -> tuple[Values, Values]:
    """(sums, counts) of the values of each specimen, or of each image if there are no specimens."""
    if not specimens:
        return values, np.ones_like(values)
    _, numbers = np.unique(np.asarray(specimens), return_inverse=True)
    return np.bincount(numbers, values).astype(np.float64), np.bincount(numbers).astype(np.float64)


def _bootstrap(sums: Values, counts: Values) -> tuple[float, float]:
    """The 2.5 % and 97.5 % quantiles of Σ sums / Σ counts over observations drawn with replacement."""
    generator, count = np.random.default_rng(SEED), len(sums)
    together = max(1, min(RESAMPLES, DRAWS_AT_ONCE // count))
    means: list[Values] = []
    for _ in range(-(-RESAMPLES // together)):
        chosen = generator.integers(count, size=(together, count))
        means.append(sums[chosen].sum(1) / counts[chosen].sum(1))
    low, high = np.quantile(np.concatenate(means), (0.025, 0.975))
    return float(low), float(high)


def _mcnemar(ours: int, theirs: int) -> float:
    """The probability that ``ours + theirs`` fair coins divide at least this unevenly, in either direction."""
    coins, fewer = ours + theirs, min(ours, theirs)
    ways = total = 1  # as whole numbers: a float has no room for 2^n of many images
    for heads in range(1, fewer + 1):
        ways = ways * (coins - heads + 1) // heads
        total += ways
    return min(1.0, float(2 * total / 2**coins))


def _sign_flips(sums: Values) -> float:
    """How often sums with random signs reach as large a total, the given one included."""
    apart = sums[sums != 0]
    observed = abs(apart.sum()) - 1e-9  # rounding does not decide
    generator = np.random.default_rng(SEED)
    larger = 0
    for _ in range(FLIPS // FLIPS_AT_ONCE):
        signs = 2.0 * generator.integers(2, size=(FLIPS_AT_ONCE, len(apart))) - 1
        larger += int((np.abs(signs @ apart) >= observed).sum())
    return (1 + larger) / (1 + FLIPS)
