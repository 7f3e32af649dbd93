"""Filters of volumes: most steerable voxel filters, shells and layers, and the kernels over them."""

from __future__ import annotations

import itertools
import math
from functools import partial

import numpy as np
import pytest
import refusals
from filter_zoo import SPATIAL
from group_zoo import SOLIDS, group, same_span
from planar_zoo import error
from spatial_zoo import AXIAL_GROUPS, SLANTED_GROUPS, SPATIAL_GROUPS

import steerable as st
from steerable.algebra.lines_in_space import line_along
from steerable.algebra.spherical_harmonics import quadrature_on_sphere
from steerable.filters.eigenfilters import _eigenvectors, most_steerable
from steerable.filters.grid_symmetries import turning_taps
from steerable.filters.harmonics import AxialHarmonic, SphericalHarmonic
from steerable.filters.pixel_grids import grid_size, grid_spacing, tap_positions
from steerable.filters.spectra import NOISE, tap_spectra

SO3, O3 = st.so3(), st.o3()
IN_SPACE = {**SPATIAL_GROUPS, **{name: group(name) for name in SOLIDS}, **SLANTED_GROUPS}
EVERY = {**IN_SPACE, **AXIAL_GROUPS}
every_group = pytest.mark.parametrize("g", EVERY.values(), ids=EVERY)
every_space = pytest.mark.parametrize("make", SPATIAL.values(), ids=SPATIAL)


def counts(space: st.FilterSpace) -> dict[int, int]:
    """The number of tuples by degree."""
    degrees = [f.frequency for f in space.harmonics]
    return {degree: degrees.count(degree) for degree in sorted(set(degrees))}


def moved(taps: np.ndarray, motion: np.ndarray) -> np.ndarray:
    """Filters (depth, height, width, …) moved by a signed permutation of x, y, z: numpy's transpositions and flips."""
    order = [
        2 - int(np.argmax(np.abs(row))) for row in motion[::-1]
    ]  # array axes are z, y, x, of which z and y go back
    turned = np.transpose(taps, (*order, *range(3, taps.ndim)))
    signs = np.sign(motion.sum(axis=1))[::-1]
    back = np.array([-1, -1, 1])
    flipped = [axis for axis in range(3) if signs[axis] * back[axis] * back[order[axis]] < 0]
    return np.flip(turned, flipped) if flipped else turned


# ---------------------------------------------------------------- how filters turn


@every_group
def test_harmonics_turn_as_functions_of_space_do(g: st.Group) -> None:
    """h(g⁻¹x) is h(x) times the matrix of g, at any points."""
    points = np.random.default_rng(0).normal(size=(20, 3))
    kinds = [SphericalHarmonic(degree) for degree in (0, 1, 2, 5)]
    if g in AXIAL_GROUPS.values():
        label = st.filter_space(g, 3).harmonics[0].harmonic.line.label
        kinds += [AxialHarmonic(m, line_along(label), odd) for m in (0, 1, 2, 5) for odd in (False, True)]
    for harmonic in kinds:
        rho, before = harmonic.turned_by(g), harmonic.at(points)
        for element in (*g.random(5, seed=0), *g.generators):
            np.testing.assert_allclose(harmonic.at(points @ g.motion(element)), before @ rho(element), atol=1e-12)


CARRIED = {"SO3": 24, "O3": 48, "T": 12, "T_d": 24, "O": 24, "O_h": 48, "I": 12, "I_h": 24, "D6 about y": 4}
CARRIED |= {"SO2 about z": 4, "SO2 down": 4, "O2 about x": 8, "O2 about y, flips": 8, "O2 down, flips": 8}
CARRIED |= {"C8 about z": 4, "D8 about x, flips": 8, "SO2 about (1, 1, 1)": 3, "O2 about (1, -1, 0), flips": 4}
CARRIED |= {"C8 about (1, 2, 3)": 1}


