"""How long the foundation takes and how much memory it needs: groups, irreps, bases of equivariant kernels, import.

Each case runs in fresh processes, so that nothing is cached, and its clock starts after ``import steerable``. The
median of the repetitions is printed; ``--json`` also writes every repetition and the machine.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import metadata
from pathlib import Path
from typing import Any


def all_pairs() -> str:
    """All pairs among D4's irreps and quotients with a 3×3 patch."""
    import steerable as st
    from steerable.filters import sparse_kernel_basis

    capsules = [capsule.representation for capsule in st.dihedral(4).capsules.values()]
    found = sum(sparse_kernel_basis(a, b, 3).count for a in capsules for b in capsules)
    return f"{len(capsules) ** 2} pairs, {found:,} basis elements"


def regular_7x7() -> str:
    """A 7×7 patch of D4's regular capsule, to the regular capsule."""
    import steerable as st
    from steerable.filters import sparse_kernel_basis

    regular = st.dihedral(4).regular
    return f"{sparse_kernel_basis(regular, regular, 7).count:,} basis elements"


def regular_7x7_dense() -> str:
    """The same through the general solver: Hom(patch ⊗ regular, regular), written out."""
    import steerable as st

    group = st.dihedral(4)
    basis = st.intertwiner_basis(st.pixel_patch(group, 7) @ group.regular, group.regular)
    return f"array of shape {basis.shape}"


def octahedral_3x3x3() -> str:
    """A 3×3×3 patch of O_h's regular capsule (48 channels), to the regular capsule."""
    import steerable as st
    from steerable.filters import sparse_kernel_basis

    regular = st.octahedral(reflections=True).regular
    return f"{sparse_kernel_basis(regular, regular, 3).count:,} basis elements, sparse"


def octahedral_3x3x3_dense() -> str:
    """The same through the general solver, written out: 1,296 matrices of 48×1,296."""
    import steerable as st

    group = st.octahedral(reflections=True)
    basis = st.intertwiner_basis(st.pixel_patch(group, 3) @ group.regular, group.regular)
    return f"array of shape {basis.shape}"


def symmetric_5() -> str:
    """S5 from two permutations, and its irreps."""
    import steerable as st

    return described(st.group_from_permutations({"a": [1, 2, 3, 4, 0], "b": [1, 0, 2, 3, 4]}, name="S5"))


def icosahedral() -> str:
    """I_h from three matrices, and its irreps."""
    import numpy as np

    import steerable as st

    golden = (1 + math.sqrt(5)) / 2
    axis = np.array([0, 1, golden]) / math.hypot(1, golden)  # a corner of the icosahedron
    cross = np.cross(np.eye(3), axis)
    angle = 2 * math.pi / 5
    fifth = np.eye(3) + math.sin(angle) * cross + (1 - math.cos(angle)) * cross @ cross
    axes = [[0, 1, 0], [0, 0, 1], [1, 0, 0]]
    return described(st.group_from_matrices({"a": fifth, "b": axes, "i": -np.eye(3)}, name="I_h"))


def dihedral_64() -> str:
    """D64 and its irreps."""
    import steerable as st

    return described(st.dihedral(64))


def described(group: Any) -> str:
    """The group's order and the dimensions of its irreps; asking for them computes them."""
    dims = [irrep.dim for irrep in group.irreps]
    counts = ", ".join(f"{dims.count(d)} of dim {d}" for d in sorted(set(dims)))
    return f"order {group.order}, irreps: {counts}"


CASES: dict[str, Callable[[], str]] = {
    case.__name__: case
    for case in (
        all_pairs,
        regular_7x7,
        regular_7x7_dense,
        octahedral_3x3x3,
        octahedral_3x3x3_dense,
        symmetric_5,
        icosahedral,
        dihedral_64,
    )
}

IMPORT_PROBE = """
import sys, time
start = time.perf_counter()
import steerable
print(time.perf_counter() - start, "torch" in sys.modules)
"""


