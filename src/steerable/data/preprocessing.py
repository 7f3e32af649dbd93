"""From bytes to the numbers that a network reads; random shifts and mirror images. Both on the images' own device."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Literal, get_args

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.models.saving import read_tensors, write_tensors

__all__ = ["Augmentation", "Normalisation", "augment"]

Kind = Literal["channels", "zca"]
Padding = Literal["zero", "reflect"]


class Normalisation(nn.Module):
    """Bytes to floats of mean 0 and variance 1, by statistics of the training images.

    Shapes: uint8 (batch, channels, height, width) → float32 of the same shape. The statistics are buffers: they move
    with the module and are saved with it. ``Normalisation.fit(images, kind)`` takes them from images, where ``kind`` is

    - ``"channels"``: y = (x/255 - mean) / std, for each channel.
    - ``"zca"``: y = (x/255 - mean) · matrix. Each channel is scaled to variance 1; then comes U (Λ + ε)^(-1/2) Uᵀ,
      where U Λ Uᵀ is the covariance of all pixels and channels; then a factor restores the average variance of 1.

    Args:
        mean: (channels, 1, 1), or (channels, height, width) with a matrix.
        std: (channels, 1, 1).
        matrix: (features, features) with features = channels · height · width, in place of ``std``.
    """

    mean: Tensor
    std: Tensor | None
    matrix: Tensor | None

    def __init__(self, mean: Tensor, std: Tensor | None = None, matrix: Tensor | None = None) -> None:
        super().__init__()
        if (std is None) == (matrix is None):
            raise TypeError("Normalisation takes either `std` (for channels) or `matrix` (for ZCA), not both or none.")
        if mean.ndim != 3 or (std is not None and not std.shape == mean.shape == (len(mean), 1, 1)):
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
        if x.dtype != torch.uint8:
            raise TypeError(f"Normalisation reads bytes, 0 to 255; got {x.dtype}. Give it the images as uint8.")
        if x.shape[1] != self.channels or (self.matrix is not None and x.shape[1:] != self.mean.shape):
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
        """The statistics of uint8 (n, channels, height, width), computed on their device in float64.

        Those of ZCA are averaged over all turns and mirror images, so that it commutes with them, and an equivariant
        network behind it stays equivariant.

        Args:
            images: the training images.
            kind: ``"channels"`` or ``"zca"``.
            epsilon: ε of ZCA, relative to a variance of 1; smaller values sharpen more.
        """
        if kind not in get_args(Kind):
            raise ValueError(f"kind is one of {', '.join(get_args(Kind))}; got {kind!r}.")
        if images.dtype != torch.uint8 or images.ndim != 4 or not images.numel():
            raise TypeError(
                f"fit reads uint8 images (n, channels, height, width); got {images.dtype} of shape "
                f"{tuple(images.shape)}."
            )
        if not epsilon > 0:
            raise ValueError(f"epsilon is positive, got {epsilon}: directions without variance would be divided by 0.")
        mean, std = _channel_statistics(images)
        if kind == "channels":
            return cls(mean.view(-1, 1, 1), std.view(-1, 1, 1))
        mean, matrix = _zca(images, mean, std, epsilon)
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


def _zca(images: Tensor, mean: Tensor, std: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """(mean, matrix) of whitening, (channels, height, width) and (features, features).

    In a basis of even and odd rows and columns, a covariance averaged over mirror images falls into four blocks.
    """
    channels, height, width = images.shape[1:]
    rows, columns = (_parity_basis(size).to(images.device) for size in (height, width))
    halves = [[slice(0, (size + 1) // 2), slice((size + 1) // 2, size)] for size in (height, width)]
    sectors = [(i, j) for i in (0, 1) for j in (0, 1) if (height > 1 or i == 0) and (width > 1 or j == 0)]
    products: dict[tuple[int, int], Tensor] = {}
    total: Tensor = torch.zeros(channels, height, width, dtype=torch.float64, device=images.device)
    mean, std = mean.view(-1, 1, 1), std.view(-1, 1, 1)
    for chunk in images.split(2048):
        x = rows @ ((chunk.double() / 255 - mean) / std) @ columns.T
        total += x.sum(0)
        for i, j in sectors:
            part = x[:, :, halves[0][i], halves[1][j]]
            moments = (part.flatten(1).T @ part.flatten(1)).view(*part.shape[1:], *part.shape[1:]) / len(images)
            products[i, j] = products[i, j] + moments if (i, j) in products else moments
    if height == width:
        total = (total + total.mT) / 2
        products = {(i, j): (products[i, j] + products[j, i].permute(0, 2, 1, 3, 5, 4)) / 2 for i, j in sectors}
    centre = torch.zeros_like(total)
    centre[:, halves[0][0], halves[1][0]] = total[:, halves[0][0], halves[1][0]] / len(images)  # odd parts average out
    roots = torch.zeros(*2 * (channels, height, width), dtype=torch.float64, device=images.device)
    remaining = torch.zeros((), dtype=torch.float64, device=images.device)
    for i, j in sectors:
        here = (slice(None), halves[0][i], halves[1][j])
        middle = centre[here].flatten()
        variances, directions = torch.linalg.eigh(products[i, j].reshape(len(middle), -1) - torch.outer(middle, middle))
        variances = variances.clamp_min(0)
        remaining += (variances / (variances + epsilon)).sum()
        roots[here + here] = ((directions * (variances + epsilon).rsqrt()) @ directions.T).view_as(roots[here + here])
    # Back to pixels, on both sides: Qᵀ roots Q with Q = rows ⊗ columns, done axis by axis.
    back = columns.T @ (rows.T @ roots.flatten(3).view(channels, height, -1)).view(channels, height, width, -1)
    back = back.view(-1, channels, height, width)
    matrix = (rows.T @ back @ columns).view(total.numel(), -1) / (remaining / total.numel()).clamp_min(1e-12).sqrt()
    scale = std.expand_as(total).flatten()
    return mean + std * (rows.T @ centre @ columns), matrix / scale[:, None]


def _parity_basis(size: int) -> Tensor:
    """(size, size), orthogonal: first the even rows (e_k + e_(size-1-k)) / √2 and the middle, then the odd ones."""
    unit = torch.eye(size, dtype=torch.float64)
    even = (unit + unit.flip(0))[: (size + 1) // 2]
    odd = (unit - unit.flip(0))[: size // 2]
    return F.normalize(torch.cat([even, odd]))


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


@dataclass(frozen=True)
class Augmentation:
    """Random shifts and mirror images ("+" in the paper's tables).

    Args:
        shift: by up to so many pixels up, down, left and right.
        flip: mirror left and right with probability 1/2.
        dihedral: any of the 8 turns and mirror images of the square in place of ``flip``.
        padding: what comes in from outside: ``"zero"``, or the ``"reflect"``-ed image.
    """

    shift: int = 4
    flip: bool = True
    dihedral: bool = False
    padding: Padding = "zero"

    def __post_init__(self) -> None:
        if self.padding not in get_args(Padding):
            raise ValueError(f"padding is one of {', '.join(get_args(Padding))}; got {self.padding!r}.")
        if self.shift < 0:
            raise ValueError(f"shift is not negative, got {self.shift}.")

    def check(self, height: int, width: int) -> None:
        """Whether images of this size can be augmented so."""
        if self.shift >= min(height, width):
            raise ValueError(
                f"a shift by {self.shift} moves a {height}×{width} image out of sight. Use a smaller shift."
            )
        if self.dihedral and height != width:
            raise ValueError(f"quarter turns need square images, got {height}×{width}. Use dihedral=False.")

    def draw(self, count: int, generator: torch.Generator) -> Tensor:
        """(count, 3), int64: the shift down, the shift to the right, and the symmetry of each image.

        A symmetry is three bits: 1 mirrors left and right, 2 up and down, and 4 swaps rows and columns after that.
        """
        where = generator.device
        shifts = torch.randint(-self.shift, self.shift + 1, (count, 2), generator=generator, device=where)
        kinds = 8 if self.dihedral else 2 if self.flip else 1
        return torch.cat([shifts, torch.randint(kinds, (count, 1), generator=generator, device=where)], dim=1)

    def apply(self, images: Tensor, draws: Tensor, rows: Tensor | None = None) -> Tensor:
        """Image ``rows[i]`` moved by ``draws[i]``, for all i, in one gather.

        Args:
            images: (n, channels, height, width), of any type.
            draws: (batch, 3), from :meth:`draw`.
            rows: (batch,), by default 0, 1, 2, …
        """
        channels, height, width = images.shape[1:]
        self.check(height, width)
        device = images.device
        rows = torch.arange(len(draws), device=device) if rows is None else rows
        down, right, symmetry = draws.to(device, non_blocking=True).view(-1, 3, 1, 1).unbind(1)
        # Where each pixel of the result comes from: undo the shift, then the symmetry.
        y = torch.arange(height, device=device).view(1, -1, 1) - down
        x = torch.arange(width, device=device).view(1, 1, -1) - right
        inside = (y >= 0) & (y < height) & (x >= 0) & (x < width) if self.padding == "zero" else None
        y, x = _reflected(y, height), _reflected(x, width)
        if self.dihedral:
            swap = symmetry >= 4
            y, x = torch.where(swap, x, y), torch.where(swap, y, x)
            y = torch.where((symmetry & 2) > 0, height - 1 - y, y)
        x = torch.where((symmetry & 1) > 0, width - 1 - x, x)
        source = (y * width + x).flatten(1)
        every = torch.arange(channels, device=device).view(1, -1, 1)
        moved: Tensor = images.flatten(2)[rows.view(-1, 1, 1), every, source[:, None]].unflatten(2, (height, width))
        return moved if inside is None else moved.masked_fill(~inside[:, None], 0)


def augment(
    batch: Tensor,
    generator: torch.Generator,
    shift: int = 4,
    flip: bool = True,
    *,
    dihedral: bool = False,
    padding: Padding = "zero",
) -> Tensor:
    """Each image of (batch, channels, height, width) under its own random motion; see :class:`Augmentation`.

    The same state of a CPU generator gives the same images on any device.
    """
    chosen = Augmentation(shift, flip, dihedral, padding)
    return chosen.apply(batch, chosen.draw(len(batch), generator))


def _reflected(position: Tensor, size: int) -> Tensor:
    """Positions outside 0 … size-1 mirrored at the first and last pixel."""
    return (size - 1) - ((size - 1) - position.abs()).abs()
