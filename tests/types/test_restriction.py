"""What a subgroup sees of a field type."""

from __future__ import annotations

import numpy as np
import pytest
from group_zoo import group, random_orthogonal

import steerable as st
from steerable.types.shared_subgroups import shared_subgroup, subgroup_of

D4 = st.dihedral(4)


@pytest.mark.parametrize("name", ["D4", "D6", "C12", "S4", "O_h", "Q8"])
def test_restricted_channels_transform_as_the_restricted_type_says(name: str) -> None:
    """ρ(h) in the new order of channels is the restricted type's ρ(h), for the whole catalogue and every subgroup."""
    g = group(name)
    largest = 8 if name == "O_h" else 24  # its 33 kinds of subgroups and 48 elements make larger ones slow
    full = st.FieldType(g, [(2, capsule) for capsule in g.capsules.values() if capsule.dim <= largest])
    rho = full.representation
    for members in g.subgroups(up_to_conjugacy=True):
        restricted, order = st.restriction(full, members)
        rows = g.indices(members)
        expected = rho.matrices[rows][:, order][:, :, order]
        assert np.array_equal(np.sort(order), np.arange(full.channels))
        assert np.abs(restricted.representation.matrices - expected).max() < 1e-9


def test_quotients_fall_apart_into_named_quotients() -> None:
    stream = st.FieldType(D4, "2*(regular + qm)")
    assert str(st.restriction(stream, st.cyclic(4))[0]) == "6*regular"
    assert str(st.restriction(stream, ["e", "m"])[0]) == "10*regular + 4*A1"
    assert str(st.restriction(st.FieldType(D4, "2*E + A2"), st.cyclic(4))[0]) == "2*E + A"


def test_text_of_a_restricted_type_can_be_read_again() -> None:
    for g in (D4, st.dihedral(8), st.cyclic(12), st.octahedral(), st.icosahedral()):
        for members in g.subgroups(up_to_conjugacy=g.order > 16):
            restricted, _ = st.restriction(st.FieldType(g, [c for c in g.capsules.values() if c.dim <= 12]), members)
            assert st.FieldType(restricted.group, str(restricted)) == restricted


def test_mixing_capsules_stay_whole() -> None:
    turned = st.Capsule(D4.irrep("E").change_basis(random_orthogonal(2)), "turned")
    restricted, order = st.restriction(st.FieldType(D4, [(3, turned)]), ["e", "r2", "m", "mr2"])
    assert str(restricted) == "3*turned_restricted"
    assert order.tolist() == list(range(6))


@pytest.mark.parametrize("name", ["D4", "C4", "D6", "S4", "Q8"])
def test_unlike_orbits_of_a_stretched_capsule_get_names_of_their_own(name: str) -> None:
    g = group(name)
    stretched = st.Capsule(g.regular.change_basis(np.diag(np.linspace(1, 2, g.order))), "stretched")
    full = st.FieldType(g, [(2, stretched), (1, g.trivial)])
    for members in g.subgroups(up_to_conjugacy=True):
        restricted, order = st.restriction(full, members)
        expected = full.representation.matrices[g.indices(members)][:, order][:, :, order]
        assert np.abs(restricted.representation.matrices - expected).max() < 1e-9
        kinds = [kind for kind, _ in restricted.terms]
        assert len({kind.name for kind in kinds}) == len(kinds)
        assert st.FieldType(restricted.group, str(restricted), capsules=kinds) == restricted


def test_a_set_that_is_no_subgroup_is_refused() -> None:
    with pytest.raises(ValueError, match="the product `r`·`r` = `r2` is missing"):
        st.restriction(st.FieldType(D4, "E"), ["e", "r"])


@pytest.mark.parametrize(
    ("fields", "name"), [(st.FieldType(D4, "regular + E"), "C4"), (st.FieldType(st.o2(), "E1"), "D8")]
)
def test_a_subgroup_is_given_by_name(fields: st.FieldType, name: str) -> None:
    restricted, order = st.restriction(fields, name)
    expected, expected_order = st.restriction(fields, st.group_named(name))
    assert restricted == expected
    assert np.array_equal(order, expected_order)
    assert st.nn.Restrict(fields, name).out_type == expected


