"""The units of a basis decide nothing: what holds of a representation holds after any diagonal change of basis.

D⁻¹ρ(g)D has entries of 10¹⁶ beside entries of 10⁻¹⁶, yet each is known to as many digits as before. Whatever judges
matrices by one number for all entries either accepts what is false in the small ones or refuses what is true.
"""

from __future__ import annotations

import numpy as np
import pytest
from group_zoo import SMALL_GROUPS, group, is_orthonormal, random_invertible, random_orthogonal, sample_representations
from hypothesis import assume, given, settings
from hypothesis import strategies as some

import steerable as st
from steerable.algebra.metrics import basis_scales, invariant_metric

GRID_GROUPS = ("C2", "C4", "D1", "D2", "D4")
# Written out: the border itself is what is tested.
ROUNDING = 1e-9
few = settings(max_examples=60, deadline=None, derandomize=True)


def rescaled(rho: st.Representation, seed: int, decades: float = 8) -> np.ndarray:
    """D⁻¹ρD, each entry rounded anew, with basis vectors whose lengths differ by up to 2·``decades`` powers of ten."""
    rng = np.random.default_rng(seed)
    lengths = 10 ** rng.uniform(-decades, decades, rho.dim)
    noise = 1 + 4e-16 * rng.uniform(-1, 1, rho.matrices.shape)
    noise[rho.group.identity_index] = 1
    return np.asarray(rho.matrices * noise * lengths / lengths[:, None])


@some.composite
def representations(draw: some.DrawFn, names: tuple[str, ...] = SMALL_GROUPS) -> st.Representation:
    """A sum of up to four irreps and quotients, perhaps in a basis that mixes channels."""
    g = group(draw(some.sampled_from(names)))
    parts = draw(
        some.lists(some.sampled_from([*g.irreps, sample_representations(g)["quotient"]]), min_size=1, max_size=4)
    )
    rho = st.direct_sum(parts)
    assume(rho.dim <= 16)
    basis = draw(some.sampled_from(("own", "turned", "skewed")))
    if basis == "turned":
        return rho.change_basis(random_orthogonal(rho.dim, draw(some.integers(0, 9))))
    return rho.change_basis(random_invertible(rho.dim, draw(some.integers(0, 9)))) if basis == "skewed" else rho


seeds = some.integers(0, 10**6)


# ---------------------------------------------------------------- what is accepted, what is refused


@few
@given(representations(), seeds)
def test_a_representation_is_accepted_in_any_units(rho: st.Representation, seed: int) -> None:
    matrices = rescaled(rho, seed)
    again = st.Representation(rho.group, matrices)
    assert again.is_monomial == rho.is_monomial
    assert np.allclose(again.matrices, matrices, rtol=1e-12, atol=0)
    generators = {g: matrices[rho.group.index(g)] for g in (rho.group.generators or (rho.group.identity,))}
    assert st.Representation(rho.group, generators).dim == rho.dim


@few
@given(representations(), seeds, some.floats(-7, 2), some.data())
def test_one_wrong_entry_is_refused_in_any_units(
    rho: st.Representation, seed: int, decade: float, data: some.DataObject
) -> None:
    """An entry of any element is off by 10^decade of what an entry at that place is by nature."""
    matrices = rescaled(rho, seed)
    scales = basis_scales(matrices)
    g, i, j = (data.draw(some.integers(0, n - 1)) for n in matrices.shape)
    matrices[g, i, j] += 10**decade * scales[j] / scales[i]
    with pytest.raises(ValueError, match=r"^not a representation|is not the identity matrix"):
        st.Representation(rho.group, matrices)


@few
@given(representations(), some.data(), seeds, some.floats(-7, 0))
def test_no_block_hides_a_wrong_one(large: st.Representation, data: some.DataObject, seed: int, decade: float) -> None:
    """ρ ⊕ σ, where ρ is a representation in bad units, and σ(g) is stretched for each g but the identity."""
    g = large.group
    assume(g.order > 1)
    small = data.draw(some.sampled_from(g.irreps))
    matrices = np.zeros((g.order, large.dim + small.dim, large.dim + small.dim))
    matrices[:, : large.dim, : large.dim] = rescaled(large, seed)
    stretched = small.matrices * (1 + 10**decade)
    stretched[g.identity_index] = np.eye(small.dim)
    matrices[:, large.dim :, large.dim :] = stretched
    with pytest.raises(ValueError, match=r"^not a representation"):
        st.Representation(g, matrices)