@every_space
@pytest.mark.parametrize("name", EVERY)
def test_sampling_commutes_with_the_part_that_the_grid_carries(name: str, make) -> None:
    g = EVERY[name]
    space = make(g)
    assert len(space.carried) == CARRIED[name]
    filters = space.sampling.reshape(*space.size, space.dim)
    for element in space.carried:
        assert error(moved(filters, g.motion(element)), filters @ space.representation(element)) < 1e-12


@every_space
@every_group
def test_no_filter_depends_on_the_others_after_sampling(g: st.Group, make) -> None:
    space = make(g)
    assert np.linalg.cond(space.sampling) < 10
    assert len(space.frequencies) == len(space.leaks) == space.dim
    assert ((space.leaks >= 0) & (space.leaks < 0.2)).all()
    assert (space.sampling**2).sum(axis=0).mean() == pytest.approx(1)


def test_spaces_of_all_groups_have_the_same_filters() -> None:
    """So that weights can be carried over to a subgroup."""
    for g in IN_SPACE.values():
        np.testing.assert_array_equal(st.filter_space(g, 3).sampling, st.filter_space(SO3, 3).sampling)


def test_the_inversion_is_the_parity_of_the_degree() -> None:
    space = st.filter_space(O3, 5)
    np.testing.assert_allclose(space.representation(O3.inversion), np.diag((-1.0) ** space.frequencies), atol=1e-13)
    assert [f.harmonic.turned_by(O3).type for f in space.harmonics][-1] == (0,) * 8 + (1,)


# ---------------------------------------------------------------- leaks


def measured_leak(taps: np.ndarray, points: np.ndarray, degree: int, limit: float, noise: float) -> float:
    """The leak by brute force: spectra on a grid of the ball, and their part R(|ω|) Y(ω̂) by a quadrature."""
    directions, weights = quadrature_on_sphere(24)
    basis = SphericalHarmonic(degree).at(directions)
    r = (np.arange(60) + 0.5) / 60 * limit
    part = total = 0.0
    for radius in r:
        spectrum = np.exp(-1j * radius * directions @ points.T) @ taps
        total += radius**2 * float(weights @ (np.abs(spectrum) ** 2).sum(axis=1))
        part += radius**2 * abs(weights @ (spectrum * basis).sum(axis=1)) ** 2
        total += radius**2 * noise * float((taps**2).sum())
    return 1 - part / total


@pytest.mark.parametrize("make", [st.filter_space, st.ring_space])
@pytest.mark.parametrize(("size", "spacing"), [(3, 1), (4, 1), (3, (2, 1, 1)), ((2, 4, 3), (1.5, 1, 2))])
def test_the_leak_is_that_of_the_spectra(size: int | tuple[int, ...], spacing, make) -> None:
    space = make(SO3, size, spacing=spacing, **({"leak": 0.2} if make is st.filter_space else {}))
    points, limit = tap_positions(space.size, space.spacing), math.pi / max(space.spacing)
    noise = 0 if spacing == 1 else NOISE
    for f in space.harmonics:
        assert measured_leak(f.taps, points, f.frequency, limit, noise) == pytest.approx(
            f.leak, abs=2e-3 * f.leak + 1e-4
        )


def test_the_leak_is_the_mean_squared_error_of_turning_the_answer() -> None:
    """Over random rotations, of the spectrum at random frequencies of the ball: |F̂(Rω) - D F̂(ω)|² / 2|F̂|²."""
    generator = np.random.default_rng(0)
    omega = generator.uniform(-math.pi, math.pi, size=(2000, 3))
    omega = omega[np.linalg.norm(omega, axis=1) < math.pi]
    points = tap_positions((3, 3, 3), (1.0, 1.0, 1.0))
    for f in st.filter_space(SO3, 3, leak=0.2).harmonics[2:]:
        errors, power = 0.0, 0.0
        for rotation in SO3.random(40, seed=1):
            here, there = (np.exp(-1j * w @ points.T) @ f.taps for w in (omega, omega @ rotation.matrix.T))
            errors += (np.abs(there - here @ f.harmonic.turned_by(SO3)(rotation).T) ** 2).sum()
            power += (np.abs(here) ** 2).sum() + (np.abs(there) ** 2).sum()
        assert errors / power == pytest.approx(f.leak, rel=0.1)


