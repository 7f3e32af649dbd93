"""Do the tests notice a fault? Puts small faults into the library, one at a time, and runs the tests that should fail.

    python tests/tools/mutate.py --sample 150 --seed 0 --jobs 2 --json out/mutations.json
    python tests/tools/mutate.py src/steerable/filters --list     # what can be changed, without running anything
    python tests/tools/mutate.py --again out/mutations.json --json out/mutations.json     # the survivors, once more

Without modules it takes ``checking``, ``filters`` and ``nn``, but not what only GPUs run. Faults are drawn from all
that ``mutations.py`` knows. Everything runs in copies of the tree; the working tree is not touched. For each file the
tests are run in stages, the nearest first (``stages`` below; ``--tests`` names others), and the first failure ends it.
A fault that no stage notices has survived: its diff is printed at the end, with the score, killed and timed out over
all. Kill it with a test, or say why it changes nothing.
"""

from __future__ import annotations

import argparse
import ast
import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import TypeVar

from mutations import Mutation, mutations

ROOT = Path(__file__).resolve().parents[2]
LEFT_OUT = (".git", ".venv", "out", "site", "__pycache__", ".*_cache", "*.egg-info", "node_modules")
FASTEST_TIMEOUT = 60.0

T = TypeVar("T")
Stage = tuple[str, ...]
"""The arguments of one call of pytest."""

CONFORMANCE = "tests/nn/test_conformance.py"
EVERY_LAYER = "commutes and float64 or to_plain"  # for what is no layer itself
FEW_GROUPS = "not (C1 or C2 or D1)"  # D4 and C4 meet every kind of capsule
# Tests that go with a file besides those that bear its name; the longest beginning of its path counts.
NEAR: dict[str, tuple[str, ...]] = {
    "algebra/": ("tests/algebra",),
    "checking/": ("tests/checking/test_type_checking.py", "tests/checking/test_random_programs.py"),
    "filters": ("tests/types/test_fields.py", "tests/algebra/test_shared_actions.py", "tests/algebra/test_scales.py"),
    "nn/adaptive_pooling": ("tests/nn/test_pooling.py",),
    "nn/admissibility": ("tests/nn/test_activations.py",),
    "nn/basis_change": ("tests/nn/test_plumbing.py",),
    "nn/blur_pooling": ("tests/nn/test_pooling.py",),
    "nn/concatenated": ("tests/nn/test_activations.py",),
    "nn/disk_mask": ("tests/nn/test_plumbing.py",),
    "nn/dropout": ("tests/nn/test_plumbing.py",),
    "nn/function_trials": ("tests/nn/test_scalar_functions.py",),
    "nn/identity": ("tests/nn/test_plumbing.py",),
    "nn/restrict": ("tests/nn/test_plumbing.py",),
    "nn/selection": ("tests/nn/test_plumbing.py",),
    "nn/bank_tables": ("tests/nn/test_conv.py",),
    "nn/channels": ("tests/nn/test_plumbing.py", "tests/nn/test_activations.py", "tests/nn/test_export.py"),
    "nn/module": ("tests/nn/test_conv_errors.py", "tests/nn/test_plumbing.py", "tests/nn/test_containers.py"),
    "nn/plain": ("tests/nn/test_plumbing.py", "tests/nn/test_pooling.py"),
    "nn/segments": ("tests/nn/test_pooling.py", "tests/nn/test_norms.py"),
    "nn/backends/": (
        "tests/nn/test_choosing.py",
        "tests/nn/test_passes.py",
        "tests/nn/test_recorded_backends.py",
        "tests/nn/test_backend_seams.py",
        "tests/nn/test_backends_alike.py",
    ),
    "nn/backends/fourier/": (
        "tests/nn/test_fourier.py",
        "tests/nn/test_fourier_gpu.py",
        "tests/nn/test_choosing.py",
        "tests/nn/test_passes.py",
        "tests/nn/test_backends_alike.py",
    ),
    "nn/expansion": ("tests/nn/test_conv.py", "tests/nn/test_init.py", "tests/nn/test_bank_tables.py"),
    "nn/filter_bank": ("tests/nn/test_conv.py", "tests/nn/test_bank_tables.py"),
    "nn/network_backends": ("tests/nn/test_choosing.py", "tests/nn/test_recorded_backends.py"),
    "nn/linear": ("tests/nn/test_conv.py", "tests/nn/test_conv_errors.py"),
    "nn/conv": ("tests/nn/test_conv_errors.py", "tests/nn/test_sampling.py", "tests/nn/test_windows.py"),
    "nn/invariants": ("tests/nn/test_slanted.py",),
    "nn/group_norm": ("tests/nn/test_norms.py", "tests/nn/test_empty_batches.py"),
    "nn/instance_norm": ("tests/nn/test_norms.py", "tests/nn/test_empty_batches.py"),
    "nn/layer_norm": ("tests/nn/test_norms.py", "tests/nn/test_empty_batches.py"),
    "nn/norms": ("tests/nn/test_empty_batches.py", "tests/nn/test_plain_norms.py"),
    "nn/processes": ("tests/nn/test_norms_over_processes.py",),
    "nn/norm_activations": ("tests/nn/test_activations.py",),
    "nn/resampling": ("tests/nn/test_sampling.py", "tests/nn/test_pooling.py"),
    "nn/sampling": (
        "tests/nn/test_conv.py",
        "tests/nn/test_conv_errors.py",
        "tests/nn/test_pooling.py",
        "tests/nn/test_windows.py",
        "tests/conversion/test_conversion_soundness.py",
    ),
    "nn/batch_norm": ("tests/nn/test_norms.py", "tests/nn/test_fused_norm.py", "tests/nn/test_torch_tools.py"),
    "nn/norm_on_cpu": ("tests/nn/test_fused_norm.py", "tests/nn/test_norms.py"),
    "nn/statistics_norms": (
        "tests/nn/test_norms.py",
        "tests/nn/test_fused_norm.py",
        "tests/nn/test_empty_batches.py",
        "tests/nn/test_norms_over_processes.py",
        "tests/nn/test_plain_norms.py",
    ),
    "nn/type_errors": ("tests/nn/test_containers.py", "tests/checking/test_type_checking.py"),
}


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


