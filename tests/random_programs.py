"""Random small programs over torch's operations, right and wrong ones, to compare a verdict with the truth.

A program is a list of steps; each takes values that came before and gives one more. Steps are drawn while the program
runs on plain numbers, so that shapes mostly fit. Arguments are numbers, tensors of many shapes, dims and dtypes. Calls
are by position or by keyword, of functions, methods, torch's modules or layers of this library. Nothing keeps a program
from being wrong.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as hs
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn

# How many programs are tried, and which.
EXAMPLES = int(os.environ.get("STEERABLE_PROGRAMS", "250"))
SEED = int(os.environ.get("STEERABLE_SEED", "0"))


def search(examples: int) -> settings:
    """How programs are looked for: without a clock and without a memory of earlier runs."""
    return settings(
        max_examples=examples,
        deadline=None,
        database=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
    )


D4 = st.dihedral(4)
GROUPS = {
    "D4": D4,
    "C4": st.cyclic(4),
    "left and right": D4.subgroup(["e", "m"]),
    "main diagonal": D4.subgroup(["e", "mr3"]),
    "other diagonal": D4.subgroup(["e", "mr"]),
}


def _types(name: str) -> list[st.FieldType]:
    group = GROUPS[name]
    sign = next(str(irrep) for irrep in group.irreps if irrep.dim == 1 and (irrep.character < 0).any())
    scalar = str(group.irreps[0])
    texts = [f"4*{scalar}", f"4*{sign}", f"{scalar} + {sign}", f"{scalar} + regular", f"2*{scalar} + 2*{sign}"]
    texts += ["regular", "2*regular"] + (["2*E", f"E + {scalar}", "qm", "qmr"] if name == "D4" else [])
    return [st.FieldType(group, text) for text in texts]


TYPES = {name: _types(name) for name in GROUPS}

Values = list[Any]


@dataclass(frozen=True)
class Step:
    """One call: the text is for people, the function takes all values so far."""

    text: str
    call: Callable[[Values], Any]


class Program(nn.Module):
    """x ↦ the last value. A float64 buffer says in which precision it is to be tried."""

    def __init__(self, steps: list[Step]) -> None:
        super().__init__()
        self.register_buffer("precision", torch.zeros((), dtype=torch.float64))
        self.steps = steps

    def forward(self, x: Tensor) -> Tensor:
        values: Values = [x.clone()]
        for step in self.steps:
            values.append(step.call(values))
        return values[-1]

    def __repr__(self) -> str:
        return "; ".join(f"v{k} = {step.text}" for k, step in enumerate(self.steps, start=1))


@hs.composite
def programs(draw: Any) -> tuple[Program, st.FieldType, tuple[int, int, int]]:
    """A program, the type of its input, and (batch, height, width)."""
    name = draw(hs.sampled_from(sorted(GROUPS)))
    in_type = draw(hs.sampled_from(TYPES[name]))
    size = draw(hs.integers(4, 7))
    batch = draw(hs.sampled_from([1, 2, 3, size, in_type.channels]))
    torch.manual_seed(draw(hs.integers(0, 2**16)))
    values: Values = [torch.randn(batch, in_type.channels, size, size, dtype=torch.float64)]
    steps: list[Step] = []
    for _ in range(draw(hs.integers(1, 4))):
        kind = draw(hs.sampled_from(_KINDS))
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                step = kind(draw, values, name)
                value = step.call([v.clone() for v in values])
        except (RuntimeError, ValueError, IndexError, TypeError, NotImplementedError, AttributeError, AssertionError):
            continue  # not a program
        if not isinstance(value, Tensor) or value.numel() == 0 or value.numel() > 20_000:
            continue
        steps.append(step)
        values.append(value.detach())
    return Program(steps), in_type, (batch, size, size)


# -------------------------------------------------------------------- arguments


def _pick(draw: Any, values: Values) -> int:
    return draw(hs.sampled_from([len(values) - 1] * 3 + list(range(len(values)))))


def _number(draw: Any) -> float:
    return draw(hs.sampled_from([0, 1, -1, 2, 3, 0.5, -0.5, 1.5, -2.0, 0.1, 4.0]))


def _operand(draw: Any, x: Tensor) -> Any:
    """A number, or a tensor for the whole, each sample, channel or pixel."""
    shape = draw(
        hs.sampled_from(
            [None, None, (), (1,), (x.shape[0], *(1,) * (x.ndim - 1)), (x.shape[1], *(1,) * (x.ndim - 2)), x.shape[2:],
             x.shape, x.shape[-1:], x.shape[:2]]
        )
    )  # fmt: skip
    return _number(draw) if shape is None else torch.randn(shape, dtype=torch.float64).mul_(2).round(decimals=1)


def _show(value: Any) -> str:
    return f"tensor{tuple(value.shape)}" if isinstance(value, Tensor) else repr(value)


def _called(draw: Any, name: str, at: int, arguments: dict[str, Any], first: str = "input") -> Step:
    """A function or method of that name on a value, with some arguments by keyword."""
    homes = [home for home in (torch, F) if hasattr(home, name.removesuffix("_"))]
    homes += [Tensor] if hasattr(Tensor, name) else []
    home = draw(hs.sampled_from(homes))
    function = getattr(home, name if home is Tensor else name.removesuffix("_"))
    by_position = draw(hs.integers(0, len(arguments)))
    items = list(arguments.items())
    args, kwargs = [value for _, value in items[:by_position]], dict(items[by_position:])
    keyword = home is not Tensor and not args and draw(hs.integers(0, 3)) == 0
    shown = ", ".join([*map(_show, args), *(f"{k}={_show(v)}" for k, v in kwargs.items())])
    text = f"{home.__name__}.{name}(v{at}{', ' + shown if shown else ''})"
    if keyword:
        return Step(text, lambda v: function(**{first: v[at]}, **kwargs))
    return Step(text, lambda v: function(v[at], *args, **kwargs))


# -------------------------------------------------------------------- kinds of steps

_FUNCTIONS = (
    "relu relu_ relu6 selu gelu silu mish sigmoid logsigmoid softplus hardswish hardsigmoid exp expm1 log1p sqrt "
    "square abs abs_ reciprocal cos cosh tanh tanh_ sin sinh tan atan asinh erf sign softsign tanhshrink hardshrink "
    "softshrink neg round floor ceil trunc frac sgn positive erfc log2 digamma logit nan_to_num deg2rad isnan "
    "logical_not clone contiguous detach zeros_like ones_like rand_like normalize t flip fliplr mT"
).split()


def _function(draw: Any, values: Values, group: str) -> Step:
    return _called(draw, draw(hs.sampled_from(_FUNCTIONS)), _pick(draw, values), {})


def _function_with_numbers(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    x = values[at]
    name, names = draw(
        hs.sampled_from(
            [("clamp", "min max"), ("clamp", "min"), ("clip", "max"), ("clamp_", "min max"), ("clamp_min", "min"),
             ("clamp_max", "max"), ("pow", "exponent"), ("pow_", "exponent"), ("hardtanh", "min_val max_val"),
             ("leaky_relu", "negative_slope"), ("elu", "alpha"), ("celu", "alpha"), ("threshold", "threshold value"),
             ("softplus", "beta threshold"), ("hardshrink", "lambd"), ("prelu", "weight"), ("rrelu", "lower upper"),
             ("fmod", "other"), ("remainder", "other"), ("floor_divide", "other"), ("copysign", "other"),
             ("heaviside", "values"), ("lerp", "end weight"), ("where", "condition other")]
        )
    )  # fmt: skip
    arguments = {parameter: _operand(draw, x) for parameter in names.split()}
    if name == "prelu":
        arguments = {"weight": torch.rand(draw(hs.sampled_from([1, x.shape[1]])), dtype=torch.float64)}
    if name == "rrelu":
        arguments = {"lower": 0.1, "upper": 0.9, "training": draw(hs.booleans())}
    return _called(draw, name, at, arguments)


def _arithmetic(draw: Any, values: Values, group: str) -> Step:
    at, other = _pick(draw, values), _pick(draw, values)
    name = draw(
        hs.sampled_from("add sub mul div maximum minimum fmax atan2 pow add_ mul_ sub_ div_ rsub true_divide".split())
    )
    constant = _operand(draw, values[at]) if draw(hs.booleans()) else None
    options: dict[str, Any] = {}
    if name in ("add", "sub", "add_") and draw(hs.booleans()):
        options["alpha"] = _number(draw)
    if name in ("div", "div_") and draw(hs.booleans()):
        options["rounding_mode"] = draw(hs.sampled_from(["floor", "trunc", None]))
    home = Tensor if name.endswith("_") or (draw(hs.booleans()) and hasattr(Tensor, name)) else torch
    function = getattr(home, name)
    swap = draw(hs.booleans()) and constant is not None and home is torch
    shown = f"v{other}" if constant is None else _show(constant)

    def call(v: Values) -> Any:
        operands = (v[at], v[other] if constant is None else constant)
        return function(*(operands[::-1] if swap else operands), **options)

    return Step(f"{home.__name__}.{name}(v{at}, {shown}, **{options}){' swapped' if swap else ''}", call)


def _operator(draw: Any, values: Values, group: str) -> Step:
    at, number = _pick(draw, values), _number(draw)
    text = draw(
        hs.sampled_from(
            ["x + c", "c + x", "c - x", "x * c", "x / c", "c / x", "x ** 3", "x ** 2", "2 ** x", "x // 2", "x % 2",
             "-x", "x > 0", "sum([x, x])", "x @ x", "+x", "x * x", "x - x", "(x > 0) * x", "x.mT", "x.data", "x.real"]
        )
    )  # fmt: skip
    code = compile(text, "step", "eval")
    return Step(text.replace("x", f"v{at}").replace("c", str(number)), lambda v: eval(code, {"x": v[at], "c": number}))


def _cast(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    dtype = draw(hs.sampled_from([torch.int32, torch.uint8, torch.bool, torch.float32, torch.int64, torch.complex64]))
    way = draw(hs.sampled_from(["to", "type", "view", "float", "long", "to like"]))
    like = torch.zeros(1, dtype=dtype)
    ways = {
        "to": lambda x: x.to(dtype),
        "type": lambda x: x.type(dtype),
        "view": lambda x: x.view(dtype),
        "float": lambda x: x.float(),
        "long": lambda x: x.long(),
        "to like": lambda x: x.type_as(like),
    }
    return Step(f"v{at}.{way}({dtype})", lambda v: ways[way](v[at]))


def _grid(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)

    def pair(low: int, high: int) -> Any:
        one, two = draw(hs.integers(low, high)), draw(hs.integers(low, high))
        return draw(hs.sampled_from([one, one, (one, one), (one, two)]))

    name = draw(
        hs.sampled_from(
            "avg_pool2d max_pool2d lp_pool2d adaptive_avg_pool2d adaptive_max_pool2d interpolate pad pad pad roll flip "
            "rot90 transpose unfold pixel_shuffle narrow".split()
        )
    )
    arguments: dict[str, Any] = {}
    if name in ("avg_pool2d", "max_pool2d"):
        arguments = {"kernel_size": pair(1, 3), "stride": pair(1, 3), "padding": pair(0, 1)}
        extra = {"ceil_mode": draw(hs.booleans())}
        extra |= {"dilation": pair(1, 2)} if name == "max_pool2d" else {"count_include_pad": draw(hs.booleans())}
        arguments |= extra if draw(hs.booleans()) else {}
    elif name == "lp_pool2d":
        arguments = {"norm_type": 2, "kernel_size": pair(1, 3)}
    elif name.startswith("adaptive"):
        arguments = {"output_size": pair(1, 4)}
    elif name == "interpolate":
        key = draw(hs.sampled_from(["size", "scale_factor"]))
        scale = draw(hs.sampled_from([1, 2, 2.0, 3, 2.02, 1.5, (2, 2), (2.0, 2.1), 0.5]))
        mode = draw(hs.sampled_from(["nearest", "bilinear", "bicubic", "area", "nearest-exact"]))
        arguments = {key: pair(2, 14) if key == "size" else scale, "mode": mode}
    elif name == "pad":
        widths = [draw(hs.integers(-1, 2)) for _ in range(draw(hs.sampled_from([2, 4, 4, 4, 6])))]
        if draw(hs.booleans()):
            widths = [widths[0]] * len(widths)
        mode = draw(hs.sampled_from(["constant", "constant", "reflect", "replicate", "circular"]))
        arguments = {"pad": tuple(widths), "mode": mode}
        arguments |= {"value": _number(draw)} if mode == "constant" and draw(hs.booleans()) else {}
    elif name == "roll":
        arguments = {"shifts": 1, "dims": draw(hs.integers(0, 3))}
    elif name == "flip":
        arguments = {"dims": (draw(hs.integers(0, 3)),)}
    elif name == "transpose":
        arguments = {"dim0": draw(hs.integers(0, 3)), "dim1": draw(hs.integers(0, 3))}
    elif name == "unfold":
        arguments = {"kernel_size": 3, "padding": 1}
    elif name == "pixel_shuffle":
        arguments = {"upscale_factor": 2}
    elif name == "narrow":
        arguments = {
            "dim": draw(hs.integers(0, 3)),
            "start": draw(hs.integers(0, 2)),
            "length": draw(hs.integers(1, 4)),
        }
    return _called(draw, name, at, arguments)


def _reduction(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    name = draw(
        hs.sampled_from("mean sum amax amin var std prod cumsum softmax log_softmax softmin norm argmax".split())
    )
    dims = draw(
        hs.sampled_from([1, 0, 2, -1, (2, 3), (-2, -1), (3, 2), (1, 2, 3), (1, 2), (0, 2, 3), (0,), (1,), (0, 1, 2, 3)])
    )
    keep = draw(hs.sampled_from([{}, {"keepdim": True}, {"keepdim": False}]))
    key = draw(hs.sampled_from(["dim", "dim", "axis"]))
    return _called(draw, name, at, {key: dims, **keep})


def _shape(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    b, c = values[at].shape[:2]
    text = draw(
        hs.sampled_from(
            ["x.flatten(1)", "x.flatten(2)", "x.view(b, c, 1, 1)", "x.reshape(b, -1)", "x.squeeze()", "x.unsqueeze(-1)",
             "x.view(c, b, *x.shape[2:])", "x.squeeze(-1)", "x[:, :, None, None]", "x[:, None]", "x.expand(b, c, 5, 5)",
             "x.expand(b, c, *x.shape[2:])", "x[:1]", "x[..., 0]", "x[:, 0:1]", "x[:, 1:]", "x[:, :2]", "x[:, ::2]",
             "x[:, :, 1:]", "x[:, :, :, ::-1]", "x[:, [1, 0]]", "x[0]", "x[::2]", "x.chunk(2, 1)[0]",
             "x.chunk(2, 1)[1]", "x.split(1, dim=1)[1]", "x.split([1, c - 1], 1)[1]", "x.chunk(2, 0)[0]",
             "x.unbind(1)[0]", "x.tensor_split(2, dim=1)[0]", "torch.split(x, 4, 1)[0]", "x.permute(0, 2, 3, 1)",
             "x.swapaxes(2, 3)", "x.repeat(1, 1, 2, 2)", "x.index_select(1, torch.arange(c).flip(0))",
             "x.mean((2, 3)).view(b, c, 1, 1) * x", "x * x.mean((2, 3))", "x.view_as(x)", "x.diagonal(0, 2, 3)",
             "x.tril()", "x.view(-1, c)", "x.gather(1, (x * 0).long())", "x * x[:, :1]", "x[:, :1] * x[:, 1:]",
             "x / x[:, :1]", "x - x.mean(1, keepdim=True)", "x.requires_grad_(False)", "x.flatten(2).mean(2)",
             "x.flatten(2).softmax(2).view_as(x)", "torch.stack([x, 2 * x]).amax(0)", "x.max(-1)[0].max(-1)[0]",
             "torch.stack([x, x.flip(2)], 1).sum((1, -1))", "x.flatten(2).view(b, -1, c)", "x.sum(2).sum(2)",
             "(x.flatten(2) @ (x.flatten(2).transpose(1, 2) @ x.flatten(2)).softmax(1)).view_as(x)",
             "x.flatten(1) @ x.flatten(1).transpose(0, 1) @ x.flatten(1)", "x.mean(0, keepdim=True).expand_as(x) + x",
             "x.view(b, 2, -1, *x.shape[2:]).amax(2)", "x.view(b, -1, 2, *x.shape[2:]).sum(2)", "x.softmax(2)",
             "x.softmax(2) * x.softmax(3)", "x.transpose(2, 3) + x", "x.flatten(2).transpose(1, 2).amax(1)",
             "x.view(b, c, -1, 1).amax(2, keepdim=True) * x", "x.view(b, c, x.shape[3], x.shape[2])"]
        )
    )  # fmt: skip
    code = compile(text, "step", "eval")
    return Step(f"{text} of v{at}", lambda v: eval(code, {"x": v[at], "b": b, "c": c, "torch": torch}))


def _tokens(draw: Any, values: Values, group: str) -> Step:
    """Pixels as a sequence: attention in many spellings, layers on tokens, sums with an index per pixel."""
    at, other = _pick(draw, values), _pick(draw, values)
    b, c, h, w = values[at].shape
    n, first = h * w, draw(hs.booleans())
    attention = nn.MultiheadAttention(c, 1, batch_first=first).double().eval()
    on_channels, on_pixels = nn.Linear(c, c).double(), nn.Linear(n, n).double()
    norm = nn.LayerNorm(draw(hs.sampled_from([c, n]))).double()
    with torch.no_grad():
        for parameter in nn.ModuleList([attention, on_channels, on_pixels, norm]).parameters():
            parameter.normal_()
    text = draw(
        hs.sampled_from(
            ["back(attention(t, t, t, need_weights=False)[0])", "back(attention(t, s, t)[0])", "back(on_channels(t))",
             "on_pixels(x.flatten(2)).view_as(x)", "back(norm(t))", "norm(x.flatten(2)).view_as(x)", "back(F.gelu(t))",
             "back(F.scaled_dot_product_attention(t, t, t))", "back(F.scaled_dot_product_attention(s, t, t))",
             "back(F.scaled_dot_product_attention(t, t, t, is_causal=True))",
             "torch.einsum('bnc,bmc->bnm', t, s).mean(1)",
             "torch.einsum('bnc,bmd,bnm->bcd', t, s, t @ s.mT).flatten(1)", "torch.einsum('bchw,bcvw->bchv', x, x)",
             "torch.einsum('bnc,bnd->bcd', t, s).amax(2)", "torch.einsum('bchw->bcwh', x)", "back(torch.bmm(t, m))",
             "torch.bmm(x.flatten(2), torch.bmm(t, x.flatten(2)).softmax(1)).view_as(x)",
             "x.unflatten(1, (2, -1)).amax(2)", "back(torch.bmm(torch.bmm(s, s.transpose(1, 2)).softmax(-1), t))",
             "x.unflatten(2, (1, -1)).flatten(2).sum(2)",
             "(x.flatten(2) @ y[:, :1].flatten(2).softmax(2).transpose(1, 2)).unsqueeze(-1) * x",
             "torch.einsum('bij,bkj->bik', x.flatten(2), y[:, :1].flatten(2)).squeeze(2)"]
        )
    )  # fmt: skip
    code = compile(text, "step", "eval")
    constants = {"torch": torch, "F": F, "attention": attention, "on_channels": on_channels, "on_pixels": on_pixels}
    m = torch.eye(c, dtype=torch.float64).expand(b, c, c)

    def call(v: Values) -> Any:
        x, y = v[at], v[other]
        t, s = (z.flatten(2).transpose(1, 2) for z in (x, y))
        back = lambda tokens: tokens.transpose(1, 2).reshape(x.shape)  # noqa: E731
        return eval(code, {**constants, "norm": norm, "m": m, "x": x, "y": y, "t": t, "s": s, "back": back})

    return Step(f"{text} of v{at} and v{other}, batch_first={first}", call)


def _join(draw: Any, values: Values, group: str) -> Step:
    chosen = [_pick(draw, values) for _ in range(draw(hs.integers(1, 3)))]
    constant = torch.randn_like(values[chosen[0]]) if draw(hs.integers(0, 3)) == 0 else None
    dim = draw(hs.sampled_from([1, 1, 1, 0, -1, -3]))
    name = draw(hs.sampled_from(["cat", "concat", "stack", "snn.Concat"]))

    def call(v: Values) -> Any:
        parts = [v[k] for k in chosen] + ([] if constant is None else [constant])
        return getattr(torch, name)(parts, dim=dim)

    if name == "snn.Concat":
        types = [_some_type(draw, group, values[k].shape[1]) for k in chosen]
        layer = snn.Concat(types)
        return Step(f"Concat({', '.join(map(str, types))})({chosen})", lambda v: layer(*(v[k] for k in chosen)))
    return Step(f"{name}({chosen}{'' if constant is None else ' + tensor'}, {dim})", call)


def _write(draw: Any, values: Values, group: str) -> Step:
    at, other = _pick(draw, values), _pick(draw, values)
    way = draw(hs.sampled_from(["x[:, 0] = 0", "x.data = y.clone()", "x.data = torch.ones(s).double()", "y.mul_(x)",
                                "x[:, :1].relu_()", "x[:, :1].mul_(x[:, 1:2])", "torch.add(x, y, out=x)",
                                "x.copy_(torch.ones(s))", "x.zero_()", "x.add_(c)", "x.fill_(1)"]))  # fmt: skip
    code = compile(way, "step", "exec")

    def call(v: Values) -> Any:
        x = v[at].clone()
        exec(code, {"x": x, "y": v[other].clone(), "s": tuple(x.shape), "torch": torch, "c": 0.5})
        return x

    return Step(f"{way} with x = v{at}, y = v{other}", call)


def _plain_layer(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    c, size = values[at].shape[1], values[at].shape[-1]
    k = draw(hs.sampled_from([1, 1, 3]))
    affine = draw(hs.booleans())
    makers: list[Callable[[], nn.Module]] = [
        lambda: nn.Conv2d(c, 3, k, stride=draw(hs.integers(1, 2)), padding=draw(hs.sampled_from([0, 1, (1, 0)]))),
        lambda: nn.Conv2d(c, c, k, padding="same", groups=c),
        lambda: nn.Linear(c, 3),
        lambda: nn.BatchNorm2d(c, affine=affine),
        lambda: nn.InstanceNorm2d(c, affine=affine),
        lambda: nn.GroupNorm(1, c, affine=affine),
        lambda: nn.LayerNorm(c, elementwise_affine=affine),
        lambda: nn.LayerNorm([c, size, size], elementwise_affine=affine),
        lambda: nn.PReLU(draw(hs.sampled_from([1, c]))),
        lambda: nn.RReLU(),
        lambda: nn.Dropout(0.5),
        lambda: nn.Dropout2d(0.5),
        lambda: nn.MaxPool2d(draw(hs.integers(1, 3)), return_indices=False),
        lambda: nn.AvgPool2d(draw(hs.integers(1, 3))),
        lambda: nn.ZeroPad2d(tuple(draw(hs.integers(0, 2)) for _ in range(4))),
        lambda: nn.ConstantPad2d(1, 0.5),
        lambda: nn.Upsample(scale_factor=draw(hs.sampled_from([2, 2.02, 1.5]))),
        lambda: nn.Hardtanh(-4.0, draw(hs.sampled_from([4.0, 6.0]))),
        lambda: nn.ChannelShuffle(2),
        lambda: nn.LocalResponseNorm(2),
        lambda: nn.Softmax(draw(hs.integers(0, 3))),
        lambda: nn.GLU(1),
        lambda: nn.Identity(),
    ]
    layer = draw(hs.sampled_from(makers))().double().eval()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.normal_()
    keyword = draw(hs.booleans())
    return Step(
        f"{layer}(v{at}){' by keyword' if keyword else ''}", lambda v: layer(input=v[at]) if keyword else layer(v[at])
    )


def _some_type(draw: Any, group: str, channels: int) -> st.FieldType:
    fitting = [t for t in TYPES[group] if t.channels == channels]
    return draw(hs.sampled_from(fitting or TYPES[group]))


def _library_layer(draw: Any, values: Values, group: str) -> Step:
    at = _pick(draw, values)
    t, out = _some_type(draw, group, values[at].shape[1]), draw(hs.sampled_from(TYPES[group]))
    makers: list[Callable[[], nn.Module]] = [
        lambda: snn.Identity(t),
        lambda: snn.Conv2d(t, out, draw(hs.sampled_from([1, 3])), padding=draw(hs.integers(0, 1))),
        lambda: snn.BatchNorm2d(t),
        lambda: snn.ReLU(t),
        lambda: snn.CReLU(t),
        lambda: snn.NormReLU(t),
        lambda: snn.GroupPool(t),
        lambda: snn.GlobalAvgPool(t),
        lambda: snn.Select(t, [0]),
        lambda: snn.Linear(t, out),
    ]
    layer = draw(hs.sampled_from(makers))().double().eval()
    keyword = draw(hs.booleans())
    return Step(
        f"{layer}(v{at}){' by keyword' if keyword else ''}", lambda v: layer(x=v[at]) if keyword else layer(v[at])
    )


_KINDS = [
    _function, _function_with_numbers, _function_with_numbers, _arithmetic, _arithmetic, _operator, _cast, _grid, _grid,
    _reduction, _shape, _shape, _tokens, _join, _write, _plain_layer, _plain_layer, _library_layer,
]  # fmt: skip
