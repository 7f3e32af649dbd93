"""What is chosen for a network can be written down, and told to another one: it then repeats the first bit for bit."""

from __future__ import annotations

import json

import pytest
import torch
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.nn.backends.fourier import execution

pytest.importorskip("numba")

D4 = st.dihedral(4)
TYPES = st.FieldType(D4, "3*A1"), st.FieldType(D4, "2*regular + qm"), st.FieldType(D4, "regular + E")
SETTLED = {
    "0": "dense/turned/fourier[numba]/dense",
    "2": "fourier[numba]/fourier[numba]/fourier[numba]/dense",
    "4": "padded/dense/turned/padded",
    "5": "dense/dense/dense/dense",
}


def network() -> nn.Sequential:
    first, second, third = TYPES
    return nn.Sequential(
        snn.Conv2d(first, second, 3, padding=1),
        snn.ReLU(second),
        snn.Conv2d(second, second, 3, padding=1),
        snn.ReLU(second),
        snn.Conv2d(second, third, 3),
        snn.Conv2d(third, third, 2, stride=2),
    )


def results(net: nn.Module) -> list[Tensor]:
    """The output, all gradients, and the output without gradients."""
    x = torch.linspace(-1, 1, 2 * 3 * 64).view(2, 3, 8, 8).requires_grad_()
    y = net(x)
    gradients = torch.autograd.grad(y.square().sum(), [x, *net.parameters()])
    with torch.no_grad():
        return [y, *gradients, net(x)]


def test_a_record_survives_json_and_repeats_every_bit() -> None:
    first, second = network(), network()
    second.load_state_dict(first.state_dict())
    snn.use_backends(first, SETTLED)
    record = json.loads(json.dumps(snn.recorded_backends(first)))
    assert record == SETTLED
    snn.use_backends(second, record)
    assert snn.recorded_backends(second) == SETTLED
    for a, b in zip(results(first), results(second), strict=True):
        assert torch.equal(a, b)
    assert [layer.backend for layer in second if isinstance(layer, snn.Conv2d)] == [
        "dense",
        "fourier",
        "dense",
        "dense",
    ]


def test_what_is_not_settled_is_auto() -> None:
    net = network()
    assert set(snn.recorded_backends(net).values()) == {"auto"}
    snn.use_backends(net, SETTLED)
    snn.use_backends(net, dict.fromkeys(SETTLED, "auto"))
    assert all(layer.backend == "auto" for layer in net if isinstance(layer, snn.Conv2d))


def test_a_name_that_a_layer_cannot_follow_is_recorded_as_what_happens() -> None:
    strided = snn.Conv2d(TYPES[1], TYPES[2], 2, stride=2, backend="fourier")
    assert snn.recorded_backends(strided) == {"": "dense/dense/dense/dense"}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"7": "auto"}, "name a layer `7`, which is not a convolution of this network"),
        ({"2": None}, "say nothing about `2`; expected one text for each convolution"),
        (
            {"2": ""},
            "layer `2`: the recorded backend '' cannot be read; expected 'auto' or the backends of the forward pass",
        ),
        ({"2": "dense"}, "cannot be read"),
        ({"2": "dense/dense/dense"}, "cannot be read"),
        ({"2": "dense/dense/dense/turned"}, "cannot be read"),
        ({"2": "furier/dense/dense/dense"}, "cannot be read"),
        ({"2": "padded/dense/fourier[numba]/dense"}, "cannot be read"),
        ({"5": "fourier[numba]/dense/dense/dense"}, "does not support this convolution: it has stride (2, 2)"),
        (
            {"2": "fourier[triton]/dense/dense/dense"},
            "names `fourier[triton]`, but here, on cpu, it would be `fourier[numba]`, which rounds differently",
        ),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_nothing_changes(change: dict[str, str | None], message: str) -> None:
    net, record = network(), {name: text for name, text in (SETTLED | change).items() if text is not None}
    with pytest.raises(ValueError, match="recorded") as error:
        snn.use_backends(net, record)
    assert message in str(error.value)
    assert set(snn.recorded_backends(net).values()) == {"auto"}


def test_a_convolution_by_itself_has_no_name_and_what_it_cannot_follow_comes_with_a_way_on() -> None:
    strided = snn.Conv2d(TYPES[1], TYPES[2], 2, stride=2)
    with pytest.raises(ValueError, match=r"^the recorded backend .* Use a record of the same network, or choose"):
        snn.use_backends(strided, {"": "/".join(4 * ["fourier[numba]"])})


def test_without_numba_a_record_that_needs_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "numba_available", lambda: False)
    with pytest.raises(ValueError, match="Install the library that is named in brackets") as error:
        snn.use_backends(network(), SETTLED)
    assert "would be `fourier[torch]`" in str(error.value)
    layer = snn.Conv2d(*TYPES[:2], 3, backend="fourier")
    assert snn.recorded_backends(layer) == {"": "/".join(4 * ["fourier[torch]"])}
