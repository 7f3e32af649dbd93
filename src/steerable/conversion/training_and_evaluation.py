"""Differences due to ``self.training``: the network's graphs in training and in evaluation, compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import fx

__all__ = ["ModesDiffer", "compare_modes"]


class ModesDiffer(Exception):
    """Evaluation makes a call that training does not make; ``node`` is that call."""

    def __init__(self, node: fx.Node) -> None:
        super().__init__(node.name)
        self.node = node


def compare_modes(training: fx.Graph, evaluation: fx.Graph) -> tuple[tuple[fx.Node, fx.Node], ...]:
    """Mark in the graph of training what evaluation does not do, and which arguments are True in training only.

    Both come from the same code, so that the calls of evaluation are found in training in the same order, with others
    in between: those are made in training only. Where such a call stands among the arguments of one that both make, it
    must have no effect in evaluation; that is a claim, to be checked once it is known what the call does.

    Returns:
        The claims: a call that is made in training only, and the one whose result takes its place in evaluation.
    """
    comparison = _Comparison()
    rest = iter(training.nodes)
    for node in evaluation.nodes:
        for candidate in rest:
            if comparison.match(candidate, node):
                break
            candidate.meta["only_in_training"] = True
            comparison.extra.add(candidate)
        else:
            raise ModesDiffer(node)
    return tuple(comparison.claims)


class _Comparison:
    def __init__(self) -> None:
        self.of: dict[fx.Node, fx.Node] = {}  # from evaluation to training
        self.extra: set[fx.Node] = set()
        self.claims: list[tuple[fx.Node, fx.Node]] = []

    def match(self, training: fx.Node, evaluation: fx.Node) -> bool:
        if (training.op, training.target) != (evaluation.op, evaluation.target):
            return False
        ours, theirs = _arguments(training), _arguments(evaluation)
        if ours.keys() != theirs.keys():
            return False
        by_mode = {key for key in ours if ours[key] is True and theirs[key] is False}
        claims: list[tuple[fx.Node, fx.Node]] = []
        if not all(self._agree(ours[key], theirs[key], claims) for key in ours if key not in by_mode):
            return False
        training.meta["by_mode"] = frozenset(by_mode)
        self.of[evaluation] = training
        self.claims += claims
        return True

    def _agree(self, ours: object, theirs: object, claims: list[tuple[fx.Node, fx.Node]]) -> bool:
        if isinstance(ours, fx.Node) and isinstance(theirs, fx.Node):
            expected = self.of[theirs]
            if ours in self.extra:
                claims.append((ours, expected))
            return ours is expected or ours in self.extra
        if isinstance(ours, slice) and isinstance(theirs, slice):
            ours, theirs = (ours.start, ours.stop, ours.step), (theirs.start, theirs.stop, theirs.step)
        if isinstance(ours, Mapping) and isinstance(theirs, Mapping):
            ours, theirs = [*ours.items()], [*theirs.items()]
        if isinstance(ours, Sequence) and isinstance(theirs, Sequence) and not isinstance(ours, str):
            return len(ours) == len(theirs) and all(
                self._agree(a, b, claims) for a, b in zip(ours, theirs, strict=True)
            )
        return type(ours) is type(theirs) and bool(ours == theirs)


def _arguments(node: fx.Node) -> dict[int | str, object]:
    arguments: dict[int | str, object] = dict(enumerate(node.args))
    return arguments | dict(node.kwargs)
