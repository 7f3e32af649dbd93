"""How far a function of samples is from commuting with all rotations, and how many samples bring it close enough.

A function with a kink has waves of all frequencies. Samples at N angles cannot tell those above N/2 from lower ones,
so these turn wrongly. The error is measured: the aliasing is the root of E‖y(ρ(g)x) - ρ(g)y(x)‖² /
E‖y(x)‖² for coefficients x of the normal distribution and uniform g. Turns of C_N make no error, so the turns between
two of them represent all others. In space, random rotations do.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.representations import Representation
from steerable.algebra.sampled_functions import Domain
from steerable.algebra.spatial_groups import SpatialGroup
from steerable.nn.function_trials import FunctionTrial

__all__ = ["SampledCapsule"]

_MOST = 16  # times the fewest samples: what needs more is better written down by whoever wants it
_INPUTS, _ANGLES = 512, 8


@dataclass(frozen=True)
class SampledCapsule:
    """One kind of capsule, on the points on which its functions live.

    Attributes:
        domain: the points.
        source: how the capsule transforms before the function is applied.
        target: how it transforms afterwards.
    """

    domain: Domain
    source: Representation
    target: Representation

    def matrices(self, samples: int) -> tuple[FloatArray, FloatArray]:
        """(points, dim) and (dim, points): coefficients to values, and by least squares from values back."""
        return _matrices(self, samples)

    def aliasing(self, function: FunctionTrial, samples: int) -> float:
        """The error of the nonlinearity with that many samples; 0 for finite groups, which use all their points."""
        if not self.domain.step:
            return 0.0
        there, back = self.matrices(samples)
        before, after = _between_samples(self.source, samples), _between_samples(self.target, samples)
        x = np.random.default_rng(0).normal(size=(_INPUTS, self.source.dim))
        first, turned = function(x @ there.T, x @ before.transpose(0, 2, 1) @ there.T)
        y = first @ back.T
        energy = np.square(y).mean()
        return math.sqrt(np.square(turned @ back.T - y @ after.transpose(0, 2, 1)).mean() / energy) if energy else 0.0

    def samples_within(self, function: FunctionTrial, tolerance: float) -> tuple[int, float]:
        """The smallest number of samples whose aliasing is within a tolerance, with its aliasing.

        Where no number up to 16 times the fewest reaches it, the last one that was tried.
        """
        samples, found = self.domain.fewest, self.aliasing(function, self.domain.fewest)
        while not found <= tolerance and samples < _MOST * self.domain.fewest:
            samples += self.domain.step
            found = self.aliasing(function, samples)
        return samples, found


# Networks repeat their types: what does not depend on the function is computed once.


@lru_cache(maxsize=1024)
def _matrices(capsule: SampledCapsule, samples: int) -> tuple[FloatArray, FloatArray]:
    there = capsule.domain.values(capsule.source, samples)
    back = there if capsule.source is capsule.target else capsule.domain.values(capsule.target, samples)
    weights = capsule.domain.weights(samples)
    roots = np.ones(len(back)) if weights is None else np.sqrt(weights)
    return read_only(there), read_only(np.asarray(np.linalg.pinv(roots[:, None] * back) * roots, dtype=np.float64))


@lru_cache(maxsize=1024)
def _between_samples(rho: Representation, samples: int) -> FloatArray:
    """(angles, dim, dim): the matrices of turns by less than the angle between two samples, evenly spread."""
    if isinstance(rho.group, SpatialGroup):
        return read_only(rho.at(rho.group.random(_ANGLES, seed=0)))
    turns = [(j + 0.5) / _ANGLES * 360 / samples for j in range(_ANGLES)]
    return read_only(np.stack([rho(rho.group.rotation(turn)) for turn in turns]))