@pytest.mark.parametrize(
    ("larger", "name", "expected"),
    [
        ("SO2 about x", "C4", "C4 about x"),
        ("O2 about y", "D8", "D8 about y"),
        ("O2 about x with flips", "D3", "D3 about x with flips"),
        ("O2 about x with flips", "SO2", "SO2 about x"),
        ("O2 about (1, 2, 3) with flips", "C2", "C2 about (1, 2, 3)"),
        ("C8 about x", "C4", "C4 about x"),
        ("D8 about (1, 1, 1)", "D4", "D4 about (1, 1, 1)"),
        ("O", "C4", "C4 about z"),
        ("O", "D4", "D4 about z with flips"),
        ("O_h", "C3", "C3 about (1, 1, 1)"),
        ("I", "C5", "C5 about (1, 0, 0.61803398875)"),
        ("SO3", "D4", "D4 about z with flips"),
        ("O3", "D4", "D4 about z"),
    ],
)
def test_a_group_of_the_plane_is_a_subgroup_about_the_axis_that_the_larger_group_has(
    larger: str, name: str, expected: str
) -> None:
    g = st.group_named(larger)
    fields = st.FieldType(g, [(2, g.irreps_of((1,) * 3)[-1]), (1, g.trivial)])
    restricted, order = st.restriction(fields, name)
    assert restricted.group == st.group_named(restricted.group.name)
    assert restricted.group.name == expected
    assert st.FieldType(restricted.group, str(restricted)) == restricted
    for h in restricted.group.random(4, seed=0):
        whole = fields.representation(g.element(restricted.group.motion(h)))[order][:, order]
        assert np.abs(restricted.representation(h) - whole).max() < 1e-9


@pytest.mark.parametrize(
    ("larger", "name", "message"),
    [
        ("SO2 about x", "D4", "SO2 about x to D4 about x: it moves space otherwise"),
        ("C8 about x", "C3", "C3 about z is not recognised as a subgroup of C8 about x"),
        ("O", "C5", "C5 about z is not recognised as a subgroup of O"),
    ],
)
def test_what_no_axis_has_is_refused(larger: str, name: str, message: str) -> None:
    g = st.group_named(larger)
    with pytest.raises(ValueError, match=message):
        st.restriction(st.FieldType(g, [g.trivial]), name)


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"there is no group called 'r2'\. Known groups are C1, C2"):
        st.nn.Restrict(st.FieldType(D4, "E"), "r2")


def test_what_finite_groups_share_with_groups_about_an_axis() -> None:
    """The rotations of the cube about z are C4; those of O(3) that keep right hands are all of O."""
    cube = st.octahedral(reflections=True)
    for larger, about in ((st.o3(), st.about_axis(st.so2())), (st.so3(), st.about_axis(st.o2(), "x", flips=True))):
        other = cube if larger.reflections else st.octahedral()
        shared = shared_subgroup(about, other, larger)
        expected = 8 if about.reflections else 4
        assert shared.order == expected
        axis = about.line.direction
        assert all(np.allclose(np.abs(shared.motion(g) @ axis), np.abs(axis)) for g in shared.elements)
    assert shared_subgroup(st.so3(), cube, st.o3()).order == 24
    assert subgroup_of(st.o3(), "O2") == st.about_axis(st.o2())
    assert subgroup_of(st.so3(), "O2") == st.about_axis(st.o2(), flips=True)


X, Z, SLANTED = (1.0, 0.0, 0.0), (0.0, 0.0, 1.0), (1.0, 2.0, 3.0)
KINDS = {"SO2": (st.so2(), False), "O2": (st.o2(), False), "flips": (st.o2(), True)}


@pytest.mark.parametrize(
    ("first", "second", "orders"),
    [
        # (about z and x, about z and a slanted axis)
        ("SO2", "SO2", (1, 1)),
        ("SO2", "O2", (1, 1)),
        ("SO2", "flips", (2, 1)),
        ("O2", "O2", (2, 2)),
        ("O2", "flips", (2, 1)),
        ("flips", "flips", (4, 2)),
    ],
)
def test_what_infinite_groups_about_two_axes_share(first: str, second: str, orders: tuple[int, int]) -> None:
    for axis, order in zip((X, SLANTED), orders, strict=True):
        one, other = (st.about_axis(KINDS[k][0], a, flips=KINDS[k][1]) for k, a in ((first, Z), (second, axis)))
        for h, k in ((one, other), (other, one)):
            shared = shared_subgroup(h, k, st.o3())
            assert shared.order == order
            for larger in (h, k, st.o3()):  # each of them has these elements
                assert larger.trivial.restrict(shared).dim == 1


def test_what_infinite_groups_about_one_axis_share() -> None:
    about = {name: st.about_axis(group, SLANTED, flips=flips) for name, (group, flips) in KINDS.items()}
    against = {name: st.about_axis(group, (-1.0, -2.0, -3.0), flips=flips) for name, (group, flips) in KINDS.items()}
    for others in (about, against):
        assert shared_subgroup(about["SO2"], others["O2"], st.o3()) == about["SO2"]
        assert shared_subgroup(about["O2"], others["O2"], st.o3()) == about["O2"]
        assert shared_subgroup(about["O2"], others["flips"], st.o3()) == about["SO2"]
    assert shared_subgroup(st.so3(), about["O2"], st.o3()) == about["SO2"]
    assert shared_subgroup(about["flips"], st.so3(), st.o3()) == about["flips"]
    assert shared_subgroup(st.so2(), st.so2(), st.o2()) == st.so2()
