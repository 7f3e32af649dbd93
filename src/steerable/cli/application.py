"""The application that all commands belong to, and what they share: options, the console, how errors are shown."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import Progress

from steerable import __version__

__all__ = ["DataDir", "Json", "ReadingBar", "RunFolder", "app", "console", "run"]

app = typer.Typer(
    help="Steerable CNNs: networks that know how their features move when an image is turned or mirrored.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDir = Annotated[Path | None, typer.Option(help="Where the data set's files are, or are downloaded to.")]
RunFolder = Annotated[
    Path, typer.Argument(help="A run folder, or a folder that `export` wrote.", exists=True, file_okay=False)
]

# A user's mistake, or the state of the user's files; anything else is a bug and shows its traceback.
USER_ERRORS = (ValueError, TypeError, OSError)


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Steerable CNNs on the command line."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


def run() -> None:
    """Run the command; a user's mistake is one line and exit code 2, not a traceback, and a warning is one line."""
    with warnings.catch_warnings():
        warnings.showwarning = _show_warning
        try:
            app()
        except USER_ERRORS as error:
            _fail(str(error))


class ReadingBar:
    """A progress bar that appears with the first image and goes with the last one.

    Args:
        what: what is being done, shown beside the bar.
    """

    def __init__(self, what: str) -> None:
        self.what = what
        self._bar: Progress | None = None

    def __call__(self, done: int, total: int) -> None:
        if self._bar is None:
            self._bar = Progress(console=Console(stderr=True), transient=True)
            self._bar.add_task(self.what, total=total)
            self._bar.start()
        self._bar.update(self._bar.task_ids[0], completed=done)
        if done == total:  # Lightning's own bar comes next, and there can be one at a time
            self._bar.stop()
            self._bar = None


def _fail(message: str) -> NoReturn:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(message, err=True)
    raise SystemExit(2)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """Show a warning without the line of code that it came from, which does not help a user."""
    if not sys.stderr.closed:
        typer.secho("warning: ", fg="yellow", err=True, nl=False)
        typer.echo(str(message), err=True)
