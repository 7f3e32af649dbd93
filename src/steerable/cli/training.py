"""``steerable train``: a run from a data set's name, or from a folder or table of one's own images.

Its options are the fields of ``RunConfig`` and ``Recipe`` that are marked as options; a new field is a new option.
"""

from __future__ import annotations

import json
import logging
import os
import shlex
import sys
import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steerable.cli.application import Json, app, at_home, progress_bar, there
from steerable.cli.option_fields import HeadedCommand, with_options
from steerable.cli.trained_models import print_results
from steerable.errors import one_of
from steerable.extras import require
from steerable.models.registry import MODELS, models_for
from steerable.training.phases import unseen
from steerable.training.requests.config import KNOWN_DATA_RECIPE, RECIPES_OF_OWN_IMAGES, TRAINED, RunConfig
from steerable.training.requests.recipes import Recipe, recipe_names
from steerable.training.requests.settings import settings_of

if TYPE_CHECKING:
    from steerable.training.requests.plan import Plan

__all__ = ["train"]

BY_DATA = ("parameters", "minutes", "validation", "patience", "task", "volumes", "orientation")
"""Settings whose default depends on the data set, as their help texts say."""

Dataset = Annotated[str, typer.Argument(metavar="DATASET", help=settings_of(RunConfig)["dataset"].help)]


def _plan_in(path: Path | None) -> Path | None:
    """The file, or that of a run folder."""
    path = at_home(path)
    return there(path / "plan.json" if path is not None and path.is_dir() else path)


Out = Annotated[
    Path | None,
    typer.Option(
        help="The run folder; if it holds an interrupted run, that run is resumed. By default runs/NAME.",
        callback=at_home,
    ),
]
PlanFile = Annotated[
    Path | None,
    typer.Option(
        help="The plan.json of another run on the same images, or its folder, to repeat that run bit for bit.",
        callback=_plan_in,
    ),
]

NETWORKS = "; ".join(f"to {task}, {one_of(models)}" for task, models in TRAINED.items())


@dataclass(frozen=True)
class ModelAndRecipe:
    """The options that choose the network and its recipe."""

    model: Annotated[
        str | None,
        typer.Option(
            help=f"The network: {NETWORKS}. The first one is the default.",
            rich_help_panel="Network and recipe",
        ),
    ] = None
    group: Annotated[
        str | None,
        typer.Option(
            help="The moves that should make no difference: C4 (turns by 90°), D4 (these and mirror images, the "
            "default), C8 and D8 (by 45°), SO2 (any angle), … For wide_resnet one group per stage, such as D8,D4,D1. "
            "For volumes O (the default), O_h, or C4 and D4 about z.",
            rich_help_panel="Network and recipe",
        ),
    ] = None
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-m",
            help="An option of the model, such as copies=4. Repeatable. "
            + " ".join(f"{name}: {entry.help}." for models in TRAINED.values() for name, entry in models.items()),
            rich_help_panel="Network and recipe",
        ),
    ] = None
    recipe: Annotated[
        str | None,
        typer.Option(
            help=f"How to train: {', '.join(recipe_names())}, or a .toml file of your own. By default "
            f"`{RECIPES_OF_OWN_IMAGES['classify']}` for a folder or .csv, `{RECIPES_OF_OWN_IMAGES['segment']}` if it "
            f"has masks, and `{KNOWN_DATA_RECIPE}` for a data set with a name.",
            rich_help_panel="Network and recipe",
        ),
    ] = None


@dataclass(frozen=True)
class Besides:
    """The options for what is done besides the training."""

    compare: Annotated[
        str | None,
        typer.Option(
            help="`plain` also trains a plain network with as many parameters for as long, on every turn and mirror "
            "image, and compares the two on the test images. A finished run is not trained again."
        ),
    ] = None
    advise: Annotated[
        bool,
        typer.Option(
            "--advise",
            help="First look at the images as `steerable advise` does, and choose group, head, turns and mirror images "
            "accordingly. A resumed run keeps the choice.",
        ),
    ] = False


