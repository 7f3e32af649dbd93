"""Layers take types as text with the name of a group, and say what is wrong with what they are given."""

from __future__ import annotations

import importlib
import inspect
import pickle
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
IMAGE, WIDE = FieldType(D4, "3*A1"), FieldType(D4, "2*regular")
layers: Any = snn  # whose signatures, for type checkers, have types as values only

# Each layer that takes types, with the arguments that follow them.
ONE_TYPE: dict[str, tuple[Any, ...]] = {
    "AvgPool2d": (2,),
    "MaxPool2d": (2,),
    "NormMaxPool2d": (2,),
    "BlurPool2d": (),
    "BatchNorm2d": (),
    "InstanceNorm2d": (),
    "LayerNorm": (),
    "ReLU": (),
    "ELU": (),
    "CReLU": (),
    "NormReLU": (),
    "Gated": (),
    "Activation": (),
    "Dropout": (),
    "Dropout2d": (),
    "GlobalAvgPool": (),
    "GlobalMaxPool": (),
    "AdaptiveAvgPool2d": (2,),
    "AdaptiveMaxPool2d": (2,),
    "GroupPool": (),
    "CosetPool": (["e", "r2"],),
    "Identity": (),
    "Select": ([1, 0],),
    "Restrict": ("C4",),
    "ToIrreps": (),
    "FromIrreps": (),
    "Upsample": (2,),
    "DiskMask": (8,),
}
TWO_TYPES: dict[str, tuple[Any, ...]] = {"Conv2d": (3,), "ConvTranspose2d": (4, 2, 1), "Linear": ()}


@pytest.mark.parametrize("group", ["D4", D4], ids=["by name", "as a value"])
@pytest.mark.parametrize("name", ONE_TYPE)
def test_a_layer_takes_the_text_of_its_type(name: str, group: object):
    make, rest = getattr(layers, name), ONE_TYPE[name]
    written, expected = make("2*regular", *rest, group=group), make(WIDE, *rest)
    assert (written.in_type, written.out_type) == (expected.in_type, expected.out_type)
    assert repr(written) == repr(expected)


@pytest.mark.parametrize("name", TWO_TYPES)
def test_a_linear_layer_takes_the_text_of_both_types_or_of_one(name: str):
    make, rest = getattr(layers, name), TWO_TYPES[name]
    for first, second in (("3*A1", "2*regular"), (IMAGE, "2*regular"), ("3*A1", WIDE)):
        given = {"group": "D4"} if isinstance(first, str) and isinstance(second, str) else {}
        layer = make(first, second, *rest, **given)
        assert (layer.in_type, layer.out_type) == (IMAGE, WIDE)
    by_keyword = make(in_type="3*A1", out_type="2*regular", group="D4", **({} if name == "Linear" else _kernel(rest)))
    assert (by_keyword.in_type, by_keyword.out_type) == (IMAGE, WIDE)


def _kernel(rest: tuple[Any, ...]) -> dict[str, Any]:
    return dict(zip(("kernel_size", "stride", "padding"), rest, strict=False))


def test_types_in_other_places_are_read_too():
    assert layers.GroupNorm(2, "2*regular", group="D4").in_type == WIDE
    assert layers.Concat(["3*A1", "regular"], group="D4").out_type == FieldType(D4, "3*A1 + regular")
    assert layers.Concat([IMAGE, "regular"]).out_type == FieldType(D4, "3*A1 + regular")


def test_a_layer_of_the_users_own_reads_types_as_well():
    class Mine(snn.EquivariantModule):
        def __init__(self, text: str) -> None:
            base: Any = super().__init__
            base(text, text, group="C4")

        def forward(self, x: Tensor) -> Tensor:
            return x

    assert Mine("2*regular").in_type == FieldType("C4", "2*regular")


def test_a_layer_that_was_written_as_text_pickles_and_shows_the_keyword_in_its_signature():
    layer = layers.Conv2d("3*A1", "2*regular", 3, group="D4")
    again = pickle.loads(pickle.dumps(layer))
    torch.testing.assert_close(again.weight, layer.weight)
    assert "group" in inspect.signature(snn.Conv2d).parameters
    assert "group" in inspect.signature(snn.ReLU).parameters


