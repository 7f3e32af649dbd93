"""Names that are imported when they are first used, so that help texts and the mathematics work without torch."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any

__all__ = ["lazy_names", "public_names", "resolve"]


def resolve(home: str) -> Any:
    """The object that a text such as ``"fractions:Fraction"`` names: the module, and the name in it.

    >>> resolve("fractions:Fraction")
    <class 'fractions.Fraction'>
    """
    module, _, name = home.partition(":")
    return getattr(import_module(module), name)


def lazy_names(
    package: str, names: Mapping[str, Sequence[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` for a package some of whose names are imported when they are first used.

    Args:
        package: the package's own ``__name__``.
        names: those that each module has; those of the package itself are its modules.
    """
    homes = {name: module for module, found in names.items() for name in found}

    def find(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        home = homes[name]
        value = import_module(f"{package}.{name}") if home == package else resolve(f"{home}:{name}")
        setattr(sys.modules[package], name, value)
        return value

    return find, public_names(package)


def public_names(package: str) -> Callable[[], list[str]]:
    """``__dir__`` for a package: the names that it offers, without the files and helpers that it is made of."""
    return lambda: sorted(sys.modules[package].__all__)
