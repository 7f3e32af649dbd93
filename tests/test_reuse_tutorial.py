"""The tutorial on fine-tuning: its commands and its code are run as they stand on the page, with fewer images."""

from __future__ import annotations

import contextlib
import io
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from command_line import steerable

from steerable.training import TrainedModel

ROOT = Path(__file__).parent.parent
PAGE = ROOT / "docs" / "tutorials" / "fine-tuning.md"
BUDGET = {
    "train": ("--epochs", "3", "--accelerator", "cpu", "--no-progress", "--validation", "0"),
    "python": ("--each", "20"),
}
SMALL = ("-m", "depth=8", "-m", "copies=1")  # the first run is that of the smallest network

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*images are few.*"),
]


def test_the_page_runs_from_top_to_bottom(tmp_path: Path) -> None:
    names: dict[str, object] = {}
    said, printed = "", io.StringIO()
    for kind, block in re.findall(r"^```(sh|python)\n(.*?)^```", PAGE.read_text("utf-8"), flags=re.M | re.S):
        if kind == "python":
            with contextlib.chdir(tmp_path), contextlib.redirect_stdout(printed):
                exec(compile(block, str(PAGE), "exec"), names)
            continue
        for program, *arguments in map(shlex.split, block.splitlines()):
            if program == "python":
                script, *options = arguments
                command = [sys.executable, str(ROOT / script), *BUDGET["python"], *options]
                subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
            else:
                small = SMALL if arguments[0] == "train" and "--from" not in arguments else ()
                said += steerable(*arguments, *BUDGET.get(arguments[0], ()), *small, cwd=tmp_path).stdout
    assert "a new head for 5 classes; filters for 1 channel adapted to 3." in said
    assert "frozen: `stem`, `stage1`." in said
    assert TrainedModel.load(tmp_path / "runs" / "c4").model.group.name == "C4"
    assert "| licence | cc-by-4.0 |" in (tmp_path / "few-digits-model" / "README.md").read_text()
    lines = printed.getvalue().splitlines()
    assert re.match(r"[5-9] 0\.\d+ \{'5': ", lines[0])
    assert lines[-3:] == ["(1, 2, 4)", "4*regular + 4*qm + 4*qmr2 + 4*qmr3", "torch.Size([1, 2, 16, 16])"]
