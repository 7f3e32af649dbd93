from __future__ import annotations

import itertools
import math

import pytest
from group_zoo import group

import steerable as st

D4 = st.dihedral(4)


@pytest.mark.parametrize("m", [1, 2, 6, 12])
@pytest.mark.parametrize("n", [1, 4, 6, 9])
def test_cyclic_groups_have_gcd_many(m: int, n: int) -> None:
    assert len(st.homomorphisms(st.cyclic(m), st.cyclic(n))) == math.gcd(m, n)


@pytest.mark.parametrize(
    ("source", "target"), [("C4", "D2"), ("D2", "C4"), ("D3", "C2"), ("D3", "D2"), ("C1", "D3"), ("D2", "D3")]
)
def test_all_are_found(source: str, target: str) -> None:
    """Against the definition, over all maps of sets."""
    a, b = group(source), group(target)
    expected = {
        images
        for images in itertools.product(b.elements, repeat=a.order)
        if all(
            images[a.index(a.multiply(x, y))] == b.multiply(images[a.index(x)], images[a.index(y)])
            for x in a.elements
            for y in a.elements
        )
    }
    found = st.homomorphisms(a, b)
    assert len(found) == len(expected)
    assert {h.images for h in found} == expected


@pytest.mark.parametrize(("source", "target"), [("S4", "S4"), ("Q8", "C4xC2"), ("A4", "C6"), ("D8", "D4")])
def test_kernel_and_image(source: str, target: str) -> None:
    """|ker| · |im| = |G|; the kernel is normal and the image a subgroup."""
    a, b = group(source), group(target)
    for h in st.homomorphisms(a, b):
        assert len(h.kernel) * len(h.image) == a.order
        assert b.generated_by(h.image) == h.image
        assert all(a.conjugate(h.kernel, by) == h.kernel for by in a.elements)
        assert h.is_injective == (len(set(h.images)) == a.order)
        assert h.is_surjective == (set(h.images) == set(b.elements))


def test_maps_onto_a_subgroup() -> None:
    """S4 → S3 with kernel the Klein group: 6 of them, one per automorphism of S3."""
    s4 = group("S4")
    order_six = next(k for k in s4.subgroups() if len(k) == 6)
    onto = [h for h in st.homomorphisms(s4, s4.subgroup(order_six)) if h.is_surjective]
    assert len(onto) == 6
    assert {len(h.kernel) for h in onto} == {4}


@pytest.mark.parametrize(
    ("small", "large", "element", "image"),
    [
        (st.cyclic(2), D4, "r", "r2"),  # names would say r, which has order 4
        (st.cyclic(4), D4, "r3", "r3"),
        (st.dihedral(2), D4, "mr", "mr2"),
        (st.cyclic(3), st.dihedral(6), "r", "r2"),
        (D4.subgroup(["e", "mr"]), D4, "mr", "mr"),
        (st.octahedral(), st.octahedral(reflections=True), "rs", "rs"),
    ],
)
def test_inclusions_are_found_by_name_or_by_action(small, large, element: str, image: str) -> None:
    into = st.inclusion(small, large)
    assert into.is_injective
    assert into(element) == image
    if small.action is not None:
        assert (small.action == large.action[into.indices]).all()


def test_an_embedding_may_be_given() -> None:
    into = st.inclusion(st.cyclic(2), D4, {"e": "e", "r": "mr"})
    assert into.images == ("e", "mr")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: st.inclusion(st.cyclic(3), D4), "C3 is not recognised as a subgroup of D4.*pass embedding="),
        (lambda: st.inclusion(st.cyclic(2), D4, {"e": "e"}), "the embedding of C2 into D4 leaves out `r`"),
        (lambda: st.inclusion(st.cyclic(2), D4, {"e": "e", "r": "e"}), "C2 is not recognised as a subgroup"),
        (lambda: st.inclusion(st.cyclic(2), D4, {"e": "e", "r": "x"}), "`x` is not an element of D4"),
        (lambda: st.Homomorphism(st.cyclic(2), D4, ("e",)), "names 2 images, one per element; got 1"),
        (
            lambda: st.Homomorphism(st.cyclic(2), D4, ("e", "r")),
            "from C2 to D4 is not a homomorphism: the image of `r`·`r` = `e` is not the product of the images `r` and "
            "`r`",
        ),
        (lambda: st.Homomorphism(st.trivial(), D4, ("m",)), "is not a homomorphism"),
    ],
)
def test_maps_that_are_not_homomorphisms_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_where_both_groups_move_the_plane_names_do_not_decide() -> None:
    """A group whose m mirrors up and down is D4's {e, mr2}, not its {e, m}."""
    up_down = st.group_from_matrices({"m": [[1, 0], [0, -1]]})
    assert st.inclusion(up_down, st.dihedral(4)).images == ("e", "mr2")
