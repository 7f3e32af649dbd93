"""How a convolution layer is carried out: its backend, the choice between dense and Fourier, the blocks it keeps."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.nn.channels import is_exported, is_traced, is_transformed
from steerable.nn.fourier.by_passes import Operands, conv_by_passes
from steerable.nn.fourier.choice import FEWEST_COPIES, MEASURED_FROM, Choice, by_rule, choice_store, store_key
from steerable.nn.fourier.function import fourier_conv
from steerable.nn.fourier.passes import DENSE, FOURIER, Forward, Passes, forward_only, passes_from_text
from steerable.nn.fourier.plan import FourierPlan, fourier_plan, plan_key
from steerable.nn.fourier.scales import products_in_tf32, tf32_allowed
from steerable.nn.fourier.tiles import tiles_available
from steerable.nn.fourier.timing import faster_form, fastest_passes
from steerable.nn.kernels import HAS_TRITON

if TYPE_CHECKING:
    from steerable.nn.conv import Conv2d

__all__ = ["Backend", "Carrier"]

Backend = Literal["auto", "dense", "fourier"]


class Carrier:
    """Chooses between the dense and the Fourier form of one layer, or of each of its passes, and runs them.

    They compute the same function of the same parameters. ``"auto"`` measures both forms once per shape of the input
    and takes the faster. Where nothing can or may be measured it takes the dense one: under torch.compile and
    torch.func, in exported graphs, in narrow layers and on small inputs, without numba or Triton, in half precision on
    a GPU unless :func:`steerable.nn.choose_backends` asks. Under ``torch.use_deterministic_algorithms`` it goes by a
    fixed rule, on a GPU the dense one. ``"dense"`` and ``"fourier"`` are for good; a stride or groups are always
    carried out densely.
    """

    def __init__(self, backend: str, layer: Conv2d) -> None:
        self.backend = checked_backend(backend)
        self.passes = FOURIER if backend == "fourier" else DENSE  # of a backend that is settled
        self.without_gradients: Forward | None = None  # another way for a forward pass alone
        self.possible = layer.stride == (1, 1) and layer.groups == 1 and layer.plan.parameters > 0
        order = layer.in_type.group.order
        self.copies = min(layer.in_type.channels, layer.out_type.channels) / order if order > 1 else 0.0
        self.per_pixel = layer.in_type.channels * layer.out_type.channels * layer.plan.taps  # multiplications
        self.plan: FourierPlan | None = None
        self._choices: dict[tuple[object, ...], str] = {}
        self._kept: tuple[object, Tensor, Tensor, Tensor | None] | None = None

    def __str__(self) -> str:
        if self.backend == "auto":
            return "auto"
        other, passes = self.without_gradients, self.passes.in_words()
        return passes if other is None else f"{passes}, without gradients {other}"

    def forget(self) -> None:
        """Drop the blocks that evaluation keeps."""
        self._kept = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None, "_choices": {}}

    def prepare(self, layer: Conv2d) -> None:
        """Make the plan now, where the layer will surely use it: not while a compiler is looking on."""
        if self.plan is None and self.possible:
            self.plan = fourier_plan(layer.in_type, layer.out_type, layer.kernel_size)

    def settle(self, layer: Conv2d, passes: Passes, forward_alone: Forward) -> None:
        """Carry out each pass in this way from now on, and a forward pass without gradients in that one."""
        self.backend = "fourier" if passes.forward == "fourier" else "dense"
        self.passes = passes
        self.without_gradients = None if forward_alone == passes.forward else forward_alone
        if "fourier" in (*passes, forward_alone):
            self.prepare(layer)

    def record(self, layer: Conv2d) -> str:
        """The exact choice as text; ``read`` is the inverse."""
        if self.backend == "auto":
            return "auto"
        passes = self.passes if self.possible else DENSE
        alone = (self.without_gradients or passes.forward) if self.possible else "dense"
        library = _library(layer.weight.device.type)
        return "/".join(f"fourier[{library}]" if way == "fourier" else way for way in (*passes, alone))

    def read(self, name: str, layer: Conv2d, text: str) -> tuple[Passes, Forward] | None:
        """What ``record`` wrote, or None for ``"auto"``; refuses what this layer cannot do here."""
        if text == "auto":
            return None
        library = _library(layer.weight.device.type)
        ways = str(text).replace(f"fourier[{library}]", "fourier").split("/")
        wanted = f"layer `{name}` was recorded with the backend {text!r}"
        if "fourier[" in str(text).replace(f"fourier[{library}]", ""):
            raise ValueError(
                f"{wanted}, but here the Fourier backend runs on {layer.weight.device.type} with {library}. The "
                "results would differ in their rounding. Install what the text names, or choose backends anew."
            )
        passes, alone = passes_from_text("/".join(ways[:3])), ways[3:]
        if passes is None or len(alone) != 1 or alone[0] not in get_args(Forward):
            raise ValueError(
                f"{wanted}, which cannot be read; expected 'auto' or four ways, such as 'dense/dense/dense/dense'."
            )
        if not self.possible and {*ways} != {"dense"}:
            raise ValueError(f"{wanted}, but a convolution with a stride or groups is always carried out densely.")
        return passes, alone[0]  # type: ignore[return-value]

    # ---------------------------------------------------------------- the choice

    def passes_for(self, layer: Conv2d, x: Tensor) -> Passes:
        """How the passes of this input are carried out."""
        if is_traced(x) or x.device.type == "meta" or not self.possible:
            return DENSE
        if self.backend == "auto":
            if torch.compiler.is_compiling() or self.choose(layer, x) == "dense":
                return DENSE
            self.prepare(layer)
            return FOURIER
        passes = self.passes
        if not torch.is_grad_enabled():
            passes = forward_only(self.without_gradients or passes.forward)
        if passes == DENSE or ("fourier" in passes and self.plan is None) or not _fits_input(layer, x):
            return DENSE
        return passes

    def choose(self, layer: Conv2d, x: Tensor) -> Choice:
        """The faster form for inputs like x, where that can be told."""
        if not self._may_gain(layer, x) or not _computes(layer, x):
            return "dense"
        if torch.are_deterministic_algorithms_enabled():
            work = _multiplications(layer, x)
            return by_rule(self.copies, layer.plan.taps, work) if x.device.type == "cpu" else "dense"
        self.prepare(layer)
        found = self._remembered(layer, x, "form", partial(faster_form, layer, x))
        return "fourier" if found == "fourier" else "dense"

    def choose_passes(self, layer: Conv2d, x: Tensor, *, cuda_graphs: bool) -> Passes:
        """The fastest way of each pass for inputs like x in a compiled network, or in one that runs as CUDA graphs."""
        if not x.is_cuda:
            return FOURIER if self.choose(layer, x) == "fourier" else DENSE
        enough = _multiplications(layer, x) >= MEASURED_FROM["cuda passes"]
        if not enough or not _computes(layer, x) or torch.are_deterministic_algorithms_enabled():
            return DENSE
        with_fourier = self._may_gain(layer, x, ahead=True)
        if with_fourier:
            self.prepare(layer)
        question = "passes" if not with_fourier else f"passes with Fourier, {'replayed' if cuda_graphs else 'started'}"
        measure = partial(fastest_passes, layer, x, with_fourier=with_fourier, cuda_graphs=cuda_graphs)
        found = self._remembered(layer, x, question, lambda: measure().to_text())
        return passes_from_text(found) or DENSE

    def _may_gain(self, layer: Conv2d, x: Tensor, *, ahead: bool = False) -> bool:
        """Whether the Fourier form is worth a measurement; what is quickly told first, for small layers are quick.

        ``ahead``: for a network that is yet to be compiled or recorded.
        """
        device = x.device.type
        if self.copies < FEWEST_COPIES.get(device, math.inf):
            return False
        if _multiplications(layer, x) < MEASURED_FROM[device] or not _has_kernels(device):
            return False
        half = device == "cuda" and _dtype_in_use(x) in (torch.bfloat16, torch.float16)
        if half:  # in eager code starting its kernels one by one takes longer than it gains
            return ahead and self.copies >= FEWEST_COPIES["cuda half"]
        # The dense form rounds less where TF32 is not allowed.
        return device != "cuda" or not products_in_tf32() or tf32_allowed(x.device)

    def _remembered(self, layer: Conv2d, x: Tensor, question: str, measure: Callable[[], str]) -> str:
        """What was found for inputs like x before, in this process or another, or is measured now."""
        recorded = torch.is_grad_enabled()
        key = (
            tuple(x.shape),
            x.dtype,
            x.is_contiguous(),
            torch.get_num_threads(),
            torch.is_autocast_enabled(x.device.type) and torch.get_autocast_dtype(x.device.type),
            recorded and x.requires_grad,
            recorded and layer.weight.requires_grad,
            layer.padding,
            layer.dilation,
            question,
            x.is_cuda and torch.backends.cudnn.benchmark,
            tf32_allowed(x.device),
        )
        if key not in self._choices:
            name = store_key(x.device, (plan_key(layer.in_type, layer.out_type, layer.kernel_size), *key))
            store = choice_store()
            found = store.get(name)
            if found is None:
                if x.is_cuda and torch.cuda.is_current_stream_capturing():  # nothing may be waited for
                    return "dense"
                try:
                    found = measure()
                    store.put(name, found)
                except torch.cuda.OutOfMemoryError:  # a spectrum is taps times the input; another process may have room
                    found = "dense"
            self._choices[key] = found
        return self._choices[key]

    # ---------------------------------------------------------------- running it

    def run(self, layer: Conv2d, x: Tensor, passes: Passes) -> Tensor:
        """The layer's output, (batch, out, h', w')."""
        dtype = _dtype_in_use(x)
        if passes != FOURIER:
            operands = self.operands(layer, x)
            with torch.autocast(x.device.type, enabled=False):
                bias = layer.expanded_bias()
                return conv_by_passes(operands, None if bias is None else bias.to(operands.x.dtype), passes)
        if self.plan is None:
            raise RuntimeError("the Fourier form of a layer is prepared before it runs")
        # CPUs gain nothing from half precision here, and rounding once at the end is more accurate.
        half = dtype in (torch.bfloat16, torch.float16)
        inner = torch.float32 if half and x.device.type == "cpu" else dtype
        x, padding = _padded(layer, x)
        with torch.autocast(x.device.type, enabled=False):
            blocks, bias = self._expanded(layer, inner)
            # A GPU makes half-precision blocks from the parameters themselves.
            weight = layer.weight if inner in (torch.bfloat16, torch.float16) else layer.weight.to(inner)
            y = fourier_conv(x.to(inner), weight, bias, self.plan, padding, layer.dilation, blocks)
        return y.to(dtype)

    def operands(self, layer: Conv2d, x: Tensor) -> Operands:
        """What passes that are not all Fourier are computed from, in the dtype in use."""
        dtype = _dtype_in_use(x)
        bank, _ = layer.expand()
        x, padding = _padded(layer, x)
        weight = layer.weight if dtype in (torch.bfloat16, torch.float16) else layer.weight.to(dtype)
        key = "" if self.plan is None else self.plan.key
        return Operands(x.to(dtype), weight, bank.to(dtype), key, padding, layer.dilation)

    def _expanded(self, layer: Conv2d, dtype: torch.dtype) -> tuple[Tensor | None, Tensor | None]:
        """Blocks and bias; blocks only where evaluation keeps them, see ``FilterBankModule.filters``."""
        state = layer._keep_key()
        if state is not None and self._kept is not None and self._kept[0] == (state, dtype):
            _, snapshot, blocks, bias = self._kept
            if torch.equal(snapshot, layer._snapshot()):
                return blocks, bias
        bias = layer.expanded_bias()
        bias = None if bias is None else bias.to(dtype)
        self._kept = None
        if state is None or self.plan is None:
            return None, bias
        blocks = self.plan.forward.expand(layer.weight.detach().to(dtype))
        self._kept = ((state, dtype), layer._snapshot(), blocks, bias)
        return blocks, bias


