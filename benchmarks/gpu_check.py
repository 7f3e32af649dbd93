"""On a GPU: every test that needs one, and the timings that docs/speed.md quotes, in about five minutes.

    python benchmarks/gpu_check.py --out out/gpu-check

A GPU that is lent by the minute mostly waits for compilers, so all of this runs side by side: the tests of a file are
dealt out to several processes, and they are halted whenever a benchmark takes its turn to measure. What ended well
leaves a mark in the folder and is not run again, so that a call that was cut off goes on with what is left.
Everyday networks in ordinary code are not among the timings, because Python's time depends on who else runs: that is
``benchmarks/everyday.py --ways eager``, alone.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from turns import somebody_measures

ROOT = Path(__file__).parents[1]
# Processes for each file, and a part of the names of its tests that need a GPU. A failed capture of a CUDA graph
# poisons what follows in its process, so no two files share one.
TESTS = {
    "nn/test_cuda": (3, ""),
    "nn/test_fourier_gpu": (1, ""),
    "nn/test_accelerated_call": (2, "cuda"),
    "nn/test_accelerate_gpu": (3, ""),
    "training/test_cuda_graphs": (2, ""),
    "data/test_batches": (1, ""),
}
NETWORK = ("--compile", "--mode", "reduce-overhead")


def pytest_collection_modifyitems(items: list[Any]) -> None:
    """As a plugin of pytest: the tests of one process, by the variable ``GPU_CHECK_SHARE``."""
    share, shares, part = os.environ["GPU_CHECK_SHARE"].split("/")
    items[:] = [item for item in items if part in item.name][int(share) :: int(shares)]


def mark(folder: Path, name: str) -> Path:
    """The file that says that a job ended well."""
    return folder / f"{name.replace('/', '-')}.done"


class Job:
    """A process whose lines are printed with its name in front.

    Args:
        name: the name; its mark is a file of this name.
        command: what the interpreter runs.
        folder: where marks are.
        share: which of the tests it runs.
    """

    def __init__(self, name: str, command: list[str], folder: Path, share: str = "") -> None:
        self.name, self.mark = name, mark(folder, name)
        paths = [str(ROOT / part) for part in ("src", "benchmarks")]
        environment = {
            **os.environ,
            "GPU_CHECK_SHARE": share,
            "PYTHONPATH": os.pathsep.join([*paths, os.environ.get("PYTHONPATH", "")]),
            "PYTHONUNBUFFERED": "1",
            "TORCHINDUCTOR_COMPILE_THREADS": "4",
        }
        self.process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    @property
    def ended(self) -> bool:
        return not self._reader.is_alive()

    def halt(self, halted: bool) -> None:
        """Halt the process, or let it go on."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGSTOP if halted else signal.SIGCONT)

    def _read(self) -> None:
        for line in self.process.stdout or ():
            if line.strip():
                print(f"{self.name}: {line.rstrip()}", flush=True)
        if self.process.wait() == 0:
            self.mark.touch()
        else:
            print(f"{self.name}: FAILED with exit status {self.process.returncode}", flush=True)


def test_commands() -> Iterator[tuple[str, list[str], str]]:
    """The name, the command and the share of each process that runs tests."""
    pytest = ["-m", "pytest", "-q", "--tb=short", "-p", "no:benchmark", "-p", "no:cacheprovider", "-p", "gpu_check"]
    for file, (shares, part) in TESTS.items():
        for share in range(shares):
            yield f"{file}-{share}", [*pytest, f"tests/{file}.py"], f"{share}/{shares}/{part}"


def benchmark_commands(folder: Path) -> Iterator[tuple[str, list[str], str]]:
    """The same for the benchmarks: the paper's network in two precisions, then everyday networks."""
    for name, options in (("network-graphs", ()), ("network-graphs-tf32", ("--tf32",))):
        yield name, ["benchmarks/network.py", *NETWORK, *options, "--json", str(folder / f"{name}.json")], ""
    # Rows by a part of their titles that no other row has.
    for k, row in enumerate(("resnet(20,", "copies=2)", "unet(", "copies=20)")):
        arguments = ["--rows", row, "--ways", "accelerated", "--json", str(folder / f"everyday-{k}.json")]
        yield f"everyday-{k}", ["benchmarks/everyday.py", *arguments], ""


def started(commands: Iterator[tuple[str, list[str], str]], folder: Path) -> list[Job]:
    """The jobs that have no mark yet."""
    return [Job(name, command, folder, share) for name, command, share in commands if not mark(folder, name).exists()]


def merged(folder: Path) -> dict[str, Any]:
    """What everyday.py would have written into one file."""
    found = [json.loads(path.read_text()) for path in sorted(folder.glob("everyday-?.json"))]
    return {**found[0], "rows": {title: row for results in found for title, row in results["rows"].items()}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=ROOT / "out" / "gpu-check")
    folder = parser.parse_args().out.resolve()
    if not torch.cuda.is_available():
        raise SystemExit("gpu_check needs a GPU, and torch finds none.")
    folder.mkdir(parents=True, exist_ok=True)
    benchmarks = started(benchmark_commands(folder), folder)
    tests = started(test_commands(), folder)
    halted = False
    while not all(job.ended for job in benchmarks + tests):
        if somebody_measures() != halted:
            halted = not halted
            for job in tests:
                job.halt(halted)
        time.sleep(0.02)
    if any(folder.glob("everyday-?.json")):
        (folder / "everyday.json").write_text(json.dumps(merged(folder), indent=1))
    failed = [job.name for job in benchmarks + tests if not job.mark.exists()]
    raise SystemExit(f"failed: {', '.join(failed)}" if failed else None)


if __name__ == "__main__":
    main()
