"""The application of all commands, and what they share: options, the console, and how errors are shown."""

from __future__ import annotations

import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from steerable import __version__
from steerable.errors import listing

__all__ = ["DataDir", "Json", "RunFolder", "RunFolders", "app", "at_home", "console", "progress_bar", "run", "there"]

app = typer.Typer(
    help="Steerable CNNs: networks that give the same answer however an image is turned or mirrored.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # boxes leave a terminal of 80 columns 18 for the text
)
console = Console()

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDir = Annotated[Path | None, typer.Option(help="The folder with the data set's files, or to download them to.")]


def at_home(path: Path | None) -> Path | None:
    """The path with ``~`` replaced by the home folder; a shell does not do so in ``--out=~/runs``."""
    return None if path is None else path.expanduser()


def there(path: Path | None) -> Path | None:
    """The same, for a file or folder that has to exist."""
    path = at_home(path)
    if path is not None and not path.exists():
        raise typer.BadParameter(f"`{path}` does not exist.")
    return path


def _existing(path: Path) -> Path:
    path = path.expanduser()
    if path.is_dir():
        return path
    what = "is a file, not a run folder" if path.exists() else "does not exist"
    near = sorted(found.parent for found in path.parent.glob("*/config.json"))
    others = f" Run folders beside it: {listing(near, 5)}." if near else ""
    raise typer.BadParameter(f"`{path}` {what}.{others} `steerable train IMAGES` makes one, `runs/IMAGES` by default.")


RunFolder = Annotated[
    Path,
    typer.Argument(
        metavar="RUN", help="A run folder, or a folder that `export` wrote.", callback=_existing, show_default=False
    ),
]

RunFolders = Annotated[
    list[Path],
    typer.Argument(metavar="RUNS", help="Run folders to compare.", callback=lambda paths: list(map(_existing, paths))),
]

LONG = 2.0  # seconds after which a user wonders what a command is doing

# A user's mistake, or the state of the user's files; anything else is a bug and shows its traceback.
USER_ERRORS = (ValueError, TypeError, OSError)
FULL_MEMORY = ("out of memory", "allocate memory")  # what torch says on a GPU and on a CPU


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
        except (MemoryError, RuntimeError) as error:
            if not isinstance(error, MemoryError) and not any(words in str(error) for words in FULL_MEMORY):
                raise
            why = str(error).partition("\n")[0]
            _fail(
                "there is not enough memory. Smaller images or tiles, a smaller batch, or a smaller network need "
                f"less.{f' ({why})' if why else ''}"
            )


@contextmanager
def progress_bar(what: str) -> Iterator[Callable[[int, int], None]]:
    """A progress bar with the time while something is done, or a line if there is no terminal.

    It yields a function to call with (done, total); until the first call the bar only moves. The line is printed only
    if something takes long, so that an error that is noticed at once is the only line.
    """
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TimeElapsedColumn(),
        console=Console(stderr=True),
        transient=True,
        redirect_stdout=False,
    )
    if bars.console.is_terminal:
        with bars:
            task = bars.add_task(what, total=None)
            yield lambda done, total: bars.update(task, completed=done, total=total)
        return
    line = threading.Timer(LONG, typer.echo, [f"{what} …"], {"err": True})
    line.start()
    try:
        yield lambda done, total: None
    finally:
        line.cancel()


def _fail(message: str) -> NoReturn:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(message, err=True)
    raise SystemExit(2)


def _show_warning(message: Warning | str, *place: Any, **more: Any) -> None:
    """Show a warning without the line of code that it came from, which does not help a user."""
    if not sys.stderr.closed:
        typer.secho("warning: ", fg="yellow", err=True, nl=False)
        typer.echo(str(message), err=True)
