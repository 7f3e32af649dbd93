"""``convert``: the way from a plain network to its steerable counterpart.

The plain network is followed with torch.fx, so that a custom ``forward``, residual sums, ``torch.cat`` and functions
such as ``F.relu`` are fine. Every layer is replaced by its counterpart in ``steerable.nn``; the image consists of
scalars, hidden layers of copies of a mix of capsules, and the output of invariant scalars.

The report lists what else changes besides the types: channels are rounded to whole copies of the mix; layers of stride
2 that are off centre on some sizes are brought into an exact form (a convolution of stride 1 and a mean over 2×2
pixels, which costs four times as much there; a pooling window that grows by one where needed); groups of channels
become groups of capsules; flattening a 1×1 map becomes a mean over pixels.

>>> plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 5))
>>> print(convert(plain, "D4").report)
module  before             after                        parameters
0       Conv2d 3 → 16      Conv2d 3*A1 → 2*regular      448 → 56
1       ReLU               ReLU 2*regular
2       AdaptiveAvgPool2d  AdaptiveAvgPool2d 2*regular
3       Flatten            GlobalAvgPool 2*regular
4       Linear 16 → 5      Linear 2*regular → 5*A1      85 → 15
In all 533 → 71 parameters; D4, equal channels.
Exactly equivariant on 32×32 inputs, for instance.
All weights are new: pretrained ones are not carried over, and the network has to be trained.
"""

from __future__ import annotations

import copy
import dataclasses
import warnings
from typing import Any, Literal, get_args

import torch
from torch import fx, nn

from steerable.algebra.families import group_named, is_named
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.checking import EquivarianceError
from steerable.checking.typechecking import followed_types
from steerable.conversion.graph_analysis import GraphAnalysis
from steerable.conversion.graph_reading import read_network
from steerable.conversion.network import Converted
from steerable.conversion.network_assembly import assembled, count_parameters
from steerable.conversion.plan import ConversionPlan
from steerable.conversion.refusals import place_of_module, refusal
from steerable.conversion.report import NEW_WEIGHTS, ConversionReport
from steerable.conversion.widths import Mix, Widths, matching_width
from steerable.conversion.windows import Downsampling
from steerable.errors import expect
from steerable.nn.sampling import EquivarianceWarning, require_grid
from steerable.transforms import elements_on_the_grid
from steerable.types.field_types import FieldType

__all__ = ["Head", "Match", "convert"]

Match = Literal["channels", "parameters"]
Head = Literal["keep", "pool"]

# Tried in this order; powers of two fit most networks, odd sizes those that keep their strides.
_SIZES = (32, 33, 64, 65, 63, 224, 225, 227, 28, 29, 16, 17)
_VOLUME_SIZES = (8, 9, 16, 17, 15, 32, 33)


def convert(
    model: nn.Module,
    group: Group | str,
    *,
    match: Match = "channels",
    mix: Mix = "regular",
    downsampling: Downsampling = "pool",
    head: Head = "keep",
    in_channels: int | None = None,
    out_type: FieldType | str | None = None,
) -> Converted:
    """The steerable counterpart of an ordinary network: same layout, new weights, exactly equivariant.

    ``model`` is not changed. The weights are new and random: the counterpart has to be trained, since it does not
    compute what ``model`` computes. Pretrained weights are not carried over; if ``model`` has been trained, a warning
    says so. ``report`` lists what was replaced. ``steerable.models.save_converted`` saves the network.

    Args:
        model: convolutions, linear layers, norms, pointwise functions, pooling, dropout, upsampling, sums, products,
            concatenation, layer scale, stochastic depth; anything else is named and refused.
        group: the group, or its name, such as ``"D4"`` for images and ``"O"`` for volumes. One that turns them by other
            angles than 90°, such as C8 or D8, gives a network that is exact for the part of the group that the grid
            carries.
        match: ``"channels"`` keeps the number of channels and so roughly the cost of a step, with fewer parameters;
            ``"parameters"`` widens all hidden layers until there are about as many parameters, and a step costs more.
        mix: the capsules of hidden layers as text, such as ``"regular + qm"``, or a function from a number of channels
            to a field type. Copies of ``regular`` and other permutations admit every pointwise activation.
        downsampling: ``"pool"`` is exact on every size; ``"stride"`` keeps all strides and windows, most of which are
            exact on odd sizes.
        head: ``"keep"`` refuses a network that flattens several pixels into a linear layer, as VGG and AlexNet do;
            ``"pool"`` gives that layer the mean over all pixels instead.
        in_channels: the number of channels of the image, if no layer shows it.
        out_type: the type of the output, or its text, in place of invariant scalars; it has as many channels.

    Returns:
        A module with ``in_type``, ``out_type`` and ``report``, and the counterparts in ``net``; in the dtype, on the
        device and in the mode of ``model``.

    Raises:
        ConversionError: a TypeError that names the first module or function without a counterpart, with the remedy.
    """
    expect(model, nn.Module, "a torch.nn.Module to convert")
    model = getattr(model, "_orig_mod", model)  # a compiled network is converted as it was written
    group = _known_group(group)
    _check_options({"match": match, "downsampling": downsampling, "head": head}, in_channels)
    analysis = GraphAnalysis(head == "pool", group.axes or 2, downsampling)
    plan = read_network(model, analysis, in_channels, _known_type(out_type, group))
    widths = Widths(group, mix, _width_factor(plan, Widths(group, mix), model, match))
    types = widths.type_of(plan.in_variable), widths.type_of(plan.out_variable)
    with torch.device("cpu"):  # wherever new tensors go by default; the check needs values
        net, rows = assembled(plan, widths)
        checked = _checked(net, model, *types)
    counts = (count_parameters(model.parameters()), count_parameters(net.parameters()))
    carried = elements_on_the_grid(group)
    exactly = (carried if len(carried) < group.order else ()), group.axes or 2
    report = ConversionReport(group.name, match, widths.factor, rows, *counts, *checked, plan.remark, *exactly)
    converted = _in_the_manner_of(model, Converted(net, *types, report))
    converted.request = _request(group, match, mix, downsampling, head, in_channels, out_type)
    _warn_if_trained(model)
    return converted


