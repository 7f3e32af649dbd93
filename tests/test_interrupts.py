"""Tests that interrupt a process work in the background of a script as well, where SIGINT is ignored."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

_SLEEPS = "import time; print('ready', flush=True); time.sleep(60)"
_IGNORES = "import os, signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv(sys.argv[1], sys.argv[1:])"


def test_a_process_that_a_test_starts_can_be_interrupted() -> None:
    with subprocess.Popen([sys.executable, "-c", _SLEEPS], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as child:
        try:
            assert child.stdout is not None
            assert child.stdout.readline() == b"ready\n"
            child.send_signal(signal.SIGINT)
            assert child.wait(timeout=20) == -signal.SIGINT
        finally:
            child.kill()


def test_also_where_the_tests_ignore_it_themselves() -> None:
    name = test_a_process_that_a_test_starts_can_be_interrupted.__name__
    pytest = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", f"{Path(__file__)}::{name}"]
    run = subprocess.run([sys.executable, "-c", _IGNORES, *pytest], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout
