"""The same function with nothing but torch's own modules: for export, and for people without this library."""

from __future__ import annotations

import copy
from typing import TypeVar

import torch.nn.functional as F
from torch import Tensor, fx, nn

from steerable.nn.accelerated_call import AcceleratedCall

__all__ = ["WithPlainCounterpart", "plain_batch_norm", "to_plain", "without_acceleration"]

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class WithPlainCounterpart(nn.Module):
    """A module that can be written with torch's own modules and operations; the base of all layers."""

    def plain(self) -> nn.Module:
        """The same function in evaluation mode, made of nothing but torch's own modules and operations."""
        return _traced(self)


def to_plain(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode in which every layer of this library is replaced by torch's own.

    Layers with a counterpart are replaced by it (Conv2d, Linear, ReLU, AvgPool2d …); the others become a
    ``torch.fx.GraphModule`` of torch operations, and so do batch norms, since they take images and pooled fields.
    Modules of your own keep their class, with their children replaced. The copy shares no memory with ``module``. Its
    parameters are frozen, because training would break the symmetry, which torch's own modules do not know about.

    >>> from steerable import FieldType, dihedral
    >>> from steerable import nn as snn
    >>> G = dihedral(4)
    >>> to_plain(snn.Conv2d(FieldType(G, "3*A1"), FieldType(G, "regular"), 3))
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """
    return _replaced(without_acceleration(copy.deepcopy(module).eval())).eval().requires_grad_(False)


def without_acceleration(module: ModuleT) -> ModuleT:
    """The module itself, its parts called as they are; an accelerated call would run layers that are replaced."""
    for part in module.modules():
        if isinstance(part.__dict__.get("forward"), AcceleratedCall):
            del part.__dict__["forward"]
    return module


def _replaced(module: nn.Module) -> nn.Module:
    return module.plain() if isinstance(module, WithPlainCounterpart) else _with_plain_children(module)


def _with_plain_children(module: ModuleT) -> ModuleT:
    clone = copy.copy(module)  # shallow: the original keeps its own children
    clone._modules = {name: None if child is None else _replaced(child) for name, child in module._modules.items()}
    return clone


def _traced(module: nn.Module) -> fx.GraphModule:
    """The operations of a layer's ``forward`` in evaluation mode, with its children made plain first."""
    clone = _with_plain_children(module).eval()
    graph = _PlainTracer().trace(clone)
    for node in graph.nodes:
        node.type = None  # an annotation, here a string, which the module would be unable to pickle
    result = fx.GraphModule(clone, graph, class_name=f"Plain{type(module).__name__}")
    result.graph.eliminate_dead_code()
    result.recompile()
    return result


def plain_batch_norm(
    name: str, mean: Tensor, variance: Tensor, weight: nn.Parameter | None, bias: nn.Parameter | None, eps: float
) -> fx.GraphModule:
    """``torch.nn.functional.batch_norm`` by these statistics, as a module.

    It takes (batch, channels) and (batch, channels, height, width), where ``torch.nn`` has a class for each.
    """
    held, graph = nn.Module(), fx.Graph()
    held.register_buffer("running_mean", mean)
    held.register_buffer("running_var", variance)
    held.register_parameter("weight", weight)
    held.register_parameter("bias", bias)
    x = graph.placeholder("x")
    statistics = graph.get_attr("running_mean"), graph.get_attr("running_var")
    affine = [None if p is None else graph.get_attr(key) for key, p in (("weight", weight), ("bias", bias))]
    graph.output(graph.call_function(F.batch_norm, (x, *statistics, *affine, False, 0.0, eps)))
    return fx.GraphModule(held, graph, class_name=name).eval()


class _PlainTracer(fx.Tracer):
    """Follows this library's code down to torch's modules and operations."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, fx.GraphModule) or type(m).__module__.startswith("torch.nn")
