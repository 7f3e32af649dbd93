"""Whether the finished network is equivariant, measured call by call: types alone are not taken as proof."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, fx, nn

from steerable.checking.commutation import redrawn_parameters
from steerable.nn.norms import CapsuleNorm
from steerable.transforms import elements_on_the_grid, transform
from steerable.types.field_types import FieldType

__all__ = ["first_breach"]

# What rounding may leave in float64, relative to the largest value or to 1. Norms of nearly constant maps enlarge it.
_TOLERANCE = 1e-9


def first_breach(net: fx.GraphModule, in_type: FieldType, size: int) -> tuple[str, str] | None:
    """The first call whose result on π(g)x is not π(g) of that on x, and by how much; None where there is none.

    Each call is compared, over all g that the pixel grid carries, on random input in float64: with norms as they are
    in training, then in evaluation. Dropout and the like are switched off.

    Args:
        net: a network as :func:`steerable.conversion.network_assembly.assembled` makes it; it is in float64 afterwards.
        in_type: the type of its input.
        size: every extent of the input.

    Returns:
        What the call is called in messages, and the reason.
    """
    net, generator = net.double(), torch.Generator().manual_seed(0)
    extents = (size,) * (in_type.group.axes or 2)
    x = torch.randn(2, in_type.channels, *extents, generator=generator, dtype=torch.float64, device="cpu")
    has_statistics = any(isinstance(module, CapsuleNorm) for module in net.modules())
    with redrawn_parameters(net), torch.no_grad():
        for training in (True, False) if has_statistics else (False,):
            for module in net.modules():
                module.training = training and isinstance(module, CapsuleNorm)
            try:
                breach = _compare(net, x)
            except ValueError:  # a norm of single values, which torch refuses in training as well
                if not training:
                    raise
                continue
            if breach is not None:
                return breach
    return None


def _compare(net: fx.GraphModule, x: Tensor) -> tuple[str, str] | None:
    values: dict[fx.Node, list[Tensor]] = {}  # of each π(g)x
    for node in net.graph.nodes:
        if node.op == "output":
            return None
        field_type: FieldType = node.meta["field_type"]
        elements = elements_on_the_grid(field_type.group)
        if node.op == "placeholder":
            values[node] = [transform(x, g, field_type) for g in elements]
            continue
        results = [_call(net, node, values, place) for place in range(len(elements))]
        breach = _breach(results, field_type)
        if breach:
            return node.meta["place"], breach
        values[node] = results
        _forget(values, node)
    return None


def _call(net: nn.Module, node: fx.Node, values: dict[fx.Node, list[Tensor]], place: int) -> Tensor:
    args: Any = fx.map_arg(node.args, lambda n: values[n][place])
    kwargs: Any = fx.map_arg(node.kwargs, lambda n: values[n][place])
    function: Any = net.get_submodule(str(node.target)) if node.op == "call_module" else node.target
    result: Tensor = function(*args, **kwargs)
    return result


def _breach(results: list[Tensor], field_type: FieldType) -> str:
    elements = elements_on_the_grid(field_type.group)
    y = results[elements.index(field_type.group.identity)]
    scale = max(1.0, float(y.nan_to_num(0, 0, 0).abs().max()))
    for g, found in zip(elements, results, strict=True):
        expected = transform(y, g, field_type)
        if found.shape == expected.shape:
            same = (found == expected) | (found.isnan() & expected.isnan())  # infinities have no difference
            error = float((found - expected).abs().masked_fill(same, 0).max()) / scale
            if error <= _TOLERANCE:
                continue
            how = f"differs from π(g) of that on x by {error:.1e} of the largest value"
        else:
            how = f"has another shape than π(g) of that on x, {tuple(found.shape)} and {tuple(expected.shape)}"
        return (
            f"it is not equivariant: on random input, its result on π(g)x {how}, for g = `{g}`. Use a layer that has a "
            "counterpart in steerable.nn, or convert the rest."
        )
    return ""


def _forget(values: dict[fx.Node, list[Tensor]], node: fx.Node) -> None:
    """Drop what no later call takes."""
    for before in node.all_input_nodes:
        if max(before.users) is node:
            del values[before]
