"""Nothing that is read from a file is ever run: the source has no call that could do so."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

from steerable import models

ROOT = Path(__file__).parent.parent
SOURCES = sorted(path for folder in ("src", "experiments", "benchmarks") for path in (ROOT / folder).rglob("*.py"))
# By the last two parts of the name that is called.
RUNS_CODE = {
    *(f"{module}.{name}" for module in ("pickle", "dill", "cloudpickle", "marshal") for name in ("load", "loads")),
    *(f"yaml.{name}" for name in ("load", "load_all", "unsafe_load", "full_load")),
    *("joblib.load", "shelve.open", "jit.load", "pandas.read_pickle", "pd.read_pickle"),
}


def dangerous(source: str) -> Iterator[str]:
    """The calls that run what a file tells them to."""
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = ast.unparse(node.func)
        options = {keyword.arg: ast.unparse(keyword.value) for keyword in node.keywords}
        found = [
            ".".join(name.split(".")[-2:]) in RUNS_CODE,
            name.split(".")[-1] in ("load_from_checkpoint", "Unpickler"),
            name in ("eval", "exec"),  # but not module.eval(), which is torch's
            name == "torch.load" and options.get("weights_only") != "True",
            options.get("weights_only") == "False",
            options.get("allow_pickle", "False") != "False",
        ]
        if any(found):
            yield name


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(ROOT)))
def test_no_source_file_runs_what_it_reads(path: Path) -> None:
    assert list(dangerous(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    "source",
    [
        "torch.load(p)",
        "torch.load(p, weights_only=False)",
        "trainer.fit(m, ckpt_path=p, weights_only=False)",
        "np.load(p, allow_pickle=True)",
        "pickle.loads(b)",
        "yaml.load(t)",
        "eval(t)",
        "Model.load_from_checkpoint(p)",
        "torch.jit.load(p)",
    ],
)
def test_what_would_run_code_is_found(source: str) -> None:
    assert list(dangerous(source))


@pytest.mark.parametrize("source", ["torch.load(p, weights_only=True)", "np.load(p)", "module.eval()", "json.load(f)"])
def test_what_runs_none_is_left_alone(source: str) -> None:
    assert not list(dangerous(source))


def test_weights_that_are_pickled_are_refused() -> None:
    """A model on the hub may have them; huggingface_hub would take them where there are no safetensors."""
    with pytest.raises(ValueError, match=r"read from `model\.safetensors` only\. Ask its author to save"):
        models.ResNet._load_as_pickle(models.resnet(8, 1), "pytorch_model.bin", "cpu", True)
