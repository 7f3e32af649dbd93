"""The package's source as data: its modules, and what each of them imports."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path

import steerable

__all__ = ["Import", "Module", "is_module", "modules"]

SOURCE = Path(steerable.__file__).parent


@dataclass(frozen=True)
class Import:
    """``name`` is dotted, with ``steerable``; ``late``: it runs inside a function or for type checkers alone."""

    name: str
    late: bool


@dataclass(frozen=True)
class Module:
    """One file. ``name`` is dotted, without ``steerable``, and that of a package ends in ``__init__``."""

    name: str
    source: str

    @cached_property
    def tree(self) -> ast.Module:
        return ast.parse(self.source)

    def imports(self) -> Iterator[Import]:
        """Every import, of a module where a module is named, else of the module or package that has the name."""
        yield from self._below(self.tree, late=False)

    def _below(self, node: ast.AST, *, late: bool) -> Iterator[Import]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.Import):
                yield from (Import(alias.name, late) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                yield from (Import(name, late) for name in self._origins(child))
            else:
                later = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                later |= isinstance(child, ast.If) and "TYPE_CHECKING" in ast.unparse(child.test)
                yield from self._below(child, late=late or later)

    def _origins(self, statement: ast.ImportFrom) -> Iterator[str]:
        package = ["steerable", *self.name.split(".")[:-1]]
        base = package[: len(package) - statement.level + 1] if statement.level else []
        origin = ".".join([*base, *filter(None, [statement.module])])
        for alias in statement.names:
            name = f"{origin}.{alias.name}"
            yield name if is_module(name) else origin


@cache
def is_module(name: str) -> bool:
    """Whether a dotted name is that of a file or folder of the package."""
    parts = name.split(".")
    path = SOURCE.joinpath(*parts[1:])
    return parts[0] == "steerable" and (path.is_dir() or path.with_suffix(".py").is_file())


@cache
def modules() -> tuple[Module, ...]:
    """Every module of the package."""
    paths = sorted(SOURCE.rglob("*.py"))
    return tuple(Module(".".join(p.relative_to(SOURCE).with_suffix("").parts), p.read_text("utf-8")) for p in paths)
