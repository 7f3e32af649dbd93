"""``steerable report``: run folders as one HTML page."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from steerable.cli.application import RunFolders, app, at_home

__all__ = ["report"]


@app.command()
def report(
    runs: RunFolders,
    out: Annotated[Path, typer.Option(help="The HTML file to write.", callback=at_home)] = Path("report.html"),
) -> None:
    """Write one HTML page about one or several runs.

    It shows their curves, accuracy and drift in every pose, confusion matrices and costs.
    """
    from steerable.atomic import check_new_file

    check_new_file(out, "report.html")
    from steerable.reporting.report import write_page
    from steerable.reporting.run_records import read_runs

    records = read_runs(runs)
    page = write_page(records, out)
    for record in records:
        for damage in record.damage:
            typer.echo(f"warning: the run `{record.name}` is damaged: {damage}", err=True)
    typer.echo(f"written: {page}")
