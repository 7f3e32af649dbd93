"""Capsules that are not orthogonal: a layer is exact on them, or refuses them and says what to do."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
import torch
from cases import slanted_capsule, stretched_capsule

import steerable as st
from steerable import Capsule, FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import EquivariantModule

D4 = st.dihedral(4)
GROUPS = {
    "D4": D4,
    "C4": st.cyclic(4),
    "D2": st.dihedral(2),
    "C2": st.cyclic(2),
    "D1": st.dihedral(1),
    "e-mr3": D4.subgroup(["e", "mr3"]),
}
OFF_THE_GRID = {"D3": st.dihedral(3), "C5": st.cyclic(5), "O": st.octahedral()}


def one_direction(group: FiniteGroup) -> Capsule:
    """The sum of the trivial irrep and another in a basis that is not orthogonal."""
    rho = group.irreps[0] + group.irreps[-1]
    return Capsule(rho.change_basis(np.eye(rho.dim) + np.triu(np.full((rho.dim, rho.dim), 0.5), 1)), "sheared")


def without_direction(group: FiniteGroup) -> Capsule:
    """The last two irreps in such a basis; they have no invariants."""
    rho = group.irreps[-2] + group.irreps[-1]
    return Capsule(rho.change_basis(np.eye(rho.dim) + np.triu(np.full((rho.dim, rho.dim), 0.5), 1)), "oblique")


CAPSULES: dict[str, Callable[[FiniteGroup], Capsule]] = {
    "slanted": slanted_capsule,
    "stretched": stretched_capsule,
    "sheared": one_direction,
    "oblique": without_direction,
}
LAYERS: dict[str, Callable[[FieldType], EquivariantModule]] = {
    "Conv2d": lambda t: snn.Conv2d(t, t, 3, padding=1),
    "Conv2d-even": lambda t: snn.Conv2d(t, t, 2, padding_mode="circular", padding=1),
    "Conv2d-fourier": lambda t: snn.Conv2d(t, t, 3, padding=1, backend="fourier"),
    "Conv2d-groups": lambda t: snn.Conv2d(2 * t, 2 * t, 3, padding=1, groups=2),
    "Conv2d-orthogonal": lambda t: snn.Conv2d(t, t, 3, padding=1, init="orthogonal"),
    "ConvTranspose2d": lambda t: snn.ConvTranspose2d(t, t, 4, 2, 1),
    "Linear": lambda t: snn.Sequential(snn.GlobalAvgPool(t), snn.Linear(t, t)),
    "ReLU": snn.ReLU,
    "Tanh": snn.Tanh,
    "CReLU": snn.CReLU,
    "Concatenated": lambda t: snn.Concatenated(t, torch.exp),
    "Concatenated-scale-free": lambda t: snn.Concatenated(t, torch.nn.LeakyReLU(0.2), scale_free=True),
    "NormReLU": snn.NormReLU,
    "Activation": snn.Activation,
    "Gated": snn.Gated,
    "BatchNorm2d": snn.BatchNorm2d,
    "InstanceNorm2d": snn.InstanceNorm2d,
    "LayerNorm": snn.LayerNorm,
    "GroupNorm": lambda t: snn.GroupNorm(1, t),
    "AvgPool2d": lambda t: snn.AvgPool2d(t, 2),
    "MaxPool2d": lambda t: snn.MaxPool2d(t, 2),
    "NormMaxPool2d": lambda t: snn.NormMaxPool2d(t, 2),
    "BlurPool2d": snn.BlurPool2d,
    "AdaptiveAvgPool2d": lambda t: snn.AdaptiveAvgPool2d(t, 2),
    "AdaptiveMaxPool2d": lambda t: snn.AdaptiveMaxPool2d(t, 2),
    "GlobalAvgPool": snn.GlobalAvgPool,
    "GlobalMaxPool": snn.GlobalMaxPool,
    "Upsample": snn.Upsample,
    "GroupPool-max": snn.GroupPool,
    "GroupPool-mean": lambda t: snn.GroupPool(t, "mean"),
    "GroupPool-norm": lambda t: snn.GroupPool(t, "norm"),
    "CosetPool": lambda t: snn.CosetPool(t, t.group.elements),
    "Dropout": snn.Dropout,
    "ToIrreps": snn.ToIrreps,
    "FromIrreps": snn.FromIrreps,
    "Select": lambda t: snn.Select(t, [1, 0]),
    "Restrict": lambda t: snn.Restrict(t, t.group.subgroups()[len(t.group.subgroups()) // 2]),
    "DiskMask": lambda t: snn.DiskMask(t, 6),
    "Identity": snn.Identity,
    "Concat": lambda t: snn.Parallel(snn.Identity(t), snn.Conv2d(t, t, 1)),
}
# The one irrep of a group of two elements that is not trivial is -1, also in any other basis.
PAIRS = [(c, g) for c in CAPSULES for g in GROUPS if c != "oblique" or GROUPS[g].order > 2]
every_pair = pytest.mark.parametrize(("capsule", "name"), PAIRS)
NEVER = {"ReLU", "Tanh", "Concatenated", "NormReLU", "BatchNorm2d", "InstanceNorm2d", "LayerNorm", "GroupNorm"} | {
    "MaxPool2d", "NormMaxPool2d", "AdaptiveMaxPool2d", "GlobalMaxPool", "GroupPool-max", "GroupPool-norm", "CosetPool",
    "Conv2d-orthogonal",
}  # fmt: skip
MONOMIAL_ONLY = {"CReLU", "Concatenated-scale-free", "Activation"}


def admitted(layer: str, capsule: str) -> bool:
    if layer == "GroupPool-mean":
        return capsule != "oblique"
    return layer not in NEVER and (layer not in MONOMIAL_ONLY or capsule == "stretched")


def moved_parameters(module: EquivariantModule) -> EquivariantModule:
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in module.double().parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
    return module.eval()


@every_pair
@pytest.mark.parametrize("layer", LAYERS)
def test_a_layer_is_exact_on_capsules_that_are_not_orthogonal_or_refuses_them(
    layer: str, capsule: str, name: str
) -> None:
    group = GROUPS[name]
    kind = CAPSULES[capsule](group)
    assert not kind.admits("norm"), "the test needs a capsule that is not orthogonal"
    field_type = FieldType(group, [(2, kind)])
    torch.manual_seed(0)
    if not admitted(layer, capsule):
        with pytest.raises((TypeError, ValueError), match=f"`{capsule}`") as refused:
            LAYERS[layer](field_type)
        assert "Use " in str(refused.value) or "`ToIrreps`" in str(refused.value)
        return
    module = moved_parameters(LAYERS[layer](field_type))
    x = torch.randn(2, module.in_type.channels, 6, 6, dtype=torch.float64)
    y = module(x)
    assert float(y.detach().abs().max()) > 1e-3
    assert st.testing.equivariance_error(module, x) < 1e-12


@pytest.mark.parametrize("group", [*GROUPS.values(), *OFF_THE_GRID.values()], ids=[*GROUPS, *OFF_THE_GRID])
@pytest.mark.parametrize("capsule", ["slanted", "stretched", "sheared"])
def test_group_mean_is_that_of_the_averaged_capsule(capsule: str, group: FiniteGroup) -> None:
    """λ·x is what the mean over the group has of the invariant direction, and invariant vectors keep their length."""
    field_type = FieldType(group, [(3, CAPSULES[capsule](group)), (2, group.trivial)])
    layer = snn.GroupPool(field_type, "mean").double()
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(4, field_type.channels, generator=generator, dtype=torch.float64)
    mean = torch.stack([st.transform(x, g, field_type) for g in group.elements]).mean(0)
    y = layer(x)
    torch.testing.assert_close(layer(mean), y, rtol=1e-12, atol=1e-12)
    assert y.std(0).min() > 1e-2
    for g in group.elements:
        torch.testing.assert_close(layer(st.transform(x, g, field_type)), y, rtol=1e-12, atol=1e-12)
    if capsule != "slanted":  # one invariant direction: the mean is y times it, and it is as long as in a bias
        bias = snn.Linear(FieldType(group, [(1, group.trivial)]), field_type).double()
        with torch.no_grad():
            bias.weight.zero_()
            bias.bias.copy_(y[0])  # type: ignore[union-attr]
            torch.testing.assert_close(bias(torch.zeros(1, 1, dtype=torch.float64)), mean[:1], rtol=1e-12, atol=1e-12)


@every_pair
def test_backends_agree_in_values_and_gradients(capsule: str, name: str) -> None:
    group = GROUPS[name]
    field_type = FieldType(group, [(2, CAPSULES[capsule](group))])
    torch.manual_seed(0)
    layer = snn.Conv2d(field_type, field_type, 3, padding=1).double()
    found = []
    for backend in ("dense", "fourier"):
        layer.backend = backend  # type: ignore[assignment]
        generator = torch.Generator().manual_seed(2)
        x = torch.randn(2, field_type.channels, 5, 4, generator=generator, dtype=torch.float64).requires_grad_()
        y = layer(x)
        weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
        first = torch.autograd.grad((y * weights).sum(), [x, layer.weight], create_graph=True)
        second = torch.autograd.grad(sum(g.square().sum() for g in first), [x, layer.weight])
        found.append([y, *first, *second])
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)


def test_refusals_say_what_to_use_instead() -> None:
    stretched, oblique = (FieldType(D4, CAPSULES[name](D4)) for name in ("stretched", "oblique"))
    basis = "Change to an orthogonal basis first, for instance with `ToIrreps`"
    for layer, field_type, remedy in (
        (snn.BatchNorm2d, stretched, f"{basis}."),
        (snn.NormReLU, stretched, f"{basis}."),
        (snn.GroupPool, stretched, "Use `GroupPool(mode='mean')`."),
        (snn.GroupPool, oblique, f"{basis}, and use `GroupPool(mode='norm')`."),
        (LAYERS["GroupPool-mean"], oblique, f"{basis}, and use `GroupPool(mode='norm')`."),
        (LAYERS["MaxPool2d"], stretched, f"{basis}. Use `NormMaxPool2d`."),
        (snn.GlobalMaxPool, stretched, "Use `GlobalAvgPool`."),
        (LAYERS["CosetPool"], stretched, "Use `GroupPool(mode='mean')`."),
        (LAYERS["CosetPool"], oblique, f"{basis}, and use `GroupPool(mode='norm')`."),
    ):
        with pytest.raises(TypeError) as refused:
            layer(field_type)
        assert str(refused.value).endswith(remedy), str(refused.value)
