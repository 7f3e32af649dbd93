"""Norms: torch's own for trivial capsules, a naive computation over whole capsules for the others."""

import copy
import itertools
from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
SCALARS = {"C1": FieldType(st.trivial(), "6*A1"), "D4": FieldType(D4, "6*A1")}
MIXED = FieldType(D4, "2*regular + 2*E + A2 + 2*qm + A1")


def batch(channels: int, seed: int, size: int = 5) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return 2 + 3 * torch.randn(4, channels, size, size, generator=generator, dtype=torch.float64)


def same_affine(ours: nn.Module, theirs: nn.Module) -> None:
    if theirs.weight is None:
        assert ours.weight is None
        assert ours.bias is None
        return
    with torch.no_grad():
        for mine, its in ((ours.weight, theirs.weight), (ours.bias, theirs.bias)):
            nn.init.normal_(mine)  # type: ignore[arg-type]
            its.copy_(mine)  # type: ignore[operator]


# -------------------------------------------------------------------- trivial capsules: torch's layers


@pytest.mark.parametrize("field_type", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("momentum", [0.1, 0.5, None])
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_batch_norm_is_torchs(field_type: FieldType, momentum: float | None, affine: bool, tracked: bool) -> None:
    options = {"eps": 1e-3, "momentum": momentum, "affine": affine, "track_running_stats": tracked}
    ours = snn.BatchNorm2d(field_type, **options).double()  # type: ignore[arg-type]
    theirs = nn.BatchNorm2d(6, **options).double()  # type: ignore[arg-type]
    same_affine(ours, theirs)
    for mode in (True, False):
        ours.train(mode)
        theirs.train(mode)
        for seed in range(3):
            x = batch(6, seed)
            torch.testing.assert_close(ours(x), theirs(x))
    assert set(ours.state_dict()) == set(theirs.state_dict())
    for name, value in theirs.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], value)


