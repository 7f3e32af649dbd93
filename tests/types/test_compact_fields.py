"""Field types of SO(2), O(2), SO(3) and O(3): text, algebra, costs, and what subgroups see of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from planar_zoo import PLANAR_GROUPS, error
from spatial_zoo import SPATIAL_GROUPS

import steerable as st
from steerable.algebra.characters import inner_product
from steerable.algebra.compact_groups import CompactGroup
from steerable.algebra.motions_in_space import about_z
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.spatial_groups import SpatialGroup

SO2, O2, SO3, O3 = st.so2(), st.o2(), st.so3(), st.o3()
GROUPS = {**PLANAR_GROUPS, **SPATIAL_GROUPS}
quiet = settings(deadline=None, database=None, derandomize=True, max_examples=60)
frequency = some.integers(0, 6)


def _planar_name(g: PlanarGroup) -> some.SearchStrategy[str]:
    names = [
        some.sampled_from(["A1", "A2", "r"] if g.reflections else ["A"]),
        frequency.map(lambda k: f"E{k + 1}"),
        frequency.map(lambda k: f"regular({k})"),
        some.tuples(some.integers(2, 4), frequency).map(lambda pair: f"qC{pair[0]}({pair[1]})"),
    ]
    if g.reflections:
        names += [
            frequency.map(lambda k: f"qm({k})"),
            some.tuples(some.integers(2, 4), frequency).map(lambda pair: f"qD{pair[0]}({pair[1]})"),
        ]
    return some.one_of(names)


def _spatial_name(g: SpatialGroup) -> some.SearchStrategy[str]:
    parity = some.sampled_from("eo" if g.reflections else [""])
    named = [
        some.tuples(some.integers(0, 4), parity).map(lambda pair: f"L{pair[0]}{pair[1]}"),
        some.integers(0, 3).map(lambda degree: f"sphere({degree})"),
        some.integers(0, 1).map(lambda degree: f"regular({degree})"),
    ]
    return some.one_of([*named, some.just("r")] if g.reflections else named)


@some.composite
def a_type(draw: some.DrawFn, groups: tuple[CompactGroup, ...] = tuple(GROUPS.values())) -> st.FieldType:
    g = draw(some.sampled_from(groups))
    name = _planar_name(g) if isinstance(g, PlanarGroup) else _spatial_name(g)
    terms = draw(some.lists(some.tuples(some.integers(0, 3), name), max_size=4))
    return st.FieldType(g, " + ".join(f"{n} * {name}" for n, name in terms) or "0")


@quiet
@given(a_type())
def test_text_is_read_as_it_was_written(x: st.FieldType) -> None:
    assert st.FieldType(x.group, str(x)) == x
    assert pickle.loads(pickle.dumps(x)) == x
    assert st.FieldType(x.group, f"2*({x})") == 2 * x == x + x
    assert x.channels == x.representation.dim


@quiet
@given(a_type())
def test_type_and_character_are_those_of_the_fibre(x: st.FieldType) -> None:
    assert x.type == x.representation.type
    assert inner_product(x.character, x.character) == st.intertwining_number(x.representation, x.representation)
    (element,) = x.group.random(1, seed=0)
    assert abs(x.character(element) - np.trace(x.representation(element))) < 1e-10


def _assert_restricted(x: st.FieldType, name: str) -> None:
    """The channels of a field in the new order transform as the restricted type says."""
    restricted, order = st.restriction(x, st.group_named(name))
    smaller = restricted.group  # in space, groups of the plane are those about z
    assert np.array_equal(np.sort(order), np.arange(x.channels))
    for element in smaller.random(4, seed=0):
        matrix = element.matrix if name in GROUPS else smaller.action[smaller.index(element)]
        own = x.group.axes == len(matrix)
        motion = matrix if own else about_z(matrix, proper=not x.group.reflections)
        expected = x.representation(x.group.element(motion))[order][:, order]
        assert error(restricted.representation(element), expected) < 1e-9
    if smaller == x.group:
        assert restricted == x
    assert st.FieldType(smaller, str(restricted)) == restricted


@quiet
@given(a_type((SO2, O2)), some.sampled_from(["C1", "C2", "C3", "C4", "C8", "D1", "D4", "D5", "D8", "SO2", "O2"]))
def test_channels_in_the_plane_transform_as_the_restricted_type_says(x: st.FieldType, name: str) -> None:
    if x.group.reflections or (name != "O2" and name[0] != "D"):
        _assert_restricted(x, name)


@settings(quiet, max_examples=25)
@given(
    a_type((SO3, O3)),
    some.sampled_from(["C1", "C4", "D4", "T", "T_d", "O", "O_h", "I", "SO2", "O2", "SO3", "O3"]),
)
def test_channels_in_space_transform_as_the_restricted_type_says(x: st.FieldType, name: str) -> None:
    if x.group.reflections or name not in ("T_d", "O_h", "O3"):
        _assert_restricted(x, name)


def test_text_says_which_group_a_capsule_comes_from() -> None:
    """Where the subgroup's catalogue does not have it: E3 of O(2) turns the other way round than E of D4."""
    seen, _ = st.restriction(st.FieldType(O2, "2*regular(3) + E4"), "D4")
    assert str(seen) == "3*A1 + 3*A2 + 4*E + 4*B2 + 4*B1 + 4*E3[O2]"
    assert st.FieldType("D4", "regular(3)[O2]") == st.restriction(st.FieldType(O2, "regular(3)"), "D4")[0]
    assert str(st.FieldType("O", "2*L3[SO3, 2]")) == "2*A2"
    assert st.FieldType("I", "regular(8)[SO3]").channels == 969  # irrep by irrep: whole matrices would fill a gigabyte
    further, _ = st.restriction(st.restriction(st.FieldType(SO3, "L2"), "O2")[0], "D6 about z with flips")
    assert str(further) == "L2[SO3, 1][O2 about z with flips] + L2[SO3, 2][O2 about z with flips] + A1"
    assert st.FieldType(further.group, str(further)) == further