@dataclass(frozen=True)
class Verdict:
    mutation: Mutation
    outcome: str  # killed, timeout or survived
    seconds: float
    stage: str  # the tests that noticed it


# Files that nothing runs without a GPU; ``tests/nn/test_cuda.py`` tests them there.
ONLY_GPUS = ("nn/triton/", "nn/backends/fourier/gpu/")


def default_modules(root: Path) -> list[Path]:
    library = root / "src/steerable"
    found = [
        *(library / "checking").rglob("*.py"),
        *(library / "filters").rglob("*.py"),
        *(library / "nn").rglob("*.py"),
    ]
    left_out = tuple(str(library / name) for name in ONLY_GPUS)
    return sorted(path.relative_to(root) for path in found if path.exists() and not str(path).startswith(left_out))


def stages(root: Path, module: Path) -> list[Stage]:
    """The calls of pytest for a module: tests of its name, those of ``NEAR``, the conformance suite on its layers."""
    package = module.with_suffix("").parts[2:]  # without src and the library's name
    inside = "/".join(package)
    tests = Path("tests", *package[:-1][:1], f"test_{module.stem}.py")
    own = [str(tests)] if (root / tests).exists() else []
    beginning = max((b for b in NEAR if inside.startswith(b)), key=len, default="")
    near = [test for test in NEAR.get(beginning, ()) if test not in own and (root / test).exists()]
    found: list[Stage] = [(test,) for test in (*own, *near)]
    if inside.startswith("nn/") and (root / CONFORMANCE).exists():
        found.append((CONFORMANCE, "-k", f"({_layers(root, module) or EVERY_LAYER}) and {FEW_GROUPS}"))
    return found or [("tests",)]


def _layers(root: Path, module: Path) -> str:
    """The layers of a file that have a case in the conformance suite, as an expression for ``pytest -k``."""
    cases = (root / CONFORMANCE).with_name("cases.py").read_text("utf-8")
    classes = [node.name for node in ast.parse((root / module).read_bytes()).body if isinstance(node, ast.ClassDef)]
    return " or ".join(name for name in classes if f"snn.{name}" in cases)