@pytest.mark.parametrize("field_type", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("tracked", [True, False])
def test_instance_norm_is_torchs(field_type: FieldType, affine: bool, tracked: bool) -> None:
    options = {"momentum": 0.3, "affine": affine, "track_running_stats": tracked}
    ours = snn.InstanceNorm2d(field_type, **options).double()  # type: ignore[arg-type]
    theirs = nn.InstanceNorm2d(6, **options).double()  # type: ignore[arg-type]
    same_affine(ours, theirs)
    for mode, seed in itertools.product((True, False), range(3)):
        ours.train(mode)
        theirs.train(mode)
        torch.testing.assert_close(ours(batch(6, seed)), theirs(batch(6, seed)))
    if tracked:
        torch.testing.assert_close(ours.running_mean, theirs.running_mean)
        torch.testing.assert_close(ours.running_var, theirs.running_var)


@pytest.mark.parametrize("field_type", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("groups", [1, 2, 6])
def test_group_norm_is_torchs(field_type: FieldType, affine: bool, groups: int) -> None:
    ours = snn.GroupNorm(groups, field_type, affine=affine).double()
    theirs = nn.GroupNorm(groups, 6, affine=affine).double()
    same_affine(ours, theirs)
    torch.testing.assert_close(ours(batch(6, 0)), theirs(batch(6, 0)))


@pytest.mark.parametrize("field_type", SCALARS.values(), ids=SCALARS)
@pytest.mark.parametrize("affine", [True, False])
def test_layer_norm_is_torchs_over_channels(field_type: FieldType, affine: bool) -> None:
    ours = snn.LayerNorm(field_type, affine=affine).double()
    theirs = nn.LayerNorm(6, elementwise_affine=affine).double()
    same_affine(ours, theirs)
    x = batch(6, 0)
    torch.testing.assert_close(ours(x), theirs(x.movedim(1, -1)).movedim(-1, 1))
    torch.testing.assert_close(ours(x[:, :, 0, 0]), theirs(x[:, :, 0, 0]))


# -------------------------------------------------------------------- whole capsules, naively


def naive(x: Tensor, eps: float = 1e-5) -> tuple[Tensor, list[Tensor], list[Tensor]]:
    """Each capsule of (batch, MIXED, …) by itself: a mean on permutations only, one variance for all of its values."""
    y, means, variances = torch.empty_like(x), [], []
    for capsule, channels in zip(MIXED.capsules, MIXED.slices, strict=True):
        part = x[:, channels]
        mean = part.mean() if capsule.kind == "permutation" else part.new_zeros(())
        variance = (part - mean).square().mean()
        y[:, channels] = (part - mean) / (variance + eps).sqrt()
        means.append(mean)
        variances.append(variance)
    return y, means, variances


def test_batch_norm_of_capsules() -> None:
    layer = snn.BatchNorm2d(MIXED, momentum=1.0).double()
    x = batch(MIXED.channels, 0)
    expected, means, variances = naive(x)
    torch.testing.assert_close(layer(x), expected)
    values = 4 * 5 * 5
    assert layer.running_mean is not None
    assert layer.running_var is not None
    for k, (capsule, channels) in enumerate(zip(MIXED.capsules, MIXED.slices, strict=True)):
        torch.testing.assert_close(layer.running_mean[channels], means[k].expand(capsule.dim))
        n = values * capsule.dim
        unbiased = n / (n - 1) if capsule.kind == "permutation" else 1.0  # a mean that was not estimated costs nothing
        torch.testing.assert_close(layer.running_var[k], variances[k] * unbiased)
    pooled = snn.BatchNorm2d(MIXED).double()(x[:, :, 0, 0])
    torch.testing.assert_close(pooled, naive(x[:, :, 0, 0])[0])


def test_instance_norm_of_capsules() -> None:
    x = batch(MIXED.channels, 1)
    expected = torch.cat([naive(image.unsqueeze(0))[0] for image in x])
    torch.testing.assert_close(snn.InstanceNorm2d(MIXED).double()(x), expected)


def naive_joint(part: Tensor, on: Tensor, eps: float = 1e-5) -> Tensor:
    """One mean over the channels in ``on``, one variance over all channels."""
    centred = part - part[on].mean() * on.to(part.dtype).view(-1, *(1,) * (part.ndim - 1))
    return centred / (centred.square().mean() + eps).sqrt()


def test_group_and_layer_norm_of_capsules() -> None:
    x = batch(MIXED.channels, 2, size=3)
    invariant = torch.cat([torch.full((c.dim,), c.kind == "permutation") for c in MIXED.capsules])
    slices = MIXED.slices
    bounds = [(slices[k].start, slices[k + 1].stop) for k in range(0, 8, 2)]  # four groups of two capsules each
    expected = torch.stack(
        [torch.cat([naive_joint(image[a:b], invariant[a:b]) if invariant[a:b].any() else
                    image[a:b] / (image[a:b].square().mean() + 1e-5).sqrt() for a, b in bounds]) for image in x]
    )  # fmt: skip
    torch.testing.assert_close(snn.GroupNorm(4, MIXED).double()(x), expected)
    layer = snn.LayerNorm(MIXED).double()(x)
    for n, i, j in itertools.product(range(2), range(3), range(3)):
        torch.testing.assert_close(layer[n, :, i, j], naive_joint(x[n, :, i, j], invariant))


def test_affine_parameters_are_one_scale_per_capsule_and_one_shift_per_invariant() -> None:
    layer = snn.BatchNorm2d(MIXED).double()
    assert layer.weight is not None
    assert layer.bias is not None
    assert layer.weight.shape == (8,)
    assert layer.bias.shape == (5,)
    scale, shift = torch.arange(1.0, 9, dtype=torch.float64), torch.arange(10.0, 15, dtype=torch.float64)
    with torch.no_grad():
        layer.weight.copy_(scale)
        layer.bias.copy_(shift)
    shifts = iter(shift)
    expected = naive(batch(MIXED.channels, 0))[0]
    for k, (capsule, channels) in enumerate(zip(MIXED.capsules, MIXED.slices, strict=True)):
        expected[:, channels] *= scale[k]
        if capsule.kind == "permutation":
            expected[:, channels] += next(shifts)
    torch.testing.assert_close(layer(batch(MIXED.channels, 0)), expected)
    assert snn.BatchNorm2d(FieldType(D4, "2*E + A2")).bias is None


@pytest.mark.parametrize("make", [
    lambda bias: snn.BatchNorm2d(MIXED, bias=bias), lambda bias: snn.InstanceNorm2d(MIXED, affine=True, bias=bias),
    lambda bias: snn.GroupNorm(2, MIXED, bias=bias), lambda bias: snn.LayerNorm(MIXED, bias=bias),
])  # fmt: skip
def test_without_a_bias_a_norm_is_that_of_bias_zero(make: Callable[[bool], snn.EquivariantModule]) -> None:
    """In what it computes, in training and in evaluation, and in its gradients."""
    without, with_bias = make(False).double(), make(True).double()
    assert [name for name, _ in without.named_parameters()] == ["weight"]
    with torch.no_grad():
        nn.init.normal_(without.weight)  # type: ignore[arg-type]
        with_bias.weight.copy_(without.weight)  # type: ignore[operator, arg-type]
    for norm in (without, with_bias):
        norm(batch(MIXED.channels, 1)).square().sum().backward()
    torch.testing.assert_close(without.weight.grad, with_bias.weight.grad)
    x = batch(MIXED.channels, 2)
    torch.testing.assert_close(without.eval()(x), with_bias.eval()(x))


# -------------------------------------------------------------------- precision, bad input


@pytest.mark.parametrize("make", [snn.BatchNorm2d, snn.InstanceNorm2d, lambda t: snn.GroupNorm(1, t), snn.LayerNorm])
@pytest.mark.parametrize("field_type", [SCALARS["C1"], MIXED], ids=str)
def test_statistics_keep_single_precision_under_autocast(make: type, field_type: FieldType) -> None:
    layer, x = make(field_type), 100 + torch.randn(2, field_type.channels, 4, 4)
    expected = layer(x)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        torch.testing.assert_close(layer(x), expected, rtol=0, atol=0)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_modules(dtype: torch.dtype) -> None:
    """Statistics are float32's; in float16 a count of values above 65504 would be infinite."""
    layer = snn.BatchNorm2d(MIXED, momentum=1.0).to(dtype)
    x = torch.randn(4, MIXED.channels, 128, 128).to(dtype)
    y = layer(x)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), naive(x.double())[0], rtol=0.02, atol=0.02)
    torch.testing.assert_close(layer.running_var.float(), torch.ones(8), rtol=0.05, atol=0.05)  # type: ignore[union-attr]
    grouped = snn.GroupNorm(2, MIXED).to(dtype)(x)
    assert grouped.dtype == dtype
    assert torch.isfinite(grouped).all()


