"""Writes the tables of README.md from the results.json files; --check only compares.

python experiments/tables.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent


def table(experiment: Path) -> str:
    """A Markdown table: every run of the experiment, its seeds, and the paper's figure beside it.

    An experiment that tunes has errors on validation images; they are nothing to compare with the paper's.
    """
    planned = tomllib.loads((experiment / "experiment.toml").read_text())
    path = experiment / "results.json"
    results = json.loads(path.read_text()) if path.is_file() else {"runs": []}
    tuning = planned.get("evaluate") == "validation"
    if tuning:
        heads = ["network", "validation error, %", "seeds", "parameters", "epochs"]
    else:
        heads = [
            "network",
            "paper: test error, %",
            "here: test error, %",
            "seeds",
            "all poses, %",
            "parameters",
            "epochs",
        ]
    lines = [_row(heads), "|" + "---|" * len(heads)]
    for run in planned["runs"]:
        found = [r for r in results["runs"] if r["name"] == run["name"]]
        cells = _tuning_cells(found) if tuning else [run.get("paper", "–"), *_test_cells(found)]
        lines.append(_row([run["name"], *cells]))
    if environment := results.get("environment"):
        where = f"{environment['gpu'] or environment['cpu']}, torch {environment['versions']['torch']}"
        lines += ["", f"Measured on: {where}."]
    if tuning:
        lines += ["", "Settings are compared on images held out of the training images; no test image was looked at."]
    return "\n".join(lines)


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _test_cells(found: list[dict[str, Any]]) -> list[str]:
    if not found:
        return ["not run yet", "–", "–", "–", "–"]
    poses = statistics.mean(100 * r["all_poses_error"] for r in found)
    error, seeds, parameters, epochs = _cells(found, "test_error")
    return [error, seeds, f"{poses:.1f}", parameters, epochs]


def _tuning_cells(found: list[dict[str, Any]]) -> list[str]:
    return _cells(found, "validation_error") if found else ["not run yet", "–", "–", "–"]


def _cells(found: list[dict[str, Any]], kind: str) -> list[str]:
    """The mean error, that of each seed, parameters and epochs."""
    mean = statistics.mean(100 * r[kind] for r in found)
    seeds = ", ".join(f"{r['seed']}: {100 * r[kind]:.2f}" for r in found)
    return [f"{mean:.2f}", seeds, f"{found[0]['parameters']:,}", str(found[0]["epochs"])]


def updated(text: str) -> str:
    """README.md with every ``<!-- table NAME -->`` section filled from that experiment's results."""

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{table(HERE / match[1])}\n<!-- end -->"

    return re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where README.md differs from the results")
    arguments = parser.parse_args()
    readme = HERE / "README.md"
    text = updated(readme.read_text())
    if not arguments.check:
        readme.write_text(text)
    elif text != readme.read_text():
        raise SystemExit("experiments/README.md differs from the results: run python experiments/tables.py")


if __name__ == "__main__":
    main()
