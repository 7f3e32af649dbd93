"""Batch norm in few passes is the batch norm of the equations, to all derivatives."""

from __future__ import annotations

from copy import deepcopy
from itertools import pairwise

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import nn as snn
from steerable.nn import batch_norm
from steerable.nn.fused_norm import NormPasses, can_fuse, fused_norm, moments_norm
from steerable.nn.norm_on_cpu import PassesOnCpu
from steerable.nn.numba import HAS_NUMBA

D4 = st.dihedral(4)
TYPES = ["2*(regular + qm)", "2*(A1 + A2 + 2*E)", "3*A2 + E", "4*A1"]
FORMATS = [torch.contiguous_format, torch.channels_last]


def layer(text: str, affine: bool = True) -> snn.BatchNorm2d:
    norm = snn.BatchNorm2d(st.FieldType(D4, text), affine=affine, track_running_stats=False).double()
    for p in norm.parameters():
        torch.nn.init.normal_(p)
    return norm


@pytest.fixture(params=["kernels", "numpy"], autouse=True)
def passes_by(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """What carries out the fused passes: numba's kernels, or torch's with numpy between them."""
    if request.param == "kernels" and not HAS_NUMBA:
        pytest.skip("numba is not installed")
    monkeypatch.setattr(batch_norm, "HAS_NUMBA", request.param == "kernels")


def fused_passes(norm: snn.BatchNorm2d, x: Tensor) -> tuple[NormPasses, Tensor, Tensor]:
    """The passes on a CPU, and where they leave the centre and the variance of a batch."""
    mean, variance = torch.zeros_like(norm.reference), torch.zeros_like(norm.inverse_square)
    if batch_norm.HAS_NUMBA:
        from steerable.nn.numba.norm import CapsuleTables, KernelPasses

        tables = CapsuleTables(*(norm._constants[name] for name in CapsuleTables._fields))
        return KernelPasses(tables, norm.eps, (mean, variance), 1.0), mean, variance

    tracking = snn.BatchNorm2d(norm.in_type, momentum=1.0).to(norm.reference.dtype)
    return PassesOnCpu(tracking, tracking._affine), tracking.running_mean, tracking.running_var


def both_ways(norm: snn.BatchNorm2d, x: Tensor) -> list[tuple[Tensor, ...]]:
    """The output, the statistics that are tracked and the gradients, from the fused passes and from tensor code."""
    outputs = []
    for fused in (True, False):
        leaf = x.detach().requires_grad_()
        if fused:
            passes, centre, variance = fused_passes(norm, x)
            y = fused_norm(leaf, norm.weight, norm.bias, passes, norm._affine)
        else:
            y, centre, biased = moments_norm(leaf, norm.weight, norm.bias, norm._affine)
            values = norm.capsule_dims * (x.numel() // x.shape[1])
            variance = biased * values / (values - norm.capsule_means)
        upstream = torch.linspace(-1, 2, y.numel(), dtype=y.dtype).view(y.shape)
        grads = torch.autograd.grad((y * upstream).sum(), [leaf, *norm.parameters()])
        outputs.append((y, centre, variance, *grads))
    return outputs


@pytest.mark.parametrize("text", TYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
def test_both_ways_agree(text: str, affine: bool, memory_format: torch.memory_format) -> None:
    norm = layer(text, affine)
    x = 3 + torch.randn(3, norm.in_type.channels, 4, 5, dtype=torch.float64)
    for fused, plain in zip(*both_ways(norm, x.contiguous(memory_format=memory_format)), strict=True):
        assert (fused - plain).abs().max() <= 1e-12 * plain.abs().max().clamp(min=1)


def test_several_gradients_at_once() -> None:
    norm, leaf = layer("regular + E"), torch.randn(2, 10, 3, 3, dtype=torch.float64, requires_grad=True)
    upstream = torch.randn(3, *leaf.shape, dtype=torch.float64)
    inputs = [leaf, *norm.parameters()]
    together = torch.autograd.grad(norm(leaf), inputs, upstream, is_grads_batched=True)
    for k, one in enumerate(upstream):
        for found, expected in zip(together, torch.autograd.grad(norm(leaf), inputs, one), strict=True):
            torch.testing.assert_close(found[k], expected)


@pytest.mark.parametrize("cut", ["a slice of channels", "every second pixel", "transposed"])
def test_inputs_that_are_parts_of_others(cut: str) -> None:
    norm = layer("2*E")
    whole = torch.randn(3, 8, 6, 6, dtype=torch.float64)
    x = {"a slice of channels": whole[:, 2:6], "every second pixel": whole[:, :4, ::2, ::2]}.get(cut, whole[:, :4].mT)
    for fused, plain in zip(*both_ways(norm, x), strict=True):
        assert (fused - plain).abs().max() <= 1e-12 * plain.abs().max().clamp(min=1)


def test_a_scale_of_zero_has_a_gradient() -> None:
    norm = layer("2*regular")
    torch.nn.init.zeros_(norm.weight)
    for fused, plain in zip(*both_ways(norm, torch.randn(2, 16, 3, 3, dtype=torch.float64)), strict=True):
        assert (fused - plain).abs().max() <= 1e-12


@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("mean", [0.0, 4.0, 30.0, 3000.0])
def test_a_mean_far_from_zero_costs_few_digits(mean: float, memory_format: torch.memory_format) -> None:
    """In float32 the difference of a mean square and a squared mean would leave nothing of a variance of 1."""
    norm = layer("2*regular + 2*A1").float()
    x = (mean + torch.randn(8, 18, 16, 16)).contiguous(memory_format=memory_format)
    _, _, single, *_ = both_ways(norm, x)[0]
    _, _, double, *_ = both_ways(norm.double(), x.double())[1]
    assert (single / double - 1).abs().max() < 1e-4


def test_the_default_device_is_not_that_of_the_layer() -> None:
    norm, x = layer("regular"), torch.randn(2, 8, 3, 3, dtype=torch.float64)
    with torch.device("meta"):
        y = norm(x)
    assert y.is_cpu


def test_constant_channels_stay_finite() -> None:
    norm = layer("regular")
    fused, plain = both_ways(norm, torch.full((2, 8, 3, 3), 5.0, dtype=torch.float64))
    for a, b in zip(fused, plain, strict=True):
        assert torch.isfinite(a).all()
        assert (a - b).abs().max() <= 1e-6  # 1/√ε magnifies what rounding leaves of a zero


@pytest.mark.parametrize("text", TYPES)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
def test_evaluation_is_the_same_with_and_without_gradients(
    text: str, affine: bool, memory_format: torch.memory_format
) -> None:
    norm = snn.BatchNorm2d(st.FieldType(D4, text), affine=affine).double()
    for p in norm.parameters():
        torch.nn.init.normal_(p)
    x = (3 + torch.randn(3, norm.in_type.channels, 4, 5, dtype=torch.float64)).contiguous(memory_format=memory_format)
    norm(x)
    norm.eval()
    with torch.no_grad():
        without = norm(x)
    assert (without - norm(x)).abs().max() <= 1e-12
    assert without.is_contiguous(memory_format=memory_format)


@pytest.mark.parametrize("text", TYPES)
def test_evaluation_sees_every_change(text: str) -> None:
    """Tables are kept from one evaluation to the next, but never longer than the numbers that they are made from."""
    norm = snn.BatchNorm2d(st.FieldType(D4, text)).double().eval()
    x = torch.randn(3, norm.in_type.channels, 4, 5, dtype=torch.float64)
    seen = []
    numbers = [norm.weight, norm.bias, norm.running_mean, norm.running_var]
    for changed in [None, *(n for n in numbers if n is not None), "eps"]:
        if isinstance(changed, Tensor):
            changed.data += 0.5  # leaves no trace but the values
        elif changed == "eps":
            norm.eps = 0.1
        with torch.inference_mode():
            inferred = norm(x)
        with torch.no_grad():
            seen.append(norm(x))
        assert torch.equal(inferred, seen[-1])
        assert (seen[-1] - norm(x)).abs().max() <= 1e-12
    assert not any(torch.equal(before, after) for before, after in pairwise(seen))


@pytest.mark.parametrize("momentum", [0.3, None])
def test_running_statistics_are_those_of_tensor_code(momentum: float | None) -> None:
    norm = snn.BatchNorm2d(st.FieldType(D4, "2*(A1 + A2 + 2*E) + regular"), momentum=momentum)
    other = deepcopy(norm)
    for _ in range(3):
        x = 2 + torch.randn(4, norm.in_type.channels, 5, 5)
        norm(x)
        other(x.transpose(0, 1).flatten(1).T)  # as pooled fields, for which there is tensor code only
    for name in ("running_mean", "running_var", "num_batches_tracked"):
        torch.testing.assert_close(getattr(norm, name), getattr(other, name), rtol=1e-5, atol=1e-6)


def test_only_eager_images_are_fused() -> None:
    x = torch.randn(2, 8, 3, 3)
    assert can_fuse(x, has_triton=False)
    assert not can_fuse(x.flatten(1), has_triton=False)
    assert not can_fuse(x.half(), has_triton=False)
    assert not can_fuse(x[:0], has_triton=False)
    seen = []
    torch.func.vmap(lambda sample: seen.append(can_fuse(sample, has_triton=False)) or sample)(x.unsqueeze(1))
    assert seen == [False]


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # in torch itself
def test_forward_mode_differentiation() -> None:
    norm, x = layer("regular + E").eval(), torch.randn(2, 10, 3, 3, dtype=torch.float64)
    tangent = torch.randn_like(x)
    _, along = torch.func.jvp(norm, (x,), (tangent,))
    step = 1e-6
    numeric = (norm(x + step * tangent) - norm(x - step * tangent)) / (2 * step)
    assert (along - numeric).abs().max() < 1e-7


@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
def test_threads_share_the_capsules(memory_format: torch.memory_format, monkeypatch: pytest.MonkeyPatch) -> None:
    """A share is some of the capsules; all shares together are the whole layer, to the last bit."""
    if not batch_norm.HAS_NUMBA:
        pytest.skip("torch shares its own kernels among threads")
    from steerable.nn.numba import compiling

    norm = layer("2*(regular + qm) + A2 + E")
    x = 2 + torch.randn(3, norm.in_type.channels, 4, 5, dtype=torch.float64)
    x = x.contiguous(memory_format=memory_format)
    alone = both_ways(norm, x)[0]
    monkeypatch.setattr(compiling, "_SHARED_FROM", 1)
    monkeypatch.setattr(compiling.torch, "get_num_threads", lambda: 3)
    monkeypatch.setattr(compiling, "on_all_threads", lambda task, uses_torch: [task(k, 3) for k in (2, 0, 1)])
    for shared, whole in zip(both_ways(norm, x)[0], alone, strict=True):
        torch.testing.assert_close(shared, whole, rtol=1e-14, atol=1e-14)


@pytest.mark.parametrize("memory_format", FORMATS, ids=["contiguous", "channels_last"])
def test_what_is_not_a_number_stays_so(memory_format: torch.memory_format) -> None:
    norm = snn.BatchNorm2d(st.FieldType(D4, "regular + E + A1"))
    x = torch.randn(2, 11, 4, 4).contiguous(memory_format=memory_format)
    x[0, 0, 0, 0], x[1, 10, 2, 2] = torch.nan, torch.inf
    y = norm(x)
    assert y[:, :8].isnan().all()
    assert y[:, 8:10].isfinite().all()
    assert y[:, 10].isnan().any()
    assert norm.running_var[0].isnan()
    assert norm.running_var[1].isfinite()


def test_a_copy_without_affine_part_has_no_shift() -> None:
    norm = snn.BatchNorm2d(st.FieldType(D4, "2*regular + E"))
    x = torch.randn(3, 18, 4, 4)
    plain = norm(x)
    torch.nn.init.constant_(norm.bias, 7.0)
    norm(x)
    torch.testing.assert_close(norm.without_affine()(x), plain)
    norm.bias = None
    torch.testing.assert_close(norm(x), plain)