def test_a_field_type_takes_the_name_of_its_group():
    assert FieldType("D4", "2*regular") == WIDE
    assert FieldType("SO2", "2*regular(2)") == FieldType(st.so2(), "2*regular(2)")
    with pytest.raises(ValueError, match="there is no group called 'd4'"):
        FieldType("d4", "regular")


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: layers.Conv2d("3*A1", "2*regular", 3), r"got in_type as text, '3\*A1'.* Name the group"),
        (lambda: layers.Conv2d("3*A1", "2*regular", 3, group="Q8"), "there is no group called 'Q8'"),
        (
            lambda: layers.Conv2d("3*A1", "2*regular", 3, group=4),
            "group=... as a group or its name, such as 'D4'; got 4",
        ),
        (lambda: layers.Conv2d("3*A1", "2*regul", 3, group="D4"), "Did you mean `regular`"),
        (lambda: layers.Conv2d(IMAGE, WIDE, 3, group="C4"), "type of D4, `3\\*A1`, and group=C4"),
        (lambda: layers.Conv2d(3, 16, 3), "takes a FieldType as in_type, got int 3.* a number of channels does not"),
        (lambda: layers.MaxPool2d(2), "MaxPool2d takes a FieldType as field_type, got int 2.*`out_type` of the layer"),
        (lambda: layers.AvgPool2d(kernel_size=2), "AvgPool2d needs field_type"),
        (lambda: layers.ReLU(), "ReLU needs field_type, the type of its field"),
        (lambda: layers.BatchNorm2d(16), "BatchNorm2d takes a FieldType as field_type, got int 16"),
        (lambda: layers.Concat(IMAGE, WIDE), "takes 2 positional arguments"),
        (lambda: layers.Concat([3, WIDE]), "Concat takes a FieldType as in_types, got int 3"),
    ],
)
def test_what_is_no_type_is_refused_with_the_remedy(build: Any, message: str):
    with pytest.raises((TypeError, ValueError), match=message):
        build()


@pytest.mark.parametrize("make", [lambda: snn.Conv2d(IMAGE, WIDE, 3), lambda: snn.ConvTranspose2d(IMAGE, WIDE, 2, 2)])
def test_maps_of_another_dtype_are_refused_before_torch_meets_them(make: Any):
    layer = make()
    x = torch.zeros(1, 3, 8, 8)
    for wrong, message in (
        (x.numpy(), "got a NumPy array. Convert it with `torch.as_tensor"),
        ((255 * x).numpy().astype(np.uint8), r"\.float\(\) / 255"),
        (x.byte(), r"`x.float\(\) / 255`"),
        (x.double(), r"torch.float32, the dtype of its parameters, got one of torch.float64.*`x.to\(torch.float32\)`"),
        (x.half(), "torch.autocast\\('cpu'\\)"),
        ([x], "got list. Make a tensor"),
        (x.permute(0, 2, 3, 1), r"x.permute\(0, 3, 1, 2\)"),
        (x[0], r"x.unsqueeze\(0\)"),
    ):
        with pytest.raises((TypeError, ValueError), match=message):
            layer(wrong)
    with torch.autocast("cpu"):
        assert layer(x.bfloat16()).dtype == torch.bfloat16
    assert layer.double()(x.double()).dtype == torch.float64


def test_a_linear_layer_on_a_map_says_what_to_do():
    with pytest.raises(ValueError, match=r"snn.GlobalAvgPool\(2\*regular\).*snn.Conv2d\(2\*regular, 3\*A1, 1\)"):
        snn.Linear(WIDE, IMAGE)(torch.zeros(1, 16, 4, 4))
    with pytest.raises(TypeError, match=r"torch.float32, the dtype of its parameters, got one of torch.float64"):
        snn.Linear(WIDE, IMAGE)(torch.zeros(1, 16, dtype=torch.float64))


def test_a_warning_names_the_line_that_built_the_layer():
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        snn.Linear(FieldType(D4, "A1"), FieldType(D4, "A2"))
    assert [w.filename for w in caught] == [__file__]


@pytest.mark.parametrize(
    "name", ["", ".nn", ".models", ".data", ".training", ".checking", ".conversion", ".figures", ".filters", ".testing"]
)
def test_packages_show_public_names_only(name: str):
    module = importlib.import_module(f"steerable{name}")
    assert dir(module) == sorted(module.__all__)
    assert all(hasattr(module, public) for public in dir(module))
