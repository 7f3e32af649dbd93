"""The filters that a network has learned in its first convolution, drawn capsule by capsule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor, nn

from steerable.explorer.inline import signed_image
from steerable.explorer.messages import note
from steerable.figures.style import mosaic
from steerable.nn.convolution_layer import ConvolutionLayer
from steerable.reporting.markup import Html, tag

__all__ = ["learned_filters"]

_MOST_CAPSULES = 64  # whose filters are drawn


@torch.no_grad()
def learned_filters(model: nn.Module) -> Html:
    """The filter bank of the first convolution: one row of filters per input channel, grouped by capsules."""
    for module in model.modules():
        if isinstance(module, ConvolutionLayer):
            bank, _ = module.expand()
            text = f"A steerable convolution from `{module.in_type}` to `{module.out_type}`: "
            text += "the filters of one capsule are turned and mirrored copies of each other, or change sign."
            return _bank(
                bank, [str(c) for c in module.out_type.capsules], [c.dim for c in module.out_type.capsules], text
            )
        if isinstance(module, nn.Conv2d):
            count = module.weight.shape[0]
            return _bank(
                module.weight, [""] * count, [1] * count, "A plain convolution: every filter is learned by itself."
            )
    return note("This network has no convolution.")


def _bank(bank: Tensor, names: Sequence[str], dims: Sequence[int], text: str) -> Html:
    filters = np.asarray(bank.detach().double().numpy(), dtype=np.float64)
    largest = float(np.abs(filters).max())
    cards, start = [], 0
    for name, dim in list(zip(names, dims, strict=True))[:_MOST_CAPSULES]:
        sheet = mosaic(filters[start : start + dim].transpose(1, 0, 2, 3))
        image = signed_image(sheet, f"filters of {name}", largest=largest, scale=11)
        cards.append(tag("figure", image, tag("figcaption", tag("code", name))))
        start += dim
    return tag("div", note(text), tag("div", *cards, class_="st-strip"))
