"""Writes the tables of docs/speed.md and benchmarks/README.md from benchmarks/results/*.json; --check only compares.

python benchmarks/speed_page.py [--check]

A page says where a table goes, of which kind it is and from which files it is made, and this script fills in the rest:

    <!-- networks network-cpu network-h200-graphs -->
    <!-- end -->
"""

from __future__ import annotations

import argparse
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

RESULTS = Path(__file__).parent / "results"
PAGES = (Path(__file__).parents[1] / "docs" / "speed.md", Path(__file__).parent / "README.md")


def networks_table(*cases: dict[str, Any]) -> list[str]:
    """One row per case: milliseconds of the plain and the steerable network, and how much faster the second is."""
    heads = ["hardware", "how", "training step, ms", "speed", "evaluation, ms", "speed", "`to_plain`"]
    lines = [_row(heads), "|---|---|" + "---:|" * 5]
    for results in cases:
        networks = results["networks"]
        cells = [results["hardware"].removeprefix("NVIDIA "), how(results)]
        for task in ("train_step", "evaluate"):
            # On a GPU steps follow each other without waiting, as they do in training.
            column = f"{task}_in_a_row" if f"{task}_in_a_row" in networks["plain"] else task
            plain, steerable = (networks[name][column]["median_ms"] for name in ("plain", "steerable"))
            digits = 0 if plain > 1000 else 1
            cells += [f"{plain:.{digits}f} → {steerable:.{digits}f}", f"**{plain / steerable:.2f}**"]
        cells.append(f"{plain / networks['steerable, to_plain'][column]['median_ms']:.2f}")
        lines.append(_row(cells))
    return lines


def everyday_table(results: dict[str, Any]) -> list[str]:
    """One row per network: the speed in each way, in training and evaluation, and the memory of a training step."""
    ways = {
        "eager": "ordinary code",
        "compiled": "`torch.compile`",
        "recorded": "`accelerate(compile=False)`",
        "accelerated": "`accelerate`",
    }
    ways = {way: title for way, title in ways.items() if any(way in row for row in results["rows"].values())}
    has_memory = any((row.get("eager", {}).get("memory") or {}).get("plain") for row in results["rows"].values())
    heads = ["network", *(f"{title}: train, eval" for title in ways.values()), *(["memory"] if has_memory else [])]
    lines = [_row(heads), "|---|" + "---:|" * (len(heads) - 1)]
    for title, row in results["rows"].items():
        cells = [_speeds(row[way]) if way in row else "–" for way in ways]
        if has_memory:
            memory = row["eager"]["memory"] if "eager" in row else {}
            cells.append(f"{memory['steerable'] / memory['plain']:.2f}" if memory else "–")
        lines.append(_row([title, *cells]))
    return [*lines, "", f"Speed, plain = 1; {results['precision']}; {_machine(results)}."]


def _speeds(way: dict[str, Any]) -> str:
    times = (way[task] for task in ("train", "eval"))
    return ", ".join(f"{task['plain']['median_ms'] / task['steerable']['median_ms']:.2f}" for task in times)


def layers_table(results: dict[str, Any]) -> list[str]:
    """One row per layer: what Python costs in ordinary code, torch's layer and ours."""
    lines = [_row(["layer", "training step", "evaluation"]), "|---|---:|---:|"]
    for layer, tasks in results["layers"].items():
        pairs = (tasks[task] for task in ("train", "eval"))
        lines.append(_row([f"`{layer}`", *(f"{pair['torch']:.0f} → {pair['steerable']:.0f}" for pair in pairs)]))
    return [*lines, "", f"Microseconds, torch's layer → ours; {_machine(results)}."]


def widths_table(results: dict[str, Any]) -> list[str]:
    """One row per number of regular fields, one column per filter and image size: speed of ``auto``, plain = 1."""
    speeds: dict[str, dict[str, str]] = {}
    for row in results["results"]:
        case, step = row["case"], row["step"]
        if case["name"].startswith("regular-"):
            speed = step["plain"]["median_ms"] / step["auto"]["median_ms"]
            fields = f"{case['name'].removeprefix('regular-')} ({row['channels'][0]})"
            speeds.setdefault(fields, {})[_filter(case)] = f"{speed:.2f}"
    columns = list(dict.fromkeys(column for row in speeds.values() for column in row))
    columns.sort(key=lambda text: (int(text.split("×")[0]), -int(text.split()[-1].removesuffix("²"))))
    lines = [_row(["fields (channels)", *columns]), "|---|" + "---:|" * len(columns)]
    lines += [_row([fields, *(row.get(column, "–") for column in columns)]) for fields, row in speeds.items()]
    return [*lines, "", f"Batch {_batch(results)}, {results['dtype']}; {_machine(results)}."]


def convolutions_table(results: dict[str, Any]) -> list[str]:
    """One row per convolution: milliseconds of a training step of each contestant."""
    known = ("plain", "dense", "fourier", "auto", "escnn")
    names = [name for name in known if any(name in row["step"] for row in results["results"])]
    lines = [_row(["convolution", "channels", *names, "plain / auto"]), "|---|" + "---:|" * (len(names) + 2)]
    for row in results["results"]:
        case, step = row["case"], row["step"]
        cells = [f"{case['name']}, {_filter(case)}", "{} → {}".format(*row["channels"])]
        cells += [f"{step[name]['median_ms']:.2f}" if name in step else "–" for name in names]
        lines.append(_row([*cells, f"{step['plain']['median_ms'] / step['auto']['median_ms']:.2f}"]))
    return [*lines, "", f"Milliseconds, batch {_batch(results)}, {results['dtype']}; {_machine(results)}."]


