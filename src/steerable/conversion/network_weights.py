"""The network's own tensors that a ``forward`` uses: learned scales."""

from __future__ import annotations

import dataclasses

import torch
from torch import Tensor, fx, nn

from steerable.conversion.extra_layers import CapsuleScale
from steerable.conversion.graph_analysis import GraphAnalysis, Weight
from steerable.conversion.plain_calls import PlainCall, called
from steerable.conversion.refusals import NoCounterpart, path_below_root

__all__ = ["is_weight", "read_reshaped_weight", "read_scale"]


def is_weight(analysis: GraphAnalysis, value: object) -> bool:
    """Whether an argument is one of the network's own tensors."""
    return isinstance(value, fx.Node) and value in analysis.weights


def read_reshaped_weight(analysis: GraphAnalysis, node: fx.Node) -> None:
    """Record a weight that only gets another shape, such as gamma[:, None, None]; NoCounterpart for anything else."""
    source, *others = node.all_input_nodes
    weight = analysis.weights[source]
    drawn = torch.randn(
        weight.values.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu"
    )
    # Numbers of both signs and several magnitudes, since a function may leave some as they are.
    probes = [(size * drawn).to(weight.values.dtype) for size in (10, -10, 1e-3, -1e-3, 1e4, -1e4)]
    found = [] if others else [called(node, {source: probe.clone()}.__getitem__) for probe in probes]
    alike = (
        isinstance(a, Tensor) and (a.dtype, a.device) == (b.dtype, b.device) and torch.equal(a.flatten(), b.flatten())
        for a, b in zip(found, probes, strict=False)
    )
    if not found or not all(alike):
        raise NoCounterpart(
            f"it computes something from `{path_below_root(weight.path)}`, one of the network's own tensors; only a "
            "reshape of that, to fixed sizes, is followed. Use a layer such as nn.BatchNorm2d for learned scales."
        )
    analysis.weights[node] = Weight(weight.path, weight.learned, weight.values.reshape(found[0].shape))


def read_scale(analysis: GraphAnalysis, call: PlainCall, field: fx.Node, other: fx.Node) -> None:
    """Record a learned scale per channel, which becomes one per capsule, or a single learned number."""
    signal, weight = analysis.tensor(field, "last"), analysis.weights[other]
    whole = 2 + analysis.axes
    rank, channel = {"last": (whole, whole - 1), "vector": (2, 1)}.get(signal.form, (whole, 1))
    shape = (*(1,) * (rank - weight.values.ndim), *weight.values.shape)
    single = weight.values.numel() == 1
    fits = single or shape == tuple(signal.variable.channels if axis == channel else 1 for axis in range(rank))
    if not weight.learned or signal.form == "flat" or len(shape) != rank or not fits:
        raise NoCounterpart(
            f"it multiplies by `{path_below_root(weight.path)}`, one of the network's own tensors, of shape "
            f"{tuple(weight.values.shape)}, and nothing says how that transforms. Only a parameter with one entry per "
            "channel, or a single one, has a counterpart."
        )
    start = 1.0 if weight.values.is_meta else float(weight.values.detach().double().mean())
    plain = nn.ParameterList([nn.Parameter(weight.values.detach())])

    note = "" if single else "one scale per capsule in place of one per channel"
    scaled = dataclasses.replace(analysis.named_by_weight(call, weight), plain=plain)
    analysis.add(scaled, (field,), signal, lambda _, after: CapsuleScale(after, start, single=single), note=note)
