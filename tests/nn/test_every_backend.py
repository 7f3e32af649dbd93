"""The law of all backends, also of those that are yet to be written: they compute the same function as ``dense``."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from steerable import FieldType, cyclic, dihedral, octahedral
from steerable import nn as snn
from steerable.nn.backends import Choice, Passes
from steerable.nn.backends.known import BACKENDS

D4, C4 = dihedral(4), cyclic(4)
CASES = {
    "plain": (snn.Conv2d, FieldType(D4, "2*regular + E"), {}, (6, 7)),
    "without bias": (snn.Conv2d, FieldType(D4, "2*regular"), {"bias": False}, (6, 6)),
    "dilated": (snn.Conv2d, FieldType(C4, "3*regular"), {"dilation": 2, "padding": 2}, (7, 6)),
    "circular": (snn.Conv2d, FieldType(D4, "2*regular"), {"padding_mode": "circular"}, (6, 6)),
    "strided": (snn.Conv2d, FieldType(D4, "2*regular"), {"stride": 2}, (7, 7)),
    "in groups": (snn.Conv2d, FieldType(D4, "2*regular + 2*E"), {"groups": 2}, (6, 6)),
    "volumes": (snn.Conv3d, FieldType(octahedral(), "regular"), {}, (4, 5, 4)),
}
names = pytest.mark.parametrize("name", [name for name in BACKENDS if name != "dense"])
cases = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


def results(layer: Any, x: Tensor) -> list[Tensor]:
    """The output, the gradients, and the gradients of these."""
    inputs = [x, *layer.parameters()]
    y = layer(x)
    first = torch.autograd.grad(y.pow(3).sum(), inputs, create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), inputs)
    return [y, *first, *second]


@names
@cases
def test_it_computes_what_the_dense_one_does(name: str, case: Any) -> None:
    kind, field_type, options, size = case
    torch.manual_seed(0)
    layer = kind(field_type, field_type, 3, **{"padding": 1, **options}, backend="dense").double()
    torch.nn.init.normal_(layer.weight)
    x = torch.randn(2, field_type.channels, *size, dtype=torch.float64, requires_grad=True)
    expected = results(layer, x)
    backend = BACKENDS[name]
    if (reason := backend.why_not(layer.runner.problem)) is not None:
        assert reason[0].islower()  # the end of a sentence
        assert not reason.endswith(".")
        return
    gradients = name if backend.differentiates else "dense"
    passes = Passes(name if backend.forwards else "dense", gradients, gradients)
    layer.runner.use(Choice(passes, passes.forward))
    for found, value in zip(results(layer, x), expected, strict=True):
        assert (found - value).abs().max() <= 1e-11 * value.abs().max()
    with torch.no_grad():
        torch.testing.assert_close(layer(x), expected[0].detach(), rtol=1e-11, atol=1e-11)


@names
def test_it_keeps_channels_last(name: str) -> None:
    field_type = FieldType(D4, "2*regular")
    layer = snn.Conv2d(field_type, field_type, 3, padding=1, backend="dense").to(memory_format=torch.channels_last)
    if BACKENDS[name].forwards:
        layer.runner.use(Choice(Passes(name), name))
    x = torch.randn(2, field_type.channels, 6, 6).contiguous(memory_format=torch.channels_last)
    assert layer(x).is_contiguous(memory_format=torch.channels_last)