def volumes_table(results: dict[str, Any]) -> list[str]:
    """One row per convolution and network of volumes: milliseconds, and the speed of ours beside plain."""
    known = ("plain", "dense", "fourier", "auto", "escnn")
    names = [name for name in known if any(name in row["step"] for row in results["convolutions"])]
    heads = ["convolution", "channels", *names, "speed, step", "speed, forward"]
    lines = [_row(heads), "|---|" + "---:|" * (len(heads) - 1)]
    for row in results["convolutions"]:
        title = f"{row['fields']} fields of {row['group']}, {row['kernel']}³, {row['size']}³, batch {row['batch']}"
        cells = [f"{row['step'][name]['median_ms']:.1f}" if name in row["step"] else "–" for name in names]
        lines.append(_row([title, str(row["channels"]), *cells, *_ours(row, "auto")]))
    lines += ["", _row(["network, 16³, batch 2", "speed, step", "speed, evaluation"]), "|---|---:|---:|"]
    lines += [_row([row["name"], *_ours(row, "steerable")]) for row in results["networks"]]
    how = f"{results['dtype']}, {results['clock']}; {_machine(results)}"
    return [*lines, "", *_filters(results), "", f"Milliseconds of a step; speed: plain = 1; {how}."]


def _filters(results: dict[str, Any]) -> list[str]:
    """One row per group and library: parameters of a filter between regular fields, exactness, seconds to build."""
    lines = [
        _row(["regular fields, 3³", "parameters of a pair", "largest error over the group", "ten layers are built in"]),
        "|---|---:|---:|---:|",
    ]
    for row in results["filters"]:
        for name in (name for name in ("steerable", "escnn") if name in row and row["kernel"] == 3):
            seconds = results["build_seconds"][name][row["group"]]
            cells = [f"{row[name]['parameters']:,}", f"{row[name]['error']:.0e}", f"{seconds:.2f} s"]
            lines.append(_row([f"{row['group']}, {name}", *cells]))
    return lines


def _ours(row: dict[str, Any], name: str) -> list[str]:
    return [f"{row[task]['plain']['median_ms'] / row[task][name]['median_ms']:.2f}" for task in ("step", "forward")]


def kernels_table(results: dict[str, Any]) -> list[str]:
    """One row per convolution: GPU time of both backends, forward and with gradients."""
    heads = ["dense, forward", "fourier, forward", "ratio", "dense, step", "fourier, step", "ratio"]
    lines = [_row(["convolution", *heads]), "|---|" + "---:|" * 6]
    for row in results["results"]:
        cells = [row["case"]]
        for task in ("forward", "step"):
            dense, fourier = (sum(row[backend][task].values()) for backend in ("dense", "fourier"))
            cells += [f"{dense:.0f}", f"{fourier:.0f}", f"{dense / fourier:.2f}"]
        lines.append(_row(cells))
    case = f"batch {results['batch']}, {results.get('precision', 'bfloat16')}"
    return [*lines, "", f"Microseconds of GPU time, {case}; {_machine(results)}."]


TABLES: dict[str, Callable[..., list[str]]] = {
    "everyday": everyday_table,
    "layers": layers_table,
    "networks": networks_table,
    "widths": widths_table,
    "convolutions": convolutions_table,
    "kernels": kernels_table,
    "volumes": volumes_table,
}


def how(results: dict[str, Any]) -> str:
    """How a network was run: its precision, and whether it was compiled."""
    case = results["case"]
    compiled = "CUDA graphs" if case.get("mode") == "reduce-overhead" else "compiled"
    ways = [way for way, said in ((compiled, "compile"), ("recorded", "record")) if case.get(said)] or ["eager"]
    only_dense = ["dense only"] if case.get("backend") == "dense" else []
    return ", ".join([results["precision"].replace("float32 (TF32)", "TF32"), *ways, *only_dense])


def _row(cells: list[str]) -> str:
    return f"| {' | '.join(cells)} |"


def _filter(case: dict[str, Any]) -> str:
    return f"{case['kernel']}×{case['kernel']}, {case['size']}²"


def _batch(results: dict[str, Any]) -> int:
    batch: int = results["results"][0]["case"]["batch"]
    return batch


def _machine(results: dict[str, Any]) -> str:
    threads = "" if "NVIDIA" in results["hardware"] else f", {results['threads']} threads"
    return f"{results['hardware']}{threads}, torch {results['versions']['torch']}"


def updated(text: str) -> str:
    """The page with every marked section filled from the files that its mark names."""

    def fill(match: re.Match[str]) -> str:
        cases = [json.loads((RESULTS / f"{name}.json").read_text()) for name in match[2].split()]
        return "\n".join([f"<!-- {match[1]}{match[2]} -->", *TABLES[match[1]](*cases), "<!-- end -->"])

    mark = rf"<!-- ({'|'.join(TABLES)})((?:\s[\w-]+)+) -->\n"
    if len(re.findall(mark, text)) != text.count("<!-- end -->"):
        raise SystemExit("a page has tables that begin and do not end; mend its <!-- end --> marks.")
    return re.sub(mark + r".*?<!-- end -->", fill, text, flags=re.DOTALL)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail where a page differs from the results")
    arguments = parser.parse_args()
    for page in PAGES:
        text = updated(page.read_text())
        if not arguments.check:
            page.write_text(text)
        elif text != page.read_text():
            raise SystemExit(f"{page} differs from the results: run python benchmarks/speed_page.py")


if __name__ == "__main__":
    main()
