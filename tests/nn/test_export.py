"""Leaving Python: torch.export and ONNX of plain networks, and modules in spawned processes."""

from __future__ import annotations

import copy
import io
import itertools
import multiprocessing
import re
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import onnxruntime
import pytest
import torch
from cases import CASES, GROUPS, Case, built, fields
from torch import Tensor, nn

from steerable import FieldType
from steerable import nn as snn
from steerable.nn.channels import is_exported

D4 = GROUPS["D4"]


class Together(nn.Module):
    """Many layers side by side, each with inputs of its own: one export for all of them."""

    def __init__(self, layers: list[nn.Module], counts: list[int]) -> None:
        super().__init__()
        self.layers, self.counts = nn.ModuleList(layers), counts

    def forward(self, *xs: Tensor) -> list[Tensor]:
        rest = iter(xs)
        return [layer(*itertools.islice(rest, n)) for layer, n in zip(self.layers, self.counts, strict=True)]


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_plain_layers_export(case: Case):
    module = built(case, case.home)
    for size in dict.fromkeys((case.sizes[0], case.sizes[-1])):
        xs = fields(module, size)
        program = torch.export.export(snn.to_plain(module), tuple(xs))
        torch.testing.assert_close(program.module()(*[x.clone() for x in xs]), module(*xs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_layers_export_as_they_are(case: Case, training: bool):
    """Without ``to_plain``, each by itself at the top, into torch's own operations."""
    module = built(case, case.smallest).train(training and not case.random)
    xs = fields(module, case.sizes[0])
    program = torch.export.export(copy.deepcopy(module), tuple(xs))
    assert not own_operations(str(program.graph))
    others = fields(module, case.sizes[0], seed=1)
    found = program.module()(*[x.clone() for x in others])
    torch.testing.assert_close(found, module(*others), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_layers_can_be_traced_and_saved(case: Case, training: bool):
    """By torch.jit.trace, which traces twice and compares; the file holds torch's own operations only."""
    module = built(case, case.smallest, torch.float32).train(training and not case.random)
    for size, gradients in ((case.sizes[0], False), (case.sizes[-1], True)):
        xs, others = fields(module, size, torch.float32), fields(module, size, torch.float32, seed=1)
        with torch.set_grad_enabled(gradients):
            module(*xs)  # what evaluation keeps must not become a constant
            graph = torch.jit.trace(copy.deepcopy(module), tuple(xs))
            assert not own_operations(str(graph.inlined_graph))
            file = io.BytesIO()
            torch.jit.save(graph, file)
            file.seek(0)
            found, expected = torch.jit.load(file)(*[x.clone() for x in others]), copy.deepcopy(module)(*others)
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def own_operations(graph: str) -> list[str]:
    return re.findall(r"steerable::\w+|ops\.steerable\.\w+|PythonOp", graph)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_traced_filters_follow_the_parameters():
    """They are computed in the graph, not a constant of it."""
    module = built(CASES["Conv2d-fourier"], D4)
    (x,) = fields(module, (5, 5))
    with torch.no_grad():
        graph = torch.jit.trace(module, (x,))
        before = graph(x)
        module.weight.mul_(2)
        module.bias.mul_(2)
        torch.testing.assert_close(graph(x), 2 * before)


@pytest.mark.parametrize("groups", [1, 2, 3])
@pytest.mark.parametrize("text", ["6*A1", "6*regular", "6*A1 + 6*E", "6*(A1 + regular + E + A2)"])
def test_grouped_convolutions_export_at_the_top(text: str, groups: int):
    kind = FieldType(D4, text)
    module = snn.Conv2d(kind, kind, 3, padding=1, groups=groups).double()
    x = torch.randn(2, kind.channels, 5, 5, dtype=torch.float64)
    for strict in (False, True):
        program = torch.export.export(module, (x,), strict=strict)
        torch.testing.assert_close(program.module()(x), module(x), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", range(4))
def test_plain_layers_run_in_onnxruntime(part: int, tmp_path: Path):
    cases = [case for case in CASES.values() if case.has_onnx][part::4]
    modules = [built(case, case.home, torch.float32) for case in cases]
    inputs = [fields(module, case.sizes[0], torch.float32) for case, module in zip(cases, modules, strict=True)]
    together = Together([snn.to_plain(module) for module in modules], [len(xs) for xs in inputs]).eval()
    flat = tuple(x for xs in inputs for x in xs)
    program = torch.onnx.export(together, flat, dynamo=True, verbose=False)
    file = tmp_path / "layers.onnx"
    program.save(file)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    names = [i.name for i in session.get_inputs()]
    assert len(names) == len(flat)
    results = session.run(None, {name: x.numpy() for name, x in zip(names, flat, strict=True)})
    for case, module, xs, result in zip(cases, modules, inputs, results, strict=True):
        with torch.no_grad():
            expected = module(*xs)
        torch.testing.assert_close(
            torch.from_numpy(result), expected, rtol=1e-4, atol=1e-4, msg=lambda text, case=case: f"{case.name}: {text}"
        )


def _apply(module: nn.Module, x: Tensor) -> Tensor:
    torch.set_num_threads(1)
    with torch.no_grad():
        return module(x)


def test_modules_travel_to_spawned_processes():
    module = built(CASES["Sequential"], D4)
    (x,) = fields(module, (6, 6))
    expected = _apply(module, x)
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        assert torch.equal(pool.submit(_apply, module, x).result(timeout=120), expected)


class TellsExport(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x + 1 if is_exported() else x - 1


@pytest.mark.parametrize("strict", [False, True])
def test_exporting_is_told_from_running_and_compiling(strict: bool):
    module, x = TellsExport(), torch.zeros(2)
    assert torch.equal(module(x), x - 1)
    assert torch.equal(torch.compile(module, backend="eager", fullgraph=True)(x), x - 1)
    assert torch.equal(torch.export.export(module, (x,), strict=strict).module()(x), x + 1)