def test_a_half_is_no_root_of_one_whatever_stands_beside_it() -> None:
    turn = np.zeros((3, 3))
    turn[:2, :2] = [[0, -1e6], [1e-6, 0]]
    turn[2, 2] = 0.5
    with pytest.raises(ValueError, match=r"^not a representation of C4: ρ\(`.+`\) ρ\(`r`\) differs from ρ\(`.+`\) by"):
        st.Representation(st.cyclic(4), {"r": turn})
    turn[2, 2] = -1
    assert st.Representation(st.cyclic(4), {"r": turn}).type == (0, 1, 1)


@pytest.mark.parametrize("name", [n for n in SMALL_GROUPS if n != "C1"])
@pytest.mark.parametrize("decades", [0, 8])
def test_the_border_is_where_it_is_said_to_be(name: str, decades: float) -> None:
    """A sign, or a trivial irrep, that is off by half the tolerance is rounding, and by four times it is not."""
    g = group(name)
    rho = g.irreps[-1] + g.irreps[min(1, len(g.irreps) - 1)]
    generator = g.index(g.generators[0])
    for off, right in ((0.4 * ROUNDING, True), (4 * ROUNDING, False)):
        matrices = rescaled(rho, 0, decades)
        matrices[generator] *= 1 + off
        if right:
            st.Representation(g, matrices)
        else:
            with pytest.raises(ValueError, match=r"^not a representation of .*: ρ.* ρ"):
                st.Representation(g, matrices)


@pytest.mark.parametrize(("off", "right"), [(0.4 * ROUNDING, True), (4 * ROUNDING, False)])
@pytest.mark.parametrize("decades", [0, 8])
def test_the_identity_has_the_same_border(off: float, right: bool, decades: float) -> None:
    matrices = rescaled(st.dihedral(3).irrep("E"), 1, decades)
    matrices[0, 0, 0] += off
    if right:
        st.Representation(st.dihedral(3), matrices)
    else:
        with pytest.raises(ValueError, match="matrix of the identity `e` of D3 is not the identity matrix"):
            st.Representation(st.dihedral(3), matrices)


def test_bases_that_are_nearly_parallel() -> None:
    """Where the precision is lost, the message says so; before that, true and false ones are told apart."""
    rho, false = st.dihedral(3).irrep("E") + st.dihedral(3).trivial, np.diag([1.0, 1.0, 1.01])
    for power in (1e-1, 1e-2, 1e-3, 1e-4):
        basis = random_orthogonal(3, 1) @ np.diag([1, power, 1]) @ random_orthogonal(3, 2)
        matrices = np.linalg.solve(basis, rho.matrices @ basis)
        st.Representation(rho.group, matrices)
        spoilt = np.linalg.solve(basis, rho.matrices @ false @ basis)
        with pytest.raises(ValueError, match=r"^not a representation|is not the identity"):
            st.Representation(rho.group, np.concatenate([matrices[:1], spoilt[1:]]))
    basis = random_orthogonal(3, 1) @ np.diag([1, 1e-9, 1]) @ random_orthogonal(3, 2)
    matrices = np.linalg.solve(basis, rho.matrices @ basis)
    matrices[0] = np.eye(3)
    with pytest.raises(ValueError, match="cannot be distinguished from ones that are not a representation of D3"):
        st.Representation(rho.group, matrices)
    with pytest.raises(ValueError, match="cannot be distinguished from ones that are not a representation of C64"):
        st.Representation(st.cyclic(64), {"r": [[1e4]]})
    with pytest.raises(ValueError, match=r"^not a representation of C8"):
        st.Representation(st.cyclic(8), {"r": [[1e3]]})


def test_powers_of_ten_that_no_square_can_hold() -> None:
    matrices = rescaled(st.dihedral(4).irrep("E") + st.dihedral(3 + 1).trivial, 3, decades=140)
    assert st.Representation(st.dihedral(4), matrices).kind == "monomial"
    matrices[1, 2, 2] = 0.5
    with pytest.raises(ValueError, match=r"^not a representation of D4"):
        st.Representation(st.dihedral(4), matrices)


