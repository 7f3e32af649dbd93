"""A table of the runs that have ended: python experiments/rotated_digits/digit_table.py RUNS."""

from __future__ import annotations

import json
import statistics
import sys
from pathlib import Path
from typing import Any

from digit_plan import planned

__all__ = ["table"]


def table(results: list[dict[str, Any]]) -> str:
    """A Markdown table, one row per network and kind of images: the mean error, and that of each seed."""
    heads = ("network", "measured on", "error, %", "seeds", "parameters", "fields", "epochs")
    lines = [f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for name in dict.fromkeys(run.name for run in planned()):
        for kind in ("validation", "test"):
            found = [r for r in results if (r["run"]["name"], r["evaluate"]) == (name, kind)]
            if not found:
                continue
            found.sort(key=lambda r: r["run"]["seed"])
            seeds = ", ".join(f"{r['run']['seed']}: {100 * r['error']:.2f}" for r in found)
            mean = 100 * statistics.mean(r["error"] for r in found)
            first = found[0]
            cells: tuple[str, ...] = (name, f"{first['measured_on']:,} {kind} images", f"{mean:.2f}", seeds)
            cells += (f"{first['all_parameters']:,}", " ".join(map(str, first["fields"])), str(first["run"]["epochs"]))
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        raise SystemExit(__doc__)
    print(table([json.loads(path.read_text()) for path in sorted(Path(sys.argv[1]).glob("*.json"))]))
