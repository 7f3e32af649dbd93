"""The report's pictures of mistakes: each with its class, the answer, and how sure the network was."""

from __future__ import annotations

import re
from typing import Any

from steerable.reporting.markup import Html, count, join, percent, tag
from steerable.reporting.run_records import RunRecord

__all__ = ["gallery"]

LARGEST = 48
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


def gallery(run: RunRecord) -> Html:
    """A run's worst mistakes as pictures inside the page, at most 48."""
    found = run.mistakes.get("worst")
    worst = [item for item in found if isinstance(item, dict)] if isinstance(found, list) else []
    total = run.mistakes.get("count", len(worst))
    if not worst:
        return tag("p", "No mistakes.", class_="quiet")
    shown = worst[:LARGEST]
    number = f"{count(total)} mistakes" if total != 1 else "1 mistake"
    heading = f"{number}, the {len(shown)} surest shown" if total > len(shown) else number
    return join([tag("p", heading, class_="quiet"), tag("ul", *map(_picture, shown), class_="gallery")])


def _picture(mistake: dict[str, Any]) -> Html:
    true, predicted = str(mistake.get("true", "?")), str(mistake.get("predicted", "?"))
    text = f"{true} taken for {predicted}"
    png = str(mistake.get("png", ""))
    # Only what is base64 goes into the address.
    source = f"data:image/png;base64,{png}" if _BASE64.fullmatch(png) else None
    file = mistake.get("file")
    return tag(
        "li",
        tag("img", src=source, alt=text, title=file, loading="lazy"),
        tag("b", true),
        f" taken for {predicted}, {percent(mistake.get('probability'), 0)}",
    )
