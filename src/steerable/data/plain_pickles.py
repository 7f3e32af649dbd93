"""Arrays of bytes from a pickle, read without running any code in it.

A pickle can run any code. The unpickler here knows plain containers, text, bytes and numbers, and the names by which
arrays are pickled; it keeps their pieces as data, and calls nothing that the file names.
"""

from __future__ import annotations

import io
import pickle
from typing import Any

import numpy as np
import numpy.typing as npt

__all__ = ["PickledArray", "read_pickle"]


def read_pickle(raw: bytes) -> Any:
    """The contents of a pickle, with a :class:`PickledArray` for each array, and bytes for the text of Python 2."""
    return _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()


class _PlainUnpickler(pickle.Unpickler):
    """Knows the names by which arrays are pickled, and answers them with collectors in place of numpy's own code."""

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) in (("numpy.core.multiarray", "_reconstruct"), ("numpy._core.multiarray", "_reconstruct")):
            return PickledArray
        if (module, name) == ("numpy", "ndarray"):
            return None
        if (module, name) == ("numpy", "dtype"):
            return _TypePieces
        if (module, name) == ("_codecs", "encode"):
            return _latin1
        raise pickle.UnpicklingError(f"it asks for `{module}.{name}`, which image data do not need")


class PickledArray:
    """The arguments of an array's ``__setstate__``: (version, shape, dtype, whether in Fortran order, bytes)."""

    def __init__(self, *ignored: object) -> None:
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: tuple[Any, ...]) -> None:
        self.state = state

    def bytes_of_rows(self, columns: int) -> npt.NDArray[np.uint8]:
        """The array, if its numbers are bytes and its shape is (n, columns)."""
        _, shape, dtype, fortran, raw = self.state
        if not isinstance(dtype, _TypePieces) or dtype.code not in ("u1", b"u1") or shape[1:] != (columns,):
            raise pickle.UnpicklingError(f"`data` is not an array of bytes (n, {columns})")
        return np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


class _TypePieces:
    """The parts of a dtype; for bytes its code is enough."""

    def __init__(self, code: object, *ignored: object) -> None:
        self.code = code

    def __setstate__(self, state: object) -> None:
        pass


def _latin1(text: str, encoding: str) -> bytes:
    """The bytes that Python 3 has written as text, as it does in old protocols."""
    return text.encode("latin1")
