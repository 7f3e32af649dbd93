"""Kernels that numba compiles for CPUs, each with a plain counterpart elsewhere; imported only if they are used."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["HAS_NUMBA"]

HAS_NUMBA = find_spec("numba") is not None
"""Whether numba is installed, as it is by ``pip install 'steerable[fast]'``."""
