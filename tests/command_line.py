"""The ``steerable`` command inside the test's own process: importing torch takes longer than most commands."""

from __future__ import annotations

import contextlib
import io
import sys
import warnings
from dataclasses import dataclass
from pathlib import Path

import pytest

from steerable.cli import main


@dataclass(frozen=True)
class Outcome:
    code: int
    stdout: str
    stderr: str


def steerable(*arguments: str, cwd: Path, code: int = 0) -> Outcome:
    """Run a command in a folder; its exit code is checked."""
    out, err = io.StringIO(), io.StringIO()
    with (
        contextlib.chdir(cwd),
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(err),
        warnings.catch_warnings(),
        pytest.MonkeyPatch.context() as patch,
    ):
        warnings.simplefilter("default")
        patch.setattr(sys, "argv", ["steerable", *arguments])
        with pytest.raises(SystemExit) as stopped:
            main()
    found = Outcome(int(stopped.value.code or 0), out.getvalue(), err.getvalue())
    assert found.code == code, found.stderr
    return found
