"""Reading products of a field with something that is not one: learned scales, and random factors of training."""

from __future__ import annotations

import copy
import operator
from typing import Any

import torch
from torch import Tensor, fx, nn

from steerable.conversion.binding import bound, called
from steerable.conversion.ledger import BATCH, TRIALS, Ledger, Step, Weight
from steerable.conversion.network import CapsuleScale, TrainingFactor
from steerable.conversion.refusals import NoCounterpart, path_below_root, scope_of
from steerable.conversion.sizes import fields_behind

__all__ = ["is_weight", "read_layer_norm", "read_reshaped_weight", "read_scale", "read_training_factor"]


def is_weight(ledger: Ledger, value: object) -> bool:
    return isinstance(value, fx.Node) and value in ledger.weights


# -------------------------------------------------------------------- the network's own tensors


def read_reshaped_weight(ledger: Ledger, node: fx.Node) -> None:
    """Note a weight that only gets another shape, such as gamma[:, None, None]; NoCounterpart for anything else."""
    source, *others = node.all_input_nodes
    weight = ledger.weights[source]
    probes = _probes(weight.values)
    found = [] if others else [_call_on_copy(node, probe) for probe in probes]
    if not found or not all(map(_is_reshape, found, probes)):
        raise NoCounterpart(
            f"it computes something from `{path_below_root(weight.path)}`, a tensor of the network's own; only a "
            "reshape of that, to fixed sizes, is followed. Use a layer such as nn.BatchNorm2d for learned scales."
        )
    ledger.weights[node] = Weight(weight.path, weight.learned, weight.values.reshape(found[0].shape))


def _probes(values: Tensor) -> list[Tensor]:
    """Random numbers of both signs and several magnitudes, since a function may leave some numbers as they are."""
    drawn = torch.randn(values.shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64, device="cpu")
    return [(size * drawn).to(values.dtype) for size in (10, -10, 1e-3, -1e-3, 1e4, -1e4)]


def _call_on_copy(node: fx.Node, probe: Tensor) -> Any:
    return called(node, lambda _: probe.clone())  # which the call may change in place


def _is_reshape(found: object, probe: Tensor) -> bool:
    if not isinstance(found, Tensor) or found.dtype != probe.dtype or found.device != probe.device:
        return False
    return torch.equal(found.flatten(), probe.flatten())


def read_scale(ledger: Ledger, node: fx.Node, place: str, field: fx.Node, other: fx.Node) -> None:
    """Note a learned scale per channel, which becomes one per capsule, or a single learned number."""
    signal, weight = ledger.tensor(field, "last"), ledger.weights[other]
    rank, channel = {"last": (4, 3), "vector": (2, 1)}.get(signal.form, (4, 1))
    shape = (*(1,) * (rank - weight.values.ndim), *weight.values.shape)
    single = weight.values.numel() == 1
    fits = single or shape == tuple(signal.fibre.channels if axis == channel else 1 for axis in range(rank))
    if not weight.learned or signal.form == "flat" or len(shape) != rank or not fits:
        raise NoCounterpart(
            f"it multiplies by `{path_below_root(weight.path)}`, a tensor of the network's own of shape "
            f"{tuple(weight.values.shape)}, and nothing says how that transforms. Only a parameter with one entry per "
            "channel, or a single one, has a counterpart."
        )
    start = 1.0 if weight.values.is_meta else float(weight.values.detach().double().mean())
    plain = nn.ParameterList([nn.Parameter(weight.values.detach())])

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        note = "" if single else "one scale per capsule in place of one per channel"
        return CapsuleScale(after, start, single=single), note

    path = ledger.weight_path(weight, "")
    ledger.add(Step(node, place, (field,), (signal.fibre,), signal.fibre, path, plain, build), signal)


