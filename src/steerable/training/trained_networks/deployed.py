"""A trained network together with all that is done to pixels before it, as one module of torch's own operations."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.data.object_fields import PARTS
from steerable.data.pixel_formats import BRIGHTEST, DARKEST
from steerable.models.tiling import Tiling, mirrored_indices
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter

__all__ = ["Deployed"]

PARTS_OF_A_PERCENT = 10  # in which the ends of a range are whole numbers


class Deployed(nn.Module):
    """Images (batch, channels, size, size), or volumes → scores and probabilities, by torch's own modules only.

    The images are uint8, or float32 where the network was trained on counts. A network that segments takes images
    (batch, channels, height, width) of any size: where the run stretched images to their own ranges, each is stretched
    here; sides that are not multiples of the network's stride are continued as in a mirror, and the result is cut. Of
    numbered objects the classes are those of ``PARTS``, and there are vectors as well.
    """

    low: Tensor
    factor: Tensor
    ends: Tensor

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        self.pixels, self.shape = trained.pixels, trained.input_shape
        for name, value in zip(("low", "factor"), trained.pixels.map(), strict=True):
            self.register_buffer(name, torch.from_numpy(value).view(-1, *[1] * trained.axes))
        ends = [round(PARTS_OF_A_PERCENT * share) for share in (DARKEST, BRIGHTEST)]
        self.register_buffer("ends", torch.tensor(ends))
        self.normalisation = trained.normalisation
        self.network = snn.to_plain(trained.model)
        self.tiling = Tiling.for_network(trained.model) if isinstance(trained, TrainedSegmenter) else None
        self.has_objects = isinstance(trained, TrainedSegmenter) and trained.answer.kind == "instances"
        self.classes = PARTS if self.has_objects else trained.classes

    @property
    def pixel_dtype(self) -> torch.dtype:
        """The dtype of the pixels that it takes."""
        has_bytes = self.pixels.depth in ("", "8-bit")
        return torch.uint8 if has_bytes else torch.float32

    @property
    def example(self) -> Tensor:
        """A batch of two for tracing; sides of free length get sizes unlike any other."""
        if self.tiling is None:
            return torch.zeros(2, *self.shape, dtype=self.pixel_dtype)
        return torch.zeros(
            2, self.shape[0], 2 * self.tiling.stride + 1, 3 * self.tiling.stride + 1, dtype=self.pixel_dtype
        )

    @property
    def free_axes(self) -> dict[int, torch.export.Dim]:
        """The names of the axes that may have any size."""
        sides = {} if self.tiling is None else {2: "height", 3: "width"}
        return {axis: torch.export.Dim(name, min=1 if axis == 0 else 2) for axis, name in {0: "batch", **sides}.items()}

    @property
    def outputs(self) -> list[str]:
        return ["scores", "probabilities", *(["vectors"] if self.has_objects else [])]

    def forward(self, images: Tensor) -> tuple[Tensor, ...]:
        if self.pixels.stretch:
            images = self._stretched(images)
        elif self.pixels.has_counts:
            images = ((images - self.low) * self.factor).clamp(0, 255).round().to(torch.uint8)
        scores = self._scores(self.normalisation(images))
        if self.has_objects:
            scores, vectors = scores[:, : len(PARTS)], scores[:, len(PARTS) :]
            return scores, scores.softmax(1), vectors
        return scores, scores.softmax(1)

    def _scores(self, images: Tensor) -> Tensor:
        if self.tiling is None:
            scores: Tensor = self.network(images)
            return scores
        height, width = images.shape[2:]
        (top, rows), (left, columns) = self.tiling.padded(height), self.tiling.padded(width)
        images = images.index_select(2, mirrored_indices(-top, rows, height))
        scores = self.network(images.index_select(3, mirrored_indices(-left, columns, width)))
        return scores[:, :, top : top + height, left : left + width]

    def _stretched(self, images: Tensor) -> Tensor:
        """Each image of a batch as :meth:`~steerable.data.pixel_formats.PixelFormat.to_bytes` makes it."""
        values = images.to(torch.float32)
        ordered = (values.flatten(1)[:, None] if self.pixels.shares_range else values.flatten(2)).sort(-1).values
        last = torch.ones_like(ordered[0, 0], dtype=torch.long).sum() - 1  # a tensor, as sizes are not known yet
        place = self.ends * last
        parts = 100 * PARTS_OF_A_PERCENT
        below = place.div(parts, rounding_mode="floor")
        low, high = (ordered.index_select(-1, torch.minimum(below + more, last)).double() for more in (0, 1))
        found = (low + (high - low) * (place - below * parts).double() / parts).float()
        darkest, brightest = found[:, :, 0, None, None], found[:, :, 1, None, None]
        span = (brightest - darkest).clamp_min(self.pixels.stretch)
        stretched = (values - darkest) * (torch.full_like(span, 255) / span)  # 255 / span would round twice
        return stretched.clamp(0, 255).round().to(torch.uint8)
