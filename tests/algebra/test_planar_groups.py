"""SO(2) and O(2): their elements, how they move the plane, and what they refuse to list."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from group_zoo import group
from planar_zoo import PLANAR_GROUPS, error

import steerable as st
from steerable.algebra.planar_groups import PlanarGroup

SO2, O2, D4 = st.so2(), st.o2(), st.dihedral(4)
both = pytest.mark.parametrize("g", PLANAR_GROUPS.values(), ids=PLANAR_GROUPS)


@both
def test_equality_is_up_to_rounding_and_hashes_agree(g: PlanarGroup) -> None:
    a, b = g.rotation(30), g.rotation(390 + 1e-12)
    assert a == b
    assert hash(a) == hash(b)
    assert g.rotation(0) == g.rotation(360 - 1e-13) == g.rotation(-1e-20)
    assert g.rotation(-1e-20).angle == 0
    assert a != g.rotation(30.001)
    assert a != "rotation(30)"


@pytest.mark.parametrize("special", [0, 30, 60, 90, 180, 300])
def test_turns_close_to_special_angles_keep_lengths_and_close_ones_are_exact(special: float) -> None:
    """A cosine of 1 to nine digits goes with angles up to 0.0026°, which an irrep of frequency 50 sees 50 times."""
    rho = O2.irrep("E50")
    for apart in 10.0 ** np.arange(-12, -1):
        for degrees in (special - apart, special + apart):
            g = O2.rotation(degrees)
            assert np.abs(g.matrix @ g.matrix.T - np.eye(2)).max() < 1e-12
            exact = np.isin(g.matrix, (0.0, 1.0, -1.0)).all()
            assert exact == (special % 90 == 0 and apart < 5e-8)
            assert exact or np.abs(rho(g) @ rho(O2.inverse(g)) - np.eye(2)).max() < 1e-11


def test_elements_of_different_groups_differ() -> None:
    assert SO2.rotation(30) != O2.rotation(30)
    assert O2.rotation(0) != O2.reflection(0)
    assert SO2.rotation(30) not in O2
    assert SO2 != O2
    assert st.group_named("SO2") == SO2
    assert st.group_named("O2") == O2
    assert SO2 != D4


def test_reflections_mirror_in_the_line_that_their_angle_names() -> None:
    for angle in (0, 10, 45, 90, 130):
        line = O2.rotation(angle).matrix @ [0, 1]
        assert error(O2.reflection(angle).matrix @ line, line) < 1e-14
        turned = O2.multiply(O2.rotation(angle), O2.reflection(0), O2.rotation(-angle))
        assert O2.reflection(angle) == turned == O2.reflection(angle + 180)
    assert repr(O2.reflection(130)) == "reflection(130)"
    assert repr(O2.rotation(-90)) == "rotation(270)"


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 8, 12])
def test_finite_groups_find_their_elements_by_angle(n: int) -> None:
    for g in (st.cyclic(n), st.dihedral(n)):
        for k in range(n):
            assert g.rotation(360 * k / n) == g.elements[k]
    for k in range(n):
        assert st.dihedral(n).reflection(-180 * k / n) == st.dihedral(n).elements[n + k]


def test_angles_turn_images_counter_clockwise_and_mirror_left_and_right() -> None:
    """One convention for elements, matrices and pixels: `transform` moves images as torch's own functions do."""
    image, grey = torch.arange(9.0).view(1, 1, 3, 3), st.FieldType(D4, "A1")
    for angle, turns in ((0, 0), (90, 1), (180, 2), (-90, 3)):
        assert torch.equal(st.transform(image, D4.rotation(angle), grey), torch.rot90(image, turns, (-2, -1)))
    assert torch.equal(st.transform(image, D4.reflection(0), grey), torch.flip(image, (-1,)))
    assert torch.equal(st.transform(image, D4.reflection(90), grey), torch.flip(image, (-2,)))
    assert torch.equal(st.transform(image, D4.reflection(45), grey), image.transpose(-1, -2))
    for g in D4.elements:
        assert D4.action is not None
        assert error(O2.element(D4.action[D4.index(g)]).matrix, D4.action[D4.index(g)]) == 0


@both
def test_random_elements_are_uniform(g: PlanarGroup) -> None:
    drawn = g.random(4000, seed=0)
    for frequency in (1, 2, 3):
        waves = np.exp(1j * np.radians([frequency * element.angle for element in drawn]))
        assert abs(waves.mean()) < 4 / math.sqrt(len(drawn))
    share = np.mean([element.mirrored for element in drawn])
    assert abs(share - g.reflections / 2) < 0.05


