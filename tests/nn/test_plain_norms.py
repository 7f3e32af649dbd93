"""Plain batch norms take images and pooled fields, wherever they stand in a network."""

from __future__ import annotations

import copy
import io
import itertools
from collections.abc import Callable
from pathlib import Path

import onnxruntime
import pytest
import torch
from cases import GROUPS, mixed, orthogonal, several_invariants
from torch import Tensor, nn

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import EquivariantModule

every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)


class Own(nn.Module):
    """One norm for images, which is used on the pooled field as well."""

    def __init__(self, kind: FieldType) -> None:
        super().__init__()
        self.norm, self.pool, self.linear = snn.BatchNorm2d(kind), snn.GlobalAvgPool(kind), snn.Linear(kind, kind)
        self.inner = nn.ModuleList(
            [snn.BatchNorm2d(kind), snn.Sequential(snn.Linear(kind, kind), snn.BatchNorm2d(kind))]
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.norm(self.pool(self.norm(x)))
        for layer in self.inner:
            x = x + layer(x)
        return self.linear(x)


# Whatever stands between the pool and the norm, and however deep both stand.
NETWORKS: dict[str, Callable[[FieldType], nn.Module]] = {
    "flat": lambda t: snn.Sequential(snn.GlobalAvgPool(t), snn.BatchNorm2d(t)),
    "nested": lambda t: snn.Sequential(
        snn.Sequential(snn.BatchNorm2d(t), snn.Sequential(snn.GlobalAvgPool(t))), snn.Sequential(snn.BatchNorm2d(t))
    ),
    "behind a linear map": lambda t: snn.Sequential(
        snn.GlobalAvgPool(t), snn.Linear(t, t), snn.BatchNorm2d(t), snn.NormReLU(t), snn.BatchNorm2d(t)
    ),
    "residual": lambda t: snn.Sequential(
        snn.GlobalAvgPool(t), snn.Residual(snn.Sequential(snn.Linear(t, t), snn.BatchNorm2d(t)), snn.BatchNorm2d(t))
    ),
    "parallel": lambda t: snn.Sequential(
        snn.BatchNorm2d(t), snn.GlobalAvgPool(t), snn.Parallel(snn.BatchNorm2d(t), snn.Linear(t, t))
    ),
    "pool inside a branch": lambda t: snn.Parallel(
        snn.Sequential(snn.BatchNorm2d(t), snn.GlobalAvgPool(t), snn.BatchNorm2d(t)), snn.GlobalAvgPool(t)
    ),
    "torch's container": lambda t: nn.Sequential(snn.BatchNorm2d(t), snn.GlobalAvgPool(t), snn.BatchNorm2d(t)),
    "a module of one's own": Own,
    "without running statistics": lambda t: snn.Sequential(
        snn.BatchNorm2d(t, track_running_stats=False),
        snn.GlobalAvgPool(t),
        snn.BatchNorm2d(t, track_running_stats=False),
    ),
}
every_network = pytest.mark.parametrize("name", NETWORKS)


def trained(name: str, kind: FieldType, dtype: torch.dtype = torch.float64) -> nn.Module:
    """In evaluation mode, with statistics and parameters that are not those of the start."""
    torch.manual_seed(0)
    net = NETWORKS[name](kind).double()
    with torch.no_grad():
        for parameter in net.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
        for _ in range(2):
            net(images(kind))
    return net.eval().to(dtype)


def images(kind: FieldType, dtype: torch.dtype = torch.float64, count: int = 3) -> Tensor:
    return (1 + 2 * torch.randn(count, kind.channels, 4, 5, dtype=torch.float64)).to(dtype)


def assert_of_torch_only(net: nn.Module) -> None:
    assert not [m for m in net.modules() if isinstance(m, EquivariantModule)]


@every_network
@every_group
@pytest.mark.parametrize("kind", [mixed, orthogonal, several_invariants])
def test_to_plain_is_the_same_function(name: str, group: FiniteGroup, kind: Callable[[FiniteGroup], FieldType]):
    net, x = trained(name, kind(group)), images(kind(group))
    plain = snn.to_plain(net)
    assert_of_torch_only(plain)
    torch.testing.assert_close(plain(x), net(x), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layer", [snn.BatchNorm2d, snn.InstanceNorm2d])
@pytest.mark.parametrize(
    ("eps", "affine", "tracked"), list(itertools.product([1e-5, 0.5], [True, False], [True, False]))
)
@every_group
def test_plain_norms_keep_all_options(layer: type, eps: float, affine: bool, tracked: bool, group: FiniteGroup):
    """ε counts most where the variance is small."""
    kind = several_invariants(group)
    norm = layer(kind, eps=eps, affine=affine, track_running_stats=tracked).double()
    for parameter in norm.parameters():
        nn.init.normal_(parameter)
    x = 0.1 * images(kind)
    norm(x)
    norm.eval()
    plain = snn.to_plain(norm)
    for y in (x, x[:, :, 0, 0]) if layer is snn.BatchNorm2d else (x,):
        torch.testing.assert_close(plain(y), norm(y), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("rank", [2, 4])
@pytest.mark.parametrize("tracked", [True, False])
def test_one_plain_norm_takes_empty_batches_and_both_ranks(rank: int, tracked: bool):
    kind = mixed(GROUPS["D4"])
    plain = snn.to_plain(snn.BatchNorm2d(kind, track_running_stats=tracked))
    x = torch.randn(3, kind.channels, *(5, 4)[: rank - 2])
    assert plain(x).shape == x.shape
    if tracked:
        assert plain(x[:0]).shape == x[:0].shape


def test_plain_norms_are_copied_pickled_saved_and_traced():
    kind = mixed(GROUPS["D4"])
    net, x = trained("behind a linear map", kind), images(kind)
    plain = snn.to_plain(net)
    expected = plain(x)
    file = io.BytesIO()
    torch.save(plain, file)
    file.seek(0)
    other = snn.to_plain(NETWORKS["behind a linear map"](kind).double())
    other.load_state_dict(plain.state_dict())
    twins = (copy.deepcopy(plain), torch.load(file, weights_only=False), other, torch.fx.symbolic_trace(plain))
    for twin in twins:
        assert torch.equal(twin(x), expected)
    norm = plain[2]
    assert [name for name, _ in norm.named_parameters()] == ["weight", "bias"]
    assert [name for name, _ in norm.named_buffers()] == ["running_mean", "running_var"]


@every_network
def test_plain_networks_export_with_any_batch(name: str):
    kind = mixed(GROUPS["D4"])
    net, x = trained(name, kind), images(kind)
    program = torch.export.export(snn.to_plain(net), (x,), dynamic_shapes=({0: torch.export.Dim("batch", min=2)},))
    for count in (3, 5):
        x = images(kind, count=count)
        torch.testing.assert_close(program.module()(x), net(x), rtol=1e-10, atol=1e-10)


@every_network
def test_plain_networks_run_in_onnxruntime(name: str, tmp_path: Path):
    kind = mixed(GROUPS["D4"])
    net, x = trained(name, kind, torch.float32), images(kind, torch.float32)
    program = torch.onnx.export(snn.to_plain(net), (x,), dynamo=True, verbose=False)
    file = tmp_path / "net.onnx"
    program.save(file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    (result,) = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    torch.testing.assert_close(torch.from_numpy(result), net(x).detach(), rtol=1e-4, atol=1e-4)


def test_a_converted_norm_of_vectors_is_one_of_ours_and_becomes_plain_again():
    net = nn.Sequential(
        nn.Conv2d(3, 16, 3, padding=1),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(16, 16),
        nn.BatchNorm1d(16),
        nn.ReLU(),
    )
    converted = st.convert(net, st.dihedral(4), match="channels").eval()
    norms = [m for m in converted.modules() if isinstance(m, snn.BatchNorm2d)]
    assert [type(norm) for norm in norms] == [snn.BatchNorm2d]
    x = torch.randn(2, 3, 8, 8)
    plain = snn.to_plain(converted)
    assert_of_torch_only(plain)
    torch.testing.assert_close(plain(x), converted(x), rtol=1e-4, atol=1e-4)
