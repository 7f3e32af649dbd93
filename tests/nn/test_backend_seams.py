"""The seam between layers and backends: one front door, imports that go downwards, and room for one more backend."""

from __future__ import annotations

import ast
import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor

import steerable
from steerable import FieldType, dihedral
from steerable import nn as snn
from steerable.nn import backends
from steerable.nn.backends import Choice, ConvolutionProblem, Passes, known, store
from steerable.nn.backends.interface import Backend, Gradients, Wanted
from steerable.nn.backends.problem import Operands

SOURCE = Path(steerable.__file__).parent
DOOR = "steerable.nn.backends"

# Inside the backends: a module imports from those before it only. A backend that is not named here has dense's place.
ORDER = (
    "filter_sources",
    "precision",
    "problem",
    "interface",
    "passes",
    "dense",
    "fourier.spectrum",
    "fourier.irrep_blocks",
    "fourier.block_layout",
    "fourier.products",
    "fourier.reference",
    "fourier.cpu",
    "fourier.gpu",
    "fourier.plan",
    "fourier.execution",
    "fourier.operator",
    "fourier.backend",
    "fourier",
    "known",
    "combined",
    "cuda_timing",
    "measuring",
    "store",
    "runner",
    "",
)


def imported(source: str) -> Iterator[str]:
    """Every module that is imported, wherever the import stands; of ``from a import b`` both a and a.b."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and node.module:
            yield node.module
            if (SOURCE.parent / node.module.replace(".", "/")).is_dir():
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


def is_module(name: str) -> bool:
    path = SOURCE.parent / name.replace(".", "/")
    return path.is_dir() or path.with_suffix(".py").exists()


def rank(module: str) -> int:
    """The place in ORDER of a module of the backends, by its dotted name."""
    parts = module.removeprefix(DOOR).removeprefix(".").split(".")
    names = [".".join(parts[:n]) for n in range(len(parts), 0, -1)]
    return next((ORDER.index(name) for name in names if name in ORDER), ORDER.index("dense"))


def complaints(module: str, source: str) -> list[str]:
    """What a module of the library may not import of the backends; dotted names."""
    targets = sorted({t for t in imported(source) if (t == DOOR or t.startswith(f"{DOOR}.")) and is_module(t)})
    if not module.startswith(DOOR):
        return [f"{module} imports {target}, behind the front door" for target in targets if target != DOOR]
    above = [t for t in targets if t != module and t != DOOR and rank(t) > rank(module)]
    if module != DOOR:
        above += [t for t in targets if t == DOOR and f"from {DOOR} import" in source]
    return [f"{module} imports {target} upwards" for target in above]


def modules() -> list[tuple[str, Path]]:
    found = []
    for path in sorted(SOURCE.rglob("*.py")):
        parts = path.relative_to(SOURCE.parent).with_suffix("").parts
        found.append((".".join(parts[:-1] if parts[-1] == "__init__" else parts), path))
    return found


def test_nobody_goes_behind_the_front_door_and_imports_go_downwards() -> None:
    found = modules()
    assert len([name for name, _ in found if name.startswith(DOOR)]) > 25
    assert [text for name, path in found for text in complaints(name, path.read_text("utf-8"))] == []


@pytest.mark.parametrize(
    ("module", "source", "complaint"),
    [
        ("steerable.nn.conv", f"from {DOOR}.dense import Dense", f"{DOOR}.dense, behind the front door"),
        ("steerable.training.runs", f"import {DOOR}.known", f"{DOOR}.known, behind the front door"),
        ("steerable.nn.conv", f"from {DOOR} import known", f"{DOOR}.known, behind the front door"),
        ("steerable.nn.conv", f"def f():\n    from {DOOR}.fourier import plan", f"{DOOR}.fourier.plan, behind"),
        (f"{DOOR}.dense", f"from {DOOR}.known import BACKENDS", f"{DOOR}.known upwards"),
        (f"{DOOR}.fourier.cpu.threads", f"from {DOOR}.fourier.plan import FourierPlan", "fourier.plan upwards"),
        (f"{DOOR}.dense", f"from {DOOR} import Passes", f"{DOOR} upwards"),
    ],
)
def test_this_test_can_fail(module: str, source: str, complaint: str) -> None:
    assert any(complaint in text for text in complaints(module, source))


# ---------------------------------------------------------------- one more backend


class Shifted(Backend):
    """A convolution as a sum over taps, each a product of matrices at shifted pixels; zeros around, stride 1."""

    name = "shifted"

    def why_not(self, problem: ConvolutionProblem) -> str | None:
        return "it has a stride" if max(problem.window.stride) > 1 else None

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
        return y if bias is None else y + bias[:, None, None]  # type: ignore[return-value]

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

    def medians(runs: dict[str, object], synchronise: object) -> dict[str, float]:
        seen.append(list(runs))
        for run in runs.values():
            run()  # type: ignore[operator]
        return {name: 0.5 if name == "shifted" else 1.0 for name in runs}

    monkeypatch.setattr(backends.measuring, "medians", medians)
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