@app.command(cls=HeadedCommand)
@with_options([RunConfig, Recipe], unsaid=[*BY_DATA, *settings_of(Recipe)])
def train(
    context: typer.Context,
    dataset: Dataset,
    network: ModelAndRecipe,
    besides: Besides,
    out: Out = None,
    plan: PlanFile = None,
    as_json: Json = False,
    **settings: Any,
) -> None:
    """Train a network on images or volumes of your own.

    All you need is a folder of images or volumes with one sub-folder per class, or with the sub-folders `images` and
    `masks`. The command writes a run folder with the model, curves, checkpoints, results and a report.
    """
    started = time.monotonic()  # before torch is imported, which takes seconds
    # Packages that are needed only at the end of a run, to save the network and draw the report, are checked here too.
    require("lightning", "torchmetrics", "huggingface_hub", "safetensors", "matplotlib")
    said = {name: value for name, value in settings.items() if _is_said(context, name)}
    said["progress"] = settings["progress"] and not as_json
    speaks = os.environ.get("LOCAL_RANK", "0") == "0"  # with DDP, one process speaks for all
    phase = progress_bar if said["progress"] and speaks else unseen
    # Without a terminal, a slow machine would print a line before every error message.
    with phase("loading PyTorch") if sys.stderr.isatty() else nullcontext():
        from steerable.reporting.report import write_report
        from steerable.training.choosing.advised_runs import advised
        from steerable.training.requests.plan import Plan
        from steerable.training.running.interruption import RunInterrupted
        from steerable.training.running.plain_contest import check_comparable, compare_with_plain
        from steerable.training.running.run import is_first_process
        from steerable.training.running.run import train as run

        followed = None if plan is None else Plan.load(plan)
        config = _request(dataset, network, followed, said)
        _check_besides(besides, config, network, followed)
        folder = _default_folder(config, said if besides.advise else None) if out is None else out
    _silence_greetings()
    tell = typer.echo if speaks and not as_json else None
    if tell is not None:
        guessed = config.volumes and "volumes" not in said and followed is None
        _tell_first(tell, config, besides, volumes=dataset if guessed else None)
    if besides.advise:
        config = advised(config, folder, said=said, tell=tell, phase=phase)
        if besides.compare is not None:  # the advice may be a plain network
            check_comparable(config)
    try:
        results = run(config, folder, plan=followed, tell=tell, started=started, phase=phase)
        if besides.compare is not None and not results.get("stopped"):
            results = {**results, "comparison": compare_with_plain(config, folder, results, tell=tell, phase=phase)}
    except RunInterrupted as stop:
        if speaks:
            typer.echo(str(stop), err=True)
        raise typer.Exit(stop.exit_code) from stop
    if not is_first_process():
        return
    with phase("writing the report"):
        page = write_report([folder], folder / "report.html")
    print_results(results, as_json, page)
    if tell is not None:
        _tell_next(tell, results, config, folder)


def _silence_greetings() -> None:
    """Lightning greets at length, and importing it resets the level."""
    for name in ("lightning.pytorch", "lightning.fabric"):
        logging.getLogger(name).setLevel(logging.ERROR)


def _tell_first(tell: Callable[[str], None], config: RunConfig, besides: Besides, volumes: str | None) -> None:
    """Say what is worth knowing before anything is read; ``volumes`` is a folder that was found to hold volumes."""
    if volumes is not None:
        tell(f"{volumes} holds volumes; --no-volumes would read its files as images.")
    if besides.compare is None:
        return
    networks = "Two networks are trained one after the other"
    if config.minutes is None:
        tell(f"{networks}: the steerable one, and a plain one for as long.")
    else:
        both = 2 * config.minutes
        tell(f"{networks}, each for {config.minutes:g} min: the steerable one, and a plain one; {both:g} min in all.")