@pytest.mark.parametrize(
    ("g", "size", "spacing"),
    [
        (SO3, 3, (1, 1, 1)),
        (group("I_h"), 4, (1, 1, 1)),
        (SO3, (3, 5, 5), (2, 1, 1)),
        (AXIAL_GROUPS["SO2 about z"], 5, (1, 1, 1)),
        (AXIAL_GROUPS["O2 about y, flips"], (5, 3, 5), (1, 3, 1)),
    ],
    ids=str,
)
def test_answers_to_turned_waves_turn_up_to_the_leak(g: st.Group, size, spacing) -> None:
    """A random bank sees sums of plane waves, turned exactly at the positions of the taps; no spectrum is computed."""
    space, generator = st.filter_space(g, size, spacing=spacing), np.random.default_rng(0)
    rho = st.direct_sum(g.irreps_of((1,) * 3))
    kernels = st.kernel_basis(g.trivial, rho, space)
    bank = np.tensordot(generator.standard_normal((20, len(kernels))), kernels, axes=1).reshape(20, rho.dim, -1)
    points, limit = tap_positions(space.size, space.spacing), math.pi / max(space.spacing)
    off = on = 0.0
    for element in g.random(60, seed=0):
        omega = generator.uniform(-limit, limit, size=(400, 3))
        omega = omega[np.linalg.norm(omega, axis=1) < limit]
        phase = generator.uniform(0, 2 * math.pi, size=len(omega))
        before, after = (
            bank @ np.cos(x @ omega.T + phase).sum(axis=1) for x in (points, points @ np.asarray(g.motion(element)))
        )
        expected = before @ rho(element).T
        off, on = off + ((after - expected) ** 2).sum(), on + (after**2).sum() + (expected**2).sum()
    assert 1e-6 < off / on < space.leaks.max()


# An independent solution of the same eigenproblem with scipy.special.spherical_jn, without orbits:
# {degree: number of tuples} with a leak of at most the tolerance.
@pytest.mark.parametrize(
    ("size", "leak", "expected"),
    [
        (2, 0.01, {0: 1}),
        (3, 0.01, {0: 2, 1: 1}),
        (3, 0.03, {0: 2, 1: 1, 2: 1}),
        (3, 0.2, {0: 2, 1: 1, 2: 1, 3: 1}),
        (4, 0.02, {0: 2, 1: 2, 2: 1, 3: 1}),
        (5, 0.03, {0: 3, 1: 2, 2: 2, 3: 1, 4: 1}),
        (5, 0.1, {0: 3, 1: 2, 2: 2, 3: 1, 4: 1, 5: 1, 6: 1}),
    ],
)
def test_numbers_of_filters(size: int, leak: float, expected: dict[int, int]) -> None:
    space = st.filter_space(SO3, size, leak)
    assert counts(space) == expected
    assert space.leaks.max() <= leak
    assert space.dim == sum((2 * degree + 1) * n for degree, n in expected.items())


@pytest.mark.parametrize(
    ("size", "spacing"),
    [(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), ((1, 3, 3), (2, 1, 1)), ((3, 5, 5), (2, 1, 1)), ((2, 3, 5), (3, 2, 1))],
)
def test_higher_degrees_that_are_not_tried_leak_too_much(size: int | tuple[int, ...], spacing) -> None:
    """The search ends after two hopeless degrees; the least leak of all higher ones is above the tolerance."""
    shape = grid_size(SO3, size)
    spectra = tap_spectra(shape, grid_spacing(shape, spacing), 1.0, 0.0)
    for leak in (0.005, 0.03, 0.1):
        tried = [f.frequency for f in most_steerable(shape, spectra.grid.spacing, leak, 1.0, 0.0)]
        for degree in range(max(tried, default=0) + 1, spectra.highest + 1):
            functions = turning_taps(spectra.grid, SphericalHarmonic(degree))
            shares, _ = _eigenvectors(spectra, SphericalHarmonic(degree), functions)
            assert 1 - shares.max(initial=0) > leak


