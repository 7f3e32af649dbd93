"""The facts about each tensor of the plain network, collected while its graph is read call by call."""

from __future__ import annotations

import dataclasses
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from torch import Tensor, fx

from steerable.conversion.plain_calls import PlainCall, called
from steerable.conversion.plan import Builder, Step
from steerable.conversion.refusals import NoCounterpart, free_path, path_below_root
from steerable.conversion.type_variables import TypeVariable, unify
from steerable.conversion.windows import Downsampling
from steerable.nn.geometry import axis_names

__all__ = ["BATCH", "LARGE", "PIXELS", "SQUARES", "TRIALS", "Form", "GraphAnalysis", "Signal", "Weight"]

# A map of pixels; a map that is known to have one pixel; a map with its channels last, (batch, height, width,
# channels); (batch, channels); (batch, all pixels of all channels) as far as is known; something of which further
# calls may make one of these, such as (batch, channels, length).
Form = Literal["map", "point", "last", "vector", "flat", "unfinished"]

# How often a value that is computed from sizes is tried, on sizes drawn at random; further trials are of square maps,
# of maps of one pixel, and of many samples and large maps.
TRIALS, SQUARES, PIXELS, LARGE = range(8), range(8, 11), range(11, 13), range(13, 15)
BATCH = 1009  # unlike any number of channels


@dataclass(frozen=True)
class Signal:
    """A field of the plain network.

    Attributes:
        form: what its dimensions are.
        variable: its type; that of the map where a map was flattened.
        flattened_at: the place where a map of unknown size was flattened.
        base: the call that gives the field of which something unfinished was made.
        made: what was made of it, as a function of its values and a trial that gives it a size.
    """

    form: Form
    variable: TypeVariable
    flattened_at: str = ""
    base: fx.Node | None = None
    made: Callable[[Tensor, int], Any] | None = None

    @property
    def is_map(self) -> bool:
        return self.form in ("map", "point")

    @property
    def is_vector(self) -> bool:
        return self.form in ("vector", "flat")


@dataclass(frozen=True)
class Weight:
    """A tensor of the network's own, perhaps reshaped: its path, whether it is learned, and its values."""

    path: str
    learned: bool
    values: Tensor


