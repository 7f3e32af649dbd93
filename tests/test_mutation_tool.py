"""The tool that puts faults into the library: on a toy project it finds what it should, and leaves the tree alone."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parent / "tools" / "mutate.py"

SOURCE = '''\
"""A docstring with 1 and True."""

import warnings
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["Box", "clipped", "λ"]


def clipped(value: int | float, *, low: int = 0, high: int = 10) -> int | float:
    """Between low and high."""
    if low > high:
        raise ValueError(f"{low + 1} is larger than {high}")
    return min(max(value, low), high)


def λ(values: "Sequence[int]") -> int:
    if values is None:
        raise RuntimeError("cannot be")
    total = 0
    for value in values:
        total += value
    return clipped(total, high=100) if len(values) > 2 and all(values) else -1


def warned(flag: bool) -> bool:
    warnings.warn("3 is odd", stacklevel=2)
    return not flag


class Box:
    def __repr__(self) -> str:
        return "Box" + str(1 + 1)
'''

TESTS = """\
import pytest
from toy import clipped


def test_inside():
    assert clipped(5) == 5
    assert clipped(-5) == 0
    assert clipped(50) == 10
    assert clipped(7, low=6, high=6) == 6
    assert clipped(-1, low=-1) == -1


def test_outside():
    with pytest.raises(ValueError, match="1 is larger than -1"):
        clipped(3, low=0, high=-1)
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "tests").mkdir()
    (tmp_path / "src" / "toy.py").write_text(SOURCE, "utf-8")
    (tmp_path / "tests" / "test_toy.py").write_text(TESTS, "utf-8")
    return tmp_path


def run(project: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOL), "src/toy.py", "--root", str(project), *arguments]
    plain = os.environ | {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # so that many short runs do not take long
    return subprocess.run(command, capture_output=True, text=True, check=False, env=plain)


def test_faults_are_put_where_tests_could_notice_them(project: Path) -> None:
    listed = run(project, "--list").stdout.splitlines()
    assert [line for line in listed if "toy.py:14 " in line] == [
        "src/toy.py:14  comparison: 'low > high' becomes '(low >= high)'",
        "src/toy.py:14  guard removed: 'low > high' becomes 'False'",
    ]
    kinds = {line.split("  ")[1].split(":")[0] for line in listed}
    assert kinds == {
        "and/or",
        "arithmetic",
        "branches swapped",
        "comparison",
        "constant",
        "guard removed",
        "keyword dropped",
        "not removed",
        "opposite function",
        "raise removed",
        "sign",
        "statement removed",
    }
    untouched = {1, 7, 9, 21, 30, 36}  # docstring, imports, __all__, a RuntimeError, a warning's text, __repr__
    lines = SOURCE.splitlines()
    for line in listed:
        number = int(line.split(":")[1].split()[0])
        assert number not in untouched or "removed" in line, (line, lines[number - 1])


def test_a_sample_depends_on_the_seed_alone(project: Path) -> None:
    draws = [run(project, "--list", "--sample", "5", "--seed", seed).stdout for seed in ("0", "0", "1")]
    assert len(draws[0].splitlines()) == 5
    assert draws[0] == draws[1] != draws[2]


def test_tests_kill_what_they_cover_and_survivors_are_reported(project: Path) -> None:
    record = project / "out" / "record.json"
    result = run(project, "--jobs", "2", "--json", str(record), "--sample", "9", "--seed", "3")
    assert result.returncode == 1, result.stderr
    found = json.loads(record.read_text("utf-8"))
    by_line = {True: set(), False: set()}
    for mutant in found["mutants"]:
        by_line[mutant["line"] <= 16].add(mutant["outcome"])
    assert by_line[True] == {"killed"}
    assert by_line[False] == {"survived"}
    killed = sum(mutant["outcome"] == "killed" for mutant in found["mutants"])
    assert found["score"] == pytest.approx(killed / 9, abs=1e-4)
    assert f"{killed} of 9 noticed" in result.stdout
    assert "--- a/src/toy.py\n+++ b/src/toy.py\n" in result.stdout
    assert (project / "src" / "toy.py").read_text("utf-8") == SOURCE

    # A better test, and lines that moved: only the survivors are tried again, and the record is brought up to date.
    (project / "src" / "toy.py").write_text(SOURCE.replace("import warnings\n", "import warnings\n\n"), "utf-8")
    (project / "tests" / "test_toy.py").write_text(
        "def test_nothing_holds():\n    from toy import λ\n" + CHECKS, "utf-8"
    )
    again = run(project, "--again", str(record), "--json", str(record))
    assert len(json.loads(record.read_text("utf-8"))["mutants"]) == 9
    assert json.loads(record.read_text("utf-8"))["score"] > found["score"], again.stdout


CHECKS = """\
    assert [λ(v) for v in ([1, 2, 3], [1, 2], [1, 0, 3], [60, 60, 60], [1, 2, 3, 4])] == [6, -1, -1, 100, 10]
    import warnings, toy
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        assert toy.warned(False) and not toy.warned(True)
    assert len(caught) == 2
"""


def test_a_test_that_fails_without_a_fault_is_named(project: Path) -> None:
    (project / "tests" / "test_toy.py").write_text("def test_it():\n    assert False\n", "utf-8")
    result = run(project, "--sample", "1")
    assert result.returncode != 0
    assert "pytest tests/test_toy.py fails without a fault (status 1)" in result.stderr


def test_a_module_that_is_imported_from_elsewhere_is_refused(project: Path) -> None:
    (project / "src" / "toy.py").rename(project / "src" / "json.py")
    command = [sys.executable, str(TOOL), "src/json.py", "--root", str(project), "--sample", "1", "--tests", "tests"]
    (project / "src" / "json.py").write_text("import sys\nsys.modules[__name__] = sys\nx = 1\n", "utf-8")
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    assert result.returncode != 0
    assert "json is not imported from the copy" in result.stderr