def test_leaks_of_five_by_five_by_five() -> None:
    """At most those of the same independent solution; that of degree 4 is larger, as its taps sum to 0."""
    space = st.filter_space(SO3, 5)
    leaks = {degree: max(f.leak for f in space.harmonics if f.frequency == degree) for degree in range(5)}
    largest = {0: 0.0014, 1: 0.0068, 2: 0.0214, 3: 0.0023, 4: 0.0116}
    assert all(leaks[degree] <= largest[degree] + 5e-5 for degree in range(5))
    assert leaks[3] == pytest.approx(0.0023, abs=5e-5)
    assert leaks[4] == pytest.approx(0.01155, abs=5e-5)


@pytest.mark.parametrize("size", [3, 4, 5])
def test_rounding_does_not_choose_the_filters(size: int) -> None:
    """Filters of one degree are orthogonal, the smoothest first, and their lengths differ."""
    filters = st.filter_space(SO3, size, 0.2).harmonics
    for before, after in itertools.pairwise(filters):
        if before.frequency == after.frequency:
            assert (after.taps**2).sum() < 0.99 * (before.taps**2).sum()
            assert np.abs((before.taps * after.taps).sum()) < 1e-9
    assert [f.frequency for f in filters] == sorted(f.frequency for f in filters)


def test_they_leak_less_than_shells_of_the_same_degree() -> None:
    best, shells = st.filter_space(SO3, 5), st.ring_space(SO3, 5)
    assert counts(shells)[4] == 1
    for degree in range(1, 5):
        assert best.leaks[best.frequencies == degree].max() < shells.leaks[shells.frequencies == degree].max()


def test_shells_with_a_cut_off_each() -> None:
    space = st.ring_space(SO3, 5, radii=[0, 1, 2], widths=0.5, highest=[0, 1, 2])
    assert counts(space) == {0: 3, 1: 2, 2: 1}
    outer = np.linalg.norm(space.harmonics[-1].taps.reshape(5, 5, 5, 5), axis=3)
    radius = np.linalg.norm(np.stack(np.meshgrid(*[np.arange(5) - 2] * 3)), axis=0)
    expected = np.where(radius > 0, np.exp(-((radius - 2) ** 2) / 0.5), 0)
    np.testing.assert_allclose(outer / outer.max(), expected / expected.max(), atol=1e-12)


# ---------------------------------------------------------------- about one axis


@pytest.mark.parametrize("make", [st.filter_space, st.ring_space])
def test_about_an_axis_filters_are_those_of_the_plane_in_layers(make) -> None:
    """In the middle layer they are the planar filters themselves, and one plane's filters are seen along every axis."""
    flat, solid = make(st.cyclic(8), 5), make(st.about_axis(st.cyclic(8)), (3, 5, 5))
    assert solid.dim == 3 * flat.dim
    assert set(solid.leaks) == set(flat.leaks)
    assert np.array_equal(np.unique(solid.frequencies), np.unique(flat.frequencies))
    middle = solid.sampling.reshape(3, 25, -1)[1]
    np.testing.assert_array_equal(middle[:, np.abs(middle).max(axis=0) > 0], flat.sampling)
    for axis, size in (("x", (5, 5, 3)), ("y", (5, 3, 5))):
        turned = make(st.about_axis(st.cyclic(8), axis), size)
        np.testing.assert_array_equal(turned.leaks, solid.leaks)
        np.testing.assert_allclose(turned.sampling.T @ turned.sampling, solid.sampling.T @ solid.sampling, atol=1e-13)


# ---------------------------------------------------------------- kernels


