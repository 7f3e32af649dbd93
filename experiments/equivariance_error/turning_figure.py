"""Draws results.json for the documentation: python experiments/equivariance_error/turning_figure.py."""

from __future__ import annotations

import json
import statistics
from pathlib import Path

from matplotlib.figure import Figure

from steerable.figures.style import house_style, save
from steerable.reporting.drawings import colours

HERE = Path(__file__).parent
PICTURE = HERE.parents[1] / "docs" / "pictures" / "turning-error.svg"


@house_style
def main() -> None:
    results = json.loads((HERE / "results.json").read_text())
    figure = Figure(figsize=(9, 4.4), layout="constrained")
    axes = figure.add_subplot()
    networks = results["networks"].items()
    for colour, (name, found) in zip(colours(len(networks)), networks, strict=True):
        mean = [statistics.mean(values) for values in zip(*found["errors"], strict=True)]
        style = "--" if "escnn" in name else ":" if "rings" in name else "-"
        axes.plot(results["angles"], mean, style, color=colour, label=name, linewidth=1.6)
    axes.set_xlim(0, 360)
    axes.set_ylim(0, None)
    axes.set_xticks(range(0, 361, 45), labels=[f"{angle}°" for angle in range(0, 361, 45)])
    axes.set_ylabel("error; 1 is a different digit")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.2)
    figure.legend(loc="outside right upper", frameon=False)
    save(figure, PICTURE)


if __name__ == "__main__":
    main()
