"""Which network tells images apart best after the same time: ``steerable train`` beside a plain network.

    python experiments/equal_time/contest.py FOLDER [--minutes 5 10] [--per-class 20 100 all] [--seeds 0 1 2]
        [--runs contest-runs] [--json results.json]

FOLDER has one sub-folder of images per class, or ``train`` and ``test`` with such sub-folders. Both contestants are
trained by the same command in the same minutes, reading and measuring included, and each in the largest size that has
enough epochs for them. Both see images turned by any angle, shifted, scaled, brightened and darkened; the steerable
network knows quarter turns and mirror images, and the plain one is shown them. The plain network has a learning rate
and a weight decay of its own, since rates by sharing are for networks that share weights. A run that is there already
is not trained again, so that a contest can be interrupted.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from steerable.atomic import write_json
from steerable.data.folders import labelled_folder
from steerable.training.plain_contest import PLAIN_RATES

CONTESTANTS: dict[str, tuple[str, ...]] = {
    "steerable": (),
    "plain": (
        *("--model", "plain_resnet"),
        *(text for name, value in PLAIN_RATES.items() for text in (f"--{name.replace('_', '-')}", str(value))),
    ),
}


def main() -> None:
    arguments = parsed()
    classes = len({file.label for file in labelled_folder(arguments.folder).files})
    found: list[dict[str, Any]] = []
    for minutes in arguments.minutes:
        for per_class in arguments.per_class:
            for seed in arguments.seeds:
                for name in CONTESTANTS:
                    cell = {"minutes": minutes, "per_class": per_class, "seed": seed, "contestant": name}
                    found.append({**cell, **one_run(arguments, cell, classes)})
                    if arguments.json is not None:
                        write_json(arguments.json, {"folder": arguments.folder.name, "runs": found})
    show(found, arguments.folder.name)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="one sub-folder of images per class")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0])
    parser.add_argument("--per-class", nargs="+", default=["20", "100", "all"], help="labels of each class")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("contest-runs"), help="where the run folders go")
    parser.add_argument("--json", type=Path)
    return parser.parse_args()


def one_run(arguments: argparse.Namespace, cell: dict[str, Any], classes: int) -> dict[str, Any]:
    """Accuracy upright and over all poses, epochs, and seconds of the whole command."""
    name = "-".join(str(value) for value in cell.values())
    out = arguments.runs / f"{arguments.folder.name}-{name}"
    command = [sys.executable, "-m", "steerable.cli", "train", str(arguments.folder), "--out", str(out)]
    command += ["--minutes", str(cell["minutes"]), "--seed", str(cell["seed"]), "--no-progress", "--json"]
    command += CONTESTANTS[cell["contestant"]]
    if cell["per_class"] != "all":
        command += ["--labels", str(int(cell["per_class"]) * classes)]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    results, plan = (json.loads((out / name).read_text("utf-8")) for name in ("results.json", "plan.json"))
    return {
        "accuracy": results["test_accuracy"],
        "all_poses": results["poses"]["all_poses"],
        "epochs": results["epochs"],
        "parameters": results["parameters"],
        "model": results["model"],
        "test_images": plan["data"]["images"]["test"],
        "seconds": round(seconds, 1),
    }


def show(found: list[dict[str, Any]], folder: str) -> None:
    table = Table(title=f"{folder}: accuracy over all poses after the same time")
    for head in ("minutes", "labels a class", *CONTESTANTS, "difference"):
        table.add_column(head, justify="right")
    cells = dict.fromkeys((run["minutes"], run["per_class"]) for run in found)
    for minutes, per_class in cells:
        scores, epochs, images = {}, {}, 1
        for name in CONTESTANTS:
            runs = [r for r in found if (r["minutes"], r["per_class"], r["contestant"]) == (minutes, per_class, name)]
            scores[name] = statistics.mean(run["all_poses"] for run in runs)
            epochs[name] = statistics.mean(run["epochs"] for run in runs)
            images = runs[0]["test_images"]
        texts = [f"{scores[name]:.1%} ({epochs[name]:.0f} epochs)" for name in CONTESTANTS]
        # 95 %, from the number of test images alone: seeds would need many runs.
        spread = 1.96 * math.sqrt(sum(p * (1 - p) for p in scores.values()) / images)
        difference = scores["steerable"] - scores["plain"]
        table.add_row(f"{minutes:g}", per_class, *texts, f"{difference:+.1%} ± {spread:.1%}")
    Console().print(table)


if __name__ == "__main__":
    main()
