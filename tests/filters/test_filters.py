from __future__ import annotations

import itertools
import re

import numpy as np
import pytest
from group_zoo import group, is_orthonormal, random_invertible, random_orthogonal, same_span

import steerable as st
from steerable.algebra.monomials import Monomial
from steerable.filters import sparse_kernel_basis
from steerable.filters.pixel_grids import tap_coordinates

D4 = st.dihedral(4)
PLANAR = ("C1", "C2", "C4", "D1", "D2", "D4")


def _r(x: np.ndarray) -> np.ndarray:
    return np.rot90(x, 1, (-2, -1))


def _m(x: np.ndarray) -> np.ndarray:
    return np.flip(x, -1)


def _s(x: np.ndarray) -> np.ndarray:
    """A quarter turn about x, the width: what is up (against the height) goes to the viewer (against the depth)."""
    return np.rot90(x, 1, (-2, -3))


def _i(x: np.ndarray) -> np.ndarray:
    return np.flip(x, (-3, -2, -1))


def _moved(g: st.FiniteGroup, element: str, x: np.ndarray) -> np.ndarray:
    """π(element)x by numpy's own turns and flips, read off the element's name from right to left."""
    turn = {"C2": lambda y: _r(_r(y)), "D2": lambda y: _r(_r(y))}.get(g.name, _r)
    steps = {"r": turn, "m": _m, "s": _s, "i": _i, "e": lambda y: y}
    for letter, power in reversed(re.findall(r"([a-z])(\d*)", element)):
        for _ in range(int(power or 1)):
            x = steps[letter](x)
    return x


@pytest.mark.parametrize("size", [1, 2, 3, 4, 5])
@pytest.mark.parametrize("name", PLANAR)
def test_a_patch_moves_as_numpy_turns_an_image(name: str, size: int) -> None:
    g = group(name)
    image = np.random.default_rng(0).standard_normal((size, size))
    patch = st.pixel_patch(g, size)
    assert patch.is_permutation
    for element in g.elements:
        assert np.array_equal((patch(element) @ image.ravel()).reshape(image.shape), _moved(g, element, image))


