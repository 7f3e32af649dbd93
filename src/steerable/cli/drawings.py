"""``steerable figures`` and ``steerable explore``: commands that show the mathematics in pictures."""

from __future__ import annotations

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from steerable.algebra.families import group_named
from steerable.cli.application import app, at_home, console
from steerable.extras import require

__all__ = ["explore", "figures"]


@app.command()
def figures(
    out: Annotated[Path, typer.Option(help="The folder to write the figures into.", callback=at_home)],
    group: Annotated[
        str,
        typer.Option(
            help="The group, such as D4. For groups that turn images by angles other than 90°, such as C8, tables, "
            "irreps and filters are drawn; for SO2 and O2, filters; for O, O_h and T, also filters of volumes, as "
            "slices; for other groups, tables and irreps."
        ),
    ] = "D4",
    formats: Annotated[
        str, typer.Option("--format", help="The format of the files: png, svg, or both as png,svg.")
    ] = "png,svg",
) -> None:
    """Draw the paper's figures, and the tables and irreps of a group."""
    from steerable.figures import write_figures

    for path in write_figures(out, group_named(group), formats=tuple(name.strip() for name in formats.split(","))):
        console.print(str(path), soft_wrap=True, highlight=False)


@app.command()
def explore(
    host: Annotated[str, typer.Option(help="The address to listen on; 0.0.0.0 lets other machines in.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port to listen on; 0 chooses a free one.", min=0, max=65535)] = 7860,
    runs: Annotated[
        Path, typer.Option(help="The folder whose run folders the Model tab may open.", callback=at_home)
    ] = Path("."),
    name: Annotated[
        list[str] | None,
        typer.Option(help="Another name by which browsers reach the page, such as that of a proxy. Repeatable."),
    ] = None,
) -> None:
    """Serve a page to explore groups, filters and trained models.

    It also shows costs, and how feature maps turn with an image. Ctrl+C ends it.
    """
    require("gradio")  # before the address is printed
    from steerable.explorer import Explorer

    explorer = Explorer(host, port, runs, name or ())
    console.print(f"the explorer is at {explorer.url} (Ctrl+C ends it)", highlight=False)
    with contextlib.suppress(KeyboardInterrupt):
        explorer.serve()
