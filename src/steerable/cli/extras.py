"""The packages that some commands need, and which extra installs each; needs none of them itself."""

from __future__ import annotations

import functools
import importlib.util
import sys
from collections.abc import Callable
from types import MappingProxyType

__all__ = ["EXTRAS", "or_missing_extra", "require"]

EXTRAS = MappingProxyType(
    {
        "gradio": "explorer",
        "huggingface_hub": "training",
        "lightning": "training",
        "matplotlib": "training",
        "numba": "fast",
        "onnx": "onnx",
        "onnxruntime": "onnx",
        "onnxscript": "onnx",
        "PIL": "training",
        "pooch": "training",
        "rich": "training",
        "safetensors": "training",
        "sklearn": "training",
        "tensorboard": "training",
        "torchmetrics": "training",
        "typer": "training",
    }
)
"""The extra that installs each package, by the name under which it is imported."""


def require(*packages: str) -> None:
    """ModuleNotFoundError for the first of these packages that is not installed, before anything long has begun."""
    for package in packages:
        if importlib.util.find_spec(package) is None:
            raise ModuleNotFoundError(f"No module named {package!r}", name=package)


def or_missing_extra(function: Callable[[], None]) -> Callable[[], None]:
    """The function, or where it misses a package one sentence that says what to install, and exit code 1."""

    @functools.wraps(function)
    def guarded() -> None:
        try:
            function()
        except ImportError as error:
            sys.stderr.write(f"error: {_sentence(error)}\n")
            raise SystemExit(1) from None

    return guarded


def _sentence(error: ImportError) -> str:
    package = (error.name or "").partition(".")[0]
    if not isinstance(error, ModuleNotFoundError) or package not in EXTRAS:
        return str(error)
    return (
        f"this needs the package `{package}`, which is not installed: install it with pip install "
        f"'steerable[{EXTRAS[package]}]'."
    )