class Workshop:
    """A copy of the tree in which faults are put and tests are run."""

    def __init__(self, root: Path, folder: Path) -> None:
        shutil.copytree(root, folder, ignore=shutil.ignore_patterns(*LEFT_OUT))
        self.folder = folder
        # No byte code is kept: a file that changes twice within a second would be taken for the same.
        self.environment = os.environ | {
            "PYTHONPATH": str(folder / "src"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, arguments: Sequence[str], timeout: float) -> tuple[int | None, str]:
        """(exit status, output) of a Python command; None after the timeout."""
        process = subprocess.Popen(
            [sys.executable, *arguments],
            cwd=self.folder,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        try:
            output, _ = process.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
            return None, ""
        return process.returncode, output

    def test(self, stage: Stage, timeout: float) -> tuple[int | None, str]:
        return self.run(["-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", *stage], timeout)

    def judge(self, mutation: Mutation, plan: Sequence[Stage], timeouts: dict[Stage, float]) -> Verdict:
        file, begun = self.folder / mutation.path, time.monotonic()
        source = file.read_bytes()
        file.write_bytes(mutation.applied(source))
        try:
            for stage in plan:
                status, _ = self.test(stage, timeouts[stage])
                if status != 0:
                    outcome = "timeout" if status is None else "killed"
                    return Verdict(mutation, outcome, time.monotonic() - begun, " ".join(stage))
        finally:
            file.write_bytes(source)
        return Verdict(mutation, "survived", time.monotonic() - begun, "")


def check_copy(workshop: Workshop, module: Path) -> None:
    """SystemExit where Python would import the module from elsewhere, and no fault would ever be noticed."""
    name = ".".join(module.with_suffix("").parts[1:]).removesuffix(".__init__")
    _, output = workshop.run(["-c", f"import {name} as module; print(module.__file__)"], FASTEST_TIMEOUT)
    if str(workshop.folder) not in output:
        raise SystemExit(f"{name} is not imported from the copy in {workshop.folder}: {output.strip() or 'no output'}")


def timeout_of(workshop: Workshop, stage: Stage) -> float:
    """Five times what a stage takes without a fault; SystemExit where it fails already."""
    begun = time.monotonic()
    status, output = workshop.test(stage, 3600)
    if status != 0:
        raise SystemExit(f"pytest {' '.join(stage)} fails without a fault (status {status}):\n{output[-3000:]}")
    seconds = time.monotonic() - begun
    say(f"{seconds:6.1f} s  without a fault: {' '.join(stage)}")
    return max(FASTEST_TIMEOUT, 5 * seconds)


def run_all(
    root: Path, chosen: Sequence[Mutation], plans: dict[Path, list[Stage]], jobs: int, minutes: float
) -> list[Verdict]:
    """What becomes of each fault that is begun in time, in copies of the tree that are removed afterwards."""
    end = time.monotonic() + 60 * minutes
    with tempfile.TemporaryDirectory(prefix="mutate-") as scratch, ThreadPoolExecutor(jobs) as pool:
        folder = Path(scratch).resolve()
        copies = [Workshop(root, folder / str(k)) for k in range(jobs)]
        check_copy(copies[0], chosen[0].path)
        free: SimpleQueue[Workshop] = SimpleQueue()
        for workshop in copies:
            free.put(workshop)

        def in_a_copy(work: Callable[[Workshop], T]) -> T:
            workshop = free.get()
            try:
                return work(workshop)
            finally:
                free.put(workshop)

        def judged(mutation: Mutation) -> Verdict | None:
            if time.monotonic() > end:
                return None
            verdict = in_a_copy(lambda workshop: workshop.judge(mutation, plans[mutation.path], timeouts))
            say(f"{verdict.seconds:6.1f} s  {verdict.outcome:<8}  {mutation.path}:{mutation.line}  {mutation.kind}")
            return verdict

        needed = list(dict.fromkeys(stage for mutation in chosen for stage in plans[mutation.path]))
        measured = pool.map(lambda stage: in_a_copy(lambda workshop: timeout_of(workshop, stage)), needed)
        timeouts = dict(zip(needed, measured, strict=True))
        verdicts = [verdict for verdict in pool.map(judged, chosen) if verdict is not None]
        return sorted(verdicts, key=lambda verdict: (verdict.mutation.path, verdict.mutation.start))


# ---------------------------------------------------------------- what is run, what is recorded


def recorded_survivors(record: dict[str, list[dict[str, str]]], known: Sequence[Mutation]) -> list[Mutation]:
    """The faults of an earlier run that survived, found again by what they change."""
    wanted = Counter(_key(entry) for entry in record["mutants"] if entry["outcome"] == "survived")
    found = []
    for mutation in known:
        if wanted[mutation.key]:
            wanted[mutation.key] -= 1
            found.append(mutation)
    return found


def _key(entry: dict[str, str]) -> tuple[str, str, str, str]:
    return entry["file"], entry["kind"], entry["before"], entry["after"]


def as_record(verdicts: Sequence[Verdict], earlier: Sequence[dict[str, object]] = ()) -> dict[str, object]:
    entries: list[dict[str, object]] = [
        {
            "file": str(v.mutation.path),
            "line": v.mutation.line,
            "kind": v.mutation.kind,
            "before": v.mutation.before,
            "after": v.mutation.after,
            "outcome": v.outcome,
            "seconds": round(v.seconds, 1),
            "noticed by": v.stage,
        }
        for v in verdicts
    ]
    entries = [*earlier, *entries]
    outcomes = Counter(str(entry["outcome"]) for entry in entries)
    noticed = outcomes["killed"] + outcomes["timeout"]
    return {"score": round(noticed / max(1, len(entries)), 4), **outcomes, "mutants": entries}


def arguments(given: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("modules", nargs="*", type=Path, help="files of src; by default checking, filters and layers")
    parser.add_argument("--root", type=Path, default=ROOT, help="the project; by default the one this file is in")
    parser.add_argument("--sample", type=int, help="how many faults are drawn; by default all")
    parser.add_argument("--seed", type=int, default=0, help="of the draw")
    parser.add_argument("--jobs", type=int, default=1, help="how many are tried at once")
    parser.add_argument("--minutes", type=float, default=math.inf, help="after which no more are begun")
    parser.add_argument("--tests", nargs="+", help="arguments of pytest, in place of the tests that go with a file")
    parser.add_argument("--list", action="store_true", help="say what would be changed, and run nothing")
    parser.add_argument("--again", type=Path, help="a record: only its survivors are tried")
    parser.add_argument("--json", type=Path, help="where the record is written")
    return parser.parse_args(given)


def main(given: Sequence[str] | None = None) -> int:
    """0 when no fault survived, else 1."""
    options = arguments(given)
    root = options.root.resolve()
    modules = [(p if p.is_absolute() else root / p).relative_to(root) for p in options.modules] or default_modules(root)
    sources = {module: (root / module).read_bytes() for module in modules}
    known = [mutation for module in modules for mutation in mutations(module, sources[module])]
    earlier: list[dict[str, object]] = []
    if options.again:
        record = json.loads(options.again.read_text("utf-8"))
        chosen = recorded_survivors(record, known)
        earlier = [entry for entry in record["mutants"] if entry["outcome"] != "survived"]
    elif options.sample is not None and options.sample < len(known):
        chosen = random.Random(options.seed).sample(known, options.sample)
    else:
        chosen = known
    if options.list:
        for mutation in chosen:
            say(f"{mutation.path}:{mutation.line}  {mutation.kind}: {mutation.before!r} becomes {mutation.after!r}")
        return 0
    if not chosen:
        raise SystemExit("there is nothing to change in these files.")
    plans = {m: [tuple(options.tests)] if options.tests else stages(root, m) for m in {c.path for c in chosen}}
    verdicts = run_all(root, chosen, plans, options.jobs, options.minutes)
    survivors = [verdict for verdict in verdicts if verdict.outcome == "survived"]
    for verdict in survivors:
        say(f"\nsurvived: {verdict.mutation.kind}\n{verdict.mutation.diff(sources[verdict.mutation.path])}")
    record = as_record(verdicts, earlier)
    say(f"{len(verdicts) - len(survivors)} of {len(verdicts)} noticed; score {record['score']:.1%}")
    if options.json:
        options.json.parent.mkdir(parents=True, exist_ok=True)
        options.json.write_text(json.dumps(record, indent=1, ensure_ascii=False) + "\n", "utf-8")
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main())