def test_random_elements_of_finite_groups_are_uniform() -> None:
    drawn = D4.random(8000, seed=0)
    assert all(abs(drawn.count(element) - 1000) < 150 for element in D4.elements)


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: SO2.rotation(math.nan),
            ValueError,
            "an angle must be a finite number of degrees, such as 30; got nan",
        ),
        (lambda: D4.rotation(math.inf), ValueError, "an angle must be a finite number of degrees, such as 30; got inf"),
        (lambda: O2.reflection("30"), TypeError, "an angle must be a number of degrees, such as 30; got str '30'"),
        (lambda: O2.rotation(True), TypeError, "an angle must be a number of degrees, such as 30; got bool True"),
        (lambda: SO2.reflection(10), ValueError, "SO2 has no reflection in the line at 10° from the vertical.*o2()"),
        (
            lambda: D4.rotation(30),
            ValueError,
            "D4 has no rotation by 30°: it turns the plane by multiples of 90° and mirrors it",
        ),
        (
            lambda: st.cyclic(4).reflection(0),
            ValueError,
            "C4 has no reflection in the line at 0° from the vertical: .* multiples of 90° and does not mirror it",
        ),
        (
            lambda: st.octahedral().rotation(90),
            ValueError,
            "O moves space and not the plane, so it has no rotation",
        ),
        (lambda: group("S4").rotation(90), ValueError, "S4 is abstract, and nothing says which .* the rotation by 90°"),
        (
            lambda: group("C2xD4|D4").rotation(90),
            ValueError,
            r"2 elements of C2 x D4 are the rotation by 90°: `\(e,r\)`, `\(r,r\)`. Name one of them",
        ),
        (lambda: SO2.multiply("r"), TypeError, r"`r` is not an element of SO2, .* write SO2.rotation\(30\), or"),
        (
            lambda: O2.multiply(SO2.rotation(30)),
            TypeError,
            r"`rotation\(30\)` of SO2 is not an element of O2, whose elements are given by angle: write "
            r"O2.rotation\(30\) or O2.reflection\(0\), or O2.element\(matrix\)",
        ),
        (lambda: SO2.inverse(O2.reflection(0)), TypeError, r"`reflection\(0\)` of O2 is not an element of SO2"),
        (lambda: D4.multiply(SO2.rotation(90)), ValueError, r"`rotation\(90\)` is not an element of D4"),
        (lambda: O2.element([[2, 0], [0, 1]]), ValueError, "O2 moves the plane by orthogonal 2×2 matrices"),
        (lambda: SO2.element([[-1, 0], [0, 1]]), ValueError, "SO2 has no reflection in the line at 0°"),
        (lambda: SO2.random(-1), ValueError, "the number of random elements must be a whole number ≥ 0; got -1"),
        (lambda: D4.random(1.5), ValueError, "the number of random elements must be a whole number ≥ 0; got 1.5"),
        (lambda: SO2.irreps, TypeError, "SO2 has infinitely many elements and irreps, .* no list of irreps. Name one"),
        (lambda: O2.capsules, TypeError, r"expected a finite group such as cyclic\(8\), got O2"),
        (lambda: st.character_table(O2), TypeError, r"expected a finite group such as cyclic\(8\), got O2"),
        (lambda: st.inclusion(D4, O2), TypeError, r"expected a finite group such as cyclic\(8\), got O2"),
        (lambda: SO2.irrep("A2"), ValueError, "SO2 has no irrep `A2`. Its irreps are `A`, `E1`, `E2`, `E3` and so on"),
        (lambda: O2.irrep("E0"), ValueError, "O2 has no irrep `E0`. Its irreps are `A1`, `A2`, `E1`, `E2` and so on"),
        (lambda: O2.irrep("E2000"), ValueError, "a frequency must be a whole number from 0 to 1000; got 2000"),
        (lambda: O2.irrep(2), TypeError, "expected the name of an irrep, such as 'E2', got int 2"),
        (lambda: SO2.colour, AttributeError, "SO2 has no attribute `colour`"),
        (
            lambda: st.group_named("SO4"),
            ValueError,
            "there is no group called 'SO4'. Known groups are C1, C2, .* SO3 and O3",
        ),
    ],
)
def test_bad_input_is_refused_with_words(call, kind: type[Exception], message: str) -> None:
    with pytest.raises(kind, match=message):
        call()
