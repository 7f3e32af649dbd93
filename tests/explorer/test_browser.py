"""The explorer in a real browser: each tab is used as a person would use it, and a screenshot of it is written.

The browser is the system's Chromium. `make browser` installs it; without it these tests are skipped.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
pytest.importorskip("gradio", reason="gradio is not installed")
from playwright.sync_api import Browser, Page, expect, sync_playwright  # noqa: E402 - after the skip

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
if CHROMIUM is None:
    pytest.skip("Chromium is not installed; `make browser` installs it (as root on Debian)", allow_module_level=True)

expect.set_options(timeout=30_000)  # milliseconds; the machine may be busy with other tests
SCREENSHOTS = Path(__file__).parents[2] / os.environ.get("OUT", "out") / "explorer"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as driver:
        # Its own sandbox needs rights that a container does not have; the page is ours.
        chromium = driver.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, address: str) -> Iterator[Page]:
    """The page; at the end it must have asked nobody but the server, and met no error."""
    found = browser.new_page(viewport={"width": 1280, "height": 900})
    found.set_default_timeout(30_000)
    asked: list[str] = []
    errors: list[str] = []
    found.on("request", lambda request: asked.append(request.url))
    found.on("pageerror", lambda error: errors.append(str(error)))
    found.on("console", lambda message: errors.append(message.text) if message.type == "error" else None)
    found.goto(address)
    yield found
    expect(found.locator(".toast-body")).to_have_count(0)  # Gradio's own messages: something was not foreseen
    found.close()
    elsewhere = [url for url in asked if not url.startswith((f"{address}/", "data:", "blob:", "about:"))]
    assert asked
    assert elsewhere == []
    assert errors == []


def open_tab(page: Page, name: str) -> None:
    page.get_by_role("tab", name=name, exact=True).click()


def choose(page: Page, control: str, option: str) -> None:
    page.locator(f"{control} input").click()
    page.get_by_role("option", name=option, exact=True).click()


def photograph(page: Page, name: str) -> None:
    """Write a screenshot of the whole page; it must show something."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    path = SCREENSHOTS / f"{name}.png"
    page.screenshot(path=path, full_page=True)
    with Image.open(path) as image:
        pixels = np.asarray(image.convert("RGB").resize((256, 256))).reshape(-1, 3)
    assert len(np.unique(pixels, axis=0)) > 200
    assert pixels.std() > 10


def test_the_group_tab(page: Page) -> None:
    open_tab(page, "Group")
    shown = page.locator("#group-page")
    expect(shown).to_contain_text("D4: 8 elements, not abelian")
    page.locator("#group-choice").get_by_text("C4", exact=True).click()
    expect(shown).to_contain_text("C4: 4 elements, abelian")
    expect(shown).to_contain_text("dim 2, complex type")
    page.locator("#group-choice").get_by_text("D4", exact=True).click()
    expect(shown).to_contain_text("{e mr2}")
    expect(shown.locator(".st-products tbody tr")).to_have_count(8)
    expect(shown.get_by_alt_text("the boat under mr3")).to_be_visible()
    photograph(page, "group")


def test_the_filters_tab(page: Page) -> None:
    open_tab(page, "Filters")
    shown = page.locator("#filters-page")
    expect(shown).to_contain_text("2 equivariant 3×3 filters from A1 to E")
    choose(page, "#filters-source", "qm")
    expect(shown).to_contain_text("9 equivariant 3×3 filters from qm to E")
    expect(shown).to_contain_text("= 72 / 8 = 9")
    page.locator("#filters-number input[type=number]").fill("4")
    expect(page.get_by_alt_text("filter 4 in every pose")).to_be_visible()
    choose(page, "#filters-group", "C4")
    expect(shown).to_contain_text("4 equivariant 3×3 filters from A to E")
    expect(page.get_by_alt_text("filter 4 in every pose")).to_be_visible()
    page.locator("#filters-size input[type=number]").fill("2")
    expect(shown).to_contain_text("2 equivariant 2×2 filters from A to E")
    expect(page.get_by_alt_text("filter 2 in every pose")).to_be_visible()  # there is no fourth any more
    choose(page, "#filters-group", "D4")
    expect(shown).to_contain_text("1 equivariant 2×2 filter from A1 to E")
    page.locator("#filters-size input[type=number]").fill("3")
    expect(shown).to_contain_text("2 equivariant 3×3 filters from A1 to E")
    shown.get_by_text("Table 1 of the paper").click()
    expect(page.get_by_alt_text("the basis filters of a patch, by irrep")).to_be_visible()
    photograph(page, "filters")


