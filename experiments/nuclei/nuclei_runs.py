"""Finds cell nuclei with steerable and plain U-Nets that learn from 10, 50 and all images in the same time.

    python experiments/nuclei/nuclei_runs.py DATA --runs RUNS [--minutes 5] [--images 10 50 all] [--seeds 0 1 2]
    python experiments/nuclei/nuclei_runs.py DATA --runs RUNS --table

It can be stopped and started again: finished runs are kept, and an interrupted one is resumed from its checkpoint. With
``experiments/equal_time/processor_time.py`` before its name, minutes are those that the processor spends on it.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steerable.training.choosing.defaults import configured
from steerable.training.requests.config import RunConfig
from steerable.training.running.plain_contest import plain_request
from steerable.training.running.run import train

__all__ = ["Run", "carried_out", "config_of", "planned", "table"]

SIZES = ("10", "50", "all")
SEEDS = (0, 1, 2)
NETWORKS = ("steerable", "plain")
HELD_OUT = 0.25  # of the training images, where settings are chosen


@dataclass(frozen=True)
class Run:
    """The number of images that two networks learn from, as text, and a seed."""

    images: str
    seed: int

    def folder(self, runs: Path, network: str) -> Path:
        return runs / f"{network}-{self.images}-seed{self.seed}"


def planned(images: tuple[str, ...] = SIZES, seeds: tuple[int, ...] = SEEDS) -> list[Run]:
    """Every run, seed by seed, so that an experiment cut short has all sizes once."""
    return [Run(size, seed) for seed in seeds for size in images]


def config_of(run: Run, data: str, *, minutes: float, evaluate: str = "test") -> RunConfig:
    """The request of a steerable run: what ``steerable train`` does by default with so many images in this time.

    Args:
        run: which one.
        data: the folder.
        minutes: its time, all included.
        evaluate: ``"test"``, or ``"validation"`` to choose settings.
    """
    return configured(
        data,
        {},
        masks="instances",
        labels=None if run.images == "all" else int(run.images),
        seed=run.seed,
        minutes=minutes,
        validation=HELD_OUT if evaluate == "validation" else None,
        evaluate=evaluate,
        progress=False,
    )


def carried_out(run: Run, config: RunConfig, runs: Path) -> dict[str, Mapping[str, Any]]:
    """The results of both networks; the plain one is that of ``--compare plain``: equal parameters, equal minutes."""
    ours = train(config, run.folder(runs, "steerable"))
    folder = run.folder(runs, "plain")
    return {"steerable": ours, "plain": train(plain_request(config, ours), folder)}


def table(runs: Path) -> Iterator[str]:
    """The lines of a table of means over seeds, with how many there are."""
    found: dict[tuple[str, str], list[dict[str, Any]]] = defaultdict(list)
    for run in planned():
        for network in NETWORKS:
            path = run.folder(runs, network) / "results.json"
            if path.is_file():
                found[run.images, network].append(json.loads(path.read_text("utf-8")))
    yield "| images | network | parameters | epochs | Dice | mean average precision | over all poses | seeds |"
    yield "|---:|---|---:|---:|---:|---:|---:|---:|"
    for (images, network), results in sorted(found.items(), key=lambda item: SIZES.index(item[0][0])):
        columns = [
            [result["poses"]["class_dice"]["object"] for result in results],
            [result["test_average_precision"] for result in results],
            [statistics.mean(result["poses"]["average_precision"].values()) for result in results],
        ]
        figures = " | ".join(f"{statistics.mean(values):.3f}" for values in columns)
        epochs = f"{statistics.mean(result['epochs'] for result in results):.0f}"
        yield f"| {images} | {network} | {results[0]['parameters']:,} | {epochs} | {figures} | {len(results)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder with train and test, each with images and labels")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders go")
    parser.add_argument("--evaluate", choices=("test", "validation"), default="test", help="what is measured on")
    parser.add_argument("--minutes", type=float, default=5.0, help="time of each run")
    parser.add_argument("--images", nargs="+", choices=SIZES, default=SIZES, help="how many images to learn from")
    parser.add_argument("--seeds", type=int, nargs="+", default=SEEDS)
    parser.add_argument("--table", action="store_true", help="print a table of the finished runs, and train nothing")
    given = parser.parse_args()
    runs = given.runs / "nuclei" / given.evaluate
    part = "test" if given.evaluate == "test" else "val"
    for run in [] if given.table else planned(tuple(given.images), tuple(given.seeds)):
        config = config_of(run, str(given.data), minutes=given.minutes, evaluate=given.evaluate)
        for network, results in carried_out(run, config, runs).items():
            figure = results[f"{part}_average_precision"]
            print(f"{network}, {run.images} images, seed {run.seed}: mean average precision {figure:.4f}", flush=True)
    if given.evaluate == "test":
        print("\n".join(table(runs)))


if __name__ == "__main__":
    main()
