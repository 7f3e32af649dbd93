"""Layers know which sizes keep a stride exactly equivariant: they warn of the others, of all of them and of no more."""

import copy
import re
import warnings
from collections.abc import Callable

import pytest
import torch

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.nn.sampling import EquivarianceWarning, axes_exchanged, axes_reversed, pads_alike
from steerable.testing import assert_equivariant, equivariance_error

D4 = st.dihedral(4)
GROUPS = {
    "D4": D4,
    "C4": st.cyclic(4),
    "D2": st.dihedral(2),
    "C2": st.cyclic(2),
    "D1": st.dihedral(1),
    "C1": st.trivial(),
    "e-m": D4.subgroup(["e", "m"]),
    "e-mr": D4.subgroup(["e", "mr"]),
    "e-mr2": D4.subgroup(["e", "mr2"]),
    "e-mr3": D4.subgroup(["e", "mr3"]),
}
LAYERS: dict[str, Callable[[FieldType], snn.EquivariantModule]] = {
    "conv3": lambda t: snn.Conv2d(t, t, 3, stride=2, padding=1),
    "conv4": lambda t: snn.Conv2d(t, t, 4, stride=2, padding=1),
    "conv3-dilated": lambda t: snn.Conv2d(t, t, 3, stride=3, padding=1, dilation=2),
    "conv1": lambda t: snn.Conv2d(t, t, 1, stride=2),
    "max2": lambda t: snn.MaxPool2d(t, 2),
    "max3": lambda t: snn.MaxPool2d(t, 3, 2, 1),
    "average": lambda t: snn.AvgPool2d(t, 3),
    "norm": lambda t: snn.NormMaxPool2d(t, 2),
    "blur4": lambda t: snn.BlurPool2d(t, 4),
    "blur3": lambda t: snn.BlurPool2d(t, 3),
}


def warned(layer: torch.nn.Module, x: torch.Tensor) -> list[str]:
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        layer(x)
    assert all(w.category is snn.EquivarianceWarning for w in caught)
    return [str(w.message) for w in caught]


def measured(layer: snn.EquivariantModule, x: torch.Tensor) -> float:
    with warnings.catch_warnings():  # of the turned image, whose sizes are exchanged
        warnings.simplefilter("ignore", snn.EquivarianceWarning)
        return st.testing.equivariance_error(copy.deepcopy(layer), x)


@pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
@pytest.mark.parametrize("make", LAYERS.values(), ids=LAYERS)
def test_a_layer_warns_exactly_where_equivariance_breaks(
    make: Callable[[FieldType], snn.EquivariantModule], group: st.FiniteGroup
) -> None:
    torch.manual_seed(0)
    field_type = FieldType(group, "regular")
    layer = make(field_type).double()
    for height, width in ((5, 5), (6, 6), (7, 7), (8, 8), (6, 7), (7, 6), (8, 6)):
        x = torch.randn(1, field_type.channels, height, width, dtype=torch.float64)
        messages = warned(layer, x)
        error = measured(layer, x)
        if not messages:
            assert error < 1e-12, (height, width)
            continue
        assert error > 1e-3, (height, width, messages)
        found = re.search(r"of (height|width) (\d+): .*Sizes that fit: (\d+)(?: or (\d+))? ", messages[0])
        assert found is not None
        axis, given, *fitting = found.groups()
        assert int(given) == (height if axis == "height" else width)
        for size in (int(n) for n in fitting if n is not None):
            fits = torch.randn(1, field_type.channels, size, size, dtype=torch.float64)
            assert warned(layer, fits) == []
            assert measured(layer, fits) < 1e-12


def test_the_message_names_layer_size_and_sizes_that_fit() -> None:
    A1 = FieldType(D4, "A1")
    assert warned(snn.Conv2d(A1, A1, 3, stride=2, padding=1), torch.zeros(1, 1, 6, 6)) == [
        "Conv2d is not exactly equivariant to D4 on inputs of height 6: with kernel 3, stride 2 and padding 1 the "
        "sampled grid is not symmetric. Sizes that fit: 5 or 7 (in general those with n - 1 divisible by 2). Or use "
        "stride 1 and AvgPool2d or BlurPool2d, or an even kernel on even sizes. The layer maps `A1` to `A1`."
    ]
    assert warned(snn.MaxPool2d(A1, 2), torch.zeros(1, 1, 8, 7)) == [
        "MaxPool2d is not exactly equivariant to D4 on inputs of width 7: with kernel 2, stride 2 and padding 0 the "
        "sampled grid is not symmetric. Sizes that fit: 6 or 8 (in general those with n - 2 divisible by 2). Or use "
        "adaptive pooling, whose windows are symmetric for any size. The layer maps `A1` to `A1`."
    ]
    assert warned(snn.BlurPool2d(A1), torch.zeros(1, 1, 7, 7)) == [
        "BlurPool2d is not exactly equivariant to D4 on inputs of height 7: with kernel 4, stride 2 and padding 1 "
        "the sampled grid is not symmetric. Sizes that fit: 6 or 8 (in general those with n - 2 divisible by 2). Or "
        "use filter_size=4 for even sizes and filter_size=3 for odd ones. The layer maps `A1` to `A1`."
    ]


