"""The search index as a script: a page that is opened from a folder may load scripts, but no JSON."""

from __future__ import annotations

from pathlib import Path

__all__ = ["write_search_script"]


def write_search_script(site: Path) -> None:
    """Write ``search_index.js`` beside the ``search_index.json`` of a built site; Material looks for this variable."""
    index = site / "search" / "search_index.json"
    index.with_suffix(".js").write_text(f"var __index = {index.read_text('utf-8')}", "utf-8")
