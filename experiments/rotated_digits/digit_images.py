"""Rotated digits from a copy of MNIST: each digit at most once, turned by an angle of its own.

    python experiments/rotated_digits/digit_images.py MNIST digits.npz

MNIST is a folder with the four idx files of its authors, packed or not. 12,000 digits are to learn from and 50,000 to
test on, as in the rotated MNIST of the literature (Larochelle et al., 2007), but drawn and turned here: it is not that
file, and errors are comparable with published ones, not equal. scipy turns them, by cubic splines.
"""

from __future__ import annotations

import argparse
import gzip
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

__all__ = ["Digits", "load_digits"]

Bytes = NDArray[np.uint8]
LEARN, TEST = 12_000, 50_000
HELD_OUT = 2_000  # of those to learn from, where settings are chosen


@dataclass(frozen=True)
class Digits:
    """Images (number, 1, 28, 28) from 0 to 1, and labels; to learn from, and to measure the error on."""

    images: Tensor
    labels: Tensor
    measured_images: Tensor
    measured_labels: Tensor


def load_digits(
    path: Path, *, evaluate: str, device: torch.device, limit: int | None = None, held_out: int | None = None
) -> Digits:
    """The digits of a file; with ``evaluate="validation"`` the last 2,000 of those to learn from are measured on."""
    held_out = HELD_OUT if held_out is None else held_out
    with np.load(path) as file:
        learn, learn_labels = file["train_images"], file["train_labels"]
        if evaluate == "validation":
            parts = (learn[:-held_out], learn_labels[:-held_out], learn[-held_out:], learn_labels[-held_out:])
        else:
            parts = (learn, learn_labels, file["test_images"], file["test_labels"])
    images, labels, measured, measured_labels = (torch.from_numpy(part[:limit]).to(device) for part in parts)
    return Digits(_scaled(images), labels.long(), _scaled(measured), measured_labels.long())


def _scaled(images: Tensor) -> Tensor:
    return images[:, None].float() / 255


def rotated(images: Bytes, labels: Bytes, seed: int = 0) -> dict[str, NDArray[np.generic]]:
    """The arrays of a file of rotated digits."""
    from scipy.ndimage import rotate  # type: ignore[import-untyped]

    random = np.random.default_rng(seed)
    order = random.permutation(len(images))[: LEARN + TEST]
    angles = random.uniform(0, 360, len(order))
    turned = np.stack(
        [
            np.clip(np.round(rotate(images[i].astype(float), angle, reshape=False, order=3)), 0, 255).astype(np.uint8)
            for i, angle in zip(order, angles, strict=True)
        ]
    )
    found: dict[str, NDArray[np.generic]] = {}
    for name, part in (("train", slice(0, LEARN)), ("test", slice(LEARN, None))):
        found |= {f"{name}_images": turned[part], f"{name}_labels": labels[order[part]], f"{name}_angles": angles[part]}
    return found


def idx_file(folder: Path, name: str) -> Bytes:
    """An array of bytes in the format of MNIST's authors: two zeros, the type, the number of axes, their extents."""
    packed = folder / f"{name}.gz"
    raw = gzip.decompress(packed.read_bytes()) if packed.is_file() else (folder / name).read_bytes()
    axes = raw[3]
    extents = np.frombuffer(raw, ">u4", axes, 4).astype(int)
    return np.frombuffer(raw, np.uint8, offset=4 + 4 * axes).reshape(extents)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mnist", type=Path, help="the folder with train-images-idx3-ubyte and the three other files")
    parser.add_argument("out", type=Path, help="the file to write, such as digits.npz")
    arguments = parser.parse_args()
    parts = ("train", "t10k")
    images = np.concatenate([idx_file(arguments.mnist, f"{part}-images-idx3-ubyte") for part in parts])
    labels = np.concatenate([idx_file(arguments.mnist, f"{part}-labels-idx1-ubyte") for part in parts])
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(arguments.out, **rotated(images, labels))  # type: ignore[arg-type]
    print(f"{arguments.out}: {LEARN:,} digits to learn from, {TEST:,} to test on")


if __name__ == "__main__":
    main()
