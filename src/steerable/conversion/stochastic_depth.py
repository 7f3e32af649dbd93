"""Random factors of training: a field times one number for each sample, as in stochastic depth."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
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
    """Record a factor for each sample that is drawn in training only, as in stochastic depth."""
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
    """Whether a value has one entry for each sample, or one for all, and depends on nothing else of a field.

    The same chance gives the same numbers then, whatever the heights, widths and channels are.
    """
    drawn: list[Tensor] = []
    for trial in TRIALS:
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            drawn.append(torch.as_tensor(analysis.measured(value, trial, blind=True)))
    shape = (*(1,) * (rank - drawn[0].ndim), *drawn[0].shape)
    fits = len(shape) == rank and shape[0] in (1, BATCH) and all(n == 1 for n in shape[1:])
    return fits and all(torch.equal(one, drawn[0]) for one in drawn)


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
