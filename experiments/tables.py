"""Writes the tables of experiments/README.md, and a page for each experiment, from the results.json files.

With --check it only compares.

python experiments/tables.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import textwrap
import tomllib
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent

# Experiment, labels, and its runs with what a reader who knows the paper would call them.
SUMMARY = [
    (
        "cifar10_2k_plus",
        "2,000 +",
        {
            "mixed": "steerable, mixed capsules",
            "regular": "steerable, regular",
            "qm only": "steerable, one quotient (qm)",
            "irreps": "steerable, irreps",
            "E only": "steerable, one irrep (E)",
            "plain": "plain ResNet",
        },
    ),
    (
        "cifar10_4k",
        "4,000",
        {
            "depth 14, (280, 112), by sharing": "steerable, 14 layers, (280, 112)",
            "depth 20, (160, 64), by sharing": "steerable, 20 layers, (160, 64)",
        },
    ),
    (
        "cifar10_4k_plus",
        "4,000 +",
        {
            "depth 14, (280, 112), +": "steerable, 14 layers, (280, 112)",
            "depth 20, (160, 64), +": "steerable, 20 layers, (160, 64)",
        },
    ),
    ("cifar10_50k", "50,000 +", {"depth 14, (400, 160), +": "steerable, 14 layers, (400, 160)"}),
]


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
    error, seeds, parameters, epochs = _cells(found, "test_error")
    poses = [100 * r["all_poses_error"] for r in found if "diverged" not in r]
    return [error, seeds, f"{statistics.mean(poses):.1f}" if poses else "–", parameters, epochs]


def _tuning_cells(found: list[dict[str, Any]]) -> list[str]:
    return _cells(found, "validation_error")


def _cells(found: list[dict[str, Any]], kind: str) -> list[str]:
    """The mean error, that of each seed, parameters and epochs; the mean is over the runs that did not diverge."""
    found = sorted(found, key=lambda r: int(r["seed"]))
    seeds = ", ".join(f"{r['seed']}: {'diverged' if 'diverged' in r else f'{100 * r[kind]:.2f}'}" for r in found)
    ended = [r for r in found if "diverged" not in r]
    if not ended:
        return ["diverged" if found else "not run yet", seeds or "–", "–", "–"]
    mean = statistics.mean(100 * r[kind] for r in ended)
    return [f"{mean:.2f}", seeds, f"{ended[0]['parameters']:,}", str(ended[0]["epochs"])]


def summary() -> str:
    """A Markdown table of what the paper reports and what was found here."""
    heads = ["labels", "network", "parameters", "paper: test error, %", "here", "seeds"]
    lines = [_row(heads), "|---|---|---:|---:|---:|---:|"]
    for folder, labels, names in SUMMARY:
        planned = tomllib.loads((HERE / folder / "experiment.toml").read_text())
        results = json.loads((HERE / folder / "results.json").read_text())["runs"]
        papers = {run["name"]: run["paper"] for run in planned["runs"]}
        for name, title in names.items():
            found = [r for r in results if r["name"] == name]
            error, _, parameters, _ = _cells(found, "test_error")
            ended = sum("diverged" not in r for r in found)
            lines.append(_row([labels, title, parameters, papers[name], error, str(ended)]))
    return "\n".join(lines)


def updated(text: str) -> str:
    """The page with every ``<!-- table NAME -->`` section filled from that experiment's results, and the summary."""

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{table(HERE / match[1])}\n<!-- end -->"

    begun, ended = len(re.findall("<!-- (?:table|summary)", text)), text.count("<!-- end -->")
    if begun != ended:
        raise SystemExit(f"{begun} tables begin on a page and {ended} end there; mend its <!-- end --> marks.")
    text = re.sub(r"<!-- table (\w+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)
    whole = f"<!-- summary -->\n{summary()}\n<!-- end -->"
    return re.sub(r"<!-- summary -->\n.*?<!-- end -->", lambda match: whole, text, flags=re.DOTALL)


def front_page(experiment: Path) -> str:
    """A README for the experiment's own folder: the claim, the command, the table."""
    name = experiment.name
    claim = textwrap.fill(tomllib.loads((experiment / "experiment.toml").read_text())["claim"], 118)
    data = "CIFAR-100" if name.startswith("cifar100") else "CIFAR-10"
    return f"""# {name}

{claim}

```
python experiments/sweep.py experiments/{name} --data-dir DATA --runs RUNS
```

`DATA` holds {data} as its authors distribute it. `experiment.toml` has every network, recipe and seed, and
`results.json` has what was measured. [All experiments](../README.md#{name}) says what follows from it.
This page is written by `experiments/tables.py`.

{table(experiment)}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a page differs from the results")
    arguments = parser.parse_args()
    pages = {HERE / "README.md": updated((HERE / "README.md").read_text())}
    pages |= {file.parent / "README.md": front_page(file.parent) for file in sorted(HERE.glob("*/experiment.toml"))}
    for page, text in pages.items():
        if not arguments.check:
            page.write_text(text)
        elif not page.is_file() or text != page.read_text():
            raise SystemExit(f"{page} differs from the results: run python experiments/tables.py")


if __name__ == "__main__":
    main()
