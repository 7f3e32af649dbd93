"""Layers with windows, over all subgroups of the pixel grid's group, mirrors in diagonals included.

Whatever the kernel, stride, padding, dilation and size: a layer refuses them, or warns, or is exactly equivariant.
"""

from __future__ import annotations

import math
import os
import warnings
from collections.abc import Callable

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st_
from torch import Tensor

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import EquivariantModule
from steerable.nn.geometry import numbers_per_axis

D4 = st.dihedral(4)
GROUPS: dict[str, FiniteGroup] = {
    "e-m": D4.subgroup(["e", "m"]),
    "e-mr": D4.subgroup(["e", "mr"]),  # these exchange height and width, and only one of them turns them around
    "e-mr2": D4.subgroup(["e", "mr2"]),
    "e-mr3": D4.subgroup(["e", "mr3"]),
    "diagonals": D4.subgroup(["e", "r2", "mr", "mr3"]),
    "C1": st.trivial(),
    "C2": st.cyclic(2),
    "C4": st.cyclic(4),
    "D2": st.dihedral(2),
    "D4": D4,
}
EXAMPLES = int(os.environ.get("STEERABLE_WINDOW_EXAMPLES", "30"))  # of each layer and group; more by hand

Draw = Callable[[st_.SearchStrategy[object]], object]


def numbers(low: int, high: int) -> st_.SearchStrategy[object]:
    """Mostly one for both axes, else one for each."""
    one = st_.integers(low, high)
    return st_.one_of(one, one, one, st_.tuples(one, one))


def convolution(draw: Draw, t: FieldType) -> EquivariantModule:
    mode = draw(st_.sampled_from(["zeros", "reflect", "replicate", "circular"]))
    options = {"stride": numbers(1, 3), "padding": numbers(0, 2), "dilation": numbers(1, 2)}
    return snn.Conv2d(
        t, t, draw(numbers(1, 4)), **{name: draw(values) for name, values in options.items()}, padding_mode=mode
    )  # type: ignore[arg-type]


def transposed(draw: Draw, t: FieldType) -> EquivariantModule:
    stride = draw(numbers(1, 3))
    extra = st_.integers(
        0, 1 if stride == 1 else max(numbers_per_axis(stride, "stride", 2, minimum=1)) - 1
    )  # 1: torch refuses it
    options = {"padding": numbers(0, 2), "dilation": numbers(1, 2), "output_padding": st_.tuples(extra, extra)}
    return snn.ConvTranspose2d(
        t, t, draw(numbers(1, 4)), stride, **{name: draw(values) for name, values in options.items()}
    )  # type: ignore[arg-type]


def pool(kind: type[EquivariantModule]) -> Callable[[Draw, FieldType], EquivariantModule]:
    return lambda draw, t: kind(t, draw(numbers(1, 4)), draw(st_.none() | numbers(1, 3)), draw(numbers(0, 2)))  # type: ignore[arg-type]


LAYERS: dict[str, Callable[[Draw, FieldType], EquivariantModule]] = {
    "Conv2d": convolution,
    "ConvTranspose2d": transposed,
    "AvgPool2d": pool(snn.AvgPool2d),
    "MaxPool2d": pool(snn.MaxPool2d),
    "NormMaxPool2d": pool(snn.NormMaxPool2d),
    "BlurPool2d": lambda draw, t: snn.BlurPool2d(t, draw(numbers(1, 5)), draw(numbers(1, 3))),  # type: ignore[arg-type]
    "AdaptiveAvgPool2d": lambda draw, t: snn.AdaptiveAvgPool2d(t, draw(numbers(1, 4))),  # type: ignore[arg-type]
    "AdaptiveMaxPool2d": lambda draw, t: snn.AdaptiveMaxPool2d(t, draw(numbers(1, 4))),  # type: ignore[arg-type]
    "Upsample": lambda draw, t: snn.Upsample(
        t,
        draw(st_.integers(1, 3)),  # type: ignore[arg-type]
        *draw(st_.sampled_from([("nearest",), ("bilinear",), ("bilinear", True)])),  # type: ignore[misc]
    ),
}


