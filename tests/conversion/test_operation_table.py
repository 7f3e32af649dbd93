"""``typecheck`` and ``convert`` know torch's operations from one table: what is no row of it is known to neither."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable.checking import EquivarianceError, operations
from steerable.checking.operation_lookup import OperationTable, Row, row
from steerable.checking.operations import OPERATIONS, ROWS
from steerable.checking.value_rules import nonlinearity
from steerable.conversion import ConversionError
from steerable.conversion.counterparts import COUNTERPARTS
from steerable.conversion.function_calls import FUNCTION_READERS
from steerable.conversion.layer_calls import LAYER_READERS

D4 = st.dihedral(4)
REGULAR = st.FieldType(D4, "2*regular")


class Applied(nn.Module):
    """A function or a layer behind a convolution."""

    def __init__(self, function: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.function = nn.Conv2d(3, 16, 3), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.conv(x))


def without(name: str) -> list[Row]:
    """The rows that do not have this operation."""
    return [(words, known) for words, known in ROWS if name not in {w.partition(":")[0] for w in words.split()}]


def test_the_table_says_what_convert_makes_of_an_operation_and_convert_can_make_it() -> None:
    words = {known.becomes for known in OPERATIONS.values()} - {""}
    assert words == {*FUNCTION_READERS, *LAYER_READERS, *COUNTERPARTS, "new tensor"}


def test_a_layer_stands_in_one_row_only() -> None:
    layers = [layer for known in OPERATIONS.values() for layer in known.layers]
    assert len(layers) == len(set(layers))


@pytest.mark.parametrize(
    ("name", "function"),
    [
        ("relu", F.relu), ("relu", nn.ReLU()), ("abs", torch.abs), ("pow", lambda x: x**2), ("add", lambda x: x + x),
        ("add", lambda x: x.add_(1)), ("mul", lambda x: 2 * x), ("truediv", lambda x: x / 2), ("neg", lambda x: -x),
        ("neg", torch.neg), ("clone", torch.clone), ("clone", nn.Identity()), ("cat", lambda x: torch.cat([x, x], 1)),
        ("max_pool2d", lambda x: F.max_pool2d(x, 2)), ("max_pool2d", nn.MaxPool2d(2)), ("pad", nn.ZeroPad2d(1)),
        ("adaptive_avg_pool2d", nn.AdaptiveAvgPool2d(1)), ("mean", lambda x: x.mean((2, 3))),
        ("softmax", nn.Softmax(1)), ("amax", lambda x: x.amax((2, 3))), ("interpolate", nn.Upsample(scale_factor=2)),
        ("dropout", nn.Dropout()),
        ("flatten", nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten())), ("batch_norm", nn.BatchNorm2d(16)),
        ("group_norm", nn.GroupNorm(2, 16)), ("getitem", lambda x: x.mean((2, 3))[:, :, None, None]),
        ("view", lambda x: x.view(x.shape[0], 16, -1).mean(2)), ("conv_transpose2d", nn.ConvTranspose2d(16, 8, 2, 2)),
        ("permute", lambda x: x.permute(0, 2, 3, 1).permute(0, 3, 1, 2)), ("conv2d", nn.Conv2d(16, 8, 1)),
    ],
)  # fmt: skip
def test_convert_knows_an_operation_from_its_row_alone(
    name: str, function: Callable[[Tensor], Tensor], monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Applied(function).eval()
    net = st.convert(model, D4)
    assert net(torch.zeros(1, 3, 34, 34)).shape == model(torch.zeros(1, 3, 34, 34)).shape
    monkeypatch.setattr(operations, "_TABLE", OperationTable(without(name)))
    with pytest.raises(ConversionError):
        st.convert(model, D4)


ARGUMENTS = {"pow": (3,), "threshold": (0.1, 0.2), "clamp": (-0.5, 0.7), "clip": (-0.5,)}
ARGUMENTS |= {"clamp_min": (0.1,), "clamp_max": (0.1,)}
ACTIVATIONS = sorted(name for name, known in OPERATIONS.items() if known.becomes == "activation" and not known.weights)


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_functions_of_single_values_are_known_to_both(name: str) -> None:
    function: Any = getattr(torch, name, None) or getattr(F, name)
    model = Applied(lambda x: function(x, *ARGUMENTS.get(name, ())))
    assert st.typecheck(model.function, REGULAR) == REGULAR
    net = st.convert(model, D4, out_type=REGULAR)
    x = net.net.get_submodule("conv")(torch.randn(2, 3, 9, 9))
    torch.testing.assert_close(net.net.get_submodule(name)(x), model.function(x), equal_nan=True)
    again = pickle.loads(pickle.dumps(st.nn.to_plain(net.net.get_submodule(name))))
    torch.testing.assert_close(again(x), model.function(x), equal_nan=True)


def test_a_new_row_is_understood_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Applied(torch.erfc)
    rows = without("erfc")  # whether or not the table has got it
    monkeypatch.setattr(operations, "_TABLE", OperationTable(rows))
    with pytest.raises(EquivarianceError, match="`erfc` is not known to be equivariant"):
        st.typecheck(torch.erfc, REGULAR)
    with pytest.raises(ConversionError, match=r"`erfc` in .*it is not known to be equivariant"):
        st.convert(model, D4)
    erfc = row("erfc", nonlinearity("pointwise"), "input, *, out=None", becomes="activation")
    monkeypatch.setattr(operations, "_TABLE", OperationTable([*rows, erfc]))
    assert st.typecheck(torch.erfc, REGULAR) == REGULAR
    with pytest.raises(EquivarianceError, match="is not admissible for capsule `E`"):
        st.typecheck(torch.erfc, st.FieldType(D4, "E"))
    net = st.convert(model, D4)
    assert "Pointwise(erfc) " in str(net.report)
    st.testing.assert_equivariant(net)
    with pytest.raises(ConversionError, match=r"`erfc` in .*the function is not odd"):
        st.convert(Applied(torch.erfc), D4, mix="E", out_type="8*E")


def test_a_layer_comes_and_goes_with_its_row(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Applied(nn.Hardshrink())
    without_it = without("hardshrink")
    monkeypatch.setattr(operations, "_TABLE", OperationTable(without_it))
    with pytest.raises(ConversionError, match=r"no layer of steerable.nn does the same"):
        st.convert(model, D4)
    with pytest.raises(EquivarianceError, match="`hardshrink` is not known to be equivariant"):
        st.typecheck(nn.Hardshrink(), REGULAR)
    hardshrink = row("hardshrink:Hardshrink", nonlinearity("odd"), "input, lambd=0.5", becomes="activation")
    monkeypatch.setattr(operations, "_TABLE", OperationTable([*without_it, hardshrink]))
    st.testing.assert_equivariant(st.convert(model, D4))
    assert st.typecheck(nn.Hardshrink(), REGULAR) == REGULAR
