"""The seam between layers and backends: room for one more backend. ``test_layering`` guards the front door."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import test_every_backend as laws
import torch
from torch import Tensor

from steerable import FieldType, dihedral, octahedral
from steerable import nn as snn
from steerable.nn import backends
from steerable.nn.backends import Choice, ConvolutionProblem, Passes, known, store
from steerable.nn.backends.interface import Backend, Gradients, Wanted
from steerable.nn.backends.problem import Operands
from steerable.nn.channels import memory_format

# ---------------------------------------------------------------- one more backend


class Shifted(Backend):
    """A convolution as a sum over taps, each a product of matrices at shifted pixels; zeros around, stride 1."""

    name = "shifted"

    def why_not(self, problem: ConvolutionProblem) -> str | None:
        if len(problem.window.stride) != 2:
            return "it is not of images"
        return "it has a stride or groups" if max(*problem.window.stride, problem.window.groups) > 1 else None

    def may_gain(self, problem: ConvolutionProblem, x: Tensor, *, ahead: bool) -> bool:
        return True

    def forward(self, operands: Operands, bias: Tensor | None) -> Tensor:
        x, _, bank, _, window = operands
        (top, left), (down, across) = window.padding, window.dilation
        x = torch.nn.functional.pad(x, (left, left, top, top))
        height, width = (n - d * (k - 1) for n, d, k in zip(x.shape[2:], (down, across), bank.shape[2:], strict=True))
        y = sum(
            torch.einsum("oi,bihw->bohw", bank[..., r, c], x[..., down * r :, across * c :][..., :height, :width])
            for r in range(bank.shape[2])
            for c in range(bank.shape[3])
        )
        y = y if bias is None else y + bias[:, None, None]
        return y.contiguous(memory_format=memory_format(operands.x))  # type: ignore[union-attr]

    def gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        used.append(wanted)
        leaves = [t.detach().requires_grad_(w) for t, w in zip((operands.x, operands.bank), wanted, strict=True)]
        with torch.enable_grad():
            y = self.forward(operands._replace(x=leaves[0], bank=leaves[1]), None)
        found = iter(torch.autograd.grad(y, [t for t in leaves if t.requires_grad], gradient))
        return next(found) if wanted[0] else None, next(found) if wanted[1] else None

    def differentiable_gradients(self, gradient: Tensor, operands: Operands, wanted: Wanted) -> Gradients:
        return known.BACKENDS["dense"].differentiable_gradients(gradient, operands, wanted)


used: list[Wanted] = []
KIND = FieldType(dihedral(4), "2*regular + E")


@pytest.fixture(autouse=True)
def one_more(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setitem(known.BACKENDS, "shifted", Shifted())
    monkeypatch.setenv("STEERABLE_CACHE_DIR", str(tmp_path))
    store._store.cache_clear()
    used.clear()


def results(layer: snn.Conv2d) -> list[Tensor]:
    x = torch.linspace(-1, 1, 2 * KIND.channels * 36, dtype=torch.float64).view(2, KIND.channels, 6, 6).requires_grad_()
    y = layer(x)
    first = torch.autograd.grad(y.pow(3).sum(), [x, *layer.parameters()], create_graph=True)
    second = torch.autograd.grad(sum(g.square().sum() for g in first), [x, *layer.parameters()])
    return [y, *torch.autograd.grad(layer(x).square().sum(), [x, *layer.parameters()]), *first, *second]


def pair(**options: object) -> tuple[snn.Conv2d, snn.Conv2d]:
    torch.manual_seed(0)
    layer = snn.Conv2d(KIND, KIND, 3, padding=1, backend="shifted", **options).double()  # type: ignore[arg-type]
    dense = snn.Conv2d(KIND, KIND, 3, padding=1, backend="dense", **options).double()  # type: ignore[arg-type]
    dense.load_state_dict(layer.state_dict())
    return layer, dense


def assert_same(layer: snn.Conv2d, dense: snn.Conv2d) -> None:
    for a, b in zip(results(layer), results(dense), strict=True):
        assert (a - b).abs().max() <= 1e-11 * b.abs().max()  # sums of large numbers may be small


@pytest.mark.parametrize("options", [{}, {"dilation": 2}, {"padding_mode": "circular"}, {"bias": False}], ids=str)
def test_a_backend_is_one_class_and_one_entry(options: dict[str, object]) -> None:
    layer, dense = pair(**options)
    assert layer.backend == "shifted"
    assert "backend=shifted" in repr(layer)
    assert_same(layer, dense)
    assert set(used) == {(True, True)}


def test_the_laws_of_all_backends_hold_for_it() -> None:
    for case in laws.CASES.values():
        laws.test_it_computes_what_the_dense_one_does("shifted", case)
    laws.test_it_keeps_channels_last("shifted")


@pytest.mark.parametrize(
    "passes", [Passes("shifted", "dense", "turned"), Passes("dense", "shifted", "fourier"), Passes("padded", "shifted")]
)
def test_it_can_be_combined_with_the_others(passes: Passes) -> None:
    layer, dense = pair()
    layer.runner.use(Choice(passes, passes.forward))
    assert_same(layer, dense)


def test_it_compiles() -> None:
    layer, dense = pair()
    torch.compiler.reset()
    x = torch.randn(1, KIND.channels, 5, 5, dtype=torch.float64)
    with torch.no_grad():
        compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(x), dense(x), rtol=1e-11, atol=1e-11)


def test_where_it_does_not_support_a_problem_the_dense_one_is_taken() -> None:
    layer = snn.Conv2d(KIND, KIND, 2, stride=2, backend="shifted")
    assert snn.recorded_backends(layer) == {"": "dense/dense/dense/dense"}
    with pytest.raises(ValueError, match="does not support this convolution: it has a stride"):
        snn.use_backends(layer, {"": "/".join(4 * ["shifted"])})


def test_it_is_measured_chosen_recorded_and_told(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[list[str]] = []

    def shortest_times(runs: dict[str, object], synchronise: object) -> dict[str, float]:
        seen.append(list(runs))
        for run in runs.values():
            run()  # type: ignore[operator]
        return {name: 0.5 if name == "shifted" else 1.0 for name in runs}

    monkeypatch.setattr(backends.measuring, "shortest_times", shortest_times)
    auto, dense = pair()
    auto.backend = "auto"
    assert_same(auto, dense)
    assert seen == [["dense", "shifted"]]
    assert snn.choose_backends(auto, torch.randn(2, KIND.channels, 6, 6, dtype=torch.float64)) == {"": "shifted"}
    record = json.loads(json.dumps(snn.recorded_backends(auto)))
    assert record == {"": "shifted/shifted/shifted/shifted"}
    dense.backend = "dense"
    snn.use_backends(dense, record)
    for a, b in zip(results(auto), results(dense), strict=True):
        assert torch.equal(a, b)


def test_unknown_names_come_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown backend 'shiftd'\. Did you mean `shifted`"):
        snn.Conv2d(KIND, KIND, 3, backend="shiftd")
    with pytest.raises(ValueError, match="unknown backend 'turned'"):  # it has no forward pass
        snn.Conv2d(KIND, KIND, 3, backend="turned")


def test_the_fourier_backend_is_not_measured_on_devices_of_which_nothing_is_known() -> None:
    """Of volumes too, whose rules go by channels and not by the device."""
    fields = FieldType(octahedral(), "4*regular")
    layer = snn.Conv3d(fields, fields, 3, padding=1)
    x = torch.empty(64, fields.channels, 16, 16, 16, device="meta")
    assert not known.BACKENDS["fourier"].may_gain(layer.runner.problem, x, ahead=True)
