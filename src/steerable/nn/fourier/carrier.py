"""How a convolution layer is carried out: its backend, the choice between dense and Fourier, the blocks it keeps."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Literal, get_args

import torch
from torch import Tensor, nn

from steerable.errors import did_you_mean
from steerable.nn.channels import is_exported, is_traced, is_transformed
from steerable.nn.fourier.choice import FEWEST_COPIES, MEASURED_FROM, Choice, by_rule, choice_store, measured, store_key
from steerable.nn.fourier.function import fourier_conv
from steerable.nn.fourier.plan import FourierPlan, fourier_plan
from steerable.nn.fourier.scales import products_in_tf32, tf32_allowed
from steerable.nn.fourier.tiles import tiles_available
from steerable.nn.kernels import HAS_TRITON

if TYPE_CHECKING:
    from steerable.nn.conv import Conv2d

__all__ = ["Backend", "Carrier"]

Backend = Literal["auto", "dense", "fourier"]
RUNS_IN_A_ROW = 8  # on a GPU, of what is timed


class Carrier:
    """Chooses between the dense and the Fourier form of one layer, and runs the latter.

    The two compute the same function of the same parameters. ``"auto"`` measures both once per shape of the input and
    takes the faster. Where nothing can or may be measured it takes the dense one: under torch.compile and torch.func,
    in exported graphs, in narrow layers and on small inputs, without numba or Triton, in half precision on a GPU unless
    :func:`steerable.nn.choose_backends` asks. Under ``torch.use_deterministic_algorithms`` it goes by a fixed rule, on
    a GPU the dense one. ``"dense"`` and ``"fourier"`` are for good; a stride or groups are always carried out densely.
    """

    def __init__(self, backend: str, layer: Conv2d) -> None:
        self.backend = checked_backend(backend)
        self.without_gradients: Choice | None = None  # another backend where none are recorded: a forward pass alone
        self.possible = layer.stride == (1, 1) and layer.groups == 1 and layer.plan.parameters > 0
        order = layer.in_type.group.order
        self.copies = min(layer.in_type.channels, layer.out_type.channels) / order if order > 1 else 0.0
        self.per_pixel = layer.in_type.channels * layer.out_type.channels * layer.plan.taps  # multiplications
        self.plan: FourierPlan | None = None
        self._choices: dict[tuple[object, ...], Choice] = {}
        self._kept: tuple[object, Tensor, Tensor, Tensor | None] | None = None

    def __str__(self) -> str:
        other = self.without_gradients
        return self.backend if other is None else f"{self.backend}, without gradients {other}"

    def forget(self) -> None:
        """Drop the blocks that evaluation keeps."""
        self._kept = None

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_kept": None, "_choices": {}}

    def prepare(self, layer: Conv2d) -> None:
        """Make the plan now, where the layer will surely use it: not while a compiler is looking on."""
        if self.plan is None and self.possible:
            self.plan = fourier_plan(layer.in_type, layer.out_type, layer.kernel_size)

    # ---------------------------------------------------------------- the choice

    def takes_fourier(self, layer: Conv2d, x: Tensor) -> bool:
        """Whether this input is carried out by the Fourier form."""
        alone = self.without_gradients is not None and not torch.is_grad_enabled()
        backend = self.without_gradients if alone else self.backend
        if backend == "dense" or is_traced(x) or x.device.type == "meta" or not self.possible:
            return False
        if backend == "fourier":
            return self.plan is not None and _fits_input(layer, x)
        if torch.compiler.is_compiling():
            return False
        chosen = self.choose(layer, x)
        if chosen == "fourier":
            self.prepare(layer)
        return chosen == "fourier"

    def choose(self, layer: Conv2d, x: Tensor, *, ahead: bool = False) -> Choice:
        """The faster form for inputs like x, where that can be told.

        ``ahead``: as it runs in a compiled or recorded network, where a GPU need not wait for Python.
        """
        device = x.device.type
        # What is quickly told comes first: a small layer is over in the time of a few questions.
        if self.copies < FEWEST_COPIES.get(device, math.inf):
            return "dense"
        height, width = _output_size(layer, x)
        work = len(x) * height * width * self.per_pixel
        if work < MEASURED_FROM[device] or not _has_kernels(device):
            return "dense"
        half = device == "cuda" and _dtype_in_use(x) in (torch.bfloat16, torch.float16)
        if half and (not ahead or self.copies < FEWEST_COPIES["cuda half"]):
            return "dense"  # without ``ahead`` starting its kernels one by one takes longer than it gains
        if device == "cuda" and not half and products_in_tf32() and not tf32_allowed(x.device):
            return "dense"  # which rounds less
        # Tensors of other types, fake ones for instance, may not compute at all.
        plain = type(layer.weight) is nn.Parameter and type(x) in (Tensor, nn.Parameter)
        if not plain or not _fits_input(layer, x):
            return "dense"
        if torch.are_deterministic_algorithms_enabled():
            return by_rule(self.copies, layer.plan.taps, work) if device == "cpu" else "dense"
        return self._choose(layer, x, ahead)

    def _choose(self, layer: Conv2d, x: Tensor, ahead: bool) -> Choice:
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
            ahead and x.is_cuda,
            tf32_allowed(x.device),
        )
        if key not in self._choices:
            self.prepare(layer)
            if self.plan is None:
                return "dense"
            name = store_key(x.device, (self.plan.key, *key))
            store = choice_store()
            found = store.get(name)
            if found is None:
                if x.is_cuda and torch.cuda.is_current_stream_capturing():  # nothing may be waited for
                    return "dense"
                try:
                    found = _measure(layer, x, ahead)
                    store.put(name, found)
                except torch.cuda.OutOfMemoryError:  # a spectrum is taps times the input; another process may have room
                    found = "dense"
            self._choices[key] = found
        return self._choices[key]

    # ---------------------------------------------------------------- the Fourier form

    def run(self, layer: Conv2d, x: Tensor) -> Tensor:
        """The layer's output, (batch, out, h', w')."""
        if self.plan is None:
            raise RuntimeError("the Fourier form of a layer is prepared before it runs")
        device, dtype = x.device.type, _dtype_in_use(x)
        # CPUs gain nothing from half precision here, and rounding once at the end is more accurate.
        inner = torch.float32 if device == "cpu" and dtype in (torch.bfloat16, torch.float16) else dtype
        padding = layer.padding
        if layer.padding_mode != "zeros" and any(padding):
            top, left = padding
            x, padding = nn.functional.pad(x, (left, left, top, top), mode=layer.padding_mode), (0, 0)
        with torch.autocast(device, enabled=False):
            blocks, bias = self._expanded(layer, inner)
            # A GPU makes half-precision blocks from the parameters themselves.
            weight = layer.weight if inner in (torch.bfloat16, torch.float16) else layer.weight.to(inner)
            y = fourier_conv(x.to(inner), weight, bias, self.plan, padding, layer.dilation, blocks)
        return y.to(dtype)

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
    if is_exported() or is_transformed(x) or is_transformed(layer.weight):
        return False
    same = x.dtype == layer.weight.dtype or (
        torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, layer.weight.dtype)
    )
    sizes = (*x.shape[2:], *_output_size(layer, x))
    return same and x.is_floating_point() and x.device == layer.weight.device and min(sizes) > 0


