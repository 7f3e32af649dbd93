"""The places of a convolution's pixels while a core works on them: slabs of a few images, cut into lines.

A core takes the irreps of one slab at a time: a few images side by side, and of these a range along the first axis,
with what the filters reach beyond it. Each channel of a slab is a plane (*grid, image), images being the fastest axis.
So a *line*, the pixels along the last axis in all images of a slab, is one run of numbers, and so are its shifts.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.nn.backends.fourier.cpu.memory import Indices, Size, indices

__all__ = ["Grid", "Slab"]

# Measured: see benchmarks/NOTES.md.
SLAB_BYTES = 32 << 20
LINE = 64


@dataclass(frozen=True)
class Grid:
    """The grids of a convolution with stride 1 and zeros around.

    Attributes:
        batch: the number of images.
        size: of the input.
        kernel, padding, dilation: of the filters, one number per axis.
    """

    batch: int
    size: Size
    kernel: Size
    padding: Size
    dilation: Size

    @property
    def output(self) -> Size:
        """The size of the output."""
        axes = zip(self.size, self.padding, self.reach, strict=True)
        return tuple([n + 2 * p - r for n, p, r in axes])

    @property
    def reach(self) -> Size:
        """How far a filter reaches beyond its first tap."""
        return tuple([d * (k - 1) for d, k in zip(self.dilation, self.kernel, strict=True)])

    def slabs(self, workers: int, bytes_per_pixel: int) -> list[Slab]:
        """Slabs of about equal size, as many for each worker, that hold about ``SLAB_BYTES`` each."""
        chunks = -(-self.batch // min(self.batch, -(-LINE // self.output[-1])))
        images = -(-self.batch // chunks)
        rows, width = self.output[0], math.prod(n + r for n, r in zip(self.output[1:], self.reach[1:], strict=True))
        most = max(1, SLAB_BYTES // (bytes_per_pixel * images * width) - self.reach[0])
        parts = -(-rows // most)
        while parts < rows and chunks * parts % workers and chunks * parts < 4 * workers:
            parts += 1
        each = -(-rows // parts)
        return [
            Slab(self, (image, min(image + images, self.batch)), (row, min(row + each, rows)))
            for image in range(0, self.batch, images)
            for row in range(0, rows, each)
        ]


@dataclass(frozen=True)
class Slab:
    """A range of images and, in the output, of places along the first axis."""

    grid: Grid
    images: tuple[int, int]
    rows: tuple[int, int]

    @property
    def count(self) -> int:
        """The number of images."""
        return self.images[1] - self.images[0]

    @property
    def line(self) -> int:
        """How many numbers a line of the output has."""
        return self.count * self.grid.output[-1]

    @property
    def lines(self) -> int:
        """How many lines of the output there are."""
        return (self.rows[1] - self.rows[0]) * math.prod(self.grid.output[1:-1])

    @property
    def steps(self) -> list[int]:
        """How many numbers a plane holds, then its stride along each axis."""
        grid, height = self.grid, self.rows[1] - self.rows[0] + self.grid.reach[0]
        frame = [height, *(n + r for n, r in zip(grid.output[1:], grid.reach[1:], strict=True))]
        return [self.count * math.prod(frame[axis:]) for axis in range(len(frame) + 1)]

    def tiles(self, numbers: int) -> Iterator[tuple[int, int]]:
        """(first, last) line of tiles that have about this many numbers in each row."""
        tiles = max(1, round(self.lines * self.line / numbers))
        each = -(-self.lines // tiles)
        for first in range(0, self.lines, each):
            yield first, min(first + each, self.lines)

    def patches(self) -> Indices:
        """The beginning of the first patch of each line in a plane."""
        steps = self.steps[1:-1]
        return indices(_starts([range(n) for n in (self.rows[1] - self.rows[0], *self.grid.output[1:-1])], steps))

    def lines_of_output(self, strides: Size) -> Indices:
        """The beginning of each line in an output with these strides (batch, channel, *grid)."""
        ranges = [range(*self.rows), *(range(n) for n in self.grid.output[1:-1])]
        return indices(_starts(ranges, strides[2:-1]) + self.images[0] * strides[0])

    def lines_of_input(self, strides: Size) -> Indices:
        """(lines, 2): where each line that the slab sees begins in an input of these strides, and in a plane."""
        grid, steps = self.grid, self.steps[1:]
        above = grid.padding[0]
        first, last = max(self.rows[0], above), min(self.rows[1] + grid.reach[0], above + grid.size[0])
        others = [range(p, p + n) for p, n in zip(grid.padding[1:-1], grid.size[1:-1], strict=True)]
        places = _starts([range(first - self.rows[0], max(first, last) - self.rows[0]), *others], steps[:-1])
        others = [range(n) for n in grid.size[1:-1]]
        source = _starts([range(first - above, max(first, last) - above), *others], strides[2:-1])
        source, places = source + self.images[0] * strides[0], places + grid.padding[-1] * steps[-1]
        return indices(np.stack([source, places], axis=1))


def _starts(ranges: Sequence[range], steps: Sequence[int]) -> NDArray[np.int64]:
    """Σ steps · place for all places, the last axis being the fastest."""
    starts = np.zeros((), dtype=np.int64)
    for places, step in zip(ranges, steps, strict=True):
        starts = np.add.outer(starts, step * np.array(places, dtype=np.int64))
    return starts.ravel()
