"""The three passes of a convolution, and the way in which each is carried out."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

__all__ = ["DENSE", "FOURIER", "Passes", "Way", "passes_from_text", "without_gradients"]

Way = Literal["dense", "padded", "turned", "fourier"]


class Passes(NamedTuple):
    """How a layer computes its output, and the gradients of its input and of its filters.

    - ``"dense"``: as torch does it, with the expanded filters.
    - ``"padded"``: as torch does it, with channels of zeros up to a multiple of eight. That of the forward pass holds
      for the gradients as well, which then are dense or turned.
    - ``"turned"``: the input gradient as a forward convolution with the filters turned by 180° and their two types
      exchanged; the weight gradient with input and output gradient exchanged.
    - ``"fourier"``: in the basis of irreps.
    """

    forward: Way = "dense"
    for_input: Way = "dense"
    for_weight: Way = "dense"

    def __str__(self) -> str:
        parts = (("input", self.for_input), ("weight", self.for_weight))
        usual = "fourier" if self.forward == "fourier" else "dense"
        return ", ".join([self.forward, *(f"{name} gradient {way}" for name, way in parts if way != usual)])

    def to_text(self) -> str:
        """``"forward/for_input/for_weight"``."""
        return "/".join(self)


DENSE = Passes()
FOURIER = Passes("fourier", "fourier", "fourier")


def without_gradients(forward: Way) -> Passes:
    """Of a forward pass that no gradients follow."""
    return FOURIER if forward == "fourier" else Passes(forward)


def passes_from_text(text: str) -> Passes | None:
    """What ``to_text`` was of; None where that is nothing known."""
    known = get_args(Way)
    ways = [known[known.index(part)] for part in text.split("/") if part in known]
    return Passes(*ways) if len(ways) == 3 and "/".join(ways) == text else None
