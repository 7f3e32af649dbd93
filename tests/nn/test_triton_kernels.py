"""The kernels of banks, norms and signed selections without a GPU, against the code for CPUs.

With ``TRITON_INTERPRET=1`` they are run by Triton's interpreter, and their numbers compared. Without it they are
compiled for an H200, which finds whatever the interpreter lets pass, and their numbers are not looked at. Where Triton
is not installed, nothing of this can be done.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator

import pytest
import torch
from cases import CASES, Case, built, fields
from kernels_without_gpu import HAS_TRITON, INTERPRETED, compile_only, interpreted, pretend
from test_bank_tables import CASES as BANKS
from test_bank_tables import Kernel, planned
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.algebra.families import group_on
from steerable.nn.channels import in_channels_last
from steerable.nn.filter_bank import FilterBankModule

if not HAS_TRITON:
    pytest.skip("needs Triton, which comes with torch for CUDA, or by `pip install triton`", allow_module_level=True)

pytestmark = pytest.mark.filterwarnings(
    "ignore:Conversion of an array:DeprecationWarning",  # the interpreter's own, and Triton's
    "ignore::DeprecationWarning:triton",
)

ToGpu = Callable[..., set[str]]
TOLERANCES = {torch.float64: 1e-12, torch.float32: 2e-5, torch.bfloat16: 2e-2}
dtypes = pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
layouts = pytest.mark.parametrize("layout", ["contiguous", "channels_last", "part"])

# (group, type, size): permutations and signed ones, capsules without an invariant direction, capsules whose dimension
# is not a power of 2, more capsules than a program takes, and sizes that no block of a kernel fits.
NORMED = [
    ("D4", "2*(regular + qm) + 3*E + A2", (4, 5)),
    ("C4", "3*regular + E + B", (3, 7)),
    ("D8", "2*regular + r4m + B2", (5, 5)),
    ("D4", "70*A1 + 11*E", (1, 3)),
    ("O", "2*regular + T1 + q6a + A2", (3, 4, 5)),
    ("O_h", "regular + 3*A1g + T1u", (2, 3, 3)),
    ("C1", "5*A", (3, 3)),
]


@pytest.fixture
def to_gpu(monkeypatch: pytest.MonkeyPatch) -> Iterator[ToGpu]:
    """Moves modules to where a GPU is believed to be, and returns the names of the kernels that are started there."""

    def moved(*modules: nn.Module) -> set[str]:
        pretend(monkeypatch)
        for module in modules:
            module._apply(lambda t: t)
        return (interpreted if INTERPRETED else compile_only)(monkeypatch)

    yield moved
    monkeypatch.undo()


def assert_close(found: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Within a share of the largest number; where kernels are only compiled, there are no numbers."""
    assert [t.shape for t in found] == [t.shape for t in expected]
    if INTERPRETED:
        for a, b in zip(found, expected, strict=True):
            a, b = a.detach().double(), b.detach().double()
            assert float((a - b).abs().max()) <= tolerance * max(1.0, float(b.abs().max()))


def laid_out(x: Tensor, layout: str) -> Tensor:
    """In one of the memory formats, or as a part of a larger tensor, which is dense in neither."""
    last = torch.channels_last_3d if x.ndim == 5 else torch.channels_last
    if layout == "part":
        return torch.cat([x, x], -1).contiguous(memory_format=last)[..., : x.shape[-1]]
    return x.contiguous(memory_format=last if layout == "channels_last" else torch.contiguous_format)


# ---------------------------------------------------------------- every layer


def step(module: nn.Module, xs: list[Tensor]) -> list[Tensor]:
    """What comes out in evaluation and in training, the gradients, and what the module holds afterwards."""
    with torch.no_grad():
        evaluated = module.eval()(*xs)
    leaves = [x.detach().requires_grad_() for x in xs]
    torch.manual_seed(0)
    y = module.train()(*leaves)
    sources = [*leaves, *[p for p in module.parameters() if p.requires_grad]]
    upstream = torch.linspace(-1, 2, y.numel(), dtype=torch.float64).to(y.dtype).view(y.shape)
    gradients = torch.autograd.grad(y, sources, upstream, allow_unused=True)
    return [evaluated, y, *(g for g in gradients if g is not None), *module.state_dict().values()]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_layer_agrees_with_the_cpu(case: Case, to_gpu: ToGpu) -> None:
    module = built(case, case.home)
    twin = copy.deepcopy(module)
    xs = fields(module, case.sizes[0])
    expected = step(module, xs)
    kernels = to_gpu(twin)
    found = step(twin, xs)
    banks = [m for m in twin.modules() if isinstance(m, FilterBankModule) and getattr(m, "backend", "") != "fourier"]
    if any(bank._on_gpu is not None for bank in banks):
        assert {"_expand_kernel", "_project_kernel"} <= kernels
    assert_close(found, expected, 1e-10)