def read_layer_norm(ledger: Ledger, node: fx.Node) -> tuple[nn.Module, str]:
    """The module that does what F.layer_norm does with weights of the network's own, and a path for it."""
    given = bound(node, "input normalized_shape weight bias eps * cudnn_enable")
    weights = [given.get(name) for name in ("weight", "bias")]
    if any(w is not None and not (is_weight(ledger, w) and ledger.weights[w].learned) for w in weights):
        raise NoCounterpart("its weight and bias are not parameters of the network. Use the module nn.LayerNorm.")
    if weights[0] is None and weights[1] is not None:
        raise NoCounterpart("it has a bias without a weight. Use the module nn.LayerNorm.")
    shape = ledger.measured(given["normalized_shape"], 0)
    if any(list(ledger.measured(given["normalized_shape"], trial)) != list(shape) for trial in TRIALS):
        raise NoCounterpart("it normalises pixels, and their number varies. Normalise the channels only.")
    affine = weights[0] is not None
    with torch.device("meta"):  # only its options are read, and how many parameters it has
        plain = nn.LayerNorm(list(shape), given.get("eps", 1e-5), affine, bias=weights[1] is not None)
    if weights[0] is None:
        return plain, ledger.free_path(scope_of(node)[0], "layer_norm")
    return plain, ledger.weight_path(ledger.weights[weights[0]], "layer_norm")


# -------------------------------------------------------------------- training


def read_training_factor(
    ledger: Ledger, node: fx.Node, place: str, field: fx.Node, other: Any, *, inverse: bool
) -> None:
    """Note a factor for each sample that is drawn in training only, as stochastic depth does."""
    signal = ledger.tensor(field, "last")
    if "only_in_training" not in node.meta:
        raise NoCounterpart(
            "it multiplies by what is computed from sizes or drawn at random, in evaluation too. Do so in training "
            "only, under `if self.training:`."
        )
    rank = len(ledger.shape(field, 0))
    ranks = {len(ledger.shape(source, 0)) for source in fields_behind(ledger, other)}
    if not ranks <= {rank} or not _is_per_sample(ledger, rank, other):
        raise NoCounterpart(
            "it multiplies by something other than one factor per sample, of shape "
            f"(batch{', 1' * (rank - 1)}). Draw one factor per sample, or use nn.Dropout."
        )
    graph = _factor_graph(ledger, other, inverse)

    def build(before: Any, after: Any, downsampling: Any) -> tuple[nn.Module, str]:
        return TrainingFactor(after, fx.GraphModule(nn.Module(), copy.deepcopy(graph), "Factor")), ""

    path = ledger.free_path(scope_of(node)[0], "factor")
    ledger.add(Step(node, place, (field,), (signal.fibre,), signal.fibre, path, None, build, rests=True), signal)


def _is_per_sample(ledger: Ledger, rank: int, value: Any) -> bool:
    """Whether a value depends on nothing but the number of samples, and has one entry for each, or one for all.

    A random tensor may be computed from others in any way, as long as what enters into it is the same for all heights,
    widths and channels: it does not see the field's values.
    """
    shapes = []
    for trial in TRIALS:
        found = {}
        for part in _entering(ledger, value, trial):
            measured = ledger.measured(part, trial, blind=True)
            found[part] = tuple(measured.shape) if isinstance(measured, Tensor) else measured
        shapes.append(found)
    if any(found != shapes[0] for found in shapes):
        return False
    result = ledger.measured(value, 0, blind=True)
    shape = tuple(result.shape) if isinstance(result, Tensor) else ()
    shape = (*(1,) * (rank - len(shape)), *shape)
    return len(shape) == rank and shape[0] in (1, BATCH) and all(n == 1 for n in shape[1:])


def _entering(ledger: Ledger, value: Any, trial: int) -> list[fx.Node]:
    """A value that is computed from sizes, and all that tensors on the way to it are made of."""
    found: dict[fx.Node, None] = {}

    def visit(node: fx.Node) -> None:
        if node in found or node not in ledger.free:
            return
        found[node] = None
        if isinstance(ledger.measured(node, trial, blind=True), Tensor):
            for before in node.all_input_nodes:
                visit(before)

    fx.map_arg(value, visit)
    return list(found)


def _factor_graph(ledger: Ledger, value: Any, inverse: bool) -> fx.Graph:
    """The calls that compute a value, or its inverse, from a field."""
    graph = fx.Graph()
    x = graph.placeholder("x")
    copies: dict[fx.Node, fx.Node] = {}

    def copied(node: fx.Node) -> fx.Node:
        if node not in ledger.free:
            return x
        if node not in copies:
            for before in node.all_input_nodes:
                copied(before)
            copies[node] = graph.node_copy(node, copied)
        return copies[node]

    factor: Any = fx.map_arg(value, copied)
    graph.output(graph.call_function(operator.truediv, (1.0, factor)) if inverse else factor)
    return graph
