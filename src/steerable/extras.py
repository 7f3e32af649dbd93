"""The optional packages, the extra of this library that installs each, and the message if one is missing."""

from __future__ import annotations

import importlib.util
import sys
from types import MappingProxyType

__all__ = ["EXTRAS", "missing", "require"]

EXTRAS = MappingProxyType(
    {
        "gradio": "explorer",
        "huggingface_hub": "training",
        "jinja2": "training",
        "lightning": "training",
        "matplotlib": "training",
        "nibabel": "volumes",
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
        "tifffile": "volumes",
        "torchmetrics": "training",
        "typer": "training",
    }
)
"""The extra that installs each package, by the name under which it is imported."""


def missing(package: str, purpose: str = "this command", otherwise: str = "") -> ModuleNotFoundError:
    """The error to raise if one of these packages is not installed.

    Args:
        package: the name under which it is imported.
        purpose: what needs it.
        otherwise: what to do instead of installing it, if there is a way.

    >>> str(missing("PIL", "reading image files"))
    "reading image files needs the package `PIL`, which is not installed: pip install 'steerable[training]'."
    """
    remedy = f"pip install 'steerable[{EXTRAS[package]}]'" + (f", or {otherwise}" if otherwise else "")
    return ModuleNotFoundError(f"{purpose} needs the package `{package}`, which is not installed: {remedy}.")


def require(*packages: str, purpose: str = "this command", otherwise: str = "") -> None:
    """Raise the error of :func:`missing` for the first of these packages that is not installed.

    None of them is imported, so that a command can look for all that it will need before anything long has begun.
    """
    for package in packages:
        if not _is_installed(package):
            raise missing(package, purpose, otherwise)


def _is_installed(package: str) -> bool:
    if package in sys.modules:
        return sys.modules[package] is not None
    try:
        return importlib.util.find_spec(package) is not None
    except ModuleNotFoundError:  # a finder may say so by itself
        return False