def test_examples_of_the_documentation() -> None:
    x = st.FieldType(SO2, "8*regular(2) + 4*E1")
    assert str(x) == "8*regular(2) + 4*E1"
    assert x.channels == 48
    assert x.type == (8, 12, 8)
    x = st.FieldType(SO3, "4*(L0 + L1 + L2)")
    assert str(x) == "4*L0 + 4*L1 + 4*L2"
    assert (x.channels, x.type) == (36, (4, 4, 4))
    assert str(st.restriction(x, "O")[0]) == "4*A1 + 4*T1 + 4*T2 + 4*E"
    assert str(st.restriction(x, "I")[0]) == "4*A + 4*T1 + 4*H"
    assert str(st.restriction(st.FieldType(O3, "L0e + L1o + L2e"), "SO3")[0]) == "L0 + L1 + L2"
    assert str(st.restriction(st.FieldType(SO3, "L1 + L2"), "SO2")[0]) == "2*E1 + 2*A + E2"


def test_a_subgroup_splits_functions_into_its_own_capsules() -> None:
    functions = st.FieldType(SO2, "2*regular(3)")
    assert str(st.restriction(functions, st.cyclic(8))[0]) == "2*A + 2*E1 + 2*E2 + 2*E3"
    assert str(st.restriction(functions, st.cyclic(4))[0]) == "2*A + 4*E + 4*B"
    assert str(st.restriction(functions, st.trivial())[0]) == "14*A"
    assert str(st.restriction(st.FieldType(O2, "r + A2 + E1 + qm(1)"), SO2)[0]) == "4*A + 2*E1"
    assert str(st.restriction(st.FieldType(O2, "r + A2 + E1 + qm(1)"), st.dihedral(8))[0]) == "r + A2 + 2*E1 + A1"
    assert str(st.restriction(st.FieldType(SO2, "E7 + E8 + E9"), st.cyclic(8))[0]) == "2*E1 + 2*A"


