"""The Fourier convolution of whole batches, as a GPU runs it; here its kernels are written out in torch.

With ``TRITON_INTERPRET=1``, where Triton is installed, they are the real ones, run by Triton's interpreter.
"""

from __future__ import annotations

import os
import sys

import fourier_kernels
import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fourier_kernels import fourier_plan
from torch import Tensor

import steerable as st
from steerable.nn.backends.fourier import execution
from steerable.nn.backends.fourier.gpu import scales
from steerable.nn.backends.fourier.gpu.batch_convolution import BatchConvolution
from steerable.nn.backends.fourier.gpu.coupling_tables import _widest_slice, coupling_tables
from steerable.nn.backends.fourier.gpu.irrep_block_tables import irrep_block_tables
from steerable.nn.backends.fourier.gpu.row_tables import irrep_rows, product_rows, single_tap_rows
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.expansion import BankPlan

CASES = [
    ("D4", "2*regular + qm", "3*A1 + 2*E", (3, 3), (1, 1), (1, 1)),
    ("D4", "A1 + 2*E", "2*regular", (3, 3), (2, 2), (2, 2)),
    ("C4", "2*regular + E", "E + 3*B", (3, 3), (0, 0), (1, 1)),
    ("D4", "2*regular", "regular + qm", (1, 1), (0, 0), (1, 1)),
    ("D4", "2*regular", "regular + qm", (1, 1), (2, 1), (1, 1)),  # gradients beyond the input are cut off
    ("D1", "2*regular", "A1 + 2*A2", (3, 2), (1, 0), (1, 2)),
    ("D4", "regular", "E", (2, 2), (3, 1), (1, 1)),
    ("D4", "18*regular + 3*E", "17*qm + A1", (3, 3), (1, 1), (1, 1)),  # several slices
    ("D4", "24*regular + 40*E", "16*qm + 8*A1", (3, 3), (1, 1), (1, 1)),  # eight copies at a time, and idle programs
    ("D4", "2*regular + 3*E", "regular + E", (5, 5), (2, 2), (1, 1)),  # too many taps for registers
    ("D3", "2*regular", "E + A1", (1, 1), (0, 0), (1, 1)),
    ("D6", "2*regular", "regular + A1", (1, 1), (0, 0), (1, 1)),  # one and a half times the rows that are read at once
    ("D8", "2*regular + A1", "regular", (1, 1), (0, 0), (1, 1)),  # more rows than are read at once
]
INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
pytestmark = pytest.mark.filterwarnings("ignore:Conversion of an array:DeprecationWarning")  # the interpreter's own
TOLERANCES = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 5e-3, torch.float16: 2e-3}


@pytest.fixture(autouse=True)
def _kernels_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in () if INTERPRETED else ("rows", "coupling", "scales", "irrep_blocks"):
        monkeypatch.setitem(sys.modules, f"steerable.nn.backends.fourier.gpu.kernels.{name}", fourier_kernels)
    monkeypatch.setattr(execution, "_on_gpu", lambda x: True)


@pytest.mark.parametrize("dtype", TOLERANCES, ids=str)
@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel", "padding", "dilation"), CASES)
def test_it_is_the_dense_convolution_and_so_are_its_gradients(
    group: str,
    in_text: str,
    out_text: str,
    kernel: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
    dtype: torch.dtype,
) -> None:
    g = st.group_named(group)
    in_type, out_type = st.FieldType(g, in_text), st.FieldType(g, out_text)
    plan = fourier_plan(in_type, out_type, kernel)
    torch.manual_seed(0)
    basis = torch.tensor(plan.bank.basis)
    weight = torch.randn(plan.bank.parameters, dtype=torch.float64)
    x = torch.randn(2, in_type.channels, 5, 6).to(dtype)
    bias = torch.randn(out_type.channels).to(dtype)
    # On one scale, so that half precision is judged by the numbers themselves.
    field, filters = x.double().clone().requires_grad_(), plan.bank.expand(weight, basis).requires_grad_()
    expected = F.conv2d(field, filters, bias.double(), padding=padding, dilation=dilation)
    upstream = torch.randn_like(expected).to(dtype)
    for_x, for_filters = torch.autograd.grad((expected * upstream.double()).sum(), [field, filters])
    for_weight = plan.bank.project(for_filters, basis)

    theta = weight if dtype == torch.float64 else weight.float()
    y = execution.convolve(plan, x, theta, bias, padding, dilation)
    of_x, of_weight = execution.gradients(plan, upstream, x, theta, padding, dilation, (True, True))
    assert of_x is not None
    assert of_weight is not None
    assert y.shape == expected.shape
    assert of_x.shape == x.shape
    assert y.dtype == of_x.dtype == dtype
    assert of_weight.dtype == theta.dtype
    for found, wanted in ((y, expected), (of_x, for_x), (of_weight, for_weight)):
        assert relative(found, wanted) < TOLERANCES[dtype]


