"""Templates escape what they print, print nothing that they were not given, and never switch that off."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from jinja2 import UndefinedError

import steerable
from steerable.pages.templates import Templates

NASTY = "<script>alert('x')</script> \" & {{ 7 * 7 }} {% raw %}"
FILES = sorted(Path(steerable.__file__).parent.glob("*/templates/*.html"))


def test_text_is_escaped_and_never_run_as_a_template() -> None:
    page = Templates("steerable.explorer").render("error.html", text=NASTY)
    assert "<script" not in page
    assert page.unescape().count(NASTY) == 1
    assert "49" not in page


def test_what_a_template_is_not_given_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="'text' is undefined"):
        Templates("steerable.explorer").render("note.html")


@pytest.mark.parametrize("path", FILES, ids=lambda path: f"{path.parts[-3]}/{path.name}")
def test_no_template_switches_escaping_off(path: Path) -> None:
    text = path.read_text("utf-8")
    assert not re.search(r"\|\s*safe\b|autoescape|Markup", text)
    # A value stands between tags or inside a quoted attribute: outside quotes, spaces would begin another attribute.
    assert not re.search(r"\w=\{\{", text)


def test_all_templates_are_looked_at() -> None:
    assert {path.parts[-3] for path in FILES} == {"explorer", "pages", "reporting"}
