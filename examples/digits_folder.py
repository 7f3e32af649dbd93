"""Make a folder of images to train on: scikit-learn's handwritten digits as PNG files, one sub-folder per class.

    python examples/digits_folder.py --out my-digits --unlabelled new-digits
    steerable train my-digits
    steerable predict runs/my-digits new-digits --csv predictions.csv

With --unlabelled, five images of each class are put aside, turned, and without sub-folders: something to predict.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image
from sklearn.datasets import load_digits


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--classes", type=int, default=10, choices=range(2, 11), help="how many digits")
    parser.add_argument("--first", type=int, default=0, choices=range(9), help="the first of them")
    parser.add_argument("--each", type=int, default=1000, help="at most so many images of a class")
    parser.add_argument("--colour", action="store_true", help="ink of a random colour, in place of grey")
    parser.add_argument("--test", action="store_true", help="OUT/train has EACH images of a class, OUT/test the others")
    parser.add_argument("--size", type=int, default=8, help="height and width of the images")
    parser.add_argument(
        "--unlabelled", type=Path, help="a folder for the last five images of each class, turned at random"
    )
    arguments = parser.parse_args()
    if arguments.out.exists():
        parser.error(f"{arguments.out} exists already")
    digits = load_digits()
    pictures = np.rint(digits.images * (255 / 16)).astype(np.uint8)  # ink is 0 to 16
    turns, inks = np.random.default_rng(0), np.random.default_rng(1)
    if arguments.colour:
        pictures = np.rint(pictures[..., None] * inks.uniform(0.3, 1, (len(pictures), 1, 1, 3))).astype(np.uint8)
    if arguments.first + arguments.classes > 10:
        parser.error(f"there are no {arguments.classes} digits from {arguments.first} on")
    written = 0
    for label in range(arguments.first, arguments.first + arguments.classes):
        numbers = np.flatnonzero(digits.target == label)
        kept = numbers[:-5] if arguments.unlabelled else numbers
        train = arguments.out / "train" if arguments.test else arguments.out
        for number in kept[: arguments.each]:
            _save(pictures[number], train / str(label) / f"{number:04}.png", arguments.size)
            written += 1
        for number in kept[arguments.each :] if arguments.test else ():
            _save(pictures[number], arguments.out / "test" / str(label) / f"{number:04}.png", arguments.size)
        for number in numbers[-5:] if arguments.unlabelled else ():
            turned = np.rot90(pictures[number], int(turns.integers(4)))
            _save(turned, arguments.unlabelled / f"digit-{label}-{number:04}.png", arguments.size)
    print(f"{written} images of {arguments.classes} classes in {arguments.out}")
    if arguments.unlabelled:
        print(f"{5 * arguments.classes} others, unsorted and turned, in {arguments.unlabelled}")


def _save(pixels: npt.NDArray[np.uint8], path: Path, size: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture = Image.fromarray(np.ascontiguousarray(pixels))
    picture.resize((size, size), Image.Resampling.BICUBIC).save(path)


if __name__ == "__main__":
    main()