def error_of(layer: EquivariantModule, x: Tensor) -> float:
    """The largest difference between f(π(g)x) and π(g)f(x); infinite where their sizes differ."""
    y = layer(x)
    worst = 0.0
    for g in layer.in_type.group.elements:
        moved, expected = layer(st.transform(x, g, layer.in_type)), st.transform(y, g, layer.out_type)
        if moved.shape != expected.shape:
            return math.inf
        worst = max(worst, float((moved - expected).abs().max()) if y.numel() else 0.0)
    return worst


def outcome(make: Callable[[], EquivariantModule], x: Tensor) -> tuple[EquivariantModule | None, str | float]:
    """The layer and the error on x, or the words with which one of them was refused."""
    try:
        layer = make().double().eval()
    except (TypeError, ValueError) as refusal:
        return None, str(refusal)
    try:
        return layer, error_of(layer, x)
    except (ValueError, RuntimeError) as refusal:
        return layer, str(refusal)


def refused_by_torch(layer: EquivariantModule, x: Tensor) -> bool:
    """Whether torch's own layer does not take it either: nothing comes out, or the padding is larger than the image."""
    try:
        snn.to_plain(layer)(x)
    except RuntimeError:
        return True
    return False


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("kind", LAYERS)
@settings(max_examples=EXAMPLES, deadline=None, derandomize=True, database=None)
@given(data=st_.data())
def test_a_window_is_refused_or_warned_of_or_exactly_equivariant(kind: str, name: str, data: st_.DataObject) -> None:
    group = GROUPS[name]
    size = data.draw(st_.tuples(st_.integers(1, 9), st_.integers(1, 9)))
    field_type = FieldType(group, "A1 + regular" if group.order > 1 else "2*A1")
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(1, field_type.channels, *size, generator=generator, dtype=torch.float64)
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        torch.manual_seed(0)
        layer, found = outcome(lambda: LAYERS[kind](data.draw, field_type), x)
    if isinstance(found, str):
        assert layer is None or kind in found or refused_by_torch(layer, x), found
        return
    assert all(w.category is snn.EquivarianceWarning for w in caught), [str(w.message) for w in caught]
    if not caught:
        assert found < 1e-12, (layer, size)
    elif min(size) > 3:  # a few pixels may be symmetric by chance
        assert found > 1e-6, f"a false alarm of {layer} on {name}, {size}: {caught[0].message}"


@pytest.mark.parametrize("name", GROUPS)
@pytest.mark.parametrize("output_padding", [0, 1, (1, 0), (0, 1)])
def test_output_padding_over_every_subgroup(name: str, output_padding: int | tuple[int, int]) -> None:
    """Rows are added below and columns on the right: only the mirror in the main diagonal takes one to the other."""
    field_type = FieldType(GROUPS[name], "A1")
    x = torch.randn(1, 1, 4, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with warnings.catch_warnings(record=True) as caught, torch.no_grad():
        warnings.simplefilter("always")
        layer = snn.ConvTranspose2d(field_type, field_type, 3, 2, 1, output_padding=output_padding).double()
        error = error_of(layer, x)
    exact = output_padding == 0 or name == "C1" or (name == "e-mr3" and output_padding == 1)
    exact = exact or (name == "e-m" and output_padding == (1, 0)) or (name == "e-mr2" and output_padding == (0, 1))
    assert (not caught) == exact == (error < 1e-12)
    if not exact:
        options = {"output_padding": output_padding, "strict": True}
        with pytest.raises(ValueError, match="ConvTranspose2d with output_padding=") as refused:
            snn.ConvTranspose2d(field_type, field_type, 3, 2, 1, **options)  # type: ignore[arg-type]
        assert str(refused.value) == str(caught[0].message)


def test_the_message_of_the_diagonal_mirror_says_what_it_exchanges() -> None:
    A1 = FieldType(GROUPS["e-mr3"], "A1")
    with pytest.warns(snn.EquivarianceWarning) as caught:
        snn.ConvTranspose2d(A1, A1, 3, 2, 1, output_padding=(1, 0))
    assert [str(w.message) for w in caught] == [
        f"ConvTranspose2d with output_padding=(1, 0) is not exactly equivariant to {A1.group.name}: the group "
        "exchanges height and width. To double a size use kernel_size=4, stride=2, padding=1."
    ]
    assert caught[0].filename == __file__
