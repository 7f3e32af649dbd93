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
        "transform takes (batch, channels, height, width), (channels, height, width) or (batch, channels); got shape "
        "(19,)."
    )
    with pytest.raises(ValueError, match="pixel grid") as error:
        st.transform(torch.zeros(1, 3, 4, 4), "r", FieldType(st.cyclic(3), "regular"))
    assert str(error.value) == (
        "`r` of C3 does not map the pixel grid onto itself, so it cannot move an image exactly. Use an element of "
        "C1, C2, C4, D1, D2 or D4."
    )
    with pytest.raises(ValueError, match="r5"):
        st.transform(torch.zeros(1, 19), "r5", MIXED)
