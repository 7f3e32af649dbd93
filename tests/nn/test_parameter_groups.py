"""Parameters for an optimiser: under Adam the taps of every bank move as fast as the weights of a plain layer."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from steerable import FieldType, cyclic, dihedral, octahedral, so2, trivial
from steerable import nn as snn

RATE = 1e-3
LAYERS = {
    "D4": lambda: snn.Conv2d(FieldType(dihedral(4), "3*regular"), FieldType(dihedral(4), "2*qm + 4*E"), 3),
    "C1": lambda: snn.Conv2d(FieldType(trivial(), "3*A"), FieldType(trivial(), "4*A"), 3),
    "linear": lambda: snn.Linear(FieldType(dihedral(4), "3*regular"), FieldType(dihedral(4), "5*A1")),
    "O": lambda: snn.Conv3d(FieldType(octahedral(), "2*A1"), FieldType(octahedral(), "regular"), 3),
    "plain": lambda: nn.Conv2d(3, 4, 3),
}
OFF_GRID = {
    "C8": lambda: snn.Conv2d(FieldType(cyclic(8), "2*regular"), FieldType(cyclic(8), "2*regular"), 5),
    "SO2": lambda: snn.Conv2d(FieldType(so2(), "2*regular(2)"), FieldType(so2(), "3*E1 + 2*A"), 5),
}


def moved_taps(layer: nn.Module) -> float:
    """Root mean square of what the first step of Adam, which moves every parameter by its rate, does to the filters."""

    def taps() -> torch.Tensor:
        found = layer.expand()[0] if isinstance(layer, snn.EquivariantModule) else layer.weight  # type: ignore[operator]
        return found.detach().clone()

    torch.manual_seed(0)
    optimiser = torch.optim.Adam(snn.parameter_groups(layer.double(), RATE), eps=0.0)
    before = taps()
    for parameter in layer.parameters():
        parameter.grad = torch.randn_like(parameter)
    optimiser.step()
    return float((taps() - before).square().mean().sqrt())


@pytest.mark.parametrize("name", LAYERS)
def test_taps_move_as_in_a_plain_layer(name: str) -> None:
    assert moved_taps(LAYERS[name]()) == pytest.approx(RATE, rel=1e-6)


@pytest.mark.parametrize("name", OFF_GRID)
@pytest.mark.filterwarnings("ignore::steerable.nn.EquivarianceWarning")
def test_taps_off_the_grid_move_about_as_fast(name: str) -> None:
    """Their filters are orthonormal as coefficients, and nearly so as taps."""
    assert RATE / 2 < moved_taps(OFF_GRID[name]()) < 2 * RATE


def test_every_parameter_that_is_not_frozen_is_in_one_group() -> None:
    field = FieldType(dihedral(4), "2*regular")
    conv = snn.Conv2d(field, field, 3)
    net = nn.ModuleList([conv, conv, snn.BatchNorm2d(field), snn.Linear(field, field), nn.Linear(3, 3)])
    net[4].weight = nn.Parameter(torch.zeros(3, 3), requires_grad=False)
    tied = nn.Conv2d(3, 3, 1)
    net.append(tied)
    other = nn.Conv2d(3, 3, 1)
    other.weight = tied.weight
    net.append(other)
    groups = snn.parameter_groups(net, 0.1, 0.5)
    found = [id(parameter) for group in groups for parameter in group["params"]]
    assert sorted(found) == sorted(id(p) for p in net.parameters() if p.requires_grad)
    decaying = {id(p) for group in groups if group["weight_decay"] for p in group["params"]}
    assert decaying == {id(conv.weight), id(net[3].weight), id(tied.weight)}
    torch.optim.AdamW(groups)  # which refuses parameters that come twice


def test_bad_input_is_named() -> None:
    net = nn.Linear(2, 2)
    with pytest.raises(TypeError, match=r"takes an `nn.Module`; got .* Give the network itself"):
        snn.parameter_groups(net.parameters(), 0.1)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match=r"unknown optimiser 'lion'.*Use 'adam' for AdamW"):
        snn.parameter_groups(net, 0.1, optimiser="lion")  # type: ignore[arg-type]
    for rate in (0.0, -1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="lr must be a finite number above 0; got"):
            snn.parameter_groups(net, rate)
    with pytest.raises(ValueError, match="weight_decay must be a finite number from 0 on; got -1"):
        snn.parameter_groups(net, 0.1, -1.0)
