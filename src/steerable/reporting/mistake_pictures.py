"""Pictures of a run's mistakes: each with its class, the answer, and how sure the network was."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from steerable.reporting.run_records import RunRecord

__all__ = ["Gallery", "MistakePicture", "gallery"]

LARGEST = 48
_BASE64 = re.compile(r"[A-Za-z0-9+/]+={0,2}")


@dataclass(frozen=True)
class MistakePicture:
    """One mistake; ``png`` is base64, and empty where the file has something else in its place."""

    true: str
    predicted: str
    probability: float | None
    file: str | None
    png: str


@dataclass(frozen=True)
class Gallery:
    """How many mistakes there are, and the pictures of those that the network was surest of."""

    count: int
    pictures: tuple[MistakePicture, ...]


def gallery(run: RunRecord) -> Gallery:
    """A run's worst mistakes, at most 48."""
    worst = run.mistakes.get("worst") or []
    return Gallery(run.mistakes.get("count", len(worst)), tuple(map(_picture, worst[:LARGEST])))


def _picture(mistake: dict[str, Any]) -> MistakePicture:
    png = str(mistake.get("png", ""))
    return MistakePicture(
        str(mistake.get("true", "?")),
        str(mistake.get("predicted", "?")),
        mistake.get("probability"),
        mistake.get("file"),
        png if _BASE64.fullmatch(png) else "",  # only what is base64 goes into the image's address
    )
