"""Imports go downwards only, and the mathematics does not import torch."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import steerable

SOURCE = Path(steerable.__file__).parent

# The layers, base first; modules of one layer may import each other. A new module is added here, at its place.
LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "atomic", "extras", "lazy", "locks", "pages"),
    ("algebra.metrics",),
    ("algebra.groups",),
    ("algebra.generation",),
    ("algebra.families",),
    ("algebra.homomorphisms",),
    ("algebra.representations",),
    ("algebra.characters",),
    ("algebra.intertwiners",),
    ("algebra.recognition",),
    ("algebra.irreps",),
    ("algebra.capsules",),
    ("algebra",),
    ("filters",),
    ("types.field_text",),
    ("types.field_types",),
    ("types.restriction",),
    ("types.network_plans",),
    ("types",),
    ("",),  # steerable/__init__.py: the mathematics under one roof
    ("transforms",),
    ("nn",),
    ("testing", "checking"),
    ("type_checking",),
    ("conversion",),
    ("models",),
    ("figures",),
    ("data",),
    ("training",),
    ("reporting",),
    ("cli", "explorer"),
)
RANK = {module: rank for rank, layer in enumerate(LAYERS) for module in layer}
FIRST_WITH_TORCH = RANK["transforms"]


def place(module: str) -> str | None:
    """The entry of LAYERS that a module belongs to: its own, or that of the package it lies in."""
    parts = module.split(".") if module else [""]
    found = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((name for name in found if name in RANK), None)


# A group offers its irreps and capsules, a representation its type: accessors that import when they are asked.
UPWARD_ACCESSORS = {
    ("algebra.groups", "algebra.irreps"),
    ("algebra.groups", "algebra.representations"),
    ("algebra.groups", "algebra.capsules"),
    ("algebra.representations", "algebra.characters"),
}


def imports(module: str, source: str, *, is_package: bool) -> Iterator[tuple[str, bool]]:
    """(dotted name, inside a function?) of every import but those for type checkers alone."""
    here = ["steerable", *filter(None, module.split("."))]
    package = here if is_package else here[:-1]

    def walk(node: ast.AST, lazy: bool) -> Iterator[tuple[str, bool]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
                for branch in child.orelse:
                    yield from walk(ast.Module([branch], []), lazy)
            elif isinstance(child, ast.Import):
                yield from ((alias.name, lazy) for alias in child.names)
            elif isinstance(child, ast.ImportFrom):
                base = package[: len(package) - child.level + 1] if child.level else []
                origin = ".".join([*base, *filter(None, [child.module])])
                for alias in child.names:
                    names_module = origin == "steerable" and (alias.name in RANK or _exists(alias.name))
                    yield (f"{origin}.{alias.name}" if names_module else origin), lazy
            else:
                function = isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda)
                yield from walk(child, lazy or function)

    yield from walk(ast.parse(source), False)


def _exists(name: str) -> bool:
    return (SOURCE / f"{name}.py").exists() or (SOURCE / name).is_dir()


def violations(module: str, source: str, *, is_package: bool = False) -> list[str]:
    """What a module of the package may not import; ``module`` is dotted, without ``steerable``, "" for its root."""
    top = place(module)
    if top is None:
        return [f"{module} is in no layer; add it to LAYERS"]
    found = []
    for name, lazy in imports(module, source, is_package=is_package):
        if name.split(".")[0] == "torch" and RANK[top] < FIRST_WITH_TORCH:
            found.append(f"{module} imports {name}")
        if name.split(".")[0] != "steerable":
            continue
        target = place(name.removeprefix("steerable").removeprefix("."))
        if target is None:
            found.append(f"{module} imports {name.split('.')[1]}, which is in no layer")
        elif RANK[target] > RANK[top] and not (lazy and ((top, target) in UPWARD_ACCESSORS or top == "")):
            found.append(f"{module} imports {target} upwards")
    return found


def _modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


@pytest.mark.parametrize(("module", "path"), _modules(), ids=lambda value: value if isinstance(value, str) else "")
def test_imports_go_downwards(module: str, path: Path) -> None:
    assert violations(module, path.read_text("utf-8"), is_package=path.name == "__init__.py") == []


def test_every_accessor_in_the_list_is_there() -> None:
    used = {
        (module, name.removeprefix("steerable."))
        for module, path in _modules()
        if module and RANK[place(module) or ""] < FIRST_WITH_TORCH
        for name, lazy in imports(module, path.read_text("utf-8"), is_package=False)
        if lazy and name.startswith("steerable.") and RANK[place(name[10:]) or ""] > RANK[place(module) or ""]
    }
    assert used == UPWARD_ACCESSORS


def test_every_module_of_the_mathematics_exists() -> None:
    assert [m for m, rank in RANK.items() if m and rank < FIRST_WITH_TORCH and not _exists(m.replace(".", "/"))] == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        (
            "algebra.groups",
            "from steerable.types.field_types import FieldType",
            "algebra.groups imports types.field_types upwards",
        ),
        ("algebra.groups", "import steerable.types.field_types", "algebra.groups imports types.field_types upwards"),
        ("algebra.groups", "from . import irreps", "algebra.groups imports algebra upwards"),
        ("algebra.groups", "from .irreps import Irrep", "algebra.groups imports algebra.irreps upwards"),
        ("algebra.groups", "from steerable import cyclic", "algebra.groups imports  upwards"),
        (
            "algebra.groups",
            "def f():\n    from steerable.types.field_types import FieldType",
            "algebra.groups imports types.field_types upwards",
        ),
        (
            "algebra.groups",
            "from steerable.algebra.irreps import Irrep",
            "algebra.groups imports algebra.irreps upwards",
        ),
        (
            "algebra.groups",
            "class A:\n    from steerable.algebra.irreps import Irrep",
            "algebra.groups imports algebra.irreps upwards",
        ),
        ("algebra.groups", "if True:\n    import torch.nn", "algebra.groups imports torch.nn"),
        ("types.network_plans", "def f():\n    from torch import nn", "types.network_plans imports torch"),
        ("", "import torch", " imports torch"),
        ("", "from steerable import nn", " imports nn upwards"),
        ("nn.conv", "from ..models import resnet", "nn.conv imports models upwards"),
        ("models.resnet", "from steerable.training import fit", "models.resnet imports training upwards"),
        ("surprise", "", "surprise is in no layer; add it to LAYERS"),
        ("nn.conv", "from steerable.surprise import x", "nn.conv imports surprise, which is in no layer"),
    ],
)
def test_this_test_can_fail(module: str, source: str, complaint: str) -> None:
    assert violations(module, source) == [complaint]


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("types.field_types", "from steerable.algebra.groups import FiniteGroup"),
        ("algebra.groups", "def f():\n    from steerable.algebra.irreps import Irrep"),
        ("algebra.groups", "if TYPE_CHECKING:\n    from steerable.types.field_types import FieldType"),
        ("", "def __getattr__(name):\n    from steerable import nn"),
        ("nn.conv", "import torch\nimport steerable as st\nfrom steerable.nn.base import Layer\nfrom . import base"),
    ],
)
def test_and_can_pass(module: str, source: str) -> None:
    assert violations(module, source) == []


def test_importing_the_package_is_light() -> None:
    """``import steerable`` and building a field type need neither torch nor matplotlib nor scipy."""
    code = (
        "import sys, steerable as st; st.parameter_cost(*2 * [st.FieldType(st.dihedral(4), 'regular + E')]); "
        "print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


def test_everything_exported_is_there() -> None:
    assert sorted(steerable.__all__) == list(dict.fromkeys(sorted(steerable.__all__)))
    assert [name for name in steerable.__all__ if not hasattr(steerable, name)] == []
