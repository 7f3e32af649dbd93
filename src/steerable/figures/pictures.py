"""Pictures without any symmetry, drawn by code, so that the effect of a group on them is visible at once."""

from __future__ import annotations

import numpy as np

from steerable.algebra.arrays import FloatArray

__all__ = ["letter_picture", "sailing_boat"]

_SAMPLES = 6  # per pixel and axis: enough for smooth edges


def sailing_boat(size: int) -> FloatArray:
    """(size, size, 3), from 0 to 1: a sailing boat with the sun to one side; every element but e changes it."""
    x, y = _grid(size)
    picture = np.empty((*x.shape, 3))
    picture[:] = (0.80, 0.90, 0.97)
    sea = y < -0.42 + 0.05 * np.sin(7 * x)
    picture[sea] = (0.16, 0.42, 0.62)
    picture[(x + 0.62) ** 2 + (y - 0.62) ** 2 < 0.035] = (0.98, 0.76, 0.20)
    picture[(np.abs(x + 0.02) < 0.025) & (y > -0.35) & (y < 0.78)] = (0.32, 0.22, 0.16)
    picture[(x > 0.04) & (y > -0.18) & (y < 0.72 - 1.35 * (x - 0.04))] = (0.86, 0.24, 0.22)
    picture[(x < -0.08) & (y > -0.18) & (y < 0.45 + 1.5 * (x + 0.08))] = (0.99, 0.97, 0.92)
    hull = (y < -0.24) & (y > -0.56) & (x > -0.62 - 0.8 * (y + 0.24)) & (x < 0.78 + 0.9 * (y + 0.24))
    picture[hull] = (0.42, 0.26, 0.17)
    return _averaged(picture)


def letter_picture(size: int) -> FloatArray:
    """(size, size), from 0 to 1: the letter F, 1 where there is ink."""
    x, y = _grid(size)
    stem = (np.abs(x + 0.36) < 0.16) & (np.abs(y) < 0.75)
    bars = (x > -0.5) & (((y > 0.45) & (y < 0.75) & (x < 0.55)) | ((np.abs(y - 0.02) < 0.14) & (x < 0.28)))
    return _averaged((stem | bars).astype(np.float64)[..., None])[..., 0]


def _grid(size: int) -> tuple[FloatArray, FloatArray]:
    """The coordinates of every sample, x to the right and y up, from -1 to 1."""
    if isinstance(size, bool) or not isinstance(size, int) or size < 1:
        raise ValueError(f"a picture has at least one pixel along each side; got size {size!r}.")
    places = (np.arange(size * _SAMPLES) + 0.5) / (size * _SAMPLES) * 2 - 1
    x, y = np.meshgrid(places, -places)
    return x, y


def _averaged(samples: FloatArray) -> FloatArray:
    size = len(samples) // _SAMPLES
    pixels: FloatArray = samples.reshape(size, _SAMPLES, size, _SAMPLES, samples.shape[-1]).mean(axis=(1, 3))
    return pixels
