"""Measurements of equivariance for tests; see :mod:`steerable.checking.equivariance`."""

from steerable.checking.equivariance import assert_equivariant, equivariance_error, equivariance_errors
from steerable.lazy import public_names

__dir__ = public_names(__name__)

__all__ = ["assert_equivariant", "equivariance_error", "equivariance_errors"]