@few
@given(representations(), seeds)
def test_the_invariant_metric_makes_matrices_orthogonal(rho: st.Representation, seed: int) -> None:
    metric = invariant_metric(rescaled(rho, seed))
    assert metric is not None
    gram = metric.orthogonal.transpose(0, 2, 1) @ metric.orthogonal
    assert np.abs(gram - np.eye(rho.dim)).max() < 1e-11
    assert metric.tolerance < 1.001 * ROUNDING


# ---------------------------------------------------------------- what is computed from them


def assert_maps_agree(
    left: np.ndarray, right: np.ndarray, source: np.ndarray, target: np.ndarray, tolerance: float = 1e-9
) -> None:
    """Maps (…, rows, columns) are equal to nine digits of what an entry is by nature, w_column / w_row."""
    own = basis_scales(target)[:, None] / basis_scales(source)
    assert np.abs((left - right) * own).max(initial=0) <= 1e-9 * np.abs(right * own).max(initial=0)


def decades_of(rho: st.Representation) -> float:
    """Where channels are mixed, bases of Hom are nearly parallel in units that differ much."""
    return 8 if rho.is_monomial else 1.5


@few
@given(representations(), some.data(), seeds)
def test_intertwiners_are_right_in_every_entry(pi: st.Representation, data: some.DataObject, seed: int) -> None:
    other = data.draw(some.sampled_from([*pi.group.irreps, pi, pi.group.regular]))
    decades = min(decades_of(pi), decades_of(other))
    a = st.Representation(pi.group, rescaled(pi, seed, decades))
    b = st.Representation(pi.group, rescaled(other, seed + 1, decades))
    basis = st.intertwiner_basis(a, b)
    assert len(basis) == st.intertwining_number(pi, other)
    assert is_orthonormal(basis)
    for psi in basis:
        assert_maps_agree(b.matrices @ psi, psi @ a.matrices, a.matrices, b.matrices)


@few
@given(representations(GRID_GROUPS), some.data(), seeds, some.sampled_from((2, 3)))
def test_kernels_are_right_in_every_entry(rho: st.Representation, data: some.DataObject, seed: int, size: int) -> None:
    other = data.draw(some.sampled_from([*rho.group.irreps, rho, rho.group.regular]))
    decades = min(decades_of(rho), decades_of(other))
    a = st.Representation(rho.group, rescaled(rho, seed, decades))
    b = st.Representation(rho.group, rescaled(other, seed + 1, decades))
    kernels = st.kernel_basis(a, b, size).reshape(-1, b.dim, a.dim, size * size)
    patch = st.pixel_patch(rho.group, size)
    assert len(kernels) == st.intertwining_number(patch @ rho, other)
    assert is_orthonormal(kernels)
    for kernel in kernels:
        by_tap = kernel.transpose(2, 0, 1)
        for g in range(rho.group.order):
            moved = np.einsum("tx,tij->xij", patch.matrices[g], by_tap)  # κ(gx)
            assert_maps_agree(b.matrices[g] @ by_tap, moved @ a.matrices[g], a.matrices, b.matrices)


def test_intertwiners_that_rounding_cannot_tell_apart_are_refused() -> None:
    rho = (st.dihedral(3).irrep("E") + 2 * st.dihedral(3).trivial).change_basis(random_orthogonal(4))
    worse = st.Representation(rho.group, rescaled(rho, 1, 8))
    with pytest.raises(ArithmeticError, match="intertwiners of these representations are parallel up to rounding"):
        st.intertwiner_basis(worse, worse)


@few
@given(representations(), seeds)
def test_decomposition_is_right_in_every_entry(rho: st.Representation, seed: int) -> None:
    scaled = st.Representation(rho.group, rescaled(rho, seed))
    kind, basis = st.decompose(scaled)
    assert kind == rho.type
    blocks = st.direct_sum([n * irrep for n, irrep in zip(kind, rho.group.irreps, strict=True)]).matrices
    assert_maps_agree(scaled.matrices @ basis, basis @ blocks, blocks, scaled.matrices)
    lengths = np.linalg.norm(basis, axis=1)
    assert np.linalg.cond(basis / lengths[:, None]) < 1e3


