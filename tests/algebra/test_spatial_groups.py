"""SO(3), O(3) and the groups of the regular solids: their elements, and how they move space."""

from __future__ import annotations

import math
import pickle

import numpy as np
import pytest
from group_zoo import group
from planar_zoo import error
from scipy.spatial.transform import Rotation
from spatial_zoo import AXIAL_GROUPS, SLANTED_GROUPS, SPATIAL_GROUPS

import steerable as st
from steerable.algebra.spatial_groups import SpatialGroup

SO3, O3, O2 = st.so3(), st.o3(), st.o2()
both = pytest.mark.parametrize("g", SPATIAL_GROUPS.values(), ids=SPATIAL_GROUPS)
GOLDEN = (1 + math.sqrt(5)) / 2


def test_long_products_stay_orthogonal() -> None:
    product = SO3.identity
    for element in SO3.random(2000, seed=0):
        product = SO3.multiply(product, element)
    assert error(product.matrix.T @ product.matrix, np.eye(3)) < 1e-15


def test_rotations_by_axis_and_angle_are_those_of_scipy() -> None:
    generator = np.random.default_rng(0)
    for degrees in (-400, -30, 0, 1e-7, 30, 90, 179.9999, 180, 271.5):
        axis = generator.standard_normal(3)
        expected = Rotation.from_rotvec(axis / np.linalg.norm(axis) * degrees, degrees=True).as_matrix()
        found = SO3.rotation(axis, degrees)
        assert error(found.matrix, expected) < 1e-14
        assert SO3.rotation(found.axis, found.angle) == found
        assert 0 <= found.angle <= 180
    for name, axis in {"x": (1, 0, 0), "y": (0, 1, 0), "z": (0, 0, 1)}.items():
        assert SO3.rotation(name, 30) == SO3.rotation(axis, 30) == SO3.rotation(np.multiply(axis, 1e-300), 30)
        assert error(SO3.rotation(axis, 30).axis, np.array(axis)) < 1e-15
    assert SO3.rotation("z", 90).matrix.tolist() == [[0, -1, 0], [1, 0, 0], [0, 0, 1]]


def test_reflections_and_the_inversion() -> None:
    for normal in ((1, 0, 0), (1, 1, 0), (1, -2, 0.5)):
        mirror = O3.reflection(normal)
        assert error(mirror.matrix @ normal, -np.array(normal)) < 1e-14
        assert error(mirror.matrix @ np.cross(normal, (3, 1, 4)), np.cross(normal, (3, 1, 4))) < 1e-14
        assert O3.multiply(mirror, mirror) == O3.identity
        assert mirror == O3.multiply(O3.inversion, O3.rotation(normal, 180)) == O3.reflection(np.multiply(normal, -2))
        assert mirror.mirrored
    assert O3.reflection("x").matrix.tolist() == [[-1, 0, 0], [0, 1, 0], [0, 0, 1]]
    assert O3.inversion.matrix.tolist() == (-np.eye(3)).tolist()
    for element in O3.random(5, seed=0):
        assert O3.multiply(element, O3.inversion) == O3.multiply(O3.inversion, element)


def test_elements_as_text() -> None:
    assert repr(SO3.identity) == "rotation((0, 0, 1), 0)"
    assert repr(SO3.rotation((0, 0, 2), 30)) == "rotation((0, 0, 1), 30)"
    assert repr(SO3.rotation((0, 0, 1), -30)) == "rotation((0, 0, -1), 30)"
    assert repr(SO3.rotation((-1, 0, 0), 180)) == "rotation((1, 0, 0), 180)"
    assert repr(SO3.rotation((1, 1, 1), 120)) == "rotation((0.57735, 0.57735, 0.57735), 120)"
    assert repr(O3.inversion) == "inversion"
    assert repr(O3.reflection((0, -1, 0))) == "reflection((0, 1, 0))"
    assert repr(O3.multiply(O3.inversion, O3.rotation("z", 30))) == "inversion·rotation((0, 0, 1), 30)"


@both
def test_equality_is_up_to_rounding_and_hashes_agree(g: SpatialGroup) -> None:
    a, b = g.rotation((1, 2, 3), 30), g.rotation((2, 4, 6), 390 + 1e-12)
    assert a == b
    assert hash(a) == hash(b)
    assert a != g.rotation((1, 2, 3), 30.001)
    assert a != "rotation"
    assert SO3.rotation("z", 30) != O3.rotation("z", 30)
    assert SO3 != O3
    assert st.so2() != SO3
    assert st.group_named("SO3") == SO3
    assert st.group_named("O3") == O3


