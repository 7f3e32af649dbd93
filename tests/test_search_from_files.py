"""Search in pages that are opened from a folder: a small site with the theme and the script of the documentation."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest

pytest.importorskip("playwright", reason="playwright is not installed")
from mkdocs.commands.build import build
from mkdocs.config import load_config
from playwright.sync_api import expect, sync_playwright

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "tools"))  # modules that mkdocs loads from there as well

import search_script  # noqa: E402

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two pages with the theme, the script and the settings of the real ones."""
    folder = tmp_path_factory.mktemp("small-site")
    (folder / "docs" / "deeper").mkdir(parents=True)
    (folder / "docs" / "index.md").write_text("# First\n\nNothing of interest.\n")
    (folder / "docs" / "deeper" / "second.md").write_text("# Second\n\nA zebra of type `E`.\n")
    shutil.copytree(ROOT / "docs" / "javascripts", folder / "docs" / "javascripts")
    real = load_config(str(ROOT / "mkdocs.yml"))
    settings = {
        "site_name": "small",
        "use_directory_urls": real.use_directory_urls,
        "theme": {"name": real.theme.name, "font": real.theme["font"], "features": real.theme["features"]},
        "plugins": ["search"],
        "extra": {"polyfills": real.extra["polyfills"]},
    }
    (folder / "mkdocs.yml").write_text(json.dumps(settings))  # JSON is YAML
    config = load_config(str(folder / "mkdocs.yml"))
    build(config)
    search_script.write_search_script(folder / "site")
    return folder / "site"


def test_the_index_is_also_a_script(site: Path) -> None:
    index = (site / "search" / "search_index.json").read_text("utf-8")
    assert (site / "search" / "search_index.js").read_text("utf-8") == f"var __index = {index}"


@pytest.mark.skipif(CHROMIUM is None, reason="Chromium is not installed; `make browser` installs it")
def test_a_word_is_found_without_a_server(site: Path) -> None:
    asked: list[str] = []
    with sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.locator(".md-search__input").press_sequentially("zebra")
        expect(page.locator(".md-search-result__meta")).to_have_text("1 matching document", timeout=30_000)
        page.locator(".md-search-result__link").first.click()
        expect(page.locator("h1")).to_contain_text("Second")
        browser.close()
    assert [url for url in asked if not url.startswith(("file:", "data:", "about:"))] == []
