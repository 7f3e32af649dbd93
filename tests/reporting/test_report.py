"""The report: every figure of every run is on the page, and the page stands alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from steerable.reporting.drawings import colours, grouped_bars
from steerable.reporting.report import write_report
from steerable.reporting.run_records import read_runs
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe
from steerable.types.network_plans import resnet_plan

ELEMENTS = ("e", "r", "r2", "r3", "m", "mr", "mr2", "mr3")
STEERABLE = {"name": "resnet", "depth": 8, "copies": 2, "head": "invariant"}
PLAIN = {"name": "plain_resnet", "depth": 8, "width": 9}
CURVES = """epoch,step,train_loss,val_accuracy,val_loss
0,10,,0.5,1.2
0,10,2.3,,
1,20,,0.75,0.9
1,20,1.1,,
"""


def results(model: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """What ``run._results`` gives; numbers that occur nowhere else on the page."""
    accuracy = {g: 0.9137 - 0.0613 * i for i, g in enumerate(ELEMENTS)}
    return {
        "dataset": "digits",
        "labels": 1437,
        "classes": ["zero", "one", "two"],
        "image_size": [8, 8],
        "model": model,
        "seed": 417,
        "parameters": 12_345,
        "epochs": 23,
        "test_error": 0.0863,
        "test_accuracy": 0.9137,
        "test_loss": 0.31415,
        "val_accuracy": 0.8721,
        "poses": {
            "accuracy": accuracy,
            "drift": {g: 0.0 if g == "e" else 2.7e-7 * (i + 1) for i, g in enumerate(ELEMENTS)},
            "confusion": [[101, 3, 0], [7, 113, 11], [0, 0, 127]],
            "upright": 0.9137,
            "all_poses": sum(accuracy.values()) / 8,
        },
        "training_minutes": 5.67,
        "hardware": "a quantum abacus",
        **changes,
    }


def make_run(
    folder: Path,
    model: dict[str, Any] = STEERABLE,
    *,
    found: dict[str, Any] | None = None,
    finished: bool = True,
    curves: str | None = CURVES,
    **config: Any,
) -> Path:
    (folder / "metrics" / "csv").mkdir(parents=True)
    settings = {"dataset": "digits", "recipe": Recipe(epochs=23), "seed": 417, **config}
    RunConfig(model=model, **settings).save(folder / "config.json")
    if curves is not None:
        (folder / "metrics" / "csv" / "metrics.csv").write_text(curves)
    if finished:
        (folder / "results.json").write_text(json.dumps(found or results(model)))
        (folder / "environment.json").write_text(json.dumps({"gpu": None, "versions": {"torch": "2.99"}}))
    return folder


def report(*runs: Path) -> str:
    out = runs[0].parent / "pages" / "report.html"
    assert write_report(runs, out) == out
    return out.read_text("utf-8")


class Page(HTMLParser):
    """Checks that tags are balanced, and keeps what is needed to ask about the page."""

    VOID = ("meta", "br", "img")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> without a beginning"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if "style" not in self.open:
            self.words.append(data)

    @property
    def text(self) -> str:
        return "\n".join(self.words)

    def attributes(self, name: str) -> list[str]:
        return [value or "" for _, attrs in self.tags for key, value in attrs.items() if key == name]


def numbers(value: Any) -> Iterator[float]:
    if isinstance(value, dict | list):
        for inner in value.values() if isinstance(value, dict) else value:
            yield from numbers(inner)
    elif isinstance(value, int | float):
        yield value


def test_every_number_of_the_results_is_on_the_page(tmp_path: Path) -> None:
    found = results(STEERABLE)
    text = Page(report(make_run(tmp_path / "run"))).text
    for number in numbers(found):
        assert json.dumps(number) in text
    # And those that matter most are in tables, readable.
    for shown in ("12,345", "1,437", "8.63%", f"{found['poses']['all_poses']:.2%}", "5.67", "a quantum abacus", "417"):
        assert shown in text.splitlines()
    for accuracy in found["poses"]["accuracy"].values():
        assert f"{accuracy:.2%}" in text.splitlines()
    for drift in found["poses"]["drift"].values():
        assert (f"{drift:.1e}" if drift else "0") in text.splitlines()
    for count in numbers(found["poses"]["confusion"]):
        assert str(count) in text.splitlines()


def test_config_and_environment_are_there(tmp_path: Path) -> None:
    text = Page(report(make_run(tmp_path / "run", precision="bf16-mixed"))).text
    for shown in ("recipe.milestones", "[50, 100, 150]", "precision", "bf16-mixed", "versions.torch", "2.99"):
        assert shown in text


def test_the_page_loads_nothing(tmp_path: Path) -> None:
    text = report(make_run(tmp_path / "a"), make_run(tmp_path / "b", PLAIN))
    assert not re.search(r"https?:|//[a-z]|@import|<script|<link|<iframe", text)
    page = Page(text)
    for value in page.attributes("href") + page.attributes("xlink:href") + page.attributes("src"):
        assert value.startswith(("#", "data:"))
    policy = next(attrs for _, attrs in page.tags if attrs.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in str(policy["content"])


def test_text_from_users_is_escaped(tmp_path: Path) -> None:
    nasty = "<script>alert('$x$ & \"y\"')</script>"
    found = results(STEERABLE, classes=[nasty, "one", "</td>"], hardware=nasty, dataset=nasty)
    text = report(make_run(tmp_path / "<b>run", found=found, data_dir=nasty))
    assert "<script" not in text
    assert "<b>run" not in text
    page = Page(text)
    assert nasty in page.text
    assert "<b>run" in page.text
    assert nasty in page.attributes("title")


def test_ids_are_unique_and_found(tmp_path: Path) -> None:
    many = results(STEERABLE, classes=None)
    many["poses"]["confusion"] = [[int(i == j) for i in range(30)] for j in range(30)]
    runs = [make_run(tmp_path / name, found=many) for name in "ab"]
    text = report(*runs)
    ids = Page(text).attributes("id")
    assert len(ids) == len(set(ids))
    assert set(re.findall(r'(?:url\(|xlink:href=")#([^")]+)', text)) <= set(ids)


def test_several_runs_side_by_side(tmp_path: Path) -> None:
    better = results(STEERABLE, test_error=0.0123)
    a, b = make_run(tmp_path / "steerable", found=better), make_run(tmp_path / "plain", PLAIN)
    text = report(a, b)
    page = Page(text)
    for shown in ("steerable", "plain", "1.23%", "8.63%", "resnet, depth=8, copies=2, head=invariant"):
        assert shown in page.text.splitlines()
    assert 'best">1.23%' in text
    assert 'best">8.63%' not in text
    assert sum(attrs.get("class") == "confusion" for _, attrs in page.tags) == 2
    assert text.count("<svg") == 3  # curves and poses are shared
    for colour in colours(2):
        assert f"background:{colour}" in text
        assert f"fill: {colour}" in text


def test_one_run_alone_is_not_the_best(tmp_path: Path) -> None:
    assert 'best">' not in report(make_run(tmp_path / "run"))


def test_runs_on_other_images_are_not_compared(tmp_path: Path) -> None:
    better = results(STEERABLE, test_error=0.0123, dataset="cells")
    assert 'best">' not in report(make_run(tmp_path / "a", found=better), make_run(tmp_path / "b"))


def test_equal_runs_are_not_better_than_each_other(tmp_path: Path) -> None:
    assert 'best">' not in report(make_run(tmp_path / "a"), make_run(tmp_path / "b"))


def test_the_same_runs_give_the_same_bytes(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    assert report(run) == report(run)
    assert [path.name for path in (tmp_path / "pages").iterdir()] == ["report.html"]


def test_a_run_that_goes_on_is_shown_and_said_so(tmp_path: Path) -> None:
    done, running = make_run(tmp_path / "done"), make_run(tmp_path / "running", PLAIN, finished=False)
    text = Page(report(running, done)).text
    assert "no results yet: 2 of 23 epochs are done" in text
    assert "2 of 23" in text.splitlines()
    assert "8.63%" in text.splitlines()


def test_a_run_that_has_only_begun(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False, curves=None)
    text = Page(report(run)).text
    assert "0 of 23 epochs" in text
    assert "metrics/csv/metrics.csv is missing or empty" in text
    assert "recipe.epochs" in text


def test_results_cut_short_are_named(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "results.json").write_text('{"dataset": "dig')
    text = Page(report(run)).text
    assert "results.json` cannot be read as JSON" in text
    assert "no results yet" not in text


def test_figures_without_value_do_not_end_a_report(tmp_path: Path) -> None:
    diverged = results(STEERABLE, test_loss=float("nan"), poses=None)
    curves = "epoch,step,train_loss\n0,1,2.5\n1,2,nan\n2,3,inf\n"
    found = results(PLAIN)
    found["poses"]["drift"] = {g: float("nan") for g in ELEMENTS}
    found["poses"]["drift"]["r"] = float("inf")
    a = make_run(tmp_path / "a", found=diverged, curves=curves)
    b = make_run(tmp_path / "b", PLAIN, found=found, curves="epoch,step,train_loss\n0,1,nan\n")
    Page(report(a, b))


def test_curves_after_resumes_and_kills(tmp_path: Path) -> None:
    """A resumed run repeats epochs and may write another header; a kill may cut a line anywhere."""
    curves = CURVES + "epoch,step,train_loss\n1,20,1.0\n2,30,0.5\n,,\n3,4"
    (record,) = read_runs([make_run(tmp_path / "run", curves=curves)])
    assert record.curves == {
        "train_loss": {1: 2.3, 2: 1.0, 3: 0.5},
        "val_accuracy": {1: 0.5, 2: 0.75},
        "val_loss": {1: 1.2, 2: 0.9},
    }
    assert record.epochs_done == 3


@pytest.mark.parametrize("curves", ["", "\n", "epoch,step\n0,1\n", "no,header\n1,2\n", "epoch,train_loss\nx,y\n"])
def test_files_without_curves(tmp_path: Path, curves: str) -> None:
    assert "no learning curves" in report(make_run(tmp_path / "run", curves=curves))


def test_classes_are_the_run_s_own_or_the_data_set_s_or_numbers(tmp_path: Path) -> None:
    ten = {**results(STEERABLE)["poses"], "confusion": [[1] * 10] * 10}
    cifar = {"dataset": "cifar10", "found": results(STEERABLE, classes=None, poses=ten)}
    runs = [
        make_run(tmp_path / "own"),
        make_run(tmp_path / "cifar", **cifar),
        make_run(tmp_path / "other", found=results(STEERABLE, classes=["too", "few"])),
    ]
    own, known, numbered = read_runs(runs)
    assert own.classes == ("zero", "one", "two")
    assert known.classes[:2] == ("airplane", "automobile")
    assert numbered.classes == ("0", "1", "2")


def test_mistakes_in_words(tmp_path: Path) -> None:
    text = Page(report(make_run(tmp_path / "run"))).text
    assert text.index("one mistaken for two: 11 (8.4%)") < text.index("one mistaken for zero: 7 (5.3%)")


def test_null_counts_as_absent_in_every_file_of_a_run(tmp_path: Path) -> None:
    mistake = {"true": "one", "predicted": "two", "probability": 0.9, "file": "a.png", "png": "AAAA"}
    pose = dict.fromkeys(("pose", "image", "truth", "prediction", "error"), "AAAA")
    example = {"poses": [pose], "file": "a.png", "dice": 0.5, "average_precision": 0.5}
    files: dict[str, dict[str, Any]] = {
        "mistakes": {"count": 1, "worst": [mistake]},
        "pictures": {"colours": {"one": "#ffbc4d"}, "examples": [example]},
        "results": results(STEERABLE, test_dice=0.5),
    }
    run = make_run(tmp_path / "run")

    def page_with(**changed: Any) -> str:
        for name, content in {**files, **changed}.items():
            (run / f"{name}.json").write_text(json.dumps(content))
        return Page(report(run)).text

    assert "1 mistake\n" in page_with()
    for name, content in files.items():
        for key in content:
            assert "None" not in page_with(**{name: {**content, key: None}}), key
    for key in ("probability", "file", "png"):
        text = page_with(mistakes={"worst": [{**mistake, key: None}]})
        assert "1 mistake\n" in text
        assert "None" not in text + (tmp_path / "pages" / "report.html").read_text("utf-8"), key
    for key in ("file", "dice", "average_precision"):
        assert "None" not in page_with(pictures={"examples": [{**example, key: None}]}), key


def test_many_classes_are_drawn(tmp_path: Path) -> None:
    found = results(STEERABLE, classes=None)
    found["poses"]["confusion"] = [[i + j for i in range(100)] for j in range(100)]
    text = report(make_run(tmp_path / "run", found=found))
    assert 'aria-label="confusion matrix 1"' in text
    assert "99 mistaken for 98" in text


def test_the_cost_table_is_the_plan_s(tmp_path: Path) -> None:
    text = Page(report(make_run(tmp_path / "run"))).text
    plan = resnet_plan(8, 2, image_type="1*A1")
    for conv in plan.convolutions:
        for shown in (conv.name, str(conv.in_type), str(conv.out_type), f"{conv.parameters:,}"):
            assert shown in text.splitlines()
    assert f"{plan.parameters:,}" in text.splitlines()
    assert f"{12_345 - plan.parameters:,}" in text.splitlines()


def test_costs_of_other_mixes_and_of_plain_networks(tmp_path: Path) -> None:
    mixed = make_run(tmp_path / "C4", {**STEERABLE, "group": "C4", "stream": "regular", "inner": "regular"})
    text = Page(report(mixed, make_run(tmp_path / "plain", PLAIN))).text
    assert "8*regular" in text
    assert "plain_resnet, depth=8, width=9: 12,345 parameters, none shared over poses" in text
    for other in ({"name": "wide_resnet", "depth": 10, "width": 1}, {"name": "unet", "depth": 2, "copies": 1}):
        assert "Costs" not in Page(report(make_run(tmp_path / other["name"], other))).text.splitlines()


def test_a_model_that_no_longer_exists_costs_a_sentence(tmp_path: Path) -> None:
    text = Page(report(make_run(tmp_path / "run", {"name": "resnet", "depth": 9, "copies": 1}))).text
    assert "No cost table for resnet, depth=9, copies=1: a residual network of 3 stages" in text


def test_names_tell_runs_apart(tmp_path: Path) -> None:
    runs = [make_run(tmp_path / parent / "run") for parent in "ab"]
    assert [record.name for record in read_runs(runs)] == ["a/run", "b/run"]
    assert [record.name for record in read_runs([runs[0], runs[0] / "." / "metrics" / ".."])] == ["run"]


def test_what_is_not_a_run_folder_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "report.html"
    with pytest.raises(ValueError, match="one run folder or more, and none was given"):
        write_report([], out)
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder `.*missing`\. A run folder is what `steerable train"
    ):
        write_report([tmp_path / "missing"], out)
    (tmp_path / "empty").mkdir()
    with pytest.raises(ValueError, match=r"empty` is not a run folder: it has no config.json. A run folder is what"):
        write_report([tmp_path / "empty"], out)
    run = make_run(tmp_path / "all" / "run")
    with pytest.raises(ValueError, match=r"all` is not a run folder.* It contains run folders; give those: `.*run`"):
        write_report([run.parent], out)
    with pytest.raises(ValueError, match="is a file, not a run folder"):
        write_report([run / "results.json"], out)
    with pytest.raises(ValueError, match="is a folder; a report is one HTML file"):
        write_report([run], tmp_path)
    (run / "config.json").write_text("{")
    with pytest.raises(ValueError, match=r"config.json` cannot be read as JSON.* A report needs the run's config"):
        write_report([run], out)
    assert not out.exists()


def test_an_exact_zero_is_drawn_at_the_floor() -> None:
    drawing = grouped_bars(["e", "r"], [("#ff0000", {"e": 0.0, "r": 0.0})], "zeros", log=True)
    assert drawing.count("fill: #ff0000") == 2
    assert "10⁻⁸" in drawing


@pytest.mark.parametrize("count", [1, 8, 9, 40])
def test_colours_differ(count: int) -> None:
    assert len(set(colours(count))) == count


def test_mistakes_are_pictures_inside_the_page(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    worst = [
        {"true": "<one>", "predicted": "two", "probability": 0.87, "file": "a/b.png", "png": "iVBORw0KGgo="}
        for _ in range(60)
    ]
    worst[1]["png"] = '"><script>alert(1)</script>'  # which an attribute of the page holds as text
    (run / "mistakes.json").write_text(json.dumps({"count": 61, "worst": worst}))
    text = write_report([run], tmp_path / "report.html").read_text("utf-8")
    assert "61 mistakes, the 48 surest shown" in text
    assert text.count("<img ") == 48
    assert text.count('src="data:image/png;base64,iVBORw0KGgo="') == 47
    assert "<b>&lt;one&gt;</b> mistaken for two, 87%" in text
    assert "<script>" not in text
    (run / "mistakes.json").write_text('{"count": 0, "worst": []}')
    assert "No mistakes." in write_report([run], tmp_path / "report.html").read_text("utf-8")


def test_what_the_data_came_to_is_shown(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run", finished=False)
    resolved = {"model": {**STEERABLE, "copies": 3}, "channels": 1, "notes": ["2 of 9 files cannot be read"]}
    (run / "resolved.json").write_text(json.dumps(resolved))
    record = read_runs([run])[0]
    assert (record.model["copies"], record.in_channels) == (3, 1)
    assert "2 of 9 files cannot be read" in record.notes
    assert "2 of 9 files cannot be read" in write_report([run], tmp_path / "report.html").read_text("utf-8")


def with_plan(run: Path, **changes: Any) -> Path:
    settings = RunConfig.load(run / "config.json").to_dict()
    settings |= {"precision": "bf16-mixed", "channels_last": True, "cuda_graphs": True, "compile": False}
    plan = {
        "version": 1,
        "settings": {**settings, "backend": "auto", "model": {**STEERABLE, "copies": 3}, "recipe": {"epochs": 17}},
        "data": {
            "channels": 1,
            "image_size": [8, 8],
            "images": {"train": 1200, "validation": 0, "test": 359},
            "digests": {},
            "notes": ["2 of 9 files cannot be read"],
        },
        "backends": dict.fromkeys("abcd", "fourier[numba]/dense/dense/dense") | {"e": "dense/dense/dense/dense"},
        "accelerator": "cpu",
        "threads": 2,
        **changes,
    }
    (run / "plan.json").write_text(json.dumps(plan))
    return run


def test_the_plan_is_shown_in_words(tmp_path: Path) -> None:
    run = with_plan(make_run(tmp_path / "run", finished=False))
    (record,) = read_runs([run])
    assert (record.model["copies"], record.in_channels, record.epochs) == (3, 1, 17)
    page = Page(report(run)).text
    rows = page[page.index("Settings") :].split("config.json")[0].split()
    assert " ".join(rows[3:]) == (
        "images 1,200 train, 359 test; 8×8 pixels epochs 17 backends 4 of 5 convolutions by fourier, the rest dense "
        "precision bfloat16 switched on channels_last, CUDA graphs planned for cpu, 2 threads"
    )
    alone = with_plan(make_run(tmp_path / "alone", finished=False), threads=1)
    assert "cpu, 1 thread" in Page(report(alone)).text.splitlines()
    assert "plan.json: what the run settled on" in page
    assert "resolved.json" not in page
    assert "2 of 9 files cannot be read" in page


def test_a_folder_without_a_plan_shows_what_it_has(tmp_path: Path) -> None:
    run = make_run(tmp_path / "run")
    (run / "resolved.json").write_text(json.dumps({"channels": 1, "notes": ["2 of 9 files cannot be read"]}))
    page = Page(report(run)).text
    assert "resolved.json: what was found out about the images" in page
    assert "plan.json" not in page
    assert "switched on" not in page


@pytest.mark.parametrize(
    ("changes", "damage"),
    [
        ({"version": 7}, "has 7 for `version`, expected 1"),
        ({"backends": {"a": 3}}, "for `backends`, expected the backend of each convolution"),
        ({"data": []}, "has [] for `data`, expected what is known of the run's images"),
    ],
)
def test_a_damaged_plan_is_named_and_the_rest_is_shown(tmp_path: Path, changes: dict[str, Any], damage: str) -> None:
    page = Page(report(with_plan(make_run(tmp_path / "run"), **changes))).text
    assert damage in page
    assert "8.63%" in page


@pytest.mark.parametrize("gone", ["settings", "data", "backends", "accelerator", "threads"])
def test_a_plan_that_lacks_something_shows_the_rest(tmp_path: Path, gone: str) -> None:
    page = Page(report(with_plan(make_run(tmp_path / "run"), **{gone: None}))).text
    assert "plan.json: what the run settled on" in page
    assert ("4 of 5 convolutions by fourier" in page) == (gone != "backends")
