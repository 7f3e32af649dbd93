"""U-Nets with typed outputs: exactly equivariant end to end, saved as text, and clear about what does not fit."""

from __future__ import annotations

import pytest
import torch
from lively import lively

import steerable as st
from steerable import models
from steerable import nn as snn

D4 = st.dihedral(4)
C4 = st.cyclic(4)


@pytest.mark.parametrize("group", ["D4", "C4"])
@pytest.mark.parametrize("out_type", ["A1", "E", "2*A1 + E", "regular + E"])
def test_outputs_move_with_the_image(group: str, out_type: str) -> None:
    net = lively(models.unet(2, 1, out_type, group=group))
    st.testing.assert_equivariant(net, size=16, tolerance=1e-12)
    assert st.typecheck(net) == net.out_type == st.FieldType(net.group, out_type)


@pytest.mark.parametrize(
    ("group", "stream", "inner", "in_type"),
    [
        ("D4", "regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E", "3*A1"),
        ("D4", "A1 + A2 + B1 + B2 + 2*E", None, "A1 + E"),
        ("D4", "A1", None, "A1"),
        ("C4", "regular + E", "A + B + E", "E"),
        ("D1", "regular + A2", "regular", "2*A1 + A2"),
    ],
)
def test_any_mix_and_any_input(group: str, stream: str, inner: str | None, in_type: str) -> None:
    net = lively(models.unet(1, 2, "A1", group=group, stream=stream, inner=inner, in_type=in_type))
    st.testing.assert_equivariant(net, size=16, tolerance=1e-12)
    assert st.typecheck(net) == net.out_type


@pytest.mark.parametrize(
    ("group", "axes", "subgroup"), [("C8", 2, "C4"), ("SO2", 2, "C8"), ("O2", 2, "D4"), ("SO3", 3, "O")]
)
def test_off_the_grid_maps_are_enlarged_by_interpolation(group: str, axes: int, subgroup: str) -> None:
    """Transposed convolutions of C8 change their answer to a turn by 45° by 0.9 of it, these by 0.02."""
    net = models.unet(1, 1, "A", group=group, axes=axes, in_channels=1).double().eval()
    assert net.interpolates
    st.testing.assert_equivariant(net, size=8, elements=net.group.grid_elements[:4], tolerance=1e-12)
    larger = net.upsamplers[0]
    element = net.group.rotation(45) if axes == 2 else net.group.rotation("x", 45)
    assert st.testing.equivariance_error(larger, elements=[element])[0] < 0.08
    assert st.typecheck(net, size=8) == net.out_type
    smaller, x = net.restrict(subgroup), torch.randn(1, 1, *(8,) * axes, dtype=torch.float64)
    assert torch.allclose(smaller(x), net(x), atol=1e-12)
    assert torch.allclose(snn.to_plain(net)(x), net(x), atol=1e-12)


def test_images_need_not_be_square() -> None:
    net = lively(models.unet(2, 1, "E"))
    st.testing.assert_equivariant(net, size=(8, 20), tolerance=1e-12)


def test_the_output_depends_on_what_is_far_away() -> None:
    """The lower levels count: a pixel is heard of outside the reach of the 3×3 convolutions at full size.

    With large shifts in all norms no ReLU is ever at rest. The network is then linear near x, and its slope is a
    polynomial in the weights, which is zero for a null set of them only; with ReLUs at rest it can be zero by chance.
    """
    torch.manual_seed(0)
    net = models.unet(2, 1, "A1", in_channels=1).double()
    for module in net.modules():
        if isinstance(module, snn.BatchNorm2d):
            assert module.bias is not None
            torch.nn.init.constant_(module.bias, 100.0)
            module.momentum = None  # the statistics of the one batch below
    net.train()(torch.randn(4, 1, 32, 32, dtype=torch.float64))
    net.eval()
    x = torch.randn(1, 1, 32, 32, dtype=torch.float64, requires_grad=True)
    net(x)[0, 0, 16, 16].backward()
    assert x.grad is not None
    assert x.grad[0, 0, 16, :8].abs().max() > 0


def test_a_plain_copy_computes_the_same() -> None:
    net = lively(models.unet(2, 1, "A1 + E", stream="regular + qm + E"))
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    plain = snn.to_plain(net)
    assert not any(isinstance(module, snn.EquivariantModule) for module in plain.modules())
    with torch.no_grad():
        torch.testing.assert_close(plain(x), net(x), rtol=1e-12, atol=1e-12)
    with pytest.raises(ValueError, match="multiples of 4"):
        plain(torch.zeros(1, 3, 18, 16, dtype=torch.float64))


