"""A table of operations, and the ways to find its rows: by name, by function, by module."""

from __future__ import annotations

import dataclasses
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.checking.calls import Operation, Rule

__all__ = ["OperationTable", "Row", "operation_name", "row"]

# Names of operations, each with the modules that do the same, and what is known of them.
Row = tuple[str, Operation]


def row(names: str, rule: Rule, parameters: str, **options: str) -> Row:
    """A row for operations such as ``"relu:ReLU exp"``; the rest is as for :meth:`Operation.described`."""
    return names, Operation.described(rule, parameters, **options)


class OperationTable:
    """The rows, found by an operation's name, by a function of torch, or by a module's class.

    Attributes:
        by_name: the operations by their bare names.
    """

    def __init__(self, rows: Sequence[Row]) -> None:
        words = [(word.partition(":"), operation) for names, operation in rows for word in names.split()]
        self.by_name: dict[str, Operation] = {
            name: dataclasses.replace(operation, name=name, layers=_classes(modules))
            for (name, _, modules), operation in words
        }
        known = self.by_name.values()
        self._by_function = {function: operation for operation in known for function in _functions(operation.name)}
        self._by_layer = {layer: operation for operation in known for layer in operation.layers}

    def of_function(self, function: Callable[..., Any]) -> Operation | None:
        """The row of a function of torch, a method of its tensors or a Python operator; None if there is none."""
        try:
            return self._by_function.get(function)
        except TypeError:  # not hashable
            return None

    def of_layer(self, layer: type[nn.Module]) -> Operation | None:
        """The row of a module's class; None if there is none."""
        return self._by_layer.get(layer)


def operation_name(function: Callable[..., Any]) -> str:
    """The bare name: ``add`` for torch.add, Tensor.add_, Tensor.__add__."""
    return getattr(function, "__name__", str(function)).strip("_")


def _classes(modules: str) -> tuple[type[nn.Module], ...]:
    return tuple(getattr(nn, module) for module in modules.split(",") if module)


def _functions(name: str) -> Iterator[Callable[..., Any]]:
    """Every function of torch that goes by this name, in place or not, and the Python operator that calls it."""
    for home in (torch, Tensor, F, torch._C._nn, torch._C._linalg):  # type: ignore[attr-defined]
        for spelling in (name, f"{name}_", f"_{name}", f"__{name}__", f"__i{name}__"):
            function = getattr(home, spelling, None)
            if function is not None and function is not Tensor.__float__:  # which reads a value
                yield function
    if hasattr(Tensor, f"__{name}__"):
        yield from (getattr(operator, spelling) for spelling in (name, f"i{name}") if hasattr(operator, spelling))
