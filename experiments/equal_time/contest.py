"""Which network tells images apart best after the same time: ``steerable train`` beside a plain network.

    python experiments/equal_time/contest.py FOLDER [--minutes 5 10] [--per-class 20 100 all] [--seeds 0 1 2]
        [--widths 16 32] [--processor-time] [--runs contest-runs] [--json results.json]

FOLDER has one sub-folder of images per class, or ``train`` and ``test`` with such sub-folders. *steerable* is
``steerable train FOLDER`` with its defaults. *plain* is ``plain_network.py`` beside this file: an ordinary residual
network with AdamW, written without this library. Of its ``--widths`` the best is taken, for each time and number of
labels: the one that is right most often on a quarter of the training images after as many minutes, which are not
counted. Both have the same minutes, from the first line of their program to their last figure, the same training and
test images, and see images turned, shifted, scaled, brightened and darkened; the plain network is shown every angle and
mirror images.

With ``--processor-time`` a minute is one that the processor spends on the program, so that others on the same machine
do not matter; give one thread (``OMP_NUM_THREADS=1``), since those of all threads count. A run whose figures are there
already is not trained again, so that a contest can be interrupted. The file of results keeps what it holds of other
folders.
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

import torch
from rich.console import Console
from rich.markdown import Markdown

from steerable.atomic import write_json
from steerable.training.running.environment import environment

HERE = Path(__file__).parent
CONTESTANTS = ("steerable", "plain")
FIGURES = ("accuracy", "epochs", "parameters", "model", "labels", "image_size", "test_images", "width")
CELL = ("folder", "minutes", "per_class", "seed", "contestant")
TOLD = "contest.json"  # in the folder of a run: how long its program took, and where it ran


def main() -> None:
    arguments = parsed()
    path: Path | None = arguments.json
    found: list[dict[str, Any]] = json.loads(path.read_text("utf-8"))["runs"] if path and path.is_file() else []
    for minutes in arguments.minutes:
        for per_class in arguments.per_class:
            for seed in arguments.seeds:
                for name in CONTESTANTS:
                    cell = dict(zip(CELL, (arguments.folder.name, minutes, per_class, seed, name), strict=True))
                    run = {**cell, **one_run(arguments, cell)}
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
    parser.add_argument("--widths", type=int, nargs="+", default=[16, 32], help="of the plain network, to choose from")
    parser.add_argument("--processor-time", action="store_true", help="count what the processor spends on each program")
    parser.add_argument("--runs", type=Path, default=Path("contest-runs"), help="where run folders and figures go")
    parser.add_argument("--json", type=Path, help="where the table's figures go")
    return parser.parse_args()


def one_run(given: argparse.Namespace, cell: dict[str, Any]) -> dict[str, Any]:
    """The contestant's figures, seconds of its whole program, and where it ran."""
    out = given.runs / "-".join(str(value) for value in cell.values())
    options = ("--width", str(best_width(given, cell))) if cell["contestant"] == "plain" else ()
    results = figures(given, cell, out, *options)
    if cell["contestant"] == "steerable":
        images = json.loads((out / "plan.json").read_text("utf-8"))["data"]["images"]
        results |= {"accuracy": results["test_accuracy"], "test_images": images["test"]}
    told = json.loads((out / TOLD).read_text("utf-8")) if (out / TOLD).is_file() else {}  # of an earlier revision
    return {**{key: results[key] for key in FIGURES if key in results}, **told}


def figures(given: argparse.Namespace, cell: dict[str, Any], out: Path, *options: str) -> dict[str, Any]:
    """What a contestant's program finds, or has found before; how it was run stays beside its figures."""
    if not (out / "results.json").is_file():
        out.mkdir(parents=True, exist_ok=True)
        begun = time.perf_counter()
        subprocess.run([*command(given, cell, out), *options], check=True, stdout=subprocess.DEVNULL)
        write_json(out / TOLD, {"seconds": round(time.perf_counter() - begun, 1), **circumstances(given)})
    found: dict[str, Any] = json.loads((out / "results.json").read_text("utf-8"))
    return found


def circumstances(given: argparse.Namespace) -> dict[str, Any]:
    known = environment()
    return {
        "processor_time": given.processor_time,
        "hardware": known["gpu"] or known["cpu"],
        "threads": torch.get_num_threads(),
        "torch": known["versions"]["torch"],
        "git": known["git"],
    }


def best_width(given: argparse.Namespace, cell: dict[str, Any]) -> int:
    """The plain network's width for this time and number of labels, by training images that seed 0 holds out."""
    widths: list[int] = given.widths
    if len(widths) == 1:
        return widths[0]
    tried = {**cell, "seed": 0}
    name = "-".join(str(value) for value in tried.values())

    def accuracy(width: int) -> float:
        options = ("--width", str(width), "--evaluate", "validation")
        return float(figures(given, tried, given.runs / f"{name}-width-{width}", *options)["accuracy"])

    return max(widths, key=accuracy)


def command(given: argparse.Namespace, cell: dict[str, Any], out: Path) -> list[str]:
    """The command line of a contestant."""
    common = ["--minutes", str(cell["minutes"]), "--seed", str(cell["seed"])]
    labels = [] if cell["per_class"] == "all" else [cell["per_class"]]
    if cell["contestant"] == "steerable":
        program, measured = ["steerable"], ["-m", "steerable.cli"]
        asked = ["train", str(given.folder), "--out", str(out), "--no-progress", "--json"]
        asked += [text for each in labels for text in ("--labels-per-class", each)]
    else:
        program = measured = [str(HERE / "plain_network.py")]
        asked = [str(given.folder), "--out", str(out / "results.json")]
        asked += [text for each in labels for text in ("--per-class", each)]
    started_by = [str(HERE / "processor_time.py"), *program] if given.processor_time else measured
    return [sys.executable, *started_by, *asked, *common]


def table(found: list[dict[str, Any]]) -> str:
    """A Markdown table: accuracy on upright test images after the same time, a row for each folder, time and labels."""
    lines = [
        f"| images | minutes | labels a class | {' | '.join(CONTESTANTS)} | difference | seeds |",
        "|---|---:|---:|" + "---:|" * (len(CONTESTANTS) + 2),
    ]
    keys = {(run["folder"], run["minutes"], run["per_class"]) for run in found}
    for key in sorted(keys, key=lambda key: (*key[:2], math.inf if key[2] == "all" else int(key[2]))):
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