def test_the_plain_one_has_the_same_layout_and_the_nearest_size() -> None:
    for wanted in (20_000, 300_000):
        width = models.plain_unet_width(2, wanted, out_channels=5, in_channels=1)
        counts = [
            sum(p.numel() for p in models.plain_unet(2, w, 5, in_channels=1).parameters())
            for w in (width - 1, width, width + 1)
        ]
        assert abs(counts[1] - wanted) == min(abs(count - wanted) for count in counts)
    # Without symmetry the two are one network.
    steerable, plain = snn.to_plain(models.unet(2, 5, "3*A", group="C1")), models.plain_unet(2, 5, 3)
    shapes = [sorted(tuple(p.shape) for p in net.parameters()) for net in (steerable, plain)]
    assert shapes[0] == shapes[1]


@pytest.mark.parametrize("name", ["unet", "plain_unet"])
@pytest.mark.parametrize(
    ("shape", "message"),
    [
        ((1, 3, 30, 32), r"depth=3 halves .* multiples of 8; got height 30. Pad it by 1 on each side.* 24 or 32"),
        ((1, 3, 32, 33), "got width 33. Resize it to 32 or 40; an odd size cannot be padded evenly on both sides"),
        ((1, 3, 4, 8), "got height 4. Pad it by 2 on each side.* or resize it to 8;"),
        ((1, 3, 0, 8), "got height 0"),
        ((1, 2, 8, 8), r"expected a tensor of shape \(batch, 3, height, width\), got \(1, 2, 8, 8\)"),
        ((3, 8, 8), r"Add a batch dimension with x.unsqueeze\(0\)"),
    ],
)
def test_sizes_that_do_not_fit_are_refused(name: str, shape: tuple[int, ...], message: str) -> None:
    net = models.build_model(name, depth=3)
    with pytest.raises(ValueError, match=message):
        net(torch.zeros(shape))


def test_the_padding_that_the_message_names_is_exact() -> None:
    net = lively(models.unet(2, 1, "E"))

    def padded(x: torch.Tensor) -> torch.Tensor:
        y: torch.Tensor = net(torch.nn.functional.pad(x, (1, 1, 1, 1)))
        return y[..., 1:-1, 1:-1]

    x = torch.randn(2, 3, 14, 14, dtype=torch.float64)
    st.testing.assert_equivariant(padded, x, in_type=net.in_type, out_type=net.out_type)


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"depth": 0}, ValueError, "depth says how often the image is halved, a whole number ≥ 1; got 0"),
        ({"depth": True}, ValueError, "a whole number ≥ 1; got True"),
        ({"depth": 20}, ValueError, "at most 10 times; got 20, for images whose sides are multiples of 1,048,576"),
        ({"copies": 0}, ValueError, "copies of each capsule must be a whole number ≥ 1, got 0"),
        ({"out_type": "2*A7"}, ValueError, "unknown capsule `A7` of D4"),
        ({"out_type": "0"}, ValueError, "out_type is `0`, which has no channels"),
        ({"out_type": "A2", "stream": "A1"}, ValueError, "`A2`, but there is no equivariant 3×3 filter to it"),
        ({"in_type": "E", "in_channels": 2}, ValueError, "takes in_type or in_channels, got both, 'E' and 2"),
        ({"in_channels": 0}, ValueError, "in_type is `0\\*A1`, which has no channels"),
        ({"out_type": st.FieldType(D4, "E")}, TypeError, r"takes out_type as text .* got FieldType. The function unet"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        models.build_model("unet", **options)


def test_types_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(TypeError, match="the types belong to D4 and C4, but a network is equivariant to one group"):
        models.unet(in_type=st.FieldType(D4, "A1"), out_type=st.FieldType(C4, "A"))
    with pytest.raises(TypeError, match="the types belong to C4 and D4"):
        models.unet(out_type=st.FieldType(C4, "A"), group="D4")
    own = st.FieldType(D4, "mine", capsules=[st.Capsule(D4.irrep("E") + D4.irrep("A1"), "mine")])
    with pytest.raises(TypeError, match="out_type `mine` of D4 cannot be read back from text"):
        models.unet(out_type=own)
    with pytest.raises(TypeError, match="expected a group or its name, such as 'D4', got int 4"):
        models.unet(group=4)  # type: ignore[arg-type]
    impostor = st.FiniteGroup(C4.elements, C4.table, name="D4")
    with pytest.raises(TypeError, match="called D4 but is not the library's own D4"):
        models.unet(group=impostor)
