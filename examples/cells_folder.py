"""Make a folder to learn segmentation from: synthetic cells as PNG files, with a mask for each image.

    python examples/cells_folder.py --out my-cells --unlabelled new-cells
    steerable train my-cells
    steerable predict runs/my-cells new-cells --out labels

Cells are round and bright, and some have a dark nucleus, which is a class of its own: masks hold 0 for the background,
1 for a cell and 2 for a nucleus. With --numbered, cells may touch, and masks have one number for each of them. With
--unlabelled, one large image without a mask is put aside: something to predict.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--count", type=int, default=50, help="how many images")
    parser.add_argument("--size", type=int, default=96, help="height and width of the images")
    parser.add_argument("--numbered", action="store_true", help="one number for each cell, in place of classes")
    parser.add_argument("--unlabelled", type=Path, help="a folder for one image of 300×500 pixels without a mask")
    arguments = parser.parse_args()
    if arguments.out.exists():
        parser.error(f"{arguments.out} exists already")
    generator = np.random.default_rng(0)
    for number in range(arguments.count):
        image, mask = _cells(generator, arguments.size, arguments.size, numbered=arguments.numbered)
        _save(image, arguments.out / "images" / f"{number:03}.png")
        _save(mask, arguments.out / "masks" / f"{number:03}.png")
    print(f"{arguments.count} images with masks in {arguments.out}")
    if arguments.unlabelled:
        _save(_cells(generator, 300, 500, numbered=arguments.numbered)[0], arguments.unlabelled / "large.png")
        print(f"1 large image in {arguments.unlabelled}")


def _cells(
    generator: np.random.Generator, height: int, width: int, *, numbered: bool
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8 | np.uint16]]:
    """An image and its mask, (height, width) each; cells touch where they are numbered, and else do not."""
    rows, columns = np.mgrid[:height, :width]
    image = generator.normal(50, 10, (height, width)) + 20 * np.sin(columns / 40 + generator.uniform(0, 6))
    mask = np.zeros((height, width), np.uint16)
    for number in range(1, height * width // 500 + 1):
        radius = generator.uniform(5, 10)
        y, x = generator.uniform(0, height), generator.uniform(0, width)
        distance = np.hypot(rows - y, columns - x)
        if mask[distance < (0.8 * radius if numbered else radius + 2)].any():
            continue
        mask[(distance < radius) & (mask == 0)] = number if numbered else 1
        image += generator.uniform(70, 120) * _disc(distance, radius)
        if generator.uniform() < 0.7:
            inner = np.hypot(rows - y - radius / 5, columns - x)
            if not numbered:
                mask[inner < radius / 2] = 2
            image -= 70 * _disc(inner, radius / 2)
    return image.clip(0, 255).astype(np.uint8), mask if numbered else mask.astype(np.uint8)


def _disc(distance: npt.NDArray[np.float64], radius: float) -> npt.NDArray[np.float64]:
    """1 inside a radius and 0 outside, with a soft edge: 1 / (1 + e^(2 (distance - radius))), without overflow."""
    return 0.5 - 0.5 * np.tanh(distance - radius)


def _save(pixels: npt.NDArray[np.uint8 | np.uint16], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(pixels).save(path)


if __name__ == "__main__":
    main()