def checked_backend(backend: str) -> Backend:
    """The backend of that name."""
    for known in get_args(Backend):
        if backend == known:
            return known  # type: ignore[no-any-return]
    raise ValueError(f"unknown backend {backend!r}. {did_you_mean(str(backend), get_args(Backend))}")


def _fits_input(layer: Conv2d, x: Tensor) -> bool:
    """Where dtypes disagree or nothing comes out, torch's own convolution says what is wrong."""
    if is_exported() or is_transformed():
        return False
    same = x.dtype == layer.weight.dtype or (
        torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, layer.weight.dtype)
    )
    sizes = (*x.shape[2:], *_output_size(layer, x))
    return same and x.is_floating_point() and x.device == layer.weight.device and min(sizes) > 0


def _computes(layer: Conv2d, x: Tensor) -> bool:
    """Tensors of other types, fake ones for instance, may not compute at all."""
    return type(layer.weight) is nn.Parameter and type(x) in (Tensor, nn.Parameter) and _fits_input(layer, x)


def _padded(layer: Conv2d, x: Tensor) -> tuple[Tensor, tuple[int, int]]:
    """The input with what is not zeros around it, and the padding by zeros that is left."""
    top, left = layer.padding
    if layer.padding_mode == "zeros" or not any(layer.padding):
        return x, layer.padding
    return nn.functional.pad(x, (left, left, top, top), mode=layer.padding_mode), (0, 0)


def _has_kernels(device: str) -> bool:
    return tiles_available() if device == "cpu" else device == "cuda" and HAS_TRITON


def _library(device: str) -> str:
    """What runs the Fourier form there."""
    return {"cpu": "numba", "cuda": "triton"}[device] if _has_kernels(device) else "torch"


def _dtype_in_use(x: Tensor) -> torch.dtype:
    """In which a convolution of x is carried out."""
    cast = torch.is_autocast_enabled(x.device.type) and x.dtype != torch.float64
    return torch.get_autocast_dtype(x.device.type) if cast else x.dtype


def _output_size(layer: Conv2d, x: Tensor) -> tuple[int, int]:
    height, width = (
        n + 2 * p - d * (k - 1)
        for n, p, d, k in zip(x.shape[2:], layer.padding, layer.dilation, layer.kernel_size, strict=True)
    )
    return height, width


def _multiplications(layer: Conv2d, x: Tensor) -> int:
    height, width = _output_size(layer, x)
    return len(x) * height * width * layer.carrier.per_pixel