def test_errors() -> None:
    with pytest.raises(ValueError, match="more than one value") as error:
        snn.BatchNorm2d(MIXED)(torch.zeros(1, MIXED.channels, 1, 1))
    assert str(error.value) == (
        "BatchNorm2d needs more than one value per channel when training, got a tensor of shape (1, 30, 1, 1). Use a "
        "larger batch, or eval()."
    )
    with pytest.raises(ValueError, match="divide") as error:
        snn.GroupNorm(3, MIXED)
    assert str(error.value) == "GroupNorm divides 8 capsules into groups of equal numbers; 3 groups do not divide them."


# -------------------------------------------------------------------- capsules with several invariant directions


def split(capsule: st.Representation, parts: list[st.Representation], copies: int) -> tuple[FieldType, FieldType]:
    """The same channels as capsules of several orbits, and with a capsule for each orbit, in another order."""
    group = capsule.group
    whole = FieldType(group, [(copies, st.Capsule(capsule, "whole"))])
    return whole, FieldType(group, [(copies, st.Capsule(part, f"part{k}")) for k, part in enumerate(parts)])


SPLITS = {
    f"{group.name} {name}": split(sum(parts[1:], parts[0]), parts, copies=2)
    for group in (D4, st.cyclic(4), st.dihedral(1))
    for name, parts in {
        "regular + A": [group.regular, group.trivial],
        "A + sign": [group.trivial, group.irreps[1]],
        "regular + sign + A": [group.regular, group.irreps[1], group.trivial],
        "A + last irrep + regular": [group.trivial, group.irreps[-1], group.regular],
    }.items()
}


