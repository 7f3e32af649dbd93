"""A griffe extension: docstrings of this library as Markdown, for the reference pages.

The docstrings have doctests between their paragraphs, formulas such as [π(g)f](x), and a few Sphinx roles. In Markdown
the first would become quotations, the second links, and the third would stand there raw.
"""

from __future__ import annotations

import re
from typing import Any

import griffe

__all__ = ["DocstringStyle", "as_markdown"]

_COMMONPLACE = ("__eq__", "__hash__", "__iter__", "__len__", "__post_init__", "__repr__", "__rmul__", "__str__")
_FORMULA_OR_CODE = re.compile(r"(`+).+?\1|\](?=\()")
_ROLE = re.compile(r":(?:func|class|meth|mod|attr):`~?([^`]+)`")


class DocstringStyle(griffe.Extension):
    """Rewrites every docstring when its module has been read, and leaves out methods that say nothing new."""

    def on_class_members(self, *, cls: griffe.Class, **kwargs: Any) -> None:
        for name in _COMMONPLACE:
            cls.members.pop(name, None)

    def on_object(self, *, obj: griffe.Object, **kwargs: Any) -> None:
        if obj.docstring is not None:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(docstring: str) -> str:
    r"""Doctests in fences, roles as code, brackets of formulas escaped.

    >>> print(as_markdown("See :func:`~steerable.typed`: [π(g)f](x)."))
    See `typed`: [π(g)f\](x).
    """
    text = _ROLE.sub(lambda match: f"`{match[1].rsplit('.', maxsplit=1)[-1]}`", docstring)
    lines: list[str] = []
    fence: str | None = None
    for line in text.split("\n"):
        stripped = line.lstrip()
        if fence is None and stripped.startswith(">>>"):
            fence = line[: len(line) - len(stripped)]
            lines.append(f"{fence}```pycon")
        elif fence is not None and not stripped:
            lines.append(f"{fence}```")
            fence = None
        lines.append(line if fence is not None else _FORMULA_OR_CODE.sub(_escaped, line))
    return "\n".join(lines if fence is None else [*lines, f"{fence}```"])


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[1] else f"\\{match[0]}"
