"""Synthetic grey surfaces with defects in every orientation, as a folder for the contest: the set ``steel-200``.

    python experiments/equal_time/steel_folder.py FOLDER

Needs scipy. 200² pixels, six classes, 100 training and 60 test images each, always the same ones.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from scipy import ndimage  # type: ignore[import-untyped]

SIDE, SEED = 200, 1
CLASSES = ("crazing", "inclusion", "patches", "pitted", "rolled", "scratches")
COUNTS = {"train": 100, "test": 60}

Plane = npt.NDArray[np.float64]


def noise(random: np.random.Generator, width: float) -> Plane:
    """Smooth noise with variance 1."""
    smooth = np.asarray(ndimage.gaussian_filter(random.normal(size=(SIDE, SIDE)), width, mode="wrap"))
    found: Plane = smooth / smooth.std()
    return found


def surface(kind: str, random: np.random.Generator) -> npt.NDArray[Any]:
    """One image, uint8."""
    levels = 0.5 * noise(random, 1) + 0.6 * noise(random, random.uniform(4, 14))
    y, x = np.mgrid[:SIDE, :SIDE] - SIDE / 2
    turn = random.uniform(0, 2 * np.pi)
    along, across = x * np.cos(turn) + y * np.sin(turn), -x * np.sin(turn) + y * np.cos(turn)
    if kind == "crazing":
        waves = along + 3 * noise(random, 8)
        levels -= 1.2 * (np.abs(np.sin(waves / random.uniform(2.5, 5))) < 0.25) * (noise(random, 3) > 0.3)
    elif kind == "inclusion":
        for _ in range(random.integers(1, 5)):
            p, q = random.uniform(-SIDE / 3, SIDE / 3, 2)
            far = ((along - p) / random.uniform(8, 20)) ** 2
            levels -= 2 * np.exp(-far - ((across - q) / random.uniform(2, 4)) ** 2)
    elif kind == "patches":
        levels -= 1.8 * (noise(random, random.uniform(7, 12)) > 1.1)
    elif kind == "pitted":
        for _ in range(random.integers(10, 30)):
            p, q = random.uniform(-SIDE / 2, SIDE / 2, 2)
            levels -= 1.6 * np.exp(-((along - p) ** 2 + (across - q) ** 2) / random.uniform(1.5, 4) ** 2)
    elif kind == "rolled":
        levels -= 1.3 * ((np.abs(noise(random, 5)) < 0.12) & (noise(random, 6) > 0))
    else:
        for _ in range(random.integers(1, 3)):
            q, length = random.uniform(-SIDE / 3, SIDE / 3), random.uniform(SIDE / 4, SIDE / 2)
            line = across - q + 0.002 * along * along * random.normal()
            levels += 2 * np.exp(-((line / 1.2) ** 2)) * (np.abs(along) < length)
    grey = levels * random.uniform(18, 30) + random.uniform(90, 160)
    return np.clip(grey, 0, 255).astype(np.uint8)


def main() -> None:
    root, random = Path(sys.argv[1]), np.random.default_rng(SEED)
    for kind in CLASSES:
        for part, count in COUNTS.items():
            folder = root / part / kind
            folder.mkdir(parents=True, exist_ok=True)
            for number in range(count):
                Image.fromarray(surface(kind, random)).save(folder / f"{number:05}.png")


if __name__ == "__main__":
    main()
