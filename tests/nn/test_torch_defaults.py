"""Where a layer has an option of torch's layer of the same name, it has the same default: people expect it."""

import inspect

import pytest
from torch import nn

from steerable import nn as snn

OWN = {"Upsample": {"scale_factor"}}  # torch has none, since a size may be given in its place
PAIRS = sorted(name for name in snn.__all__ if hasattr(nn, name) and inspect.isclass(getattr(snn, name)))


def options(layer: type) -> dict[str, object]:
    parameters = inspect.signature(layer).parameters
    return {name: p.default for name, p in parameters.items() if p.default is not inspect.Parameter.empty}


@pytest.mark.parametrize("name", PAIRS)
def test_defaults_are_torchs(name: str) -> None:
    ours, theirs = options(getattr(snn, name)), options(getattr(nn, name))
    shared = ours.keys() & theirs.keys() - OWN.get(name, set())
    assert {key: ours[key] for key in shared} == {key: theirs[key] for key in shared}


def test_the_usual_layers_are_compared() -> None:
    assert {"Conv2d", "ConvTranspose2d", "Linear", "BatchNorm2d", "GroupNorm", "LayerNorm", "Dropout"} <= set(PAIRS)
