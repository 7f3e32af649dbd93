"""Networks that turn by other angles than 90° beside plain ones of the same channels.

    python benchmarks/rotations.py [--device cpu] [--rows C8 "28²"] [--ways eager compiled] [--quick]
    python benchmarks/rotations.py --json out/benchmarks/rotations.json --minutes 9

Five convolutions of 5×5 pixels with norms and ReLU, 128 channels of regular fields (64 on a CPU), over C8, C16 and
D8, on images of 28², 64² and 96² pixels. The options, the ways of running and the file are those of everyday.py.
"""

from __future__ import annotations

from functools import partial

import torch
from everyday import Row, main
from torch import nn

from steerable import FieldType
from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.algebra.groups import finite_group

GROUPS = ("C8", "C16", "D8")
LAYERS = 5


def turning(group: str, channels: int) -> nn.Module:
    """(batch, 3, n, n) → (batch, fields): regular fields of this many channels in all, made invariant at the end."""
    found = finite_group(group_named(group))
    source, target = FieldType(found, "3*A1"), FieldType(found, f"{channels // found.order}*regular")
    layers: list[snn.EquivariantModule] = []
    for _ in range(LAYERS):
        layers += [snn.Conv2d(source, target, 5, padding=2, bias=False), snn.BatchNorm2d(target), snn.ReLU(target)]
        source = target
    pool = snn.GroupPool(target)
    return snn.Sequential(*layers, pool, snn.GlobalAvgPool(pool.out_type))


def plain(channels: int) -> nn.Module:
    """The same convolutions without a group."""
    layers: list[nn.Module] = []
    for k in range(LAYERS):
        layers += [nn.Conv2d(channels if k else 3, channels, 5, padding=2, bias=False)]
        layers += [nn.BatchNorm2d(channels), nn.ReLU()]
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())


def rows(device: torch.device) -> list[Row]:
    channels, batch = (128, 64) if device.type == "cuda" else (64, 4)
    return [
        Row(f"{group}, {channels} channels", partial(turning, group, channels), partial(plain, channels), batch, size)
        for size in (28, 64, 96)
        for group in GROUPS
    ]


if __name__ == "__main__":
    main(rows, description=__doc__, with_layers=False)
