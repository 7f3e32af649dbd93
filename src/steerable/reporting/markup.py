"""HTML that is escaped by construction: text becomes markup only by passing through :func:`tag`."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

__all__ = ["Html", "count", "decimal", "details", "join", "page", "percent", "small", "table", "tag"]

_MISSING = "–"


class Html(str):
    """Text that is markup already; every other string is escaped when it is put into a tag."""

    __slots__ = ()


def _as_html(child: object) -> str:
    return child if isinstance(child, Html) else html.escape(str(child))


def tag(name: str, *children: object, **attributes: object) -> Html:
    """An element; ``class_`` and the like lose their underscore, and attributes that are None are left out.

    >>> tag("p", "a < b", tag("b", "!"), class_="note")
    '<p class="note">a &lt; b<b>!</b></p>'
    """
    given = {key.rstrip("_").replace("_", "-"): value for key, value in attributes.items() if value is not None}
    start = "".join(f' {key}="{html.escape(str(value))}"' for key, value in given.items())
    if name == "img":  # the one element here that has no inside
        return Html(f"<{name}{start}>")
    return Html(f"<{name}{start}>{''.join(map(_as_html, children))}</{name}>")


def join(parts: Iterable[object], separator: str = "\n") -> Html:
    """Several pieces one after the other."""
    return Html(html.escape(separator).join(map(_as_html, parts)))


def table(
    heads: Sequence[object], rows: Iterable[Sequence[object]], *, class_: str | None = None, numbers: Sequence[int] = ()
) -> Html:
    """A table in a box that scrolls by itself where it is too wide; columns in ``numbers`` are set flush right.

    A cell that is a ``<td>`` or ``<th>`` already is taken as it is.
    """

    def cell(name: str, column: int, value: object) -> Html:
        if isinstance(value, Html) and value.startswith((f"<{name} ", f"<{name}>")):
            return value
        return tag(name, value, class_="number" if column in numbers else None)

    top = tag("thead", tag("tr", *(cell("th", i, head) for i, head in enumerate(heads)))) if heads else Html()
    body = join(tag("tr", *(cell("td", i, value) for i, value in enumerate(row))) for row in rows)
    return tag("div", tag("table", top, tag("tbody", body), class_=class_), class_="wide")


def details(summary: object, *children: object) -> Html:
    """A part that opens when its summary is clicked."""
    return tag("details", tag("summary", summary), *children)


def page(title: str, *sections: object) -> Html:
    """A whole document that loads nothing from anywhere; the policy in its head holds the browser to that."""
    head = join(
        [
            Html('<meta charset="utf-8">'),
            Html('<meta name="viewport" content="width=device-width, initial-scale=1">'),
            Html(
                '<meta http-equiv="Content-Security-Policy" '
                "content=\"default-src 'none'; style-src 'unsafe-inline'; img-src data:\">"
            ),
            tag("title", title),
            tag("style", Html(_STYLE)),
        ]
    )
    document = tag("html", tag("head", head), tag("body", tag("main", join(sections))), lang="en")
    return Html(f"<!DOCTYPE html>\n{document}\n")


def percent(share: float | None, digits: int = 2) -> str:
    return _MISSING if share is None else f"{share:.{digits}%}"


def count(number: float | None) -> str:
    return _MISSING if number is None else f"{number:,}"


def decimal(number: float | None) -> str:
    """Two digits after the point, or two that count where that would be nothing."""
    return _MISSING if number is None else f"{number:,.2f}" if abs(number) >= 0.1 else f"{number:.2g}"


def small(number: float | None) -> str:
    return _MISSING if number is None else f"{number:.1e}" if number else "0"


_STYLE = """
:root { color-scheme: light dark; --text: #1f2430; --quiet: #667085; --line: #e1e4ea; --back: #fff; --box: #f6f7f9;
  --accent: #2f6fd0; --warn: #9a5b00; --warn-back: #fff5e0; }
@media (prefers-color-scheme: dark) { :root { --text: #e4e7ec; --quiet: #98a2b3; --line: #323845; --back: #14171d;
  --box: #1c2029; --accent: #79a9f5; --warn: #f3c26b; --warn-back: #332812; } }
* { box-sizing: border-box }
body { margin: 0; background: var(--back); color: var(--text);
  font: 15px/1.55 system-ui, "Segoe UI", Roboto, sans-serif }
main { max-width: 1080px; margin: 0 auto; padding: 2.5rem 1.5rem 4rem }
h1 { font-size: 1.8rem; line-height: 1.2; margin: 0 0 .4rem; letter-spacing: -.01em }
h2 { font-size: 1.25rem; margin: 2.8rem 0 .6rem; padding-top: .9rem; border-top: 1px solid var(--line) }
h3 { font-size: 1rem; margin: 1.6rem 0 .4rem; overflow-wrap: anywhere }
p { max-width: 46rem; margin: .4rem 0 .9rem } .quiet { color: var(--quiet) }
.note { background: var(--warn-back); color: var(--warn); padding: .5rem .8rem; border-radius: 6px;
  overflow-wrap: anywhere }
.wide { overflow-x: auto; margin: .6rem 0 }
table { border-collapse: collapse; font-size: .9rem; font-variant-numeric: tabular-nums }
th { text-align: left; font-weight: 600; color: var(--quiet); vertical-align: bottom }
th, td { padding: .35rem .8rem .35rem 0; border-bottom: 1px solid var(--line); vertical-align: top }
td:last-child, th:last-child { padding-right: 0 } .number { text-align: right; white-space: nowrap }
td.type { max-width: 22rem; font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .8rem }
td.best { font-weight: 700; color: var(--accent) } tr.total td { font-weight: 600; border-bottom: 0 }
td.model { min-width: 12rem; color: var(--quiet) } td.named { min-width: 8rem } th.number { white-space: normal }
.swatch { display: inline-block; width: .7em; height: .7em; border-radius: 2px; margin-right: .45em }
.run { font-weight: 600; overflow-wrap: anywhere }
.legend { display: flex; flex-wrap: wrap; gap: .2rem 1.3rem; margin: .3rem 0 0; padding: 0; list-style: none;
  font-size: .9rem }
figure { margin: .8rem 0 } figcaption { color: var(--quiet); font-size: .88rem; max-width: 46rem; margin-top: .3rem }
svg { display: block; max-width: 100%; height: auto } svg * { stroke-linejoin: round; stroke-linecap: butt }
svg text { font-family: system-ui, "Segoe UI", Roboto, sans-serif !important }
.confusion { font-size: .82rem } .confusion th { font-weight: 500 }
.confusion td, .confusion th { padding: .25rem .45rem; border: 0; text-align: right; max-width: 9rem;
  overflow: hidden; text-overflow: ellipsis; white-space: nowrap }
.confusion td.right { background: rgb(47 111 208 / calc(var(--share) * 55%)) }
.confusion td.wrong { background: rgb(217 95 33 / calc(var(--share) * 160%)) }
.confusion td.none { color: var(--line) }
.side { display: flex; flex-wrap: wrap; gap: 0 3rem; align-items: flex-start } .side > * { min-width: 0 }
ul.mistakes { padding-left: 1.1rem; font-size: .9rem; overflow-wrap: anywhere }
.gallery { display: flex; flex-wrap: wrap; gap: 1rem; margin: .6rem 0; padding: 0; list-style: none }
.gallery li { width: 112px; font-size: .8rem; line-height: 1.35; overflow-wrap: anywhere }
.gallery img { display: block; width: 112px; height: 112px; object-fit: contain; background: var(--box);
  border-radius: 4px; image-rendering: pixelated; margin-bottom: .3rem }
details { margin: .5rem 0 } summary { cursor: pointer; color: var(--accent); overflow-wrap: anywhere }
pre { background: var(--box); padding: .8rem 1rem; border-radius: 6px; overflow-x: auto; font-size: .8rem;
  white-space: pre-wrap; overflow-wrap: anywhere }
code { font-family: ui-monospace, Menlo, Consolas, monospace; font-size: .88em }
"""
