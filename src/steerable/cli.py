"""The ``steerable`` command: train, evaluate, predict, report, cost, types.

Heavy imports (torch, Lightning) happen inside the commands that need them, so that help and tables come at once.
"""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from steerable import __version__
from steerable.families import group_named
from steerable.fields import FieldType, parameter_cost
from steerable.filters import pixel_patch

__all__ = ["app", "main"]

app = typer.Typer(
    help="Steerable CNNs: networks that know how their features move when an image is turned or mirrored.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
)
console = Console()

Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
DataDir = Annotated[Path | None, typer.Option(help="Where the data set's files are, or are downloaded to.")]


@app.callback(invoke_without_command=True)
def about(
    version: Annotated[bool, typer.Option("--version", help="Print the version and stop.")] = False,
) -> None:
    """Steerable CNNs on the command line."""
    if version:
        typer.echo(__version__)
        raise typer.Exit


@app.command()
def types(
    group: Annotated[str, typer.Argument(help="A group: C1, C2, C4, D1, D2, D4, …, O, O_h.")] = "D4",
    as_json: Json = False,
) -> None:
    """What a group offers: its irreps and capsules, and which nonlinearities each admits."""
    found = group_named(group)
    rows: list[dict[str, Any]] = [
        {
            "capsule": name,
            "dim": capsule.dim,
            "kind": capsule.kind,
            "type": list(capsule.type),
            "admits": list(capsule.nonlinearities),
        }
        for name, capsule in found.capsules.items()
    ]
    if as_json:
        typer.echo(json.dumps({"group": found.name, "order": found.order, "capsules": rows}, indent=2))
        return
    table = Table(title=f"{found.name}: {found.order} elements, irreps {', '.join(str(i) for i in found.irreps)}")
    for head in ("capsule", "dim", "matrices", "type", "admits"):
        table.add_column(head)
    for row in rows:
        admits = "anything" if "pointwise" in row["admits"] else ", ".join(row["admits"]) or "nothing"
        table.add_row(row["capsule"], str(row["dim"]), row["kind"], str(tuple(row["type"])), admits)
    console.print(table)


@app.command()
def cost(
    in_type: Annotated[str, typer.Argument(help="A field type, such as '2*regular + E'; or 'resnet'.")],
    out_type: Annotated[str | None, typer.Argument(help="The type to map to; none for a model.")] = None,
    group: Annotated[str, typer.Option(help="The group of both types.")] = "D4",
    kernel_size: Annotated[int, typer.Option(help="Taps along each side of the filter.", min=1)] = 3,
    depth: Annotated[int, typer.Option(help="For 'resnet': its depth, 6·blocks + 2.")] = 14,
    copies: Annotated[int, typer.Option(help="For 'resnet': copies of each capsule in the first stage.", min=1)] = 14,
    size: Annotated[int, typer.Option(help="Height and width of the images, for FLOPs.", min=1)] = 32,
    as_json: Json = False,
) -> None:
    """Channels, parameters, utilisation μ and FLOPs of one convolution, or of all those of the paper's network."""
    rows = (
        _model_costs(depth, copies, group, size)
        if out_type is None
        else _pair_cost(in_type, out_type, group, kernel_size, size)
    )
    if out_type is None and in_type != "resnet":
        raise ValueError(
            f"one argument names a model, and the only one is 'resnet'; got {in_type!r}. Or give two types."
        )
    total = {"parameters": sum(r["parameters"] for r in rows), "flops": sum(r["flops"] for r in rows)}
    if as_json:
        typer.echo(json.dumps({"layers": rows, **total}, indent=2))
        return
    table = Table(title=f"{total['parameters']:,} parameters, {total['flops'] / 1e9:.2f} GFLOP per {size}×{size} image")
    for head in ("layer", "from", "to", "channels", "size", "parameters", "μ", "MFLOP"):
        table.add_column(head, justify="right" if head not in ("layer", "from", "to") else "left")
    for r in rows:
        mu = f"{r['utilization']:.2f}" if r["utilization"] else "–"
        channels = f"{r['in_channels']} → {r['out_channels']}"
        table.add_row(
            r["name"],
            r["in_type"],
            r["out_type"],
            channels,
            str(r["size"]),
            f"{r['parameters']:,}",
            mu,
            f"{r['flops'] / 1e6:.1f}",
        )
    console.print(table)