def test_a_frequency_beyond_the_subgroup_turns_the_other_way() -> None:
    """E7 of SO(2) turns by -1 step where E1 of C8 turns by 1: the same matrices with the channels exchanged."""
    kind, order = st.restriction(st.FieldType(SO2, "E7"), st.cyclic(8))
    assert (str(kind), order.tolist()) == ("E1", [1, 0])


@pytest.mark.parametrize(
    ("g", "text", "place", "message"),
    [
        (SO2, "regular(-1)", 8, "expected a frequency, a whole number as in `regular\\(3\\)`, got `-`"),
        (SO2, "regular()", 8, "expected a frequency, a whole number as in `regular\\(3\\)`, got `\\)`"),
        (SO2, "regular(E1)", 8, "expected a frequency, .* got `E1`"),
        (SO2, "regular(2", 9, "expected `\\)` for the `\\(` at position 8, got the end"),
        (SO2, "2*E1 + regular(2000)", 7, "a frequency must be a whole number from 0 to 1000; got 2000"),
        (SO2, "regular(1234567890)", 8, "expected a frequency, .* got `1234567890`"),
        (SO2, "E2000", 0, "a frequency must be a whole number from 0 to 1000; got 2000"),
        (SO2, "regular", 0, "unknown capsule `regular` of SO2. It has the irreps A, E1, E2 …"),
        (SO2, "E1 + A2", 5, "unknown capsule `A2` of SO2"),
        (SO2, "E2(3)", 0, "unknown capsule `E2\\(3\\)` of SO2"),
        (SO2, "qm(2)", 0, "D1 is not a subgroup of SO2"),
        (
            SO3,
            "L1 + L1o",
            5,
            "unknown capsule `L1o` of SO3. It has the irreps L0, L1, L2 …, and functions up to a degree",
        ),
        (SO3, "L99", 0, "a degree must be a whole number from 0 to 60; got 99"),
        (SO3, "regular(20)", 0, "a degree must be a whole number from 0 to 12; got 20"),
        (SO3, "sphere", 0, "unknown capsule `sphere` of SO3"),
        (SO3, "2*1o", 2, "unknown capsule `1o` of SO3"),
        (SO3, "3x", 1, "expected `\\*` after the multiple 3"),
    ],
)
def test_mistakes_are_shown_where_they_are(g: CompactGroup, text: str, place: int, message: str) -> None:
    with pytest.raises(ValueError, match=f"cannot read this field type of {g.name}: {message}") as caught:
        st.FieldType(g, text)
    assert str(caught.value).splitlines()[-1] == "  " + " " * place + "^"


def test_finite_groups_have_no_functions_up_to_a_frequency() -> None:
    with pytest.raises(ValueError, match=r"unknown capsule `regular\(3\)` of D4. Did you mean `regular`"):
        st.FieldType(st.dihedral(4), "regular(3)")


def test_types_of_different_groups_are_not_mixed() -> None:
    with pytest.raises(TypeError, match="cannot add a field type of SO2 and one of O2"):
        st.FieldType(SO2, "E1") + st.FieldType(O2, "E1")
    with pytest.raises(TypeError, match="capsule `E1` belongs to O2, but the field type to SO2"):
        st.FieldType(SO2, O2.capsule("E1"))
    with pytest.raises(ValueError, match="cannot restrict a representation of SO2 to D4: it has reflections"):
        st.restriction(st.FieldType(SO2, "E1"), st.dihedral(4))
    with pytest.raises(TypeError, match=r"SO2 has infinitely many elements .* or restrict to cyclic\(8\)"):
        st.restriction(st.FieldType(SO2, "E1"), ["e"])
