"""The map from bytes to the numbers that a network reads, on the images' own device."""

from __future__ import annotations

from pathlib import Path
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from steerable.data.whitening import zca
from steerable.errors import check_choice
from steerable.models.tensor_files import read_tensors, write_tensors

__all__ = ["Normalisation"]

Kind = Literal["channels", "zca"]


class Normalisation(nn.Module):
    """Bytes to floats of mean 0 and variance 1, by statistics of the training images.

    Shapes: uint8 (batch, channels, height, width), or of volumes (batch, channels, depth, height, width) → float32 of
    the same shape. The statistics are buffers: they move with the module and are saved with it.
    ``Normalisation.fit(images, kind)`` takes them from images, where ``kind`` is

    - ``"channels"``: y = (x/255 - mean) / std, for each channel.
    - ``"zca"``: y = (x/255 - mean) · matrix. Each channel is scaled to variance 1; then comes U (Λ + ε)^(-1/2) Uᵀ,
      where U Λ Uᵀ is the covariance of all pixels and channels; then a factor restores the average variance of 1.

    Args:
        mean: (channels, 1, 1), or (channels, height, width) with a matrix; (channels, 1, 1, 1) for volumes.
        std: (channels, 1, 1), or (channels, 1, 1, 1).
        matrix: (features, features) with features = channels · height · width, in place of ``std``.
    """

    mean: Tensor
    std: Tensor | None
    matrix: Tensor | None

    def __init__(self, mean: Tensor, std: Tensor | None = None, matrix: Tensor | None = None) -> None:
        super().__init__()
        if (std is None) == (matrix is None):
            raise TypeError("Normalisation takes either `std` (for channels) or `matrix` (for ZCA), not both or none.")
        ones = [1] * (mean.ndim - 1)
        if mean.ndim not in (3, 4) or (std is not None and not std.shape == mean.shape == (len(mean), *ones)):
            shapes = " and ".join(str(tuple(given.shape)) for given in (mean, std) if given is not None)
            raise ValueError(
                f"mean and std are (channels, 1, 1), with a matrix (channels, height, width); got {shapes}."
            )
        if matrix is not None and matrix.shape != (mean.numel(), mean.numel()):
            raise ValueError(
                f"the matrix maps the {mean.numel()} values of an image {tuple(mean.shape)} to as many; got the shape "
                f"{tuple(matrix.shape)}."
            )
        self.register_buffer("mean", mean.float().contiguous())
        self.register_buffer("std", None if std is None else std.float().contiguous())
        self.register_buffer("matrix", None if matrix is None else matrix.float().contiguous())

    @property
    def kind(self) -> Kind:
        return "channels" if self.matrix is None else "zca"

    @property
    def channels(self) -> int:
        return self.mean.shape[0]

    def forward(self, x: Tensor) -> Tensor:
        if not isinstance(x, Tensor):
            raise TypeError(
                f"Normalisation reads a torch.Tensor of bytes, got {type(x).__name__}. Give it torch.from_numpy(x); a "
                "trained network takes arrays with `predict([x])`."
            )
        if x.dtype != torch.uint8:
            raise TypeError(f"Normalisation reads bytes, 0 to 255; got {x.dtype}. Give it the images as uint8.")
        if (
            x.ndim != self.mean.ndim + 1
            or x.shape[1] != self.channels
            or (self.matrix is not None and x.shape[1:] != self.mean.shape)
        ):
            raise ValueError(
                f"the statistics are those of images {tuple(self.mean.shape)}, got {tuple(x.shape[1:])}. Fit a "
                "Normalisation on images like these."
            )
        y = x.float() / 255 - self.mean
        if self.matrix is not None:
            # Whitening is a difference of large numbers, too fine for bfloat16.
            with torch.autocast(x.device.type, enabled=False):
                return (y.flatten(1) @ self.matrix).view_as(y)
        return y if self.std is None else y / self.std

    @classmethod
    @torch.no_grad()
    def fit(cls, images: Tensor, kind: Kind = "channels", *, epsilon: float = 0.1) -> Normalisation:
        """The statistics of uint8 (n, channels, height, width), or of volumes, computed on their device in float64.

        Those of ZCA are averaged over all turns and mirror images, so that it commutes with them, and an equivariant
        network after it stays equivariant.

        Args:
            images: the training images.
            kind: ``"channels"`` or ``"zca"``.
            epsilon: the ε of ZCA, relative to a variance of 1; smaller values sharpen more.
        """
        check_choice("kind", kind, get_args(Kind))
        if images.dtype != torch.uint8 or images.ndim not in (4, 5) or not images.numel():
            raise TypeError(
                f"fit reads uint8 images (n, channels, height, width) or volumes; got {images.dtype} of shape "
                f"{tuple(images.shape)}."
            )
        if not epsilon > 0:
            raise ValueError(
                f"`epsilon` must be positive, got {epsilon}: directions without variance would be divided by 0."
            )
        if kind == "zca" and images.ndim == 5:
            raise ValueError("whitening (zca) is for images: a volume has too many voxels. Use kind='channels'.")
        mean, std = _channel_statistics(images)
        if kind == "channels":
            ones = [1] * (images.ndim - 2)
            return cls(mean.view(-1, *ones), std.view(-1, *ones))
        mean, matrix = zca(images, mean, std, epsilon)
        return cls(mean, matrix=matrix)

    def save(self, path: str | Path) -> None:
        """Write the statistics with safetensors."""
        write_tensors(Path(path), self.state_dict())

    @classmethod
    def load(cls, path: str | Path) -> Normalisation:
        """Read what :meth:`save` wrote."""
        state = read_tensors(Path(path))
        if "mean" not in state or not state.keys() <= {"mean", "std", "matrix"}:
            raise ValueError(
                f"`{path}` holds {sorted(state)}, expected the `mean` and the `std` or `matrix` of images."
            )
        return cls(**state)

    def extra_repr(self) -> str:
        return f"{self.kind!r}, {'×'.join(map(str, self.mean.shape))}"


def _channel_statistics(images: Tensor) -> tuple[Tensor, Tensor]:
    """Mean and standard deviation of each channel, of values 0 to 1, exact: from the counts of the 256 values."""
    counts = torch.stack(
        [torch.bincount(images[:, c].flatten(), minlength=256) for c in range(images.shape[1])]  # (channels, 256)
    ).double()
    counts /= counts.sum(1, keepdim=True)
    values = torch.arange(256, dtype=torch.float64, device=images.device) / 255
    mean = counts @ values
    variance = (counts * (values - mean[:, None]) ** 2).sum(1)
    return mean, variance.sqrt().clamp_min(1 / 255)  # a constant channel stays finite
