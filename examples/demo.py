"""What equivariance buys: a steerable and a plain network of equal size learn upright digits and are tested turned.

`make demo` runs this. It uses scikit-learn's digits and takes half a minute on two free CPU cores. It writes a report
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
from steerable.training.config import RunConfig
from steerable.training.recipes import load_recipe
from steerable.training.run import train

STEERABLE: dict[str, Any] = {"name": "resnet", "depth": 8, "copies": 2, "head": "invariant"}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("out/demo"), help="where runs and report go")
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
    warnings.filterwarnings("ignore", module="lightning")
    console = Console()
    size = sum(p.numel() for p in build_model(in_channels=1, **STEERABLE).parameters())
    plain = {"name": "plain_resnet", "depth": 8, "width": plain_width(8, size, in_channels=1)}
    console.print(
        "Two networks learn 1,438 upright 8×8 digits. Then they see 359 others, each as it is, turned by 90°, 180° "
        "and 270°, and mirrored."
    )
    shutil.rmtree(arguments.out, ignore_errors=True)
    started, results = time.perf_counter(), {}
    for name, model in (("steerable", STEERABLE), ("plain", plain)):
        config = RunConfig(
            dataset="digits",
            model=dict(model),
            recipe=load_recipe("demo", epochs=arguments.epochs),
            seed=arguments.seed,
            accelerator="cpu",
            progress=False,
        )
        columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
        with Progress(*columns, console=console) as progress:
            progress.add_task(f"training the {name} network, {arguments.epochs} epochs", total=None)
            results[name] = train(config, arguments.out / name)
    report = write_report([arguments.out / name for name in results], arguments.out / "report.html")
    picture = save(demo_picture(arguments.out, results), arguments.out / "poses.png")
    table = Table(title="Accuracy on the test digits")
    table.add_column("pose")
    for name, found in results.items():
        table.add_column(f"{name}, {found['parameters']:,} parameters", justify="right")
    for element in results["steerable"]["poses"]["accuracy"]:
        table.add_row(element, *(f"{found['poses']['accuracy'][element]:.1%}" for found in results.values()))
    table.add_section()
    table.add_row("all poses", *(f"[bold]{found['poses']['all_poses']:.1%}[/]" for found in results.values()))
    console.print(table)
    console.print(
        "Poses: e upright, r turned by 90°, m mirrored, mr mirrored after a turn. The steerable network gives all of "
        "them the same scores, to rounding error."
    )
    console.print(f"{time.perf_counter() - started:.0f} s. Report with curves, confusions and costs: {report}")
    console.print(f"One digit in all poses, with the answers of both networks: {picture}")


if __name__ == "__main__":
    main()
