"""Runs an experiment: every run of its experiment.toml with every seed, and writes results.json after each.

    python experiments/sweep.py experiments/cifar10_2k --data-dir DATA --runs RUNS --workers 5

It can be stopped and started again: finished runs are kept, and an interrupted one is resumed from its checkpoint.

An experiment that says ``evaluate = "validation"`` is for choosing settings. Its runs hold out ``validation`` of their
training images, are measured on these, and never look at a test image.
"""

from __future__ import annotations

import argparse
import json
import statistics
import time
import tomllib
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from steerable.atomic import write_json
from steerable.errors import did_you_mean
from steerable.training.choosing.sizing import count_parameters
from steerable.training.learning.divergence import DivergenceError
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe, load_recipe
from steerable.training.running.environment import environment
from steerable.training.running.run import train

# A setting that is misspelt or misplaced must not go unnoticed: without its `evaluate`, tuning would see test images.
_RUN_OR_ALL = {"labels", "validation", "recipe"}
_ALL = _RUN_OR_ALL | {"dataset", "precision", "compile", "cuda_graphs", "channels_last"}
_RUN = _RUN_OR_ALL | {"name", "paper", "model", "seeds"}


def check_keys(experiment: dict[str, Any]) -> None:
    """Refuse settings that no part of an experiment.toml has, and what would be found out only hours later."""
    for part in ("claim", "common", "runs"):
        if part not in experiment:
            raise ValueError(f"an experiment.toml has `{part}`; this one has none.")
    for run in experiment["runs"]:
        if missing := sorted({"name", "model", "seeds"} - run.keys()):
            raise ValueError(f"a run of an experiment.toml has `{missing[0]}`; {run.get('name', 'one')!r} has none.")
    names = [run["name"] for run in experiment["runs"]]
    if repeated := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"two runs of an experiment.toml are called {repeated[0]!r}; their results would be mixed up.")
    parts = [("the top", experiment, {"claim", "evaluate", "common", "runs"}), ("[common]", experiment["common"], _ALL)]
    for place, given, known in [*parts, *(("[[runs]]", run, _RUN) for run in experiment["runs"])]:
        for key in given.keys() - known:
            raise ValueError(
                f"{place} of an experiment.toml has no setting `{key}`. {did_you_mean(key, sorted(known))}"
            )


def configurations(experiment: dict[str, Any], data_dir: str | None) -> list[tuple[str, RunConfig]]:
    """(name, config) of every run and seed, seed by seed, so that a sweep cut short has all runs once."""
    check_keys(experiment)
    common = experiment["common"]
    recipe = common.get("recipe", {})
    found = []
    for k in range(max(len(run["seeds"]) for run in experiment["runs"])):
        for run in experiment["runs"]:
            if k >= len(run["seeds"]):
                continue
            settings = {**recipe, **run.get("recipe", {})}
            options = {**common, **{key: run[key] for key in ("labels", "validation") if key in run}}
            found.append(
                (
                    run["name"],
                    RunConfig(
                        dataset=options["dataset"],
                        model=run["model"],
                        recipe=load_recipe(settings.pop("name", "modern"), **settings),
                        labels=options.get("labels"),
                        validation=options.get("validation", 0.0),
                        evaluate=experiment.get("evaluate", "test"),
                        seed=run["seeds"][k],
                        data_dir=data_dir,
                        precision=options.get("precision", "32-true"),
                        compile=options.get("compile", False),
                        cuda_graphs=options.get("cuda_graphs", False),
                        channels_last=options.get("channels_last", False),
                        progress=False,
                    ),
                )
            )
    return found


def check_results(experiment: dict[str, Any], planned: list[tuple[str, RunConfig]], rows: list[dict[str, Any]]) -> None:
    """Refuse results of other settings than those that their name stands for now."""
    now = {(name, config.seed): config for name, config in planned}
    for row in rows:
        config = now.get((row["name"], row["seed"]))
        if config is None or "diverged" in row:
            continue
        share = config.validation or 0.0
        held_out = int(share) if share >= 1 else 0
        labels = None if config.labels is None or 0 < share < 1 else config.labels - held_out
        same = {
            "model": row["model"] == config.model,
            "recipe": row.get("recipe") is None or _recipe(row) == config.recipe,  # early rows do not tell it
            "number of labels": labels is None or row["labels"] == labels,
            "kind of error": error_kind(experiment) in row,
        }
        for what, holds in same.items():
            if not holds:
                raise ValueError(
                    f"results.json has {row['name']!r}, seed {row['seed']}, with another {what} than experiment.toml "
                    "has now. Give the run another name, or remove its rows."
                )


