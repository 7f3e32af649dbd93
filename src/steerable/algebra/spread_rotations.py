"""Points spread over the sphere, and rotations over SO(3), that the rotations of the cube exchange; and their weights.

A few base directions are chosen one after another, each as far as possible from its own images under the cube and
from those of the earlier ones. Every orbit has one weight, such that weighted means are exact for polynomials of as
high a degree as the number of orbits allows: only functions that the cube leaves unchanged matter, and there are few.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.motions_in_space import rotation_matrix
from steerable.algebra.space_families import octahedral
from steerable.algebra.spherical_harmonics import spherical_harmonics

__all__ = ["orbit_weights", "spread_motions"]

_CANDIDATES = 1500
_LEAST = 0.02  # of the mean weight: smaller ones would waste samples, and negative ones raise the error


def spread_motions(directions: int, turns: int = 1, *, reflections: bool = False) -> FloatArray:
    """(directions · turns · order, 3, 3): motions by which O, or O_h with reflections, takes z to spread points.

    The points of one orbit follow each other, and for each point come as many turns about it, evenly spread.

    >>> spread_motions(2).shape, spread_motions(1, 4, reflections=True).shape
    ((48, 3, 3), (192, 3, 3))
    """
    about_z = np.stack([rotation_matrix("z", 360 * j / turns) for j in range(turns)])
    base = np.stack([_candidates()[_base(k, reflections)] for k in range(directions)])
    images = (_cube(reflections)[None] @ base[:, None])[:, :, None] @ about_z
    return np.asarray(images.reshape(-1, 3, 3))


@lru_cache(maxsize=256)
def orbit_weights(directions: int, *, reflections: bool = False) -> FloatArray:
    """(directions,): the weights of the orbits; all are positive, and their sum is 1.

    >>> float(orbit_weights(5).sum().round(12))
    1.0
    """
    points = spread_motions(directions, reflections=reflections)[:, :, 2].reshape(directions, -1, 3)
    even = np.full(directions, 1 / directions)
    conditions, weights = np.ones((1, directions)), even
    for degree in range(1, 8 * directions):
        means = spherical_harmonics(degree, points).mean(axis=1).T
        conditions = np.concatenate([conditions, means])
        wanted = np.concatenate([[1.0], np.zeros(len(conditions) - 1)])
        found = even + np.linalg.lstsq(conditions, wanted - conditions @ even, rcond=1e-9)[0]
        if np.abs(conditions @ found - wanted).max() > 1e-9 or found.min() < _LEAST / directions:
            break
        weights = found
    return read_only(weights)


@lru_cache(maxsize=512)
def _base(number: int, reflections: bool) -> int:
    """The candidate of that number: the one whose closest image, its own or that of an earlier one, is farthest."""
    return int(np.argmin(_closeness(number, reflections)))


@lru_cache(maxsize=512)
def _closeness(number: int, reflections: bool) -> FloatArray:
    """(candidates,): the largest inner product of each direction with an image of itself or of the earlier ones."""
    here, group = _candidates()[:, :, 2], _cube(reflections)
    if number == 0:
        return read_only(np.einsum("gij,nj,ni->gn", group[1:], here, here).max(axis=0))
    images = group @ here[_base(number - 1, reflections)]
    return read_only(np.maximum(_closeness(number - 1, reflections), (here @ images.T).max(axis=1)))


@lru_cache(maxsize=2)
def _cube(reflections: bool) -> FloatArray:
    action = octahedral(reflections=reflections).action
    if action is None:
        raise RuntimeError("the rotations of the cube move space")
    return action


@lru_cache(maxsize=1)
def _candidates() -> FloatArray:
    """(candidates, 3, 3): rotations that take z to evenly spread places, each turned about it by another angle."""
    golden = (1 + math.sqrt(5)) / 2
    number = np.arange(_CANDIDATES)
    polar = np.arccos(1 - (2 * number + 1) / _CANDIDATES)
    turns = [(360 * golden * n, math.degrees(theta), 360 * math.e * n) for n, theta in zip(number, polar, strict=True)]
    rotations = [rotation_matrix("z", a) @ rotation_matrix("y", b) @ rotation_matrix("z", c) for a, b, c in turns]
    return read_only(np.stack(rotations))