@both
def test_random_elements_are_uniform(g: SpatialGroup) -> None:
    """The mean of every irrep over the group vanishes, but that of the trivial one."""
    drawn = g.random(4000, seed=0)
    assert drawn[:7] != g.random(7, seed=1)
    matrices = np.array([element.rotation for element in drawn])
    traces = np.trace(matrices, axis1=1, axis2=2)
    for values in (matrices, (traces**2 - 1)[:, None, None], (traces**2 - traces - 1)[:, None, None]):
        assert np.abs(values.mean(axis=0)).max() < 6 / math.sqrt(len(drawn))
    assert abs(np.mean([element.mirrored for element in drawn]) - g.reflections / 2) < 0.05


@both
def test_elements_that_keep_the_voxels(g: SpatialGroup) -> None:
    cube = st.octahedral(reflections=g.reflections)
    found = {tuple(g.motion(element).ravel()) for element in g.grid_elements}
    assert found == {tuple(matrix.ravel()) for matrix in cube.action}
    assert len(g.grid_elements) == cube.order


# ---------------------------------------------------------------- regular solids


def corners_of(name: str) -> np.ndarray:
    if name[0] == "T":
        return np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    if name[0] == "O":
        return np.concatenate([np.eye(3), -np.eye(3)])
    signs = [(s, t) for s in (1, -1) for t in (1, -1)]
    return np.array([np.roll([0, s, t * GOLDEN], k) for k in range(3) for s, t in signs])


@pytest.mark.parametrize(("name", "order"), [("T", 12), ("T_d", 24), ("O", 24), ("O_h", 48), ("I", 60), ("I_h", 120)])
def test_solids_are_mapped_onto_themselves(name: str, order: int) -> None:
    """All symmetries: as many as a corner has images, times those that leave it where it is."""
    g, corners = st.group_named(name), corners_of(name)
    assert g.name == name
    assert g.order == order
    assert g.acts_faithfully
    for matrix in g.action:
        moved = corners @ matrix.T
        distance = np.abs(moved[:, None] - corners[None]).max(axis=2)
        assert (distance.min(axis=1) < 1e-12).all()
    assert ((np.linalg.det(g.action) < 0).sum() > 0) == ("_" in name)
    assert g == group(name) == st.group_named(name.replace("_", ""))


def test_subgroups_of_the_solids() -> None:
    for smaller, larger in (("T", "O"), ("T", "I"), ("T", "T_d"), ("T_d", "O_h"), ("I", "I_h"), ("O", "O_h")):
        inside = st.inclusion(st.group_named(smaller), st.group_named(larger))
        assert inside.is_injective


def test_finite_groups_find_their_elements_by_axis_and_angle() -> None:
    cube, ico = st.octahedral(reflections=True), st.icosahedral()
    assert cube.rotation((0, 0, 1), 90) == cube.rotation("z", 90) == "r"
    assert cube.reflection((0, 0, 1)) == cube.element(np.diag([1, 1, -1]))
    assert cube.element(-np.eye(3)) == "i"
    assert ico.rotation((GOLDEN, 0, 1), 72) == "f"
    assert ico.rotation((1, 1, 1), 120) == "t"
    for g in (st.octahedral(), ico, st.tetrahedral(reflections=True)):
        for element, matrix in zip(g.elements, g.action, strict=True):
            assert g.element(matrix) == element
            assert g.element(O3.element(matrix).matrix) == element


# The character table of the icosahedral group, from GAP: Display(CharacterTable(AlternatingGroup(5))); the class of a
# rotation is its angle, and φ = (1 + √5) / 2.
ICOSAHEDRAL = {
    "A": {0: 1, 72: 1, 144: 1, 120: 1, 180: 1},
    "T1": {0: 3, 72: GOLDEN, 144: 1 - GOLDEN, 120: 0, 180: -1},
    "T2": {0: 3, 72: 1 - GOLDEN, 144: GOLDEN, 120: 0, 180: -1},
    "G": {0: 4, 72: -1, 144: -1, 120: 1, 180: 0},
    "H": {0: 5, 72: 0, 144: 0, 120: -1, 180: 1},
}


