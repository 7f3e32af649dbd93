"""The ordinary wide residual network of Zagoruyko and Komodakis (2016), to compare with."""

from __future__ import annotations

from torch import nn

from steerable.models.checks import check_counts, check_extent, check_whole_numbers
from steerable.models.plain_resnets import WIDEST, PlainClassifier
from steerable.models.saving import SavedModel
from steerable.types.wide_plans import WIDTHS, wide_blocks

__all__ = ["PlainWideResNet", "plain_wide_resnet"]


class PlainWideResNet(SavedModel, PlainClassifier):
    """Three stages of 16, 32 and 64 times ``width`` channels, laid out as ``WideResNet`` is, without symmetry.

    Shapes: (batch, in_channels, height, width) → (batch, num_classes).

    Args:
        depth: 6·blocks + 4.
        width: 10 in the network "28-10".
        num_classes: the number of scores.
        in_channels: channels of the image.
        dropout: the probability with which a value is dropped between the two convolutions of a block.
    """

    def __init__(
        self,
        depth: int = 28,
        width: int = 10,
        num_classes: int = 10,
        *,
        in_channels: int = 3,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        check_whole_numbers("PlainWideResNet", depth=depth)
        check_counts("PlainWideResNet", width=width, num_classes=num_classes, in_channels=in_channels)
        check_extent("wide residual network", depth, width, WIDEST // WIDTHS[-1])
        first = nn.Conv2d(in_channels, WIDTHS[0], 3, padding=1, bias=False)
        stages = [(base * width, base * width) for base in WIDTHS]
        self.build(first, stages, wide_blocks(depth), num_classes, dropout=dropout)


def plain_wide_resnet(depth: int = 28, width: int = 10, num_classes: int = 10, **options: object) -> PlainWideResNet:
    """The ordinary wide residual network; see :class:`PlainWideResNet`.

    >>> sum(p.numel() for p in plain_wide_resnet(10, 1).parameters())
    77850
    """
    return PlainWideResNet(depth, width, num_classes, **options)  # type: ignore[arg-type]
