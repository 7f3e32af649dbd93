"""``steerable train``: a run from a data set's name, or from a folder or table of one's own images."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from steerable.cli.application import DataDir, Json, ReadingBar, app
from steerable.cli.trained_models import print_results
from steerable.extras import require

if TYPE_CHECKING:
    from steerable.training.config import RunConfig

__all__ = ["train"]


@app.command()
def train(
    dataset: Annotated[
        str,
        typer.Argument(
            help="A folder with one sub-folder of images per class; a .csv file with the columns file and label; or "
            "digits, cifar10, cifar100."
        ),
    ],
    out: Annotated[
        Path | None,
        typer.Option(help="The run folder; an interrupted run in it is resumed. By default runs/NAME."),
    ] = None,
    params: Annotated[
        int | None,
        typer.Option(
            help="How large the network is, roughly. For a folder or .csv 100000, or fewer where time is short.", min=1
        ),
    ] = None,
    minutes: Annotated[
        float | None,
        typer.Option("--minutes", "--max-minutes", help="Fit the run to this time. 10 for a folder or .csv.", min=0.01),
    ] = None,
    epochs: Annotated[int | None, typer.Option(help="Stretch the recipe's schedule to so many.", min=1)] = None,
    image_size: Annotated[
        int | None, typer.Option(help="Resize images to this. By default their median size, up to 128.", min=4)
    ] = None,
    validation: Annotated[
        float | None,
        typer.Option(help="Hold out so many (or this share) for validation. 0.15 for a folder or .csv.", min=0),
    ] = None,
    patience: Annotated[
        int | None,
        typer.Option(
            help="Stop after so many epochs without a lower validation loss, and keep the best; 0: never. 20 for a "
            "folder or .csv.",
            min=0,
        ),
    ] = None,
    model: Annotated[str, typer.Option(help="resnet or plain_resnet.")] = "resnet",
    option: Annotated[
        list[str] | None,
        typer.Option(
            "--option",
            "-m",
            help="An option of the model, such as copies=4. Repeatable. resnet: depth, copies, group, stream, inner, "
            "head (linear, mirror, invariant, max), downsampling (pool, stride). plain_resnet: depth, width, inner, "
            "crelu.",
        ),
    ] = None,
    recipe: Annotated[
        str | None,
        typer.Option(help="images (for a folder or .csv), modern, few (labels), paper, demo, or a .toml file."),
    ] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step, over all devices.", min=1)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="In place of the recipe's.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="In place of the recipe's.")] = None,
    rates_by_sharing: Annotated[
        bool | None,
        typer.Option(help="Scale the learning rate of each filter bank by its weights per parameter, μ; decay by 1/μ."),
    ] = None,
    augment: Annotated[bool | None, typer.Option(help="Shifts and mirror images, the '+' of the paper.")] = None,
    labels: Annotated[int | None, typer.Option(help="Use so many labelled images, balanced.", min=1)] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is random.", min=0)] = 0,
    data_dir: DataDir = None,
    precision: Annotated[str, typer.Option(help="32-true, bf16-mixed or 16-mixed.")] = "32-true",
    compile: Annotated[bool, typer.Option(help="Use torch.compile.")] = False,  # noqa: A002 - the option's name
    cuda_graphs: Annotated[
        bool,
        typer.Option(help="Record the network's passes, compiled or not, so that a GPU does not wait for Python."),
    ] = False,
    channels_last: Annotated[bool, typer.Option(help="The memory format that GPUs prefer.")] = False,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or gpu.")] = "auto",
    devices: Annotated[int, typer.Option(help="Processes per node; more than one is DDP.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.", min=1)] = 1,
    progress: Annotated[bool, typer.Option(help="Show progress bars.")] = True,
    checkpoint_seconds: Annotated[float, typer.Option(help="How often to save; 0 after every epoch.", min=0)] = 60.0,
    as_json: Json = False,
) -> None:
    """Train a network and write a run folder with curves, checkpoints, the model, results and a report.

    For a folder of your own images nothing else need be given.
    """
    # What is needed at the end of a run, to save the network and to draw the report, is missed at once.
    require("lightning", "torchmetrics", "huggingface_hub", "safetensors", "matplotlib")
    from steerable.training.defaults import configured

    config = configured(
        dataset,
        {"name": model, **_options(option or [])},
        recipe=recipe,
        changes={
            "epochs": epochs,
            "batch_size": batch_size,
            "learning_rate": learning_rate,
            "weight_decay": weight_decay,
            "rates_by_sharing": rates_by_sharing,
            "augment": augment,
        },
        parameters=params,
        minutes=minutes,
        validation=validation,
        patience=patience,
        labels=labels,
        seed=seed,
        data_dir=None if data_dir is None else str(data_dir),
        image_size=image_size,
        precision=precision,
        compile=compile,
        cuda_graphs=cuda_graphs,
        channels_last=channels_last,
        accelerator=accelerator,
        devices=devices,
        nodes=nodes,
        progress=progress and not as_json,
        checkpoint_seconds=checkpoint_seconds,
    )
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


def _options(texts: list[str]) -> dict[str, Any]:
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
