"""The plain network as a graph of calls, by torch.fx; where that cannot follow, the module is named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from torch import Tensor, fx, nn

from steerable.conversion.refusals import ROOT, place_of_module, refusal
from steerable.nn import EquivariantModule

__all__ = ["traced_network"]


def traced_network(model: nn.Module) -> tuple[fx.Graph, dict[str, nn.Module]]:
    """The calls that ``model(x)`` makes, and the modules among them by path; the model itself is left alone.

    Raises:
        ConversionError: naming the module whose ``forward`` cannot be followed.
    """
    try:
        caller = _Caller(copy.deepcopy(model))  # a tracer may leave constants behind in what it traces
    except Exception as error:  # whatever a module may hold beside its weights
        raise refusal(
            place_of_module("", model),
            f"it cannot be copied ({type(error).__name__}: {error}). Convert it freshly built, before it has run.",
        ) from error
    tracer = _Tracer()
    try:
        graph = tracer.trace(caller)
    except Exception as error:  # whatever user code raises when it meets a stand-in for a tensor
        path, module = tracer.running[-1] if tracer.running else (ROOT, caller.network)
        raise refusal(
            place_of_module(path, module),
            f"torch.fx cannot follow its forward ({type(error).__name__}: {error}). Write it as a function of one "
            "tensor, without decisions that depend on values or sizes.",
        ) from error
    modules = {str(node.target): caller.get_submodule(str(node.target)) for node in graph.nodes if _calls_module(node)}
    return graph, modules


class _Caller(nn.Module):
    """Calls the network with one tensor, so that further arguments keep their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        return self.network(x)


class _Tracer(fx.Tracer):
    """Notes which modules are running, so that one that cannot be followed can be named."""

    def __init__(self) -> None:
        super().__init__()
        self.running: list[tuple[str, nn.Module]] = []

    def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
        return isinstance(m, EquivariantModule) or super().is_leaf_module(m, module_qualified_name)

    def call_module(
        self, m: nn.Module, forward: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        self.running.append((self.path_of_module(m), m))
        result = super().call_module(m, forward, args, kwargs)
        self.running.pop()  # not in a finally clause: after an error the last one is the culprit
        return result


def _calls_module(node: fx.Node) -> bool:
    return node.op == "call_module"
