"""π(g) on tensors: torch's own rotations and flips, a homomorphism, differentiable, in any dtype."""

import itertools

import pytest
import torch

import steerable as st
from steerable import FieldType

D4 = st.dihedral(4)
MIXED = FieldType(D4, "regular + E + A2 + 2*qm")


def field(*shape: int) -> torch.Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_pixels_move_as_torch_moves_them() -> None:
    scalar = FieldType(D4, "2*A1")
    x = field(1, 2, 4, 5)
    for k, element in enumerate(("e", "r", "r2", "r3")):
        turned = torch.rot90(x, k, (-2, -1))
        assert torch.equal(st.transform(x, element, scalar), turned)
        mirrored = "m" if k == 0 else f"m{element}"
        assert torch.equal(st.transform(x, mirrored, scalar), turned.flip(-1))


def test_fibres_move_by_the_representation() -> None:
    x = field(2, MIXED.channels)
    for g in D4.elements:
        expected = x @ torch.tensor(MIXED.representation(g)).T
        torch.testing.assert_close(st.transform(x, g, MIXED), expected)
        image = st.transform(x[:, :, None, None], g, MIXED)
        torch.testing.assert_close(image[:, :, 0, 0], expected)


@pytest.mark.parametrize(
    "group", [D4, st.cyclic(4), st.dihedral(2), st.dihedral(1), st.cyclic(2)], ids=lambda g: str(g.name)
)
def test_it_is_a_homomorphism(group: st.FiniteGroup) -> None:
    field_type = FieldType(group, " + ".join(group.capsules))
    x = field(1, field_type.channels, 3, 4)
    for g, h in itertools.product(group.elements, repeat=2):
        once = st.transform(x, group.multiply(g, h), field_type)
        torch.testing.assert_close(st.transform(st.transform(x, h, field_type), g, field_type), once)


def test_dense_representations() -> None:
    """D3's E mixes channels by a rotation of 120°: moved as a matrix, on pooled fields."""
    D3 = st.dihedral(3)
    field_type = FieldType(D3, "2*E")
    x = field(3, 4)
    for g in D3.elements:
        expected = x.view(3, 2, 2) @ torch.tensor(D3.irrep("E")(g)).T
        torch.testing.assert_close(st.transform(x, g, field_type), expected.flatten(1))


def test_batches_are_optional() -> None:
    x = field(MIXED.channels, 3, 4)
    assert torch.equal(st.transform(x, "mr", MIXED), st.transform(x.unsqueeze(0), "mr", MIXED)[0])


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16, torch.float32, torch.float64])
def test_dtypes_are_kept(dtype: torch.dtype) -> None:
    x = field(1, MIXED.channels, 3, 3).to(dtype)
    y = st.transform(x, "mr3", MIXED)
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), st.transform(x.double(), "mr3", MIXED), rtol=0, atol=0)


def test_gradients() -> None:
    x = field(1, MIXED.channels, 2, 3).requires_grad_()
    assert torch.autograd.gradcheck(lambda t: st.transform(t, "mr", MIXED), x)
    cotangent = field(1, MIXED.channels, 3, 2)
    (gradient,) = torch.autograd.grad((st.transform(x, "r", MIXED) * cotangent).sum(), x)
    torch.testing.assert_close(gradient, st.transform(cotangent, "r3", MIXED))  # orthogonal: the adjoint is the inverse


