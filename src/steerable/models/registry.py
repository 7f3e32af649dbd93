"""Models by name and config: what a run folder and the command line write down."""

from __future__ import annotations

import inspect
from typing import Any

from torch import nn

from steerable.errors import did_you_mean
from steerable.models.plain import PlainResNet
from steerable.models.plain_unet import PlainUNet
from steerable.models.resnet import ResNet
from steerable.models.unet import UNet

__all__ = ["MODELS", "build_model"]

MODELS: dict[str, type[ResNet] | type[PlainResNet] | type[UNet] | type[PlainUNet]] = {
    "resnet": ResNet,
    "plain_resnet": PlainResNet,
    "unet": UNet,
    "plain_unet": PlainUNet,
}


def build_model(name: str, **config: Any) -> nn.Module:
    """A model by its name and arguments; unknown ones are refused with the nearest known.

    >>> type(build_model("plain_resnet", depth=8, width=4)).__name__
    'PlainResNet'
    """
    if name not in MODELS:
        raise ValueError(f"unknown model {name!r}. {did_you_mean(str(name), MODELS)}")
    known = [key for key in inspect.signature(MODELS[name].__init__).parameters if key != "self"]
    for key in config:
        if key not in known:
            raise ValueError(f"{name} has no option `{key}`. {did_you_mean(key, known)}")
    return MODELS[name](**config)
