"""A network on images of any size, tile by tile: tiles overlap, and their results are blended without a seam."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor, nn

__all__ = ["TiledAsUNet", "Tiling", "bands_in_tiles", "mirrored_indices", "predict_in_tiles"]

USUAL_TILE = 256
ROOM = 4  # tiles are at least this many times the reach of a network, unless their size is given


class TiledAsUNet:
    """The tiling of a U-Net that halves images ``depth`` times."""

    depth: int
    interpolates = False
    """Whether maps are enlarged by interpolation, which looks at neighbouring pixels."""

    @property
    def stride(self) -> int:
        """The factor by which the image is reduced in all; tiles begin at multiples of it."""
        return 1 << self.depth

    @property
    def reach(self) -> int:
        """The distance in pixels between an output pixel and the farthest input pixel that it depends on.

        The way through the lowest level reaches furthest. With s = 2^depth, the two 3×3 convolutions there reach 2 s
        pixels, two on the way down and two on the way up of each level above 4 (1 + 2 + … + s / 2) = 4 s - 4 in all,
        and the last one 1. Where in its block of s pixels the output lies adds up to s - 1, and so do the neighbours
        that interpolation looks at.
        """
        return 7 * self.stride - 4 + self.interpolates * (self.stride - 1)


@dataclass(frozen=True)
class Tiling:
    """The way in which an image is cut.

    A tile begins at a multiple of ``stride``, so that a network which halves images sees the same blocks of pixels in
    each tile as in the whole image. A tile's results within ``margin`` of its own border are ignored, unless that is
    the image's border; further inside its weight rises to 1, and weights are normalised. If the margin is at least
    the network's reach, the result is that of the whole image everywhere. The places of tiles are symmetric, so that a
    turned image is cut in the same way.

    Args:
        tile: the side of the tiles, a multiple of ``stride``.
        stride: the total stride of the network, 2^depth for a U-Net.
        margin: how many pixels at the border of a tile are not used.
    """

    tile: int
    stride: int
    margin: int

    def __post_init__(self) -> None:
        for name in ("tile", "stride", "margin"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < (name != "margin"):
                raise ValueError(f"the {name} of a tiling must be a whole number of pixels, got {value!r}.")
        if self.tile % self.stride:
            above = -(-self.tile // self.stride) * self.stride
            raise ValueError(
                f"tiles of {self.tile} pixels do not fit a network that reduces images {self.stride} times; their side "
                f"is a multiple of {self.stride}, such as {above}."
            )
        if self.step < self.stride:
            raise ValueError(
                f"tiles of {self.tile} pixels have nothing left inside a margin of {self.margin} on both sides. Use "
                f"tiles of {-(-(3 * self.margin + 3 * self.stride) // self.stride) * self.stride} pixels, or a "
                "smaller margin."
            )

    @staticmethod
    def for_network(network: nn.Module, tile: int | None = None) -> Tiling:
        """The tiling for a network that has a ``reach`` and a ``stride``, such as a U-Net.

        Without a tile it is 256 pixels, or more where the network reaches far: the result is exact. A smaller tile has
        a margin of a quarter of it at most, and the result is exact only as far as the network's distant pixels do not
        matter.
        """
        reach, stride = getattr(network, "reach", None), getattr(network, "stride", None)
        if not isinstance(reach, int) or not isinstance(stride, int):
            raise TypeError(
                f"{type(network).__name__} does not say how far it reaches and by what it reduces images. Give a "
                "Tiling(tile, stride, margin)."
            )
        if tile is None:
            tile = -(-max(USUAL_TILE, ROOM * reach) // stride) * stride
        return Tiling(tile, stride, min(reach, tile // ROOM))

    @property
    def blend(self) -> int:
        """The number of pixels over which the weight of a tile rises."""
        return max(1, (self.tile - 2 * self.margin) // 4)

    @property
    def step(self) -> int:
        """The largest distance between tiles, so that some tile gives each pixel weight."""
        return (self.tile - 2 * self.margin - self.blend) // self.stride * self.stride

    def padded(self, size: int) -> tuple[int, int]:
        """(pixels before, size in all) of a side that is extended on both ends to a multiple of the stride."""
        whole = (size + self.stride - 1) // self.stride * self.stride  # ONNX rounds negative quotients up
        return (whole - size) // 2, whole

    def starts(self, size: int) -> list[int]:
        """The beginnings of tiles along a side that is a multiple of the stride; the same from both ends.

        >>> Tiling(32, 8, 4).starts(96)
        [0, 16, 32, 48, 64]
        """
        last = size - self.tile
        if last <= 0:
            return [0]
        count = 2
        while True:
            half = [-(-k * last // ((count - 1) * self.stride)) * self.stride for k in range(count // 2)]
            found = sorted({*half, *(last - start for start in half)})
            if max(b - a for a, b in itertools.pairwise(found)) <= self.step:
                return found
            count += 2

    def weights(self, start: int, size: int) -> Tensor:
        """The weight of each pixel of a tile along one side, float32 (tile,), or (size,) if that is less."""
        length = min(self.tile, size)
        place = torch.arange(length, dtype=torch.float32) + 0.5
        left = place if start else torch.full_like(place, torch.inf)
        right = length - place if start + length < size else torch.full_like(place, torch.inf)
        return ((torch.minimum(left, right) - self.margin) / self.blend).clamp(0, 1)


def predict_in_tiles(
    scores: Callable[[Tensor], Tensor], image: Tensor, tiling: Tiling | None = None, *, batch_size: int = 4
) -> Tensor:
    """The answer of a network for an image of any size, (channels, height, width) → (outputs, height, width).

    See :func:`bands_in_tiles` for the arguments, and for results that are too large to keep.
    """
    return torch.cat([band for _, band in bands_in_tiles(scores, image, tiling, batch_size=batch_size)], dim=1)


@torch.no_grad()
def bands_in_tiles(
    scores: Callable[[Tensor], Tensor],
    image: Tensor,
    tiling: Tiling | None = None,
    *,
    batch_size: int = 4,
) -> Iterator[tuple[int, Tensor]]:
    """The result from top to bottom: (the first row, float32 (outputs, rows, width)), band after band.

    At any time a few tiles are where the image lies, and one row of tiles with their sum in memory. Sides that are not
    multiples of the stride are continued as in a mirror, and the result is cut.

    Args:
        scores: (batch, channels, tile, tile) → (batch, outputs, tile, tile), in evaluation mode.
        image: (channels, height, width), of any type that ``scores`` takes.
        tiling: how to cut; by default that for the network, which ``scores`` then has to be.
        batch_size: tiles at a time.
    """
    if image.ndim != 3 or not image.numel():
        raise ValueError(f"an image is (channels, height, width), each at least 1; got {tuple(image.shape)}.")
    if tiling is None:
        if not isinstance(scores, nn.Module):
            raise TypeError("only a network says by itself how it is tiled; give a Tiling(tile, stride, margin).")
        tiling = Tiling.for_network(scores)
    height, width = image.shape[1:]
    (top, rows), (left, _) = tiling.padded(height), tiling.padded(width)
    starts = tiling.starts(rows)
    total = weight = None
    for number, start in enumerate(starts):
        said, mattering = _row_of_tiles(scores, image, tiling, start, batch_size)
        if total is None or weight is None:
            total, weight = said, mattering
        else:  # the upper part has been handed on; tiles of this row begin where it ended
            done = start - starts[number - 1]
            total = torch.cat([total[:, done:], torch.zeros_like(total[:, :done])], dim=1) + said
            weight = torch.cat([weight[done:], torch.zeros_like(weight[:done])]) + mattering
        end = starts[number + 1] if number + 1 < len(starts) else rows
        first, behind = max(start, top), min(end, top + height)
        if first < behind:
            finished = slice(first - start, behind - start)
            band = total[:, finished, left : left + width] / weight[finished, left : left + width]
            yield first - top, band


def mirrored_indices(start: int, count: int, size: int) -> Tensor:
    """The indices start, start + 1, … of a line of pixels that is mirrored at its first and last pixel.

    >>> mirrored_indices(-2, 8, 4).tolist()
    [2, 1, 0, 1, 2, 3, 2, 1]
    """
    period = torch.full((), max(1, 2 * (size - 1)))  # a tensor, as an exported network knows no size beforehand
    place = torch.arange(start, start + count) % period
    return torch.minimum(place, period - place)


def _row_of_tiles(
    scores: Callable[[Tensor], Tensor], image: Tensor, tiling: Tiling, start: int, batch_size: int
) -> tuple[Tensor, Tensor]:
    """Weighted sum (outputs, tile, padded width) and weights (tile, padded width) of the tiles that begin in a row."""
    (top, rows), (left, columns) = tiling.padded(image.shape[1]), tiling.padded(image.shape[2])
    high, wide = min(tiling.tile, rows), min(tiling.tile, columns)
    vertical = mirrored_indices(start - top, high, image.shape[1]).to(image.device)
    band = image.index_select(1, vertical)
    down = tiling.weights(start, rows)
    starts = tiling.starts(columns)
    total, weight = None, torch.zeros(high, columns)
    for first in range(0, len(starts), batch_size):
        places = starts[first : first + batch_size]
        across = [mirrored_indices(place - left, wide, image.shape[2]).to(image.device) for place in places]
        tiles = torch.stack([band.index_select(2, indices) for indices in across])
        said = scores(tiles).float().cpu()
        if total is None:
            total = torch.zeros(said.shape[1], high, columns)
        for place, result in zip(places, said, strict=True):
            each = down[:, None] * tiling.weights(place, columns)
            total[:, :, place : place + wide] += each * result
            weight[:, place : place + wide] += each
    if total is None:
        raise ArithmeticError("a row of tiles has no tile.")
    return total, weight
