"""The size of a network: from a number of parameters, or as one of the sizes that a run chooses from."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.families import dihedral, group_named
from steerable.errors import did_you_mean
from steerable.models.registry import MODELS, build_model, described_model
from steerable.models.widths import nearest_width
from steerable.training.requests.config import SIZES, RunConfig
from steerable.types.field_types import FieldType
from steerable.types.network_plans import HALVINGS, STEMS, default_mixes

__all__ = [
    "count_parameters",
    "exact_side",
    "sides_to_try",
    "size_in_words",
    "sized_model",
    "sizes_to_try",
    "with_depth",
    "with_stem",
]

SMALLEST_SIDE = 32  # pixels to which a run with little time reduces larger images


def sized_model(model: dict[str, Any], parameters: int, **kind: Any) -> dict[str, Any]:
    """The model with the width that brings it closest to a number of parameters.

    >>> sized_model({"name": "resnet", "depth": 8}, 45_000, in_channels=1)["copies"]
    2
    """
    if (name := model["name"]) not in MODELS:
        raise ValueError(f"a model must be one of {', '.join(MODELS)}. {did_you_mean(str(name), MODELS)}")
    option = MODELS[name].width
    width = nearest_width(lambda width: build_model(**{**kind, **model, option: width}), parameters)
    return {**model, option: width}


def sizes_to_try(model: dict[str, Any], side: int) -> list[dict[str, Any]]:
    """The model in each of its sizes, from the fastest to the largest; options that it has already are kept.

    The small ones see the image reduced to 16 to 32 pixels by their first convolution, because most of the time is
    spent at the largest resolution. The large ones have half that reduction, and the fastest has twice that.

    Args:
        model: its name and options.
        side: height and width of the images.
    """
    axes = model.get("axes", 2)
    entry = MODELS[model["name"]]
    if not entry.sizes_on(axes):
        return [model]
    usual, wider, width = (
        _stem(side, 16 if axes == 3 else 24 if side <= 96 else 32),
        _copies_for_one(model),
        entry.width,
    )
    sizes = [{**size, width: wider * size[width]} for size in entry.sizes_on(axes)]
    smallest = sizes[0]
    found = [with_stem({**smallest, **model}, side, 2 * usual)] if _is_exact(2 * usual, side) else []
    for size in sizes:
        finer = size["depth"] > smallest["depth"] and side // usual < (12 if axes == 3 else 24)
        found.append(with_stem({**size, **model}, side, usual // 2 if finer else usual))
    return [sized for number, sized in enumerate(found) if sized not in found[:number]]


def sides_to_try(model: dict[str, Any], side: int) -> list[int]:
    """The side of images and its halves, as long as the model is exact on them and can still see enough.

    >>> sides_to_try({"name": "resnet"}, 128), sides_to_try({"name": "resnet", "stem": 8}, 96)
    ([128, 64, 32], [96])
    """
    if MODELS[model["name"]].task == "dense" or model.get("axes", 2) == 3:  # tiles are cut, volumes small already
        return [side]
    half, odd = divmod(side, 2)
    is_last = odd or half < SMALLEST_SIDE or not _is_exact(model.get("stem", 1), half)
    return [side] if is_last else [side, *sides_to_try(model, half)]


def exact_side(model: Mapping[str, Any], side: int) -> int:
    """The side nearest to this one on which a model with a stem is exactly equivariant.

    >>> exact_side({"name": "resnet", "stem": 8}, 48), exact_side({"name": "resnet"}, 48)
    (64, 48)
    """
    step = HALVINGS * int(model.get("stem", 1))
    return max(step, (side + step // 2) // step * step)


def size_in_words(settings: RunConfig, side: int) -> str:
    """The size of a run's network and the reason for it, if the run has chosen it by its time; else nothing.

    Args:
        settings: those of the run's plan.
        side: height and width of the images.
    """
    if settings.fit != "shrink" or settings.minutes is None:
        return ""
    model = settings.model
    sizes = sizes_to_try({key: value for key, value in model.items() if key not in SIZES}, side)
    if len(sizes) == 1:
        return ""
    given = ", ".join(f"{name} {model[name]}" for name in SIZES if name in model)
    place = sizes.index(model) if model in sizes else -1
    if place == 0:
        return f" ({given}: the fastest of {len(sizes)} sizes)"
    enough = "" if place == len(sizes) - 1 else " that has enough epochs"
    return f" ({given}: the largest of {len(sizes)} sizes{enough})" if place > 0 else f" ({given})"


def with_stem(model: dict[str, Any], side: int, stem: int | None = None) -> dict[str, Any]:
    """The model with a stem that suits images with this side, unless it has a stem already or cannot have one.

    Args:
        model: its name and options.
        side: height and width of the images.
        stem: the reduction; by default the smallest one that leaves 32 pixels, or 16 voxels, at most. One that would
            not be exact for this side is not taken.
    """
    if "stem" not in MODELS[model["name"]].options:
        return model
    chosen = _stem(side, 16 if model.get("axes", 2) == 3 else 32) if stem is None else stem
    return {"stem": chosen, **model} if chosen > 1 and _is_exact(chosen, side) else model


def with_depth(model: dict[str, Any], *, shallow: bool) -> dict[str, Any]:
    """The model with the smallest or greatest depth of its sizes, unless it has a depth already or there are none.

    >>> with_depth({"name": "resnet"}, shallow=True), with_depth({"name": "wide_resnet"}, shallow=False)
    ({'depth': 8, 'name': 'resnet'}, {'depth': 16, 'name': 'wide_resnet'})
    """
    entry = MODELS.get(model["name"])
    if entry is None or "depth" not in entry.options:
        return model
    if entry.task == "dense":
        return {"depth": 3, **model}  # which sees a neighbourhood of 50 pixels
    depths = [size["depth"] for size in entry.sizes_on(model.get("axes", 2)) if "depth" in size]
    return {"depth": min(depths) if shallow else max(depths), **model} if depths else model


def count_parameters(model: dict[str, Any]) -> int:
    """The number of parameters of a model, by its name and options."""
    return sum(p.numel() for p in described_model(model).parameters())


def _copies_for_one(model: Mapping[str, Any]) -> int:
    """How many copies of a group's capsules have about as many channels as one copy of D4's, which sizes are made for.

    >>> [_copies_for_one({"name": "resnet", "group": group}) for group in ("D4", "C4", "D1", "D8", "SO2")]
    [1, 5, 10, 1, 3]
    """
    entry = MODELS[model["name"]]
    if entry.width != "copies" or "stream" in model or "group" not in model or model.get("axes", 2) != 2:
        return 1
    group, d4 = group_named(model["group"]), dihedral(4)
    if entry.task == "classification":
        own, usual = (FieldType(each, default_mixes(each)[0]) for each in (group, d4))
        return max(1, round(usual.channels / own.channels))
    return 1 if isinstance(group, CompactGroup) else max(1, round(d4.order / group.order))


def _stem(side: int, largest: int) -> int:
    """The smallest reduction that is exact and leaves at most ``largest`` pixels; else the largest exact one."""
    exact = [stem for stem in STEMS if _is_exact(stem, side)] or [1]
    return next((stem for stem in exact if side // stem <= largest), exact[-1])


def _is_exact(stem: int, side: int) -> bool:
    """Whether a network with this stem is exactly equivariant on images with this side."""
    return stem in STEMS and side % (HALVINGS * stem) == 0
