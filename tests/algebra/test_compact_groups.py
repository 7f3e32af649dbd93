"""SO(2), O(2), SO(3) and O(3): laws of their elements that hold for all of them."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest
from group_zoo import ALL_GROUPS, group
from planar_zoo import PLANAR_GROUPS, error
from spatial_zoo import SPATIAL_GROUPS

from steerable.algebra.compact_groups import CompactGroup

GROUPS = {**PLANAR_GROUPS, **SPATIAL_GROUPS}
every_group = pytest.mark.parametrize("g", GROUPS.values(), ids=GROUPS)


@every_group
def test_elements_multiply_as_their_matrices_do(g: CompactGroup) -> None:
    for a, b, c in zip(g.random(20, seed=0), g.random(20, seed=1), g.random(20, seed=2), strict=True):
        assert error(g.multiply(a, b).matrix, a.matrix @ b.matrix) < (1e-13 if g.axes == 2 else 1e-14)
        assert g.multiply(a, b, c) == g.multiply(a, g.multiply(b, c))
        assert g.multiply(a, g.inverse(a)) == g.multiply(g.inverse(a), a) == g.identity
        assert g.element(a.matrix) == a
        assert a in g
        assert error(a.matrix.T @ a.matrix, np.eye(g.axes)) < 1e-15
    assert g.multiply() == g.identity


@every_group
def test_groups_and_elements_are_copied_and_pickled(g: CompactGroup) -> None:
    element = g.random(1, seed=0)[0]
    rho = g.irreps_of((0,) * 4)[-1]
    for again in (pickle.loads(pickle.dumps((g, element))), copy.deepcopy((g, element))):
        assert again == (g, element)
        assert rho(again[1]).tolist() == rho(element).tolist()


@every_group
@pytest.mark.parametrize("name", ["elements", "order", "table", "action", "subgroups", "index", "conjugacy_classes"])
def test_lists_of_elements_are_refused_with_words(g: CompactGroup, name: str) -> None:
    with pytest.raises(TypeError, match=f"{g.name} has infinitely many elements .* has no `{name}`. Work with"):
        getattr(g, name)
    assert not hasattr(g, name)
    assert getattr(g, name, None) is None


@every_group
def test_irreps_are_not_listed(g: CompactGroup) -> None:
    example = "E2" if g.axes == 2 else "L2"
    with pytest.raises(TypeError, match=rf"has no list of irreps\. Name one, as in irrep\('{example}"):
        _ = g.irreps
    assert not hasattr(g, "irreps")


@pytest.mark.parametrize("name", [*ALL_GROUPS, *GROUPS])
def test_random_elements_are_reproducible(name: str) -> None:
    g = GROUPS.get(name) or group(name)
    drawn = g.random(7, seed=3)
    assert len(drawn) == 7
    assert drawn == g.random(7, seed=3)
    assert all(element in g for element in drawn)
    assert g.random(0) == ()
    assert len(g.random(2)) == 2
