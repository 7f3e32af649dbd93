"""The three passes of a convolution, and the backend that computes each."""

from __future__ import annotations

from typing import NamedTuple

__all__ = ["DENSE", "Choice", "Passes"]


class Passes(NamedTuple):
    """The names of the backends that compute a layer's output, and the gradients of its input and of its filters."""

    forward: str = "dense"
    for_input: str = "dense"
    for_weight: str = "dense"

    @staticmethod
    def all_by(name: str) -> Passes:
        """All three passes by one backend."""
        return Passes(name, name, name)

    def to_text(self) -> str:
        """``"forward/for_input/for_weight"``."""
        return "/".join(self)


DENSE = Passes()


class Choice(NamedTuple):
    """The final choice of how a layer is computed.

    Attributes:
        passes: the passes of a step.
        alone: the backend of a forward pass that no gradients follow.
    """

    passes: Passes
    alone: str
