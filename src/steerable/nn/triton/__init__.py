"""Triton kernels, each an operator of torch's with a plain counterpart elsewhere; imported only if CUDA is used."""

from __future__ import annotations

from importlib.util import find_spec

__all__ = ["HAS_TRITON"]

HAS_TRITON = find_spec("triton") is not None
"""Whether Triton is installed, as it is with torch's CUDA builds for Linux."""