def intertwining_error(space: st.FilterSpace, rho_in: st.Representation, rho_out: st.Representation) -> float:
    """How far kernels are, in coefficients, from Σ_w ρ_V(h)[v, w] ρ_out(h) κ(w) ρ_in(h)⁻¹ = κ(v)."""
    kernels = st.kernel_basis(rho_in, rho_out, space)
    flat = kernels.reshape(-1, space.taps)
    kappa = (flat @ np.linalg.pinv(space.sampling).T).reshape(*kernels.shape[:3], space.dim)
    assert error(space.sample(kappa), kernels) < 1e-12
    worst = 0.0
    for h in space.group.random(3, seed=0):
        by_v, by_out, by_in = space.representation(h), rho_out(h), np.linalg.inv(rho_in(h))
        turned = np.einsum("vw,oa,kabw,bi->koiv", by_v, by_out, kappa, by_in, optimize=True)
        worst = max(worst, error(turned, kappa))
    return worst


@every_space
@every_group
def test_kernels_intertwine_in_coefficients(g: st.Group, make) -> None:
    space = make(g)
    chi = space.representation.character
    irreps = g.irreps_of((1,) * 4)
    for rho_in, rho_out in ((irreps[1], irreps[-1]), (irreps[-1], irreps[2] + g.trivial)):
        assert intertwining_error(space, rho_in, rho_out) < 1e-12
        expected = st.intertwining_number(space.representation @ rho_in, rho_out)
        assert len(st.kernel_basis(rho_in, rho_out, space)) == expected
    assert chi is not None


def test_few_degrees_are_seen_alike_by_the_icosahedral_and_the_octahedral_group() -> None:
    """I leaves no function on the sphere of degrees 1 to 5 unchanged, O none of degrees 1 to 3: equal kernels below."""
    for degrees, smaller in (((1, 2, 2), group("I")), ((2, 2, 1), group("I")), ((1, 1, 1), group("O"))):
        a, b, highest = degrees
        rho_in, rho_out = SO3.irrep(f"L{a}"), SO3.irrep(f"L{b}")
        large = st.kernel_basis(rho_in, rho_out, st.filter_space(SO3, 3, highest=highest))
        space = st.filter_space(smaller, 3, highest=highest)
        small = st.kernel_basis(rho_in.restrict(smaller), rho_out.restrict(smaller), space)
        assert large.shape == small.shape
        both = np.concatenate([large, small]).reshape(2 * len(large), -1)
        assert np.linalg.matrix_rank(both, tol=1e-9) == len(large)
    large, small = (st.kernel_basis(g.trivial, g.trivial, st.filter_space(g, 5)) for g in (SO3, group("O")))
    assert (len(large), len(small)) == (3, 4)  # O leaves x⁴ + y⁴ + z⁴ unchanged, which has a part of degree 4


def test_kernels_between_vectors_are_those_of_a_textbook() -> None:
    """Degree 0 multiplies, degree 1 is the cross product, degree 2 is 3xxᵀ - |x|²; O(3) has the second elsewhere."""
    space, x = st.filter_space(SO3, 3), tap_positions((3, 3, 3), (1.0, 1.0, 1.0))
    kernels = st.kernel_basis(SO3.irrep("L1"), SO3.irrep("L1"), space).reshape(-1, 9, 27)
    assert len(kernels) == 4
    cross = np.stack([np.cross(x, unit) for unit in np.eye(3)], axis=2).reshape(27, 9).T
    outer = (3 * x[:, :, None] * x[:, None] - (x**2).sum(axis=1)[:, None, None] * np.eye(3)).reshape(27, 9).T
    on_axes = np.count_nonzero(x, axis=1) == 1  # one orbit, on which all radial profiles are constant
    for kernel, expected in zip(kernels[[0, 2, 3]], (np.eye(3).reshape(9, 1) + 0 * outer, cross, outer), strict=True):
        a, b = kernel[:, on_axes].ravel(), expected[:, on_axes].ravel()
        if np.abs(a).max() > 1e-9:
            assert abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b) == pytest.approx(1, abs=1e-12)
    vector, axial = O3.irrep("L1o"), O3.irrep("L1e")
    mirrored = st.filter_space(O3, 3)
    assert len(st.kernel_basis(vector, vector, mirrored)) == 3
    rows = (st.kernel_basis(vector, axial, mirrored).reshape(1, -1), kernels[2].reshape(1, -1))
    assert same_span(*(row / np.linalg.norm(row) for row in rows))


