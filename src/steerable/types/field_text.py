"""The grammar of field types, ``14*(regular + qm) + 2*E``, and the place of a mistake in a text.

The grammar::

    sum    = term {"+" term}
    term   = {number "*"} (name | name "(" number ")" | name larger | "(" sum ")" | "act" "(" sum ")") | "0"
    larger = {"[" group {", " number} "]"}

``E3[D8]`` is what the type's own group sees of a larger group's capsule (:mod:`steerable.types.capsule_parts`).
e3nn's way of writing irreps of O(3) is understood as well: ``4x0e + 2x1o`` is ``4*L0e + 2*L1o``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import NoReturn

from steerable.algebra.capsules import Capsule
from steerable.algebra.group_interface import Group
from steerable.types.capsule_parts import capsules_seen

__all__ = ["parse_field_type"]

_TOKEN = re.compile(
    r"\s*(?:(?P<name>\d+[eo]\b|(?!x\d+[eo]\b)[^\W\d]\w*)|(?P<number>\d+)|(?P<symbol>[()+*x])"
    r"|(?P<larger>\[[^][]*\])|(?P<other>\S))"
)
_MAX_DEPTH = 50
_MAX_DIGITS = 9

Counted = list[tuple[int, Capsule]]


def parse_field_type(group: Group, text: str, lookup: Callable[[str], Capsule]) -> Counted:
    """(multiplicity, capsule) pairs in the order of the text; ValueError with a caret at the place that is wrong."""
    return _Parser(group, text, lookup).parse()


@dataclass(frozen=True)
class _Token:
    kind: str
    text: str
    start: int

    @property
    def is_times(self) -> bool:
        return self.kind == "symbol" and self.text in "*x"


class _Parser:
    def __init__(self, group: Group, text: str, lookup: Callable[[str], Capsule]) -> None:
        self.group, self.text, self.lookup = group, text, lookup
        self.tokens = [*self._tokenize(), _Token("end", "", len(text.rstrip()))]
        self.next = 0

    def parse(self) -> Counted:
        if self.tokens[0].kind == "end":
            self._fail(
                self.tokens[0], "the text is empty; write capsules such as `regular + 2*E`, or `0` for no channels"
            )
        result = self._sum(depth=0)
        if self._peek.kind != "end":
            self._fail(self._peek, f"expected `+` or the end, got `{self._peek.text}`")
        return result

    def _sum(self, depth: int) -> Counted:
        if depth > _MAX_DEPTH:
            self._fail(self._peek, f"more than {_MAX_DEPTH} nested parentheses")
        result = self._term(depth)
        while self._peek.text == "+":
            self._take()
            result += self._term(depth)
        return result

    def _term(self, depth: int) -> Counted:
        copies = 1
        while self._peek.kind == "number":
            token = self._take()
            if len(token.text) > _MAX_DIGITS:
                self._fail(token, f"a multiple has at most {_MAX_DIGITS} digits")
            if token.text == "0" and not self._peek.is_times:
                return []
            if not self._peek.is_times:
                self._fail(self._peek, f"expected `*` after the multiple {token.text}, as in `{token.text}*E`")
            self._take()
            copies *= int(token.text)
        token = self._take()
        if token.text == "(":
            inner = self._sum(depth + 1)
            self._expect(")", token)
        elif token.kind == "name" and token.text == "act" and self._peek.text == "(":
            inner = self._act(self._take(), depth)
        elif token.kind == "name":
            inner = [(1, capsule) for capsule in self._capsules(token, token.text + self._frequency())]
        elif token.text == "-":
            self._fail(token, "a multiple must be a whole number ≥ 0; types cannot be subtracted")
        else:
            self._fail(token, f"expected a capsule's name, a multiple or `(`, got {_quoted(token)}")
        return [(copies * n, capsule) for n, capsule in inner]

    def _act(self, opening: _Token, depth: int) -> Counted:
        inner = self._sum(depth + 1)
        self._expect(")", opening)
        return [(n, after) for n, capsule in inner for after in capsule.after_concatenation()]

    def _frequency(self) -> str:
        """The argument after a capsule's name: ``(3)``, as in ``regular(3)``, or nothing."""
        if self._peek.text != "(":
            return ""
        opening, number = self._take(), self._take()
        if number.kind != "number" or len(number.text) > _MAX_DIGITS:
            self._fail(number, f"expected a frequency, a whole number as in `regular(3)`, got {_quoted(number)}")
        self._expect(")", opening)
        return f"({int(number.text)})"

    def _capsules(self, token: _Token, name: str) -> list[Capsule]:
        larger: list[str] = []
        while self._peek.kind == "larger":
            larger.append(self._take().text)
        try:
            return capsules_seen(self.group, name, larger) if larger else [self.lookup(name)]
        except ValueError as error:
            self._fail(token, str(error).rstrip("."))

    def _expect(self, symbol: str, opening: _Token) -> None:
        token = self._take()
        if token.text != symbol:
            self._fail(token, f"expected `{symbol}` for the `(` at position {opening.start + 1}, got {_quoted(token)}")

    @property
    def _peek(self) -> _Token:
        return self.tokens[self.next]

    def _take(self) -> _Token:
        token = self.tokens[self.next]
        self.next = min(self.next + 1, len(self.tokens) - 1)
        return token

    def _tokenize(self) -> Iterator[_Token]:
        position = 0
        while match := _TOKEN.match(self.text, position):
            kind = str(match.lastgroup)
            yield _Token(kind, match.group(kind), match.start(kind))
            position = match.end()

    def _fail(self, token: _Token, reason: str) -> NoReturn:
        marked = self.text.replace("\n", " ").replace("\t", " ")
        raise ValueError(
            f"cannot read this field type of {self.group.name}: {reason}{'' if reason.endswith('?') else '.'}\n  "
            f"{marked}\n  {' ' * token.start}^"
        ) from None


def _quoted(token: _Token) -> str:
    return "the end" if token.kind == "end" else f"`{token.text}`"
