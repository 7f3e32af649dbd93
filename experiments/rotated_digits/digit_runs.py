"""Trains the networks of plan.toml on rotated digits, one JSON file per run.

    python experiments/rotated_digits/digit_runs.py digits.npz --runs RUNS [--only C8 C16] [--minutes 9]
        [--evaluate validation] [--device cuda] [--bfloat16] [--accelerate]

digits.npz is what digit_images.py writes. Settings are chosen with --evaluate validation, on images that are held out
of those to learn from, with other --runs for each choice; test images are looked at once, for the figure that is
reported. A run that has ended is not repeated, and one that was interrupted, or had no time left, goes on from its last
whole epoch with the same numbers.
"""

from __future__ import annotations

import argparse
import dataclasses
import platform
import time
import warnings
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from digit_images import Digits, load_digits
from digit_networks import DigitNetwork, fitted_fields
from digit_plan import Run, planned
from torch import Tensor

import steerable as st
from steerable.atomic import write_json
from steerable.data.augmentation import Augmentation


class Training:
    """A network, its optimiser and how far it has come.

    Every epoch draws its batches from a generator of its own, so that a run that was interrupted ends with the same
    numbers as one that was not, but for the order of sums on a GPU.
    """

    def __init__(self, run: Run, digits: Digits, arguments: argparse.Namespace) -> None:
        torch.manual_seed(run.seed)
        self.run, self.digits, self.half = run, digits, arguments.bfloat16
        self.fields = fitted_fields(run.group, run.parameters, run.filter_choice)
        self.device = digits.images.device
        self.network = DigitNetwork(run.group, self.fields, run.filter_choice).to(self.device)
        self.optimiser = torch.optim.AdamW(
            self.network.parameters(), lr=run.learning_rate, weight_decay=run.weight_decay
        )
        if arguments.accelerate:
            with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
                st.nn.accelerate(self.network, digits.images[: run.batch], compile=False)
        self.epoch, self.seconds = 0, 0.0

    def one_epoch(self) -> None:
        """Learn from every image once; the last, smaller batch is left out."""
        run, started = self.run, time.perf_counter()
        generator = torch.manual_seed(1000 * run.seed + self.epoch)  # dropout, batches and angles
        count = len(self.digits.images) // run.batch * run.batch
        order = torch.randperm(len(self.digits.images)).to(self.device)[:count]
        turns = Augmentation(shift=0, flip=False, angle=run.angle)
        images = turns.apply(self.digits.images[order], turns.draw(count, generator)).split(run.batch)
        labels = self.digits.labels[order].split(run.batch)
        self.network.train()
        for k, (batch, expected) in enumerate(zip(images, labels, strict=True)):
            for group in self.optimiser.param_groups:
                group["lr"] = run.learning_rate * rate((self.epoch + k / len(images)) / run.epochs)
            F.cross_entropy(self.scores(batch), expected).backward()
            self.optimiser.step()
            self.optimiser.zero_grad(set_to_none=True)
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        self.epoch += 1
        self.seconds += time.perf_counter() - started

    def scores(self, images: Tensor) -> Tensor:
        with torch.autocast(self.device.type, torch.bfloat16, enabled=self.half):
            scores: Tensor = self.network(images)
            return scores.float()

    @torch.no_grad()
    def error(self) -> float:
        """The share of the images to measure on that the network takes for another digit."""
        self.network.eval()
        parts = zip(self.digits.measured_images.split(500), self.digits.measured_labels.split(500), strict=True)
        wrong = sum(int((self.scores(images).argmax(dim=1) != labels).sum()) for images, labels in parts)
        return wrong / len(self.digits.measured_labels)

    def save(self, path: Path) -> None:
        state = {"network": self.network.state_dict(), "optimiser": self.optimiser.state_dict()}
        text = {"fields": self.fields, "epoch": self.epoch, "seconds": self.seconds}
        torch.save({**state, **text}, path.with_suffix(".partial"))
        path.with_suffix(".partial").replace(path)

    def resume(self, path: Path) -> None:
        """Go on from a file that ``save`` wrote, where there is one."""
        if path.is_file():
            state = torch.load(path, map_location=self.device, weights_only=True)
            self.network.load_state_dict(state["network"])
            self.optimiser.load_state_dict(state["optimiser"])
            self.epoch, self.seconds = state["epoch"], state["seconds"]


