"""Functions that a ``forward`` calls, as modules that do the same: ``F.max_pool2d(x, 2)`` is ``nn.MaxPool2d(2)``."""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor, fx, nn

from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.refusals import NoCounterpart

__all__ = ["FunctionLayer", "as_layer", "as_padding", "changes_its_input"]

_NOT_KNOWN = (
    "it is not known to be equivariant. Use layers of torch.nn, sums, products or torch.cat, or convert the rest."
)
_WITHOUT_EFFECT = ("inplace", "_stacklevel")  # a result in place is read as a new tensor; a level is about warnings
_PADS = {"constant": "Constant", "reflect": "Reflection", "replicate": "Replication", "circular": "Circular"}


class FunctionLayer(nn.Module):
    """A function of single values for which torch has no module, such as ``torch.abs``."""

    def __init__(self, name: str, options: dict[str, Any]) -> None:
        super().__init__()
        function: Callable[..., Tensor] = getattr(torch, name)
        self.function = partial(function, **options) if options else function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


def as_layer(call: PlainCall) -> nn.Module:
    """The module that does the same as a function or method; NoCounterpart if there is none."""
    operation = call.operation
    if operation is None or not (operation.layers or operation.becomes == "activation"):
        raise NoCounterpart(_NOT_KNOWN)
    defaults = {key: p.default for key, p in operation.signature.parameters.items() if p.default is not p.empty}
    options = {**defaults, **call.arguments()}
    for key in ("input", "out", *_WITHOUT_EFFECT):
        options.pop(key, None)
    others: list[fx.Node] = []
    fx.map_arg(options, others.append)
    if others:
        raise NoCounterpart(_NOT_KNOWN)
    if operation.becomes == "dropout" and not _drops(call.node, options.pop("training")):
        return nn.Identity()
    if not operation.layers:
        given = {key: value for key, value in options.items() if key not in defaults or value != defaults[key]}
        return FunctionLayer(operation.name, given)
    layer = operation.layers[0]
    accepted = inspect.signature(layer).parameters
    for key in [key for key in options if key not in accepted]:
        if options.pop(key) != defaults.get(key):
            raise NoCounterpart(f"its argument {key} has no counterpart. Leave it out.")
    return layer(**options)


def changes_its_input(call: PlainCall) -> bool:
    """Whether a function or method writes its result into its first argument."""
    target = call.node.target
    name = target if isinstance(target, str) else getattr(target, "__name__", "")
    if getattr(target, "__module__", "") == operator.add.__module__:  # iadd is add in place
        return name.startswith("i") and hasattr(operator, name[1:])
    if name.endswith("_") and not name.endswith("__"):
        return True
    takes_inplace = call.operation is not None and "inplace" in call.operation.signature.parameters
    return takes_inplace and bool(call.arguments().get("inplace"))


def as_padding(axes: int, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> nn.Module:
    """The module that pads maps of that many axes as ``F.pad(x, pad, mode, value)`` does."""
    if len(pad) != 2 * axes:
        sides = "height and width" if axes == 2 else "depth, height and width"
        raise NoCounterpart(f"it pads {tuple(pad)}, but only {sides} of a map can be padded: give {2 * axes} numbers.")
    if mode not in _PADS:
        raise NoCounterpart(f"its argument mode={mode!r} is not known here. Use one of {', '.join(_PADS)}.")
    layer: nn.Module = getattr(nn, f"{_PADS[mode]}Pad{axes}d")(tuple(pad), *[value or 0.0] * (mode == "constant"))
    return layer


def _drops(node: fx.Node, training: object) -> bool:
    """Whether a dropout drops in training and only then; NoCounterpart for one that also drops in evaluation."""
    if training is False:
        return False
    if "only_in_training" in node.meta or node.meta.get("by_mode"):
        return True
    raise NoCounterpart(
        "it drops in evaluation too, since nothing makes it follow the mode of the network. Give it "
        "training=self.training, or use nn.Dropout."
    )
