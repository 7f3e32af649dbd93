"""``convert``: from a plain network to its steerable counterpart."""

from __future__ import annotations

import copy
from typing import Literal, get_args

import torch
from torch import fx, nn

from steerable.algebra.families import group_named
from steerable.algebra.groups import FiniteGroup
from steerable.checking import EquivarianceError, typecheck
from steerable.conversion.building import build, count_parameters
from steerable.conversion.measuring import first_breach
from steerable.conversion.network import Converted
from steerable.conversion.reading import read_network
from steerable.conversion.refusals import place_of_module, refusal
from steerable.conversion.report import ConversionReport
from steerable.conversion.widths import Mix, Widths, matching_width
from steerable.conversion.windows import Downsampling
from steerable.errors import expect
from steerable.nn.sampling import EquivarianceWarning, axes_swapped
from steerable.types.field_types import FieldType

__all__ = ["Head", "Match", "convert"]

Match = Literal["channels", "parameters"]
Head = Literal["keep", "pool"]

# Tried in this order; powers of two fit most networks, odd sizes those that keep their strides.
_SIZES = (32, 33, 64, 65, 63, 224, 225, 227, 28, 29, 16, 17)


def convert(
    model: nn.Module,
    group: FiniteGroup | str,
    *,
    match: Match = "channels",
    mix: Mix = "regular",
    downsampling: Downsampling = "pool",
    head: Head = "keep",
    in_channels: int | None = None,
    out_type: FieldType | str | None = None,
) -> Converted:
    """The steerable counterpart of an ordinary network of images: same layout, new weights, exactly equivariant.

    ``model`` is followed with torch.fx, so that a ``forward`` of its own, residual sums, ``torch.cat`` and functions
    such as ``F.relu`` are fine. Every layer is replaced by that of ``steerable.nn``; the image is made of scalars, what
    is in between of copies of ``mix``, and the output of invariant scalars. ``model`` is not changed. The weights are
    freshly drawn: the counterpart is to be trained, it does not compute what ``model`` computes.

    What changes beside the types is in ``report``: channels are rounded to whole copies of the mix; layers of stride 2
    that are off centre on some sizes are brought into an exact form (a convolution of stride 1 and a mean over 2×2
    pixels, which costs four times as much there; a pooling window that grows by one where needed); groups of channels
    become groups of capsules; flattening a 1×1 map becomes a mean over pixels.

    Args:
        model: convolutions, linear layers, norms (also of channels-last tensors), pointwise activations, pooling,
            dropout, upsampling, sums, products, concatenation, layer scale, stochastic depth; for anything else the
            module is named and refused. VGG and AlexNet need ``head="pool"``.
        group: the group, or its name; one that maps the pixel grid onto itself.
        match: ``"channels"`` keeps the number of channels and so, about, the cost of a step, with fewer parameters.
            ``"parameters"`` widens all hidden layers by one factor until there are as many parameters as before, or
            nearly; a step costs more.
        mix: the capsules of hidden layers as text, such as ``"regular + qm"``, or a function from a number of channels
            to a field type. Copies of ``regular`` and other permutations admit every pointwise activation.
        downsampling: ``"pool"`` is the exact form; ``"stride"`` keeps all strides and windows, most of which are exact
            on odd sizes.
        head: ``"keep"`` refuses a network that flattens several pixels into a linear layer, as VGG and AlexNet do,
            since such a layer depends on where each pixel is; ``"pool"`` gives that layer the mean over all pixels
            instead, and the report says so.
        in_channels: channels of the image, where no layer says so.
        out_type: the type of the output, or its text, where it is to be other than invariant scalars; of as many
            channels.

    Returns:
        A module with ``in_type``, ``out_type`` and ``report``, and the counterparts in ``net``; in the dtype, on the
        device and in the mode of ``model``.

    Raises:
        ConversionError: a TypeError that names the first module or function without a counterpart, with the remedy.

    >>> import steerable as st
    >>> plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))
    >>> net = st.convert(plain, st.dihedral(4))
    >>> print(net.report)
    module  before             after                        parameters
    0       Conv2d 3 → 16      Conv2d 3*A1 → 2*regular      448 → 56
    1       ReLU               ReLU 2*regular
    2       AdaptiveAvgPool2d  AdaptiveAvgPool2d 2*regular
    3       Flatten            GlobalAvgPool 2*regular
    4       Linear 16 → 5      Linear 2*regular → 5*A1      85 → 15
    In all 533 → 71 parameters; D4, equal channels.
    Exactly equivariant on 32×32 inputs, for instance.
    """
    expect(model, nn.Module, "a torch.nn.Module to convert")
    group = group_named(group) if isinstance(group, str) else group
    expect(group, FiniteGroup, "a group such as dihedral(4), or its name")
    for name, value, known in (
        ("match", match, get_args(Match)),
        ("downsampling", downsampling, get_args(Downsampling)),
        ("head", head, get_args(Head)),
    ):
        if value not in known:
            raise ValueError(f"{name} is one of {', '.join(known)}; got {value!r}.")
    axes_swapped(group)  # refuses a group that does not map the pixel grid onto itself
    if in_channels is not None and (
        isinstance(in_channels, bool) or not isinstance(in_channels, int) or in_channels < 1
    ):
        raise ValueError(f"in_channels is a whole number ≥ 1, got {in_channels!r}.")
    if isinstance(out_type, str):
        out_type = FieldType(group, out_type)
    if out_type is not None:
        expect(out_type, FieldType, "out_type to be a FieldType or its text")
    if out_type is not None and out_type.group != group:
        raise TypeError(f"out_type is a type of {group.name}, got one of {out_type.group.name}.")
    plan = read_network(model, in_channels, out_type, pools_head=head == "pool")
    target = count_parameters(model.parameters())

    def parameters(factor: float) -> int:
        with torch.device("meta"):  # shapes alone
            return count_parameters(build(plan, Widths(group, mix, factor), downsampling)[0].parameters())

    factor = matching_width(parameters, target) if match == "parameters" else 1.0
    widths = Widths(group, mix, factor)
    with torch.device("cpu"):  # wherever new tensors go by default; the check below needs values
        net, rows = build(plan, widths, downsampling)
    in_type, out = widths.type_of(plan.in_fibre), widths.type_of(plan.out_fibre)
    size, failure = _checked(net, model, in_type, out)
    after = count_parameters(net.parameters())
    report = ConversionReport(group.name, match, factor, rows, target, after, size, failure, plan.remark)
    converted = Converted(net, in_type, out, report)
    like = next((t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()), None)
    if like is not None:
        converted.to(like.device, like.dtype)
    return converted.train(model.training)