def _request(group: Group, match: Match, mix: Mix, *rest: Any) -> dict[str, Any] | None:
    """The arguments of ``convert`` as a file can hold them; None if one is a function or a group without a name."""
    names = ("downsampling", "head", "in_channels", "out_type")
    asked = {"group": group.name, "match": match, "mix": mix, **dict(zip(names, rest, strict=True))}
    asked["out_type"] = None if asked["out_type"] is None else str(asked["out_type"])
    return asked if isinstance(mix, str) and is_named(group) else None


def _warn_if_trained(model: nn.Module) -> None:
    """Warn if a batch norm has seen images; in a network that was just built, its means are zero."""
    means = (getattr(module, "running_mean", None) for module in model.modules())
    if any(mean is not None and not mean.is_meta and bool(mean.detach().any()) for mean in means):
        text = f"{NEW_WEIGHTS} {type(model).__name__} has been trained, and its counterpart has not."
        warnings.warn(text, stacklevel=3)


def _known_group(group: Group | str) -> Group:
    group = group_named(group) if isinstance(group, str) else group
    expect(group, Group, "a group such as dihedral(4), or its name")
    if not isinstance(group, FiniteGroup):
        raise TypeError(
            f"cannot convert a network to {group.name}, which has infinitely many elements: its fields hold no values "
            "at single elements, to which the network's nonlinearities could be applied. Use a finite group inside it, "
            "such as cyclic(16) in so2() and octahedral() in so3()."
        )
    if group.axes not in (2, 3):  # others are told which groups there are
        require_grid(group)
    return group


def _check_options(chosen: dict[str, str], in_channels: int | None) -> None:
    known = {"match": get_args(Match), "downsampling": get_args(Downsampling), "head": get_args(Head)}
    for name, value in chosen.items():
        if value not in known[name]:
            raise ValueError(f"{name} must be one of {', '.join(known[name])}; got {value!r}.")
    counts = isinstance(in_channels, int) and not isinstance(in_channels, bool) and in_channels >= 1
    if in_channels is not None and not counts:
        raise ValueError(f"in_channels must be a whole number ≥ 1, got {in_channels!r}.")


def _known_type(out_type: FieldType | str | None, group: Group) -> FieldType | None:
    if out_type is None:
        return None
    out_type = FieldType(group, out_type) if isinstance(out_type, str) else out_type
    expect(out_type, FieldType, "out_type to be a FieldType or its text")
    if out_type.group != group:
        raise TypeError(f"out_type is a type of {group.name}, got one of {out_type.group.name}.")
    return out_type


def _width_factor(plan: ConversionPlan, widths: Widths, model: nn.Module, match: Match) -> float:
    """The factor by which the plain network's hidden channels are multiplied."""
    if match == "channels":
        return 1.0

    def parameters(factor: float) -> int:
        with torch.device("meta"):  # shapes alone
            wider = dataclasses.replace(widths, factor=factor)
            return count_parameters(assembled(plan, wider)[0].parameters())

    return matching_width(parameters, count_parameters(model.parameters()))


def _in_the_manner_of(model: nn.Module, converted: Converted) -> Converted:
    """The converted network with the dtype, the device and the mode of the plain one."""
    like = next((t for t in (*model.parameters(), *model.buffers()) if t.is_floating_point()), None)
    if like is not None:
        converted.to(like.device, like.dtype)
    converted.plain_name = type(model).__name__
    return converted.train(model.training)


def _checked(net: fx.GraphModule, model: nn.Module, in_type: FieldType, out_type: FieldType) -> tuple[int | None, str]:
    """Follow the types through the finished network, and measure, on the first size on which all windows fit.

    Returns:
        That size, or None and why the first one does not fit.
    """
    # A copy: a copied slope may be on another device.
    trial = copy.deepcopy(net).to("cpu", torch.float64)
    failures: list[str] = []
    axes = in_type.group.axes or 2
    for size in _SIZES if axes == 2 else _VOLUME_SIZES:
        extents = "×".join([str(size)] * axes)
        try:
            found = followed_types(trial, in_type, size, batch=2)
        except EquivarianceError as error:
            if not isinstance(error.__cause__, RuntimeError | EquivarianceWarning):
                raise refusal(place_of_module("", model), str(error)) from None
            failures.append(f"{extents}: {error.__cause__}")  # sizes differ in a sum, or a window is off centre
            continue
        except (ValueError, RuntimeError) as failure:  # too small, or sizes differ
            failures.append(f"{extents}: {failure}")
            continue
        if found != out_type:
            raise ArithmeticError(
                f"the converted network gives `{found}` where `{out_type}` was planned; this is a bug."
            )
        return size, ""
    return None, failures[0]
