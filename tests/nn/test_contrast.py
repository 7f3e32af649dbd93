"""Layers for groups in which several elements move the pixels alike, such as contrast inversion beside D4."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.testing import assert_equivariant

D4 = st.dihedral(4)


def _through(group: FiniteGroup, target: FiniteGroup) -> FiniteGroup:
    return group.acting_through(next(phi for phi in st.homomorphisms(group, target) if phi.is_surjective))


GROUPS = {
    "C2xD4|D4": st.cyclic(2).direct_product(D4, acting="second"),
    "C4xC2|C4": st.cyclic(4).direct_product(st.cyclic(2), acting="first"),
    "C2xC4|C4": st.cyclic(2).direct_product(st.cyclic(4), acting="second"),
    "D4|D2": _through(D4, st.dihedral(2)),
    "C4|C2": _through(st.cyclic(4), st.cyclic(2)),
    "C3|C1": _through(st.cyclic(3), st.trivial()),
}
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
CONTRAST = GROUPS["C2xD4|D4"]
SIGN = st.Capsule(st.Representation(CONTRAST, {"(r,e)": [[-1]], "(e,r)": [[1]], "(e,m)": [[1]]}, name="sign"))


def irreps(group: FiniteGroup) -> FieldType:
    return FieldType(group, [(1, irrep) for irrep in group.irreps])


def network(in_type: FieldType) -> snn.Sequential:
    """Every kind of nonlinearity, norm and pooling, ending in three invariant numbers per image."""
    group = in_type.group
    stream, inner = FieldType(group, "2*regular"), irreps(group)
    gated = snn.Gated(inner)
    steps: list[nn.Module] = [
        snn.Conv2d(in_type, stream, 3, padding=1),
        snn.BatchNorm2d(stream),
        snn.ReLU(stream),
        snn.AvgPool2d(stream, 2),
        snn.Conv2d(stream, gated.in_type, 3, padding=1, backend="fourier"),
        snn.LayerNorm(gated.in_type),
        gated,
        snn.NormReLU(inner),
    ]
    if all(irrep.is_signed_permutation for irrep in group.irreps):
        steps.append(snn.CReLU(inner))
    last = steps[-1].out_type
    return snn.Sequential(
        *steps,
        snn.Conv2d(last, stream, 3, padding=1),
        snn.MaxPool2d(stream, 3, 1, 1),
        snn.GroupPool(stream),
        snn.GlobalAvgPool(FieldType(group, "2*A1")),
        snn.Linear(FieldType(group, "2*A1"), FieldType(group, "3*A1")),
    ).double()


def noisy(module: nn.Module) -> nn.Module:
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module


@every_group
def test_a_network_is_exactly_equivariant(group: FiniteGroup) -> None:
    # All irreps go in: from scalars alone some fields would be 0, and `NormReLU` makes values of rounding errors there.
    for in_type in (FieldType(group, "2*regular"), irreps(group)):
        net = noisy(network(in_type))
        assert_equivariant(net, size=8, tolerance=1e-12)
        assert_equivariant(net[:8], size=8, tolerance=1e-12)
        x = torch.randn(2, in_type.channels, 8, 8, dtype=torch.float64)
        torch.testing.assert_close(snn.to_plain(net.eval())(x), net(x), rtol=1e-10, atol=1e-10)


@every_group
@pytest.mark.parametrize("kernel", [1, 2, 3])
def test_filters_have_as_many_parameters_as_the_characters_say(group: FiniteGroup, kernel: int) -> None:
    for a, b in ((FieldType(group, "2*regular"), irreps(group)), (irreps(group), irreps(group))):
        conv = snn.Conv2d(a, b, kernel, bias=False).double()
        assert conv.weight.numel() == st.parameter_cost(a, b, kernel)
        assert_equivariant(conv, tolerance=1e-12)


@every_group
def test_dense_and_fourier_are_the_same_map(group: FiniteGroup) -> None:
    a, b = FieldType(group, "2*regular"), irreps(group)
    dense = snn.Conv2d(a, b, 3, padding=1, backend="dense").double()
    fourier = snn.Conv2d(a, b, 3, padding=1, backend="fourier").double()
    fourier.load_state_dict(dense.state_dict())
    x = torch.randn(2, a.channels, 6, 6, dtype=torch.float64)
    torch.testing.assert_close(fourier(x), dense(x), rtol=1e-12, atol=1e-12)


@every_group
def test_what_moves_no_pixel_acts_on_channels_alone(group: FiniteGroup) -> None:
    regular = FieldType(group, "regular")
    x = torch.randn(1, regular.channels, 4, 5 if group.order < 6 else 4, dtype=torch.float64)
    for g in group.elements:
        if not (group.action[group.index(g)] == [[1, 0], [0, 1]]).all():
            continue
        moved = torch.einsum("ij,bjhw->bihw", torch.as_tensor(regular.representation(g)), x)
        assert torch.equal(st.transform(x, g, regular), moved)


def test_an_inverted_image_gives_the_same_scores() -> None:
    in_type = FieldType(CONTRAST, [(3, SIGN)])
    x = torch.randn(2, 3, 8, 8, dtype=torch.float64)
    assert torch.equal(st.transform(x, "(r,e)", in_type), -x)
    assert torch.equal(st.transform(x, "(r,r)", in_type), -torch.rot90(x, 1, (-2, -1)))
    net = noisy(network(in_type)).eval()
    assert_equivariant(net, x, tolerance=1e-12)
    torch.testing.assert_close(net(-x), net(x), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(net(-torch.rot90(x, 1, (-2, -1))), net(x), rtol=1e-12, atol=1e-12)
    assert float((net(2 * x) - net(x)).abs().max().detach()) > 1e-3


def test_an_inverted_image_gives_an_inverted_one() -> None:
    image, stream = FieldType(CONTRAST, [(1, SIGN)]), FieldType(CONTRAST, "2*regular")
    net = snn.Sequential(
        snn.Conv2d(image, stream, 3, padding=1), snn.ReLU(stream), snn.Conv2d(stream, image, 3, padding=1)
    )
    x = torch.randn(1, 1, 7, 7, dtype=torch.float64)
    y = noisy(net.double())(x).detach()
    torch.testing.assert_close(net(-x), -y, rtol=1e-12, atol=1e-12)
    assert float(y.abs().max()) > 1e-3


@every_group
def test_a_subgroup_sees_a_restricted_field(group: FiniteGroup) -> None:
    for members in group.subgroups(up_to_conjugacy=True):
        layer = snn.Restrict(FieldType(group, "2*regular + A1"), members)
        assert layer.out_type.group == group.subgroup(members)
        assert_equivariant(layer, size=4, tolerance=1e-12)


class Mixed(nn.Module):
    def __init__(self, in_type: FieldType) -> None:
        super().__init__()
        stream = FieldType(in_type.group, "2*regular")
        self.first = snn.Conv2d(in_type, stream, 3, padding=1)
        self.second = snn.Conv2d(stream, stream, 3, padding=1)

    def forward(self, x: Tensor) -> Tensor:
        x = torch.relu(self.first(x))
        return x + torch.relu(self.second(x))


@every_group
def test_types_are_followed_through_ordinary_code(group: FiniteGroup) -> None:
    in_type = FieldType(group, "2*A1")
    module = Mixed(in_type).double()
    assert st.typecheck(module, in_type=in_type) == module.second.out_type
    assert_equivariant(module, in_type=in_type, out_type=module.second.out_type, tolerance=1e-12)
