"""Two networks side by side on the terminal."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.table import Table

from steerable.cli.application import console, progress_bar
from steerable.training.evaluation.comparison_in_words import basis, compared_figures, verdict

if TYPE_CHECKING:
    from steerable.training.trained_networks.trained_model import TrainedModel

__all__ = ["print_comparison", "recorded_comparison"]


def print_comparison(comparison: Mapping[str, Any]) -> None:
    """Print the figures of both networks with their intervals, and what follows from them."""
    both = [comparison["networks"][name] for name in ("steerable", "plain")]
    table = Table(title="Steerable and plain network on the same test images")
    for head in ("", "steerable", "plain", "difference", "p"):
        table.add_column(head, justify="left" if not head else "right")
    for row in compared_figures(comparison):
        table.add_row(row.name, row.steerable, row.plain, row.difference, row.p)
    table.add_row("parameters", *(f"{network['parameters']:,}" for network in both))
    if all("training_minutes" in network for network in both):
        table.add_row("training minutes", *(f"{network['training_minutes']:.2f}" for network in both))
        table.add_row("epochs", *(f"{network['epochs']:,}" for network in both))
    console.print(table)
    console.print(verdict(comparison), highlight=False)
    console.print(basis(comparison), highlight=False)


def recorded_comparison(
    run: Path, trained: TrainedModel, dataset: str | None, data_dir: str | None
) -> dict[str, Any] | None:
    """The comparison of a run, as recorded or computed again for other images; None if the run has none."""
    from steerable.training.requests.run_files import SUB_RUN
    from steerable.training.running.plain_contest import read_comparison
    from steerable.training.trained_networks.comparison import compare
    from steerable.training.trained_networks.trained_segmenter import load_trained

    recorded = read_comparison(run)
    if recorded is None or dataset is None:
        return recorded
    with progress_bar("comparing both networks") as progress:
        return compare(trained, load_trained(run / SUB_RUN), dataset=dataset, data_dir=data_dir, progress=progress)
