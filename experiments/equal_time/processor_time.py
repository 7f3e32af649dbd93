"""Run a program with clocks that count the seconds that the processor spends on it.

    python experiments/equal_time/processor_time.py steerable train FOLDER …
    python experiments/equal_time/processor_time.py plain_network.py FOLDER …

What else the machine is busy with then changes how long the program takes, and not what it can do in its minutes.
"""

from __future__ import annotations

import runpy
import sys
import time


def main() -> None:
    time.monotonic = time.perf_counter = time.process_time  # before anything imports them by name
    sys.argv = sys.argv[1:]
    if sys.argv[0] == "steerable":
        runpy.run_module("steerable.cli", run_name="__main__")
    else:
        runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    main()
