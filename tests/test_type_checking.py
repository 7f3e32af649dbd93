"""Typed tensors and typecheck: what passes is equivariant, what is refused is named with its line."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.type_checking import EquivarianceError, typed
from steerable.type_rules import RULES

G = st.dihedral(4)
IMAGE = st.FieldType(G, "3*A1")
STREAM = st.FieldType(G, "2*regular + qm")
VECTORS = st.FieldType(G, "2*E")
SCALARS = st.FieldType(G, "5*A1")

Function = Callable[[Tensor], Tensor]


def field(field_type: st.FieldType, size: int = 9) -> Tensor:
    return torch.randn(
        2, field_type.channels, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )


ADMITTED: list[tuple[str, st.FieldType, Function]] = [
    ("larger of two", STREAM, lambda x: torch.maximum(x, 2 * x)),
    ("symmetric clamp", VECTORS, lambda x: x.clamp(-1, 1)),
    ("axis", STREAM, lambda x: torch.cat([x[:, :8], x], axis=1).sum(axis=(-2, -1))),
    ("keywords", STREAM, lambda x: torch.add(input=x, other=x)),
    ("reciprocal", STREAM, lambda x: 1 / x),
    ("difference", VECTORS, lambda x: 2 * x - x),
    ("arithmetic", STREAM, lambda x: 2 * x - x / 3 + 1.5 - (-x)),
    ("in place", STREAM, lambda x: x.clone().add_(x).mul_(2)),
    ("scalar tensor", VECTORS, lambda x: x * torch.tensor(0.5)),
    ("relu", STREAM, F.relu),
    ("gelu", STREAM, F.gelu),
    ("tanh", VECTORS, torch.tanh),
    ("hardtanh", VECTORS, F.hardtanh),
    ("cube", VECTORS, lambda x: x**3),
    ("square", STREAM, lambda x: x**2),
    ("gate", st.FieldType(G, "A1 + E"), lambda x: torch.sigmoid(x[:, :1]) * x[:, 1:]),
    ("product", STREAM, lambda x: x * torch.sigmoid(x)),
    ("average pool", VECTORS, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("max pool", STREAM, lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("adaptive pool", VECTORS, lambda x: F.adaptive_avg_pool2d(x, 4)),
    ("upsampling", VECTORS, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    ("padding", VECTORS, lambda x: F.pad(x, (1, 1, 1, 1))),
    ("reflection padding", VECTORS, lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect")),
    ("mean of pixels", VECTORS, lambda x: x.mean((2, 3))),
    ("flatten", VECTORS, lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)),
    ("maximum of pixels", STREAM, lambda x: x.amax(dim=(-1, -2))),
    ("mean of channels", STREAM, lambda x: x.mean(1, keepdim=True)),
    ("softmax", STREAM, lambda x: x.softmax(1)),
    ("slice", STREAM, lambda x: x[:, 8:]),
    ("concatenation", STREAM, lambda x: torch.cat([x[:, :8], x], 1)),
    ("batches", STREAM, lambda x: torch.cat([x, x], 0)[:2]),
    ("1×1 convolution of scalars", SCALARS, nn.Conv2d(5, 3, 1).double()),
    ("batch norm of scalars", SCALARS, nn.BatchNorm2d(5).double().eval()),
    ("layer of the library", STREAM, snn.Conv2d(STREAM, VECTORS, 3).double()),
]


@pytest.mark.parametrize(("name", "in_type", "function"), ADMITTED, ids=[case[0] for case in ADMITTED])
def test_what_passes_is_equivariant_with_the_type_it_says(name: str, in_type: st.FieldType, function: Function) -> None:
    out_type = st.typecheck(function, in_type, size=9) if not isinstance(function, nn.Module) else None
    if out_type is None:
        out_type = st.typecheck(nn.Sequential(function), in_type, size=9)
    assert st.testing.equivariance_error(function, field(in_type), in_type=in_type, out_type=out_type) < 1e-12


REFUSED: list[tuple[str, st.FieldType, Function, str]] = [
    (
        "relu of signs",
        VECTORS,
        F.relu,
        "`relu` is not admissible for capsule `E`: its matrices are signed permutations. Use",
    ),
    ("constant on signs", VECTORS, lambda x: x + 1, "a constant was added to capsule `E`"),
    ("square of signs", VECTORS, lambda x: x**2, "is not admissible for capsule `E`"),
    ("relu6", VECTORS, lambda x: F.hardtanh(x, 0.0, 6.0), "is not admissible for capsule `E`"),
    ("max pool of signs", VECTORS, lambda x: F.max_pool2d(x, 3, 2, 1), "is not admissible for capsule `E`"),
    ("uneven stride", STREAM, lambda x: F.avg_pool2d(x, 2), "samples 9 pixels unevenly"),
    (
        "plain convolution",
        SCALARS,
        nn.Conv2d(5, 3, 3).double(),
        "a plain convolution of `5*A1` does not commute with D4",
    ),
    ("plain norm", STREAM, nn.BatchNorm2d(20).double(), "one by one, but the group moves them"),
    (
        "linear",
        STREAM,
        lambda x: F.linear(x.mean((2, 3)), torch.ones(3, 20)),
        "mixes the channels of `2*regular + qm`",
    ),
    ("untyped term", STREAM, lambda x: x + torch.ones_like(field(STREAM)), "nothing says how the other one transforms"),
    ("factors per channel", STREAM, lambda x: x * torch.ones(20, 1, 1), "break equivariance. Multiply by a number"),
    ("flattened pixels", STREAM, lambda x: x.flatten(1), "mixes pixels and channels"),
    ("torn capsule", STREAM, lambda x: x[:, :9], "channels 0 to 9 of `2*regular + qm` cut a capsule in two"),
    ("pixels", STREAM, lambda x: x[:, :, ::2, ::2], "slicing pixels samples the grid unevenly"),
    ("transposed image", STREAM, lambda x: x.transpose(2, 3), "`transpose` is not known to be equivariant"),
    ("equal capsules apart", STREAM, lambda x: torch.cat([x, x], 1), "leaves equal capsules apart"),
    ("lopsided padding", STREAM, lambda x: F.pad(x, (0, 1, 0, 0)), "is not symmetric"),
    ("mask", STREAM, lambda x: x > 0, "`gt` is not known to be equivariant"),
    ("oblong window", STREAM, lambda x: F.avg_pool2d(x, (1, 3), 1, (0, 1)), "D4 exchanges height and width"),
    ("oblong padding", STREAM, lambda x: F.pad(x, (1, 1, 2, 2)), "D4 exchanges height and width"),
    ("oblong output", STREAM, lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "D4 exchanges height and width"),
    ("oblong enlargement", STREAM, lambda x: F.interpolate(x, size=(9, 18)), "D4 exchanges height and width"),
    ("dilated window", STREAM, lambda x: F.max_pool2d(x, 3, 3, 0, 2), "samples 9 pixels unevenly"),
    ("overhanging window", STREAM, lambda x: F.avg_pool2d(x, 3, 2, 1, True), "ceil_mode"),
    ("broken factor", STREAM, lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"), "not by a whole factor"),
    ("layer norm of pixels", SCALARS, lambda x: F.layer_norm(x, (9,)), "Use `snn.LayerNorm`"),
    ("linear on pixels", SCALARS, lambda x: F.linear(x, torch.eye(9)), "is not the channels"),
    ("transposition by attribute", STREAM, lambda x: x.mT, "`get` is not known to be equivariant"),
    ("written channel", STREAM, lambda x: x.clone().__setitem__((slice(None), 0), 0), "writing into a part of a field"),
    ("dropout", STREAM, lambda x: F.dropout(x, 0.5, True), "Use `snn.Dropout`"),
    ("division by a field", STREAM, lambda x: x / x, "is not known to be equivariant"),
]


@pytest.mark.parametrize(("name", "in_type", "function", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_breaks_equivariance_is_refused(
    name: str, in_type: st.FieldType, function: Function, message: str
) -> None:
    with pytest.raises(EquivarianceError, match=re.escape(message)):
        st.typecheck(function, in_type, size=9)


class Net(nn.Module):
    """A user's own module: the mistake, if any, is in its forward."""

    def __init__(self, mistake: bool) -> None:
        super().__init__()
        self.first = snn.Conv2d(IMAGE, STREAM, 3, padding=1)
        self.second = snn.Conv2d(STREAM, VECTORS, 3, padding=1)
        self.third = snn.Conv2d(VECTORS, STREAM, 3, padding=1)
        self.norm = snn.BatchNorm2d(STREAM)
        self.mistake = mistake

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        v = self.second(x)
        if self.mistake:
            v = F.relu(v)  # the line that breaks equivariance
        return x + self.third(v)


