"""Whether a model is equivariant: measured as a whole, or by following types through it, operation by operation."""

from steerable.checking.places import EquivarianceError
from steerable.checking.typechecking import typecheck
from steerable.checking.typed_tensors import TypedTensor, typed

__all__ = ["EquivarianceError", "TypedTensor", "typecheck", "typed"]