def test_kernels_of_monomial_capsules_need_no_matrices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Matrices of a large capsule would take gigabytes."""
    scaled = D4.regular.change_basis(np.diag(np.arange(1.0, 9.0)))
    signed = D4.regular @ D4.irrep("E")

    def refuse(monomial: Monomial) -> np.ndarray:
        raise AssertionError("the matrices were written out")

    monkeypatch.setattr(Monomial, "dense", refuse)
    assert sparse_kernel_basis(scaled, signed, 3).count == 8 * 16 * 9 // 8
    assert st.pixel_patch(st.octahedral(), 5).dim == 125


def test_patches_say_their_size() -> None:
    assert str(st.pixel_patch(D4, 3)) == "3×3 patch"
    assert str(st.pixel_patch(st.cyclic(2), (2, 5))) == "2×5 patch"
    assert str(st.pixel_patch(st.octahedral(), 2)) == "2×2×2 patch"


@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (4, 2), (5, 3)])
@pytest.mark.parametrize("name", ["C1", "C2", "D1", "D2"])
def test_rectangles_for_half_turns_and_mirrors(name: str, shape: tuple[int, int]) -> None:
    g = group(name)
    image = np.random.default_rng(0).standard_normal(shape)
    for element in g.elements:
        expected = _moved(g, element, image)
        assert np.array_equal((st.pixel_patch(g, shape)(element) @ image.ravel()).reshape(shape), expected)


@pytest.mark.parametrize("size", [1, 2, 3])
@pytest.mark.parametrize("name", ["O", "O_h"])
def test_cubes_move_as_numpy_turns_a_volume(name: str, size: int) -> None:
    g = group(name)
    volume = np.random.default_rng(0).standard_normal((size,) * 3)
    patch = st.pixel_patch(g, size)
    for element in g.elements:
        assert np.array_equal((patch(element) @ volume.ravel()).reshape(volume.shape), _moved(g, element, volume))


def test_tap_coordinates_run_from_the_top_left() -> None:
    assert tap_coordinates((2, 3)).tolist() == [[-2, 1], [0, 1], [2, 1], [-2, -1], [0, -1], [2, -1]]
    assert tap_coordinates((1, 1, 2)).tolist() == [[-1, 0, 0], [1, 0, 0]]
    assert tap_coordinates((2, 1, 1)).tolist() == [[0, 0, 1], [0, 0, -1]]


def _pair(g: st.FiniteGroup, kind: str) -> tuple[st.Representation, st.Representation]:
    """(ρ_in, ρ_out): monomial, orthogonal, general, or one of each."""
    vector = g.irreps[-1]
    signed = g.quotient(g.subgroups()[min(1, len(g.subgroups()) - 1)]) + vector
    turned = (g.trivial + vector).change_basis(random_orthogonal(1 + vector.dim))
    skewed = (vector + g.trivial).change_basis(random_invertible(1 + vector.dim))
    scaled = signed.change_basis(np.diag(np.linspace(0.5, 2, signed.dim)))
    return {
        "signed": (signed, vector),
        "scaled": (scaled, signed),
        "turned": (turned, vector),
        "skewed in": (skewed, signed),
        "skewed out": (turned, skewed),
    }[kind]


def _assert_kernel_basis(rho_in: st.Representation, rho_out: st.Representation, size: int | tuple[int, ...]) -> None:
    """kernel_basis is an orthonormal basis of Hom(patch ⊗ ρ_in, ρ_out), in the layout of a convolution's weight."""
    patch = st.pixel_patch(rho_in.group, size)
    kernels = st.kernel_basis(rho_in, rho_out, size)
    assert len(kernels) == st.intertwining_number(patch @ rho_in, rho_out)
    assert kernels.shape[1:3] == (rho_out.dim, rho_in.dim)
    assert is_orthonormal(kernels)
    flat = kernels.reshape(len(kernels), rho_out.dim, rho_in.dim, patch.dim).swapaxes(2, 3)  # taps slower
    flat = flat.reshape(len(kernels), rho_out.dim, patch.dim * rho_in.dim)
    assert same_span(flat, st.intertwiner_basis(patch @ rho_in, rho_out))


@pytest.mark.parametrize("kind", ["signed", "scaled", "turned", "skewed in", "skewed out"])
@pytest.mark.parametrize("size", [1, 2, 3, 4])
@pytest.mark.parametrize("name", PLANAR)
def test_kernels_are_the_intertwiners_of_patch_times_fibre(name: str, size: int, kind: str) -> None:
    _assert_kernel_basis(*_pair(group(name), kind), size)


@pytest.mark.parametrize("kind", ["signed", "scaled", "skewed out"])
@pytest.mark.parametrize("shape", [(1, 3), (2, 3), (4, 2)])
@pytest.mark.parametrize("name", ["C2", "D2"])
def test_kernels_on_rectangles(name: str, shape: tuple[int, int], kind: str) -> None:
    _assert_kernel_basis(*_pair(group(name), kind), shape)


@pytest.mark.parametrize("size", [2, 3])
@pytest.mark.parametrize(
    ("name", "first", "second"), [("O", "T1", "E"), ("O", "E", "q8a"), ("O_h", "T1u", "T1u"), ("O_h", "Eg", "T2g")]
)
def test_kernels_on_cubes(name: str, first: str, second: str, size: int) -> None:
    g = group(name)
    _assert_kernel_basis(g.capsule(first).representation, g.capsule(second).representation, size)


