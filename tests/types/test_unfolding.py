"""Capsules as irreps: the channels are the same, in another order, and turn as before."""

from __future__ import annotations

import numpy as np
import pytest
from group_zoo import random_orthogonal
from planar_zoo import error

import steerable as st
from steerable.types.unfolding import unfolded

SO3, O3, AROUND = st.so3(), st.o3(), st.about_axis(st.o2(), flips=True)
TYPES = {
    "functions": st.FieldType(SO3, "2*regular(1) + L1 + 3*sphere(2)"),
    "parities": st.FieldType(O3, "regular(1) + 2*sphere(1) + L1e"),
    "about an axis": st.FieldType(AROUND, "2*regular(2) + A2 + r"),
}


@pytest.mark.parametrize("kind", TYPES.values(), ids=TYPES)
def test_the_channels_are_those_of_the_irreps_in_another_order(kind: st.FieldType) -> None:
    found = unfolded(kind.terms)
    assert found.order is not None
    parts = st.direct_sum([copies * capsule.representation for capsule, copies in found.terms])
    assert sorted(found.order) == list(range(kind.channels))
    for element in kind.group.random(3, seed=0):
        turned = parts(element)[np.ix_(found.order, found.order)]
        assert error(turned, kind.representation(element)) < 1e-12
    functions = [capsule for capsule, _ in found.terms if "(" in capsule.name]
    assert not functions


def test_what_is_not_a_sum_of_irreps_by_channels_stays_as_it_is() -> None:
    turned = st.Capsule(SO3.sphere(1).change_basis(random_orthogonal(4)), "turned")
    kinds = [
        st.FieldType(SO3, "4*(L0 + L1)"),
        st.FieldType(SO3, "turned + L2", capsules=[turned]),
        st.FieldType(st.so2(), "2*regular(2)"),  # in the order in which weights of images are learned
        st.FieldType(st.octahedral(), "regular + T1"),
    ]
    for kind in kinds:
        assert unfolded(kind.terms).terms == tuple(kind.terms)
        assert unfolded(kind.terms).order is None
