"""The three passes of a convolution, and the way in which each is carried out."""

from __future__ import annotations

from typing import Literal, NamedTuple, get_args

__all__ = ["DENSE", "FOURIER", "Forward", "Gradient", "Passes", "forward_only", "passes_from_text"]

Forward = Literal["dense", "padded", "fourier"]
Gradient = Literal["dense", "turned", "fourier"]


class Passes(NamedTuple):
    """How a layer computes its output, and the gradients of its input and of its filters.

    - ``"dense"``: as torch does it, with the expanded filters.
    - ``"padded"``: as torch does it, with channels of zeros up to a multiple of eight; for the gradients as well, which
      then are dense or turned.
    - ``"turned"``: the input gradient as a forward convolution with the filters turned by 180° and their two types
      exchanged; the weight gradient with input and output gradient exchanged.
    - ``"fourier"``: in the basis of irreps.
    """

    forward: Forward = "dense"
    for_input: Gradient = "dense"
    for_weight: Gradient = "dense"

    def in_words(self) -> str:
        """Such as ``"dense, input gradient turned"``: what is not said is as the forward pass."""
        usual = "fourier" if self.forward == "fourier" else "dense"
        parts = [usual, *(["channels padded"] if self.forward == "padded" else [])]
        gradients = (("input", self.for_input), ("weight", self.for_weight))
        return ", ".join([*parts, *(f"{name} gradient {way}" for name, way in gradients if way != usual)])

    def to_text(self) -> str:
        """``"forward/for_input/for_weight"``."""
        return "/".join(self)


DENSE = Passes()
FOURIER = Passes("fourier", "fourier", "fourier")


def forward_only(way: Forward) -> Passes:
    """Of a forward pass that no gradients follow."""
    return FOURIER if way == "fourier" else Passes(way)


def passes_from_text(text: str) -> Passes | None:
    """What ``to_text`` was of; None where there are no such passes."""
    parts = text.split("/")
    known = [get_args(Forward), get_args(Gradient), get_args(Gradient)]
    if len(parts) != 3 or any(part not in ways for part, ways in zip(parts, known, strict=True)):
        return None
    passes = Passes(*parts)  # type: ignore[arg-type]
    return None if passes.forward == "padded" and "fourier" in passes else passes
