"""The ``steerable`` command, one file for each group of commands.

``commands`` puts them together. It needs packages that come with extras, so ``main`` imports it only when the command
is run, and says which extra to install if one of them is missing. Heavy imports (torch, Lightning) happen inside the
commands that need them, so that help and tables appear at once.
"""

import atexit
import gc
import os
import sys

from steerable.extras import EXTRAS, missing

__all__ = ["main"]


def main() -> None:
    """Run the command; a user's mistake is one line and exit code 2, a missing package one line and exit code 1."""
    # Torch's threads wait for each other several times in each operation. By default a waiting thread keeps its core
    # busy for long, and next to other programs that may be the core that the thread it waits for needs. Going to sleep
    # at once would be slower when the cores are free. The library reads this once, when torch is loaded.
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    # When a program ends, Python looks for garbage among all that torch has made, which takes a second, or many on a
    # busy machine. The system frees it at once.
    atexit.register(gc.freeze)
    try:
        from steerable.cli.commands import run

        run()
    except ImportError as error:
        package = (error.name or "").partition(".")[0]  # set by Python itself, not by `missing`
        sys.stderr.write(f"error: {missing(package) if package in EXTRAS else error}\n")
        raise SystemExit(1) from None
