"""``steerable figures``: files on success, one message and exit code 2 on a mistake."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path


def figures(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "steerable.cli", "figures", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_the_command_writes_what_it_names(tmp_path: Path) -> None:
    run = figures("--out", str(tmp_path / "new"), "--group", "C8", "--format", " svg")
    assert run.returncode == 0, run.stderr
    written = [Path(line) for line in run.stdout.splitlines()]
    assert sorted(written) == sorted((tmp_path / "new").iterdir())
    assert {"irreps.svg", "steerable_filters.svg"} < {path.name for path in written}


def test_a_mistake_is_one_message(tmp_path: Path) -> None:
    run = figures("--out", str(tmp_path / "new"), "--group", "Z4")
    assert run.returncode == 2
    assert "there is no group called 'Z4'" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (tmp_path / "new").exists()
