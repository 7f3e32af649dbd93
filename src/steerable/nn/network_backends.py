"""The backend of each convolution of a network: measured, recorded, or set from a record."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.nn.backends import AUTO, DENSE, Choice, Passes
from steerable.nn.convolution_layer import ConvolutionLayer

__all__ = ["choose_backends", "recorded_backends", "use_backends"]


def choose_backends(network: nn.Module, *inputs: Any, cuda_graphs: bool = False, **options: Any) -> dict[str, str]:
    """Measure which backend is fastest for each convolution with ``backend="auto"``, and set it.

    The inputs of the convolutions are those that they get in ``network(*inputs, **options)``, so give inputs as they
    are in use: with their shape and device, and under the same autocast. Call this before ``torch.compile``, under
    which nothing can be measured and ``"auto"`` means ``"dense"``.

    Forward passes are compared, and if gradients are recorded, whole steps as well: a layer may then use one backend
    for steps and another under ``torch.no_grad()``. On a GPU the forward pass, the input gradient and the weight
    gradient are compared one by one, and two variants of the dense backend take part. A layer that gets inputs of
    different shapes leaves the dense backend only if another one is faster for all of them; a layer that gets no input
    stays as it is.

    Args:
        network: the network that will be compiled or recorded.
        *inputs: the arguments that it is called with.
        cuda_graphs: on a GPU, whether the network will run as CUDA graphs: recorded, or compiled with a mode that does
            so, such as ``"reduce-overhead"``. Then only the GPU's own time counts. Otherwise Python starts the many
            kernels of the Fourier backend, and if that takes longer than the kernels themselves, Python's time
            counts, as if the GPU had nothing else to do meanwhile: the choice errs towards the dense backend.
        **options: its keyword arguments.

    Returns:
        The backend of each layer that was on ``"auto"``, by the layer's name; if gradients are recorded, that of a
        step's forward pass. A layer's ``repr`` shows the backends of all passes.

    >>> from steerable import FieldType, dihedral
    >>> from steerable.nn import Conv2d
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3)
    >>> choose_backends(nn.Sequential(layer), torch.zeros(1, 8, 5, 5)), layer.backend
    ({'0': 'dense'}, 'dense')
    """
    waiting = {name: layer for name, layer in _convolutions(network).items() if layer.backend == AUTO}
    if not waiting:
        return {}
    found = _choices(network, list(waiting.values()), partial(network, *inputs, **options), cuda_graphs)
    for layer, choices in found.items():
        if choices:
            forward, for_input, for_weight = (
                _common(names) for names in zip(*(c.passes for c in choices), strict=True)
            )
            layer.runner.use(Choice(Passes(forward, for_input, for_weight), _common([c.alone for c in choices])))
    return {name: layer.backend for name, layer in waiting.items()}


def recorded_backends(network: nn.Module) -> dict[str, str]:
    """The backend of each convolution of a network by its name, as text that :func:`use_backends` reads.

    A text names the backends of the forward pass, of the input gradient, of the weight gradient and of a forward pass
    without gradients, such as ``"fourier[numba]/fourier[numba]/fourier[numba]/dense"``. It is ``"auto"`` for a layer
    that still measures. Call this when the network is on its device, since the text names what runs there.

    >>> from steerable import FieldType, dihedral
    >>> from steerable.nn import Conv2d
    >>> layer = Conv2d(FieldType(dihedral(4), "regular"), FieldType(dihedral(4), "regular"), 3, backend="dense")
    >>> recorded_backends(nn.Sequential(layer))
    {'0': 'dense/dense/dense/dense'}
    """
    return {name: layer.runner.record(layer.weight.device.type) for name, layer in _convolutions(network).items()}


def use_backends(network: nn.Module, recorded: Mapping[str, str]) -> None:
    """Compute every convolution of a network as recorded, so that a run can be repeated bit for bit.

    Call this when the network is on its device.

    Args:
        network: a network with the same layers as the one that was recorded.
        recorded: what :func:`recorded_backends` returned.

    Raises:
        ValueError: if the layers' names do not agree, a text cannot be read, or this machine cannot do what a text
            says; another backend would round differently. The network is then unchanged.
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
            "for each convolution of the network. Use a record of the same network, or choose backends again."
        )
    choices = {}
    for name, text in recorded.items():
        try:
            choices[name] = layers[name].runner.read(text, layers[name].weight.device.type)
        except ValueError as error:
            raise ValueError(f"layer `{name}`: {error}" if name else str(error)) from None
    for name, choice in choices.items():
        if choice is None:
            layers[name].backend = AUTO
        else:
            layers[name].runner.use(choice)


def _choices(
    network: nn.Module, layers: Sequence[ConvolutionLayer], run: Callable[[], object], cuda_graphs: bool
) -> dict[ConvolutionLayer, list[Choice]]:
    """The fastest choice of each layer for each input that reaches it while the network runs once."""
    found: dict[ConvolutionLayer, list[Choice]] = {layer: [] for layer in layers}

    def choose(layer: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        x = args[0] if args else kwargs.get("x")
        if isinstance(layer, ConvolutionLayer) and isinstance(x, Tensor) and x.ndim == 2 + layer.axes:
            found[layer].append(layer.runner.fastest(x, layer, cuda_graphs=cuda_graphs))

    modes = {module: module.training for module in network.modules()}
    hooks = [layer.register_forward_pre_hook(choose, with_kwargs=True) for layer in layers]
    try:
        for layer in layers:  # what it is measured for here is not how this pass runs it
            layer.backend = DENSE.forward
        network.eval()  # running statistics stay as they are
        # Where a part of the network is compiled already, its graph would pass by the hooks.
        with torch.compiler.set_stance("force_eager"):
            run()
    finally:
        for hook in hooks:
            hook.remove()
        for layer in layers:
            layer.backend = AUTO
        for module, mode in modes.items():
            module.training = mode
    return found


def _convolutions(network: nn.Module) -> dict[str, ConvolutionLayer]:
    return {name: m for name, m in network.named_modules() if isinstance(m, ConvolutionLayer)}


def _common(names: Sequence[str]) -> str:
    """The one backend that all of them have, else the dense one."""
    return names[0] if len(set(names)) == 1 else DENSE.forward
