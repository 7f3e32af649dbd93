"""An ordinary small residual network, as one would write it in PyTorch without this library: the contest's plain side.

    python experiments/equal_time/plain_network.py FOLDER [--minutes 5] [--per-class 20] [--width 16] [--seed 0]
        [--out FILE]

Nothing of it is steerable's but the reading of the folder, so that both sides see the same images in the same size and
the same split. The network has a strided stem, three stages of ``--width``, twice and four times as many channels,
AdamW, and a learning rate that rises in the first tenth of the time and then falls along a cosine. It learns from all
training images, turned by any angle, mirrored, scaled, shifted, brightened and darkened, and its last weights are
tested. ``--upright`` leaves turns out, for images that have an up; ``--evaluate validation`` tests it on a quarter of
the training images, to choose settings by. Where there is a GPU, images and network are on it, and it computes in
bfloat16. The minutes are those of the whole program, from its first line to its figure.
"""

from __future__ import annotations

import time

STARTED = time.monotonic()  # before torch is imported, which takes seconds

import argparse  # noqa: E402
import math  # noqa: E402
from pathlib import Path  # noqa: E402
from typing import Any  # noqa: E402

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import Tensor, nn  # noqa: E402

from steerable.atomic import write_json  # noqa: E402
from steerable.data.labelled_images import LabelledImages  # noqa: E402
from steerable.training.choosing.defaults import configured  # noqa: E402
from steerable.training.learning.preparing import prepare_data  # noqa: E402

RATE, DECAY, SMOOTHING, BATCH = 5e-3, 0.05, 0.1, 64
WARM_UP = 0.1  # of the time
TO_END = 1.0  # seconds for the figure, besides the test itself
DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")


class Block(nn.Module):
    """relu(shortcut(x) + norm(conv(relu(norm(conv(x))))))."""

    def __init__(self, start: int, width: int, stride: int) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(start, width, 3, stride, padding=1, bias=False)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.norm1, self.norm2 = nn.BatchNorm2d(width), nn.BatchNorm2d(width)
        changes = stride > 1 or start != width
        self.shortcut = nn.Conv2d(start, width, 1, stride, bias=False) if changes else nn.Identity()

    def forward(self, x: Tensor) -> Tensor:
        inner = F.relu(self.norm1(self.conv1(x)))
        return F.relu(self.shortcut(x) + self.norm2(self.conv2(inner)))


def network(channels: int, classes: int, side: int, width: int) -> nn.Sequential:
    """With a width of 16, 78,000 parameters besides those of the classes; its first stage sees 32 pixels at most."""
    stride = 2 ** max(0, math.ceil(math.log2(side / 32)))
    stem = nn.Conv2d(channels, width, stride + 2, stride, padding=1, bias=False)
    blocks = [Block(width, width, 1), Block(width, 2 * width, 2), Block(2 * width, 4 * width, 2)]
    pool = [nn.AdaptiveAvgPool2d(1), nn.Flatten()]
    return nn.Sequential(stem, nn.BatchNorm2d(width), nn.ReLU(), *blocks, *pool, nn.Linear(4 * width, classes))


def augmented(images: Tensor, upright: bool) -> Tensor:
    """Each image turned, mirrored, scaled by up to 1.1, shifted by up to 7 %, brightened and darkened at random."""
    count, on = len(images), images.device
    angle = 2 * math.pi * torch.rand(count, device=on) * (not upright)
    scale, shift = 1.1 ** (2 * torch.rand(count, device=on) - 1), 0.14 * (2 * torch.rand(count, 2, device=on) - 1)
    cos, sin, flip = scale * angle.cos(), scale * angle.sin(), 1 - 2 * torch.randint(2, (count,), device=on)
    across, down = torch.stack([flip * cos, -flip * sin, shift[:, 0]], 1), torch.stack([sin, cos, shift[:, 1]], 1)
    places = F.affine_grid(torch.stack([across, down], 1), list(images.shape), align_corners=False)
    moved = F.grid_sample(images, places, padding_mode="reflection", align_corners=False)
    contrast, brightness = 2 * torch.rand(2, count, 1, 1, 1, device=on) - 1
    levels: Tensor = moved * (1 + 0.15 * contrast) + 25 * brightness
    return levels


