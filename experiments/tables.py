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
    """A Markdown table: every run of the experiment, its seeds, and the paper's figure beside it."""
    planned = tomllib.loads((experiment / "experiment.toml").read_text())
    results = json.loads((experiment / "results.json").read_text())
    head = "| network | paper: test error, % | here: test error, % | seeds | all poses, % | parameters | epochs |"
    lines = [head, "|" + "---|" * 7]
    for run in planned["runs"]:
        found = [r for r in results["runs"] if r["name"] == run["name"]]
        if not found:
            lines.append(f"| {run['name']} | {run.get('paper', '–')} | not run yet | – | – | – | – |")
            continue
        seeds = ", ".join(f"{r['seed']}: {100 * r['test_error']:.2f}" for r in found)
        poses = statistics.mean(100 * r["all_poses_error"] for r in found)
        first: dict[str, Any] = found[0]
        lines.append(
            f"| {run['name']} | {run.get('paper', '–')} | {statistics.mean(100 * r['test_error'] for r in found):.2f} "
            f"| {seeds} | {poses:.1f} | {first['parameters']:,} | {first['epochs']} |"
        )
    environment = results["environment"]
    where = f"{environment['gpu'] or environment['cpu']}, torch {environment['versions']['torch']}"
    return "\n".join([*lines, "", f"Measured on: {where}."])


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