def test_errors() -> None:
    with pytest.raises(ValueError, match="channels") as error:
        st.transform(torch.zeros(1, 3, 2, 2), "r", MIXED)
    assert str(error.value) == (
        "a field of type `regular + E + A2 + 2*qm` has 19 channels, got 3 (shape (1, 3, 2, 2))."
    )
    with pytest.raises(ValueError, match="takes") as error:
        st.transform(torch.zeros(19), "r", MIXED)
    assert str(error.value) == (
        "transform takes (batch, channels, height, width), (channels, height, width) or (batch, channels) for D4, "
        "which moves the plane; got shape (19,)."
    )
    with pytest.raises(ValueError, match="plane") as error:
        st.transform(torch.zeros(1, 2, 4, 4), "a", FieldType(st.group_from_permutations([[1, 0]]), "regular"))
    assert str(error.value) == (
        "`a` of group of order 2 does not move the plane, so it cannot move an image. Use an element of cyclic(n), "
        "dihedral(n), so2() or o2(), or for volumes of octahedral(), so3() or o3()."
    )
    with pytest.raises(ValueError, match="24 channels, got 1") as error:
        st.transform(torch.zeros(1, 24, 4, 4), "r", FieldType(st.octahedral(), "regular"))
    assert str(error.value).endswith(
        "Fields of O are volumes: (batch, channels, depth, height, width), or without a batch."
    )
    with pytest.raises(ValueError, match="`interpolation` must be one of bicubic, bilinear; got 'nearest'"):
        st.transform(torch.zeros(1, 19, 4, 4), "r", MIXED, interpolation="nearest")
    with pytest.raises(ValueError, match="r5"):
        st.transform(torch.zeros(1, 19), "r5", MIXED)


# ---------------------------------------------------------------- angles that the grid does not carry


def waves(group: st.FiniteGroup, element: str, size: tuple[int, int] = (33, 33)) -> torch.Tensor:
    """A smooth image, slanted and off its centre, or the same turned, from a formula: exact."""
    matrix = group.action[group.index(element)]
    right = torch.arange(size[1], dtype=torch.float64) - (size[1] - 1) / 2
    up = (size[0] - 1) / 2 - torch.arange(size[0], dtype=torch.float64)
    x, y = (a * right[None, :] + b * up[:, None] for a, b in matrix.T.tolist())
    return (torch.exp(-((x - 2) ** 2 / 18 + (y - 3) ** 2 / 8)) * (1 + 0.5 * torch.sin(0.6 * x + 0.3 * y)))[None, None]


@pytest.mark.parametrize("group", [st.cyclic(3), st.cyclic(8), st.dihedral(6), st.dihedral(8)], ids=lambda g: g.name)
@pytest.mark.parametrize("size", [(33, 33), (32, 35)], ids=str)
def test_other_angles_are_interpolated(group: st.FiniteGroup, size: tuple[int, int]) -> None:
    scalar = FieldType(group, "A1")
    x = waves(group, "e", size)
    for g in group.elements:
        if size[0] != size[1] and g not in ("e", "r", "m"):
            continue
        expected = waves(group, g, size)
        for interpolation, tolerance in (("bicubic", 0.01), ("bilinear", 0.08)):
            moved = st.transform(x, g, scalar, interpolation=interpolation)
            assert moved.dtype == torch.float64
            assert float((moved - expected).abs().max()) < tolerance * float(expected.max()), g
        single = st.transform(x[0].float(), g, scalar)
        assert single.shape == (1, *size)


def test_interpolated_fields_turn_their_fibres_and_have_gradients() -> None:
    C8 = st.cyclic(8)
    kind = FieldType(C8, "regular + E1")
    x = field(1, kind.channels, 6, 6).requires_grad_()
    turned = st.transform(x, "r", kind)
    scalars = st.transform(x, "r", FieldType(C8, f"{kind.channels}*A"))
    expected = torch.einsum("ij,bjhw->bihw", torch.tensor(kind.representation("r")), scalars)
    torch.testing.assert_close(turned, expected)
    assert torch.autograd.gradcheck(lambda t: st.transform(t, "r", kind), x)
    assert st.transform(x.detach().bfloat16(), "r", kind).dtype == torch.bfloat16
    torch.testing.assert_close(st.transform(x, "r2", kind)[:, 1], torch.rot90(x, 1, (-2, -1))[:, 7])


@pytest.mark.parametrize("dtype", [torch.uint8, torch.int16, torch.int64, torch.bool])
def test_whole_numbers_move_only_where_nothing_is_interpolated(dtype: torch.dtype) -> None:
    D8 = st.dihedral(8)
    image, grey = (10 * field(1, 1, 5, 5).abs()).to(dtype), FieldType(D8, "A1")
    assert torch.equal(st.transform(image, "r2", grey), torch.rot90(image, 1, (-2, -1)))
    for interpolation in ("bicubic", "bilinear"):
        with pytest.raises(TypeError, match=r"numbers that torch.\w+ does not have.*floating point: x.float\(\)"):
            st.transform(image, "r", grey, interpolation=interpolation)
    with pytest.raises(TypeError, match=r"x.float\(\)"):
        st.transform(image.expand(1, 2, 5, 5)[:, :, 0, 0], "r", FieldType(D8, "E1"))


