"""Dropout of capsules, restriction, changes of basis, selection, masks, direct sums."""

import math

import numpy as np
import pytest
import torch
from refusals import refusal as message

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
ALL = FieldType(D4, "2*(" + " + ".join(D4.capsules) + ")")
MIXED = FieldType(D4, "2*regular + 3*E + A2")


def field(field_type: FieldType, *size: int, batch: int = 2) -> torch.Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.randn(batch, field_type.channels, *(size or (4, 4)), generator=generator, dtype=torch.float64)


# -------------------------------------------------------------------- dropout


@pytest.mark.parametrize("p", [0.2, 0.5])
@pytest.mark.parametrize("make", [snn.Dropout, snn.Dropout2d])
def test_dropout_removes_whole_capsules(make: type[snn.Dropout], p: float) -> None:
    x = torch.ones(64, MIXED.channels, 8, 8)
    y = make(MIXED, p)(x)
    masks = []
    for channels in MIXED.slices:
        part = y[:, channels]
        assert (part == part[:, :1]).all()  # all channels of a capsule share one fate
        masks.append(part[:, 0])
    mask = torch.stack(masks, dim=1)
    kept = 1 / (1 - p)
    assert ((mask == 0) | torch.isclose(mask, torch.tensor(kept))).all()
    if make is snn.Dropout2d:
        assert (mask == mask[..., :1, :1]).all()
        mask = mask[..., 0, 0]
    share, n = float((mask == 0).float().mean()), mask.numel()
    assert abs(share - p) < 5 * math.sqrt(p * (1 - p) / n)
    # capsules, images and (for Dropout) pixels are dropped independently of each other
    dropped = (mask == 0).double()
    pairs = dropped[:, 0] * dropped[:, 1]
    assert abs(float(pairs.mean()) - p * p) < 5 * p / math.sqrt(pairs.numel())
    if make is snn.Dropout:
        pairs = dropped[..., :-1] * dropped[..., 1:]
        assert abs(float(pairs.mean()) - p * p) < 5 * p / math.sqrt(pairs.numel())


def test_dropout_in_evaluation_and_on_vectors() -> None:
    x = field(MIXED)
    assert torch.equal(snn.Dropout(MIXED).eval()(x), x)
    assert torch.equal(snn.Dropout2d(MIXED, p=0)(x), x)
    assert snn.Dropout(MIXED)(x[:, :, 0, 0]).shape == (2, MIXED.channels)
    assert message(ValueError, snn.Dropout, MIXED, 1.0) == "the probability p of a dropout must lie in [0, 1), got 1.0."


# -------------------------------------------------------------------- restriction


@pytest.mark.parametrize("members", [tuple(m) for m in D4.subgroups()], ids="-".join)
def test_restriction_to_every_subgroup(members: tuple[str, ...]) -> None:
    """The same values, and the subgroup moves them as the restricted type says."""
    layer, x = snn.Restrict(ALL, members), field(ALL)
    assert layer.out_type.group.elements == members
    assert layer.out_type.channels == ALL.channels
    torch.testing.assert_close(layer(x).sort(1).values, x.sort(1).values, rtol=0, atol=0)
    assert st.testing.equivariance_error(layer, x) == 0
    conv = snn.Conv2d(layer.out_type, FieldType(layer.out_type.group, "regular"), 3, padding=1)
    st.testing.assert_equivariant(snn.Sequential(layer, conv).double(), x)


def test_restriction_splits_orbits() -> None:
    layer = snn.Restrict(FieldType(D4, "regular + E"), st.cyclic(4))
    assert layer.out_type.group == st.cyclic(4)
    assert [str(c) for c in layer.out_type] == ["regular", "regular", "E"]
    assert str(snn.Restrict(FieldType(D4, "regular + A2"), ["e", "m"]).out_type) == "4*regular + A2"


# -------------------------------------------------------------------- change of basis


