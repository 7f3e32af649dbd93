"""The parts of a network by name, from the image to the answer, and functions that freeze some of them.

A residual network has the parts ``stem``, ``stage1``, ``stage2``, ``stage3`` and ``head``. A U-Net of depth 2 has
``level1``, ``level2`` and ``level3`` on the way down, ``up2`` and ``up1`` on the way up, and ``head``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from torch import nn

from steerable.errors import did_you_mean, listing
from steerable.models.plain_resnets import PlainBlock
from steerable.models.residual_blocks import PreActivationBlock
from steerable.nn.filter_bank import FilterBankModule

__all__ = ["ALL_BUT_HEAD", "first_convolution", "freeze", "frozen_parts", "image_channels", "parts_of"]

ALL_BUT_HEAD = "all-but-head"
STAGES = 3
_BLOCKS = (PreActivationBlock, PlainBlock)


def parts_of(network: nn.Module) -> dict[str, list[nn.Module]]:
    """The modules of a residual network or a U-Net, by the part that they belong to, in the order of computation.

    >>> from steerable.models import resnet, unet
    >>> list(parts_of(resnet(8, 1)))
    ['stem', 'stage1', 'stage2', 'stage3', 'head']
    >>> list(parts_of(unet(2, 1)))
    ['level1', 'level2', 'level3', 'up2', 'up1', 'head']
    """
    names = dict(network.named_children())
    if "encoders" in names:
        found = _unet_parts(names)
    elif "features" in names and any(isinstance(child, _BLOCKS) for child in names["features"].children()):
        found = _residual_parts(list(names["features"].children()))
    else:
        raise TypeError(
            f"{type(network).__name__} has no parts with names; expected a residual network or a U-Net of "
            "steerable.models."
        )
    return {**found, "head": [names["head"]]}


def _unet_parts(names: dict[str, nn.Module]) -> dict[str, list[nn.Module]]:
    encoders, upsamplers, decoders = (list(names[key].children()) for key in ("encoders", "upsamplers", "decoders"))
    joins = list(names["joins"].children()) if "joins" in names else []
    found = {f"level{k}": [encoder] for k, encoder in enumerate(encoders, start=1)}
    for k, (upsampler, decoder) in enumerate(zip(upsamplers, decoders, strict=True)):
        found[f"up{len(decoders) - k}"] = [upsampler, *joins[k : k + 1], decoder]
    return found


def _residual_parts(children: list[nn.Module]) -> dict[str, list[nn.Module]]:
    """The first convolution, then this many blocks for each stage; layers between blocks belong to the next one."""
    stem, *others = children
    found: dict[str, list[nn.Module]] = {"stem": [stem], **{f"stage{k}": [] for k in range(1, STAGES + 1)}}
    each = sum(isinstance(child, _BLOCKS) for child in others) // STAGES
    blocks = 0
    for child in others:
        found[f"stage{min(STAGES, blocks // each + 1)}"].append(child)
        blocks += isinstance(child, _BLOCKS)
    return found


def first_convolution(network: nn.Module) -> FilterBankModule | nn.Conv2d | nn.Conv3d:
    """The layer that reads the image."""
    first = next(iter(parts_of(network).values()))[0]
    return next(layer for layer in first.modules() if isinstance(layer, FilterBankModule | nn.Conv2d | nn.Conv3d))


def image_channels(network: nn.Module) -> int:
    """The number of channels of a network's images."""
    first = first_convolution(network)
    return first.in_type.channels if isinstance(first, FilterBankModule) else first.in_channels


def frozen_parts(names: Iterable[str], text: str) -> list[str]:
    """The parts that a text freezes: ``"all-but-head"``, a number of first ones, or names with commas between.

    Args:
        names: all parts of the network, the head last.
        text: what to freeze.

    >>> frozen_parts(["stem", "stage1", "stage2", "stage3", "head"], "2")
    ['stem', 'stage1']
    """
    known = [name for name in names if name != "head"]
    if text == ALL_BUT_HEAD:
        return known
    if re.fullmatch(r"\d+", text.strip()):
        if not 1 <= int(text) <= len(known):
            raise ValueError(
                f"freeze={text} is the number of parts that stay as they are, counted from the image on; expected 1 to "
                f"{len(known)}: {listing(known, 20)}."
            )
        return known[: int(text)]
    wanted = [name.strip() for name in text.split(",")]
    for name in wanted:
        if name == "head":
            raise ValueError(
                "freeze names the head, which is always trained, because other images have other classes. Freeze some "
                f"of {listing(known, 20)}."
            )
        if name not in known:
            raise ValueError(
                f"freeze names the part {name!r}, and this network has {listing(known, 20)}. "
                f"{did_you_mean(name, known)} Or give a number of parts, or `{ALL_BUT_HEAD}`."
            )
    return [name for name in known if name in wanted]


def freeze(network: nn.Module, text: str) -> list[nn.Module]:
    """Keep parts of a network as they are, without gradients and in evaluation mode, and return their modules.

    In evaluation mode batch norms use the statistics that they have, and do not move them.

    Args:
        network: a residual network or a U-Net.
        text: see :func:`frozen_parts`.
    """
    parts = parts_of(network)
    found = [module for name in frozen_parts(parts, text) for module in parts[name]]
    for module in found:
        module.requires_grad_(False).eval()
    return found
