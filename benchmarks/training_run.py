"""``steerable train`` on a folder of images: seconds per epoch with the default, densely, and with another checkout.

    python benchmarks/training_run.py FOLDER [-m copies=8 -m depth=8] [--labels 640] [--epochs 2] [--rounds 3]
        [--other CHECKOUT] [--json training-run.json]
    python benchmarks/training_run.py FOLDER --make-from cifar-10-batches-bin [--images 2000]

Every round trains each contestant once, in a process and a run folder of its own, so that what else the machine does
meets all of them alike. An epoch's seconds are the run's ``training_minutes`` by its epochs: measuring backends comes
before that, and is shown as part of the whole command. On a CPU the ratio to expect is that of single steps, dense by
auto, which take turns in this process with the backends that the plan names. ``--make-from`` writes the folder first.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from convolution import processor
from PIL import Image
from rich.console import Console
from rich.table import Table

from steerable import __version__
from steerable.training.learning.preparing import make_classifier, prepare_data, training_batches
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan

PER_FILE = 10_000


def main() -> None:
    arguments = parsed()
    if arguments.make_from is not None:
        write_folder(arguments.make_from, arguments.folder, arguments.images)
    ours = str(Path(__file__).parent.parent / "src")
    contestants = {"default": (ours, ()), "dense": (ours, ("--backend", "dense"))}
    if arguments.other is not None:
        contestants["other checkout"] = (str(arguments.other / "src"), ())
    found: dict[str, list[dict[str, float]]] = {name: [] for name in contestants}
    with tempfile.TemporaryDirectory() as work:
        for number in range(arguments.rounds):
            for name, (source, more) in contestants.items():
                found[name].append(one_run(arguments, Path(work) / f"{name}-{number}", source, more))
        plan = Plan.load(Path(work) / "default-0" / "plan.json")
    steps = step_seconds(plan, arguments.steps) if plan.accelerator == "cpu" else {}
    show(plan, found, steps, arguments)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="one sub-folder of images per class")
    parser.add_argument("-m", dest="option", action="append", default=[], help="an option of the model, key=value")
    parser.add_argument("--labels", type=int, help="how many training images; all by default")
    parser.add_argument("--epochs", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=7, help="how many single steps of each kind are compared")
    parser.add_argument("--other", type=Path, help="another checkout, such as that of the last revision")
    parser.add_argument("--make-from", type=Path, help="a folder with CIFAR-10's binary files")
    parser.add_argument("--images", type=int, default=2000, help="how many images to write")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def write_folder(binaries: Path, folder: Path, count: int) -> None:
    """The first training images of each class of CIFAR-10 as PNG files, equally many of each."""
    files = sorted(binaries.glob("data_batch_*.bin"))
    rows = np.concatenate([np.fromfile(path, np.uint8).reshape(PER_FILE, -1) for path in files])
    for label in range(10):
        for number, row in enumerate(rows[rows[:, 0] == label][: count // 10]):
            path = folder / f"class{label}" / f"{number:04}.png"
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(row[1:].reshape(3, 32, 32).transpose(1, 2, 0)).save(path)


def one_run(arguments: argparse.Namespace, out: Path, source: str, more: tuple[str, ...]) -> dict[str, float]:
    """Seconds of an epoch and of the whole command."""
    command = [sys.executable, "-m", "steerable.cli", "train", str(arguments.folder), "--out", str(out), *more]
    command += ["--epochs", str(arguments.epochs), "--patience", "0", "--validation", "0", "--no-progress", "--json"]
    command += [f"-m{option}" for option in arguments.option]
    command += [] if arguments.labels is None else ["--labels", str(arguments.labels)]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env={**os.environ, "PYTHONPATH": source})
    whole = time.perf_counter() - started
    results = json.loads((out / "results.json").read_text())
    return {"epoch": 60 * results["training_minutes"] / results["epochs"], "whole": whole}


def step_seconds(plan: Plan, count: int) -> dict[str, list[float]]:
    """Single steps with the plan's backends and densely, taking turns."""
    data = prepare_data(plan.settings)
    modules = {name: make_classifier(settings_of(plan, name), data) for name in ("auto", "dense")}
    modules["auto"].use_backends(plan.backends)
    images, labels = training_batches(plan.settings, data, "cpu").batch(0)
    found: dict[str, list[float]] = {name: [] for name in modules}
    for _ in range(count + 1):
        for name, module in modules.items():
            started = time.perf_counter()
            torch.nn.functional.cross_entropy(module.network(module.prepare(images)), labels).backward()
            found[name].append(time.perf_counter() - started)
            module.zero_grad()
    return {name: times[1:] for name, times in found.items()}


def settings_of(plan: Plan, backend: str) -> RunConfig:
    return replace(plan.settings, backend=backend)


def show(
    plan: Plan, found: dict[str, list[dict[str, float]]], steps: dict[str, list[float]], arguments: argparse.Namespace
) -> None:
    epochs = {name: statistics.median(run["epoch"] for run in runs) for name, runs in found.items()}
    table = Table(title=f"{plan.settings.model} on {plan.data['images']['train']} images, {plan.threads} threads")
    for head in ("run", "seconds per epoch", "fastest epoch", "whole command", "times the default"):
        table.add_column(head, justify="right")
    for name, runs in found.items():
        fastest, whole = (
            pick(run[key] for run in runs) for pick, key in ((min, "epoch"), (statistics.median, "whole"))
        )
        row = (epochs[name], fastest, whole, epochs[name] / epochs["default"])
        table.add_row(name, *(f"{value:.2f}" for value in row))
    step = {name: statistics.median(times) for name, times in steps.items()}
    console = Console()
    console.print(table)
    fourier = sum("fourier" in way for way in plan.backends.values())
    console.print(f"{fourier} of {len(plan.backends)} convolutions run by the Fourier backend.")
    if step:
        ratio = step["dense"] / step["auto"]
        console.print(f"Single steps: dense {step['dense']:.3f} s, auto {step['auto']:.3f} s, ratio {ratio:.2f}.")
    if arguments.json is not None:
        values: dict[str, Any] = {"steerable": __version__, "torch": torch.__version__, "processor": processor()}
        values |= {"plan": json.loads(json.dumps(vars(plan) | {"settings": plan.settings.to_dict()}))}
        arguments.json.write_text(json.dumps({**values, "runs": found, "steps": steps}, indent=2) + "\n")


if __name__ == "__main__":
    main()