@pytest.mark.parametrize("name", [*sorted(D4.capsules), "2*regular + 3*E + qm"])
def test_to_irreps_and_back(name: str) -> None:
    field_type = FieldType(D4, name)
    there, back = snn.ToIrreps(field_type).double(), snn.FromIrreps(field_type).double()
    assert there.out_type == back.in_type
    assert there.out_type.type == field_type.type
    assert {str(c) for c in there.out_type} <= {str(irrep) for irrep in D4.irreps}
    x = field(field_type)
    torch.testing.assert_close(back(there(x)), x)
    torch.testing.assert_close(there(x).norm(), x.norm())  # quotients and irreps are orthogonal
    st.testing.assert_equivariant(there)
    st.testing.assert_equivariant(back)


# -------------------------------------------------------------------- selection, masks


def test_select_by_number_slice_and_name() -> None:
    x = field(MIXED)
    regular, E, a2 = x[:, :16], x[:, 16:22], x[:, 22:]
    for which, expected, text in (
        ([0, 3], [regular[:, :8], E[:, 2:4]], "regular + E"),
        ([-1], [a2], "A2"),
        (slice(1, 4), [regular[:, 8:], E[:, :4]], "regular + 2*E"),
        ("E", [E], "3*E"),
        (["A2", "regular"], [a2, regular], "A2 + 2*regular"),
        (3, [E[:, 2:4]], "E"),
        ([5, "E", 2], [a2, E, E[:, :2]], "A2 + 4*E"),
    ):
        layer = snn.Select(MIXED, which)  # type: ignore[arg-type]
        assert str(layer.out_type) == text
        assert torch.equal(layer(x), torch.cat(expected, dim=1))
    assert message(ValueError, snn.Select, MIXED, ["B1"]) == (
        "Select: `2*regular + 3*E + A2` has no capsule `B1`; it has regular, E, A2."
    )
    assert message(ValueError, snn.Select, MIXED, [6]) == (
        "Select: `2*regular + 3*E + A2` has capsules 0 … 5, got number 6."
    )
    for which, item in (
        ([True, False], True), ([1.0], 1.0), ([None], None), (2.5, 2.5), (np.array([True]), True),
        (torch.tensor([False]), False),
    ):  # fmt: skip
        assert message(TypeError, snn.Select, MIXED, which) == (
            f"Select takes capsules by number or by name, such as [0, 2] or 'E'; got {item!r}."
        )
    assert message(ValueError, snn.Select, MIXED, []) == "Select: nothing of `2*regular + 3*E + A2` is selected by []."


@pytest.mark.parametrize("text", ["4*regular", "2*regular + 3*E + A2", "E + 2*A1 + 2*qm", "5*A2"])
@pytest.mark.parametrize("seed", range(8))
def test_selected_capsules_are_those_that_were_named_in_their_order(text: str, seed: int) -> None:
    """Against channels that are put together one capsule at a time: any order, any repeats, from either end."""
    field_type = FieldType(D4, text)
    count, x = len(field_type), field(field_type)
    draw = np.random.default_rng(seed)
    which = [int(k) for k in draw.integers(-count, count, size=draw.integers(1, 2 * count))]
    layer = snn.Select(field_type, which)
    parts: dict[str, list[torch.Tensor]] = {}
    for k in which:
        parts.setdefault(str(field_type[k]), []).append(x[:, field_type.slices[k]])
    assert str(layer.out_type) == " + ".join(f"{len(p)}*{name}" if len(p) > 1 else name for name, p in parts.items())
    assert torch.equal(layer(x), torch.cat([part for kind in parts.values() for part in kind], dim=1))
    assert st.testing.equivariance_error(layer, x) == 0
    assert torch.equal(snn.Select(field_type, np.array(which))(x), layer(x))  # type: ignore[arg-type]
    assert torch.equal(snn.Select(field_type, torch.tensor(which))(x), layer(x))  # type: ignore[arg-type]
    assert torch.equal(snn.to_plain(layer)(x), layer(x))


