"""The documentation names only commands, options, targets and files that exist; made pages say what they are made from.

That the site builds without a warning is checked by ``make docs``.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import typer
from PIL import Image

from steerable.cli.commands import app
from steerable.training.choosing.fitting import ENOUGH
from steerable.training.requests.config import FEW_LABELS, HELD_OUT, OWN_IMAGES
from steerable.training.requests.recipes import load_recipe

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "docs" / "tools"))  # modules that mkdocs loads from there as well

import command_page  # noqa: E402
import docstring_style  # noqa: E402
import drawn_figures  # noqa: E402
import site_checks  # noqa: E402

PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMANDS = typer.main.get_command(app).commands  # type: ignore[attr-defined]


def shown(page: Path, word: str) -> Iterator[list[str]]:
    """Command lines of a page that begin with a word: lines of code blocks, and inline code."""
    text = page.read_text("utf-8")
    fenced = re.findall(r"^ *```\w*\n(.*?)^ *```", text, flags=re.DOTALL | re.MULTILINE)
    lines = [part.strip() for block in fenced for line in block.splitlines() for part in line.split(";")]
    lines += re.findall(r"`([^`\n]+)`", text)
    for line in lines:
        if line.startswith(f"{word} "):
            yield shlex.split(line, comments=True)


def ids(path: Path) -> str:
    return str(path.relative_to(ROOT))


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_command_shown_exists_with_its_options(page: Path) -> None:
    for _, name, *arguments in shown(page, "steerable"):
        if name == "COMMAND" or name.startswith("--"):
            continue
        assert name in COMMANDS, f"there is no command `steerable {name}`"
        known = {text for p in COMMANDS[name].params for text in (*p.opts, *p.secondary_opts)} | {"--help"}
        options = {a.partition("=")[0] for a in arguments if re.match(r"--?[a-z]", a)}
        assert options <= known, f"`steerable {name}` has no {options - known}"


@pytest.mark.parametrize("page", PAGES, ids=ids)
def test_every_make_target_and_file_shown_exists(page: Path) -> None:
    targets = set(re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text("utf-8"), flags=re.MULTILINE))
    for _, target, *_ in shown(page, "make"):
        assert target in targets, f"there is no target `make {target}`"
    for path in re.findall(r"\b(?:examples|benchmarks|experiments|tests|docs)/[\w/]+\.\w+", page.read_text("utf-8")):
        assert (ROOT / path).exists(), f"there is no file {path}"


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CONTRIBUTING.md", ROOT / "experiments" / "README.md"], ids=ids)
def test_links_and_pictures_are_found_where_the_page_lies(page: Path) -> None:
    text = re.sub(r"^ *```.*?^ *```|`[^`\n]+`", "", page.read_text("utf-8"), flags=re.DOTALL | re.MULTILINE)
    addresses = re.findall(r"(?<!\\)\]\(([^)#\s]+)[^)]*\)", text) + re.findall(r"src=\"([^\"]+)\"", text)
    local = [address for address in addresses if "://" not in address]
    assert [address for address in local if not (page.parent / address).exists()] == []


def test_the_figures_of_the_pages_are_those_that_the_library_draws(tmp_path: Path) -> None:
    drawn_figures.write(tmp_path)
    assert {path.name for path in drawn_figures.FOLDER.iterdir()} == {path.name for path in tmp_path.iterdir()}
    for path in tmp_path.iterdir():
        new, kept = (
            np.asarray(Image.open(folder / path.name).convert("RGB").reduce(8), dtype=float)
            for folder in (tmp_path, drawn_figures.FOLDER)
        )
        # Other versions of matplotlib and numpy may draw an edge otherwise, but not a whole square.
        assert new.shape == kept.shape
        assert abs(new - kept).max() < 40, f"{path.name} has changed; `make figures` draws it anew"


def test_every_file_that_the_map_of_the_code_names_exists() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text("utf-8")
    rooms = sorted(path.name for path in (ROOT / "src" / "steerable").iterdir() if path.is_dir())
    named = re.findall(rf"`((?:{'|'.join(rooms)})/[\w/.]*)`", text)
    assert len(named) > 20
    assert [name for name in named if not (ROOT / "src" / "steerable" / name).exists()] == []
    assert [name for name in re.findall(r"`(tests/[\w/.]+)`", text) if not (ROOT / name).exists()] == []
    told = re.findall(rf"`(\w+)`(?: and `(\w+)`)? (?:in|of)\s`((?:{'|'.join(rooms)})/[\w/]+\.py)`", text)
    assert len(told) > 5
    for *names, file in told:
        source = (ROOT / "src" / "steerable" / file).read_text("utf-8")
        assert [name for name in names if name not in source] == [], f"{file} does not have them"
    missing = [name for name in rooms if name != "__pycache__" and f"`{name}/`" not in text]
    assert missing == [], "rooms that the map does not show"


@pytest.mark.parametrize(
    ("paragraph", "source"),
    [
        ("Few labels", "experiments/equal_time/README.md"),
        ("Fewer parameters", "experiments/README.md"),
        ("Speed", "docs/speed.md"),
    ],
)
def test_the_figures_of_the_readme_are_those_of_the_page_that_it_cites(paragraph: str, source: str) -> None:
    text = (ROOT / "README.md").read_text("utf-8")
    found = re.search(rf"\*\*{paragraph}\.\*\*(.*?)\n\n", text, flags=re.DOTALL)
    assert found is not None
    measured = re.findall(r"\d+\.\d+", (ROOT / source).read_text("utf-8"))
    figures = re.findall(r"\d+\.\d+(?= (?:%|times\b|s\b))", found[1])
    figures = [figure for figure in figures if figure != "7.5"]  # that is 68.5 / 9.1 million
    assert len(figures) > 2
    for figure in figures:
        digits = len(figure.partition(".")[2])
        assert figure in {f"{float(number):.{digits}f}" for number in measured}, f"{source} has no {figure}"


def test_every_command_is_shown_somewhere_outside_the_reference() -> None:
    seen = {name for page in PAGES for _, name, *_ in shown(page, "steerable")}
    assert seen >= set(COMMANDS), set(COMMANDS) - seen


def test_the_page_on_own_images_says_the_defaults() -> None:
    text = " ".join((ROOT / "docs" / "tutorials" / "own-images.md").read_text("utf-8").split())
    assert f"{OWN_IMAGES['parameters']:,} parameters" in text
    assert f"{OWN_IMAGES['minutes']:g} minutes" in text
    assert f"{100 * HELD_OUT:g} % of the training images" in text
    assert f"classes have fewer than {FEW_LABELS} images on average" in text
    assert f"fallen for {OWN_IMAGES['patience']} of {load_recipe(OWN_IMAGES['recipe']).epochs} epochs" in text
    assert f"at least {ENOUGH[0][0]} epochs is chosen" in text


def test_the_command_reference_has_arguments_options_and_defaults() -> None:
    example = typer.Typer()

    @example.command()
    def bake(
        cake: str = typer.Argument(help="Which one."),
        times: int = typer.Option(2, "--times", "-t", help="How often | at least."),
        gently: bool = typer.Option(False, help="With care."),
    ) -> None:
        """Bake a cake."""

    @example.command()
    def eat() -> None:
        """Eat it."""

    text = command_page.command_reference(example)
    assert "## bake\n\nBake a cake.\n\n```text\nsteerable bake CAKE [OPTIONS]\n```" in text
    assert "| `CAKE` | Which one. Required. |" in text
    assert "| `--times`, `-t` | How often \\| at least. Default: `2`. |" in text
    assert "| `--gently`, `--no-gently` | With care. |" in text
    assert "## eat" in text


def test_doctests_of_docstrings_become_code_blocks() -> None:
    text = docstring_style.as_markdown("Adds [f](x).\n\n    >>> 1 + 1\n    2\n\nMore, see :class:`~a.b.C`.\n\n>>> 3\n3")
    assert text == (
        "Adds [f\\](x).\n\n    ```pycon\n    >>> 1 + 1\n    2\n    ```\n\nMore, see `C`.\n\n```pycon\n>>> 3\n3\n```"
    )


def test_a_page_that_needs_the_network_is_noticed() -> None:
    fetched = '<link rel="stylesheet" href="https://fonts.example/css"><img alt="" src="https://example.org/a.png">'
    assert len(site_checks.external_resources(fetched)) == 2
    followed = (
        '<a href="https://example.org">x</a><img src="../a.png"><link rel="canonical" href="https://example.org">'
    )
    assert site_checks.external_resources(followed) == []


def test_a_public_name_without_a_page_is_noticed() -> None:
    everything = {f"steerable.testing.{name}" for name in ("assert_equivariant", "equivariance_errors")}
    assert site_checks.undocumented(everything, ["steerable.testing"]) == ["steerable.testing.equivariance_error"]