@pytest.mark.parametrize("name", ["D4", "Q8", "A4", "S4", "C7:C3"])
@pytest.mark.parametrize("decades", [0, 3, 8])
def test_groups_are_generated_in_any_units(name: str, decades: float) -> None:
    g = group(name)
    faithful = next(
        rho for rho in (*g.irreps[::-1], g.regular) if len(np.unique(rho.matrices.round(6), axis=0)) == g.order
    )
    matrices = rescaled(faithful, 5, decades)
    generated = st.group_from_matrices({f"x{k}": matrices[g.index(s)] for k, s in enumerate(g.generators)})
    assert generated.order == g.order
    assert sorted(generated.element_orders) == sorted(g.element_orders)


def test_generators_that_grow_or_shrink_are_refused() -> None:
    with pytest.raises(ValueError, match=r"generator `a` has the determinant 0\.5, so no power of it"):
        st.group_from_matrices({"a": [[0, -1e6, 0], [1e-6, 0, 0], [0, 0, 0.5]]})


# ---------------------------------------------------------------- bases and content


def test_basis_vectors_may_have_any_lengths() -> None:
    D4 = st.dihedral(4)
    rho = D4.irrep("E").change_basis(np.diag([1e9, 1e-9]))
    assert np.allclose(rho("r"), [[0, -1e-18], [1e18, 0]], rtol=1e-14, atol=0)
    assert rho.kind == "monomial"
    with pytest.raises(ValueError, match="the one given is singular"):
        D4.irrep("E").change_basis([[1e9, 1e-9], [1e9, 1e-9]])
    with pytest.raises(ValueError, match="the one given is singular"):
        D4.irrep("E").change_basis([[1, 0], [0, 0]])


@pytest.mark.parametrize("v", [1.0, 1.25, 1e-12, 1e12])
def test_equality_of_scaled_permutations_is_relative(v: float) -> None:
    def swap(x: float) -> st.Representation:
        return st.Representation(st.cyclic(2), {"r": [[0, x], [1 / x, 0]]})

    assert swap(v) == swap(v * (1 + 1e-15))
    assert swap(v) != swap(v * (1 + 1e-6))
    assert swap(v) != swap(-v)


def coupled(v: float) -> st.Representation:
    """The third vector goes to minus itself and v·10⁻¹² of the second, which the first sees as a length of 1."""
    swap = np.array([[0, 1, 0], [1, 0, 0], [0, 0, -1.0]])
    basis = np.array([[1.0, 0, 0], [0, 1, v], [0, 0, 1]])
    units = np.array([1, 1e12, 1])
    matrices = np.linalg.solve(basis, swap @ basis)
    return st.Representation(st.cyclic(2), {"r": matrices * units / units[:, None]})


def test_dense_capsules_that_differ_in_small_entries_are_different() -> None:
    """Caches are keyed by content: such capsules must not share a basis."""
    assert coupled(0.5) != coupled(0.25)
    assert coupled(0.5) == coupled(0.5 * (1 + 1e-15))
    assert not coupled(0.5).is_monomial


# ---------------------------------------------------------------- actions


def test_an_action_is_orthogonal_to_rounding_and_starts_with_the_identity() -> None:
    with pytest.raises(ValueError, match="its matrices are orthogonal"):
        st.FiniteGroup(["e"], [[0]], action=[(1 + 4e-6) * np.eye(2)])
    with pytest.raises(
        ValueError, match=r"action is not a homomorphism: action\(`e`\) @ action\(`e`\) is not action\(`e`\)"
    ):
        st.FiniteGroup(["e"], [[0]], action=[np.diag([-1.0, 1.0])])


def test_rounding_errors_of_an_action_do_not_matter() -> None:
    angle = np.pi / 2 * np.arange(4)
    action = np.array([[[np.cos(a), -np.sin(a)], [np.sin(a), np.cos(a)]] for a in angle])
    C4 = st.cyclic(4)
    assert st.FiniteGroup(C4.elements, C4.table, action=action) == C4
    assert np.array_equal(st.FiniteGroup(C4.elements, C4.table, action=action).action, C4.action)
