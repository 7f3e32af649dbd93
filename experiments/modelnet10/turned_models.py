"""Writes ModelNet10 with every model turned by a random rotation of its own, as another modelnet10.npz.

    python experiments/modelnet10/turned_models.py DATA TURNED

DATA is a folder with modelnet10.npz. Rotations are equally likely, and those of one seed; what a turn moves out of the
cube is cut off.
"""

from __future__ import annotations

import argparse
import io
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from steerable.atomic import write_bytes
from steerable.data.augmentation import Augmentation
from steerable.data.modelnet import FILE

SEEDS = {"train": 0, "test": 1}
ANYWHERE = Augmentation(shift=0, flip=False, angle=180.0, axes=3)


Array = npt.NDArray[Any]


def turned(solid: Array, seed: int) -> Array:
    """Booleans (n, x, y, z), each turned about the middle, where at least half of a voxel is inside."""
    draws = ANYWHERE.draw(len(solid), torch.Generator().manual_seed(seed))
    volumes = torch.from_numpy(solid[:, None] * np.uint8(255))
    parts = zip(volumes.split(64), draws.split(64), strict=True)
    found: Array = torch.cat([ANYWHERE.apply(*part) for part in parts])[:, 0].numpy() >= 128
    return found


def write_turned(source: Path, target: Path) -> None:
    """The file of one folder, turned, in another folder."""
    with np.load(source / FILE, allow_pickle=False) as file:
        arrays = {name: file[name] for name in ("X_train", "y_train", "X_test", "y_test")}
    for part, seed in SEEDS.items():
        arrays[f"X_{part}"] = turned(arrays[f"X_{part}"], seed)
    target.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    np.savez_compressed(content, **arrays)
    write_bytes(target / FILE, content.getvalue())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with modelnet10.npz")
    parser.add_argument("out", type=Path, help="the folder to write the turned one into")
    arguments = parser.parse_args()
    write_turned(arguments.data, arguments.out)
    print(f"{arguments.out / FILE}: all models turned")


if __name__ == "__main__":
    main()
