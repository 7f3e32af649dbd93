"""Which network tells images apart best after the same time: ``steerable train`` beside a plain network.

    python experiments/equal_time/contest.py FOLDER [--minutes 5 10] [--per-class 20 100 all] [--seeds 0 1 2]
        [--runs contest-runs] [--json results.json]

FOLDER has one sub-folder of images per class, or ``train`` and ``test`` with such sub-folders. Both contestants are
trained by the same command in the same minutes, reading and measuring included, and each in the largest size that has
enough epochs for them. Both see images turned by any angle, shifted, scaled, brightened and darkened; the steerable
network knows quarter turns and mirror images, and the plain one is shown them. The plain network has a learning rate
and a weight decay of its own, since rates by sharing are for networks that share weights. A run that is there already
is not trained again, so that a contest can be interrupted. The file of results keeps what it holds of other folders.
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
from rich.markdown import Markdown

from steerable.atomic import write_json
from steerable.training.plain_contest import PLAIN_RATES

CONTESTANTS: dict[str, tuple[str, ...]] = {
    "steerable": (),
    "plain": (
        *("--model", "plain_resnet"),
        *(text for name, value in PLAIN_RATES.items() for text in (f"--{name.replace('_', '-')}", str(value))),
    ),
}
CELL = ("folder", "minutes", "per_class", "seed", "contestant")


def main() -> None:
    arguments = parsed()
    path: Path | None = arguments.json
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["runs"] if path and path.is_file() else []
    for minutes in arguments.minutes:
        for per_class in arguments.per_class:
            for seed in arguments.seeds:
                for name in CONTESTANTS:
                    cell = dict(zip(CELL, (arguments.folder.name, minutes, per_class, seed, name), strict=True))
                    run = {**cell, **one_run(arguments.folder, arguments.runs, cell)}
                    found = [other for other in found if any(other[key] != cell[key] for key in CELL)] + [run]
                    if path is not None:
                        write_json(path, {"runs": found})
    Console().print(Markdown(table(found)))


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="one sub-folder of images per class")
    parser.add_argument("--minutes", type=float, nargs="+", default=[5.0])
    parser.add_argument("--per-class", nargs="+", default=["20", "100", "all"], help="labels of each class")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--runs", type=Path, default=Path("contest-runs"), help="where the run folders go")
    parser.add_argument("--json", type=Path, help="where the figures go")
    return parser.parse_args()


def one_run(folder: Path, runs: Path, cell: dict[str, Any]) -> dict[str, Any]:
    """Accuracy upright and over all poses, epochs, and seconds of the whole command."""
    out = runs / "-".join(str(value) for value in cell.values())
    command = [sys.executable, "-m", "steerable.cli", "train", str(folder), "--out", str(out)]
    command += ["--minutes", str(cell["minutes"]), "--seed", str(cell["seed"]), "--no-progress", "--json"]
    command += CONTESTANTS[cell["contestant"]]
    if cell["per_class"] != "all":
        command += ["--labels-per-class", cell["per_class"]]
    started = time.perf_counter()
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - started
    results, plan, environment = (
        json.loads((out / f"{name}.json").read_text("utf-8")) for name in ("results", "plan", "environment")
    )
    return {
        "accuracy": results["test_accuracy"],
        "all_poses": results["poses"]["all_poses"],
        "epochs": results["epochs"],
        "parameters": results["parameters"],
        "model": results["model"],
        "labels": results["labels"],
        "image_size": results["image_size"],
        "test_images": plan["data"]["images"]["test"],
        "seconds": round(seconds, 1),
        "training_minutes": results["training_minutes"],
        "hardware": results["hardware"],
        "threads": plan["threads"],
        "torch": environment["versions"]["torch"],
        "git": environment["git"],
    }


def table(found: list[dict[str, Any]]) -> str:
    """A Markdown table: accuracy on upright test images after the same time, a row for each folder, time and labels."""
    lines = [
        f"| images | minutes | labels a class | {' | '.join(CONTESTANTS)} | difference | seeds |",
        "|---|---:|---:|" + "---:|" * (len(CONTESTANTS) + 2),
    ]
    for key in dict.fromkeys((run["folder"], run["minutes"], run["per_class"]) for run in found):
        runs = {
            name: [r for r in found if (r["folder"], r["minutes"], r["per_class"], r["contestant"]) == (*key, name)]
            for name in CONTESTANTS
        }
        if not all(runs.values()):
            continue
        scores = {name: statistics.mean(run["accuracy"] for run in some) for name, some in runs.items()}
        texts = [
            f"{100 * scores[name]:.1f} % ({statistics.mean(run['epochs'] for run in some):.0f} epochs)"
            for name, some in runs.items()
        ]
        # 95 %, from the number of test images alone: seeds would need many runs.
        spread = 1.96 * math.sqrt(sum(p * (1 - p) for p in scores.values()) / runs["plain"][0]["test_images"])
        difference = f"{100 * (scores['steerable'] - scores['plain']):+.1f} ± {100 * spread:.1f}"
        folder, minutes, per_class = key
        lines.append(
            f"| {folder} | {minutes:g} | {per_class} | {' | '.join(texts)} | {difference} | {len(runs['plain'])} |"
        )
    return "\n".join(lines)


if __name__ == "__main__":
    main()