def test_one_kind_can_be_reordered_and_repeated_as_channels_can() -> None:
    regular = FieldType(D4, "2*regular")
    x = field(regular)
    assert torch.equal(snn.Select(regular, [1, 0])(x), x.unflatten(1, (2, 8))[:, [1, 0]].flatten(1, 2))
    assert torch.equal(snn.Select(regular, [0, 0])(x), x.unflatten(1, (2, 8))[:, [0, 0]].flatten(1, 2))
    assert torch.equal(snn.Select(regular, slice(None, None, -1))(x), x.unflatten(1, (2, 8)).flip(1).flatten(1, 2))
    assert regular[::-1] == regular
    back = snn.Sequential(snn.Select(regular, [1, 0]), snn.Select(regular, [1, 0]))
    assert torch.equal(back(x), x)


def test_a_repeated_capsule_gets_the_sum_of_its_gradients() -> None:
    x = field(MIXED).requires_grad_()
    snn.Select(MIXED, [2, 2, 5, 2])(x).sum().backward()
    expected = torch.zeros_like(x)
    expected[:, 16:18], expected[:, 22:] = 3, 1
    assert torch.equal(x.grad, expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [7, 8])
def test_disk_mask(size: int) -> None:
    x = torch.ones(1, MIXED.channels, size, size, dtype=torch.float64)
    hard = snn.DiskMask(MIXED, size, softness=0).double()(x)[0, 0]
    soft = snn.DiskMask(MIXED, size, margin=0.5, softness=1.5).double()(x)[0, 0]
    for i in range(size):
        for j in range(size):
            radius = math.hypot(i - (size - 1) / 2, j - (size - 1) / 2)
            assert hard[i, j] == (radius < size / 2)
            assert math.isclose(soft[i, j], min(max((size / 2 - 0.5 - radius) / 1.5, 0), 1), abs_tol=1e-12)
    assert message(ValueError, snn.DiskMask(MIXED, 8), torch.zeros(1, 23, 7, 8)) == (
        "DiskMask was made for 8×8 images, got (7, 8)."
    )


# -------------------------------------------------------------------- direct sums


def test_concat_is_cat_with_equal_capsules_together() -> None:
    a, b = FieldType(D4, "regular + E"), FieldType(D4, "2*E + regular + A1")
    layer, x, y = snn.Concat([a, b]), field(a), field(b)
    assert str(layer.out_type) == "2*regular + 3*E + A1"
    expected = [x[:, :8], y[:, 4:12], x[:, 8:], y[:, :4], y[:, 12:]]
    assert torch.equal(layer(x, y), torch.cat(expected, dim=1))
    for g in D4.elements:
        moved = layer(st.transform(x, g, a), st.transform(y, g, b))
        assert torch.equal(moved, st.transform(layer(x, y), g, layer.out_type))
    assert message(ValueError, layer, x) == "Concat of 2 types takes as many tensors, got 1."
    assert message(ValueError, layer, x, x) == ("Concat: input 1 has type `2*E + regular + A1`, 13 channels; got 10.")


@pytest.mark.parametrize(
    "layer",
    [snn.Identity(MIXED), snn.Dropout(MIXED).eval(), snn.Restrict(MIXED, ["e", "r2"]), snn.ToIrreps(MIXED),
     snn.FromIrreps(MIXED), snn.Select(MIXED, "E")],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_wrong_channels_are_refused(layer: snn.EquivariantModule) -> None:
    """More channels than the type has must not pass silently, cut off."""
    channels = layer.in_type.channels
    assert message(ValueError, layer, torch.zeros(1, channels + 1, 2, 2)) == (
        f"{type(layer).__name__} expected {channels} channels, those of its type `{layer.in_type}`, got "
        f"{channels + 1} (shape (1, {channels + 1}, 2, 2))."
    )


def test_a_selected_capsule_has_memory_of_its_own():
    scalar = FieldType(D4, "A1")
    x = torch.zeros(1, 1, 2, 2)
    y = snn.Select(scalar, [0])(x)
    y += 1
    assert not x.any()