def run_one(name: str) -> dict[str, Any]:
    """One case in this process: seconds, peak memory of the whole process in MiB, and what came out."""
    import steerable  # noqa: F401  (import time is a case of its own)

    start = time.perf_counter()
    result = CASES[name]()
    seconds = time.perf_counter() - start
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    mebibytes = peak / (1024**2 if sys.platform == "darwin" else 1024)
    return {"seconds": seconds, "peak_mib": mebibytes, "result": result}


def run_fresh(name: str, repeats: int) -> dict[str, Any]:
    """A case in fresh processes."""
    runs = []
    for _ in range(repeats):
        command = [sys.executable, __file__, "--one", name]
        runs.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
    return {
        "what": str(CASES[name].__doc__),
        "seconds": statistics.median(run["seconds"] for run in runs),
        "all_seconds": [run["seconds"] for run in runs],
        "peak_mib": max(run["peak_mib"] for run in runs),
        "result": runs[0]["result"],
    }


def run_import(repeats: int) -> dict[str, Any]:
    """``import steerable`` in fresh interpreters, after one that warms the disk cache."""
    outputs = []
    for _ in range(repeats + 1):
        command = [sys.executable, "-c", IMPORT_PROBE]
        outputs.append(subprocess.run(command, check=True, capture_output=True, text=True).stdout.split())
    seconds = [float(first) for first, _ in outputs[1:]]
    torch_loaded = any(second == "True" for _, second in outputs)
    return {
        "what": "`import steerable`, numpy included.",
        "seconds": statistics.median(seconds),
        "all_seconds": seconds,
        "peak_mib": None,
        "result": "torch was loaded" if torch_loaded else "torch is not loaded",
    }


def machine() -> dict[str, Any]:
    """What the numbers were measured on."""
    import steerable

    model = platform.processor()
    info = Path("/proc/cpuinfo")
    if info.exists():
        names = [
            line.split(":", 1)[1].strip() for line in info.read_text().splitlines() if line.startswith("model name")
        ]
        model = names[0] if names else model
    return {
        "cpu": model or "unknown",
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count(),
        "system": platform.system(),
        "python": platform.python_version(),
        "numpy": metadata.version("numpy"),
        "steerable": steerable.__version__,
    }


def main() -> None:
    """Run all cases and print them."""
    parser = argparse.ArgumentParser(description="Timings of groups, irreps and bases; each case in fresh processes.")
    parser.add_argument("--json", type=Path, help="also write every repetition and the machine to this file")
    parser.add_argument("--repeats", type=int, default=5, help="fresh processes per case (default 5)")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(run_one(arguments.one)))
        return

    from rich.console import Console
    from rich.table import Table

    if arguments.repeats < 1:
        parser.error("--repeats is at least 1")
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=140)
    hardware = machine()
    console.print(", ".join(f"{key} {value}" for key, value in hardware.items()))
    table = Table("case", box=None)
    table.add_column("median", justify="right")
    table.add_column("slowest", justify="right")
    table.add_column("peak memory", justify="right")
    table.add_column("result")
    results: dict[str, dict[str, Any]] = {}
    with console.status("running"):
        for name in CASES:
            results[name] = run_fresh(name, arguments.repeats)
        results["import"] = run_import(arguments.repeats)
    for case in results.values():
        peak = "" if case["peak_mib"] is None else f"{case['peak_mib']:.0f} MiB"
        slowest = max(case["all_seconds"])
        table.add_row(case["what"], f"{case['seconds']:.3f} s", f"{slowest:.3f} s", peak, case["result"])
    console.print(table)
    console.print(f"Median of {arguments.repeats} fresh processes; peak memory is the whole process, numpy included.")
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(
            json.dumps({"machine": hardware, "repeats": arguments.repeats, "cases": results}, indent=2) + "\n"
        )
        console.print(f"Written to {arguments.json}.", soft_wrap=True)


if __name__ == "__main__":
    main()