def _pair_cost(in_text: str, out_text: str, group: str, kernel_size: int, size: int) -> list[dict[str, Any]]:
    found = group_named(group)
    return [_cost_row("convolution", FieldType(found, in_text), FieldType(found, out_text), kernel_size, size)]


def _model_costs(depth: int, copies: int, group: str, size: int) -> list[dict[str, Any]]:
    from steerable.plans import resnet_plan

    rows = []
    for conv in resnet_plan(depth, copies, group=group_named(group)).convolutions:
        stage = int(conv.name[5]) if conv.name.startswith("stage") else 1
        rows.append(_cost_row(conv.name, conv.in_type, conv.out_type, conv.kernel_size, size // 2 ** (stage - 1)))
    return rows


def _cost_row(name: str, in_type: FieldType, out_type: FieldType, kernel_size: int, size: int) -> dict[str, Any]:
    parameters = parameter_cost(in_type, out_type, kernel_size)
    weights = pixel_patch(in_type.group, kernel_size).dim * in_type.channels * out_type.channels
    return {
        "name": name,
        "in_type": str(in_type),
        "out_type": str(out_type),
        "in_channels": in_type.channels,
        "out_channels": out_type.channels,
        "size": size,
        "parameters": parameters,
        "utilization": weights / parameters if parameters else None,
        "flops": 2 * weights * size * size,  # of the dense convolution that carries it out
    }


@app.command()
def train(
    dataset: Annotated[
        str, typer.Argument(help="digits, cifar10, cifar100, or a folder with one sub-folder per class.")
    ],
    out: Annotated[Path, typer.Option(help="The run folder; an interrupted run in it is resumed.")],
    model: Annotated[str, typer.Option(help="resnet or plain_resnet.")] = "resnet",
    option: Annotated[
        list[str] | None, typer.Option("--option", "-m", help="An option of the model, such as copies=4. Repeatable.")
    ] = None,
    recipe: Annotated[str, typer.Option(help="paper, modern, demo, or a .toml file.")] = "modern",
    epochs: Annotated[int | None, typer.Option(help="Stretch the recipe's schedule to so many.", min=1)] = None,
    batch_size: Annotated[int | None, typer.Option(help="Images per step, over all devices.", min=1)] = None,
    learning_rate: Annotated[float | None, typer.Option(help="In place of the recipe's.")] = None,
    weight_decay: Annotated[float | None, typer.Option(help="In place of the recipe's.")] = None,
    augment: Annotated[bool | None, typer.Option(help="Shifts and mirror images, the '+' of the paper.")] = None,
    labels: Annotated[int | None, typer.Option(help="Use so many labelled images, balanced.", min=1)] = None,
    validation: Annotated[float, typer.Option(help="Hold out so many (or this share) for validation.", min=0)] = 0.0,
    seed: Annotated[int, typer.Option(help="Of everything that is random.")] = 0,
    data_dir: DataDir = None,
    image_size: Annotated[int | None, typer.Option(help="Resize images of a folder to this.", min=4)] = None,
    max_minutes: Annotated[float | None, typer.Option(help="Fit the schedule to this time.", min=0.01)] = None,
    precision: Annotated[str, typer.Option(help="32-true or bf16-mixed.")] = "32-true",
    compile: Annotated[bool, typer.Option(help="Use torch.compile.")] = False,  # noqa: A002 - the option's name
    channels_last: Annotated[bool, typer.Option(help="The memory format that GPUs prefer.")] = False,
    accelerator: Annotated[str, typer.Option(help="auto, cpu or gpu.")] = "auto",
    devices: Annotated[int, typer.Option(help="Processes per node; more than one is DDP.", min=1)] = 1,
    nodes: Annotated[int, typer.Option(help="Machines.", min=1)] = 1,
    progress: Annotated[bool, typer.Option(help="Show progress bars.")] = True,
    checkpoint_seconds: Annotated[float, typer.Option(help="How often to save; 0 after every epoch.", min=0)] = 60.0,
    as_json: Json = False,
) -> None:
    """Train a network and write a run folder with curves, checkpoints, the model, results and a report."""
    from steerable.training.config import RunConfig
    from steerable.training.recipes import load_recipe

    config = RunConfig(
        dataset=dataset,
        model={"name": model, **_options(option or [])},
        recipe=load_recipe(
            recipe,
            epochs=epochs,
            batch_size=batch_size,
            learning_rate=learning_rate,
            weight_decay=weight_decay,
            augment=augment,
        ),
        labels=labels,
        validation=validation,
        seed=seed,
        data_dir=None if data_dir is None else str(data_dir),
        image_size=image_size,
        precision=precision,
        compile=compile,
        channels_last=channels_last,
        accelerator=accelerator,
        devices=devices,
        nodes=nodes,
        progress=progress and not as_json,
        checkpoint_seconds=checkpoint_seconds,
    )
    _check_model(config.model)
    from lightning.pytorch.utilities import rank_zero_only

    from steerable.training.report import write_report
    from steerable.training.run import train as run

    results = run(config, out, max_minutes=max_minutes)
    if getattr(rank_zero_only, "rank", 0) == 0:  # with DDP, one process speaks for all
        _print_results(results, as_json, write_report([out], out / "report.html"))


@app.command()
def evaluate(
    run: Annotated[Path, typer.Argument(help="A run folder.", exists=True, file_okay=False)],
    dataset: Annotated[str | None, typer.Option(help="Another data set than the run's own.")] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Test a trained network on every pose of its test images."""
    from steerable.training.trained import TrainedModel

    results = TrainedModel.load(run).evaluate(dataset, None if data_dir is None else str(data_dir))
    _print_results(results, as_json, None)


@app.command()
def predict(
    run: Annotated[Path, typer.Argument(help="A run folder.", exists=True, file_okay=False)],
    images: Annotated[Path, typer.Argument(help="An image, or a folder of images.", exists=True)],
    out: Annotated[Path | None, typer.Option("--csv", help="Write a CSV file instead of printing.")] = None,
) -> None:
    """The class and its probability for each image; unreadable ones are named and left out."""
    from steerable.training.trained import TrainedModel

    predictions, skipped = TrainedModel.load(run).predict_files(images)
    for path, reason in skipped:
        typer.echo(f"left out {path}: {reason}", err=True)
    file = out.open("w", newline="") if out is not None else sys.stdout
    try:
        writer = csv.writer(file)
        writer.writerow(["file", "class", "probability"])
        writer.writerows([p.file, p.label, f"{p.probability:.4f}"] for p in predictions)
    finally:
        if out is not None:
            file.close()
    if out is not None:
        console.print(f"{len(predictions)} predictions written to {out}")


@app.command()
def report(
    runs: Annotated[list[Path], typer.Argument(help="Run folders to compare.", exists=True, file_okay=False)],
    out: Annotated[Path, typer.Option(help="The HTML file to write.")] = Path("report.html"),
) -> None:
    """One HTML page with curves, accuracy and drift under every pose, confusion matrices and costs."""
    from steerable.training.report import write_report

    console.print(f"written: {write_report(runs, out)}")


def _options(texts: list[str]) -> dict[str, Any]:
    """key=value pairs; numbers are numbers, the rest is text."""
    options: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.isidentifier():
            raise ValueError(f"a model's option is written key=value, such as copies=4; got {text!r}.")
        try:
            options[key] = json.loads(value)
        except json.JSONDecodeError:
            options[key] = value
    return options


def _check_model(model: dict[str, Any]) -> None:
    """Build the network once on no device, so that a wrong option is refused before any data is read."""
    import torch

    from steerable.models import build_model

    with torch.device("meta"):
        build_model(model["name"], **{key: value for key, value in model.items() if key != "name"})


def _print_results(results: dict[str, Any], as_json: bool, page: Path | None) -> None:
    if as_json:
        typer.echo(json.dumps(results, indent=2))
        return
    table = Table(title=f"{results['model']['name']} on {results['dataset']}: {results['parameters']:,} parameters")
    for head in ("pose", "accuracy", "drift of the scores"):
        table.add_column(head, justify="right")
    poses = results["poses"]
    for element, accuracy in poses["accuracy"].items():
        table.add_row(element, f"{accuracy:.2%}", f"{poses['drift'][element]:.1e}")
    table.add_row("mean", f"{poses['all_poses']:.2%}", "")
    console.print(table)
    if page is not None:
        console.print(f"report: {page}")


def _fail(message: str) -> NoReturn:
    typer.secho("error: ", fg="red", bold=True, err=True, nl=False)
    typer.echo(message, err=True)
    raise SystemExit(2)


def main() -> None:
    """Entry point: mistakes of the user are one line and exit code 2, not a traceback."""
    try:
        app()
    except (ValueError, TypeError, FileNotFoundError, FileExistsError, NotADirectoryError) as error:
        _fail(str(error))


if __name__ == "__main__":
    main()