def _recipe(row: dict[str, Any]) -> Recipe:
    """The recipe of a row; settings that did not exist then are what they are by default."""
    return Recipe.from_dict({key: tuple(v) if isinstance(v, list) else v for key, v in row["recipe"].items()})


def error_kind(experiment: dict[str, Any]) -> str:
    """Under which name results have the error that the experiment is about."""
    return "validation_error" if experiment.get("evaluate") == "validation" else "test_error"


def summary(experiment: dict[str, Any], finished: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mean and spread of the error of each run over its seeds, beside the paper's figure."""
    rows = []
    kind = error_kind(experiment)
    for run in experiment["runs"]:
        errors = [100 * r[kind] for r in finished if r["name"] == run["name"] and "diverged" not in r]
        if errors:
            rows.append(
                {
                    "name": run["name"],
                    "paper": run.get("paper"),
                    f"{kind}_percent": round(statistics.mean(errors), 2),
                    "standard_deviation": round(statistics.stdev(errors), 2) if len(errors) > 1 else None,
                    "seeds": len(errors),
                }
            )
    return rows


def run_one(name: str, config: RunConfig, folder: Path) -> dict[str, Any]:
    """One line of results.json; a run that diverged has no errors in it, but says so."""
    recipe = config.recipe.to_dict()
    try:
        found = train(config, folder)
    except DivergenceError as error:
        return {"name": name, "seed": config.seed, "diverged": str(error), "recipe": recipe}
    poses = found.pop("poses")
    row = {"name": name, **found, "recipe": recipe}
    return row if poses is None else {**row, "all_poses_error": 1 - poses["all_poses"]}


def outcome(experiment: dict[str, Any], row: dict[str, Any]) -> str:
    """What came of a run, in a few words."""
    if "diverged" in row:
        return str(row["diverged"])
    kind = error_kind(experiment)
    return f"{100 * row[kind]:.2f} % {kind.replace('_', ' ')}, {row['training_minutes']:.2f} min"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("experiment", type=Path, help="a folder with experiment.toml")
    parser.add_argument("--data-dir", help="where the data set lies")
    parser.add_argument("--runs", type=Path, default=Path("runs"), help="where run folders go")
    parser.add_argument("--minutes", type=float, help="start no run that would end later than this")
    parser.add_argument("--workers", type=int, default=1, help="runs side by side; small networks leave a GPU idle")
    arguments = parser.parse_args()
    experiment = tomllib.loads((arguments.experiment / "experiment.toml").read_text())
    target = arguments.experiment / "results.json"
    planned = configurations(experiment, arguments.data_dir)
    results = json.loads(target.read_text()) if target.is_file() else {"claim": experiment["claim"], "runs": []}
    check_results(experiment, planned, results["runs"])
    for _, config in planned:
        count_parameters(config.model)  # a wrong option is refused before anything is trained
    done = {(r["name"], r["seed"]) for r in results["runs"]}
    waiting = [(n, c) for n, c in planned if (n, c.seed) not in done]
    if not waiting:
        print(f"nothing is left to run: all {len(planned)} runs are in {target}")
    started, longest = time.monotonic(), 0.0
    running: dict[Future[dict[str, Any]], float] = {}
    with ProcessPoolExecutor(arguments.workers, mp_context=get_context("spawn")) as pool:
        while waiting or running:
            late = arguments.minutes is not None and time.monotonic() - started + longest > 60 * arguments.minutes
            if late and waiting:
                print(f"no time left for {len(waiting)} runs, {waiting[0][0]} first")
                waiting = []
            while waiting and len(running) < arguments.workers:
                name, config = waiting.pop(0)
                folder = arguments.runs / arguments.experiment.name / f"{name.replace(' ', '_')}-seed{config.seed}"
                running[pool.submit(run_one, name, config, folder)] = time.monotonic()
            finished, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in finished:
                longest = max(longest, time.monotonic() - running.pop(future))
                row = future.result()
                results["runs"].append({**row, "side_by_side": arguments.workers})
                results["summary"] = summary(experiment, results["runs"])
                results["environment"] = environment()
                write_json(target, results)
                print(f"{row['name']}, seed {row['seed']}: {outcome(experiment, row)}", flush=True)


if __name__ == "__main__":
    main()
