"""Reading random factors of training: a field times one number for each sample, as stochastic depth draws it."""

from __future__ import annotations

import copy
import operator
from typing import Any

from torch import Tensor, fx, nn

from steerable.conversion.extra_layers import TrainingFactor
from steerable.conversion.graph_analysis import BATCH, TRIALS, GraphAnalysis
from steerable.conversion.plain_calls import PlainCall
from steerable.conversion.refusals import NoCounterpart
from steerable.conversion.sizes import fields_behind

__all__ = ["read_training_factor"]


def read_training_factor(
    analysis: GraphAnalysis, call: PlainCall, field: fx.Node, other: Any, *, inverse: bool
) -> None:
    """Record a factor for each sample that is drawn in training only, as stochastic depth does."""
    signal = analysis.tensor(field, "last")
    if "only_in_training" not in call.node.meta:
        raise NoCounterpart(
            "it multiplies by what is computed from sizes or drawn at random, in evaluation too. Do so in training "
            "only, under `if self.training:`."
        )
    rank = len(analysis.shape(field, 0))
    ranks = {len(analysis.shape(source, 0)) for source in fields_behind(analysis, other)}
    if not ranks <= {rank} or not _is_per_sample(analysis, rank, other):
        raise NoCounterpart(
            "it multiplies by something other than one factor per sample, of shape "
            f"(batch{', 1' * (rank - 1)}). Draw one factor per sample, or use nn.Dropout."
        )
    graph = _factor_graph(analysis, other, inverse)

    def build(before: Any, after: Any) -> nn.Module:
        return TrainingFactor(after, fx.GraphModule(nn.Module(), copy.deepcopy(graph), "Factor"))

    analysis.add(analysis.named(call, "factor"), (field,), signal, build, rests=True)


def _is_per_sample(analysis: GraphAnalysis, rank: int, value: Any) -> bool:
    """Whether a value depends on nothing but the number of samples, and has one entry for each, or one for all.

    A random tensor may be computed from others in any way, as long as what enters into it is the same for all heights,
    widths and channels: it does not see the field's values.
    """
    shapes = []
    for trial in TRIALS:
        found = {}
        for part in _entering(analysis, value, trial):
            measured = analysis.measured(part, trial, blind=True)
            found[part] = tuple(measured.shape) if isinstance(measured, Tensor) else measured
        shapes.append(found)
    if any(found != shapes[0] for found in shapes):
        return False
    result = analysis.measured(value, 0, blind=True)
    shape = tuple(result.shape) if isinstance(result, Tensor) else ()
    shape = (*(1,) * (rank - len(shape)), *shape)
    return len(shape) == rank and shape[0] in (1, BATCH) and all(n == 1 for n in shape[1:])


def _entering(analysis: GraphAnalysis, value: Any, trial: int) -> list[fx.Node]:
    """A value that is computed from sizes, and all that tensors on the way to it are made of."""
    found: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> None:
        if node in found or node not in analysis.from_sizes:
            return
        found[node] = None
        if isinstance(analysis.measured(node, trial, blind=True), Tensor):
            for before in node.all_input_nodes:
                visit(before)

    fx.map_arg(value, visit)
    return list(found)


def _factor_graph(analysis: GraphAnalysis, value: Any, inverse: bool) -> fx.Graph:
    """The calls that compute a value, or its inverse, from a field."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    copies: dict[fx.Node, fx.Node] = {}

    def copied(node: fx.Node) -> fx.Node:
        if node not in analysis.from_sizes:
            return x
        if node not in copies:
            for before in node.all_input_nodes:
                copied(before)
            copies[node] = graph.node_copy(node, copied)
        return copies[node]

    factor: Any = fx.map_arg(value, copied)
    graph.output(graph.call_function(operator.truediv, (1.0, factor)) if inverse else factor)
    return graph