@dataclass
class GraphAnalysis:
    """The facts that have been found so far; they grow while the graph is read.

    Attributes:
        pools_head: whether a map that is flattened into a linear layer may be pooled instead.
        axes: 2 for networks of images, 3 for those of volumes.
        downsampling: see :func:`steerable.convert`.
        signals: the fields, by the call that gives them.
        from_sizes: calls that see no values of a field, only sizes, dtypes and devices: numbers, shapes, random
            tensors.
        weights: the network's own tensors.
        aliases: calls that only pass on what they got.
        steps: in order.
        taken: paths that are in use.
        owners: the layer that each parameter belongs to.
        uses: by the path of a tensor that a function was handed, in words what it is handed to.
    """

    pools_head: bool
    axes: int
    downsampling: Downsampling
    signals: dict[fx.Node, Signal] = field(default_factory=dict)
    from_sizes: set[fx.Node] = field(default_factory=set)
    weights: dict[fx.Node, Weight] = field(default_factory=dict)
    aliases: dict[fx.Node, fx.Node] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    owners: dict[Tensor, str] = field(default_factory=dict)
    uses: dict[str, str] = field(default_factory=dict)
    _shared: dict[str, tuple[TypeVariable, TypeVariable]] = field(default_factory=dict)
    _paths: dict[str, str] = field(default_factory=dict)

    def tensor(self, value: object, *forms: Form) -> Signal:
        """The signal of an argument that must be a field; in other forms only if ``forms`` has them.

        NoCounterpart if it is something else.
        """
        if isinstance(value, fx.Node) and value in self.weights:
            raise NoCounterpart(
                f"it takes `{path_below_root(self.weights[value].path)}`, one of the network's own tensors, and "
                f"nothing says how that transforms. Use a layer such as nn.BatchNorm{self.axes}d for learned scales."
            )
        if not isinstance(value, fx.Node) or value not in self.signals:
            raise NoCounterpart(f"it takes a tensor that comes from the image, got {value!r}.")
        form = self.signals[value].form
        if form == "unfinished" and form not in forms:
            raise NoCounterpart(
                "it gets (batch, channels, length), of which only a mean over the length is known to be equivariant. "
                f"Pool over all pixels, with x.mean({self.pixel_dims})."
            )
        if form == "last" and form not in forms:
            raise NoCounterpart(
                f"it gets (batch, {', '.join(axis_names(self.axes))}, channels), of which only nn.LayerNorm, "
                "nn.Linear, activations, dropout and sums are followed. Move the channels back first, with "
                f"x.permute{self.channels_back}."
            )
        return self.signals[value]

    # ---------------------------------------------------------------- dimensions

    @property
    def pixel_dims(self) -> tuple[int, ...]:
        """The dimensions of a map's pixels or voxels."""
        return tuple(range(2, 2 + self.axes))

    @property
    def channels_last(self) -> tuple[int, ...]:
        """The order of dimensions in which the channels of a map come last."""
        return (0, *self.pixel_dims, 1)

    @property
    def channels_back(self) -> tuple[int, ...]:
        """The order that brings them back."""
        return (0, 1 + self.axes, *range(1, 1 + self.axes))

    # ---------------------------------------------------------------- sizes

    def depends_on_sizes(self, value: Any) -> bool:
        """Whether something in it was computed from sizes."""
        found: list[fx.Node] = []
        fx.map_arg(value, found.append)
        return any(node in self.from_sizes for node in found)

    def shape(self, node: fx.Node, trial: int, *, blind: bool = False) -> tuple[int, ...]:
        """A shape that a field might have, with random sizes; with ``blind`` the channels are random too."""
        draw, signal = random.Random(f"{trial} {node.name}"), self.signals[node]
        first, step = ((5, 2), (4, 2), (4, 1), (4, 1))[trial % 4]  # odd, even and any sides
        *sides, extra = draw.sample(range(first, first + 12, step), self.axes + 1)
        batch, channels = (BATCH, extra) if blind else (3 + trial, signal.variable.channels or extra)
        if trial == LARGE[0]:
            batch = 67
        elif trial in (LARGE[1], SQUARES[-1]):
            batch, largest = 2, int((2**19 / channels) ** (1 / self.axes))
            sides = [max(largest, 16) - draw.randrange(8) for _ in sides]
        if trial in SQUARES or trial in PIXELS:
            sides = [sides[0] if trial in SQUARES else 1] * self.axes
        if signal.base is not None and signal.made is not None:
            made = signal.made(torch.empty(self.shape(signal.base, trial, blind=blind), device="meta"), trial)
            return tuple(made.shape)
        by_form: dict[Form, tuple[int, ...]] = {
            "map": (batch, channels, *sides),
            "point": (batch, channels, *[1] * self.axes),
            "last": (batch, *sides, channels),
            "vector": (batch, channels),
            "flat": (batch, channels * math.prod(sides)),
        }
        return by_form[signal.form]

    def measured(self, value: Any, trial: int, *, blind: bool = False) -> Any:
        """A value that is computed from sizes, for fields of :meth:`shape` that are zero."""

        def measure(node: fx.Node) -> Any:
            if node in self.from_sizes:
                return called(node, measure)
            return torch.zeros((), device="cpu").expand(self.shape(node, trial, blind=blind))  # without much storage

        return fx.map_arg(value, measure)

    def always(self, value: Any, expected: Callable[[int], Sequence[int]]) -> bool:
        """Whether numbers that are computed from sizes are those expected in every trial."""
        measured = (self.measured(value, trial) for trial in TRIALS)
        return all(
            isinstance(found, Sequence) and tuple(found) == tuple(expected(trial))
            for trial, found in enumerate(measured)
        )

    # ---------------------------------------------------------------- filling

    def add(
        self,
        call: PlainCall,
        inputs: tuple[fx.Node, ...],
        result: Signal,
        build: Builder | None = None,
        *,
        function: Callable[..., Any] | None = None,
        rests: bool = False,
        note: str = "",
    ) -> None:
        """Record a step and its result; calls of one module with weights share their types. See :class:`Step`."""
        before = tuple(self.signals[node].variable for node in inputs)
        plain, path = call.plain, call.path
        stateful = plain is not None and any(True for _ in (*plain.parameters(), *plain.buffers()))
        if stateful and path in self._shared:
            shared = self._shared[path]
            if not (unify(shared[0], before[0]) and unify(shared[1], result.variable)):
                raise NoCounterpart("it is used in two places with different numbers of channels.")
        elif stateful:
            self._shared[path] = (before[0], result.variable)
        self.steps.append(Step(call, inputs, before, result.variable, build, function, rests, note))
        self.signals[call.node] = result

    def alias(self, node: fx.Node, source: fx.Node, signal: Signal) -> None:
        """Record a call that needs no step."""
        self.aliases[node] = self.source(source)
        self.signals[node] = signal

    def source(self, node: fx.Node) -> fx.Node:
        """The call that computes the tensor that a call passes on."""
        return self.aliases.get(node, node)

    def named(self, call: PlainCall, name: str) -> PlainCall:
        """The call of a function with a path for its counterpart, in the module whose ``forward`` calls it."""
        return dataclasses.replace(call, path=self._free_path(call.scope, name))

    def named_by_weight(self, call: PlainCall, weight: Weight, name: str = "") -> PlainCall:
        """The call with the path of the layer made for a weight, the same for all calls with the weight."""
        if weight.path not in self._paths:
            scope, _, last = path_below_root(weight.path).rpartition(".")
            self._paths[weight.path] = self._free_path(scope, name or last)
        return dataclasses.replace(call, path=self._paths[weight.path])

    def _free_path(self, scope: str, name: str) -> str:
        path = free_path(f"{scope}.{name}" if scope else name, self.taken)
        self.taken.add(path)
        return path
