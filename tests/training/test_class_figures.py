"""What is said of a network that has learnt nothing."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from steerable.cli.trained_models import print_results
from steerable.reporting.report import write_report
from steerable.training.evaluation.class_figures import class_figures, counted_thing, nothing_learnt

CLASSES = ("cat", "dog")


@pytest.mark.parametrize(
    ("confusion", "words"),
    [
        ([[80, 0], [3, 0]], "Nothing useful was learnt: the answer is `cat` for every image."),
        ([[0, 50], [0, 50]], "Nothing useful was learnt: the answer is `dog` for every image."),
        (
            [[79, 1], [2, 1]],
            "not clearly better than answering `cat` for every image, which is right in 96.4% of cases.",
        ),
        (
            [[11, 9], [9, 11]],
            "not clearly better than answering `cat` for every image, which is right in 50.0% of cases.",
        ),
        ([[2, 1], [1, 2]], "not clearly better than answering `cat`"),  # four of six, but six are few
    ],
)
def test_figures_that_one_answer_for_everything_would_reach_are_called_so(
    confusion: list[list[int]], words: str
) -> None:
    said = nothing_learnt(confusion, CLASSES)
    assert words in said
    assert said.endswith("More minutes or more images may help, unless the classes look alike.")


@pytest.mark.parametrize(
    "confusion",
    [
        [[90, 10], [5, 95]],
        [[400, 0], [2, 12]],
        [[970, 13], [3, 14]],  # as often right as one answer alone, and yet most of the rare ones are found
        [[20, 0], [0, 20]],
        [[0, 0], [0, 0]],
    ],
)
def test_nothing_is_said_of_a_network_that_knows_more(confusion: list[list[int]]) -> None:
    assert nothing_learnt(confusion, CLASSES) == ""


def test_pixels_are_uneven_and_only_a_single_answer_is_told_of_them() -> None:
    assert nothing_learnt([[9700, 100], [100, 100]], CLASSES, "pixel") == ""
    assert "the answer is `cat` for every pixel" in nothing_learnt([[9700, 0], [300, 0]], CLASSES, "pixel")
    assert nothing_learnt([[11, 9], [9, 11]], CLASSES, "volume").startswith("The accuracy is not clearly better")


def test_what_is_counted_has_its_own_word() -> None:
    for about, word in (({"test_dice": 0.5}, "pixel"), ({"image_size": [8, 8, 8]}, "volume"), ({}, "image")):
        assert counted_thing(about) == word
        assert f"every {word}" in nothing_learnt([[5, 0], [5, 0]], CLASSES, counted_thing(about))


def results(confusion: list[list[int]]) -> dict[str, Any]:
    poses = {"accuracy": {"e": 0.5}, "drift": {"e": 0.0}, "confusion": confusion, "upright": 0.5, "all_poses": 0.5}
    model = {"name": "resnet", "copies": 1}
    about = {"dataset": "digits", "model": model, "parameters": 9, "epochs": 1, "classes": list(CLASSES)}
    return {
        **about,
        "test_error": 0.5,
        **class_figures(confusion),
        "poses": {**poses, "group": "D4", "own_poses": ["e"]},
    }


def test_the_terminal_and_the_report_say_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for confusion, says in (([[5, 5], [5, 5]], True), ([[50, 0], [0, 50]], False)):
        print_results(results(confusion), as_json=False, page=None)
        assert ("not clearly better than answering" in capsys.readouterr().out) is says
        (tmp_path / "config.json").write_text(json.dumps({"dataset": "digits", "model": {"name": "resnet"}}))
        (tmp_path / "results.json").write_text(json.dumps(results(confusion)))
        page = write_report([tmp_path], tmp_path / "report.html").read_text("utf-8")
        assert ("not clearly better than answering" in page) is says