def _tell_next(tell: Callable[[str], None], results: dict[str, Any], config: RunConfig, folder: Path) -> None:
    """Say what can be done with a run that has ended."""
    if results.get("stopped") or results.get("comparison", {}) is None:
        where = f"in epoch {results['epochs']}" if results.get("stopped") else "while the plain network was trained"
        tell(f"The run was stopped {where}. The same command continues the training.")
    labels = " --out LABELS" if config.task == "segment" else ""
    run = shlex.quote(str(folder))
    tell(f"Next: steerable predict {run} IMAGES{labels}, steerable export {run} --onnx model.onnx")


def _request(dataset: str, network: ModelAndRecipe, followed: Plan | None, said: dict[str, Any]) -> RunConfig:
    """The user's request; with a plan, the plan's request with the user's changes."""
    from steerable.training.choosing.defaults import configured, repeated

    changes = {name: said[name] for name in settings_of(Recipe) if name in said}
    settings = {name: value for name, value in said.items() if name not in changes}
    model = _model_options(network.option or [])
    if network.group is not None:
        model = _with_group(network.model, network.group, model)
    if network.model is not None:
        model = {"name": network.model, **model}
    if followed is None:
        return configured(dataset, model, recipe=network.recipe, changes=changes, **settings)
    return repeated(followed, dataset, model=model, recipe=network.recipe, changes=changes, **settings)


def _check_besides(besides: Besides, config: RunConfig, network: ModelAndRecipe, followed: Plan | None) -> None:
    """Refuse options that contradict each other before any image is read."""
    given = {name for name in ("model", "group") if getattr(network, name) is not None}
    given |= {name for name in ("group", "head", "stream") if name in _model_options(network.option or [])}
    given |= {"from"} if config.start is not None else set()
    given |= {"plan"} if followed is not None else set()
    if besides.advise and given:
        said = f"--{min(given)}"
        raise ValueError(
            f"--advise chooses the network from the images, and {said} gives it. Leave one of the two out."
        )
    if besides.compare not in (None, "plain"):
        raise ValueError(f"a network can only be compared with a plain one, --compare plain; got {besides.compare!r}.")
    if besides.compare is not None:
        from steerable.training.running.plain_contest import check_comparable

        check_comparable(config)


def _with_group(name: str | None, group: str, options: dict[str, Any]) -> dict[str, Any]:
    """The options of a model with those of ``--group``; a wide network has a group per stage."""
    entry = MODELS.get(name or "")  # an unknown name is refused later
    key = "groups" if entry is not None and "groups" in entry.options else "group"
    if entry is not None and key not in entry.options:
        others = models_for(entry.task)
        steerable = one_of(other for other in others if {"group", "groups"} & others[other].options.keys())
        raise ValueError(f"--group {group} is for steerable networks, and {name} is not one. Use --model {steerable}.")
    if options.get(key, group) != group:
        raise ValueError(f"--group {group} and -m {key}={options[key]} say different groups. Give one of them.")
    return {**options, key: group}


def _is_said(context: typer.Context, name: str) -> bool:
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def _default_folder(config: RunConfig, advised: dict[str, Any] | None = None) -> Path:
    """runs/NAME, or runs/NAME-2 and so on if the earlier ones belong to runs with other settings.

    For a run with ``--advise``, ``advised`` is what the user said; for other runs it is None.
    """
    from steerable.data.datasets import DATASETS
    from steerable.data.files import source_name
    from steerable.training.choosing.advised_runs import request_in
    from steerable.training.running.run_folder import check_run_folder

    name = config.dataset if config.dataset in DATASETS else source_name(Path(config.dataset))
    number = 1
    while True:
        folder = Path("runs") / (name if number == 1 else f"{name}-{number}")
        try:
            check_run_folder(config if advised is None else request_in(config, folder, advised), folder)
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
        except (ValueError, RecursionError):  # a number of thousands of digits, deeply nested brackets
            options[key] = value
    return options
