"""Make a folder of volumes to train on: balls, rods, rings and crosses in every orientation, one sub-folder per class.

    python examples/shapes_folder.py --out my-shapes --unlabelled new-shapes
    steerable train my-shapes
    steerable predict runs/my-shapes new-shapes --csv predictions.csv

Volumes are written as arrays of bytes (.npy), or with --format as .npz, .nii.gz or .tif. With --unlabelled, three
volumes of each class are put aside, without sub-folders: something to predict.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import numpy.typing as npt

SHAPES = ("ball", "rod", "ring", "cross")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="the folder to make")
    parser.add_argument("--classes", type=int, default=4, choices=range(2, 5), help="how many of the shapes")
    parser.add_argument("--each", type=int, default=60, help="how many volumes of each class")
    parser.add_argument("--size", type=int, default=16, help="the side of the volumes in voxels")
    parser.add_argument("--format", default="npy", choices=("npy", "npz", "nii.gz", "tif"), help="how they are written")
    parser.add_argument("--unlabelled", type=Path, help="a folder for three more volumes of each class")
    arguments = parser.parse_args()
    if arguments.out.exists():
        parser.error(f"{arguments.out} exists already")
    generator = np.random.default_rng(0)
    shapes = SHAPES[: arguments.classes]
    for name in shapes:
        for number in range(arguments.each):
            volume = _shape(name, generator, arguments.size)
            _save(volume, arguments.out / name / f"{number:03}.{arguments.format}")
        for number in range(3) if arguments.unlabelled else ():
            volume = _shape(name, generator, arguments.size)
            _save(volume, arguments.unlabelled / f"{name}-{number}.{arguments.format}")
    print(f"{len(shapes) * arguments.each} volumes of {len(shapes)} classes in {arguments.out}")
    if arguments.unlabelled:
        print(f"{3 * len(shapes)} others, unsorted, in {arguments.unlabelled}")


def _shape(name: str, generator: np.random.Generator, size: int) -> npt.NDArray[np.uint8]:
    """(size, size, size): a noisy shape near the middle, turned at random."""
    turn, _ = np.linalg.qr(generator.normal(size=(3, 3)))
    axes = (np.mgrid[:size, :size, :size].reshape(3, -1) - (size - 1) / 2) / (size / 2)
    x, y, z = turn @ (axes - generator.uniform(-0.15, 0.15, (3, 1)))
    thick, long = generator.uniform(0.18, 0.26), generator.uniform(0.6, 0.75)
    rods = [np.maximum(np.hypot(b, c) / thick, np.abs(a) / long) for a, b, c in ((x, y, z), (y, z, x), (z, x, y))]
    inside = {
        "ball": np.sqrt(x * x + y * y + z * z) / 0.45,
        "rod": rods[0],
        "ring": np.hypot(np.hypot(x, y) - 0.5, z) / thick,
        "cross": np.minimum.reduce(rods),
    }[name]
    values = 170 / (1 + np.exp(8 * (inside - 1))) + generator.normal(40, 12, inside.shape)
    found: npt.NDArray[np.uint8] = values.clip(0, 255).astype(np.uint8).reshape(size, size, size)
    return found


def _save(volume: npt.NDArray[np.uint8], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.name.endswith(".nii.gz"):
        import nibabel as nib

        nib.save(nib.Nifti1Image(volume.transpose(), np.eye(4)), path)
    elif path.suffix == ".tif":
        import tifffile

        tifffile.imwrite(path, volume, photometric="minisblack")
    elif path.suffix == ".npz":
        np.savez_compressed(path, volume=volume)
    else:
        np.save(path, volume)


if __name__ == "__main__":
    main()
