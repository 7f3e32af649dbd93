"""What torch's operations do to field types: one rule per family of operations, and a refusal for all others.

A rule gets a :class:`Call` and returns the type of the result, or raises :class:`Refusal` with reason and remedy.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from steerable.capsules import Nonlinearity
from steerable.fields import FieldType
from steerable.nn.activations import require
from steerable.nn.channels import merge_order
from steerable.nn.sampling import axes_reversed, axes_swapped
from steerable.nn.type_errors import mismatch

__all__ = ["RULES", "Call", "Refusal", "Result"]

Result = FieldType | Sequence[FieldType] | None


class Refusal(TypeError):
    """An operation that is not equivariant, or not known to be."""


@dataclass(frozen=True)
class Call:
    """One call of a torch function on typed tensors.

    ``types`` gives the type of each argument that has one, by its identity; ``value`` is what the function returned.
    """

    name: str
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    types: dict[int, FieldType]
    value: Any

    def argument(self, position: int, name: str, default: Any = None) -> Any:
        if len(self.args) > position:
            return self.args[position]
        if name == "dim" and "axis" in self.kwargs:
            return self.kwargs["axis"]
        return self.kwargs.get(name, default)

    def type_of(self, argument: object) -> FieldType | None:
        return self.types.get(id(argument))

    @property
    def field(self) -> Tensor:
        """The first argument, which is a field in every rule that asks for it."""
        first: Tensor = self.args[0] if self.args else self.kwargs["input"]
        return first

    @property
    def field_type(self) -> FieldType:
        found = self.type_of(self.field)
        if found is None:
            raise Refusal(f"`{self.name}` takes its field as the first argument; there it got an untyped tensor.")
        return found


def keep(call: Call) -> Result:
    """Operations that act on each value alike and linearly: copies, casts, signs."""
    return call.field_type


def add(call: Call) -> Result:
    a, b = call.argument(0, "input"), call.argument(1, "other")
    type_a, type_b = call.type_of(a), call.type_of(b)
    if type_a is not None and type_b is not None:
        if type_a != type_b:
            raise Refusal(mismatch(type_a, type_b))
        if a.ndim != b.ndim:
            raise Refusal(
                f"`{call.name}` of a field and a pooled field, of shapes {tuple(a.shape)} and {tuple(b.shape)}: they "
                "do not belong to the same pixels."
            )
        return type_a
    known = type_a or type_b
    if known is None or not _is_scalar(b if type_a is not None else a):
        raise Refusal(
            f"`{call.name}` of a field of type `{known}` and an untyped tensor: nothing says how the other one "
            "transforms. Give it a type with typed(x, type), or use a layer of steerable.nn."
        )
    for capsule, _ in known.blocks:
        if not capsule.admits("pointwise"):
            raise Refusal(
                f"a constant was added to capsule `{capsule}`, which has channels that change sign or mix under the "
                "group. Add it along invariants only, as the bias of `snn.Conv2d` does."
            )
    return known


def extremum(call: Call) -> Result:
    """The larger or smaller of two fields, channel by channel."""
    types = [call.type_of(call.argument(k, name)) for k, name in enumerate(("input", "other"))]
    if types[0] is None or types[0] != types[1]:
        raise Refusal(f"`{call.name}` takes two fields of one type, got `{types[0]}` and `{types[1]}`.")
    return nonlinearity("pointwise")(call)


def multiply(call: Call) -> Result:
    a, b = call.argument(0, "input"), call.argument(1, "other")
    type_a, type_b = call.type_of(a), call.type_of(b)
    if type_a is not None and type_b is not None:
        for one, other in ((type_a, type_b), (type_b, type_a)):
            if one.channels == 1 and _is_trivial(one):
                return other
        if type_a == type_b and all(c.admits("pointwise") for c, _ in type_a.blocks):
            return type_a
        raise Refusal(
            f"`{call.name}` of fields of types `{type_a}` and `{type_b}` is not equivariant channel by channel. "
            "Multiply by an invariant (one `A1` channel), use `snn.Gated`, or multiply equal permutation capsules."
        )
    known = type_a or type_b
    if known is None or not _is_scalar(b if type_a is not None else a):
        raise Refusal(
            f"`{call.name}` of a field of type `{known}` and an untyped tensor: different factors on the channels of "
            "one capsule break equivariance. Multiply by a number, or use `snn.BatchNorm2d` for learned scales."
        )
    return known


def divide(call: Call) -> Result:
    if call.type_of(call.argument(0, "input")) is None or call.type_of(call.argument(1, "other")) is not None:
        raise Refusal(
            f"`{call.name}` by a field is not known to be equivariant. Divide by a number, or use `snn.Gated`."
        )
    return multiply(call)


def nonlinearity(kind: Nonlinearity) -> Callable[[Call], Result]:
    def rule(call: Call) -> Result:
        try:
            require(f"`{call.name}`", call.field_type, kind)
        except TypeError as error:
            raise Refusal(str(error)) from None
        return call.field_type

    return rule


def hardtanh(call: Call) -> Result:
    low, high = call.argument(1, "min_val", -1.0), call.argument(2, "max_val", 1.0)
    return nonlinearity("odd" if low == -high else "pointwise")(call)


def clamp(call: Call) -> Result:
    low, high = call.argument(1, "min"), call.argument(2, "max")
    symmetric = isinstance(low, int | float) and isinstance(high, int | float) and low == -high
    return nonlinearity("odd" if symmetric else "pointwise")(call)


def power(call: Call) -> Result:
    exponent = call.argument(1, "exponent")
    odd = isinstance(exponent, int) and exponent % 2 == 1
    return nonlinearity("odd" if odd else "pointwise")(call)


def dropout(call: Call) -> Result:
    if call.argument(2, "training", True) and call.argument(1, "p", 0.5) > 0:
        raise Refusal("a dropout of single channels does not commute with the group. Use `snn.Dropout`.")
    return call.field_type


def concatenate(call: Call) -> Result:
    tensors, dim = call.argument(0, "tensors"), call.argument(1, "dim", 0)
    types = [call.type_of(t) for t in tensors]
    known = [t for t in types if t is not None]
    if len(known) != len(types):
        raise Refusal(f"`{call.name}` of fields and an untyped tensor: nothing says how that one transforms.")
    rank = tensors[0].ndim
    if dim % rank == 0:
        if any(t != known[0] for t in known):
            raise Refusal(mismatch(known[0], next(t for t in known if t != known[0])))
        return known[0]
    if dim % rank != 1:
        raise Refusal(
            f"`{call.name}` along a spatial dimension moves pixels; only channels (dim=1) and batches may be joined."
        )
    total = known[0]
    for field_type in known[1:]:
        total = total + field_type
    stack = [capsule for field_type in known for capsule in field_type.capsules]
    order = merge_order(stack, total)
    if (order[1:] < order[:-1]).any():
        raise Refusal(
            f"`{call.name}` leaves equal capsules apart ({' then '.join(f'`{t}`' for t in known)}), but a field type "
            f"keeps them adjacent (`{total}`): a layer of that type would take the wrong channels. Use `snn.Concat`."
        )
    return total


def window_pool(kind: Nonlinearity | None) -> Callable[[Call], Result]:
    def rule(call: Call) -> Result:
        if kind is not None:
            nonlinearity(kind)(call)
        kernel = _pair(call.argument(1, "kernel_size"))
        stride = call.argument(2, "stride")
        stride = kernel if stride in (None, [], ()) else _pair(stride)
        padding = _pair(call.argument(3, "padding", 0))
        # avg_pool2d's fifth argument is ceil_mode, max_pool2d's is dilation.
        dilation = _pair(call.argument(4, "dilation", 1)) if kind is not None else (1, 1)
        ceil_mode = call.argument(5 if kind is not None else 4, "ceil_mode", False)
        extent = (dilation[0] * (kernel[0] - 1) + 1, dilation[1] * (kernel[1] - 1) + 1)
        _check_windows(call, extent, stride, padding)
        if ceil_mode:
            raise Refusal(f"`{call.name}` with ceil_mode lets windows hang over one side only. Leave it off.")
        return call.field_type

    return rule


def interpolate(call: Call) -> Result:
    before, after = call.field.shape[-2:], call.value.shape[-2:]
    factors = [a / b for b, a in zip(before, after, strict=True)]
    _check_square(call, "scale", (factors[0], factors[1]))
    if any(a % b for b, a in zip(before, after, strict=True)):
        raise Refusal(
            f"`{call.name}` from {tuple(before)} to {tuple(after)} pixels, not by a whole factor, samples the grid "
            "unevenly. Use a whole factor, or adaptive_avg_pool2d."
        )
    return call.field_type


def pad(call: Call) -> Result:
    widths = list(call.argument(1, "pad"))
    reversed_rows, reversed_columns = axes_reversed(call.field_type.group)
    left, right, top, bottom = [*widths, 0, 0, 0, 0][:4]
    if len(widths) > 4 and any(widths[4:]):
        raise Refusal("padding of channels changes the type. Use a layer of steerable.nn.")
    if (left != right and reversed_columns) or (top != bottom and reversed_rows):
        raise Refusal(
            f"the padding {tuple(widths)} is not symmetric, which moves the image's centre. Pad both sides alike."
        )
    _check_square(call, "padding", (top, left))
    if call.argument(2, "mode", "constant") == "constant" and call.argument(3, "value", None):
        return nonlinearity("pointwise")(call)
    return call.field_type


def reduce(kind: Nonlinearity | None) -> Callable[[Call], Result]:
    """Means, sums and maxima over all pixels, or over all channels of permutation capsules."""

    def rule(call: Call) -> Result:
        rank = call.field.ndim
        dims = call.argument(1, "dim")
        dims = [] if dims is None else [dims] if isinstance(dims, int) else list(dims)
        dims = sorted(d % rank for d in dims)
        if rank == 4 and dims == [2, 3]:
            return nonlinearity(kind)(call) if kind is not None else call.field_type
        if dims == [1] and call.argument(2, "keepdim", False):
            nonlinearity("pointwise")(call)
            return FieldType(call.field_type.group, call.field_type.group.trivial)
        raise Refusal(
            f"`{call.name}` over dimensions {dims or 'all'} is not known to be equivariant. Reduce over both spatial "
            "dimensions (2, 3), or use `snn.GroupPool` to reduce capsules."
        )

    return rule


def flatten(call: Call) -> Result:
    """Views and reshapes: only the change from (batch, channels, 1, 1) to (batch, channels) keeps a fibre a fibre."""
    value, field, field_type = call.value, call.field, call.field_type
    if value.shape == field.shape:
        return field_type
    if value.ndim == 2 and value.shape == (field.shape[0], field_type.channels):
        return field_type
    if value.ndim == 2 and value.shape[0] == field.shape[0] and field_type.group.order == 1:
        return FieldType(field_type.group, [(int(value.shape[1]), field_type.group.trivial)])
    raise Refusal(
        f"`{call.name}` to shape {tuple(value.shape)} mixes pixels and channels, which the group moves differently. "
        "Pool first, with `snn.GlobalAvgPool`."
    )


def adaptive_pool(kind: Nonlinearity | None) -> Callable[[Call], Result]:
    def rule(call: Call) -> Result:
        if kind is not None:
            nonlinearity(kind)(call)
        height, width = call.value.shape[-2:]
        _check_square(call, "output", (height, width))
        return call.field_type

    return rule


def linear(call: Call) -> Result:
    if call.field.ndim != 2:
        raise Refusal(
            f"a linear layer on a tensor of shape {tuple(call.field.shape)} mixes the last dimension, which is not "
            "the channels. Pool first, or use `snn.Conv2d` with kernel size 1."
        )
    if not _is_trivial(call.field_type):
        raise Refusal(
            f"a plain linear layer mixes the channels of `{call.field_type}`, which the group moves. Use "
            "`snn.Linear`, or make invariants first with `snn.GroupPool`."
        )
    return FieldType(call.field_type.group, [(int(call.value.shape[-1]), call.field_type.group.trivial)])


def convolve(call: Call) -> Result:
    weight = call.argument(1, "weight")
    field_type = call.field_type
    pointwise = tuple(weight.shape[-2:]) == (1, 1) and _is_trivial(field_type)
    if field_type.group.order > 1 and not pointwise:
        raise Refusal(
            f"a plain convolution of `{field_type}` does not commute with {field_type.group.name}. Use `snn.Conv2d`."
        )
    if pointwise and field_type.group.order > 1:
        _check_windows(call, (1, 1), _pair(call.argument(3, "stride", 1)), _pair(call.argument(4, "padding", 0)))
    return FieldType(field_type.group, [(int(call.value.shape[1]), field_type.group.trivial)])


def plain_norm(call: Call) -> Result:
    if not _is_trivial(call.field_type):
        raise Refusal(
            f"`{call.name}` scales and shifts the channels of `{call.field_type}` one by one, but the group moves "
            "them. Use the norm of steerable.nn, for instance `snn.BatchNorm2d`."
        )
    return call.field_type


def layer_norm(call: Call) -> Result:
    raise Refusal(
        f"`{call.name}` normalises the last dimensions, pixels among them, with a weight for each. Use `snn.LayerNorm`."
    )


def softmax(call: Call) -> Result:
    dim = call.argument(1, "dim")
    if dim is None or dim % call.field.ndim != 1:
        raise Refusal(f"`{call.name}` is known to be equivariant over channels (dim=1) only.")
    return nonlinearity("pointwise")(call)


def index(call: Call) -> Result:
    """x[a:b] takes samples, x[:, a:b] whole capsules."""
    key = call.argument(1, "index")
    key = key if isinstance(key, tuple) else (key,)
    if any(not isinstance(k, slice) and k is not Ellipsis for k in key):
        raise Refusal("indexing a field with anything but slices is not known to be equivariant. Use `snn.Select`.")
    if any(k not in (slice(None), Ellipsis) for k in key[2:]) or Ellipsis in key[:-1]:
        raise Refusal("slicing pixels samples the grid unevenly. Use a pooling layer of steerable.nn.")
    if len(key) < 2 or key[1] is Ellipsis:
        return call.field_type
    start, stop, step = key[1].indices(call.field_type.channels)
    if step != 1:
        raise Refusal("taking every other channel tears capsules apart. Use `snn.Select`.")
    return _between(call.field_type, start, stop)


def split(call: Call) -> Result:
    """chunk and split along the channels, at borders between capsules; along the batch anywhere."""
    dim = call.argument(2, "dim", 0)
    if dim % call.field.ndim == 0:
        return [call.field_type] * len(call.value)
    if dim % call.field.ndim != 1:
        raise Refusal(f"`{call.name}` of pixels samples the grid unevenly.")
    types, start = [], 0
    for part in call.value:
        types.append(_between(call.field_type, start, start + part.shape[1]))
        start += part.shape[1]
    return types


def _between(field_type: FieldType, start: int, stop: int) -> FieldType:
    borders = [s.start for s in field_type.slices] + [field_type.channels]
    if start not in borders or stop not in borders:
        raise Refusal(
            f"channels {start} to {stop} of `{field_type}` cut a capsule in two; capsules begin at channels "
            f"{', '.join(map(str, borders[:9]))}{' …' if len(borders) > 9 else ''}. Use `snn.Select`."
        )
    return field_type[borders.index(start) : borders.index(stop)]


def _check_square(call: Call, what: str, pair: tuple[float, float]) -> None:
    if pair[0] != pair[1] and axes_swapped(call.field_type.group):
        raise Refusal(
            f"{call.field_type.group.name} exchanges height and width, so that the {what} of `{call.name}` has one "
            f"extent for both; got {pair}."
        )


def _check_windows(call: Call, kernel: tuple[int, int], stride: tuple[int, int], padding: tuple[int, int]) -> None:
    for what, value in (("kernel", kernel), ("stride", stride), ("padding", padding)):
        _check_square(call, what, value)
    for axis, is_reversed in enumerate(axes_reversed(call.field_type.group)):
        n = int(call.field.shape[2 + axis])
        if is_reversed and (n + 2 * padding[axis] - kernel[axis]) % stride[axis]:
            raise Refusal(
                f"`{call.name}` with kernel {kernel[axis]}, stride {stride[axis]} and padding {padding[axis]} samples "
                f"{n} pixels unevenly, so that it is not exactly equivariant to {call.field_type.group.name}. Choose "
                f"a size n with (n + {2 * padding[axis] - kernel[axis]}) divisible by {stride[axis]}; typecheck(..., "
                "size=n) tries another one."
            )


def _pair(value: int | Sequence[int]) -> tuple[int, int]:
    if isinstance(value, int):
        return value, value
    values = tuple(value)
    return (values[0], values[0]) if len(values) == 1 else (values[0], values[1])


def _is_scalar(value: object) -> bool:
    if isinstance(value, Tensor):
        return value.numel() == 1
    return isinstance(value, int | float)


def _is_trivial(field_type: FieldType) -> bool:
    return all(capsule.representation.is_trivial for capsule, _ in field_type.blocks)


def _table() -> dict[str, Callable[[Call], Result]]:
    families: list[tuple[Callable[[Call], Result], str]] = [
        (
            keep,
            "clone contiguous detach to float double half bfloat16 type type_as cpu cuda neg negative "
            "requires_grad_ zeros_like pin_memory",
        ),
        (add, "add sub subtract radd rsub iadd isub rsub"),
        (multiply, "mul multiply rmul imul"),
        (divide, "div divide truediv true_divide itruediv"),
        (
            nonlinearity("pointwise"),
            "relu relu6 leaky_relu elu selu celu gelu silu mish sigmoid logsigmoid softplus hardswish hardsigmoid "
            "threshold exp expm1 log log1p sqrt rsqrt square abs clamp_min clamp_max reciprocal cos cosh prelu rrelu",
        ),
        (nonlinearity("odd"), "tanh softsign sin sinh tan asinh atan erf sign hardshrink softshrink tanhshrink"),
        (hardtanh, "hardtanh"),
        (clamp, "clamp clip"),
        (extremum, "maximum minimum fmax fmin"),
        (adaptive_pool(None), "adaptive_avg_pool2d"),
        (adaptive_pool("pointwise"), "adaptive_max_pool2d"),
        (power, "pow"),
        (dropout, "dropout dropout2d feature_dropout alpha_dropout"),
        (concatenate, "cat concat concatenate"),
        (window_pool(None), "avg_pool2d"),
        (window_pool("pointwise"), "max_pool2d max_pool2d_with_indices"),
        (interpolate, "interpolate upsample"),
        (pad, "pad"),
        (reduce(None), "mean sum"),
        (reduce("pointwise"), "amax amin"),
        (flatten, "flatten view reshape squeeze view_as reshape_as"),
        (linear, "linear"),
        (convolve, "conv2d"),
        (plain_norm, "batch_norm instance_norm group_norm"),
        (layer_norm, "layer_norm rms_norm"),
        (softmax, "softmax log_softmax softmin"),
        (index, "getitem"),
        (split, "chunk split split_with_sizes tensor_split"),
    ]
    return {name: rule for rule, names in families for name in names.split()}


RULES: dict[str, Callable[[Call], Result]] = _table()
