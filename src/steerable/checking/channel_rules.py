"""The effect on field types of operations that join, part, reshape or reduce channels."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence

from torch import Tensor

from steerable.algebra.capsules import Nonlinearity
from steerable.checking.calls import Call, Refused, Result, Rule
from steerable.checking.value_rules import nonlinearity
from steerable.nn.channels import merge_order
from steerable.nn.geometry import axis_names
from steerable.nn.sampling import pads_alike
from steerable.nn.type_errors import mismatch
from steerable.types.field_types import FieldType

__all__ = [
    "between_pixels",
    "concatenate",
    "expand",
    "index",
    "norm",
    "normalise",
    "permute",
    "reduce",
    "reshape",
    "softmax",
    "split",
    "stack",
]


def concatenate(call: Call) -> Result:
    tensors, dim = call["tensors"], call["dim"]
    types = [call.type_of(t) for t in tensors]
    known = [t for t in types if t is not None]
    if len(known) != len(types):
        raise Refused(f"`{call.name}` of fields and an untyped tensor: nothing says how that one transforms.")
    rank = tensors[0].ndim
    if dim % rank == 0:
        if any(t != known[0] for t in known):
            raise Refused(mismatch(known[0], next(t for t in known if t != known[0])))
        return known[0]
    if dim % rank != 1:
        raise Refused(
            f"`{call.name}` along a spatial dimension moves pixels; only channels (dim=1) and batches may be joined."
        )
    if any(t.group != known[0].group for t in known):
        raise Refused(f"`{call.name}` of fields of different groups. Use `snn.Restrict` on one of them.")
    total = known[0]
    for field_type in known[1:]:
        total = total + field_type
    stack = [capsule for field_type in known for capsule in field_type.capsules]
    order = merge_order(stack, total)
    if (order[1:] < order[:-1]).any():
        raise Refused(
            f"`{call.name}` leaves equal capsules apart ({' then '.join(f'`{t}`' for t in known)}), but a field type "
            f"keeps them adjacent (`{total}`): a layer of that type would take the wrong channels. Use `snn.Concat`."
        )
    return total


def stack(call: Call) -> Result:
    raise Refused(
        f"`{call.name}` is not known to be equivariant, unless a mean, sum or maximum over the stack of equal fields "
        "follows. Return the fields in a list, add them up, or join their channels with `snn.Concat`."
    )


def between_pixels(call: Call) -> Result:
    raise Refused(
        f"`{call.name}` is known to be equivariant only in attention between pixels, which ends with the shape of a "
        "field. For maps of channels use `snn.Conv2d` with kernel size 1, `snn.Linear` or `snn.TensorProduct`."
    )


def index(call: Call) -> Result:
    """x[a:b] takes samples, x[:, a:b] whole capsules; x[..., 1:-1, 1:-1] crops, and x[:, :, None, None] makes a map."""
    key = call["index"] if isinstance(call["index"], tuple) else (call["index"],)
    added = [k for k in key if k is None]
    key = tuple(k for k in key if k is not None)
    if _is_fibre(call.field) and call.field.ndim == len(key) and key[2:] == (0,) * (len(key) - 2):
        key = (*key[:2], *[slice(None)] * (len(key) - 2))  # x[:, :, 0, 0] of one pixel
    if Ellipsis in key:
        place = key.index(Ellipsis)
        key = (*key[:place], *[slice(None)] * (call.field.ndim - len(key) + 1), *key[place + 1 :])
    if any(not isinstance(k, slice) for k in key):
        raise Refused("indexing a field with anything but slices is not known to be equivariant. Use `snn.Select`.")
    if added and not (call.value.shape[:2] == call.field.shape[:2] and _is_fibre(call.field) and _is_fibre(call.value)):
        raise Refused("a new dimension in the middle of a field is not known to be equivariant. Add it at the end.")
    if not _crops_alike(call, key[2:]):
        raise Refused(
            "slicing pixels samples the grid unevenly. Take as many away on all sides, or use a pooling layer of "
            "steerable.nn."
        )
    if len(key) < 2:
        return call.field_type
    start, stop, step = key[1].indices(call.field_type.channels)
    if step != 1:
        raise Refused("taking every other channel tears capsules apart. Use `snn.Select`.")
    return _between(call.field_type, start, stop)


def _crops_alike(call: Call, keys: Sequence[slice]) -> bool:
    """Whether slices of pixels keep all of them, or take the same number away on sides that the group exchanges."""
    sizes = call.field.shape[2:]
    slices = [key.indices(n) for key, n in zip((*keys, *[slice(None)] * len(sizes)), sizes, strict=False)]
    taken = [(start, n - stop) for (start, stop, _), n in zip(slices, sizes, strict=True)]
    if not any(map(any, taken)):
        return all(step == 1 for *_, step in slices)
    whole = len(sizes) == call.axes and all(start < stop and step == 1 for start, stop, step in slices)
    return whole and pads_alike(call.field_type.group, [n for sides in reversed(taken) for n in sides])


def split(call: Call) -> Result:
    """chunk and split may cut the channels between capsules, and the batch anywhere."""
    dim = call["dim"] % call.field.ndim
    if dim == 0:
        return [call.field_type] * len(call.value)
    if dim != 1:
        raise Refused(f"`{call.name}` of pixels samples the grid unevenly.")
    types, start = [], 0
    for part in call.value:
        types.append(_between(call.field_type, start, start + part.shape[1]))
        start += part.shape[1]
    return types


def _between(field_type: FieldType, start: int, stop: int) -> FieldType:
    borders = [s.start for s in field_type.slices] + [field_type.channels]
    if start not in borders or stop not in borders or stop < start:
        raise Refused(
            f"channels {start} to {stop} of `{field_type}` cut a capsule in two; capsules begin at channels "
            f"{', '.join(map(str, borders[:9]))}{' …' if len(borders) > 9 else ''}. Use `snn.Select`."
        )
    return field_type[borders.index(start) : borders.index(stop)]


def reshape(call: Call) -> Result:
    """Views and reshapes may only add or remove dimensions of size 1 after the channels."""
    value, field, field_type = call.value, call.field, call.field_type
    if value.dtype != field.dtype:
        raise Refused(
            f"`{call.name}` reads the bits of a field as {value.dtype}, and nothing says how the group acts on those."
        )
    if value.shape == field.shape:
        return field_type
    if value.shape[:2] == field.shape[:2] and _is_fibre(field) and _is_fibre(value):
        return field_type
    if value.ndim == 2 and value.shape[0] == field.shape[0] and field_type.group.is_trivial:
        return FieldType(field_type.group, [(int(value.shape[1]), field_type.group.trivial)])
    raise Refused(
        f"`{call.name}` to shape {tuple(value.shape)} mixes pixels and channels, which the group moves differently. "
        f"Pool over pixels with x.mean({(*range(2, 2 + call.axes),)}), or over the channels of capsules with "
        "`snn.GroupPool`."
    )


def permute(call: Call) -> Result:
    """Dimensions must stay in their usual order, the only one that typecheck follows."""
    if call.value.shape == call.field.shape and call.value.stride() == call.field.stride():
        return call.field_type
    raise Refused(
        f"`{call.name}` is not known to be equivariant: it puts dimensions into another order, and a field is (batch, "
        f"channels, {', '.join(axis_names(call.axes))}). Keep that order, and use layers that work in it."
    )


def expand(call: Call) -> Result:
    """expand may repeat one fibre at every pixel, or one sample for a whole batch."""
    value, field = call.value, call.field
    same_channels = value.ndim == field.ndim and value.shape[1] == field.shape[1]
    if same_channels and (value.shape[2:] == field.shape[2:] or _is_fibre(field)):
        return call.field_type
    raise Refused(f"`{call.name}` to shape {tuple(value.shape)} is not known to be equivariant.")


def _is_fibre(x: Tensor) -> bool:
    """Whether x has one fibre per sample: (batch, channels), perhaps followed by dimensions of size 1."""
    return x.ndim >= 2 and all(n == 1 for n in x.shape[2:])


def reduce(kind: Nonlinearity | None) -> Rule:
    """The rule for means, sums and maxima, over all pixels or over all channels of permutation capsules."""

    def rule(call: Call) -> Result:
        rank, dims = call.field.ndim, call["dim"]
        dims = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
        dims = sorted(d % rank for d in dims)
        pixels = list(range(2, 2 + call.axes))
        over_pixels = rank == 2 + call.axes and dims == pixels
        if over_pixels or (dims in ([1], [1, *pixels]) and call["keepdim"]):
            needed = kind if over_pixels else "pointwise"
            if needed is not None:
                nonlinearity(needed)(call)
            found = call.field_type if over_pixels else _invariant(call)
            return (found, None) if isinstance(call.value, tuple) else found  # the places of maxima are not a field
        raise Refused(
            f"`{call.name}` over dimensions {dims or 'all'} is not known to be equivariant. Reduce over "
            f"{'both' if call.axes == 2 else 'all'} spatial dimensions {tuple(pixels)}, or use `snn.GroupPool` to "
            "reduce capsules."
        )

    return rule


def _invariant(call: Call) -> FieldType:
    return FieldType(call.field_type.group, call.field_type.group.trivial)


def norm(call: Call) -> Result:
    """The norm over all channels of a pixel, which every capsule keeps; norms other than Euclid's need permutations."""
    if call["dim"] in (1, (1,), [1], 1 - call.field.ndim) and call["keepdim"]:
        nonlinearity("norm" if call["p"] in (2, "fro", None) else "pointwise")(call)
        return _invariant(call)
    return reduce("pointwise")(call)


def normalise(call: Call) -> Result:
    """A field divided by its norm over all channels."""
    norm(dataclasses.replace(call, arguments={**call.arguments, "keepdim": True}))
    return call.field_type


def softmax(call: Call) -> Result:
    if call["dim"] is None or call["dim"] % call.field.ndim != 1:
        raise Refused(f"`{call.name}` is known to be equivariant over channels (dim=1) only.")
    return nonlinearity("pointwise")(call)