@pytest.mark.parametrize("reflections", [False, True])
def test_characters_of_the_icosahedral_groups(reflections: bool) -> None:
    g = st.icosahedral(reflections=reflections)
    for irrep in g.irreps:
        name = str(irrep).rstrip("gu")
        for matrix, value in zip(g.action, irrep.character, strict=True):
            element = O3.element(matrix)
            parity = -1 if element.mirrored and str(irrep)[-1] == "u" else 1
            assert abs(value - parity * ICOSAHEDRAL[name][round(element.angle)]) < 1e-12


# Mulliken's table for T_d, where the class of a rotation-reflection is minus the angle of -g: A1, A2, E, T1, T2.
TETRAHEDRAL = {0: (1, 1, 2, 3, 3), 120: (1, 1, -1, 0, 0), 180: (1, 1, 2, -1, -1), -90: (1, -1, 0, 1, -1)}
TETRAHEDRAL[-180] = (1, -1, 0, -1, 1)


def test_characters_of_the_tetrahedral_group_with_mirrors() -> None:
    g = st.tetrahedral(reflections=True)
    for element in g.elements:
        motion = O3.element(g.action[g.index(element)])
        expected = TETRAHEDRAL[round(motion.angle) * (-1 if motion.mirrored else 1)]
        assert [round(float(irrep.character[g.index(element)]), 9) for irrep in g.irreps] == list(expected)


def test_vectors_of_the_solids() -> None:
    for name, vectors in (("T", "T"), ("T_d", "T2"), ("I", "T1"), ("I_h", "T1u")):
        g = group(name)
        assert np.array_equal(g.irrep(vectors).matrices, g.action)


def test_groups_of_the_plane_about_an_axis() -> None:
    turned = st.about_axis(st.cyclic(4))
    assert turned.action.tolist() == [SO3.rotation("z", 90 * k).matrix.tolist() for k in range(4)]
    for axis in ("x", "y", "z", (0, 0, -1), (1, 2, 3), (-3, 0, 0)):
        for n in (1, 4, 5):
            g = st.about_axis(st.cyclic(n), axis)
            assert error(g.action, np.stack([SO3.rotation(axis, 360 * k / n).matrix for k in range(n)])) < 1e-14
        upright, turning = (st.about_axis(st.dihedral(4), axis, flips=flips) for flips in (False, True))
        assert upright.elements == turning.elements == st.dihedral(4).elements
        direction = SO3.rotation(axis, 10).axis
        for matrix, flipped, planar in zip(upright.action, turning.action, st.dihedral(4).action, strict=True):
            assert error(matrix @ direction, direction) < 1e-14
            assert round(np.linalg.det(matrix)) == round(np.linalg.det(planar))
            assert error(flipped @ direction, round(np.linalg.det(planar)) * direction) < 1e-14
            assert round(np.linalg.det(flipped)) == 1
    assert st.pixel_patch(st.about_axis(st.dihedral(4), "x"), 3).dim == 27


@pytest.mark.parametrize("name", [name for name in AXIAL_GROUPS if "O2" in name])
def test_rotations_about_one_axis_by_any_angle(name: str) -> None:
    g = AXIAL_GROUPS[name]
    flips, direction = "flips" in name, g.motion(g.rotation(0)) @ np.array(g.line.direction)
    for a, b in zip(g.random(6, seed=0), g.random(6, seed=1), strict=True):
        assert error(g.motion(g.multiply(a, b)), g.motion(a) @ g.motion(b)) < 1e-14
        assert g.element(g.motion(a)) == a
        assert error(g.motion(a) @ direction, direction * (-1 if flips and a.mirrored else 1)) < 1e-14
    assert error(g.motion(g.rotation(37)), SO3.rotation(direction, 37).matrix) < 1e-14
    assert g == pickle.loads(pickle.dumps(g)) != st.so2()
    assert g.axes == 3
    assert len(g.grid_elements) == (8 if g.reflections else 4)