def test_the_first_wrong_line_is_named() -> None:
    source = Path(__file__).read_text().splitlines()
    line = next(k for k, text in enumerate(source, start=1) if "the line that breaks equivariance" in text)
    with pytest.raises(TypeError) as caught:
        st.typecheck(Net(mistake=True), IMAGE)
    assert str(caught.value).startswith(f"in Net, test_type_checking.py, line {line} (`v = F.relu(v)")
    assert st.typecheck(Net(mistake=False), IMAGE) == STREAM


def test_a_module_is_named_by_its_path() -> None:
    model = nn.Sequential(snn.Conv2d(IMAGE, VECTORS, 3), nn.Sequential(nn.Identity(), nn.ReLU()))
    with pytest.raises(TypeError, match=re.escape("in module `1.1` (ReLU): `relu` is not admissible for capsule `E`")):
        st.typecheck(model, IMAGE)


def test_layers_get_the_types_they_take() -> None:
    model = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3), snn.Conv2d(VECTORS, STREAM, 3))
    with pytest.raises(
        TypeError, match=re.escape("Conv2d takes a field of type `2*E` of D4, but got one of type `2*regular + qm`")
    ):
        st.typecheck(model, IMAGE)


def test_a_model_is_left_as_it_was() -> None:
    model = Net(mistake=False).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    st.typecheck(model, IMAGE)
    with pytest.raises(EquivarianceError):
        st.typecheck(Net(mistake=True), IMAGE)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert type(model(torch.randn(2, 3, 9, 9))) is Tensor


