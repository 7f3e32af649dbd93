"""ModelNet10: furniture as solid voxel models of 32×32×32, with the official split, from one .npz file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from steerable.data.datasets import DATASETS
from steerable.data.labelled_images import LabelledImages
from steerable.data.splits import Splits

__all__ = ["load_modelnet10"]

FILE = "modelnet10.npz"


def load_modelnet10(*, data_dir: str | Path | None, download: bool = False, seed: int = 0) -> Splits[LabelledImages]:
    """3,991 training and 908 test models, (n, 1, 32, 32, 32): 255 inside, 0 outside.

    They stand upright: z points up, against the depth of the volume, so that groups about z turn them on the floor.

    Args:
        data_dir: the folder with ``modelnet10.npz``, whose arrays are ``X_train`` and ``X_test``, booleans of shape (n,
            32, 32, 32) in the order x, y, z, and the labels ``y_train`` and ``y_test``.
        download: there is nowhere to fetch the file from.
        seed: the split is given.
    """
    path = None if data_dir is None else Path(data_dir).expanduser() / FILE
    if path is None or not path.is_file():
        where = "no folder was given" if path is None else f"there is no file `{path}`"
        raise FileNotFoundError(
            f"modelnet10 is read from `{FILE}`, and {where}. Give its folder with --data-dir; the file has the arrays "
            "X_train, y_train, X_test and y_test, booleans (n, 32, 32, 32) with the third axis up, and labels 0 to 9."
        )
    with np.load(path, allow_pickle=False) as file:
        if missing := {"X_train", "y_train", "X_test", "y_test"} - set(file.files):
            raise ValueError(f"`{path}` has no array {', '.join(sorted(missing))}, which is part of ModelNet10.")
        parts = {part: (file[f"X_{part}"], file[f"y_{part}"]) for part in ("train", "test")}
    train, test = (
        LabelledImages(
            torch.from_numpy(_seen_from_above(solid)),
            torch.from_numpy(labels.astype(np.int64)),
            DATASETS["modelnet10"].classes,
        )
        for solid, labels in parts.values()
    )
    return Splits(train, test, "modelnet10")


def _seen_from_above(solid: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """(n, x, y, z) → (n, 1, depth, height, width): z against the depth, y against the height."""
    if solid.ndim != 4 or solid.dtype != np.bool_:
        raise ValueError(f"models are booleans (n, x, y, z), got {solid.dtype} of shape {solid.shape}.")
    turned = solid.transpose(0, 3, 2, 1)[:, None, ::-1, ::-1]
    return np.ascontiguousarray(turned) * np.uint8(255)
