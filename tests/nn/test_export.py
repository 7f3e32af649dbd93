"""Leaving Python: torch.export and ONNX of plain networks, and modules in spawned processes."""

from __future__ import annotations

import itertools
import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import onnxruntime
import pytest
import torch
from cases import CASES, GROUPS, Case, built, fields
from torch import Tensor, nn

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
    module = built(case, D4)
    for size in dict.fromkeys((case.sizes[0], case.sizes[-1])):
        xs = fields(module, size)
        program = torch.export.export(snn.to_plain(module), tuple(xs))
        torch.testing.assert_close(program.module()(*[x.clone() for x in xs]), module(*xs), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("part", range(4))
@pytest.mark.filterwarnings("ignore:.isinstance.treespec, LeafSpec:FutureWarning")  # torch.onnx's own
def test_plain_layers_run_in_onnxruntime(part: int, tmp_path: Path):
    cases = [case for case in CASES.values() if case.has_onnx][part::4]
    modules = [built(case, D4, torch.float32) for case in cases]
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