@pytest.mark.skipif(INTERPRETED, reason="Triton's interpreter cuts bfloat16 off instead of rounding it")
def test_bfloat16_is_no_less_accurate_than_the_dense_convolution() -> None:
    """Rows and blocks are kept in float16, divided by their scale: what is left is the rounding of the output."""
    in_type, out_type = st.FieldType(st.dihedral(4), "4*regular"), st.FieldType(st.dihedral(4), "4*regular")
    plan = fourier_plan(in_type, out_type, (3, 3))
    for scale in (1e-6, 1.0, 1e6):
        torch.manual_seed(0)
        weight = torch.randn(plan.bank.parameters) * scale
        x = (torch.randn(2, in_type.channels, 8, 8) / scale).bfloat16()
        filters = plan.bank.expand(weight.double(), torch.tensor(plan.bank.basis))
        expected = F.conv2d(x.double(), filters, padding=1)
        dense = F.conv2d(x.float(), filters.bfloat16().float(), padding=1).bfloat16()
        y = execution.convolve(plan, x, weight, None, (1, 1), (1, 1))
        assert relative(y, expected) < relative(dense, expected)


def in_tf32(x: Tensor) -> Tensor:
    """Float32 rounded to the 10 bits of mantissa that TF32 has."""
    return ((x.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


def test_where_tf32_is_allowed_it_is_as_accurate(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scales, "tf32_allowed", lambda device: True)
    types = st.FieldType(st.dihedral(4), "4*regular + 3*qm"), st.FieldType(st.dihedral(4), "4*regular + 2*E")
    for kernel in (1, 3):
        plan = fourier_plan(*types, (kernel, kernel))
        for scale in (1e-12, 1.0, 1e12):
            torch.manual_seed(0)
            weight = torch.randn(plan.bank.parameters) * scale
            x = torch.randn(2, types[0].channels, 8, 8) / scale
            filters = plan.bank.expand(weight.double(), torch.tensor(plan.bank.basis)).requires_grad_()
            field = x.double().requires_grad_()
            expected = F.conv2d(field, filters, padding=kernel // 2)
            upstream = torch.randn(expected.shape)
            for_x, for_filters = torch.autograd.grad((expected * upstream).sum(), [field, filters])
            for_weight = plan.bank.project(for_filters, torch.tensor(plan.bank.basis))
            rounded = in_tf32(x).double(), in_tf32(filters.detach().float()).double()
            error = relative(F.conv2d(*rounded, padding=kernel // 2), expected.detach())
            y = execution.convolve(plan, x, weight, None, (kernel // 2,) * 2, (1, 1))
            of_x, of_weight = execution.gradients(plan, upstream, x, weight, (kernel // 2,) * 2, (1, 1), (True, True))
            for found, wanted in ((y, expected.detach()), (of_x, for_x), (of_weight, for_weight)):
                assert found is not None
                assert found.dtype == torch.float32
                assert relative(found, wanted) < 1.2 * error


@pytest.mark.parametrize("outlier", [1e2, 1e4, 1e6])
def test_one_large_number_does_not_spoil_the_others(outlier: float) -> None:
    """One scale serves a whole tensor; float16 has room for numbers that are far below the largest."""
    regular = st.FieldType(st.dihedral(4), "4*regular")
    plan = fourier_plan(regular, regular, (3, 3))
    torch.manual_seed(0)
    weight, x = torch.randn(plan.bank.parameters), torch.randn(2, 32, 8, 8)
    x[0, 0, 0, 0] = outlier
    x = x.bfloat16()
    expected = F.conv2d(x.double(), plan.bank.expand(weight.double(), torch.tensor(plan.bank.basis)), padding=1)
    y = execution.convolve(plan, x, weight, None, (1, 1), (1, 1))
    assert relative(y[1], expected[1]) < TOLERANCES[torch.bfloat16]


def test_nothing_overflows_where_all_numbers_are_equally_large() -> None:
    group = st.dihedral(4)
    types = st.FieldType(group, "2*regular + qm"), st.FieldType(group, "regular")
    plan = fourier_plan(*types, (3, 3))
    weight = torch.full((plan.bank.parameters,), 3e4)
    x = torch.full((1, types[0].channels, 6, 6), 6e4).bfloat16()
    y = execution.convolve(plan, x, weight, None, (1, 1), (1, 1))
    gradients = execution.gradients(plan, y.clamp(max=6e4), x, weight, (1, 1), (1, 1), (True, True))
    for found in (y, *gradients):
        assert found is not None
        assert torch.isfinite(found).all()


@pytest.mark.parametrize("wanted", [(True, False), (False, True), (False, False)])
def test_only_what_is_wanted_is_computed(wanted: tuple[bool, bool]) -> None:
    regular = st.FieldType(st.dihedral(4), "regular")
    plan = fourier_plan(regular, regular, (3, 3))
    x = torch.randn(1, 8, 4, 4)
    found = execution.gradients(plan, x, x, torch.randn(plan.bank.parameters), (1, 1), (1, 1), wanted)
    assert tuple(part is not None for part in found) == wanted


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("kernel", [1, 3])
def test_nothing_in_nothing_out(kernel: int, dtype: torch.dtype) -> None:
    regular = st.FieldType(st.dihedral(4), "regular")
    plan = fourier_plan(regular, regular, (kernel, kernel))
    x = torch.zeros(0, 8, 4, 4, dtype=dtype)
    padding = (kernel // 2, kernel // 2)
    weight = torch.ones(plan.bank.parameters)
    assert execution.convolve(plan, x, weight, None, padding, (1, 1)).shape == (0, 8, 4, 4)
    for_x, for_weight = execution.gradients(plan, x, x, weight, padding, (1, 1), (True, True))
    assert for_x is not None
    assert for_x.shape == x.shape
    assert for_weight is not None
    assert not for_weight.any()


@pytest.mark.parametrize(
    ("copies", "vector", "expected"),
    [
        ([80, 160], 8, 80),  # 12 pixels of 10 vectors fill a program but for 8
        ([40], 8, 40),
        ([20], 4, 20),
        ([3], 1, 3),
        ([1, 64], 1, 16),
        ([2], 2, 2),
        ([65], 1, 22),  # one pixel of 65 vectors would fill half a program
        ([520], 8, 104),
        ([1000], 1, 125),  # a program has room for one pixel at least
    ],
)
def test_slices_are_as_wide_as_wastes_little(copies: list[int], vector: int, expected: int) -> None:
    assert _widest_slice(copies, vector) == expected


@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize("group", ["D4", "C4", "D1"])
@pytest.mark.parametrize(
    ("in_text", "out_text", "vector"),
    [("20*regular + 3*A1", "2*regular + 17*A1", 1), ("24*regular + 8*A1", "16*regular + 40*A1", 8)],
)
def test_every_row_has_a_place_of_its_own(in_text: str, out_text: str, vector: int, group: str, adjoint: bool) -> None:
    """The kernels write without locks: no two programs may write one number, and none may be left out."""
    g = st.group_named(group)
    types = st.FieldType(g, in_text), st.FieldType(g, out_text)
    plan = IrrepBlockPlan(BankPlan(*types, (3, 3)), adjoint=adjoint)
    whole, pixels = BatchConvolution(plan), 7
    written = [(irrep_rows(plan.direction), plan.direction.in_channels)]
    written.append((product_rows(plan.direction, pixels), whole.product_width))
    single = IrrepBlockPlan(BankPlan(*types, (1, 1)), adjoint=adjoint)
    written.append((single_tap_rows(single.direction, pixels), BatchConvolution(single).spectrum_width))
    for tables, width in written:
        places = [
            begin + first_copy + p * step + i
            for _, _, copies, first, last, first_copy in tables.slices.tolist()
            for begin, step in tables.rows[first:last].tolist()
            for p in range(pixels)
            for i in range(copies)
        ]
        assert sorted(places) == list(range(pixels * width))
    coupled = coupling_tables(plan.direction, pixels, (1, 1), (1, 1))
    places = [
        begin + p * step + i
        for copies, first, _, _, pattern in coupled.slices.tolist()
        for begin, step in coupled.rows[first : first + len(coupled.patterns[pattern])].tolist()
        for p in range(pixels)
        for i in range(copies)
    ]
    assert sorted(places) == list(range(pixels * whole.spectrum_width))
    assert coupled.vector == vector
    copies, _, begins, steps, _ = coupled.slices.T
    for addresses in (copies, begins, steps, coupled.rows, [plan.direction.in_channels, coupled.width]):
        assert not np.any(np.asarray(addresses) % coupled.vector)
    blocks = irrep_block_tables(plan)
    places = [
        begin + a * step + c
        for (_, copies, copies_in, _, first, _), (*_, last, _) in zip(blocks.pairs[:-1], blocks.pairs[1:], strict=True)
        for begin, step in blocks.rows[first:last].tolist()
        for a in range(copies)
        for c in range(copies_in)
    ]
    assert sorted(places) == list(range(plan.parameters))


def relative(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float(((found.double() - expected).norm() / expected.norm()).detach())