@pytest.mark.parametrize("name", [*(name for name in AXIAL_GROUPS if "O2" in name), *SLANTED_GROUPS])
def test_representations_of_space_seen_by_groups_about_one_axis(name: str) -> None:
    g = {**AXIAL_GROUPS, **SLANTED_GROUPS}[name]
    for larger, irrep in ((SO3, "L3"), (O3, "L2o"), (O3, "L1o")):
        if not (larger.reflections or "flips" in name or name[0] in "CS"):
            with pytest.raises(ValueError, match="cannot restrict"):
                larger.irrep(irrep).restrict(g)
            continue
        rho = larger.irrep(irrep)
        seen = rho.restrict(g)
        for element in g.random(6, seed=0):
            assert error(seen(element), rho(larger.element(g.motion(element)))) < 1e-12


@pytest.mark.parametrize("axis", ["x", "z", (1, 1, 1), (0, 0, -1), (0.3, -0.2, 1), (1 / 3, 1e-7, -1e5)])
@pytest.mark.parametrize("flips", [False, True])
def test_groups_about_any_axis_are_found_by_name(axis: object, flips: bool) -> None:
    for planar in (st.cyclic(3), st.dihedral(4), st.so2(), st.o2()):
        g = st.about_axis(planar, axis, flips=flips)
        assert st.group_named(g.name) == g
        assert st.FieldType(g.name, "2*A") == st.FieldType(g, "2*A")


def test_axes_of_one_direction_are_one_axis() -> None:
    assert st.about_axis(st.so2(), (0, 0, 2)) == st.about_axis(st.so2(), "z")
    assert st.about_axis(st.so2(), (0, 0, 2)).name == "SO2 about z"
    assert st.about_axis(st.o2(), (2, 2, 2)) == st.about_axis(st.o2(), (1, 1, 1)) != st.about_axis(st.o2(), (1, 1, -1))
    assert st.about_axis(st.o2(), "z") != st.about_axis(st.o2(), "z", flips=True)
    rho = st.about_axis(st.o2(), (0, 0, 1)).irrep("E2")
    assert rho.restrict(st.about_axis(st.so2(), "z")).type == (0, 0, 1)


@pytest.mark.parametrize(
    "name", ["SO2 about (1, 2)", "C4 about (a, b, c)", "C4 about w", "C4 about (1, 1, 1", "C4 about"]
)
def test_axes_that_cannot_be_read(name: str) -> None:
    with pytest.raises(ValueError, match="there is no group called '"):
        st.group_named(name)


def test_groups_about_one_axis_in_words() -> None:
    g = st.about_axis(st.o2(), "x", flips=True)
    assert repr(g) == "<O2 about x with flips, all rotations and reflections of space about x>"
    assert st.about_axis(st.so2(), flips=True) == st.about_axis(st.so2())
    assert [str(irrep) for irrep in g.irreps_of((1,) * 4)] == ["A1", "A2", "E1", "E2"]
    assert st.FieldType(g, "2*regular(1) + E3").channels == 14
    with pytest.raises(ValueError, match=r"O2 about x with flips has no rotation\(\(0, 0, 1\), 90\): it turns"):
        g.rotation("z", 90)
    with pytest.raises(TypeError, match=r"restrict it: rho.restrict\(about_axis\(cyclic\(8\), 'x'\)\)"):
        _ = g.irrep("E1").matrices
    assert g.irrep("E1").restrict(st.about_axis(st.cyclic(8), "x")).dim == 2


