from __future__ import annotations

import math
import re

import numpy as np
import pytest
from group_zoo import group

import steerable as st


@pytest.mark.parametrize(
    ("a", "b", "order"),
    [
        ([1, 2, 0], [1, 0, 2], 6),
        ([1, 2, 3, 4, 0], [1, 0, 2, 3, 4], 120),
        ([1, 2, 3, 4, 5, 6, 0], [0, 2, 4, 6, 1, 3, 5], 21),
    ],
)
def test_words_read_as_products_of_permutations(a: list[int], b: list[int], order: int) -> None:
    """``ab`` is a after b: the name of an element, multiplied out, moves points as the table says.

    In the last group, and not in the others, reading words backwards gives another table.
    """
    points = len(a)
    g = st.group_from_permutations({"a": a, "b": b})
    assert g.order == order

    def permutation(name: str) -> tuple[int, ...]:
        images = tuple(range(points))
        for letter, power in re.findall(r"([ab])(\d*)", name):
            for _ in range(int(power or 1)):
                step = a if letter == "a" else b
                images = tuple(images[i] for i in step)  # (images ∘ step)
        return images

    permutations = [permutation(name) for name in g.elements]
    assert len(set(permutations)) == g.order
    for i, p in enumerate(permutations):
        for j, q in enumerate(permutations):
            assert permutations[g.table[i, j]] == tuple(p[q[k]] for k in range(points))


@pytest.mark.parametrize("n", [3, 4, 7, 12, 64])
def test_inexact_rotation_matrices_close_and_move_the_plane(n: int) -> None:
    angle = 2 * math.pi / n
    rotation = [[math.cos(angle), -math.sin(angle)], [math.sin(angle), math.cos(angle)]]
    g = st.group_from_matrices({"r": rotation, "m": [[-1, 0], [0, 1]]})
    assert g.order == 2 * n
    assert np.allclose(g.action[g.index("r")], rotation, atol=1e-12)
    # The same group by another road: names and matrices of the irreps are those of dihedral(n).
    known = st.dihedral(n)
    to_known = st.inclusion(g, known)
    for irrep in g.irreps:
        assert np.allclose(known.irrep(str(irrep)).pullback(to_known).character, irrep.character, atol=1e-9)


def test_only_orthogonal_matrices_of_size_two_or_three_act() -> None:
    assert st.group_from_matrices([[[0, 2], [0.5, 0]]]).action is None
    assert group("Q8").action is None
    assert st.group_from_matrices([[[0, 1], [1, 0]]]).action is not None


def test_quarter_turns_are_snapped_to_exact_integers() -> None:
    c, s = math.cos(math.pi / 2), math.sin(math.pi / 2)  # c is 6e-17
    g = st.group_from_matrices({"r": [[c, -s], [s, c]]})
    assert g == st.cyclic(4)


def test_generators_in_a_sequence_are_called_a_b_c() -> None:
    g = st.group_from_permutations([[1, 0, 2, 3], [0, 1, 3, 2]])
    assert g.elements == ("e", "a", "b", "ab")


def test_ambiguous_words_are_written_with_dots() -> None:
    g = st.group_from_permutations({"a": [1, 2, 0], "a2": [1, 0, 2]})
    assert len(set(g.elements)) == 6
    assert g.multiply("a", "a") == "a·a"
    assert [c.dim for c in g.capsules.values()] == [1, 1, 2, 6, 3, 2]


def test_redundant_generators_do_no_harm() -> None:
    g = st.group_from_permutations({"a": [1, 2, 0], "b": [2, 0, 1], "c": [0, 1, 2]})
    assert g.order == 3


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (
            lambda: st.group_from_matrices({"t": [[1, 1], [0, 1]]}, max_order=100),
            "the generators t did not close within 100 elements. Is each of finite order",
        ),
        (
            lambda: st.group_from_permutations([[1, 2, 3, 4, 5, 6, 0], [1, 0, 2, 3, 4, 5, 6]]),
            "did not close within 2048 elements.*raise max_order",
        ),
        (lambda: st.group_from_permutations({"a": [0, 0, 1]}), r"generator `a` is not a permutation.*got \[0, 0, 1\]"),
        (lambda: st.group_from_permutations({"a": [1, 0], "b": [0, 1, 2]}), "the same number of points; got {'a': 2"),
        (lambda: st.group_from_permutations([]), "at least one generator, got none; .* use trivial"),
        (lambda: st.group_from_permutations({"e": [1, 0]}), "`e` is the identity's name"),
        (lambda: st.group_from_permutations([[1, 0]] * 26), "name more than 25 generators yourself"),
        (lambda: st.group_from_matrices([[[1, 0]]]), "square matrices of one size; got the shapes"),
        (lambda: st.group_from_matrices({"a": np.eye(2), "b": np.eye(3)}), "square matrices of one size"),
        (lambda: st.group_from_matrices({"a": np.zeros((2, 2))}), "generator `a` is not an invertible matrix"),
        (lambda: st.group_from_matrices({"a": [[np.nan]]}), "generator `a` is not an invertible matrix"),
        (lambda: st.group_from_permutations([[1.0, 0.0]]), r"generator `a` is not a permutation.*got \[1.0, 0.0\]"),
        (lambda: st.group_from_permutations([[None, 0]]), r"generator `a` is not a permutation.*got \[None, 0\]"),
        (lambda: st.group_from_permutations([5]), "generator `a` is not a permutation.*got 5"),
        (lambda: st.group_from_permutations([[[0, 1], [1, 0]]]), "generator `a` is not a permutation"),
    ],
)
def test_bad_generators_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("given", ["x", [[1, "a"], [0, 1]], [[1, 2], [3]]])
def test_generators_that_are_no_arrays_of_numbers(given: object) -> None:
    with pytest.raises(TypeError, match="generator `a` is a square matrix of numbers; got "):
        st.group_from_matrices([given])