def test_only_possible_sizes_are_named() -> None:
    A1 = FieldType(D4, "A1")
    (message,) = warned(snn.MaxPool2d(A1, 2, 2, padding=1), torch.zeros(1, 1, 1, 1))
    assert "Sizes that fit: 2 (in general those with n divisible by 2)." in message
    (message,) = warned(snn.Conv2d(A1, A1, 3, stride=4), torch.zeros(1, 1, 5, 5))
    assert "Sizes that fit: 3 or 7 (" in message
    (message,) = warned(snn.Conv2d(A1, A1, 1, stride=3, padding=1), torch.zeros(1, 1, 1, 1))
    assert "Sizes that fit: 2 (in general those with n + 1 divisible by 3)." in message
    (message,) = warned(snn.Conv2d(A1, A1, 1, stride=2), torch.zeros(1, 1, 2, 2))
    assert "Sizes that fit: 1 or 3 (in general those with n - 1 divisible by 2)." in message


def test_once_per_layer_and_size() -> None:
    A1 = FieldType(D4, "A1")
    one, other = snn.MaxPool2d(A1, 2), snn.MaxPool2d(A1, 2)
    seven, nine = torch.zeros(1, 1, 7, 7), torch.zeros(1, 1, 9, 9)
    eight, small = torch.zeros(1, 1, 8, 8), torch.zeros(1, 1, 1, 1)
    assert [len(warned(one, x)) for x in (eight, seven, seven, eight, nine, seven, nine)] == [0, 1, 0, 0, 1, 0, 0]
    for _ in range(2):  # what is refused is refused again
        with pytest.raises(ValueError, match="spans 2 pixels"):
            one(small)
    assert len(warned(other, seven)) == 1


def test_the_warning_points_at_the_call() -> None:
    layer = snn.MaxPool2d(FieldType(D4, "A1"), 2)
    with pytest.warns(snn.EquivarianceWarning) as caught:
        layer(torch.zeros(1, 1, 7, 7))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("make", [snn.MaxPool2d, snn.AvgPool2d, snn.NormMaxPool2d])
def test_strict_makes_it_an_error_every_time(make: type) -> None:
    layer = make(FieldType(D4, "A1"), 2, strict=True)
    for _ in range(2):
        with pytest.raises(ValueError, match=f"{make.__name__} is not exactly equivariant to D4 on inputs of height 7"):
            layer(torch.zeros(1, 1, 7, 7))
    assert layer(torch.zeros(1, 1, 8, 8)).shape == (1, 1, 4, 4)


def test_groups_that_do_not_act_on_images() -> None:
    with pytest.raises(ValueError, match="volumes") as error:
        snn.MaxPool3d(FieldType(st.dihedral(4), "regular"), 2)
    assert str(error.value) == (
        "MaxPool3d is a layer for volumes, but D4 acts on 2 dimensions. Use MaxPool2d, or a group of space, such as "
        "octahedral() or about_axis(dihedral(4), 'z')."
    )


@pytest.mark.parametrize(
    ("name", "reverses", "swaps"),
    [
        ("C3", (True, True), False),
        ("D3", (True, True), False),
        ("C6", (True, True), False),
        ("C8", (True, True), True),
        ("D1", (False, True), False),
    ],
)
def test_turns_off_the_grid_move_every_axis_that_they_turn(name: str, reverses: tuple[bool, bool], swaps: bool) -> None:
    group = st.group_named(name)
    assert axes_reversed(group) == reverses
    assert bool(axes_exchanged(group)) == swaps


def test_a_group_about_an_axis_leaves_that_axis_alone() -> None:
    assert axes_reversed(st.about_axis(st.cyclic(3)), 3) == (False, True, True)
    assert axes_reversed(st.about_axis(st.so2(), "x"), 3) == (True, True, False)
    assert pads_alike(st.about_axis(st.cyclic(5)), (1, 1, 2, 2, 0, 3))
    assert not pads_alike(st.about_axis(st.cyclic(5)), (1, 2, 1, 2, 0, 0))


WINDOWS: dict[str, Callable[[FieldType], snn.EquivariantModule]] = {
    "convolution": lambda t: snn.Conv2d(t, t, 2, 2),
    "average": lambda t: snn.AvgPool2d(t, 2),
    "maximum": lambda t: snn.MaxPool2d(t, 2),
    "blur": lambda t: snn.BlurPool2d(t, 4),
}


@pytest.mark.filterwarnings("ignore:Conv2d")
@pytest.mark.parametrize("name", ["C3", "D3", "C5", "C7"])
@pytest.mark.parametrize("make", WINDOWS.values(), ids=WINDOWS)
def test_windows_that_shift_the_centre_are_noticed_where_only_other_angles_move_it(
    make: Callable[[FieldType], snn.EquivariantModule], name: str
) -> None:
    """One pixel is left over, so that the result turns about another point: an error of half its size."""
    torch.manual_seed(0)
    layer = make(FieldType(name, "2*regular"))
    with pytest.warns(EquivarianceWarning, match=f"is not exactly equivariant to {name} on inputs of height 33"):
        errors = equivariance_error(layer, elements=["r"], size=33)
    assert errors.max() > 0.2
    assert_equivariant(layer)  # on a size that fits


OBLONG: dict[str, Callable[[FieldType], object]] = {
    "stride": lambda t: snn.Conv2d(t, t, 3, (1, 2)),
    "dilation": lambda t: snn.Conv2d(t, t, 3, dilation=(1, 2)),
    "kernel": lambda t: snn.AvgPool2d(t, (1, 2), 1),
    "filter": lambda t: snn.BlurPool2d(t, (3, 5), 1),
    "output": lambda t: snn.AdaptiveAvgPool2d(t, (1, 2)),
}


@pytest.mark.filterwarnings("ignore:Conv2d")
@pytest.mark.parametrize("name", ["C3", "C6", "D5"])
@pytest.mark.parametrize(("what", "make"), OBLONG.items())
def test_turns_by_other_angles_mix_height_and_width(what: str, make: Callable[[FieldType], object], name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} mixes height and width, so the {what} has one extent for both"):
        make(FieldType(name, "regular"))