def test_whole_numbers_change_sign_only_where_they_have_one() -> None:
    odd, image = FieldType(D4, "A2"), torch.arange(4).view(1, 1, 2, 2)
    assert torch.equal(st.transform(image, "m", odd), -image.flip(-1))
    with pytest.raises(TypeError, match=r"torch\.uint8 does not have, such as fractions between pixels or -1"):
        st.transform(image.to(torch.uint8), "m", odd)


def test_arrays_are_refused_with_words() -> None:
    with pytest.raises(TypeError, match=r"a torch.Tensor, such as torch.as_tensor\(image\), got ndarray"):
        st.transform(field(1, 1, 3, 3).numpy(), "r", FieldType(D4, "A1"))


# ---------------------------------------------------------------- SO(2) and O(2)

SO2, O2 = st.so2(), st.o2()


@pytest.mark.parametrize(("group", "finite"), [(SO2, st.cyclic(24)), (O2, st.dihedral(24))], ids=["SO2", "O2"])
@pytest.mark.parametrize("size", [(), (7, 7), (6, 4)], ids=str)
def test_an_element_of_an_infinite_group_moves_fields_as_that_of_a_finite_one(group, finite, size) -> None:
    field_type = FieldType(group, "A1 + 2*regular(2) + E5")
    smaller, order = st.restriction(field_type, finite)
    x = field(2, field_type.channels, *size)
    for g in finite.elements:
        if size and size[0] != size[1] and abs(finite.motion(g)[0, 0]) < 1:
            continue
        moved = st.transform(x, group.element(finite.motion(g)), field_type)
        torch.testing.assert_close(moved[:, order], st.transform(x[:, order], g, smaller), atol=1e-12, rtol=0)


@pytest.mark.parametrize("group", [SO2, O2], ids=["SO2", "O2"])
def test_turns_by_90_degrees_copy_numbers_whatever_the_group(group) -> None:
    scalar, arrow = FieldType(group, "2*A1"), FieldType(group, "E1")
    x = field(1, 2, 4, 5)
    for k, degrees in enumerate((0, 90, 180.0, -90)):
        turned = torch.rot90(x, k, (-2, -1))
        assert torch.equal(st.transform(x, group.rotation(degrees), scalar), turned)
        assert torch.equal(
            st.transform(x.int(), group.rotation(degrees), arrow).abs().sum(1), turned.int().abs().sum(1)
        )
        if group.reflections:
            g = group.multiply(group.reflection(0), group.rotation(degrees))
            assert torch.equal(st.transform(x, g, scalar), turned.flip(-1))


def test_elements_of_infinite_groups_compose_on_pooled_fields() -> None:
    for group in (SO2, O2):
        field_type = FieldType(group, "2*regular(3) + E7")
        x = field(3, field_type.channels)
        g, h = group.random(2, seed=1)
        once = st.transform(x, group.multiply(g, h), field_type)
        torch.testing.assert_close(st.transform(st.transform(x, h, field_type), g, field_type), once)


def test_bad_elements_of_infinite_groups() -> None:
    x, kind = torch.zeros(1, 2, 4, 4), FieldType(SO2, "E1")
    with pytest.raises(TypeError, match=r"`r` is not an element of SO2, whose elements are given by angle: write SO2"):
        st.transform(x, "r", kind)
    with pytest.raises(TypeError, match=r"`reflection\(0\)` of O2 is not an element of SO2"):
        st.transform(x, O2.reflection(0), kind)
    with pytest.raises(ValueError, match=r"`rotation\(90\)` is not an element of C4"):
        st.transform(x, SO2.rotation(90), FieldType(st.cyclic(4), "E"))
    with pytest.raises(ValueError, match="an angle must be a finite number of degrees, such as 30; got nan"):
        SO2.rotation(float("nan"))
    with pytest.raises(TypeError, match=r"this element multiplies values by numbers that torch.int64 does not have"):
        st.transform(x.long(), SO2.rotation(30), kind)
