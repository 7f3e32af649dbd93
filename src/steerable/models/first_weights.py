"""Initial weights of networks: the convolutions of plain ones, and the last layer of dense ones."""

from __future__ import annotations

import torch
from torch import nn

__all__ = ["draw_weights", "make_quiet"]

QUIET = 0.1


def draw_weights(network: nn.Module) -> None:
    """Draw the weights of all plain convolutions by He's rule."""
    for module in network.modules():
        if isinstance(module, nn.Conv2d | nn.Conv3d):
            nn.init.kaiming_normal_(module.weight)


@torch.no_grad()
def make_quiet(head: nn.Module) -> None:
    """Shrink the weights of a layer to a tenth.

    Weights that suit a hidden layer give scores of 3 to 4 before anything is learnt. The first gradients are then
    twenty times as large as later ones, and may push all activations below zero, from where none returns.
    """
    for parameter in head.parameters():
        parameter.mul_(QUIET)
