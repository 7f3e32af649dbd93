"""The plain network as a graph of calls, by torch.fx; a module that cannot be followed is named."""

from __future__ import annotations

import copy
import operator
import pickle
import random
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, fx, nn

from steerable.checking.places import line_of_error
from steerable.conversion.refusals import (
    ROOT,
    ConversionError,
    path_below_root,
    place_of_call,
    place_of_module,
    refusal,
)
from steerable.conversion.training_and_evaluation import ModesDiffer, compare_modes
from steerable.nn import EquivariantModule

__all__ = ["Trace", "traced_in_evaluation", "traced_network"]

# torch.fx cannot follow these where a size is among several arguments, and would keep one random draw for good.
_FACTORIES = ("rand", "randn", "empty", "ones", "zeros", "full")
_NOT_REPEATABLE = ("rand", "randn", "empty")


@dataclass(frozen=True)
class Trace:
    """The calls of ``model(x)``.

    Attributes:
        graph: its calls. ``node.meta["only_in_training"]`` marks those that evaluation leaves out, and
            ``node.meta["by_mode"]`` holds the arguments, by place or name, that are True in training only.
        root: the module that the targets of the graph's calls are paths in.
        claims: pairs of a call that is made in training only, and the one whose result takes its place in evaluation.
        remark: a remark on a network that does something else in training; "" if it does not.
    """

    graph: fx.Graph
    root: nn.Module
    claims: tuple[tuple[fx.Node, fx.Node], ...] = field(default=())
    remark: str = ""


def traced_network(model: nn.Module) -> Trace:
    """The calls that ``model(x)`` makes in training, and which of them in evaluation; the model stays unchanged.

    ``self.training`` is a plain bool, of which no trace is left in a graph: only the comparison of both graphs tells
    what follows it.

    Raises:
        ConversionError: naming the module whose ``forward`` cannot be followed.
    """
    evaluation, _ = _traced(model, training=False)
    if not model.training:
        try:
            graph, root_in_training = _traced(model, training=True)
            return Trace(graph, root_in_training, compare_modes(graph, evaluation))
        except (ModesDiffer, ConversionError) as reason:
            where = _where(reason.node) if isinstance(reason, ModesDiffer) else "something that cannot be followed"
            return traced_in_evaluation(model, where)
    graph, root = _traced(model, training=True)
    try:
        return Trace(graph, root, compare_modes(graph, evaluation))
    except ModesDiffer as reason:
        raise refusal(
            _where(reason.node),
            "it makes training and evaluation differ in a way that cannot be followed. Convert model.eval(), which "
            "takes the network as it is in evaluation.",
        ) from None


def traced_in_evaluation(model: nn.Module, difference: str) -> Trace:
    """The calls that ``model(x)`` makes in evaluation alone; a remark says in words by what it differs in training."""
    graph, root = _traced(model, training=False)
    for node in graph.nodes:
        node.meta["in_evaluation"] = True
    return Trace(graph, root, remark=f"Converted as it is in evaluation; it differs in training, by {difference}.")


def _where(node: fx.Node) -> str:
    if node.op == "output":
        return "what the network returns"
    return f"`{path_below_root(str(node.target))}`" if node.op == "call_module" else place_of_call(node)


def _traced(model: nn.Module, *, training: bool) -> tuple[fx.Graph, nn.Module]:
    if isinstance(model, torch.jit.ScriptModule):
        raise refusal(
            place_of_module("", model),
            "of what TorchScript has compiled, no call is seen. Convert the network that it was made from.",
        )
    try:
        caller = _Caller(copy.deepcopy(model))  # a tracer may leave constants behind in what it traces
    except Exception as error:  # whatever a module may hold besides its weights
        raise refusal(
            place_of_module("", model),
            f"it cannot be copied ({type(error).__name__}: {error}). Convert it freshly built, before it has run.",
        ) from error
    tracer, chances = _NetworkTracer(), _chances()
    try:
        with _followed_factories(tracer):
            graph = tracer.trace(caller.train(training))
    except Exception as error:  # whatever user code raises when it meets a stand-in for a tensor
        line = f", in {at}" if (at := line_of_error(error)) else ""
        path, module = tracer.running[-1] if tracer.running else (ROOT, caller.network)
        raise refusal(
            place_of_module(path, module),
            f"torch.fx cannot follow its forward ({type(error).__name__}: {error}){line}. Write it as a function of "
            "one tensor, without decisions that depend on values or sizes.",
        ) from error
    if _chances() != chances:
        raise refusal(
            place_of_module("", model),
            f"in {'training' if training else 'evaluation'} it draws random numbers that are not tensors of its graph, "
            "as `random.random()` and `torch.randint(2, (1,))` do, and one draw would be kept for good. Draw them with "
            "torch.rand, for each sample.",
        )
    return graph, caller


def _chances() -> bytes:
    """What the next random numbers of Python, numpy and torch depend on."""
    legacy = np.random.get_state()  # noqa: NPY002, on which plain networks draw
    return pickle.dumps((random.getstate(), legacy, torch.random.get_rng_state().numpy()))


class _Caller(nn.Module):
    """Calls the network with one tensor, so that further arguments keep their defaults."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network

    def forward(self, x: Tensor) -> Any:
        return self.network(x)


def _in_place(function: Callable[[Any, Any], Any]) -> Any:
    def method(self: fx.Proxy, other: Any) -> Any:
        return self.tracer.create_proxy("call_function", function, (self, other), {})

    return method


class _Proxy(fx.Proxy):
    """A stand-in for a tensor that knows ``x += y`` from ``x = x + y``: the former changes x under all its names."""

    __iadd__, __isub__ = _in_place(operator.iadd), _in_place(operator.isub)
    __imul__, __itruediv__ = _in_place(operator.imul), _in_place(operator.itruediv)


class _NetworkTracer(fx.Tracer):
    """A tracer that records which modules are running, so that one that cannot be followed can be named."""

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

    def proxy(self, node: fx.Node) -> fx.Proxy:
        return _Proxy(node, self)

    def create_proxy(self, kind: str, target: Any, args: Any, kwargs: Any, *rest: Any, **options: Any) -> Any:
        # A function under torch.fx.wrap, such as torchvision's stochastic_depth, is followed like any other.
        if isinstance(target, types.FunctionType) and target.__module__.partition(".")[0] not in ("torch", "math"):
            return target(*args, **kwargs)
        return super().create_proxy(kind, target, args, kwargs, *rest, **options)


@contextmanager
def _followed_factories(tracer: fx.Tracer) -> Iterator[None]:
    """A context in which functions such as ``torch.rand(x.shape[0], 1, 1, 1)`` become calls of the graph."""
    originals = {name: getattr(torch, name) for name in _FACTORIES}

    def followed(name: str) -> Callable[..., Any]:
        def factory(*args: Any, **kwargs: Any) -> Any:
            if name in _NOT_REPEATABLE or _has_proxy((args, kwargs)):
                return tracer.create_proxy("call_function", originals[name], args, kwargs)
            return originals[name](*args, **kwargs)

        return factory

    try:
        for name in _FACTORIES:
            setattr(torch, name, followed(name))
        yield
    finally:
        for name, original in originals.items():
            setattr(torch, name, original)


def _has_proxy(value: object) -> bool:
    if isinstance(value, tuple | list):
        return any(map(_has_proxy, value))
    if isinstance(value, dict):
        return any(map(_has_proxy, value.values()))
    return isinstance(value, fx.Proxy)
