"""Checks that a model is equivariant: measured as a whole, or by following types through it, operation by operation."""

from steerable.checking.places import EquivarianceError
from steerable.checking.typechecking import typecheck
from steerable.checking.typed_tensors import TypedTensor, typed
from steerable.lazy import public_names

__dir__ = public_names(__name__)

__all__ = ["EquivarianceError", "TypedTensor", "typecheck", "typed"]