# ---------------------------------------------------------------- norms


def normed(group: str, text: str, axes: int, **options: object) -> snn.BatchNorm2d | snn.BatchNorm3d:
    kind = snn.BatchNorm2d if axes == 2 else snn.BatchNorm3d
    norm = kind(st.FieldType(group_on(group, axes), text), **options)
    for p in norm.parameters():
        nn.init.normal_(p)
    return norm


@layouts
@dtypes
@pytest.mark.parametrize(("group", "text", "size"), NORMED)
def test_norms(group: str, text: str, size: tuple[int, ...], dtype: torch.dtype, layout: str, to_gpu: ToGpu) -> None:
    norm = normed(group, text, len(size)).to(torch.promote_types(dtype, torch.float32))
    exact = copy.deepcopy(norm).double()
    x = laid_out((3 + torch.randn(3, norm.in_type.channels, *size)).to(dtype), layout)
    expected = step(exact, [x.double()])
    kernels = to_gpu(norm)
    found = step(norm, [x])
    assert {"_rows_kernel", "_sums_kernel"} <= kernels
    assert found[1].dtype == x.dtype
    assert in_channels_last(found[1]) == (layout == "channels_last")
    assert_close(found, expected, TOLERANCES[dtype])


@pytest.mark.parametrize(
    "options", [{"affine": False}, {"bias": False}, {"momentum": None}, {"track_running_stats": False}], ids=str
)
@pytest.mark.parametrize(("group", "text", "size"), [NORMED[0], NORMED[4]])
def test_options_of_norms(
    group: str, text: str, size: tuple[int, ...], options: dict[str, object], to_gpu: ToGpu
) -> None:
    norm = normed(group, text, len(size), **options).double()
    twin = copy.deepcopy(norm)
    xs = [torch.randn(2, norm.in_type.channels, *size, dtype=torch.float64) * k for k in (1, 3)]
    expected = [t for x in xs for t in step(norm, [x])]
    kernels = to_gpu(twin)
    assert_close([t for x in xs for t in step(twin, [x])], expected, 1e-12)
    assert {"_rows_kernel", "_sums_kernel"} <= kernels


@pytest.mark.parametrize(("group", "text", "size"), [NORMED[0], NORMED[4]])
def test_norms_in_half_precision_throughout(group: str, text: str, size: tuple[int, ...], to_gpu: ToGpu) -> None:
    """``network.bfloat16()``: parameters, running statistics and constants are rounded, sums are not."""
    norm = normed(group, text, len(size)).bfloat16()
    exact = copy.deepcopy(norm).double()
    x = torch.randn(3, norm.in_type.channels, *size).bfloat16()
    expected = step(exact, [x.double()])
    to_gpu(norm)
    assert_close(step(norm, [x]), expected, 3e-2)


def test_second_derivatives_of_norms(to_gpu: ToGpu) -> None:
    norm = normed("O", "regular + T1", 3).double()
    twin = copy.deepcopy(norm)
    x = torch.randn(2, norm.in_type.channels, 2, 3, 2, dtype=torch.float64)

    def second(module: nn.Module) -> list[Tensor]:
        leaf = x.clone().requires_grad_()
        (first,) = torch.autograd.grad(module(leaf).sin().sum(), leaf, create_graph=True)
        return [first, *torch.autograd.grad(first.square().sum(), [leaf, *module.parameters()], allow_unused=True)[:2]]

    expected = second(norm)
    to_gpu(twin)
    assert_close(second(twin), expected, 1e-10)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)  # statistics are float32 at least
@pytest.mark.parametrize(("group", "text", "size"), NORMED)
def test_the_affine_part_of_compiled_norms(
    group: str, text: str, size: tuple[int, ...], dtype: torch.dtype, to_gpu: ToGpu
) -> None:
    norm = normed(group, text, len(size)).to(dtype)
    channels, capsules = norm.in_type.channels, len(norm.in_type)
    mean, variance = torch.randn(channels, dtype=dtype), 0.1 + torch.rand(channels, dtype=dtype)
    weights = [torch.randn(n, dtype=dtype) for n in (channels, channels, channels, capsules)]

    def passes(affine: Callable[..., tuple[Tensor, ...]]) -> list[Tensor]:
        sources = [t.clone().requires_grad_() for t in (mean, variance, norm.weight.detach(), norm.bias.detach())]
        found = affine(*sources)
        total = sum((a * b).sum() for a, b in zip(found[:2], weights, strict=False))
        return [*found, *torch.autograd.grad(total, sources)]

    expected = passes(norm._affine)
    kernels = to_gpu(norm)
    found = passes(norm._affine_by_kernel)
    assert {"_affine_kernel", "_affine_backward_kernel"} <= kernels
    assert_close(found, expected, 10 * TOLERANCES[dtype])


# ---------------------------------------------------------------- banks


