"""What mkdocs runs while it builds: pages that are made, not written, and a look at every page.

A page that has one source elsewhere in the repository (experiments, contributing, changes, the command line) is made
from it here, so that it cannot be out of date.
"""

from __future__ import annotations

import logging
import posixpath
import re
from pathlib import Path

from command_page import command_reference
from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page
from search_script import write_search_script
from site_checks import anchors, external_resources, undocumented

from steerable.cli.commands import app

__all__ = [
    "links_to_made_pages",
    "on_files",
    "on_page_markdown",
    "on_post_build",
    "on_post_page",
    "without_local_links",
]

ROOT = Path(__file__).resolve().parents[2]
COPIED = {
    "experiments.md": "experiments/README.md",
    "contributing.md": "CONTRIBUTING.md",
    "changelog.md": "CHANGELOG.md",
}
COMMANDS = "<!-- commands -->"

_LINK = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#)[^)]+\)")

log = logging.getLogger("mkdocs.hooks.steerable")
_described: set[str] = set()


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages that have their source elsewhere."""
    for name, source in COPIED.items():
        files.append(File.generated(config, name, content=without_local_links((ROOT / source).read_text("utf-8"))))
    return files


def on_page_markdown(markdown: str, page: Page, **kwargs: object) -> str:
    """Fill in the reference of the command line, and lead links to the pages that are made."""
    markdown = links_to_made_pages(markdown, page.file.src_uri)
    if COMMANDS not in markdown:
        if page.file.src_uri.startswith("api/"):
            page.meta["search"] = {"boost": 0.5}  # a search finds what pages explain before what docstrings mention
        return markdown
    return markdown.replace(COMMANDS, command_reference(app))


def on_post_page(output: str, **kwargs: object) -> str:
    """Warn, and so fail, where a page would fetch something from the network."""
    for resource in external_resources(output):
        log.warning("a page fetches something from the network: %s", resource)
    _described.update(anchors(output))
    return output


def on_post_build(config: MkDocsConfig, **kwargs: object) -> None:
    """Write the search index as a script, for pages opened from a folder; warn where a public name is on no page."""
    write_search_script(Path(config.site_dir))
    for name in undocumented(_described):
        log.warning("%s is public, but no page of docs/api describes it", name)
    _described.clear()


def links_to_made_pages(markdown: str, page: str) -> str:
    """Links to a source in the repository, such as CONTRIBUTING.md, as links to the page that is made from it.

    A page is then right in the repository and in the site.

    >>> links_to_made_pages("see [this](../../CONTRIBUTING.md#tests) and [that](dense.md)", "tutorials/extending.md")
    'see [this](../contributing.md#tests) and [that](dense.md)'
    """
    folder = posixpath.dirname(page)
    for name, source in COPIED.items():
        address = posixpath.relpath(source, posixpath.join("docs", folder))
        markdown = markdown.replace(f"]({address}", f"]({posixpath.relpath(name, folder or '.')}")
    return markdown


def without_local_links(markdown: str) -> str:
    """Links to files of the repository, which is not part of the site, as plain text.

    >>> without_local_links("see [the licence](LICENSE) and [this](https://example.org)")
    'see the licence and [this](https://example.org)'
    """
    return _LINK.sub(r"\1", markdown)
