"""The same function with nothing but torch's own modules: for export, and for people who do not have this library."""

from __future__ import annotations

import copy
from typing import TypeVar

from torch import fx, nn

from steerable.nn.module import EquivariantModule

__all__ = ["to_plain", "traced"]

ModuleT = TypeVar("ModuleT", bound=nn.Module)


def to_plain(module: nn.Module) -> nn.Module:
    """A copy in evaluation mode in which every layer of this library is replaced by torch's own.

    Layers with a counterpart become it (Conv2d, BatchNorm2d, ReLU, AvgPool2d …); the others become a
    ``torch.fx.GraphModule`` of torch operations. Modules of your own keep their class, with their children replaced.
    The copy shares no memory with ``module``.

    >>> from steerable import FieldType, dihedral
    >>> from steerable import nn as snn
    >>> G = dihedral(4)
    >>> to_plain(snn.Conv2d(FieldType(G, "3*A1"), FieldType(G, "regular"), 3))
    Conv2d(3, 8, kernel_size=(3, 3), stride=(1, 1))
    """
    module = copy.deepcopy(module).eval()
    return _replaced(module).eval()


def _replaced(module: nn.Module) -> nn.Module:
    return module.plain() if isinstance(module, EquivariantModule) else _with_plain_children(module)


def _with_plain_children(module: ModuleT) -> ModuleT:
    clone = copy.copy(module)  # shallow: the original keeps its own children
    clone._modules = {name: None if child is None else _replaced(child) for name, child in module._modules.items()}
    return clone


def traced(module: EquivariantModule) -> fx.GraphModule:
    """The operations of a layer's ``forward`` in evaluation mode, its own children made plain first."""
    clone = _with_plain_children(module).eval()
    result = fx.GraphModule(clone, _Tracer().trace(clone), class_name=f"Plain{type(module).__name__}")
    result.graph.eliminate_dead_code()
    result.recompile()
    return result


class _Tracer(fx.Tracer):
    """Follows this library's code down to torch's modules and operations."""

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, fx.GraphModule) or type(m).__module__.startswith("torch.nn")
