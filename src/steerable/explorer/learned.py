"""The filters that a network has learned in its first convolution, drawn capsule by capsule."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from steerable.explorer.images import InlineImage, signed_image
from steerable.figures.style import mosaic
from steerable.nn.convolution_layer import ConvolutionLayer

__all__ = ["LearnedFilters", "learned_filters"]

_MOST_CAPSULES = 64  # whose filters are drawn


@dataclass(frozen=True)
class LearnedFilters:
    """A sentence about a network's first convolution, and the filters of each of its capsules."""

    about: str
    by_capsule: tuple[tuple[str, InlineImage], ...] = ()


@torch.no_grad()
def learned_filters(model: nn.Module) -> LearnedFilters:
    """The filter bank of the first convolution: one row of filters per input channel, grouped by capsules."""
    for module in model.modules():
        if isinstance(module, ConvolutionLayer):
            bank, _ = module.expand()
            capsules = [(str(c), c.dim) for c in module.out_type.capsules]
            about = (
                f"A steerable convolution from `{module.in_type}` to `{module.out_type}`: the filters of one capsule "
                "are turned and mirrored copies of each other, or change sign."
            )
        elif isinstance(module, nn.Conv2d):
            bank, capsules = module.weight, [("", 1)] * len(module.weight)
            about = "A plain convolution: each filter is learned on its own."
        else:
            continue
        filters = np.asarray(bank.detach().double().numpy(), dtype=np.float64)
        largest = float(np.abs(filters).max())
        drawn, start = [], 0
        for name, dim in capsules[:_MOST_CAPSULES]:
            sheet = mosaic(filters[start : start + dim].transpose(1, 0, 2, 3))
            drawn.append((name, signed_image(sheet, f"filters of {name}", largest=largest, scale=11)))
            start += dim
        return LearnedFilters(about, tuple(drawn))
    return LearnedFilters("This network has no convolution.")