def test_the_cost_tab(page: Page) -> None:
    open_tab(page, "Cost")
    shown = page.locator("#cost-page")
    expect(shown).to_contain_text("270Σ sᵢ dᵢ nᵢ mᵢ over the irreps, 5.33 times fewer")
    source = page.locator("#cost-source").get_by_role("textbox")
    source.fill("2*(regular + qmr4)<img src=x>${1+1}")
    expect(shown.get_by_role("alert")).to_contain_text("Did you mean `qmr`")
    message = shown.locator("pre").inner_text().splitlines()
    assert message[1][message[2].index("^") :].startswith("qmr4)<img src=x>${1+1}")  # as typed, and nothing runs
    photograph(page, "cost_mistake")
    source.fill("2*(regular + qmr3)")
    expect(shown).to_contain_text("24 → 8")
    choose(page, "#cost-example", "regular to regular")
    expect(shown).to_contain_text("128 → 128")
    expect(shown).to_contain_text("18,432")
    photograph(page, "cost")


def test_the_steer_tab(page: Page, tmp_path: Path) -> None:
    open_tab(page, "Steer")
    shown = page.locator("#steer-page")
    expect(shown).to_contain_text("the features are steered")
    expect(shown).to_contain_text("they are not steered")
    page.locator("#steer-element").get_by_text("mr", exact=True).click()
    expect(shown.get_by_alt_text("π(mr) f", exact=True)).to_be_visible()
    photograph(page, "steer")
    before = shown.get_by_alt_text("f", exact=True).get_attribute("src")
    Image.fromarray(np.random.default_rng(0).integers(0, 256, (50, 70, 3), dtype=np.uint8)).save(tmp_path / "noise.png")
    page.locator("#steer-upload input[type=file]").set_input_files(tmp_path / "noise.png")
    expect(shown.get_by_alt_text("f", exact=True)).not_to_have_attribute("src", before or "")
    expect(shown).to_contain_text("the features are steered")
    choose(page, "#steer-group", "C2")
    expect(shown.get_by_alt_text("π(r) f", exact=True)).to_be_visible()
    expect(shown).to_contain_text("the features are steered")


def test_the_model_tab(page: Page, runs: Path) -> None:
    shutil.copytree(runs / "steerable", runs / "later")  # a run that ended after the server was started
    try:
        open_tab(page, "Model")
        choose(page, "#model-run", "later")
        page.get_by_role("button", name="Load", exact=True).click()
        expect(page.locator("#model-page")).to_contain_text("later: ResNet")
    finally:
        shutil.rmtree(runs / "later")
    shown = page.locator("#model-page")
    load = page.get_by_role("button", name="Load", exact=True)
    run = page.locator("#model-run input")
    run.fill("/etc")
    load.click()
    expect(shown.get_by_role("alert")).to_contain_text("is not below the folder that the explorer was started for")
    run.fill("steerable")
    run.press("Enter")
    load.click()
    expect(shown).to_contain_text("steerable: ResNet, 11,030 parameters, 8×8 images, 10 classes")
    expect(shown.locator("tbody tr")).to_have_count(8)
    report = shown.locator("iframe")
    report.scroll_into_view_if_needed()
    expect(page.frame_locator("#model-page iframe").get_by_role("heading", name="Costs")).to_be_visible()
    photograph(page, "model")
