"""How far networks are from invariance when images turn by any angle, from 0° to 360° in steps of 5°.

    python experiments/equivariance_error/turning_error.py DIGITS [--json results.json] [--networks C8 escnn-C8]
        [--checkpoint C8=RUNS/C8-seed0.pt]

DIGITS is the file that experiments/rotated_digits/digit_images.py writes. Networks of one architecture and of about
equal numbers of parameters see the same digits, upright and turned. The invariant features f before the classifier are
compared: the error at an angle is the root mean square of |f(turned x) - f(x)|, divided by that of |f(x) - f(x')| for
different digits x and x'. So 1 is as far apart as two different digits. Images are turned at three times their
resolution, because turning 28×28 pixels by interpolation blurs them, which no network can undo.

Without a checkpoint networks have random weights, and norms that have seen one batch, with three seeds. A file that
--json names is added to, so that escnn can be measured in an environment of its own (benchmarks/README.md says how to
install it).
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable.atomic import write_json

sys.path.insert(0, str(Path(__file__).parents[1] / "rotated_digits"))
from digit_images import load_digits
from digit_networks import DigitNetwork, Filters, fitted_fields

HERE = Path(__file__).parent
FINER = 3  # the resolution at which images are turned
PARAMETERS = 50_000
OURS = {
    "plain": ("C1", Filters()),
    "C4": ("C4", Filters()),
    "C8": ("C8", Filters()),
    "C16": ("C16", Filters()),
    "D8": ("D8", Filters()),
    "C8, Gaussian rings": ("C8", Filters("rings")),
}
CHOICES = {  # of filters, among which the library's default was chosen on validation images
    "C8, leak 0.01": ("C8", Filters(leak=0.01)),
    "C8, leak 0.05": ("C8", Filters(leak=0.05)),
    "C8, falloff 2": ("C8", Filters(falloff=2.0)),
}
ESCNN = {"escnn C8": 8, "escnn C16": 16}
Features = Callable[[Tensor], Tensor]


def turned(images: Tensor, angle: float) -> Tensor:
    """The images (…, h, w), turned counter-clockwise about their centre and averaged back to their size."""
    fine = F.interpolate(images, scale_factor=FINER, mode="bicubic", align_corners=False)
    group = st.so2()
    fine = st.transform(fine, group.rotation(angle), st.FieldType(group, f"{images.shape[1]}*A"))
    return F.avg_pool2d(fine, FINER)


@torch.no_grad()
def errors(features: Features, poses: list[Tensor]) -> list[float]:
    """The error of each pose of the images; the first one is upright."""
    upright = features(poses[0]).double()
    apart = torch.cdist(upright, upright).square()
    scale = (apart.sum() / (apart.numel() - len(apart))).sqrt()
    differences = (features(pose).double() - upright for pose in poses)
    return [float(difference.square().sum(dim=1).mean().sqrt() / scale) for difference in differences]


def our_features(name: str, seed: int, images: Tensor, checkpoint: Path | None) -> tuple[Features, int]:
    """The invariant features of a network of this library, and the number of its convolutions' parameters."""
    group, filters = (OURS | CHOICES)[name]
    torch.manual_seed(seed)
    if checkpoint is not None:
        state = torch.load(checkpoint, map_location="cpu", weights_only=True)
        net = DigitNetwork(group, state["fields"], filters)
        net.load_state_dict(state["network"])
    else:
        net = DigitNetwork(group, fitted_fields(group, PARAMETERS, filters), filters)
        seen(net.features, images)
    net.eval()
    count = sum(p.numel() for p in net.features.parameters())
    return lambda x: net.invariants(net.features(x)), count


def escnn_features(order: int, seed: int, images: Tensor) -> tuple[Features, int] | None:
    """The same architecture and fields with escnn's layers and its default filters; None where it is missing."""
    try:
        from escnn_network import EscnnDigits
    except ImportError:
        return None
    torch.manual_seed(seed)
    net = EscnnDigits(order, fitted_fields(f"C{order}", PARAMETERS, Filters("rings")))
    seen(net, images)
    net.eval()
    return net, sum(p.numel() for p in net.parameters())


@torch.no_grad()
def seen(net: nn.Module, images: Tensor) -> None:
    """Give the norms the statistics of these images, by running averages that have seen them often."""
    net.train()
    for _ in range(30):
        net(images)


def summary(curves: list[list[float]]) -> str:
    """The error over all angles: its mean over seeds, which differ much, and their median."""
    means = [statistics.mean(errors) for errors in curves]
    return f"mean error {statistics.mean(means):.3f}, median of {len(means)} seeds {statistics.median(means):.3f}"


def measured(name: str, arguments: argparse.Namespace, poses: list[Tensor]) -> dict[str, Any] | None:
    checkpoints = dict(text.split("=", 1) for text in arguments.checkpoint)
    checkpoint = Path(checkpoints[name]) if name in checkpoints else None
    curves, parameters = [], 0
    for seed in [0] if checkpoint else arguments.seeds:
        if name in ESCNN:
            found = escnn_features(ESCNN[name], seed, poses[0])
        else:
            found = our_features(name, seed, poses[0], checkpoint)
        if found is None:
            print(f"{name} is left out: escnn is not installed; benchmarks/README.md says how to install it")
            return None
        features, parameters = found
        curves.append([round(error, 6) for error in errors(features, poses)])
    seeds = [0] if checkpoint else arguments.seeds
    return {"trained": checkpoint is not None, "parameters": parameters, "seeds": seeds, "errors": curves}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("digits", type=Path)
    parser.add_argument("--json", type=Path, default=HERE / "results.json")
    parser.add_argument("--networks", nargs="+", choices=[*OURS, *CHOICES, *ESCNN], default=[*OURS, *ESCNN])
    parser.add_argument("--images", type=int, default=32, help="digits that are turned")
    parser.add_argument("--evaluate", choices=["test", "validation"], default="test", help="which digits they are")
    parser.add_argument("--angles", type=float, nargs="+", default=list(range(0, 361, 5)), help="the first one is 0")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--checkpoint", nargs="*", default=[], help="NETWORK=FILE of a trained network")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", st.nn.EquivarianceWarning)  # how far it is from exact is what is measured
    images = load_digits(arguments.digits, evaluate=arguments.evaluate, device=torch.device("cpu")).measured_images
    poses = [turned(images[: arguments.images], angle) for angle in arguments.angles]
    results = json.loads(arguments.json.read_text()) if arguments.json.is_file() else {"networks": {}}
    results |= {
        "angles": arguments.angles,
        "images": f"{len(poses[0])} {arguments.evaluate} digits",
        "hardware": f"{os.cpu_count()} CPU cores",
        "versions": {"torch": torch.__version__, "steerable": st.__version__, "python": platform.python_version()},
    }
    for name in arguments.networks:
        if (found := measured(name, arguments, poses)) is None:
            continue
        results["networks"][name] = found
        print(f"{name:20} {found['parameters']:8,} parameters; {summary(found['errors'])}", flush=True)
        write_json(arguments.json, results)


if __name__ == "__main__":
    main()
