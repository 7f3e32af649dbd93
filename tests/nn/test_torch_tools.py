"""Torch's tools for batch norms find those of this library, or say that they cannot serve them."""

from __future__ import annotations

import copy
import io

import pytest
import torch
from torch import Tensor, nn
from torch.optim import swa_utils

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn

GROUPS = {"D4": st.dihedral(4), "C4": st.cyclic(4), "D1": st.dihedral(1)}
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)


class Own(nn.Module):
    """A network as users write them: norms of ours in a container and outside, on images and pooled, and torch's."""

    def __init__(self, group: FiniteGroup) -> None:
        super().__init__()
        kind = FieldType(group, "2*regular + A1")
        self.features = snn.Sequential(
            snn.Conv2d(FieldType(group, "A1"), kind, 3, padding=1), snn.BatchNorm2d(kind), snn.ReLU(kind)
        )
        self.pool = snn.GlobalAvgPool(kind)
        self.pooled_norm = snn.BatchNorm2d(kind, momentum=0.3)
        self.invariants = snn.GroupPool(kind)
        self.head = nn.Sequential(nn.BatchNorm1d(3), nn.Linear(3, 2))

    def forward(self, x: Tensor) -> Tensor:
        return self.head(self.invariants(self.pooled_norm(self.pool(self.features(x)))))


def loader() -> list[Tensor]:
    generator = torch.Generator().manual_seed(0)
    return [1 + 2 * torch.randn(4, 1, 6, 6, generator=generator, dtype=torch.float64) for _ in range(3)]


def statistics(net: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in net.named_buffers() if name.endswith(("mean", "var", "tracked"))}


# -------------------------------------------------------------------- update_bn


@every_group
@pytest.mark.parametrize("training", [True, False])
def test_update_bn_renews_the_running_statistics(group: FiniteGroup, training: bool) -> None:
    """They become averages over the loader, whatever they were, and momenta and modes are as before."""
    net = Own(group).double()
    with torch.no_grad():
        for norm in (net.features[1], net.pooled_norm):
            norm.running_mean.fill_(7)  # stale
            norm.running_var.fill_(7)
            norm.num_batches_tracked.fill_(7)
    net.train(training)
    swa_utils.update_bn(loader(), net)
    assert net.training is training
    assert (net.features[1].momentum, net.pooled_norm.momentum) == (0.1, 0.3)

    twin = copy.deepcopy(net).train()
    for norm in (twin.features[1], twin.pooled_norm, twin.head[0]):
        norm.reset_running_stats()
        norm.momentum = None
    with torch.no_grad():
        for x in loader():
            twin(x)
    for name, value in statistics(twin).items():
        assert torch.equal(statistics(net)[name], value), name
    assert int(net.features[1].num_batches_tracked) == 3


@every_group
def test_an_averaged_model_has_statistics_of_its_own_weights(group: FiniteGroup) -> None:
    """Stochastic weight averaging as in torch's manual: the mean of each channel in evaluation is that of the data."""
    net = Own(group).double()
    averaged = swa_utils.AveragedModel(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.5)
    for x in loader():
        optimizer.zero_grad()
        net(x).square().sum().backward()
        optimizer.step()
        averaged.update_parameters(net)
    swa_utils.update_bn(loader(), averaged)
    inner = averaged.module
    seen = torch.cat([inner.features[0](x) for x in loader()])
    fresh = snn.BatchNorm2d(inner.features[1].in_type, momentum=1.0).double()
    fresh(seen)
    torch.testing.assert_close(inner.features[1].running_mean, fresh.running_mean)
    st.testing.assert_equivariant(inner.features.eval())


def test_statistics_can_be_dropped_as_for_per_sample_gradients() -> None:
    net = Own(GROUPS["D4"]).double()
    torch.func.replace_all_batch_norm_modules_(net)
    assert net.pooled_norm.running_mean is None
    assert net.pooled_norm.track_running_stats is False
    before = statistics(net)
    net(loader()[0])
    assert statistics(net) == before == {}


# -------------------------------------------------------------------- synchronised norms


REFUSAL = (
    "BatchNorm2d has no `num_features`: it has one scale for each capsule. A norm of single channels in its place "
    "would not be equivariant. To take statistics over all processes use `steerable.nn.convert_sync_batchnorm(net)`, "
    "not `torch.nn.SyncBatchNorm.convert_sync_batchnorm`."
)


@every_group
def test_torchs_conversion_is_refused_with_the_remedy(group: FiniteGroup) -> None:
    for net in (Own(group), snn.BatchNorm2d(FieldType(group, "regular"))):
        with pytest.raises(TypeError) as error:
            nn.SyncBatchNorm.convert_sync_batchnorm(net)
        assert str(error.value) == REFUSAL


@every_group
def test_a_whole_network_is_synchronised(group: FiniteGroup) -> None:
    net = Own(group).double()
    before, x = copy.deepcopy(net).eval(), loader()[0]
    converted = snn.convert_sync_batchnorm(net)
    assert converted is net
    assert net.features[1].sync
    assert net.pooled_norm.sync
    assert type(net.features[1]) is snn.BatchNorm2d
    assert type(net.head[0]) is nn.SyncBatchNorm
    assert set(net.state_dict()) == set(before.state_dict())
    torch.testing.assert_close(net.eval()(x), before(x), rtol=0, atol=0)
    st.testing.assert_equivariant(net.features)


def test_a_norm_alone_and_one_that_is_used_twice_are_synchronised() -> None:
    norm = snn.BatchNorm2d(FieldType(GROUPS["D4"], "regular"))
    assert snn.convert_sync_batchnorm(norm) is norm
    assert norm.sync
    shared = nn.BatchNorm2d(3)
    net = snn.convert_sync_batchnorm(nn.Sequential(shared, nn.Identity(), shared))
    assert type(net[0]) is type(net[2]) is nn.SyncBatchNorm
    assert net[0].weight is net[2].weight


# -------------------------------------------------------------------- still a layer like any other


@every_group
def test_batch_norms_are_built_and_saved_as_before(group: FiniteGroup) -> None:
    """Of torch's class only the name is taken: no parameters for single channels, and nothing in the way of copies."""
    norm = snn.BatchNorm2d(FieldType(group, "2*regular")).double()
    assert isinstance(norm, nn.modules.batchnorm._BatchNorm)
    assert {name: tuple(p.shape) for name, p in norm.named_parameters()} == {"weight": (2,), "bias": (2,)}
    assert norm.running_var.shape == (2,)
    x = torch.randn(3, norm.in_type.channels, 4, 4, dtype=torch.float64)
    norm(x)
    file = io.BytesIO()
    torch.save(norm.state_dict(), file)
    file.seek(0)
    other = snn.BatchNorm2d(norm.in_type).double()
    other.load_state_dict(torch.load(file))
    torch.testing.assert_close(other.eval()(x), norm.eval()(x), rtol=0, atol=0)
    assert str(norm).startswith(
        "BatchNorm2d(\n  2*regular, eps=1e-05, affine=True, momentum=0.1, track_running_stats=True"
    )


@pytest.mark.filterwarnings("ignore:.torch.jit.trace:DeprecationWarning")
def test_torchscript_does_not_ask_for_the_number_of_features() -> None:
    norm = snn.BatchNorm2d(FieldType(GROUPS["D4"], "regular")).eval()
    x = torch.randn(2, 8, 3, 3)
    torch.testing.assert_close(torch.jit.trace(norm, (x,))(x), norm(x))
