"""The names of :mod:`steerable.checking`, where they were before it."""

from steerable.checking import EquivarianceError, TypedTensor, typecheck, typed

__all__ = ["EquivarianceError", "TypedTensor", "typecheck", "typed"]
