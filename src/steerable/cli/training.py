"""``steerable train``: a run from a data set's name, or from a folder or table of one's own images.

Its options are the fields of ``RunConfig`` and ``Recipe`` that are marked as options; a new field is a new option.
"""

from __future__ import annotations

import inspect
import json
import logging
import os
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from steerable.cli.application import Json, ReadingBar, app
from steerable.cli.trained_models import print_results
from steerable.extras import require
from steerable.training.config import RunConfig
from steerable.training.limits import Range
from steerable.training.recipes import Recipe, recipe_names
from steerable.training.settings import settings_of

__all__ = ["train"]

PANELS = ("", "Network and recipe", "Speed and hardware")
"""The headings of the options in the order in which ``--help`` shows them."""
BY_DATA = ("parameters", "minutes", "validation", "patience")
"""Settings whose default depends on the data set: the help texts say how."""

Dataset = Annotated[str, typer.Argument(help=settings_of(RunConfig)["dataset"].help)]
Out = Annotated[
    Path | None,
    typer.Option(help="The run folder; an interrupted run in it is resumed. By default runs/NAME."),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        help="The plan.json of another run on the same images, to repeat that run bit for bit.",
        exists=True,
        dir_okay=False,
    ),
]
Model = Annotated[str, typer.Option(help="resnet or plain_resnet.", rich_help_panel=PANELS[1])]
ModelOptions = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        "-m",
        help="An option of the model, such as copies=4. Repeatable. resnet: depth, copies, group, stream, inner, "
        "head (linear, mirror, invariant, max), downsampling (pool, stride). plain_resnet: depth, width, inner, "
        "crelu.",
        rich_help_panel=PANELS[1],
    ),
]
RecipeName = Annotated[
    str | None,
    typer.Option(
        help=f"{', '.join(recipe_names())}, or a .toml file of your own. images for a folder or .csv, else modern.",
        rich_help_panel=PANELS[1],
    ),
]


def _options(kind: type) -> list[inspect.Parameter]:
    """An option for each field that is to have one."""
    hints, known = get_type_hints(kind), settings_of(kind)
    found = []
    for field in fields(kind):
        about = known.get(field.name)
        if about is None or not about.option:
            continue
        hint, default = hints[field.name], field.default
        if kind is Recipe or field.name in BY_DATA:  # what is not said is not changed
            hint, default = hint | None, None
        lowest = about.limit.lowest if isinstance(about.limit, Range) and not about.limit.above else None
        option = typer.Option(*about.flags, help=about.help, min=lowest, rich_help_panel=about.panel or None)
        found.append(
            inspect.Parameter(
                field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[hint, option]
            )
        )
    return found


def _with_options(command: Callable[..., None]) -> Callable[..., None]:
    """The command with an option for each such field; it takes them by name."""
    written = inspect.signature(command, eval_str=True).parameters.values()
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in written if p.name != "settings"]
    found = sorted([*own, *_options(RunConfig), *_options(Recipe)], key=lambda p: PANELS.index(_panel(p)))
    command.__signature__ = inspect.Signature(found)  # type: ignore[attr-defined]
    return command


def _panel(parameter: inspect.Parameter) -> str:
    details = getattr(parameter.annotation, "__metadata__", ())
    return next((detail.rich_help_panel for detail in details), None) or ""


@app.command()
@_with_options
def train(
    context: typer.Context,
    dataset: Dataset,
    out: Out = None,
    plan: PlanFile = None,
    as_json: Json = False,
    model: Model = "resnet",
    option: ModelOptions = None,
    recipe: RecipeName = None,
    **settings: Any,
) -> None:
    """Train a network and write a run folder with curves, checkpoints, the model, results and a report.

    For a folder of your own images nothing else need be given.
    """
    # What is needed at the end of a run, to save the network and to draw the report, is missed at once.
    require("lightning", "torchmetrics", "huggingface_hub", "safetensors", "matplotlib")
    from steerable.training.defaults import configured, repeated
    from steerable.training.plan import Plan

    said = {name: value for name, value in settings.items() if _is_said(context, name)}
    said["progress"] = settings["progress"] and not as_json
    changes = {name: said.pop(name) for name in settings_of(Recipe) if name in said}
    network = {
        **({"name": model} if plan is None or _is_said(context, "model") else {}),
        **_model_options(option or []),
    }
    followed = None if plan is None else Plan.load(plan)
    if followed is None:
        config = configured(dataset, network, recipe=recipe, changes=changes, **said)
    else:
        config = repeated(followed, dataset, model=network, recipe=recipe, changes=changes, **said)
    folder = _default_folder(config) if out is None else out
    from lightning.pytorch.utilities import rank_zero_only

    from steerable.reporting.report import write_report
    from steerable.training.interruption import RunInterrupted
    from steerable.training.run import train as run

    for name in ("lightning.pytorch", "lightning.fabric"):  # they greet at length; importing them resets the level
        logging.getLogger(name).setLevel(logging.ERROR)
    speaks = os.environ.get("LOCAL_RANK", "0") == "0"  # with DDP, one process speaks for all
    try:
        results = run(
            config,
            folder,
            plan=followed,
            progress=ReadingBar("reading images") if config.progress and speaks else None,
            tell=None if as_json else typer.echo,
        )
    except RunInterrupted as stop:
        if speaks:
            typer.echo(str(stop), err=True)
        raise typer.Exit(stop.exit_code) from stop
    if getattr(rank_zero_only, "rank", 0) == 0:
        page = write_report([folder], folder / "report.html")
        print_results(results, as_json, page)
        if not as_json:
            typer.echo(f"Next: steerable predict {folder} IMAGES, steerable export {folder} --onnx model.onnx")


def _is_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _default_folder(config: RunConfig) -> Path:
    """runs/NAME, or runs/NAME-2 and so on where others are taken by runs with other settings."""
    from steerable.data.datasets import DATASETS
    from steerable.data.files import source_name
    from steerable.training.run import check_run_folder

    name = config.dataset if config.dataset in DATASETS else source_name(Path(config.dataset))
    number = 1
    while True:
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            check_run_folder(config, folder)
        except FileExistsError:
            number += 1
        else:
            return folder


def _model_options(texts: list[str]) -> dict[str, Any]:
    """key=value pairs; numbers are numbers, the rest is text."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"a model's option is written key=value, such as copies=4; got {text!r}.")
        try:
            options[key] = json.loads(value)
        except (ValueError, RecursionError):  # a number of thousands of digits, brackets in brackets
            options[key] = value
    return options