MESSY = [[1, 0, 0], [0, 1, 0.1], [0, 0, 1]]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (lambda: SO3.rotation((0, 0, 0), 30), ValueError, r"an axis has a direction, which \(0, 0, 0\) does not have"),
        (
            lambda: SO3.rotation((0, 0), 30),
            ValueError,
            r"an axis is three numbers such as \(0, 0, 1\), .* got \(0, 0\)",
        ),
        (lambda: SO3.rotation("w", 30), ValueError, "an axis is three numbers .* or 'x', 'y' or 'z'; got 'w'"),
        (lambda: SO3.rotation(("a", 0, 1), 30), TypeError, "an axis is three numbers"),
        (lambda: SO3.rotation((0, 0, math.inf), 30), ValueError, "an axis has finite coordinates"),
        (
            lambda: SO3.rotation((0, 0, 1), math.nan),
            ValueError,
            "an angle must be a finite number of degrees, .* got nan",
        ),
        (
            lambda: SO3.rotation((0, 0, 1), "30"),
            TypeError,
            "an angle must be a number of degrees, such as 30; got str '30'",
        ),
        (
            lambda: SO3.rotation(30),
            ValueError,
            r"SO3 moves space, where a rotation is given by its axis and its angle: write SO3.rotation\(\(0, 0, 1",
        ),
        (lambda: SO3.rotation((0, 0, 1)), TypeError, r"an angle must be a number of degrees, such as 30; got tuple"),
        (
            lambda: O3.reflection(30),
            ValueError,
            "O3 moves space, where a reflection is given by the normal of its plane",
        ),
        (lambda: O3.reflection((0, 0, 0)), ValueError, "the normal of a mirror has a direction"),
        (
            lambda: SO3.reflection((0, 0, 1)),
            ValueError,
            r"SO3 has no reflection\(\(0, 0, 1\)\): .* determinant 1. Use o3",
        ),
        (lambda: SO3.inversion, ValueError, "SO3 has no inversion: it turns space and does not mirror it"),
        (lambda: SO3.element(-np.eye(3)), ValueError, "SO3 has no inversion: .* determinant 1"),
        (lambda: SO3.element(MESSY), ValueError, "SO3 moves space by orthogonal 3×3 matrices; got"),
        (lambda: O3.element(np.eye(2)), ValueError, "O3 moves space by orthogonal 3×3 matrices"),
        (lambda: O3.element("r"), TypeError, "an element of O3 is given by an orthogonal matrix; got 'r'"),
        (lambda: O3.element(np.full((3, 3), np.nan)), ValueError, "O3 moves space by orthogonal 3×3 matrices"),
        (
            lambda: O2.rotation((0, 0, 1), 30),
            ValueError,
            r"O2 moves the plane, where rotations .* by an angle alone: write O2.rotation\(30\)",
        ),
        (
            lambda: SO3.multiply(O3.identity),
            TypeError,
            r"`rotation\(\(0, 0, 1\), 0\)` of O3 is not an element of SO3, whose elements are given by axis and angle: "
            r"write SO3.rotation\(\(0, 0, 1\), 30\), or SO3.element\(matrix\)",
        ),
        (lambda: O3.inverse("i"), TypeError, r"`i` is not an element of O3, .* or O3.reflection\(\(1, 0, 0\)\), or"),
        (lambda: SO3.random(-1), ValueError, "the number of random elements must be a whole number ≥ 0; got -1"),
        (
            lambda: st.octahedral().rotation("z", 45),
            ValueError,
            r"O has no rotation\(\(0, 0, 1\), 45\): it turns space in 24 ways and does not mirror it. .* so3\(\)",
        ),
        (
            lambda: st.octahedral().rotation(90),
            ValueError,
            r"O moves space and not the plane, .* or give an axis, as in rotation\(\(0, 0, 1\), 90\)",
        ),
        (
            lambda: st.dihedral(4).rotation("z", 90),
            ValueError,
            r"D4 moves the plane and not space, .* or give an angle alone, as in rotation\(90\)",
        ),
        (lambda: group("S4").element(np.eye(3)), ValueError, "S4 is abstract, and nothing says how its elements move"),
        (
            lambda: SO3.irrep("L1o"),
            ValueError,
            "SO3 has no irrep `L1o`. Its irreps are `L0`, `L1`, `L2`, `L3` and so on",
        ),
        (lambda: O3.irrep("L1"), ValueError, "O3 has no irrep `L1`. Its irreps are `L0e`, `L0o`, .* even and odd"),
        (lambda: O3.irrep("L61e"), ValueError, "a degree must be a whole number from 0 to 60; got 61"),
        (lambda: SO3.irrep(1), TypeError, "expected the name of an irrep"),
        (lambda: SO3.sphere(1.5), TypeError, "a degree must be a whole number ≥ 0; got float 1.5"),
        (lambda: SO3.regular(-1), ValueError, "a degree must be a whole number from 0 to 12; got -1"),
        (lambda: SO3.colour, AttributeError, "SO3 has no attribute `colour`"),
        (lambda: st.about_axis(SO3), ValueError, "about_axis takes a group that moves the plane, .* got SO3"),
        (lambda: st.about_axis(st.octahedral()), ValueError, "about_axis takes a group that moves the plane, .* got O"),
        (lambda: st.about_axis(st.cyclic(4), (0, 0, 0)), ValueError, "an axis has a direction"),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
