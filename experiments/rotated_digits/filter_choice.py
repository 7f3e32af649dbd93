"""Short trainings on one CPU core, by which the library's default filters are compared with others.

    python experiments/rotated_digits/filter_choice.py DIGITS [--groups C8 C16 D8 SO2] [--filters default rings]
        [--seeds 0 1 2 3] [--learning-rates 0.01] [--json filter_choice.json] [--note TEXT]

DIGITS is the file that digit_images.py writes. The network is a small one: four convolutions, 7×7 and then 5×5. It
takes 240 steps with 64 of the first 8,000 digits, and is measured on the 4,000 others that are to learn from, never on
test images. Three figures count: the share of wrong answers, their cross-entropy, and the error of turning of
experiments/equivariance_error, before and after training. Networks that are compared have the same fields, and see the
same digits in the same order. A run that is in the file is not repeated. --note marks runs with another revision of
the library.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import sys
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from digit_images import Digits, load_digits
from digit_networks import DigitNetwork, Filters
from digit_runs import rate

import steerable as st
from steerable.atomic import write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "equivariance_error"))
from turning_error import errors, seen, turned

__all__ = ["one_run", "table"]

HERE = Path(__file__).parent
FIELDS = {"C8": (2, 3, 4, 8), "C16": (1, 2, 3, 6), "D8": (1, 2, 3, 6), "SO2": (2, 3, 4, 8)}
STEPS, BATCH, HELD_OUT = 240, 64, 4_000
ANGLES = (0.0, 20.0, 45.0, 70.0)
TURNED = 24  # digits


def filters_named(name: str) -> Filters:
    """``default``, ``rings``, or ``leak 0.05``."""
    return Filters(leak=float(name.split()[1])) if name.startswith("leak ") else Filters(name)


def turning(network: DigitNetwork, digits: Digits) -> float:
    """The mean error over the angles of the features before the classifier; 1 is as far as another digit."""
    poses = [turned(digits.measured_images[:TURNED], angle) for angle in ANGLES]
    return sum(errors(lambda x: network.invariants(network.features(x)), poses)[1:]) / (len(ANGLES) - 1)


def one_run(group: str, filters: str, seed: int, learning_rate: float, digits: Digits) -> dict[str, Any]:
    """Train one network; what is measured of it, in a dictionary."""
    torch.manual_seed(seed)
    network = DigitNetwork(group, FIELDS[group], filters_named(filters), kernels=(7, 5, 5, 5), pooled=(0, 1))
    seen(network.features, digits.measured_images[:TURNED])
    untrained = turning(network.eval(), digits)
    optimiser = torch.optim.AdamW(network.parameters(), lr=learning_rate, weight_decay=0.01)
    torch.manual_seed(1000 * seed + 7)  # batches and dropout, whatever the filters drew
    drawn: list[int] = []
    network.train()
    for step in range(STEPS):
        if len(drawn) < BATCH:
            drawn = torch.randperm(len(digits.images)).tolist()
        batch, drawn = drawn[:BATCH], drawn[BATCH:]
        optimiser.param_groups[0]["lr"] = learning_rate * rate((step + 0.5) / STEPS)
        F.cross_entropy(network(digits.images[batch]), digits.labels[batch]).backward()
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
    network.eval()
    with torch.no_grad():
        scores = torch.cat([network(images) for images in digits.measured_images.split(250)])
    wrong = (scores.argmax(dim=1) != digits.measured_labels).double().mean()
    return {
        "parameters": sum(p.numel() for p in network.features.parameters()),
        "error": round(float(wrong), 5),
        "cross_entropy": round(float(F.cross_entropy(scores, digits.measured_labels)), 4),
        "turning_untrained": round(untrained, 4),
        "turning_trained": round(turning(network, digits), 4),
    }


def table(runs: list[dict[str, Any]]) -> str:
    """A Markdown table, one row per group, filters and learning rate: means over the seeds."""
    heads = ["group", "filters", "rate", "seeds", "parameters", "wrong, %", "cross-entropy"]
    heads += ["turning, untrained", "turning, trained"]
    lines = [f"| {' | '.join(heads)} |", "|---|---|" + "---:|" * (len(heads) - 2)]
    for key in dict.fromkeys((r["group"], r["filters"], r["learning_rate"]) for r in runs):
        found = [r for r in runs if (r["group"], r["filters"], r["learning_rate"]) == key]
        mean = {name: statistics.mean(r[name] for r in found) for name in found[0] if isinstance(found[0][name], float)}
        spread = f" ± {100 * statistics.pstdev(r['error'] for r in found):.2f}" if len(found) > 1 else ""
        cells = [*map(str, key), str(len(found)), f"{found[0]['parameters']:,}"]
        cells += [f"{100 * mean['error']:.2f}{spread}", f"{mean['cross_entropy']:.3f}"]
        cells += [f"{mean['turning_untrained']:.3f}", f"{mean['turning_trained']:.3f}"]
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=Path)
    parser.add_argument("--groups", nargs="+", choices=FIELDS, default=["C8"])
    parser.add_argument("--filters", nargs="+", default=["default", "rings"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3])
    parser.add_argument("--learning-rates", type=float, nargs="+", default=[0.01])
    parser.add_argument("--json", type=Path, default=HERE / "filter_choice.json")
    parser.add_argument("--note", default="", help="is added to the names of the filters")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    warnings.simplefilter("ignore", st.nn.EquivarianceWarning)
    digits = load_digits(arguments.digits, evaluate="validation", device=torch.device("cpu"), held_out=HELD_OUT)
    hardware = f"1 thread, {platform.processor() or platform.machine()}"
    record = json.loads(arguments.json.read_text()) if arguments.json.is_file() else {"runs": []}
    record |= {"hardware": hardware, "versions": {"torch": torch.__version__, "python": platform.python_version()}}
    planned = [
        {"group": group, "filters": f"{filters}{arguments.note}", "learning_rate": rate_, "seed": seed}
        for seed in arguments.seeds
        for group in arguments.groups
        for rate_ in arguments.learning_rates
        for filters in arguments.filters
    ]
    for run in planned:
        if any(run.items() <= done.items() for done in record["runs"]):
            continue
        filters = run["filters"].removesuffix(arguments.note)
        found = one_run(run["group"], filters, run["seed"], run["learning_rate"], digits)
        record["runs"].append(run | found)
        write_json(arguments.json, record)
        print(run | found, flush=True)
    print(table(record["runs"]))


if __name__ == "__main__":
    main()
