"""The value of equivariance: a steerable and a plain network of equal size learn digits and are tested in all poses.

The steerable network learns from upright digits. The plain one is shown them turned and mirrored, for as long as the
steerable one takes: a network that does not know poses by itself has to learn them.

`make demo` runs this. It uses scikit-learn's digits and takes about a minute on two free CPU cores. It writes a report
and a picture of one digit in all poses; the picture at the top of README.md is a copy.
"""

from __future__ import annotations

import argparse
import logging
import shutil
import time
import warnings
from pathlib import Path
from typing import Any

from demo_picture import demo_picture
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.table import Table

from steerable.figures.style import save
from steerable.models import build_model, plain_width
from steerable.reporting.report import write_report
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe, load_recipe
from steerable.training.running.run import train

STEERABLE: dict[str, Any] = {"name": "resnet", "depth": 8, "copies": 2, "head": "invariant"}
POSES = {"augment": True, "quarter_turns": True, "shift": 0}  # what the plain network is shown
AS_LONG = 3  # times as many epochs of the plain network take about as long


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where runs and report go")
    parser.add_argument(
        "--epochs", type=int, default=20, help="of the steerable network; the plain one has three times as many"
    )
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    console = Console()
    size = sum(p.numel() for p in build_model(in_channels=1, **STEERABLE).parameters())
    plain = {"name": "plain_resnet", "depth": 8, "width": plain_width(8, size, in_channels=1)}
    console.print(
        "Two networks learn from 1,438 digits of 8×8 pixels. The steerable one sees them upright. The plain one sees "
        f"them turned and mirrored as well, for {AS_LONG} times as many epochs, which take about as long. Both are "
        "then tested on 359 others, each in all eight poses."
    )
    shutil.rmtree(arguments.out, ignore_errors=True)
    started, results = time.perf_counter(), {}
    contestants: dict[str, tuple[dict[str, Any], Recipe]] = {
        "steerable": (STEERABLE, load_recipe("demo", epochs=arguments.epochs)),
        "plain": (plain, load_recipe("demo", epochs=AS_LONG * arguments.epochs, **POSES)),
    }
    for name, (model, recipe) in contestants.items():
        config = RunConfig(
            dataset="digits",
            model=dict(model),
            recipe=recipe,
            seed=arguments.seed,
            accelerator="cpu",
            progress=False,
        )
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            progress.add_task(f"training the {name} network, {recipe.epochs} epochs", total=None)
            results[name] = train(config, arguments.out / name)
    report = write_report([arguments.out / name for name in results], arguments.out / "report.html")
    picture = save(demo_picture(arguments.out, results), arguments.out / "poses.png")
    show_results(results, console)
    console.print(f"{time.perf_counter() - started:.0f} s. Report with curves, confusions and costs: {report}")
    console.print(f"One digit in all poses, with the answers of both networks: {picture}")


def show_results(results: dict[str, dict[str, Any]], console: Console) -> None:
    """Print how often each network is right in each pose, how much a pose changes its scores, and its time."""
    table = Table(title="Accuracy on the test digits")
    table.add_column("pose")
    for name, found in results.items():
        table.add_column(f"{name}, {found['parameters']:,} parameters", justify="right")
    for element in results["steerable"]["poses"]["accuracy"]:
        table.add_row(element, *(f"{found['poses']['accuracy'][element]:.1%}" for found in results.values()))
    table.add_section()
    table.add_row("all poses", *(f"[bold]{found['poses']['all_poses']:.1%}[/]" for found in results.values()))
    table.add_row("largest drift", *(f"{max(found['poses']['drift'].values()):.1e}" for found in results.values()))
    table.add_row("training", *(f"{60 * found['training_minutes']:.0f} s" for found in results.values()))
    console.print(table)
    console.print(
        "Poses: e upright, r turned by 90°, m mirrored, mr mirrored after a turn. The drift is how much a pose changes "
        "the scores: the steerable network gives all poses the same ones, to rounding error."
    )


if __name__ == "__main__":
    main()