def trained(data: LabelledImages, tests: int, end: float, given: argparse.Namespace) -> tuple[nn.Module, int]:
    """(the network, its steps); its ``tests`` test images have been looked at by ``end``, by ``time.monotonic``."""
    torch.manual_seed(given.seed)
    model = nn.Sequential(
        nn.BatchNorm2d(data.channels, affine=False),  # which normalises the grey levels
        network(data.channels, len(data.classes), max(data.image_size), given.width),
    ).to(DEVICE)
    end -= TO_END + seconds_to_test(model, data, tests)
    images, labels = data.images.to(DEVICE), data.labels.to(DEVICE)
    optimiser = torch.optim.AdamW(model.parameters(), RATE, weight_decay=DECAY)
    begun, steps = time.monotonic(), 0
    while time.monotonic() < end:
        for rows in torch.randperm(len(data)).to(DEVICE).split(BATCH):
            share = (time.monotonic() - begun) / (end - begun)
            if len(rows) == 1 or share >= 1:
                break
            fall = (1 + math.cos(math.pi * (share - WARM_UP) / (1 - WARM_UP))) / 2
            optimiser.param_groups[0]["lr"] = RATE * max(1e-3, share / WARM_UP if share < WARM_UP else fall)
            with autocast():
                scores = model(augmented(images[rows].float(), given.upright))
            F.cross_entropy(scores.float(), labels[rows], label_smoothing=SMOOTHING).backward()
            optimiser.step()
            optimiser.zero_grad()
            steps += 1
            if DEVICE.type == "cuda" and steps % 10 == 0:
                torch.cuda.synchronize()  # else steps would queue up, and the time would be over before they are
    return model, steps


def autocast() -> torch.autocast:
    return torch.autocast(DEVICE.type, torch.bfloat16, enabled=DEVICE.type == "cuda")


def seconds_to_test(model: nn.Module, data: LabelledImages, count: int) -> float:
    """How long ``count`` images will take."""
    some = data.subset(range(min(len(data), 256)))
    accuracy(model, some)
    begun = time.monotonic()
    accuracy(model, some)
    return (time.monotonic() - begun) * count / len(some)


@torch.no_grad()
def accuracy(model: nn.Module, data: LabelledImages) -> float:
    """The share of the images that are told right, as they lie."""
    model.eval()
    with autocast():
        said = torch.cat([model(images.to(DEVICE).float()).argmax(1).cpu() for images in data.images.split(128)])
    model.train()
    return float((said == data.labels).double().mean())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="one sub-folder of images per class")
    parser.add_argument("--minutes", type=float, default=5.0)
    parser.add_argument("--per-class", type=int, help="labels of each class; all by default")
    parser.add_argument("--width", type=int, default=16, help="channels of the first stage")
    parser.add_argument("--image-size", type=int, help="the images' side; as `steerable train` reads them by default")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--upright", action="store_true", help="leave turns out")
    parser.add_argument("--evaluate", choices=("test", "validation"), default="test")
    parser.add_argument("--out", type=Path, help="a JSON file for the figures")
    given = parser.parse_args()
    held_out = 0.25 if given.evaluate == "validation" else 0.0
    which: dict[str, Any] = {"labels_per_class": given.per_class, "image_size": given.image_size, "seed": given.seed}
    parts = prepare_data(configured(given.folder, {}, validation=held_out, minutes=given.minutes, **which))
    tested = parts.test if parts.validation is None else parts.validation
    if not isinstance(parts.train, LabelledImages) or not isinstance(tested, LabelledImages):
        raise SystemExit(f"{given.folder} has masks, and the contest is about classes of images.")
    end = STARTED + 60 * given.minutes
    model, steps = trained(parts.train, len(tested), end, given)
    found = {
        "accuracy": accuracy(model, tested),
        "epochs": round(steps * BATCH / len(parts.train), 1),
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "labels": len(parts.train),
        "image_size": list(parts.train.image_size),
        "test_images": len(tested),
        "seconds": round(time.monotonic() - STARTED, 1),
        "width": given.width,
    }
    print(found)
    if given.out is not None:
        write_json(given.out, found)


if __name__ == "__main__":
    main()
