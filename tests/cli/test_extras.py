"""The command where packages of an extra are not installed: one sentence that says what to install, no traceback."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from steerable.extras import EXTRAS

ROOT = Path(__file__).parents[2]
IMPORTED_AS = {"pillow": "PIL", "scikit-learn": "sklearn"}
ALL = tuple(EXTRAS)
COMMANDS = {
    "nothing": (),
    "help": ("--help",),
    "version": ("--version",),
    "advise": ("advise", "images"),
    "train": ("train", "digits", "--out", "run"),
    "train a folder": ("train", "images", "--out", "run"),
    "evaluate": ("evaluate", "finished"),
    "predict": ("predict", "finished", "images"),
    "export": ("export", "finished", "--onnx", "model.onnx"),
    "export weights": ("export", "finished", "--safetensors", "model"),
    "report": ("report", "finished"),
    "cost": ("cost", "regular", "regular"),
    "types": ("types", "D4"),
    "explore": ("explore", "--port", "0"),
    "figures": ("figures", "--out", "figures"),
}
NO_COMMAND = ("typer", "rich")  # without these there is no command at all
NEEDED = {
    "advise": ("lightning", "torchmetrics", "huggingface_hub", "safetensors", "PIL"),
    "train": ("lightning", "torchmetrics", "huggingface_hub", "safetensors", "matplotlib", "sklearn"),
    "train a folder": ("lightning", "torchmetrics", "huggingface_hub", "safetensors", "matplotlib", "PIL"),
    "evaluate": ("huggingface_hub", "safetensors", "sklearn"),
    "predict": ("huggingface_hub", "safetensors", "PIL"),
    "export": ("onnx", "onnxscript", "huggingface_hub", "safetensors"),
    "export weights": ("huggingface_hub", "safetensors"),
    "explore": ("gradio", "matplotlib"),
    "figures": ("matplotlib",),
}
CASES = [
    *((name, ALL) for name in COMMANDS),
    *((name, (package,)) for name in COMMANDS for package in NO_COMMAND),
    *((name, (package,)) for name, packages in NEEDED.items() for package in packages),
]

# One process for all cases, each in a fork of it that forgets the packages: importing them takes longer than the rest.
RUN_ALL = """
import importlib.abc, json, os, sys, tempfile
import lightning.pytorch, matplotlib.figure, rich.progress, steerable, torch, typer

class Blocked(importlib.abc.MetaPathFinder):
    def __init__(self, packages):
        self.packages = packages

    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in self.packages:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)

outcomes = []
for arguments, packages in json.load(sys.stdin):
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        child = os.fork()
        if not child:
            os.dup2(out.fileno(), 1)
            os.dup2(err.fileno(), 2)
            sys.argv = ["steerable", *arguments]
            for name in [name for name in sys.modules if name.partition(".")[0] in packages]:
                del sys.modules[name]
            sys.meta_path.insert(0, Blocked(packages))
            code = 70
            try:
                from steerable.cli import main
                main()
                code = 0
            except SystemExit as stop:
                code = stop.code or 0
            except BaseException:
                import traceback
                traceback.print_exc()
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        texts = []
        for file in (out, err):
            file.seek(0)
            texts.append(file.read().decode())
        outcomes.append([code, *texts])
json.dump(outcomes, sys.stdout)
"""


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, tuple[str, ...]], tuple[int, str, str]]:
    """What each case ends with, in a folder with images and a finished run."""
    folder = tmp_path_factory.mktemp("work")
    code = f"""
import sys
sys.path[:0] = [{str(ROOT / "tests" / "explorer")!r}, {str(ROOT / "examples")!r}]
from pathlib import Path
from conftest import write_run
import numpy as np
from PIL import Image
write_run(Path("finished"), {{"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"}})
for label in "ab":
    Path("images", label).mkdir(parents=True)
    for number in range(8):
        Image.fromarray(np.full((8, 8), 16 * number, np.uint8)).save(f"images/{{label}}/{{number}}.png")
"""
    subprocess.run([sys.executable, "-c", code], cwd=folder, check=True, capture_output=True)
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "200"}
    found = subprocess.run(
        [sys.executable, "-c", RUN_ALL],
        input=json.dumps([(COMMANDS[name], packages) for name, packages in CASES]),
        cwd=folder,
        env=environment,
        text=True,
        capture_output=True,
        check=True,
    )
    shutil.rmtree(folder / "finished")
    assert sorted(path.name for path in folder.iterdir()) == ["images"]  # nothing was begun
    return {case: (code, out, err) for case, (code, out, err) in zip(CASES, json.loads(found.stdout), strict=True)}


@pytest.mark.parametrize(("name", "packages"), CASES, ids=lambda value: value if isinstance(value, str) else None)
def test_a_missing_package_is_one_sentence_with_its_extra(
    outcomes: dict[tuple[str, tuple[str, ...]], tuple[int, str, str]], name: str, packages: tuple[str, ...]
) -> None:
    code, out, err = outcomes[name, packages]
    assert (code, out) == (1, ""), err
    (sentence,) = err.splitlines()
    extra = EXTRAS[packages[0]] if packages != ALL else "training"
    assert re.fullmatch(r"error: .*pip install 'steerable\[(\w+)\]'\.", sentence), sentence
    assert f"'steerable[{extra}]'" in sentence


def test_the_table_of_extras_is_that_of_the_package() -> None:
    """Every optional package is in the table under the extra that installs it, but for tools of the developers."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["optional-dependencies"]
    listed = {
        IMPORTED_AS.get(package, package): extra
        for extra, requirements in extras.items()
        if extra not in ("dev", "docs")
        for package in (re.split(r"[\[>=<]", requirement)[0] for requirement in requirements)
        if package != "steerable"
    }
    assert dict(EXTRAS) == listed


def test_every_command_is_tried() -> None:
    from steerable.cli.commands import ORDER

    assert {arguments[0] for arguments in COMMANDS.values() if arguments} - {"--help", "--version"} == set(ORDER)
