"""The costs of the convolutions of a run's network."""

from __future__ import annotations

from dataclasses import dataclass

from steerable.algebra.families import group_on
from steerable.reporting.run_records import RunRecord
from steerable.types.costs import parameter_utilization
from steerable.types.network_plans import ConvolutionPlan, resnet_plan

__all__ = ["CostTable", "cost_table"]

OPTIONS = ("depth", "copies", "stream", "inner", "stem")


@dataclass(frozen=True)
class CostTable:
    """The convolutions of a network, each with its utilisation μ.

    There are none where the network shares no weights over poses, and where ``refusal`` says why they are not known.
    """

    layers: tuple[tuple[ConvolutionPlan, float | None], ...] = ()
    parameters: int = 0
    refusal: str = ""


def cost_table(run: RunRecord) -> CostTable | None:
    """The costs of the paper's network, with the options of this run; None for other steerable networks."""
    model = run.model
    if str(model.get("name")).startswith("plain_"):
        return CostTable()
    if model.get("name") != "resnet" or model.get("restricted_to"):
        return None
    try:
        plan = resnet_plan(
            **{"depth": 14, "copies": 14, **{key: model[key] for key in OPTIONS if key in model}},
            group=group_on(model.get("group"), model.get("axes", 2)),
            image_type=f"{run.in_channels}*A1",
        ).with_kernel_size(model.get("kernel_size", 3))
        return CostTable(tuple((conv, _utilization(conv)) for conv in plan.convolutions), plan.parameters)
    except (ValueError, TypeError) as error:
        return CostTable(refusal=str(error))


def _utilization(conv: ConvolutionPlan) -> float | None:
    """The utilisation μ; None for types that share no irrep, because without parameters μ has no value."""
    return parameter_utilization(conv.in_type, conv.out_type, conv.kernel_size) if conv.parameters else None
