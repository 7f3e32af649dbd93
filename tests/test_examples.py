"""The examples run and say what they promise."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent / "examples"


def run(name: str, *arguments: str) -> str:
    process = subprocess.run([sys.executable, EXAMPLES / name, *arguments], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr
    return process.stdout


def test_the_mixed_network_is_exactly_equivariant() -> None:
    assert "3*A1 → 10*A1: 6,768 parameters, exactly equivariant" in run("mixed_network.py")


def test_the_tour_prints_the_papers_numbers_and_draws(tmp_path: Path) -> None:
    text = run("tour.py", "--out", str(tmp_path))
    for number in ("4,448,374", "2,218,888", "9,140,614", "16,777,222", "9,077,620", "6,794,494"):
        assert number in text
    assert (tmp_path / "basis_filters.png").stat().st_size > 10_000


def test_the_demo_compares_two_networks(tmp_path: Path) -> None:
    text = run("demo.py", "--out", str(tmp_path / "demo"), "--epochs", "2")
    assert "all poses" in text
    runs = [json.loads((tmp_path / "demo" / name / "results.json").read_text()) for name in ("steerable", "plain")]
    assert [run["augmentation"] for run in runs] == ["none", "quarter turns and mirror images"]
    assert [run["epochs"] for run in runs] == [2, 6]
    assert (tmp_path / "demo" / "report.html").is_file()
    assert (tmp_path / "demo" / "poses.png").stat().st_size > 10_000


@pytest.mark.parametrize(("name", "table"), [("vector_field", "Mean distance"), ("cells", "intersection over union")])
def test_dense_predictions_are_compared_and_drawn(name: str, table: str, tmp_path: Path) -> None:
    text = run(f"{name}.py", "--quick", "--out", str(tmp_path))
    assert table in text
    (steerable,) = (line.split("│") for line in text.splitlines() if line.startswith("│ steerable"))
    assert steerable[3].strip() == steerable[4].strip() != ""  # the same in all poses
    assert (tmp_path / f"{name}.png").stat().st_size > 10_000


def test_the_tables_of_the_experiments_are_made_from_their_results() -> None:
    script = EXAMPLES.parent / "experiments" / "tables.py"
    process = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


def test_the_tables_of_the_speed_page_are_made_from_benchmarks() -> None:
    script = EXAMPLES.parent / "benchmarks" / "speed_page.py"
    process = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert process.returncode == 0, process.stderr


@pytest.mark.parametrize(
    "folder",
    sorted(path.parent for path in (EXAMPLES.parent / "experiments").glob("*/experiment.toml")),
    ids=lambda p: p.name,
)
def test_the_configs_of_the_experiments_can_be_read(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(folder.parent))
    from sweep import configurations

    assert configurations(tomllib.loads((folder / "experiment.toml").read_text()), None)
