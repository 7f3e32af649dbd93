"""Synthetic cells: bright discs on a noisy ground, with a mask that numbers them or tells large from small."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image


def cells(seed: int, height: int = 48, width: int = 48, count: int = 4) -> tuple[np.ndarray, np.ndarray]:
    """(image uint8 (height, width), instances uint16 (height, width)): discs that do not touch, numbered 1, 2, …"""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    image = generator.normal(60, 8, (height, width))
    mask = np.zeros((height, width), np.uint16)
    for _ in range(50 * count):
        if mask.max() == count:
            break
        radius = generator.uniform(3, 6)
        y, x = generator.uniform(0, height), generator.uniform(0, width)
        distance = np.hypot(rows - y, columns - x)
        if (mask[distance < radius + 2] > 0).any() or not (distance < radius).any():
            continue
        mask[distance < radius] = mask.max() + 1
        image += 110 / (1 + np.exp(2 * (distance - radius)))
    return image.clip(0, 255).astype(np.uint8), mask


def write_cells(
    root: Path,
    count: int = 12,
    *,
    size: tuple[int, int] = (48, 48),
    instances: bool = False,
    masks: str = "masks",
    first: int = 0,
) -> Path:
    """A folder with `images` and masks of so many images, as PNG; ``first`` is the seed of the first one."""
    for name in ("images", masks):
        (root / name).mkdir(parents=True, exist_ok=True)
    for number in range(count):
        image, mask = cells(first + number, *size, count=3 + number % 3)
        Image.fromarray(image).save(root / "images" / f"{number:03}.png")
        labels = mask if instances else (mask > 0).astype(np.uint8) * 255
        Image.fromarray(labels).save(root / masks / f"{number:03}.png")
    return root
