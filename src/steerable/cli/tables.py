"""``steerable types`` and ``steerable cost``: the capsules of a group, and the cost of a convolution or a network."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from steerable.algebra.examples import capsules_to_show
from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.sampled_functions import is_sampled
from steerable.cli.application import Json, app, console
from steerable.cli.option_fields import with_options
from steerable.types.convolution_costs import axes_moved_by, convolution_cost
from steerable.types.field_types import FieldType
from steerable.types.network_plans import ConvolutionPlan
from steerable.types.wide_plans import stage_groups

__all__ = ["cost", "types"]

# Field types are long. If they would squeeze the numbers, they are left out: a number that is cut short is wrong.
_WIDTH_FOR_TYPES = 110


@app.command()
def types(
    group: Annotated[
        str, typer.Argument(metavar="GROUP", help="A group: C1, C2, D4, D8, …, SO2, O2, T, O, O_h, I, SO3, O3.")
    ] = "D4",
    as_json: Json = False,
) -> None:
    """Show the irreps and capsules of a group, and what each admits.

    The last column lists the nonlinearities that a capsule admits. An infinite group has infinitely many irreps and
    capsules; the first ones are shown.
    """
    found = group_named(group)
    rows: list[dict[str, Any]] = [
        {
            "capsule": name,
            "dim": capsule.dim,
            "kind": capsule.kind,
            "type": list(capsule.type),
            "admits": [*capsule.nonlinearities, *(["Fourier"] if is_sampled(capsule) else [])],
        }
        for name, capsule in capsules_to_show(found).items()
    ]
    order = found.order if isinstance(found, FiniteGroup) else None  # null for an infinite group
    if as_json:
        typer.echo(json.dumps({"group": found.name, "order": order, "capsules": rows}, indent=2))
        return
    offered = f"{found.name}: infinitely many elements; the first of its capsules"
    if order is not None:
        offered = f"{found.name}: {order} elements, irreps {', '.join(str(irrep) for irrep in found.irreps)}"
    table = Table(title=offered)
    for head in ("capsule", "dim", "matrices", "type", "admits"):
        table.add_column(head)
    for row in rows:
        admits = "anything" if "pointwise" in row["admits"] else ", ".join(row["admits"]) or "nothing"
        table.add_row(row["capsule"], str(row["dim"]), row["kind"], str(tuple(row["type"])), admits)
    console.print(table)


@dataclass(frozen=True)
class NetworkOptions:
    """The options of ``steerable cost resnet`` and ``steerable cost wide_resnet``."""

    depth: Annotated[
        int | None,
        typer.Option(
            help="Layers: for 'resnet' 6·blocks + 2, by default 14; for 'wide_resnet' 6·blocks + 4, by default 28."
        ),
    ] = None
    width: Annotated[
        int, typer.Option(help="For 'wide_resnet': the first stage has 16 times as many channels.", min=1, max=1000)
    ] = 10
    copies: Annotated[int, typer.Option(help="For 'resnet': copies of each capsule in the first stage.", min=1)] = 14
    stream: Annotated[
        str | None, typer.Option(help="For 'resnet': the mix of capsules between blocks; by default the paper's.")
    ] = None
    inner: Annotated[
        str | None, typer.Option(help="For 'resnet': the mix of capsules inside a block; by default the paper's.")
    ] = None
    in_channels: Annotated[int, typer.Option(help="For networks: channels of the image.", min=1, max=10**6)] = 3


@app.command()
@with_options()
def cost(
    in_type: Annotated[
        str,
        typer.Argument(metavar="IN_TYPE", help="A field type, such as '2*regular + E'; or 'resnet', 'wide_resnet'."),
    ],
    out_type: Annotated[
        str | None, typer.Argument(metavar="OUT_TYPE", help="The type to map to; leave it out for a model.")
    ] = None,
    *,
    group: Annotated[
        str | None,
        typer.Option(
            help="The group of both types, by default D4; for 'wide_resnet' the groups of its "
            "stages, by default D8,D4,D1."
        ),
    ] = None,
    kernel_size: Annotated[int, typer.Option(help="Taps along each side of the filter.", min=1, max=99)] = 3,
    network: NetworkOptions,
    size: Annotated[int, typer.Option(help="The side of the images or volumes, for FLOPs.", min=1, max=10**6)] = 32,
    as_json: Json = False,
) -> None:
    """Show what a convolution costs, or each convolution of a network.

    The table lists channels, parameters, parameter utilisation μ (weights per parameter) and FLOPs.
    """
    wide = out_type is None and in_type == "wide_resnet"
    found = stage_groups(group or "D8,D4,D1")[0] if wide else group_named(group or "D4")
    if out_type is not None:
        pair = FieldType(found, in_type), FieldType(found, out_type)
        rows = [_cost_row("convolution", *pair, kernel_size, size)]
    elif wide:
        rows = _wide_costs(group or "D8,D4,D1", size, network)
    elif in_type == "resnet":
        rows = _network_costs(found, kernel_size, size, network)
    else:
        raise ValueError(
            f"a single argument is the name of a model, 'resnet' or 'wide_resnet'; got {in_type!r}. For the cost of "
            "one convolution, give two types."
        )
    total = {"parameters": sum(r["parameters"] for r in rows), "flops": sum(r["flops"] for r in rows)}
    if as_json:
        typer.echo(json.dumps({"layers": rows, **total}, indent=2))
        return
    axes = axes_moved_by(found)
    seen = "×".join([str(size)] * axes) + (" image" if axes == 2 else " volume")
    flops = f"{total['flops'] / 1e9:.2f} GFLOP" if total["flops"] >= 1e8 else f"{total['flops'] / 1e6:.2f} MFLOP"
    _print_costs(rows, f"{total['parameters']:,} parameters, {flops} per {seen}")


def _print_costs(rows: list[dict[str, Any]], title: str) -> None:
    page = console if console.is_terminal else Console(width=140)
    left_out = ("from", "to") if page.width < _WIDTH_FOR_TYPES and len(rows) > 1 else ()
    heads = ("layer", "from", "to", "channels", "size", "parameters", "μ", "MFLOP")
    shown = [head for head in heads if head not in left_out]
    table = Table(title=title)
    for head in shown:
        text = head in ("layer", "from", "to")
        table.add_column(head, justify="left" if text else "right", overflow="fold", no_wrap=not text)
    for r in rows:
        cells = {
            "layer": r["name"],
            "from": r["in_type"],
            "to": r["out_type"],
            "channels": f"{r['in_channels']} → {r['out_channels']}",
            "size": str(r["size"]),
            "parameters": f"{r['parameters']:,}",
            "μ": f"{r['utilization']:.2f}" if r["utilization"] else "–",
            "MFLOP": f"{r['flops'] / 1e6:.1f}",
        }
        table.add_row(*(cells[head] for head in shown))
    page.print(table)
    if left_out:
        page.print(f"A terminal of at least {_WIDTH_FOR_TYPES} columns also shows field types, and so does --json.")


def _wide_costs(groups: str, size: int, network: NetworkOptions) -> list[dict[str, Any]]:
    from steerable.types.wide_plans import wide_plan

    _check_size("wide_resnet", size)
    depth = 28 if network.depth is None else network.depth
    plan = wide_plan(depth, network.width, stage_groups(groups), in_channels=network.in_channels)
    return _rows(plan.convolutions, size)


def _rows(convolutions: Iterable[ConvolutionPlan], size: int) -> list[dict[str, Any]]:
    """One row for each convolution of a network whose second and third stage halve the images."""
    rows = []
    for conv in convolutions:
        stage = int(conv.name[5]) if conv.name.startswith("stage") else 1
        rows.append(_cost_row(conv.name, conv.in_type, conv.out_type, conv.kernel_size, size // 2 ** (stage - 1)))
    return rows


def _check_size(name: str, size: int) -> None:
    if size < 4:
        raise ValueError(f"{name} halves its images twice, so their size must be at least 4; got {size}.")


def _network_costs(group: Group, kernel_size: int, size: int, network: NetworkOptions) -> list[dict[str, Any]]:
    from steerable.types.network_plans import resnet_plan

    _check_size("resnet", size)
    options = asdict(network)
    options |= {"depth": 14 if network.depth is None else network.depth}
    del options["width"]
    image_type = f"{options.pop('in_channels')}*A1"
    plan = resnet_plan(**options, group=group, image_type=image_type).with_kernel_size(kernel_size)
    return _rows(plan.convolutions, size)


def _cost_row(name: str, in_type: FieldType, out_type: FieldType, kernel_size: int, size: int) -> dict[str, Any]:
    found = convolution_cost(in_type, out_type, kernel_size, size)
    return {
        "name": name,
        "in_type": str(in_type),
        "out_type": str(out_type),
        "in_channels": in_type.channels,
        "out_channels": out_type.channels,
        "size": size,
        "parameters": found.parameters,
        "utilization": found.utilization,
        "flops": found.dense_flops,  # of the dense convolution that computes it
    }
