"""Files and functions are short, functions have few parameters, names are used once, Markdown fits a screen."""

from __future__ import annotations

import ast
import statistics
import subprocess
from collections import defaultdict
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from source_tree import Module, modules

ROOT = Path(__file__).parent.parent

MOST_PARAMETERS = 8
MOST_LINES = 60
MEDIAN_LINES = 150
WIDEST_LINE = 120

# A kernel takes its arguments flat. Files and folders whose names end so hold kernels and what starts them.
KERNEL_FILES = ("kernels", "numba", "triton")

Function = ast.FunctionDef | ast.AsyncFunctionDef


def functions(module: Module) -> Iterator[tuple[str, Function]]:
    """(dotted name, definition) of every function, also of those inside classes and functions."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, Function]]:
        for child in ast.iter_child_nodes(node):
            name = f"{prefix}.{child.name}" if isinstance(child, Function | ast.ClassDef) else prefix
            if isinstance(child, Function):
                yield name, child
            yield from below(child, name)

    yield from below(module.tree, module.name)


def parameters(function: Function) -> int:
    """How many parameters a function has, ``self`` and ``cls`` left out."""
    a = function.args
    named = [*a.posonlyargs, *a.args, *a.kwonlyargs, *filter(None, (a.vararg, a.kwarg))]
    return sum(argument.arg not in ("self", "cls") for argument in named)


def is_kernel(module: Module, function: Function) -> bool:
    """Whether a function is compiled for a device, or lies in a file or folder of such functions."""
    compilers = {ast.unparse(d).split("(")[0].split(".")[-1] for d in function.decorator_list}
    return bool(compilers & {"jit", "njit"}) or any(part.endswith(KERNEL_FILES) for part in module.name.split("."))


def with_many_parameters(files: Iterable[Module]) -> set[str]:
    return {
        name
        for module in files
        for name, function in functions(module)
        if parameters(function) > MOST_PARAMETERS and not is_kernel(module, function)
    }


def long_functions(files: Iterable[Module]) -> set[str]:
    return {
        name
        for module in files
        for name, function in functions(module)
        if (function.end_lineno or 0) - function.lineno + 1 > MOST_LINES
    }


def shared_class_names(files: Iterable[Module]) -> set[str]:
    """Names of classes in several files, unless all but one of them extend a class of that name."""
    homes: dict[str, list[tuple[str, bool]]] = defaultdict(list)
    for module in files:
        for node in ast.walk(module.tree):
            if isinstance(node, ast.ClassDef):
                extends = any(ast.unparse(base).split(".")[-1] == node.name for base in node.bases)
                homes[node.name].append((module.name, extends))
    return {
        f"{name}: {', '.join(sorted(module for module, _ in found))}"
        for name, found in homes.items()
        if sum(not extends for _, extends in found) > 1
    }


def is_wide(text: str) -> bool:
    return any(len(line) > WIDEST_LINE for line in text.splitlines())


def test_functions_have_few_parameters() -> None:
    assert with_many_parameters(modules()) == set()


def test_functions_are_short() -> None:
    assert long_functions(modules()) == set()


def test_files_are_short() -> None:
    assert statistics.median(len(module.source.splitlines()) for module in modules()) < MEDIAN_LINES


def test_no_two_classes_have_one_name() -> None:
    assert shared_class_names(modules()) == set()


def test_markdown_fits_a_screen() -> None:
    listed = subprocess.run(["git", "ls-files", "-z", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    paths = [path for path in listed.stdout.split("\0") if (ROOT / path).is_file()]
    assert {path for path in paths if is_wide((ROOT / path).read_text("utf-8"))} == set()


@pytest.mark.parametrize(
    ("name", "source", "found"),
    [
        ("nn.conv", "class A:\n    def f(self, a, b, c, d, e, f, g, h): ...", set()),
        ("nn.conv", "class A:\n    def f(self, a, b, c, d, e, f, g, h, i): ...", {"nn.conv.A.f"}),
        ("nn.conv", "def f(a, /, b, c, d, e, f, *g, h, **i): ...", {"nn.conv.f"}),
        ("nn.conv", "def f():\n    async def g(a, b, c, d, e, f, g, h, i): ...", {"nn.conv.f.g"}),
        ("nn.conv", "@triton.jit\ndef f(a, b, c, d, e, f, g, h, i): ...", set()),
        ("nn.conv", "@numba.njit(nogil=True)\ndef f(a, b, c, d, e, f, g, h, i): ...", set()),
        ("nn.conv", "@lru_cache\ndef f(a, b, c, d, e, f, g, h, i): ...", {"nn.conv.f"}),
        ("nn.kernels.norm", "def f(a, b, c, d, e, f, g, h, i): ...", set()),
        ("nn.fourier.numba_kernels", "def f(a, b, c, d, e, f, g, h, i): ...", set()),
    ],
)
def test_parameters_are_counted(name: str, source: str, found: set[str]) -> None:
    assert with_many_parameters([Module(name, source)]) == found


def test_lines_are_counted() -> None:
    source = "class A:\n    @cache\n    def f(self):\n" + "        self.a = 0\n" * (MOST_LINES - 1)
    assert long_functions([Module("nn.conv", source)]) == set()
    assert long_functions([Module("nn.conv", source + "        self.b = 0\n")]) == {"nn.conv.A.f"}


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        (("class A: ...", "class B: ...", "class A(first.A): ..."), set()),
        (("class A: ...", "class A(B): ..."), {"A: m0, m1"}),
        (("class A: ...\ndef f():\n    class A: ...",), {"A: m0, m0"}),
    ],
)
def test_shared_class_names_are_found(sources: tuple[str, ...], found: set[str]) -> None:
    assert shared_class_names(Module(f"m{i}", source) for i, source in enumerate(sources)) == found


def test_wide_lines_are_found() -> None:
    assert not is_wide("short\n" + "ü" * WIDEST_LINE + "\n")
    assert is_wide("short\n" + "x" * (WIDEST_LINE + 1))
