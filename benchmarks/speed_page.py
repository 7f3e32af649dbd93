"""Writes the tables of docs/speed.md from benchmarks/results/*.json; --check only compares.

python benchmarks/speed_page.py [--check]
"""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGE = Path(__file__).parents[1] / "docs" / "speed.md"


def network_table(results: dict[str, Any]) -> list[str]:
    """One row per network: milliseconds, and its speed relative to the plain network."""
    plain = results["networks"]["plain"]
    tasks = [t for t in ("train_step", "train_step_in_a_row", "evaluate", "evaluate_in_a_row") if t in plain]
    titles = {
        "train_step": "training step, ms",
        "train_step_in_a_row": "in a row, ms",
        "evaluate": "evaluation, ms",
        "evaluate_in_a_row": "in a row, ms",
    }
    lines = ["| network | parameters | " + " | ".join(f"{titles[t]} | of plain" for t in tasks) + " | memory |"]
    lines.append("|---|" + "---:|" * (2 * len(tasks) + 2))
    for name, row in results["networks"].items():
        cells = [name, f"{row['parameters']:,}"]
        for task in tasks:
            if task not in row:
                cells += ["–", "–"]
                continue
            ms = row[task]["median_ms"]
            cells += [f"{ms:.1f}", f"{plain[task]['median_ms'] / ms:.2f}"]
        # Recorded passes have memory of their own, which the peak of one replay does not show.
        recorded = results["case"].get("record") or results["case"].get("mode") == "reduce-overhead"
        memory = None if recorded else row.get("peak_memory")
        cells.append("–" if memory is None else f"{memory / 2**30:.2f} GiB")
        lines.append("| " + " | ".join(cells) + " |")
    case, build = results["case"], results["build_s"]
    return [
        *lines,
        "",
        f"{case['depth']} layers, ({20 * case['copies']}, {8 * case['copies']}), batch {case['batch']}, images of "
        f"{case['size']}², {results['precision']}, {how(case)}, "
        f"backend {case.get('backend', 'dense')}; {_machine(results)}. "
        f"Built in {build['cold']:.2f} s, a second time in {build['warm']:.2f} s.",
    ]


def convolution_table(results: dict[str, Any]) -> list[str]:
    """One row per convolution: milliseconds of each contestant, forward and with gradients."""
    names = [
        n for n in ("plain", "dense", "fourier", "auto", "escnn") if any(n in r["step"] for r in results["results"])
    ]
    columns = [f"{name}, {task}" for task in ("forward", "step") for name in names]
    lines = ["| convolution | channels | " + " | ".join(columns) + " | plain / fourier, step |"]
    lines.append("|---|" + "---:|" * (len(columns) + 2))
    for row in results["results"]:
        case = row["case"]
        cells = [
            f"{case['name']}, {case['kernel']}×{case['kernel']}, {case['size']}²",
            f"{row['channels'][0]} → {row['channels'][1]}",
        ]
        for task in ("forward", "step"):
            cells += [f"{row[task][n]['median_ms']:.2f}" if n in row[task] else "–" for n in names]
        cells.append(f"{row['step']['plain']['median_ms'] / row['step']['fourier']['median_ms']:.2f}")
        lines.append("| " + " | ".join(cells) + " |")
    batch = results["results"][0]["case"]["batch"]
    return [*lines, "", f"Milliseconds, batch {batch}, {results['dtype']}; {_machine(results)}."]


def kernel_table(results: dict[str, Any]) -> list[str]:
    """One row per convolution: GPU time of both backends, forward and with gradients."""
    lines = ["| convolution | dense, forward | fourier, forward | ratio | dense, step | fourier, step | ratio |"]
    lines.append("|---|" + "---:|" * 6)
    for row in results["results"]:
        cells = [row["case"]]
        for task in ("forward", "step"):
            dense, fourier = (sum(row[backend][task].values()) for backend in ("dense", "fourier"))
            cells += [f"{dense:.0f}", f"{fourier:.0f}", f"{dense / fourier:.2f}"]
        lines.append("| " + " | ".join(cells) + " |")
    how = f"batch {results['batch']}, {results.get('precision', 'bfloat16')}"
    return [*lines, "", f"Microseconds of GPU time, {how}; {_machine(results)}."]


def how(case: dict[str, Any]) -> str:
    """How a network was run."""
    compiled = "compiled as CUDA graphs" if case.get("mode") == "reduce-overhead" else "compiled"
    ways = ((compiled, "compile"), ("recorded", "record"))
    return " and ".join(way for way, said in ways if case.get(said)) or "eager"


def _machine(results: dict[str, Any]) -> str:
    threads = "" if "NVIDIA" in results["hardware"] else f", {results['threads']} threads"
    return f"{results['hardware']}{threads}, torch {results['versions']['torch']}"


def table(name: str) -> str:
    """The table of ``results/NAME.json``."""
    results = json.loads((RESULTS / f"{name}.json").read_text())
    if "networks" in results:
        return "\n".join(network_table(results))
    return "\n".join(convolution_table(results) if "dtype" in results else kernel_table(results))


def updated(text: str) -> str:
    """The page with every ``<!-- table NAME -->`` section filled from the file of that name."""

    def fill(match: re.Match[str]) -> str:
        return f"<!-- table {match[1]} -->\n{table(match[1])}\n<!-- end -->"

    if text.count("<!-- table") != text.count("<!-- end -->"):
        raise SystemExit("docs/speed.md has tables that begin and do not end; mend its <!-- end --> marks.")
    return re.sub(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where the page differs from the results")
    arguments = parser.parse_args()
    text = updated(PAGE.read_text())
    if not arguments.check:
        PAGE.write_text(text)
    elif text != PAGE.read_text():
        raise SystemExit("docs/speed.md differs from the results: run python benchmarks/speed_page.py")


if __name__ == "__main__":
    main()
