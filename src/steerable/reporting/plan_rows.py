"""A run's plan for a reader: how its convolutions are computed, in which precision, and on which hardware."""

from __future__ import annotations

from collections.abc import Iterator

from steerable.reporting.run_records import RunRecord
from steerable.training.requests.plan_in_words import convolutions_in_words, precision_in_words, switched_on

__all__ = ["plan_rows"]


def plan_rows(run: RunRecord) -> Iterator[tuple[str, str]]:
    """(what, how) for each thing that the plan decides; nothing if the run has no plan."""
    settings = run.plan.get("settings") or {}
    if images := run.data.get("images") if run.plan else None:
        counts = ", ".join(f"{count:,} {part}" for part, count in images.items() if count)
        size = "×".join(str(side) for side in run.data.get("image_size") or ())
        things, points = ("volumes", "voxels") if size.count("×") == 2 else ("images", "pixels")
        yield things, f"{counts}; {size} {points}" if size else counts
    if settings.get("start"):
        frozen = f"; frozen: {settings['freeze']}" if settings.get("freeze") else ""
        yield "starts from", f"{settings['start']}, weights with SHA-256 {str(run.plan.get('start'))[:12]}…{frozen}"
    if settings:
        yield "epochs", str(run.epochs)
    if backends := run.plan.get("backends"):
        yield "backends", convolutions_in_words(backends.values())
    if settings:
        yield "precision", precision_in_words(str(settings.get("precision")))
        yield "switched on", ", ".join(switched_on(settings)) or "nothing else"
    if machine := run.plan.get("accelerator"):
        threads = run.plan.get("threads")
        yield (
            "planned for",
            f"{machine}, {threads} thread{'s' * (threads != 1)}" if machine == "cpu" and threads else machine,
        )
