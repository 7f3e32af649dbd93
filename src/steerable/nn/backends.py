"""Which backend each convolution of a network takes, settled once, before it is compiled or recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.nn.conv import Conv2d
from steerable.nn.fourier.passes import DENSE, Forward, Passes

__all__ = ["choose_backends", "recorded_backends", "use_backends"]

Way = TypeVar("Way", bound=str)


def choose_backends(network: nn.Module, *inputs: Any, cuda_graphs: bool = False, **options: Any) -> dict[str, str]:
    """Give each convolution with ``backend="auto"`` the faster one for what ``network(*inputs, **options)`` brings it.

    ``torch.compile`` can measure nothing, and carries out ``"auto"`` densely; so call this first. The inputs should be
    as in use: their shape, device, autocast. Forward passes are compared, and where gradients are recorded whole steps
    as well: a layer may then take one backend for steps and another under ``torch.no_grad()``. On a GPU the forward
    pass, the input gradient and the weight gradient are compared each by itself: densely, in the basis of irreps, and
    in two other ways of asking torch for the same. What inputs of different shapes reach is carried out in another way
    than the dense one only where that is faster for all of them; a layer that none reaches stays as it is.

    Args:
        network: what is to be compiled or recorded.
        *inputs: what it is called with.
        cuda_graphs: on a GPU, whether the network will run as CUDA graphs: recorded, or compiled with a mode that does
            so, such as ``"reduce-overhead"``. Then only the GPU's own time counts. Otherwise Python starts the many
            kernels of a pass in the basis of irreps, and where that takes longer than the pass itself its time counts,
            as if the GPU had nothing else to do meanwhile: the choice errs towards the dense way.
        **options: what the network is called with by name.

    Returns:
        The backend of each layer that had none, by its name; where gradients are recorded, that of a step's forward
        pass. A layer's ``repr`` tells all.

    >>> from steerable import FieldType, dihedral
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3)
    >>> choose_backends(nn.Sequential(layer), torch.zeros(1, 8, 5, 5)), layer.backend
    ({'0': 'dense'}, 'dense')
    """
    waiting = {name: layer for name, layer in _convolutions(network).items() if layer.backend == "auto"}
    if not waiting:
        return {}
    found: dict[Conv2d, list[tuple[Passes, Forward]]] = {layer: [] for layer in waiting.values()}

    def choose(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("x")
        if isinstance(layer, Conv2d) and isinstance(x, Tensor) and x.ndim == 4:
            found[layer].append(_fastest(layer, x, cuda_graphs))

    modes = {module: module.training for module in network.modules()}
    hooks = [layer.register_forward_pre_hook(choose, with_kwargs=True) for layer in found]
    try:
        for layer in found:  # what it is measured for here is not how this pass runs it
            layer.backend = "dense"
        network.eval()  # running statistics stay as they are
        # Where a part of the network is compiled already, its graph would pass by the hooks.
        with torch.compiler.set_stance("force_eager"):
            network(*inputs, **options)
    finally:
        for hook in hooks:
            hook.remove()
        for layer in found:
            layer.backend = "auto"
        for module, mode in modes.items():
            module.training = mode
    for layer, ways in found.items():
        if ways:
            forward, for_input, for_weight = zip(*(passes for passes, _ in ways), strict=True)
            passes = Passes(_common(forward), _common(for_input), _common(for_weight))
            layer.carrier.settle(layer, passes, _common([alone for _, alone in ways]))
    return {name: layer.backend for name, layer in waiting.items()}


def recorded_backends(network: nn.Module) -> dict[str, str]:
    """How each ``Conv2d`` of a network is carried out, by the layer's name, as text that :func:`use_backends` reads.

    A text names the ways of the forward pass, of the input gradient, of the weight gradient and of a forward pass
    without gradients, such as ``"fourier[numba]/fourier[numba]/fourier[numba]/dense"``. It is ``"auto"`` for a layer
    that still measures. Call this when the network is on its device, since the text names what runs there.

    >>> from steerable import FieldType, dihedral
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3, backend="dense")
    >>> recorded_backends(nn.Sequential(layer))
    {'0': 'dense/dense/dense/dense'}
    """
    return {name: layer.carrier.record(layer) for name, layer in _convolutions(network).items()}


def use_backends(network: nn.Module, recorded: Mapping[str, str]) -> None:
    """Carry out every ``Conv2d`` of a network in the recorded way, so that a run can be repeated bit for bit.

    Call this when the network is on its device.

    Args:
        network: a network with the same layers as the one that was recorded.
        recorded: what :func:`recorded_backends` returned.

    Raises:
        ValueError: when the layers' names do not agree, a text cannot be read, or this machine cannot do what a text
            says; another way to compute the same function would round differently. The network is unchanged then.
    """
    layers = _convolutions(network)
    for name in recorded:
        if name not in layers:
            raise ValueError(
                f"the recorded backends name a layer `{name}`, which is not a convolution of this network. "
                f"{did_you_mean(name, list(layers))}"
            )
    missing = [name for name in layers if name not in recorded]
    if missing:
        raise ValueError(
            f"the recorded backends say nothing about {', '.join(f'`{name}`' for name in missing)}; expected one text "
            "for each convolution of the network. Take the record of the same network, or choose backends anew."
        )
    read = {name: layers[name].carrier.read(name, layers[name], text) for name, text in recorded.items()}
    for name, choice in read.items():
        if choice is None:
            layers[name].backend = "auto"
        else:
            layers[name].carrier.settle(layers[name], *choice)


def _convolutions(network: nn.Module) -> dict[str, Conv2d]:
    return {name: m for name, m in network.named_modules() if isinstance(m, Conv2d)}


def _fastest(layer: Conv2d, x: Tensor, cuda_graphs: bool) -> tuple[Passes, Forward]:
    """Of the passes of a step, and of a forward pass alone."""
    if not layer.carrier.possible:
        return DENSE, "dense"
    passes = layer.carrier.choose_passes(layer, x, cuda_graphs=cuda_graphs)
    if x.is_cuda:  # where the forward pass was compared by itself
        return passes, passes.forward
    with torch.no_grad():
        return passes, layer.carrier.choose_passes(layer, x, cuda_graphs=cuda_graphs).forward


def _common(ways: Sequence[Way]) -> Way:
    """The one way of all of them, else the dense one."""
    return ways[0] if len(set(ways)) == 1 else "dense"  # type: ignore[return-value]
