"""Rotated digits as a folder for the contest: the set ``digits``.

    python experiments/rotated_digits/digit_images.py MNIST digits.npz
    python experiments/equal_time/digit_folder.py digits.npz FOLDER

All 12,000 digits to learn from, of which the contest takes some, and the first 5,000 of those to test on.
"""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
from PIL import Image

COUNTS = {"train": 12_000, "test": 5_000}


def main() -> None:
    file, root = sys.argv[1:]
    with np.load(file) as digits:
        for part, count in COUNTS.items():
            images, labels = digits[f"{part}_images"][:count], digits[f"{part}_labels"]
            for number, (image, label) in enumerate(zip(images, labels, strict=False)):
                folder = Path(root) / part / str(label)
                folder.mkdir(parents=True, exist_ok=True)
                Image.fromarray(image).save(folder / f"{number}.png")


if __name__ == "__main__":
    main()