def test_costs() -> None:
    """Σ over filters and pairs of irreps, each degree of the product counted once."""
    kind, space = st.FieldType(SO3, "4*(L0 + L1 + L2)"), st.filter_space(SO3, 5)
    triples = sum(abs(a - b) <= f.frequency <= a + b for f in space.harmonics for a in range(3) for b in range(3))
    assert st.parameter_cost(kind, kind, 5) == 16 * triples == 592
    wide = st.FieldType(st.icosahedral(), "2*regular")
    assert st.parameter_cost(wide, wide, 3) == 4 * 60 * 10
    around = st.FieldType(st.about_axis(st.cyclic(8)), "regular")
    assert st.parameter_cost(around, around, 5) == 8 * 5 * st.filter_space(st.cyclic(8), 5).dim
    assert st.parameter_cost(kind, kind, 1) == 16 * 3


# ---------------------------------------------------------------- voxels that are not cubes


def test_spacing_leaves_fewer_symmetries() -> None:
    cube, upright = group("O_h"), st.about_axis(st.dihedral(4))
    assert st.pixel_patch(upright, 3, spacing=(2, 1, 1)).dim == 27
    assert st.pixel_space(upright, 3, spacing=(2, 1, 1)).spacing == (2.0, 1.0, 1.0)
    with pytest.raises(ValueError, match="of O_h does not map the 3×3×3 pixel grid, 2:1:1 apart onto itself"):
        st.pixel_patch(cube, 3, spacing=(2, 1, 1))
    for g, spacing, carried in ((SO3, (2, 1, 1), 8), (O3, (2, 1, 1), 16), (O3, (3, 1, 2), 8), (O3, (2, 2, 2), 48)):
        space = st.filter_space(g, 3, spacing=spacing, leak=0.1)
        assert len(space.carried) == carried
        filters = space.sampling.reshape(*space.size, space.dim)
        for element in space.carried:
            assert error(moved(filters, g.motion(element)), filters @ space.representation(element)) < 1e-12
    assert st.filter_space(SO3, 3, spacing=7) == st.filter_space(SO3, 3)
    assert st.filter_space(SO3, 3, spacing=(4, 2, 2)) == st.filter_space(SO3, 3, spacing=(2, 1, 1))
    assert st.filter_space(SO3, 3, spacing=(2, 1, 1)) != st.filter_space(SO3, 3)
    flat = st.filter_space(st.so2(), (3, 5), spacing=(2, 1))
    assert [g.angle for g in flat.carried] == [0, 180]


def test_extents_are_free_where_voxels_are_not_cubes() -> None:
    space = st.filter_space(SO3, (3, 5, 5), spacing=(2, 1, 1))
    assert space.size == (3, 5, 5)
    assert space.leaks.max() <= 0.03
    assert repr(space) == (
        "<FilterSpace most steerable filters (leak 0.03, 2:1:1 apart) of SO3: 10 coefficients, 3×5×5 taps>"
    )


@pytest.mark.parametrize(("size", "spacing"), [((3, 5, 5), (2, 1, 1)), ((3, 7, 7), (3, 1, 1)), ((3, 9, 9), (5, 1, 1))])
def test_filters_do_not_live_on_frequencies_that_are_not_counted(size: tuple[int, ...], spacing) -> None:
    """White noise goes through them no more than twice as strongly as band-limited images of the same power do."""
    space = st.filter_space(SO3, size, spacing=spacing)
    assert counts(space) == {0: 2, 1: 1, 2: 1}
    points, limit = tap_positions(space.size, space.spacing), math.pi / max(space.spacing)
    omega = np.random.default_rng(0).uniform(-limit, limit, size=(1000, 3))
    waves = np.exp(-1j * omega[np.linalg.norm(omega, axis=1) < limit] @ points.T)
    for f in space.harmonics:
        assert (np.abs(waves @ f.taps) ** 2).sum(axis=1).mean() > (f.taps**2).sum() / 2


