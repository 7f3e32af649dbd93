"""Small faults that can be put into a Python file, one at a time: what ``mutate.py`` runs the tests against.

A mutation replaces one stretch of the source, so that its diff is as small as the fault. Left alone is whatever no test
should notice: docstrings, texts of messages, annotations, ``__all__``, ``__repr__`` and the like, decorators, and
guards that only narrow a type (``raise RuntimeError``).
"""

from __future__ import annotations

import ast
import copy
import difflib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Add,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
OPPOSITES = {"min": "max", "amin": "amax", "any": "all", "floor": "ceil", "argmin": "argmax", "minimum": "maximum"}
OPPOSITES |= {b: a for a, b in OPPOSITES.items()}

# Functions whose result is read by people.
_TEXT_FUNCTIONS = {"__repr__", "__str__", "extra_repr"}
# Functions whose first two arguments may change places, or must not.
_ANY_ORDER = {"min", "max", "minimum", "maximum", "gcd", "array_equal", "allclose", "isinstance", "issubclass"}
# Keyword arguments that change nothing unless something else is wrong already.
_IDLE_KEYWORDS = {("zip", "strict"), ("lru_cache", "maxsize")}


@dataclass(frozen=True)
class Mutation:
    """One fault: the bytes from ``start`` to ``end`` of a file become ``after``."""

    path: Path
    line: int
    kind: str
    start: int
    end: int
    before: str
    after: str

    @property
    def key(self) -> tuple[str, str, str, str]:
        """What stays the same when lines above it are added or removed."""
        return str(self.path), self.kind, self.before, self.after

    def applied(self, source: bytes) -> bytes:
        return source[: self.start] + self.after.encode() + source[self.end :]

    def diff(self, source: bytes) -> str:
        old, new = (text.decode().splitlines(keepends=True) for text in (source, self.applied(source)))
        return "".join(difflib.unified_diff(old, new, f"a/{self.path}", f"b/{self.path}", n=2))


def mutations(path: Path, source: bytes) -> list[Mutation]:
    """All faults that can be put into a file and still compile, in the order of the source."""
    tree = ast.parse(source)
    offsets = [0]
    for line in source.splitlines(keepends=True):
        offsets.append(offsets[-1] + len(line))
    found, original = [], ast.dump(tree)
    for node, kind, after in _faults(tree):
        start = offsets[node.lineno - 1] + node.col_offset
        end = offsets[(node.end_lineno or node.lineno) - 1] + (node.end_col_offset or 0)
        mutation = Mutation(path, node.lineno, kind, start, end, source[start:end].decode(), after)
        try:
            changed = ast.parse(mutation.applied(source))
        except SyntaxError:
            continue
        if ast.dump(changed) != original:
            found.append(mutation)
    return sorted(set(found), key=lambda m: (m.start, m.end, m.kind, m.after))


Fault = tuple[ast.stmt | ast.expr, str, str]


def _faults(node: ast.AST) -> Iterator[Fault]:
    if _is_left_alone(node):
        return
    if isinstance(node, ast.stmt):
        yield from _statement_faults(node)
    elif isinstance(node, ast.expr):
        yield from _expression_faults(node)
    for child in _children(node):
        yield from _faults(child)


def _children(node: ast.AST) -> Iterator[ast.AST]:
    """The parts of a node in which faults are looked for."""
    skipped = {"annotation", "returns", "decorator_list", "bases", "type_params"}
    if isinstance(node, ast.Raise):
        return
    if isinstance(node, ast.Call) and _name(node.func) in ("isinstance", "issubclass"):
        yield from node.args[:1]  # in the second, `|` makes a union of types
        return
    for field, value in ast.iter_fields(node):
        if field not in skipped:
            yield from (v for v in (value if isinstance(value, list) else [value]) if isinstance(v, ast.AST))


def _is_left_alone(node: ast.AST) -> bool:
    if isinstance(node, ast.Import | ast.ImportFrom | ast.JoinedStr):
        return True
    if isinstance(node, ast.FunctionDef):
        return node.name in _TEXT_FUNCTIONS
    if isinstance(node, ast.Assign):
        alias = isinstance(node.value, ast.Subscript) and isinstance(node.targets[0], ast.Name) and node.col_offset == 0
        return alias or any(_name(target) == "__all__" for target in node.targets)
    if isinstance(node, ast.If):
        return _name(node.test) == "TYPE_CHECKING" or _raises(node.body, "RuntimeError")
    return isinstance(node, ast.Call) and ast.unparse(node.func) in ("warnings.warn", "TypeVar", "ParamSpec")


