"""``steerable evaluate``, ``steerable predict`` and ``steerable export``: commands that use a trained network."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from steerable.cli.application import DataDir, Json, RunFolder, app, at_home, console, progress_bar, there
from steerable.cli.comparisons import print_comparison, recorded_comparison
from steerable.training.evaluation.class_figures import counted_thing, nothing_learnt

if TYPE_CHECKING:
    from steerable.training.trained_networks.trained_model import Prediction
    from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter

__all__ = ["evaluate", "export", "predict", "print_results"]


@app.command()
def evaluate(
    run: RunFolder,
    dataset: Annotated[
        str | None, typer.Option(help="A data set, folder or .csv to test on, in place of the run's own test images.")
    ] = None,
    data_dir: DataDir = None,
    as_json: Json = False,
) -> None:
    """Test a trained network on every pose of its test images.

    If the run was compared with a plain network, both are tested.
    """
    from steerable.training.trained_networks.trained_segmenter import load_trained

    trained = load_trained(run)
    where = None if data_dir is None else str(data_dir)
    with nullcontext() if as_json else progress_bar("testing all poses") as progress:
        results = trained.evaluate(dataset, where, progress)
    if (compared := recorded_comparison(run, trained, dataset, where)) is not None:
        results["comparison"] = compared
    print_results(results, as_json, None)


@app.command()
def predict(
    run: RunFolder,
    images: Annotated[
        Path, typer.Argument(metavar="IMAGES", help="An image or a volume, or a folder of them.", callback=there)
    ],
    out: Annotated[
        Path | None, typer.Option("--csv", help="The CSV file to write, instead of printing.", callback=at_home)
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of CSV.")] = False,
    labels: Annotated[
        Path | None, typer.Option("--out", help="For segmentation: the folder to write label images into.")
    ] = None,
    tile: Annotated[
        int | None,
        typer.Option(
            help="For segmentation: the side of the squares that images are cut into; smaller ones need less memory.",
            min=32,
        ),
    ] = None,
) -> None:
    """Predict the class of each image, or write label images.

    The most probable class and all probabilities are printed, or written to the file --csv. A network for segmentation
    writes a label image for each image, of any size, into the folder --out; if it is killed, the same command continues
    where it stopped. Unreadable files are named and left out.
    """
    from steerable.atomic import check_new_file, write_text
    from steerable.data.files import printable
    from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter, load_trained

    if out is not None and as_json:
        raise ValueError("--csv writes a table and --json prints JSON; give one of the two.")
    if out is not None:
        check_new_file(out, "predictions.csv")
    trained = load_trained(run)
    if isinstance(trained, TrainedSegmenter):
        _segment(trained, images, labels, tile, refused="--csv" if out is not None else "--json" if as_json else "")
        return
    if labels is not None or tile is not None:
        raise ValueError("--out and --tile are for segmentation, and this network classifies images. Leave them out.")
    with nullcontext() if out is None else progress_bar("predicting") as progress:
        predictions, skipped = trained.predict_files(images, progress)
    _say_left_out(images, predictions, skipped)
    if as_json:
        typer.echo(json.dumps([_as_values(p, trained.classes) for p in predictions], indent=2))
        return
    table = _as_table(predictions, trained.classes)
    if out is None:
        typer.echo(printable(table), nl=False)
    else:
        write_text(out, table)
        typer.echo(f"{len(predictions)} predictions written to {out}")


def _say_left_out(images: Path, done: Sequence[object], skipped: Sequence[tuple[str, str]]) -> None:
    """Name the files that could not be read, and raise a ValueError if there were no others."""
    from steerable.data.files import named

    if not done:
        why = f": {named(skipped)}" if skipped else ": it contains no files"
        raise ValueError(f"no image in {images} can be read{why}.")
    for path, reason in skipped:
        typer.echo(f"left out {path}: {reason}", err=True)


def _as_values(found: Prediction, classes: Sequence[str]) -> dict[str, Any]:
    from steerable.data.files import printable

    return {
        "file": printable(found.file),
        "class": found.label,
        "probability": found.probability,
        "probabilities": dict(zip(classes, found.probabilities, strict=True)),
    }


def _as_table(predictions: Sequence[Prediction], classes: Sequence[str]) -> str:
    text = io.StringIO(newline="")
    writer = csv.writer(text, lineterminator="\n")  # which other programs on a pipe expect
    writer.writerow(["file", "class", "probability", *(f"p({name})" for name in classes)])
    writer.writerows(
        [p.file, p.label, f"{p.probability:.4f}", *(f"{share:.4f}" for share in p.probabilities)] for p in predictions
    )
    return text.getvalue()


def _segment(trained: TrainedSegmenter, images: Path, out: Path | None, tile: int | None, *, refused: str) -> None:
    """Write label images; ``refused`` is a given option that only networks that classify images have."""
    if refused:
        raise ValueError(f"{refused} is for networks that classify images, and this one segments them. Leave it out.")
    if out is None:
        raise ValueError("this network segments images: give a folder for the label images, such as --out predicted.")
    with progress_bar("segmenting") as progress:
        written, skipped = trained.write_label_images(images, out, tile=tile, progress=progress)
    _say_left_out(images, written, skipped)
    legend = "0 background, 1, 2, … objects" if trained.answer.kind == "instances" else ", ".join(_legend(trained))
    images_written = "1 label image" if len(written) == 1 else f"{len(written)} label images"
    typer.echo(f"{images_written} in {out}: {legend}")


def _legend(trained: TrainedSegmenter) -> list[str]:
    """The number in a mask that stands for each class, and the class."""
    from steerable.data.mask_files import label_name

    pairs = zip(trained.mask_values, trained.classes, strict=True)
    return [label_name(value) if label_name(value) == name else f"{label_name(value)} {name}" for value, name in pairs]


@app.command()
def export(
    run: RunFolder,
    onnx: Annotated[
        Path | None,
        typer.Option(help="The ONNX file to write; it takes images and gives probabilities.", callback=at_home),
    ] = None,
    safetensors: Annotated[
        Path | None,
        typer.Option(help="The folder to write, with weights, config and class names.", callback=at_home),
    ] = None,
    licence: Annotated[
        str | None,
        typer.Option(
            "--licence",
            "--license",
            help="The licence that you give to your model, such as cc-by-4.0, for its model card.",
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Write a trained network in a form that other programs can read.

    The ONNX file takes images (batch, channels, size, size), already cut to a square and resized, or volumes, cut to a
    cube, and gives the scores and probabilities of the classes. A network for segmentation takes images of any height
    and width. The images are uint8, or float32 counts if the network was trained on images of more than 8 bits. The
    file's metadata give the classes, the size, the channels and the kind of pixels.
    """
    if onnx is None and safetensors is None:
        raise ValueError("nothing to export: give --onnx FILE, --safetensors FOLDER, or both.")
    if licence is not None and safetensors is None:
        raise ValueError("--licence is written into the model card of a folder; give --safetensors FOLDER with it.")
    from steerable.atomic import check_new_file
    from steerable.training.trained_networks.export import check_new_folder, check_onnx, export_onnx, export_safetensors
    from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter, load_trained

    if onnx is not None:
        check_onnx()
        check_new_file(onnx, "model.onnx")
    if safetensors is not None:
        check_new_folder(safetensors)
    trained = load_trained(run)
    written = {}
    if safetensors is not None:
        written["safetensors"] = str(export_safetensors(trained, safetensors, licence=licence))
    if onnx is not None:
        with nullcontext() if as_json else progress_bar("writing the ONNX file"):
            written["onnx"] = str(export_onnx(trained, onnx))
    if as_json:
        sides = ["height", "width"] if isinstance(trained, TrainedSegmenter) else trained.input_shape[1:]
        shape = ["batch", trained.channels, *sides]
        typer.echo(json.dumps({**written, "input": shape, "classes": list(trained.classes)}, indent=2))
        return
    for kind, path in written.items():
        typer.echo(f"{kind}: {path}")
    if onnx is not None and trained.pixels.stretch:
        typer.echo("The ONNX file stretches each image to its own range, as `predict` does; give it whole images.")


