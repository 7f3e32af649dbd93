"""``steerable advise``: what to choose for a folder of images."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from contextlib import nullcontext
from typing import Annotated, Any

import typer
from rich.table import Table

from steerable.cli.application import Json, app, console, progress_bar
from steerable.extras import require
from steerable.training.phases import unseen
from steerable.training.requests.config import RunConfig
from steerable.training.requests.settings import settings_of

__all__ = ["advise", "print_advice"]

HELP = {name: known.help for name, known in settings_of(RunConfig).items()}


@app.command()
def advise(
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help=HELP["dataset"])],
    seconds: Annotated[
        float, typer.Option(help="How long to look, not counting the time to read the images.", min=5)
    ] = 60.0,
    group_by: Annotated[str | None, typer.Option(help=HELP["group_by"])] = None,
    channels: Annotated[str | None, typer.Option(help=HELP["channels"])] = None,
    page: Annotated[str | None, typer.Option(help=HELP["page"])] = None,
    seed: Annotated[int, typer.Option(help=HELP["seed"], min=0)] = 0,
    as_json: Json = False,
) -> None:
    """Look at images and recommend how to train on them.

    The advice names a group, a head, augmentation, a size and a time, each with its reason. A small network learns to
    tell images from their turned and mirrored copies. If it can, the images have an up or a handedness, and a short
    trial shows whether a network should be allowed to use that. Test images are not looked at.
    """
    require("lightning", "torchmetrics", "huggingface_hub", "safetensors")
    phase = unseen if as_json else progress_bar
    # Without a terminal, a slow machine would print a line before every error message.
    with phase("loading PyTorch") if sys.stderr.isatty() else nullcontext():
        from steerable.training.choosing.advising import advise as found_out
        from steerable.training.choosing.defaults import configured

        config = configured(dataset, {}, group_by=group_by, channels=channels, page=page, seed=seed)
    found = found_out(config, seconds=seconds, phase=phase, shown_as=dataset).to_dict()
    if as_json:
        typer.echo(json.dumps(found, indent=2))
    else:
        print_advice(found)


def print_advice(found: Mapping[str, Any]) -> None:
    """Print what was found in a folder, and what follows from it."""
    data = found["data"]
    counts = ", ".join(f"{count:,} {part}" for part, count in data["images"].items() if count)
    height, width = data["image_size"]
    classes = [f"{name} {count:,}" for name, count in zip(data["classes"], data["counts"], strict=True)]
    listed = ", ".join(classes[:8]) + (f", … {len(classes) - 8} more" if len(classes) > 8 else "")
    console.print(
        f"{data['name']}: {counts} images of {height}×{width} pixels, {data['channels']} "
        f"channel{'' if data['channels'] == 1 else 's'}, {len(classes)} classes ({listed}).",
        highlight=False,
        markup=False,
    )
    if found["poses"] is not None:
        _print_poses(found)
    table = Table(title="What to choose", show_lines=True)
    for head in ("", "choice", "why"):
        table.add_column(head)
    for name, advised in found["advice"].items():
        table.add_row(name, advised["choice"], advised["why"])
    console.print(table)
    typer.echo(found["command"])


def _print_poses(found: Mapping[str, Any]) -> None:
    """Print how well images are told from their other poses."""
    poses, tilt = found["poses"], found["tilt"]
    words = {
        "a quarter turn": ("r", "r3"),
        "a half turn": ("r2",),
        "a mirror image, left and right": ("m",),
        "a mirror image, up and down": ("mr2",),
        "a mirror image at a diagonal": ("mr", "mr3"),
    }
    told = poses["told"]
    rows = [
        (name, max((told[move] for move in moves), key=lambda each: each["value"])) for name, moves in words.items()
    ]
    if tilt is not None:
        rows.append(("a tilt by 45°", tilt["told"]["tilt"]))
    table = Table(title=f"How often a move is noticed ({poses['images']:,} images; chance is 50 %)")
    for head in ("", "noticed", "95 % interval"):
        table.add_column(head, justify="left" if not head else "right")
    for name, share in rows:
        table.add_row(name, f"{share['value']:.0%}", f"{share['low']:.0%} to {share['high']:.0%}")
    console.print(table)
    console.print(
        f"The images reveal {poses['bits']:.1f} of {3:.1f} bits of their pose; the original is picked among all eight "
        f"poses in {poses['picked']['value']:.0%} of cases (13 % by chance).",
        highlight=False,
    )
