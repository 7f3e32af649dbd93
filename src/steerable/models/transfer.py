"""The weights of one network copied to another of the same layout, with another head or other image channels."""

from __future__ import annotations

import torch
from torch import nn

from steerable.models.parts import first_convolution, image_channels
from steerable.nn.filter_bank import FilterBankModule
from steerable.nn.restricted_banks import exact_bank, exact_bias, set_filters

__all__ = ["transfer_weights"]


@torch.no_grad()
def transfer_weights(source: nn.Module, target: nn.Module, *, head: bool) -> None:
    """Copy all parameters and running statistics of a network to another one, which changes in place.

    Where the two take images of n and m channels, every filter of the first convolution becomes the mean over the old
    channels, for each of the new ones, times n/m. An image that is the same in all channels thus gives the same
    features: grey images as they were seen in colour, and the other way round.

    Args:
        source: the network with the weights.
        target: a network of the same layout, apart from its head and from the channels of the image.
        head: whether the head is copied as well.
    """
    first, new_first = first_convolution(source), first_convolution(target)
    channels = image_channels(target)
    adapts = image_channels(source) != channels
    place = next(name for name, module in source.named_modules() if module is first)
    skipped = (*([] if head else ["head."]), *([f"{place}."] if adapts else []))
    own = target.state_dict()
    for name, value in source.state_dict().items():
        if not name.startswith(skipped):
            own[name].copy_(value)
    if adapts:
        _adapt(first, new_first, channels)


def _adapt(old: nn.Module, new: nn.Module, channels: int) -> None:
    """Filters for another number of scalar channels; in float64, and exactly equivariant as all of these are alike."""
    if isinstance(old, FilterBankModule) and isinstance(new, FilterBankModule):
        bank = exact_bank(old).sum(1, keepdim=True) / channels
        set_filters(new, bank.expand(-1, channels, *bank.shape[2:]), exact_bias(old))
    elif isinstance(old, nn.Conv2d | nn.Conv3d) and isinstance(new, nn.Conv2d | nn.Conv3d):
        new.weight.copy_((old.weight.sum(1, keepdim=True) / channels).expand_as(new.weight))
        if old.bias is not None and new.bias is not None:
            new.bias.copy_(old.bias)