def print_results(results: dict[str, Any], as_json: bool, page: Path | None) -> None:
    """Print accuracy and drift by pose, as a table or as JSON."""
    if as_json:
        typer.echo(json.dumps(results, indent=2))
        return
    title = f"{results['model']['name']} on {results['dataset']}: {results['parameters']:,} parameters"
    table = Table(title=Text(title))  # a folder's name is not markup
    poses = results["poses"]
    # Figures of pixels, if the network answers for each of them.
    names = {"dice": "Dice", "iou": "IoU", "average_precision": "mean average precision"}
    overlaps = [figure for figure in names if poses.get(figure)]
    for head in ("pose", "accuracy", *(names[figure] for figure in overlaps), "drift of the scores"):
        table.add_column(head, justify="right")
    for element, accuracy in poses["accuracy"].items():
        figures = [f"{poses[name][element]:.4f}" for name in overlaps]
        table.add_row(element, f"{accuracy:.2%}", *figures, f"{poses['drift'][element]:.1e}")
    table.add_row("mean", f"{poses['all_poses']:.2%}")
    console.print(table)
    if turned := poses.get("turned_accuracy"):
        console.print(_turned_table(turned, poses["turned_drift"]))
    if overlaps:
        each = ", ".join(f"{name}: {value:.4f}" for name, value in poses["class_dice"].items() if value is not None)
        typer.echo(f"Dice of all test images: {results['test_dice']:.4f} ({each}); IoU {results['test_iou']:.4f}")
        if "test_average_precision" in results:
            mean, half = results["test_average_precision"], results["test_ap50"]
            typer.echo(f"Objects: mean average precision {mean:.4f} over IoU 0.5 to 0.95; {half:.4f} at 0.5")
    else:
        _print_figures(results)
    if nothing := nothing_learnt(poses["confusion"], results["classes"], counted_thing(results)):
        typer.secho(nothing, fg="yellow")
    if results.get("comparison"):
        print_comparison(results["comparison"])
    if page is not None:
        typer.echo(f"report: {page}")


def _turned_table(accuracy: dict[str, float], drift: dict[str, float]) -> Table:
    """Accuracy and drift by angle."""
    table = Table(title="turned inside a disc")
    for head in ("angle", "accuracy", "drift of the scores"):
        table.add_column(head, justify="right")
    for angle, value in accuracy.items():
        table.add_row(f"{angle}°", f"{value:.2%}", f"{drift[angle]:.1e}")
    return table


def _print_figures(results: dict[str, Any]) -> None:
    """Print figures in which every class counts alike, and on how many images the poses were tested."""
    poses = results["poses"]
    count = sum(map(sum, poses["confusion"]))
    if "macro_f1" in results:  # runs of earlier versions have none
        each = f"balanced accuracy {results['balanced_accuracy']:.2%}, F1 {results['macro_f1']:.3f}"
        things = f"{count:,} upright test {counted_thing(results)}{'' if count == 1 else 's'}"
        console.print(f"{things}: accuracy {poses['upright']:.2%}, {each} (mean over classes)")
    if 0 < poses.get("images", 0) < count:
        console.print(f"poses: a random sample of {poses['images']:,} of these images")
