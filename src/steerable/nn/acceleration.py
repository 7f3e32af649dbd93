"""One call that makes a network fast on its machine, without changing what it computes."""

from __future__ import annotations

from collections import Counter
from typing import TypeVar

import torch
from torch import Tensor, nn

from steerable.nn.accelerated_call import AcceleratedCall
from steerable.nn.agreement import Agreement
from steerable.nn.convolution_layer import ConvolutionLayer
from steerable.nn.memory_formats import faster_memory_format, in_mode
from steerable.nn.module import EquivariantModule
from steerable.nn.network_backends import choose_backends
from steerable.nn.triton import HAS_TRITON

__all__ = ["accelerate"]

NetworkT = TypeVar("NetworkT", bound=nn.Module)


def accelerate(
    network: NetworkT,
    example: Tensor,
    *,
    training: bool = True,
    compile: bool | None = None,  # noqa: A002, as in torch.nn.Module
) -> NetworkT:
    """The same network, made fast on the machine that it is on; its results stay the same, up to rounding.

    Its memory format and the backends of its convolutions are set to the fastest ones. On an NVIDIA GPU it is compiled
    as well, and its passes are recorded as CUDA graphs, which the GPU repeats without waiting for Python. Outputs and
    gradients are compared with the network's own; whatever fails or differs is left out, and a warning says so.

    The network is changed in place. Its parameters, ``state_dict``, ``train()``, ``eval()``, ``to()`` and types stay as
    they are, so that checkpoints fit with and without this. Inputs of other shapes work too: a shape is recorded when
    it appears for the third time, and runs as ordinary code until then. ``print(network.forward)`` says what is on. To
    accelerate a network again for another example prepares that one as well; for the same one it does nothing.

    Args:
        network: a network with layers of this library, on the device where it will run. It takes one tensor and returns
            one. Put wrappers such as ``DistributedDataParallel`` around it afterwards.
        example: a batch as in use: its shape, dtype and device matter, its values do not. Call this under the
            same ``torch.autocast`` as the network will be called under.
        training: whether the network will be trained; if not, passes with gradients are prepared when they occur.
        compile: whether the network goes through ``torch.compile``, by default on a GPU where Triton is installed.
            Training and evaluation are compiled one after the other, which takes far longer than to record them alone.

    Raises:
        TypeError: if the module has no layers of this library, is a wrapper around such a network, or does not return
            a tensor.
        ValueError: if the example does not fit the network.

    >>> from steerable import FieldType, dihedral
    >>> from steerable import nn as snn
    >>> images, fields = FieldType(dihedral(4), "3*A1"), FieldType(dihedral(4), "2*regular")
    >>> net = snn.Sequential(snn.Conv2d(images, fields, 3, padding=1), snn.BatchNorm2d(fields), snn.ReLU(fields))
    >>> net = snn.accelerate(net, torch.randn(4, 3, 8, 8))
    >>> net(torch.randn(2, 3, 6, 6)).shape
    torch.Size([2, 16, 6, 6])
    >>> net.forward.convolutions
    '1 convolution dense'
    """
    _check_network(network)
    _check_example(network, example)
    example = example.detach()
    call = vars(network).get("forward")
    earlier = call if isinstance(call, AcceleratedCall) else None
    if earlier is not None and example.shape in earlier.shapes:
        return network
    expected = {}
    for mode in (False, True) if training else (False,):
        with in_mode(network, mode):
            expected[mode] = Agreement.of(network, network.forward if earlier is None else earlier.plain, example)
    call = earlier or _installed(network, example, training, compile)
    call.shapes.append(example.shape)
    for mode, results in expected.items():
        _prepare(network, call, mode, results)
    return network


def _installed(network: nn.Module, example: Tensor, training: bool, compiles: bool | None) -> AcceleratedCall:
    """Set the memory format and the backends, and replace ``forward`` by the call."""
    memory_format = faster_memory_format(network, example, training=training)
    if memory_format is not None:
        network.to(memory_format=memory_format)  # type: ignore[call-overload]
    call = AcceleratedCall(
        network,
        compiles=(example.is_cuda and HAS_TRITON) if compiles is None else compiles,
        records=_can_record(example),
        memory_format=memory_format,
    )
    with torch.set_grad_enabled(training):
        choose_backends(network, call.laid_out(example), cuda_graphs=call.records)
    ways = Counter(module.backend for module in network.modules() if isinstance(module, ConvolutionLayer))
    call.convolutions = ", ".join(f"{count} convolution{'s' * (count > 1)} {way}" for way, count in ways.items())
    network.forward = call
    return call


def _can_record(example: Tensor) -> bool:
    return example.is_cuda and torch.version.cuda is not None


def _prepare(network: nn.Module, call: AcceleratedCall, mode: bool, expected: Agreement) -> None:
    """Make inputs like these ready in this mode, and leave out whatever does not give the expected results."""
    with in_mode(network, mode):
        while (objection := expected.objection(network, call)) is not None:
            way_left = call.compiles or call.records
            call.step_down(objection)
            if not way_left:
                return


# ---------------------------------------------------------------- bad input


def _check_network(network: nn.Module) -> None:
    if not isinstance(network, nn.Module):
        raise TypeError(f"`accelerate` takes a network, a `torch.nn.Module`; got {type(network).__name__}.")
    compiled = hasattr(network, "_orig_mod")  # to ask for the class would import a compiler
    if compiled or isinstance(network, (nn.DataParallel, nn.parallel.DistributedDataParallel)):
        raise TypeError(
            f"`accelerate` takes the network itself; got a {type(network).__name__} around one. "
            + ("It compiles the network by itself." if compiled else "Put that around the network afterwards.")
        )
    if not any(isinstance(module, EquivariantModule) for module in network.modules()):
        raise TypeError(
            f"`accelerate` is for networks with layers of `steerable.nn`, and {type(network).__name__} has none. Use "
            '`torch.compile(network, mode="reduce-overhead")` for an ordinary network.'
        )


def _check_example(network: nn.Module, example: Tensor) -> None:
    if not isinstance(example, Tensor):
        raise TypeError(f"`example` must be a tensor, a batch as in use; got {type(example).__name__}.")
    parameter = next(network.parameters(), None)
    if parameter is not None and parameter.device != example.device:
        raise ValueError(
            f"`example` is on {example.device} and the network on {parameter.device}. Move both to the device where "
            "the network will run, and call `accelerate` then."
        )
    if not example.is_floating_point():
        raise ValueError(
            f"`example` has numbers of {example.dtype}, and a network computes with floating-point numbers. Give a "
            "batch as the network gets it, after images have been scaled."
        )
    cast = torch.is_autocast_enabled(example.device.type)
    if parameter is not None and parameter.dtype != example.dtype and not cast:
        raise ValueError(
            f"`example` has numbers of {example.dtype} and the network parameters of {parameter.dtype}. Convert one of "
            "them, or call `accelerate` under the `torch.autocast` that the network will be called under."
        )
    in_type = getattr(network, "in_type", None)
    if in_type is not None and (example.ndim < 2 or example.shape[1] != in_type.channels):
        raise ValueError(
            f"`example` has shape {tuple(example.shape)}, and the network takes fields of type `{in_type}`: expected "
            f"(batch, {in_type.channels}, height, width)."
        )
    if example.numel() == 0:
        raise ValueError(f"`example` of shape {tuple(example.shape)} is empty. Give a batch as in use.")
