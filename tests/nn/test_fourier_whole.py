"""The Fourier convolution of whole batches, as a GPU runs it; here its one kernel is written out in torch."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import steerable as st
from steerable.nn.expansion import BankPlan
from steerable.nn.fourier.blocks import BlockPlan
from steerable.nn.fourier.whole import WholeConvolution

CASES = [
    ("D4", "2*regular + qm", "3*A1 + 2*E", (3, 3), (1, 1), (1, 1)),
    ("D4", "A1 + 2*E", "2*regular", (3, 3), (2, 2), (2, 2)),
    ("C4", "2*regular + E", "E + 3*B", (3, 3), (0, 0), (1, 1)),
    ("D4", "2*regular", "regular + qm", (1, 1), (0, 0), (1, 1)),
    ("D1", "2*regular", "A1 + 2*A2", (3, 2), (1, 0), (1, 2)),
    ("D4", "regular", "E", (2, 2), (1, 1), (1, 1)),
]


def gather_sum(
    source: Tensor,
    out: Tensor,
    tables: tuple[Tensor, Tensor, Tensor],
    size: tuple[int, int, int],
    in_size: tuple[int, int],
    most_copies: int,
    bias: Tensor | None = None,
) -> None:
    """The equation of steerable.nn.kernels.fourier, run by run."""
    runs, terms, factors = tables
    flat, target = source.reshape(-1), out.view(-1)
    batch, y, x = (axis.flatten() for axis in torch.meshgrid(*[torch.arange(n) for n in size], indexing="ij"))
    p = torch.arange(len(batch))
    for begin, step, copy_step, copies, first, last, bias_begin in runs.tolist():
        i = torch.arange(copies)
        total = torch.zeros(len(p), copies, dtype=flat.dtype)
        for t in range(first, last):
            down, right, offset, pixel_step, inner_step = terms[t].tolist()
            above, beside = y + down, x + right
            exists = (above >= 0) & (above < in_size[0]) & (beside >= 0) & (beside < in_size[1])
            at = ((batch * in_size[0] + above) * in_size[1] + beside) * pixel_step + offset
            values = flat[torch.where(exists, at, 0)[:, None] + i * inner_step]
            total += factors[t] * torch.where(exists[:, None], values, 0)
        if bias is not None:
            total += bias[bias_begin + i * copy_step]
        target[begin + (p * step)[:, None] + i * copy_step] = total


@pytest.fixture(autouse=True)
def _kernel_in_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "steerable.nn.kernels.fourier", SimpleNamespace(gather_sum=gather_sum))


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel", "padding", "dilation"), CASES)
def test_it_is_the_dense_convolution_and_so_are_its_gradients(
    group: str,
    in_text: str,
    out_text: str,
    kernel: tuple[int, int],
    padding: tuple[int, int],
    dilation: tuple[int, int],
) -> None:
    g = st.group_named(group)
    in_type, out_type = st.FieldType(g, in_text), st.FieldType(g, out_text)
    bank = BankPlan(in_type, out_type, kernel)
    basis = torch.tensor(bank.basis)
    weight = torch.randn(bank.parameters, dtype=torch.float64)
    x = torch.randn(2, in_type.channels, 5, 6, dtype=torch.float64, requires_grad=True)
    bias = torch.randn(out_type.channels, dtype=torch.float64)
    filters = bank.expand(weight, basis).requires_grad_()
    expected = F.conv2d(x, filters, bias, padding=padding, dilation=dilation)
    upstream = torch.randn_like(expected)
    for_x, for_filters = torch.autograd.grad((expected * upstream).sum(), [x, filters])

    plan, back = BlockPlan(bank, adjoint=False), BlockPlan(bank, adjoint=True)
    whole = WholeConvolution(plan)
    y = whole.forward(x.detach(), plan.expand(weight), bias, padding, dilation)
    assert y.shape == expected.shape
    assert (y - expected).abs().max() < 1e-12
    blocks = plan.collect(whole.block_gradient(x.detach(), upstream, padding, dilation))
    assert (blocks - bank.project(for_filters, basis)).abs().max() < 1e-11
    outer = tuple(d * (k - 1) - p for d, k, p in zip(dilation, kernel, padding, strict=True))
    if min(outer) >= 0:
        gradient = WholeConvolution(back).forward(upstream, back.expand(weight), None, outer, dilation)  # type: ignore[arg-type]
        assert (gradient - for_x).abs().max() < 1e-12


def test_nothing_in_nothing_out() -> None:
    regular = st.FieldType(st.dihedral(4), "regular")
    plan = BlockPlan(BankPlan(regular, regular, (3, 3)), adjoint=False)
    whole = WholeConvolution(plan)
    blocks = torch.zeros(plan.parameters)
    x = torch.zeros(0, 8, 4, 4)
    assert whole.forward(x, blocks, None, (1, 1), (1, 1)).shape == (0, 8, 4, 4)
    assert not whole.block_gradient(x, x, (1, 1), (1, 1)).any()
