"""Field types of SO(2) and O(2): text, algebra, costs, and what subgroups see of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from planar_zoo import PLANAR_GROUPS, error

import steerable as st
from steerable.algebra.characters import inner_product
from steerable.algebra.planar_groups import PlanarGroup

SO2, O2 = st.so2(), st.o2()
quiet = settings(deadline=None, database=None, derandomize=True, max_examples=60)
frequency = some.integers(0, 6)


def a_name(g: PlanarGroup) -> some.SearchStrategy[str]:
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


@some.composite
def a_type(draw: some.DrawFn) -> st.FieldType:
    g = draw(some.sampled_from(list(PLANAR_GROUPS.values())))
    terms = draw(some.lists(some.tuples(some.integers(0, 3), a_name(g)), max_size=4))
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


@quiet
@given(a_type(), some.sampled_from(["C1", "C2", "C3", "C4", "C8", "D1", "D4", "D5", "D8", "SO2", "O2"]))
def test_restricted_channels_transform_as_the_restricted_type_says(x: st.FieldType, name: str) -> None:
    g, smaller = x.group, st.group_named(name)
    if not g.reflections and (name == "O2" or name[0] == "D"):
        return
    restricted, order = st.restriction(x, smaller)
    assert np.array_equal(np.sort(order), np.arange(x.channels))
    for element in smaller.random(4, seed=0):
        matrix = element.matrix if name in PLANAR_GROUPS else smaller.action[smaller.index(element)]
        expected = x.representation(g.element(matrix))[order][:, order]
        assert error(restricted.representation(element), expected) < 1e-9
    if smaller == g:
        assert restricted == x
    kinds = [capsule for capsule, _ in restricted.terms]
    assert st.FieldType(smaller, str(restricted), capsules=kinds) == restricted


def test_example_of_the_documentation() -> None:
    x = st.FieldType(SO2, "8*regular(2) + 4*E1")
    assert str(x) == "8*regular(2) + 4*E1"
    assert x.channels == 48
    assert x.type == (8, 12, 8)


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
    ("text", "place", "message"),
    [
        ("regular(-1)", 8, "expected a frequency, a whole number as in `regular\\(3\\)`, got `-`"),
        ("regular()", 8, "expected a frequency, a whole number as in `regular\\(3\\)`, got `\\)`"),
        ("regular(E1)", 8, "expected a frequency, .* got `E1`"),
        ("regular(2", 9, "expected `\\)` for the `\\(` at position 8, got the end"),
        ("2*E1 + regular(2000)", 7, "a frequency is a whole number from 0 to 1000; got 2000"),
        ("regular(1234567890)", 8, "expected a frequency, .* got `1234567890`"),
        ("E2000", 0, "a frequency is a whole number from 0 to 1000; got 2000"),
        ("regular", 0, "unknown capsule `regular` of SO2. It has the irreps A, E1, E2 …"),
        ("E1 + A2", 5, "unknown capsule `A2` of SO2"),
        ("E2(3)", 0, "unknown capsule `E2\\(3\\)` of SO2"),
        ("qm(2)", 0, "D1 is not a subgroup of SO2"),
    ],
)
def test_mistakes_are_shown_where_they_are(text: str, place: int, message: str) -> None:
    with pytest.raises(ValueError, match="cannot read this field type of SO2: " + message) as caught:
        st.FieldType(SO2, text)
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
