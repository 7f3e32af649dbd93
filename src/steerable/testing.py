"""Is a network equivariant? The measurements that tests use; see :mod:`steerable.checking.equivariance`."""

from steerable.checking.equivariance import assert_equivariant, equivariance_error, equivariance_errors

__all__ = ["assert_equivariant", "equivariance_error", "equivariance_errors"]
