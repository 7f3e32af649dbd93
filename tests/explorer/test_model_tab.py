"""The Model tab: run folders are found, checked, read, and nothing else is."""

from __future__ import annotations

import html
import json
import os
import re
import shutil
from pathlib import Path

import pytest
import torch

from steerable.explorer.learned import learned_filters
from steerable.explorer.model_tab import model_page, pose_predictions
from steerable.explorer.run_folders import run_folders, run_path
from steerable.explorer.uploads import Uploads
from steerable.training.trained_networks.trained_model import TrainedModel

NO_UPLOADS = Uploads(Path("no-uploads"))


def test_finished_runs_are_found(runs: Path) -> None:
    assert run_folders(runs) == ["deeper/plain", "steerable"]


@pytest.mark.parametrize("name", ["steerable", "deeper/plain"])
def test_a_run_is_shown_with_predictions_filters_and_report(runs: Path, name: str) -> None:
    page = model_page(runs, NO_UPLOADS, name, "digit 3", None)
    assert "st-error" not in page
    assert len(re.findall("the image under", page)) == 8
    assert "sandbox" in page
    assert html.escape("<!DOCTYPE html>") in page
    drifts = [float(text) for text in re.findall(r'<td class="number">([^<]*)</td>', page)]
    assert len(drifts) == 8
    if name == "steerable":
        assert max(drifts) < 1e-4
        assert "A steerable convolution from `A1`" in page
    else:
        assert max(drifts) > 1e-3
        assert "A plain convolution" in page


def test_predictions_are_the_models_own(runs: Path) -> None:
    model = TrainedModel.load(runs / "deeper" / "plain")
    pixels = torch.randint(0, 256, (1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    found = pose_predictions(model, pixels)
    assert [element for element, *_ in found] == ["e", "r", "r2", "r3", "m", "mr", "mr2", "mr3"]
    with torch.no_grad():
        turned = model(torch.rot90(pixels, 1, (-2, -1))[None]).double().softmax(1)[0]
    torch.testing.assert_close(found[1][2], turned, rtol=1e-5, atol=1e-6)
    assert found[0][3] == 0


def test_a_network_without_convolutions_has_no_filters() -> None:
    assert "no convolution" in learned_filters(torch.nn.Linear(2, 2)).about


def test_only_run_folders_below_the_root_are_opened(runs: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    shutil.copytree(runs / "steerable", outside)
    for text in (str(outside), "../../../../etc", os.path.relpath(outside, runs), "/etc/passwd"):
        with pytest.raises(ValueError, match=r"is not below the folder that the explorer was started for.*--runs"):
            run_path(runs, text)
    (runs / "link").symlink_to(outside)
    try:
        with pytest.raises(ValueError, match="is not below the folder"):
            run_path(runs, "link")
    finally:
        (runs / "link").unlink()
    assert run_path(runs, " steerable ") == (runs / "steerable").resolve()


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no run folder was given"),
        (None, "no run folder was given"),
        (5, "no run folder was given"),
        (["steerable"], "no run folder was given"),
        ("unfinished", "`unfinished` is not a finished run folder: it has no results.json"),
        ("nothing", "`nothing` is not a finished run folder"),
        (".", "is not a finished run folder"),
    ],
)
def test_other_folders_are_refused_in_words(runs: Path, text: object, message: str) -> None:
    assert message in html.unescape(model_page(runs, NO_UPLOADS, text, "digit 3", None))


def test_damaged_runs_are_refused_in_words(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "steerable", tmp_path / "a")
    results = json.loads((tmp_path / "a" / "results.json").read_text())
    del results["classes"]
    (tmp_path / "a" / "results.json").write_text(json.dumps(results))
    assert "results.json` has no `classes`, expected a list of names" in html.unescape(
        model_page(tmp_path, NO_UPLOADS, "a", "digit 3", None)
    )
    shutil.copytree(runs / "steerable", tmp_path / "b")
    (tmp_path / "b" / "model" / "model.safetensors").write_bytes(b"not weights")
    assert "the run `b` cannot be loaded" in html.unescape(model_page(tmp_path, NO_UPLOADS, "b", "digit 3", None))


def test_a_run_without_a_report_says_how_to_write_one(runs: Path, tmp_path: Path) -> None:
    shutil.copytree(runs / "steerable", tmp_path / "a")
    (tmp_path / "a" / "report.html").unlink()
    assert "steerable report a --out a/report.html" in model_page(tmp_path, NO_UPLOADS, "a", "digit 3", None)