def _has_kernels(device: str) -> bool:
    return tiles_available() if device == "cpu" else device == "cuda" and HAS_TRITON


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


def _measure(layer: Conv2d, x: Tensor, ahead: bool) -> Choice:
    """Time both forms on this very input, forward and backward, on a twin of the layer that shares its memory.

    The twin has no hooks and its parameters are leaves of their own, so that nothing of this is seen from outside.
    """
    recorded = torch.is_grad_enabled()
    twin = copy.copy(layer)
    twin._parameters = {
        name: None if p is None else nn.Parameter(p.detach(), requires_grad=p.requires_grad)
        for name, p in layer._parameters.items()
    }
    twin._kept = None
    twin.carrier = copy.copy(layer.carrier)
    twin.carrier._kept = None
    field = x.detach().requires_grad_(recorded and x.requires_grad)
    leaves = [t for t in (field, *twin._parameters.values()) if t is not None and t.requires_grad]

    device = x.device.type
    cast = torch.is_autocast_enabled(device), torch.get_autocast_dtype(device)

    def step(form: Choice) -> None:
        # Autocast would keep what it has cast of the input for the dense form's next run.
        with torch.autocast(device, cast[1], enabled=cast[0], cache_enabled=False):
            y = twin.carrier.run(twin, field) if form == "fourier" else twin.dense(field)
        if recorded and leaves:
            torch.autograd.grad(y, leaves, y.detach())

    def synchronise() -> None:
        if device == "cuda":
            torch.cuda.synchronize(x.device)

    dense: Callable[[], None] = partial(step, "dense")
    fourier: Callable[[], None] = partial(step, "fourier")
    if device == "cuda":
        with torch.cuda.device_of(x):
            several = _recorded if ahead else _in_a_row
            return measured(several(dense), several(fourier), synchronise)
    return measured(dense, fourier, synchronise)


def _in_a_row(run: Callable[[], None]) -> Callable[[], None]:
    """Several runs without waiting, as in a network: the slower of Python and the GPU decides."""

    def runs() -> None:
        for _ in range(RUNS_IN_A_ROW):
            run()

    return runs


def _recorded(run: Callable[[], None]) -> Callable[[], None]:
    """Several runs as one CUDA graph; what is compiled or placed on the device at first is before it."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for _ in range(RUNS_IN_A_ROW):
            run()
    return graph.replay
