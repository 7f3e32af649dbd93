"""A network that is not as it was when it was built, for the tests of models."""

from __future__ import annotations

from typing import TypeVar

import torch
from torch import nn

from steerable import nn as snn

Network = TypeVar("Network", bound=nn.Module)


def lively(net: Network) -> Network:
    """The network in float64 and in evaluation mode, with norms and statistics that are not those of the start."""
    torch.manual_seed(0)
    net = net.double().train()
    for module in net.modules():
        if isinstance(module, snn.BatchNorm2d) and module.weight is not None:
            nn.init.uniform_(module.weight, 0.5, 1.5)
            if module.bias is not None:
                nn.init.normal_(module.bias)
    net(torch.randn(4, net.in_type.channels, 16, 16, dtype=torch.float64))
    return net.eval()
