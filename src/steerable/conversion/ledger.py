"""What is known of each tensor of the plain network, and the steps that the converted one will take."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from torch import fx, nn

from steerable.conversion.fibres import Fibre, unify
from steerable.conversion.keeping import Replacement
from steerable.conversion.refusals import NoCounterpart, path_below_root
from steerable.conversion.windows import Downsampling
from steerable.fields import FieldType

__all__ = ["Form", "Ledger", "Signal", "Step"]

# A map of pixels; a map that is known to have one pixel; a map with one side taken away, (batch, channels, rest);
# (batch, channels); (batch, all pixels of all channels) as far as is known; the size of a tensor.
Form = Literal["map", "point", "line", "vector", "flat", "shape"]
Builder = Callable[[Sequence[FieldType], FieldType, Downsampling], Replacement]


@dataclass(frozen=True)
class Signal:
    """A value of the plain network.

    Attributes:
        form: what its dimensions are.
        fibre: its channels; those of the map where a map was flattened.
        flattened_at: the place where a map of unknown size was flattened.
        lined_by: what made a line of a map, ``mean``, ``amax``, ``flatten``, or ``squeeze`` where it was a point.
    """

    form: Form
    fibre: Fibre
    flattened_at: str = ""
    lined_by: str = ""


@dataclass(frozen=True)
class Step:
    """One call of the converted network.

    Attributes:
        node: the plain call whose result it computes.
        place: what that is called in messages.
        inputs: the plain calls whose results it takes.
        before, after: the fibres that go in and come out.
        path, plain: the plain module, or the one that does what a function does.
        build: makes the counterpart; None where torch's own operation stays, ``operation`` with ``arguments``.
        mixes: whether it opens a new fibre.
    """

    node: fx.Node
    place: str
    inputs: tuple[fx.Node, ...]
    before: tuple[Fibre, ...]
    after: Fibre
    path: str = ""
    plain: nn.Module | None = None
    build: Builder | None = None
    operation: Callable[..., Any] | None = None
    mixes: bool = False


@dataclass
class Ledger:
    """Filled while the graph is read, call by call.

    Attributes:
        signals: what each call gives.
        aliases: calls that only hand on what they got.
        steps: in order.
        taken: paths that are in use.
    """

    signals: dict[fx.Node, Signal] = field(default_factory=dict)
    aliases: dict[fx.Node, fx.Node] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    taken: set[str] = field(default_factory=set)
    _shared: dict[str, tuple[Fibre, Fibre]] = field(default_factory=dict)

    def tensor(self, value: object, *, line: bool = False) -> Signal:
        """The signal of an argument that must be a tensor; one that is half pooled only where ``line`` says so."""
        if isinstance(value, fx.Node) and value.op == "get_attr":
            raise NoCounterpart(
                f"it takes `{path_below_root(str(value.target))}`, a tensor of the network's own, and nothing says how "
                "that transforms. Use a layer such as nn.BatchNorm2d for learned scales."
            )
        if not isinstance(value, fx.Node) or value not in self.signals or self.is_shape(value):
            raise NoCounterpart(f"it takes a tensor that comes from the image, got {value!r}.")
        if self.signals[value].form == "line" and not line:
            raise NoCounterpart(
                "it gets (batch, channels, length), of which only a mean over the length is known to be equivariant. "
                "Pool over all pixels, with x.mean((2, 3))."
            )
        return self.signals[value]

    def is_shape(self, value: object) -> bool:
        """Whether it is the size of a tensor, or has one in it."""
        if isinstance(value, tuple | list):
            return any(self.is_shape(item) for item in value)
        return isinstance(value, fx.Node) and value in self.signals and self.signals[value].form == "shape"

    def add(self, step: Step, signal: Signal) -> None:
        """Note a step and what comes out; calls of one module with weights share their fibres."""
        stateful = step.plain is not None and any(True for _ in (*step.plain.parameters(), *step.plain.buffers()))
        if stateful and step.path in self._shared:
            before, after = self._shared[step.path]
            if not (unify(before, step.before[0]) and unify(after, step.after)):
                raise NoCounterpart("it is used in two places with different numbers of channels.")
        elif stateful:
            self._shared[step.path] = (step.before[0], step.after)
        self.steps.append(step)
        self.signals[step.node] = signal

    def alias(self, node: fx.Node, source: fx.Node, signal: Signal) -> None:
        """A call that needs no step of its own."""
        self.aliases[node] = self.aliases.get(source, source)
        self.signals[node] = signal

    def free_path(self, scope: str, name: str) -> str:
        """A path in a module for something that was a function there."""
        stem = f"{scope}.{name}" if scope else name
        path, count = stem, 0
        while path in self.taken:
            count += 1
            path = f"{stem}_{count}"
        self.taken.add(path)
        return path