def _statement_faults(node: ast.stmt) -> Iterator[Fault]:
    if isinstance(node, ast.Raise):
        yield node, "raise removed", "pass"
    elif isinstance(node, ast.If) and isinstance(node.body[0], ast.Raise | ast.Return | ast.Continue | ast.Break):
        yield node.test, "guard removed", "False"
    elif isinstance(node, ast.If):
        yield node.test, "branch never taken", "False"
        yield node.test, "branch always taken", "True"
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        if "super().__init__" not in ast.unparse(node.value):  # nothing works without it
            yield node, "statement removed", "pass"
    elif isinstance(node, ast.AugAssign):
        yield node, "statement removed", "pass"
        yield from _operator_faults(node)
    elif isinstance(node, ast.Assign) and not isinstance(node.targets[0], ast.Name | ast.Tuple):
        yield node, "statement removed", "pass"


def _expression_faults(node: ast.expr) -> Iterator[Fault]:
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        changed = copy.deepcopy(node)
        changed.ops = [COMPARISONS[type(node.ops[0])]()]
        yield node, "comparison", f"({ast.unparse(changed)})"
    elif isinstance(node, ast.BoolOp):
        other = copy.deepcopy(node)
        other.op = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield node, "and/or", f"({ast.unparse(other)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield node, "not removed", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield node, "sign", f"({ast.unparse(node.operand)})"
    elif isinstance(node, ast.IfExp):
        swapped = ast.IfExp(node.test, node.orelse, node.body)
        yield node, "branches swapped", f"({ast.unparse(swapped)})"
    elif isinstance(node, ast.BinOp):
        yield from _operator_faults(node)
    elif isinstance(node, ast.Constant):
        yield from _constant_faults(node)
    elif isinstance(node, ast.Call):
        yield from _call_faults(node)
    elif isinstance(node, ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp):
        for generator in node.generators:
            yield from ((test, "filter removed", "True") for test in generator.ifs)


def _operator_faults(node: ast.BinOp | ast.AugAssign) -> Iterator[Fault]:
    other = ARITHMETIC.get(type(node.op))
    if other is None or (isinstance(node, ast.BinOp) and any(_is_text(side) for side in (node.left, node.right))):
        return
    changed = copy.deepcopy(node)
    changed.op = other()
    text = ast.unparse(changed)
    yield node, "arithmetic", f"({text})" if isinstance(node, ast.BinOp) else text


def _constant_faults(node: ast.Constant) -> Iterator[Fault]:
    value = node.value
    if isinstance(value, bool):
        yield node, "True/False", str(not value)
    elif isinstance(value, int):
        yield node, "constant", f"{value + 1}"
        yield node, "constant", f"({value - 1})"
    elif isinstance(value, float):
        yield node, "constant", repr(value * 1000 if 0 < abs(value) < 1e-3 else value + 1)


def _call_faults(node: ast.Call) -> Iterator[Fault]:
    name = _name(node.func)
    if name in OPPOSITES:
        other = copy.deepcopy(node)
        if isinstance(other.func, ast.Name):
            other.func.id = OPPOSITES[name]
        elif isinstance(other.func, ast.Attribute):
            other.func.attr = OPPOSITES[name]
        yield node, "opposite function", ast.unparse(other)
    for k, keyword in enumerate(node.keywords):
        if keyword.arg is not None and (name, keyword.arg) not in _IDLE_KEYWORDS:
            without = copy.deepcopy(node)
            del without.keywords[k]
            yield node, "keyword dropped", ast.unparse(without)
    # Values that have names are what people mistake for each other.
    first = [arg for arg in node.args[:2] if isinstance(arg, ast.Name | ast.Attribute | ast.Subscript)]
    if len(first) == 2 and ast.dump(first[0]) != ast.dump(first[1]) and name not in _ANY_ORDER:
        swapped = copy.deepcopy(node)
        swapped.args[:2] = swapped.args[1::-1]
        yield node, "arguments swapped", ast.unparse(swapped)


def _name(node: ast.expr) -> str:
    """The last part of a dotted name."""
    return node.id if isinstance(node, ast.Name) else node.attr if isinstance(node, ast.Attribute) else ""


def _is_text(node: ast.expr) -> bool:
    return isinstance(node, ast.JoinedStr) or (isinstance(node, ast.Constant) and isinstance(node.value, str))


def _raises(body: list[ast.stmt], error: str) -> bool:
    first = body[0]
    return isinstance(first, ast.Raise) and isinstance(first.exc, ast.Call) and _name(first.exc.func) == error
