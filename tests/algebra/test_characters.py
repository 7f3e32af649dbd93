from __future__ import annotations

import copy

import numpy as np
import pytest
from group_zoo import ALL_GROUPS, SMALL_GROUPS, group, sample_representations

import steerable as st
from steerable.algebra.characters import inner_product, multiplicities

D4 = st.dihedral(4)
everywhere = pytest.mark.parametrize("name", ALL_GROUPS)


@everywhere
def test_characters_of_irreps_are_orthogonal(name: str) -> None:
    """⟨χ_i, χ_j⟩ = s_i δ_ij."""
    irreps = group(name).irreps
    gram = [[inner_product(a.character, b.character) for b in irreps] for a in irreps]
    assert np.allclose(gram, np.diag([i.commutant_dim for i in irreps]), atol=1e-9)


@everywhere
def test_columns_are_orthogonal(name: str) -> None:
    """Σ_i χ_i(a) χ_i(b) / s_i is half the number of h with hah⁻¹ = b plus half of those with hah⁻¹ = b⁻¹."""
    g = group(name)
    chi = np.stack([i.character / np.sqrt(i.commutant_dim) for i in g.irreps])
    conjugates = g.table[g.table, g.inverses[:, None]]  # [h, a] -> hah⁻¹
    commuting = np.zeros((g.order, g.order))
    for row in conjugates:
        np.add.at(commuting, (np.arange(g.order), row), 1)
    assert np.allclose(chi.T @ chi, (commuting + commuting[:, g.inverses]) / 2, atol=1e-8)


@everywhere
def test_characters_are_class_functions(name: str) -> None:
    g = group(name)
    for irrep in g.irreps:
        for members in g.conjugacy_classes():
            assert np.ptp(irrep.character[g.indices(members)]) < 1e-9


@everywhere
def test_as_many_real_irreps_as_classes_up_to_inversion(name: str) -> None:
    g = group(name)
    pairs = {frozenset((g.class_index[a], g.class_index[g.inverses[a]])) for a in range(g.order)}
    assert len(g.irreps) == len(pairs)


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_the_type_counts_irreps(name: str) -> None:
    g = group(name)
    counts = [k % 3 for k in range(len(g.irreps))]
    rho = st.direct_sum([n * irrep for n, irrep in zip(counts, g.irreps, strict=True)])
    assert rho.type == tuple(counts)
    assert multiplicities(g, rho.character) == rho.type
    assert g.regular.type == tuple(i.dim // i.commutant_dim for i in g.irreps)


@pytest.mark.parametrize("name", SMALL_GROUPS)
def test_intertwining_number_from_types(name: str) -> None:
    """dim Hom(π, ρ) = Σ s_i m_i m'_i."""
    g = group(name)
    weights = [i.commutant_dim for i in g.irreps]
    for pi in sample_representations(g).values():
        for rho in (g.regular, pi):
            expected = sum(s * m * n for s, m, n in zip(weights, pi.type, rho.type, strict=True))
            assert st.intertwining_number(pi, rho) == expected


def test_the_table_of_d4() -> None:
    table = st.character_table(D4)
    assert table.irreps == ("A1", "A2", "B1", "B2", "E")
    assert table.classes == (("e",), ("r", "r3"), ("r2",), ("m", "mr2"), ("mr", "mr3"))
    assert table.values.tolist() == [
        [1, 1, 1, 1, 1],
        [1, 1, 1, -1, -1],
        [1, -1, 1, 1, -1],
        [1, -1, 1, -1, 1],
        [2, 0, -2, 0, 0],
    ]
    assert str(table).splitlines()[0].split() == ["D4", "[e]", "2·[r]", "[r2]", "2·[m]", "2·[mr]"]
    assert str(table).splitlines()[-1].split() == ["E", "2", "0", "-2", "0", "0"]


def test_irrational_values_are_printed_shortly() -> None:
    assert "1.618" in str(st.character_table(group("A5")))


def test_bad_input() -> None:
    with pytest.raises(ValueError, match="a character of D4 has 8 values, one per element; got shape \\(3,\\)"):
        multiplicities(D4, [1, 1, 1])
    with pytest.raises(
        ValueError, match="not the character of a real representation of D4: the multiplicities would be"
    ):
        multiplicities(D4, np.arange(8))
    with pytest.raises(ValueError, match="not whole numbers ≥ 0"):
        multiplicities(D4, -np.ones(8))
    with pytest.raises(TypeError, match=r"representations of one group; got D4 and C4. Restrict both"):
        st.intertwining_number(D4.regular, st.cyclic(4).regular)


def test_tables_are_compared_and_copied_like_other_values():
    table = st.character_table(D4)
    again = copy.deepcopy(table)
    assert again == table
    assert hash(again) == hash(table)
    assert table != st.character_table(st.cyclic(8))
