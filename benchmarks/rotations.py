"""Networks that turn by other angles than 90° beside plain ones of the same channels.

    python benchmarks/rotations.py [--device cpu] [--rows C8 "28²"] [--ways eager compiled] [--quick]
    python benchmarks/rotations.py --json out/benchmarks/rotations.json --minutes 9

Five convolutions of 5×5 pixels with norms and ReLU, 128 channels of regular fields (64 on a CPU), over C8, C16 and
D8, on images of 28², 64² and 96² pixels. Over SO(2) there are as many copies of its first four irreps as fit, with the
nonlinearity that networks give them. The options, the ways of running and the file are those of everyday.py.
"""

from __future__ import annotations

from functools import partial

import torch
from everyday import Row, main
from torch import nn

from steerable import FieldType
from steerable import nn as snn
from steerable.algebra.families import group_named
from steerable.types.network_plans import default_mix

GROUPS = ("C8", "C16", "D8", "SO2")
LAYERS = 5


def fields(group: str, channels: int) -> FieldType:
    """At most this many channels: as many copies as fit of what networks over the group are made of."""
    unit = FieldType(group, default_mix(group_named(group)))
    return channels // unit.channels * unit


def turning(target: FieldType) -> nn.Module:
    """(batch, 3, n, n) → (batch, capsules): a network of such fields, made invariant at the end."""
    permutes = all(capsule.admits("pointwise") for capsule in target.capsules)
    source, activation = FieldType(target.group, "3*A1"), snn.ReLU if permutes else snn.Activation
    layers: list[snn.EquivariantModule] = []
    for _ in range(LAYERS):
        layers += [snn.Conv2d(source, target, 5, padding=2, bias=False), snn.BatchNorm2d(target), activation(target)]
        source = target
    pool = snn.GroupPool(target, "max" if permutes else "norm")
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
    types = [fields(group, channels) for group in GROUPS]
    return [
        Row(f"{t.group.name}, {t.channels} channels", partial(turning, t), partial(plain, t.channels), batch, size)
        for size in (28, 64, 96)
        for t in types
    ]


if __name__ == "__main__":
    main(rows, description=__doc__, with_layers=False)