@dtypes
@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "operator"])
@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), BANKS)
def test_banks(
    group: str, in_text: str, out_text: str, kernel: Kernel, compiled: bool, dtype: torch.dtype, to_gpu: ToGpu
) -> None:
    """The bank, its gradient, and the gradient of that."""
    from steerable.nn.triton.bank import BankOnGpu

    plan, tables = planned(group, in_text, out_text, kernel)
    wide = torch.promote_types(dtype, torch.float32)
    weight, basis = torch.randn(plan.parameters, dtype=wide), torch.tensor(plan.basis)
    upstream = torch.randn(plan.bank_shape).to(dtype)

    def passes(expand: Callable[[Tensor], Tensor], theta: Tensor) -> list[Tensor]:
        theta = theta.clone().requires_grad_()
        again = upstream.to(dtype if theta.dtype == wide else torch.float64).requires_grad_()
        bank = expand(theta)
        (gradient,) = torch.autograd.grad(bank, theta, again, create_graph=True)
        return [bank, gradient, torch.autograd.grad(gradient, again, theta.detach())[0]]

    expected = passes(lambda theta: plan.expand(theta, basis), weight.double())
    kernels = to_gpu()
    packed = BankOnGpu(plan, tables, weight)
    if compiled:
        found = passes(lambda theta: packed.bank_in_graph(theta, packed.index, packed.factor, dtype), weight)
    else:
        found = passes(lambda theta: packed.bank(theta, dtype), weight)
    assert {"_expand_kernel", "_project_kernel"} <= kernels
    assert [t.dtype for t in found] == [dtype, wide, dtype]
    last = torch.channels_last_3d if len(plan.space.size) == 3 else torch.channels_last
    assert found[0].is_contiguous(memory_format=last)
    assert_close(found, expected, TOLERANCES[dtype])


def test_a_layer_takes_the_kernel_for_volumes(to_gpu: ToGpu) -> None:
    fields_of_o = st.FieldType(st.octahedral(), "2*regular")
    conv = snn.Conv3d(fields_of_o, fields_of_o, 3, padding=1)
    assert conv._on_gpu is None
    to_gpu(conv)
    assert conv._on_gpu is not None
    assert conv.bank_index.dtype == torch.int32
    index, places = conv.bank_index.clone(), conv.bank_index.data_ptr()
    conv.bank_index.sub_(1)  # as an average of equal networks leaves whole numbers
    assert torch.equal(conv.eval().bank_index, index)
    assert conv.bank_index.data_ptr() == places == conv._on_gpu.index.data_ptr()  # which a recorded graph holds


# ---------------------------------------------------------------- signed selections


@pytest.mark.parametrize("dtype", [*TOLERANCES, torch.float16], ids=str)
@pytest.mark.parametrize(
    ("group", "text", "size"),
    [
        ("D4", "2*A1 + 3*E + regular", (5, 7)),
        ("C4", "E + 2*B", (1, 1)),
        ("D8", "A2 + regular", (17, 31)),  # more values than a program takes
        ("D4", "A2", (3, 3)),  # one channel, which is in both memory formats
        ("O", "T1 + A2 + regular", (3, 4, 5)),
        ("O_h", "A1g", (2, 3, 3)),
    ],
)
def test_signed_selections(group: str, text: str, size: tuple[int, ...], dtype: torch.dtype, to_gpu: ToGpu) -> None:
    if INTERPRETED and dtype == torch.bfloat16:
        pytest.skip("Triton's interpreter reads bfloat16 as whole numbers wherever it computes")
    field_type = st.FieldType(group_on(group, len(size)), text)
    layers = [snn.CReLU(field_type), snn.Concatenated(field_type, torch.tanh)]
    twins = copy.deepcopy(layers)
    x = torch.randn(2, field_type.channels, *size).to(dtype)
    xs = [laid_out(x, layout) for layout in ("contiguous", "channels_last", "part")]
    expected = [t for layer in layers for x in xs for t in step(layer, [x.double()])]
    kernels = to_gpu(*twins)
    found = [t for layer in twins for x in xs for t in step(layer, [x])]
    assert {"_take_kernel", "_gradient_kernel"} <= kernels
    assert_close(found, expected, 1e-2 if dtype in (torch.bfloat16, torch.float16) else 1e-6)


def test_signed_selections_of_pooled_fields_and_of_what_is_not_a_number(to_gpu: ToGpu) -> None:
    field_type = st.FieldType(st.dihedral(4), "2*E + A2")
    layer = snn.CReLU(field_type)
    twin = copy.deepcopy(layer)
    x = torch.randn(3, field_type.channels, dtype=torch.float64)
    x[1, 2] = torch.nan
    expected = layer(x)
    to_gpu(twin)
    found = twin(x)
    if INTERPRETED:
        assert torch.equal(found.isnan(), expected.isnan())
    assert_close([found.nan_to_num()], [expected.nan_to_num()], 0)