@pytest.mark.parametrize("spacing", [0, -1, math.inf, math.nan, (1, 2), (1, 1, 0), "wide", (1, 1, "1"), True])
def test_bad_spacings(spacing: object) -> None:
    for make in (st.filter_space, st.ring_space, st.pixel_space, st.pixel_patch):
        with pytest.raises(
            ValueError, match=r"`spacing` is the distance between neighbouring taps, .* above 0 for all"
        ):
            make(group("O"), 3, spacing=spacing)


# ---------------------------------------------------------------- what is refused


refusal = partial(refusals.refusal, ValueError)


def test_degrees_that_a_kernel_cannot_carry() -> None:
    assert refusal(st.filter_space, SO3, 3, highest=4) == (
        "3×3×3 filters with a leak of at most 0.03 cannot carry the degree 4; the largest that they can carry is 2. "
        "Use a larger kernel, a larger leak, or a lower degree."
    )
    assert refusal(st.filter_space, SO3, 3, highest=1.5) == "`highest` must be a degree, a whole number ≥ 0; got 1.5."
    assert refusal(st.ring_space, SO3, 3, highest=[0, 4]) == (
        "the shell of radius 1 cannot carry the degree 4 on 3×3×3 pixels: sampled there, its filters depend linearly "
        "on those of lower degrees and of other shells. The largest that it can carry is 3; lower `highest`, or use a "
        "larger kernel."
    )
    assert refusal(st.ring_space, SO3, 3, highest=-1) == (
        "`highest` is a degree, a whole number ≥ 0, for all shells or one for each of the 2; got -1."
    )
    assert "cannot carry the angular frequency 9" in refusal(st.filter_space, st.about_axis(st.so2()), 3, highest=9)
    name = str(st.filter_space(SO3, 5, highest=2))
    assert name == "most steerable filters (leak 0.03, degrees up to 2)"


def test_empty_spaces_and_sizes() -> None:
    assert refusal(st.filter_space, O3, 2, leak=0.001) == (
        "no 2×2×2 filter has a leak of at most 0.001: the filter space would be empty. The best one has a leak of "
        "0.0053; allow at least that, or use another kernel size."
    )
    assert refusal(st.filter_space, group("I"), (3, 5, 5)) == (
        "`t` of I exchanges depth and height, so filters have one extent for both; got 3×5×5. Use a cubic kernel, "
        "or say how far voxels are apart: `spacing`."
    )
    assert "exchanges height and width" in refusal(st.filter_space, st.about_axis(st.so2()), (3, 3, 5))
    assert "no shell touches the 3×3×3 kernel" in refusal(st.ring_space, SO3, 3, radii=[50])
    assert "have extents along the axes that SO3 moves; got none" in refusal(st.filter_space, SO3, ())
    assert "does not map the 3×3×3 pixel grid onto itself" in refusal(st.pixel_patch, SO3, 3)
    assert "SO3 acts on 3 dimensions; a patch has 3 extents, got (3, 3)" in refusal(st.filter_space, SO3, (3, 3))


def test_filters_about_an_axis_are_not_turned_by_groups_that_do_not_keep_it() -> None:
    around = st.filter_space(st.about_axis(st.so2()), 3)
    for other in (group("O"), SO3, st.about_axis(st.so2(), "x")):
        assert "does not keep the z axis, so it does not turn filters about z" in refusal(
            st.FilterSpace.of_harmonics, other, 3, around.harmonics
        )
    upright = st.FilterSpace.of_harmonics(st.about_axis(st.cyclic(8)), 3, around.harmonics)
    assert upright == st.filter_space(st.about_axis(st.cyclic(8)), 3)
