"""The report's cost table: what each convolution of a run's network takes."""

from __future__ import annotations

from steerable.algebra.families import group_named
from steerable.reporting.markup import Html, count, decimal, details, table, tag
from steerable.reporting.run_records import RunRecord
from steerable.types.costs import parameter_utilization
from steerable.types.network_plans import ConvolutionPlan, resnet_plan

__all__ = ["cost_table"]


def cost_table(run: RunRecord) -> Html:
    """Its convolutions with their types; for other networks than the paper's, a line."""
    total, model = run.results.get("parameters"), run.model
    if model.get("name") != "resnet":
        size = "the number of parameters comes with the results" if total is None else f"{count(total)} parameters"
        return tag("p", f"{run.model_text}: {size}, none shared over poses (μ = 1).")
    known = ("depth", "copies", "stream", "inner")
    try:
        plan = resnet_plan(
            **{"depth": 14, "copies": 14, **{key: model[key] for key in known if key in model}},
            group=group_named(model.get("group", "D4")),
            image_type=f"{run.in_channels}*A1",
        )
        rows = [_cost_row(conv) for conv in plan.convolutions]
    except (ValueError, TypeError) as error:
        return tag("p", f"No cost table for {run.model_text}: {error}", class_="note")
    rows.append(_total_row("all convolutions", plan.parameters))
    if total is not None:
        rows.append(_total_row("norms and classifier", total - plan.parameters))
        rows.append(_total_row("the network", total))
    heads = ("layer", "from", "to", "kernel", "channels", "parameters", "μ")
    summary = f"{len(plan.convolutions)} convolutions, {count(plan.parameters)} parameters"
    return details(summary, table(heads, rows, numbers=(3, 4, 5, 6)))


def _cost_row(conv: ConvolutionPlan) -> list[object]:
    # Types that share no irrep have no parameters, and their utilisation has no value.
    mu = parameter_utilization(conv.in_type, conv.out_type, conv.kernel_size) if conv.parameters else None
    return [
        conv.name,
        tag("td", conv.in_type, class_="type"),
        tag("td", conv.out_type, class_="type"),
        f"{conv.kernel_size}×{conv.kernel_size}",
        f"{conv.in_type.channels} → {conv.out_type.channels}",
        count(conv.parameters),
        decimal(mu),
    ]


def _total_row(name: str, parameters: int) -> list[object]:
    return [tag("td", name, colspan=5), tag("td", tag("b", count(parameters)), class_="number"), ""]