def rate(progress: float) -> float:
    """The share of the learning rate: it rises over the first twentieth, and falls in a straight line to zero."""
    return min(20 * progress, (1 - progress) / 0.95)


def carried_out(run: Run, digits: Digits, arguments: argparse.Namespace, ends: float) -> bool:
    """Train one network; False where the time was too short. What has come so far is kept."""
    place = arguments.runs / f"{run.file_name}-{arguments.evaluate}"
    training = Training(run, digits, arguments)
    training.resume(place.with_suffix(".pt"))
    longest = 0.0
    while training.epoch < run.epochs:
        if time.monotonic() + 2 * longest + 10 > ends:
            training.save(place.with_suffix(".pt"))
            return False
        started = time.monotonic()
        training.one_epoch()
        longest = max(longest, time.monotonic() - started)
    training.save(place.with_suffix(".pt"))
    error = training.error()
    write_json(
        place.with_suffix(".json"), {**record(training, arguments), "evaluate": arguments.evaluate, "error": error}
    )
    print(f"{run.name}, seed {run.seed}: {100 * error:.2f} % wrong ({arguments.evaluate})", flush=True)
    return True


def record(training: Training, arguments: argparse.Namespace) -> dict[str, Any]:
    """What a result depends on."""
    device = training.device
    return {
        "run": dataclasses.asdict(training.run),
        "fields": training.fields,
        "all_parameters": sum(p.numel() for p in training.network.parameters()),
        "images": len(training.digits.images),
        "measured_on": len(training.digits.measured_labels),
        "training_seconds": round(training.seconds, 1),
        "precision": "bfloat16" if arguments.bfloat16 else "float32",
        "hardware": torch.cuda.get_device_name() if device.type == "cuda" else f"{torch.get_num_threads()} CPU threads",
        "versions": {"torch": torch.__version__, "steerable": st.__version__, "python": platform.python_version()},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=Path)
    parser.add_argument("--runs", type=Path, required=True, help="where the files go")
    parser.add_argument("--only", nargs="+", help="names of runs in plan.toml")
    parser.add_argument("--seeds", type=int, nargs="+", help="of those in plan.toml")
    parser.add_argument("--evaluate", choices=["test", "validation"], default="test")
    parser.add_argument("--minutes", type=float, default=float("inf"), help="end before this time is over")
    parser.add_argument("--epochs", type=int, help="in place of those in plan.toml, to try things out")
    parser.add_argument("--learning-rate", type=float, help="in place of that in plan.toml, to try things out")
    parser.add_argument("--angle", type=float, help="in place of that in plan.toml, to try things out")
    parser.add_argument("--limit", type=int, help="use so many images only, to try things out")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--bfloat16", action="store_true")
    parser.add_argument("--accelerate", action="store_true", help="by `snn.accelerate`, without a compiler")
    arguments = parser.parse_args()
    ends = time.monotonic() + 60 * arguments.minutes
    warnings.simplefilter("ignore", st.nn.EquivarianceWarning)
    arguments.runs.mkdir(parents=True, exist_ok=True)
    device = torch.device(arguments.device)
    digits = load_digits(arguments.digits, evaluate=arguments.evaluate, device=device, limit=arguments.limit)
    for run in planned():
        wanted = (not arguments.only or run.name in arguments.only) and (
            not arguments.seeds or run.seed in arguments.seeds
        )
        done = arguments.runs / f"{run.file_name}-{arguments.evaluate}.json"
        if wanted and not done.is_file():
            run = dataclasses.replace(
                run,
                epochs=arguments.epochs or run.epochs,
                learning_rate=arguments.learning_rate or run.learning_rate,
                angle=run.angle if arguments.angle is None else arguments.angle,
            )
            if not carried_out(run, digits, arguments, ends):
                print(f"no time is left for {run.name}, seed {run.seed}; the same command goes on from there")
                return


if __name__ == "__main__":
    main()