@pytest.mark.parametrize("types", SPLITS.values(), ids=SPLITS)
@pytest.mark.parametrize("make", [lambda t: snn.GroupNorm(1, t), snn.LayerNorm], ids=["GroupNorm", "LayerNorm"])
def test_group_and_layer_norm_do_not_see_how_channels_are_divided_into_capsules(
    types: tuple[FieldType, FieldType], make: Callable[[FieldType], nn.Module]
) -> None:
    """μ is the mean over all invariant directions of a capsule, as if each orbit were a capsule of its own."""
    whole, parts = types
    copies, dim = len(whole), whole.capsules[0].dim
    starts = [0, *itertools.accumulate(capsule.dim for capsule, _ in parts.terms)]
    order = torch.tensor(
        [copy * dim + c for a, b in itertools.pairwise(starts) for copy in range(copies) for c in range(a, b)]
    )
    x = batch(whole.channels, 3)
    torch.testing.assert_close(make(whole).double()(x)[:, order], make(parts).double()(x[:, order]))


@pytest.mark.parametrize("group", [D4, st.cyclic(4), st.dihedral(1), st.trivial()], ids=lambda g: g.name)
@pytest.mark.parametrize("turned", [False, True])
@pytest.mark.parametrize("layer_type", [snn.BatchNorm2d, snn.InstanceNorm2d])
def test_batch_and_instance_norm_subtract_the_mean_along_every_invariant_direction(
    group: st.FiniteGroup, turned: bool, layer_type: type
) -> None:
    """The oracle: the projection onto the invariants is the mean of ρ(g) over the group."""
    representation = 2 * group.trivial + group.regular
    if turned:
        basis = np.linalg.qr(np.random.default_rng(0).normal(size=(representation.dim, representation.dim)))[0]
        representation = representation.change_basis(basis)
    field_type = FieldType(group, [(2, st.Capsule(representation, "several"))])
    projection = torch.tensor(np.mean(representation.matrices, axis=0))
    x = batch(field_type.channels, 4)
    images = [x] if layer_type is snn.BatchNorm2d else list(x.split(1))
    expected = []
    for image in images:
        parts = []
        for part in image.split(representation.dim, dim=1):
            centred = part - torch.einsum("ij,j->i", projection, part.mean((0, 2, 3)))[:, None, None]
            parts.append(centred / (centred.square().mean() + 1e-5).sqrt())
        expected.append(torch.cat(parts, 1))
    torch.testing.assert_close(layer_type(field_type).double()(x), torch.cat(expected))


# -------------------------------------------------------------------- capsules that are not orthogonal


def rough_capsules(group: st.FiniteGroup) -> list[st.Capsule]:
    """A monomial one with entries other than ±1, and one that mixes channels."""
    stretched = group.regular.change_basis(np.diag(1.0 + np.arange(group.order)))
    shear = np.eye(group.order) + 0.5 * np.eye(group.order, k=1)
    return [st.Capsule(stretched, "stretched"), st.Capsule(group.regular.change_basis(shear), "sheared")]


@pytest.mark.parametrize("group", [D4, st.cyclic(4), st.dihedral(1), st.cyclic(2)], ids=lambda g: g.name)
@pytest.mark.parametrize(
    "make", [snn.BatchNorm2d, snn.InstanceNorm2d, lambda t: snn.GroupNorm(1, t), snn.LayerNorm], ids=range(4)
)
def test_capsules_that_are_not_orthogonal_are_refused(
    group: st.FiniteGroup, make: Callable[[FieldType], nn.Module]
) -> None:
    """Also in company; and the remedy in the message works."""
    for capsule in rough_capsules(group):
        rough = FieldType(group, [(1, st.Capsule(group.regular, "regular")), (2, capsule)])
        with pytest.raises(TypeError) as error:
            make(rough)
        name = str(error.value).split()[0]
        assert str(error.value) == (
            f"{name} is not admissible for capsule `{capsule}`: its matrices are not orthogonal, so a variance "
            "over its channels depends on the pose. Change to an orthogonal basis first, for instance with `ToIrreps`."
        )
        change = snn.ToIrreps(rough)
        st.testing.assert_equivariant(snn.Sequential(change, make(change.out_type)).double().eval())


