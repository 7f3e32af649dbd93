"""Trains the networks of plan.toml on ModelNet10, upright and turned, and prints a table of what has ended.

    python experiments/modelnet10/model_runs.py DATA --runs RUNS [--only O plain] [--labels 100] [--seeds 0] [--turned]

DATA is a folder with modelnet10.npz. With --turned both training and test models are turned at random; the turned file
is made once, in RUNS/turned. Each run is a run folder: one that has ended is not repeated, and one that was interrupted
goes on when the same command is given again. `steerable report RUNS/*` shows them on one page.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from turned_models import write_turned

from steerable.data.modelnet import FILE
from steerable.training.choosing.defaults import configured
from steerable.training.requests.config import RunConfig
from steerable.training.running.run import train

HERE = Path(__file__).parent


@dataclass(frozen=True)
class Run:
    """One network with one seed and one number of labels, 0 for all, upright or turned."""

    name: str
    model: dict[str, Any]
    rates: dict[str, Any]
    recipe: str
    epochs: int
    labels: int
    seed: int
    turned: bool

    @property
    def folder(self) -> str:
        """Such as ``C4-about-z-100-turned-seed0``."""
        parts = (self.name.replace(" ", "-"), str(self.labels or "all"), "turned" if self.turned else "upright")
        return "-".join((*parts, f"seed{self.seed}"))

    def request(self, data_dir: Path, **settings: Any) -> RunConfig:
        """Accuracy after a number of epochs, without anything held out."""
        changes = {"epochs": self.epochs, **self.rates}
        how = {"labels": self.labels or None, "seed": self.seed, "data_dir": str(data_dir), **settings}
        return configured("modelnet10", self.model, recipe=self.recipe, changes=changes, **how)


def planned(*, turned: bool, plan: dict[str, Any] | None = None) -> list[Run]:
    """All runs, seed by seed and few labels first, so that an experiment cut short has every network once."""
    plan = tomllib.loads((HERE / "plan.toml").read_text("utf-8")) if plan is None else plan
    common, networks = plan["common"], plan["networks"]
    how = {"recipe": common["recipe"], "epochs": common["epochs"], "turned": turned}
    return [
        Run(network["name"], network["model"], network.get("rates", {}), labels=labels, seed=seed, **how)
        for seed, labels, network in itertools.product(common["seeds"], common["labels"], networks)
    ]


def table(runs: Path) -> str:
    """A Markdown table of the runs that have ended: mean accuracy over the seeds, and in all 24 poses."""
    heads = ("network", "labels", "models", "accuracy, %", "in all 24 poses, %", "parameters", "seeds")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for turned in (False, True):
        for first in (run for run in planned(turned=turned) if run.seed == 0):
            same = [run for run in planned(turned=turned) if (run.name, run.labels) == (first.name, first.labels)]
            files = [runs / run.folder / "results.json" for run in same]
            found = [json.loads(file.read_text("utf-8")) for file in files if file.is_file()]
            if found:
                upright = 100 * (1 - statistics.mean(result["test_error"] for result in found))
                posed = 100 * statistics.mean(result["poses"]["all_poses"] for result in found)
                kind = "turned" if turned else "upright"
                cells = (first.name, str(first.labels or "all"), kind, f"{upright:.2f}", f"{posed:.2f}")
                size, seeds = f"{found[0]['parameters']:,}", ", ".join(str(result["seed"]) for result in found)
                lines.append(f"| {' | '.join((*cells, size, seeds))} |")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path, help="the folder with modelnet10.npz")
    parser.add_argument("--runs", type=Path, required=True, help="the folder for run folders")
    parser.add_argument("--only", nargs="+", help="the names of some networks")
    parser.add_argument("--labels", nargs="+", type=int, help="some numbers of labels, 0 for all")
    parser.add_argument("--seeds", nargs="+", type=int, help="some seeds")
    parser.add_argument("--epochs", type=int, help="another number of epochs, to try things out")
    parser.add_argument("--turned", action="store_true", help="turn training and test models at random")
    chosen = parser.parse_args(arguments)
    data = chosen.data
    if chosen.turned:
        data = chosen.runs / "turned"
        if not (data / FILE).is_file():
            write_turned(chosen.data, data)
    for run in planned(turned=chosen.turned):
        wanted = (run.name, chosen.only), (run.labels, chosen.labels), (run.seed, chosen.seeds)
        if all(some is None or value in some for value, some in wanted):
            changes = {} if chosen.epochs is None else {"epochs": chosen.epochs}
            results = train(Run(**{**vars(run), **changes}).request(data, progress=False), chosen.runs / run.folder)
            print(f"{run.folder}: {1 - results['test_error']:.2%}", flush=True)
    print(table(chosen.runs))


if __name__ == "__main__":
    main()
