"""Finds cell nuclei with steerable and plain U-Nets that learn from 10, 50 and all images.

    python experiments/nuclei/nuclei_runs.py DATA --runs RUNS
    python experiments/nuclei/nuclei_runs.py DATA --runs RUNS --table

It can be stopped and started again: finished runs are kept, and an interrupted one is resumed from its checkpoint.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steerable.data.mask_folders import load_mask_folder
from steerable.data.masked_images import MaskedImages
from steerable.training.config import RunConfig
from steerable.training.defaults import configured
from steerable.training.run import train
from steerable.training.sizing import count_parameters

__all__ = ["Run", "config_of", "planned", "table"]

SIZES = (10, 50, None)
SEEDS = (0, 1, 2)
STEPS = 5000
STEERABLE = {"name": "unet", "depth": 3, "copies": 4}
PLAIN = {"name": "plain_unet", "depth": 3}
BATCH = 16
HELD_OUT = 0.25  # of the training images, where settings are chosen


@dataclass(frozen=True)
class Run:
    """A network, the number of images that it learns from (None for all), and a seed."""

    network: str
    images: int | None
    seed: int

    @property
    def name(self) -> str:
        return f"{self.network}-{self.images or 'all'}-seed{self.seed}"


def planned() -> list[Run]:
    """Every run, seed by seed, so that an experiment cut short has all sizes once."""
    return [Run(network, images, seed) for seed in SEEDS for images in SIZES for network in ("steerable", "plain")]


def config_of(run: Run, data: str, train_part: MaskedImages, *, evaluate: str, steps: int = STEPS) -> RunConfig:
    """The request of a run: as many epochs as come to the number of steps.

    Args:
        run: which one.
        data: the folder.
        train_part: its training images, which say how many tiles an epoch has.
        evaluate: ``"test"``, or ``"validation"`` to choose settings.
        steps: of the optimiser.
    """
    learnt = train_part if run.images is None else train_part.balanced_subset(run.images, seed=run.seed)
    kept = 1 - HELD_OUT if evaluate == "validation" else 1.0
    per_epoch = math.ceil(learnt.subset(range(max(1, round(kept * len(learnt))))).samples_per_epoch / BATCH)
    size: dict[str, Any] = {} if run.network == "steerable" else {"parameters": count_parameters(STEERABLE)}
    return configured(
        data,
        STEERABLE if run.network == "steerable" else PLAIN,
        changes={"epochs": max(1, round(steps / per_epoch)), "batch_size": BATCH},
        masks="instances",
        labels=run.images,
        seed=run.seed,
        validation=HELD_OUT if evaluate == "validation" else 0.0,
        evaluate=evaluate,
        progress=False,
        **size,
    )


def table(runs: Path) -> Iterator[str]:
    """The lines of a table of means over seeds, with how many there are."""
    found: dict[tuple[int | None, str], list[dict[str, Any]]] = defaultdict(list)
    for run in planned():
        path = runs / run.name / "results.json"
        if path.is_file():
            found[run.images, run.network].append(json.loads(path.read_text("utf-8")))
    yield "| images | network | parameters | Dice of nuclei | mean average precision | over all poses | seeds |"
    yield "|---:|---|---:|---:|---:|---:|---:|"
    for (images, network), results in found.items():
        columns = [
            [result["poses"]["class_dice"]["object"] for result in results],
            [result["test_average_precision"] for result in results],
            [statistics.mean(result["poses"]["average_precision"].values()) for result in results],
        ]
        figures = " | ".join(f"{statistics.mean(values):.3f}" for values in columns)
        yield f"| {images or 'all'} | {network} | {results[0]['parameters']:,} | {figures} | {len(results)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="a folder with train and test, each with images and labels")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders go")
    parser.add_argument("--evaluate", choices=("test", "validation"), default="test", help="what is measured on")
    parser.add_argument("--steps", type=int, default=STEPS, help="steps of each run")
    parser.add_argument("--table", action="store_true", help="print a table of the finished runs, and train nothing")
    arguments = parser.parse_args()
    runs = arguments.runs / "nuclei" / arguments.evaluate
    if arguments.table:
        print("\n".join(table(runs)))
        return
    images = load_mask_folder(arguments.data, kind="instances").train
    for run in planned():
        config = config_of(run, str(arguments.data), images, evaluate=arguments.evaluate, steps=arguments.steps)
        results = train(config, runs / run.name)
        part = "test" if arguments.evaluate == "test" else "val"
        print(f"{run.name}: mean average precision {results[f'{part}_average_precision']:.4f}", flush=True)


if __name__ == "__main__":
    main()
