"""Field types of SO(3) and O(3): text, algebra, and what subgroups see of them."""

from __future__ import annotations

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some
from planar_zoo import PLANAR_GROUPS
from spatial_zoo import SPATIAL_GROUPS, error

import steerable as st
from steerable.algebra.motions_in_space import about_z
from steerable.algebra.spatial_groups import SpatialGroup

SO3, O3 = st.so3(), st.o3()
quiet = settings(deadline=None, database=None, derandomize=True, max_examples=25)


def a_name(g: SpatialGroup) -> some.SearchStrategy[str]:
    parity = some.sampled_from("eo" if g.reflections else [""])
    named = [
        some.tuples(some.integers(0, 4), parity).map(lambda pair: f"L{pair[0]}{pair[1]}"),
        some.integers(0, 3).map(lambda degree: f"sphere({degree})"),
        some.integers(0, 1).map(lambda degree: f"regular({degree})"),
    ]
    return some.one_of([*named, some.just("r")] if g.reflections else named)


@some.composite
def a_type(draw: some.DrawFn) -> st.FieldType:
    g = draw(some.sampled_from(list(SPATIAL_GROUPS.values())))
    terms = draw(some.lists(some.tuples(some.integers(0, 3), a_name(g)), max_size=4))
    return st.FieldType(g, " + ".join(f"{n} * {name}" for n, name in terms) or "0")


@quiet
@given(a_type())
def test_text_is_read_as_it_was_written(x: st.FieldType) -> None:
    assert st.FieldType(x.group, str(x)) == x
    assert pickle.loads(pickle.dumps(x)) == x
    assert st.FieldType(x.group, f"2*({x})") == 2 * x == x + x
    assert x.channels == x.representation.dim
    assert x.type == x.representation.type
    (element,) = x.group.random(1, seed=0)
    assert abs(x.character(element) - np.trace(x.representation(element))) < 1e-10


@quiet
@given(a_type(), some.sampled_from(["C1", "C4", "D4", "T", "T_d", "O", "O_h", "I", "SO2", "O2", "SO3", "O3"]))
def test_restricted_channels_transform_as_the_restricted_type_says(x: st.FieldType, name: str) -> None:
    g, smaller = x.group, st.group_named(name)
    if not g.reflections and name in ("T_d", "O_h", "O3"):
        return
    restricted, order = st.restriction(x, smaller)
    smaller = restricted.group  # groups of the plane are those about z
    assert np.array_equal(np.sort(order), np.arange(x.channels))
    for element in smaller.random(3, seed=0):
        compact = name in PLANAR_GROUPS or name in SPATIAL_GROUPS
        matrix = element.matrix if compact else smaller.action[smaller.index(element)]
        motion = matrix if len(matrix) == 3 else about_z(matrix, proper=not g.reflections)
        expected = x.representation(g.element(motion))[order][:, order]
        assert error(restricted.representation(element), expected) < 1e-9
    kinds = [capsule for capsule, _ in restricted.terms]
    assert st.FieldType(smaller, str(restricted), capsules=kinds) == restricted


def test_example_of_the_documentation() -> None:
    x = st.FieldType(SO3, "4*(L0 + L1 + L2)")
    assert str(x) == "4*L0 + 4*L1 + 4*L2"
    assert (x.channels, x.type) == (36, (4, 4, 4))
    assert str(st.restriction(x, "O")[0]) == "4*A1 + 4*T1 + 4*T2 + 4*E"
    assert str(st.restriction(x, "I")[0]) == "4*A + 4*T1 + 4*H"
    assert str(st.restriction(st.FieldType(O3, "L0e + L1o + L2e"), "SO3")[0]) == "L0 + L1 + L2"
    assert str(st.restriction(st.FieldType(SO3, "L1 + L2"), "SO2")[0]) == "2*E1 + 2*A + E2"


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("L1 + L1o", 5, "unknown capsule `L1o` of SO3. It has the irreps L0, L1, L2 …, and functions up to a degree"),
        ("L99", 0, "a degree is a whole number from 0 to 60; got 99"),
        ("regular(20)", 0, "a degree is a whole number from 0 to 12; got 20"),
        ("sphere", 0, "unknown capsule `sphere` of SO3"),
        ("2*1o", 2, "unknown capsule `1o` of SO3"),
        ("3x", 1, "expected `\\*` after the multiple 3"),
    ],
)
def test_mistakes_are_shown_where_they_are(text: str, place: int, message: str) -> None:
    with pytest.raises(ValueError, match="cannot read this field type of SO3: " + message) as caught:
        st.FieldType(SO3, text)
    assert str(caught.value).splitlines()[-1] == "  " + " " * place + "^"