@pytest.mark.parametrize("size", [2, 3, 5])
@pytest.mark.parametrize(("first", "second"), list(itertools.product(["A2", "E", "qmr", "regular"], repeat=2)))
def test_a_kernel_turned_is_the_kernel_again(first: str, second: str, size: int) -> None:
    """ρ_out(h) κ(h⁻¹x) ρ_in(h)⁻¹ = κ(x), with numpy turning the kernels."""
    rho_in, rho_out = (D4.capsule(name).representation for name in (first, second))
    kernels = st.kernel_basis(rho_in, rho_out, size)
    for element in D4.elements:
        turned = _moved(D4, element, kernels)
        back = np.einsum("ij,njkyx,kl->nilyx", rho_out(element), turned, np.linalg.inv(rho_in(element)))
        assert np.abs(back - kernels).max() < 1e-12


def test_large_patches_stay_sparse() -> None:
    """A 7×7 patch of regular capsules: 49·8 kernels of 8·8·49 entries, one entry in each of 8 places."""
    basis = sparse_kernel_basis(D4.regular, D4.regular, 7)
    assert basis.count == 49 * 8
    assert len(basis.value) == 49 * 64


def test_o_h_regular_on_a_cube() -> None:
    g = group("O_h")
    basis = sparse_kernel_basis(g.regular, g.regular, 3)
    assert basis.count == 27 * 48
    assert len(basis.value) == 27 * 48 * 48


def test_no_channels_and_no_kernels() -> None:
    skewed = D4.irrep("E").change_basis(random_invertible(2))
    assert st.kernel_basis(0 * D4.regular, skewed, 3).shape == (0, 2, 0, 3, 3)
    assert st.kernel_basis(D4.irrep("A1"), D4.irrep("A2"), 3).shape == (0, 1, 1, 3, 3)
    assert st.kernel_basis(D4.irrep("A1"), skewed, 1).shape == (0, 2, 1, 1, 1)


def test_remembered_by_content() -> None:
    again = st.Representation(D4, D4.irrep("E").matrices)
    assert sparse_kernel_basis(again, again, 3) is sparse_kernel_basis(D4.irrep("E"), D4.irrep("E"), (3, 3))


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: st.pixel_patch(group("Q8"), 3), "Q8 is abstract: nothing says how it moves pixels. Use cyclic"),
        (
            lambda: st.pixel_patch(st.cyclic(2).direct_product(D4), 3),
            r'C2 x D4 is abstract: .*direct_product\(\.\.\., acting="second"\), .* acting_through\(\.\.\.\)\.$',
        ),
        (lambda: st.pixel_patch(st.cyclic(3), 3), "`r` of C3 does not map the 3×3 pixel grid onto itself.*restrict to"),
        (lambda: st.pixel_patch(D4, (2, 3)), "`r` of D4 does not map the 2×3 pixel grid onto itself"),
        (lambda: st.pixel_patch(group("I_h"), 3), "of I_h does not map the 3×3×3 pixel grid"),
        (lambda: st.pixel_patch(D4, (3, 3, 3)), r"D4 acts on 2 dimensions; a patch has 2 extents, got \(3, 3, 3\)\.$"),
        (
            lambda: st.pixel_patch(st.octahedral(), (3, 3)),
            r"O acts on 3 dimensions; a patch has 3 extents, got \(3, 3\)\. Layers for images take groups of the plane",
        ),
        (lambda: st.pixel_patch(D4, 0), r"at least one tap along each axis, got \(0, 0\)"),
        (lambda: st.kernel_basis(D4.regular, D4.regular, -1), "at least one tap"),
    ],
)
def test_bad_values_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


@pytest.mark.parametrize("size", [3.0, (3, 2.5), True, "33", None])
def test_sizes_are_whole_numbers(size: object) -> None:
    with pytest.raises(TypeError, match="extents are whole numbers"):
        st.pixel_patch(D4, size)


def test_groups_must_match() -> None:
    with pytest.raises(TypeError, match=r"between fields of one group; got D4 and C4. Restrict one"):
        st.kernel_basis(D4.regular, st.cyclic(4).regular, 3)
