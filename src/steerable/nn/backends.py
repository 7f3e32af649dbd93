"""Which backend each convolution of a network takes, settled once, before it is compiled or recorded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from steerable.nn.conv import Conv2d
from steerable.nn.fourier.choice import Choice

__all__ = ["choose_backends"]


def choose_backends(network: nn.Module, *inputs: Any, **options: Any) -> dict[str, str]:
    """Give each convolution with ``backend="auto"`` the faster one for what ``network(*inputs, **options)`` brings it.

    ``torch.compile`` can measure nothing, and carries out ``"auto"`` densely; so call this first. The inputs should be
    as in use: their shape, device, autocast. Forward passes are compared, and where gradients are recorded whole steps
    as well: a layer may then take one backend for steps and another under ``torch.no_grad()``. On a GPU it is its own
    time that counts, for a compiled or recorded network runs ahead of it. A layer that inputs of different shapes reach
    takes the Fourier form only where it is faster for all of them; one that none reaches stays as it is.

    Returns:
        The backend of each layer that had none, by its name; where gradients are recorded, that of whole steps. A
        layer's ``repr`` tells both.

    >>> from steerable import FieldType, dihedral
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3)
    >>> choose_backends(nn.Sequential(layer), torch.zeros(1, 8, 5, 5)), layer.backend
    ({'0': 'dense'}, 'dense')
    """
    waiting = {name: m for name, m in network.named_modules() if isinstance(m, Conv2d) and m.backend == "auto"}
    if not waiting:
        return {}
    for_steps: dict[Conv2d, set[Choice]] = {layer: set() for layer in waiting.values()}
    for_passes: dict[Conv2d, set[Choice]] = {layer: set() for layer in waiting.values()}

    def choose(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("x")
        if isinstance(layer, Conv2d) and isinstance(x, Tensor) and x.ndim == 4:
            for_steps[layer].add(_faster(layer, x))
            with torch.no_grad():
                for_passes[layer].add(_faster(layer, x))

    modes = {module: module.training for module in network.modules()}
    hooks = [layer.register_forward_pre_hook(choose, with_kwargs=True) for layer in for_steps]
    try:
        for layer in for_steps:  # what it is measured for here is not how this pass runs it
            layer.backend = "dense"
        network.eval()  # running statistics stay as they are
        # Where a part of the network is compiled already, its graph would pass by the hooks.
        with torch.compiler.set_stance("force_eager"):
            network(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in for_steps:
            layer.backend = "auto"
        for module, mode in modes.items():
            module.training = mode
    for layer, choices in for_steps.items():
        if choices:
            _settle(layer, _common(choices), _common(for_passes[layer]))
    return {name: layer.backend for name, layer in waiting.items()}


def _faster(layer: Conv2d, x: Tensor) -> Choice:
    return layer.carrier.choose(layer, x, ahead=True) if layer.carrier.possible else "dense"


def _common(choices: set[Choice]) -> Choice:
    return "fourier" if choices == {"fourier"} else "dense"


def _settle(layer: Conv2d, step: Choice, forward_pass: Choice) -> None:
    layer.backend = step
    if forward_pass != step:
        layer.carrier.without_gradients = forward_pass
        if forward_pass == "fourier":
            layer.carrier.prepare(layer)
