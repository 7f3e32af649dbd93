"""Which backend each convolution of a network takes, settled once, before it is compiled."""

from __future__ import annotations

from typing import Any

from torch import nn

from steerable.nn.conv import Conv2d

__all__ = ["choose_backends"]


def choose_backends(network: nn.Module, *example: Any) -> dict[str, str]:
    """Give every convolution with ``backend="auto"`` the faster backend for the inputs that an example brings it.

    ``torch.compile`` can measure nothing, and carries out ``"auto"`` densely; so call this first. The example should be
    as in use: its shape, device, autocast. Where gradients are recorded whole steps are compared, else forward passes.
    Layers that several inputs of different shapes reach take the Fourier form only where it is faster for all of them.

    Returns:
        The backend of each layer that had none, by its name.

    >>> import torch
    >>> from steerable import FieldType, dihedral
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3)
    >>> choose_backends(nn.Sequential(layer), torch.zeros(1, 8, 5, 5)), layer.backend
    ({'0': 'dense'}, 'dense')
    """
    waiting = {name: m for name, m in network.named_modules() if isinstance(m, Conv2d) and m.backend == "auto"}
    found: dict[Conv2d, set[str]] = {layer: set() for layer in waiting.values()}

    def choose(layer: nn.Module, inputs: tuple[Any, ...]) -> None:
        if isinstance(layer, Conv2d) and layer.carrier.possible:
            found[layer].add(layer.carrier.choose(layer, inputs[0]))

    modes = {module: module.training for module in network.modules()}
    hooks = [layer.register_forward_pre_hook(choose) for layer in found]
    try:
        network.eval()  # running statistics stay as they are
        network(*example)
    finally:
        for hook in hooks:
            hook.remove()
        for module, mode in modes.items():
            module.training = mode
    for layer, choices in found.items():
        layer.backend = "fourier" if choices == {"fourier"} else "dense"
    return {name: layer.backend for name, layer in waiting.items()}