def _checked(net: fx.GraphModule, model: nn.Module, in_type: FieldType, out_type: FieldType) -> tuple[int | None, str]:
    """Follow the types through the finished network, and measure, on the first size on which all windows fit.

    Returns:
        That size, or None and why the first one does not fit.
    """
    # A copy: a copied slope may be on another device.
    trial = copy.deepcopy(net).to("cpu", torch.get_default_dtype())
    failures: list[str] = []
    for size in _SIZES:
        try:
            found = typecheck(trial, in_type, size=size, batch=1)
        except EquivarianceError as error:
            if not isinstance(error.__cause__, RuntimeError | EquivarianceWarning):
                raise refusal(*(first_breach(trial, in_type, size) or (place_of_module("", model), error))) from None
            failures.append(f"{size}×{size}: {error.__cause__}")  # sizes differ in a sum, or a window is off centre
            continue
        except (ValueError, RuntimeError) as failure:  # too small, or sizes differ
            failures.append(f"{size}×{size}: {failure}")
            continue
        if found != out_type:
            raise ArithmeticError(
                f"the converted network gives `{found}` where `{out_type}` was planned; this is a bug."
            )
        breach = first_breach(trial, in_type, size)
        if breach is not None:
            raise refusal(*breach)
        return size, ""
    return None, failures[0]