def test_several_outputs_keep_their_structure() -> None:
    class Heads(nn.Module):
        def forward(self, x: Tensor) -> dict[str, object]:
            return {"all": x, "parts": x.split([8, 12], dim=1)}

    found = st.typecheck(Heads(), STREAM)
    assert found == {"all": STREAM, "parts": (st.FieldType(G, "regular"), st.FieldType(G, "regular + qm"))}


def test_addition_admits_identical_capsules_only() -> None:
    a, b = (
        typed(torch.zeros(1, 16, 5, 5), st.FieldType(G, "4*qm")),
        typed(torch.zeros(1, 16, 5, 5), st.FieldType(G, "4*qmr")),
    )
    assert (a + a).field_type == a.field_type
    for function in (lambda: a + b, lambda: b - a, lambda: torch.add(a, b), lambda: a.add_(b)):
        with pytest.raises(TypeError, match=r"moves their channels differently. Only identical capsules may be added"):
            function()
    with pytest.raises(TypeError, match="they have 16 and 8 channels"):
        a + typed(torch.zeros(1, 8, 5, 5), st.FieldType(G, "regular"))
    with pytest.raises(TypeError, match=r"C4 acts on the one|D4 acts on the one"):
        a + typed(torch.zeros(1, 16, 5, 5), st.FieldType(st.cyclic(4), "4*regular"))


def test_a_tensor_of_the_wrong_size_is_no_field() -> None:
    with pytest.raises(ValueError, match=re.escape("a field of type `2*E` has shape (batch, 4, …); got (1, 3, 5, 5).")):
        typed(torch.zeros(1, 3, 5, 5), VECTORS)


def test_an_untyped_result_and_a_missing_type_are_refused() -> None:
    with pytest.raises(EquivarianceError, match="the model's output is an untyped tensor"):
        st.typecheck(lambda x: torch.zeros(1), STREAM)
    with pytest.raises(TypeError, match="typecheck needs the type of the input"):
        st.typecheck(nn.Identity())


@pytest.mark.parametrize("name", sorted(RULES))
def test_every_rule_names_an_operation_of_torch(name: str) -> None:
    """A misspelt rule would never be used."""
    homes = (torch, torch.Tensor, F)
    assert any(hasattr(home, spelling) for home in homes for spelling in (name, f"__{name}__"))


def test_a_size_that_fits_is_found() -> None:
    """Strided convolutions fit odd sizes, pooling by two even ones."""
    odd = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, stride=2, padding=1), nn.ReLU())
    even = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, padding=1), nn.AvgPool2d(2))
    assert st.typecheck(odd, IMAGE) == st.typecheck(even, IMAGE) == STREAM
    both = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, stride=2, padding=1), nn.AvgPool2d(2))
    with pytest.raises(EquivarianceError, match="pixels unevenly"):
        st.typecheck(both, IMAGE)


def test_a_network_that_refuses_sizes_is_tried_on_others() -> None:
    def only(*sizes: int) -> Function:
        def network(x: Tensor) -> Tensor:
            if x.shape[-1] not in sizes:
                raise ValueError(f"not {x.shape[-1]}")
            return 2 * x

        return network

    assert st.typecheck(only(16), IMAGE) == IMAGE
    with pytest.raises(ValueError, match="not 33"):
        st.typecheck(only(5), IMAGE)
    with pytest.raises(ValueError, match="not 16"):
        st.typecheck(only(32), IMAGE, size=16)