# -------------------------------------------------------------------- dtypes

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)
OPTIONS = [{"affine": affine, "track_running_stats": tracked} for affine in (True, False) for tracked in (True, False)]
PAIRS: dict[str, tuple[nn.Module, nn.Module]] = {
    **{f"BatchNorm2d {o}": (snn.BatchNorm2d(SCALARS["D4"], **o), nn.BatchNorm2d(6, **o)) for o in OPTIONS},
    **{f"InstanceNorm2d {o}": (snn.InstanceNorm2d(SCALARS["D4"], **o), nn.InstanceNorm2d(6, **o)) for o in OPTIONS},
    **{
        f"GroupNorm {a}": (snn.GroupNorm(2, SCALARS["D4"], affine=a), nn.GroupNorm(2, 6, affine=a))
        for a in (True, False)
    },
}


@pytest.mark.parametrize("name", PAIRS)
@pytest.mark.parametrize("of_layer", FLOATS, ids=str)
@pytest.mark.parametrize("of_input", FLOATS, ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_mixed_dtypes_are_taken_and_refused_as_by_torch(
    name: str, of_layer: torch.dtype, of_input: torch.dtype, training: bool
) -> None:
    """What is taken comes out in the dtype of the input, in training and evaluation.

    Torch's instance norm converts running statistics where it has no parameters. Here one rule serves all norms.
    """
    ours, theirs = (copy.deepcopy(layer).to(of_layer).train(training) for layer in PAIRS[name])
    x = batch(6, 0).to(of_input)
    refused = f"holds {of_layer}, but got a tensor of {of_input}"
    try:
        expected = theirs(x)
    except RuntimeError:
        with pytest.raises(TypeError, match=refused):
            ours(x)
        return
    single = (of_layer, of_input) in itertools.product((torch.float32,), (torch.bfloat16, torch.float16))
    if isinstance(ours, snn.InstanceNorm2d) and ours.state_dict() and of_layer != of_input and not single:
        with pytest.raises(TypeError, match=refused):
            ours(x)
        return
    y = ours(x)
    assert y.dtype == expected.dtype == of_input
    precise = {of_layer, of_input} <= {torch.float64, torch.float32}
    torch.testing.assert_close(
        y, expected, **({"rtol": 1e-5, "atol": 1e-6} if precise else {"rtol": 0.02, "atol": 0.02})
    )


@pytest.mark.parametrize("of_layer", FLOATS, ids=str)
@pytest.mark.parametrize("of_input", FLOATS, ids=str)
def test_layer_norm_follows_the_same_rule(of_layer: torch.dtype, of_input: torch.dtype) -> None:
    """On pooled fields it is torch's."""
    ours, theirs, x = snn.LayerNorm(SCALARS["D4"]).to(of_layer), nn.LayerNorm(6).to(of_layer), batch(6, 0)[:, :, 0, 0]
    try:
        expected = theirs(x.to(of_input))
    except RuntimeError:
        with pytest.raises(TypeError, match=f"holds {of_layer}, but got a tensor of {of_input}"):
            ours(x.to(of_input))
        return
    assert ours(x.to(of_input)).dtype == expected.dtype == of_input


@pytest.mark.parametrize("field_type", [MIXED, *(whole for whole, _ in list(SPLITS.values())[:2])], ids=str)
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
@pytest.mark.parametrize("shape", [(4, 4), ()], ids=["images", "pooled"])
def test_half_precision_fields_in_single_precision_layers(
    field_type: FieldType, training: bool, shape: tuple[int, ...]
) -> None:
    x = torch.randn(3, field_type.channels, *shape).bfloat16()
    made = [snn.BatchNorm2d(field_type), snn.BatchNorm2d(field_type, track_running_stats=False)]
    made += [snn.LayerNorm(field_type)]
    made += [snn.InstanceNorm2d(field_type, affine=True), snn.GroupNorm(1, field_type)] if shape else []
    for layer in made:
        y = layer.train(training)(x)
        assert y.dtype == torch.bfloat16
        torch.testing.assert_close(y.float(), layer(x.float()).detach(), rtol=0.02, atol=0.02)


def test_the_message_about_dtypes() -> None:
    with pytest.raises(TypeError) as error:
        snn.BatchNorm2d(MIXED).double()(torch.zeros(2, 30, 4, 4))
    assert str(error.value) == (
        "BatchNorm2d holds torch.float64, but got a tensor of torch.float32. A norm takes fields of its own dtype (and "
        "of half precision, if that is torch.float32): like torch's norms it does not convert between the others. "
        "Convert one of them: `x.to(torch.float64)`, or `layer.to(torch.float32)`."
    )
