"""Every number of a run and of a recipe has bounds, and whatever lies outside is refused at once, in words."""

from __future__ import annotations

import math
import re
import time
import types
import typing
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import command_line
import pytest
import typer
from source_tree import modules

from steerable.cli.commands import app
from steerable.training.requests.config import RunConfig
from steerable.training.requests.limits import Flag, OneOf, Range
from steerable.training.requests.recipes import Recipe, load_recipe
from steerable.training.requests.settings import settings_of

RUN = {"dataset": "digits", "model": {"name": "resnet"}, "validation": 0.1}
LIMITS = [(kind, name, found.limit) for kind in (RunConfig, Recipe) for name, found in settings_of(kind).items()]
NUMBERS = [entry for entry in LIMITS if isinstance(entry[2], Range)]
FLAGS = [entry for entry in LIMITS if isinstance(entry[2], Flag)]
CHOICES = [entry for entry in LIMITS if isinstance(entry[2], OneOf)]
# Of no number of any run.
WRONG: list[Any] = [math.nan, math.inf, -math.inf, -1, -0.5, 10**30, -(10**30), 10**400, 10**5000, 1e30, True, False]
WRONG += ["3", "", b"3", [], [1], {}, 1j, (1,)]


def test_every_setting_takes_effect_somewhere() -> None:
    """A field that nobody reads would be an option that does nothing."""
    source = "".join(module.source for module in modules())
    assert [name for _, name, _ in LIMITS if not re.search(rf"\.{name}\b", source)] == []


def made(kind: type, **changes: Any) -> object:
    task = {"task": "segment"} if changes.keys() & {"tile", "masks", "stretch"} else {}  # of which no other task knows
    return kind(**{**(RUN if kind is RunConfig else {}), **task, **changes})


def names(pairs: list[Any]) -> list[str]:
    return [f"{pair[0].__name__}.{pair[1]}" for pair in pairs]


@pytest.mark.parametrize("kind", [RunConfig, Recipe])
def test_no_number_and_no_flag_is_forgotten(kind: type) -> None:
    known = {name for owner, name, _ in NUMBERS if owner is kind}
    flags = {name for owner, name, _ in FLAGS if owner is kind}
    hints = typing.get_type_hints(kind)
    for field in fields(kind):
        hint = hints[field.name]
        parts = set(typing.get_args(hint)) if typing.get_origin(hint) is types.UnionType else {hint}
        assert (field.name in known) == bool(parts & {int, float}), field.name
        assert (field.name in flags) == (bool in parts), field.name


@pytest.mark.parametrize(("kind", "name", "allowed"), NUMBERS, ids=names(NUMBERS))
def test_numbers_out_of_range_are_refused(kind: type, name: str, allowed: Range) -> None:
    wrong = [*WRONG, *([] if allowed.optional else [None]), *([2.5, 3.0] if allowed.whole else [])]
    wrong += [allowed.highest + 1, allowed.lowest - 1]
    wrong += [allowed.lowest] if allowed.above else []
    wrong += [allowed.highest] if allowed.below else []
    expected = f"{name} must be {'a whole' if allowed.whole else 'a'} number .*; got "
    for value in wrong:
        with pytest.raises(ValueError, match=expected) as stop:
            made(kind, **{name: value})
        assert len(str(stop.value)) < 200


@pytest.mark.parametrize(("kind", "name", "allowed"), NUMBERS, ids=names(NUMBERS))
def test_the_ends_of_a_range_and_what_is_usual_are_accepted(kind: type, name: str, allowed: Range) -> None:
    field = next(field for field in fields(kind) if field.name == name)
    assert field.default is not MISSING
    assert field.default in allowed
    ends = [*([] if allowed.above else [allowed.lowest]), *([] if allowed.below else [allowed.highest])]
    together = {"recipe": Recipe(batch_size=10**6)} if kind is RunConfig else {}
    for value in ends:
        if (kind, name) != (RunConfig, "nodes"):  # shares a batch between more processes than there can be images
            made(kind, **{**together, name: value})


@pytest.mark.parametrize(("kind", "name", "allowed"), FLAGS, ids=names(FLAGS))
@pytest.mark.parametrize("value", [0, 1, "yes", None, [], 1.0])
def test_flags_are_true_or_false(kind: type, name: str, allowed: Flag, value: object) -> None:
    if value is None and allowed.optional:
        value = "none"  # None leaves it to the plan
    with pytest.raises(ValueError, match=f"{name} must be true or false; got "):
        made(kind, **{name: value})


@pytest.mark.parametrize(("kind", "name", "allowed"), CHOICES, ids=names(CHOICES))
@pytest.mark.parametrize("value", [None, 0, True, "", "tpu", ["auto"], {"auto": 1}])
def test_names_are_among_the_known_ones(kind: type, name: str, allowed: OneOf, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be one of {', '.join(allowed.names)}; got "):
        made(kind, **{name: value})
    for known in allowed.names:
        assert getattr(made(kind, **{name: known}), name) == known


@pytest.mark.parametrize("value", [None, 3, ["digits"], b"digits"])
@pytest.mark.parametrize("name", ["dataset", "model", "data_dir"])
def test_what_is_text_is_text(name: str, value: object) -> None:
    if name == "data_dir" and value is None:
        value = 7  # none is what it usually is
    with pytest.raises(ValueError, match=r"must be text; got|needs a name"):
        made(RunConfig, **{name: value})


@pytest.mark.parametrize("value", [3, "1", [1.0], [True], [-1], [10**30], [[1]], [None], {1: 2}, list(range(2000))])
def test_milestones_are_whole_numbers(value: object) -> None:
    with pytest.raises(ValueError, match="a recipe's milestones are a list of at most") as stop:
        Recipe(milestones=value)  # type: ignore[arg-type]
    assert len(str(stop.value)) < 250


@pytest.mark.parametrize("model", [{}, {"name": None}, {"name": ["resnet"]}, [], "resnet", None])
def test_a_model_names_itself(model: Any) -> None:
    with pytest.raises(ValueError, match="a run's model needs a name"):
        RunConfig(dataset="digits", model=model)


FILES = {
    "batch_size": (
        f"batch_size = {10**30}",
        "batch_size must be a whole number from 1 to 1,000,000; got a number of",
    ),
    "epochs": (f"epochs = {10**30}", "a recipe's epochs must be a whole number from 1 to 1,000,000; got a number"),
    "a rate": ("learning_rate = nan", "a recipe's learning_rate must be a number above 0 and up to 1,000,000; got nan"),
    "digits": (f"epochs = {'9' * 900}", "a recipe's epochs must be a whole number"),
    "too many digits": (f"epochs = {'9' * 5000}", "line 1 has 5,009 characters, and a recipe's have at most 1,000"),
    "a key of many parts": (".".join(["a"] * 20_000) + " = 1", "line 1 has 40,003 characters"),
    "a table of many parts": ("[" + ".".join(["a"] * 20_000) + "]", "line 1 has 40,001 characters"),
    "many keys of many parts": (
        "\n".join([".".join(["a"] * 450)] * 300),
        "it has 269,999 bytes, and a recipe",
    ),
    "deep lists": ("milestones = " + "[\n" * 30_000, "nested too deeply"),
    "deep tables": ("milestones = " + "{a=" * 200 + "1" + "}" * 200, "a recipe's milestones are a list"),
    "a date": ("epochs = 1979-05-27", "a recipe's epochs must be a whole number from 1 to 1,000,000; got datetime"),
    "a table": ("[epochs]\nx = 1", "a recipe's epochs must be a whole number from 1 to 1,000,000; got {'x': 1}"),
}


@pytest.mark.parametrize(("text", "message"), FILES.values(), ids=FILES)
def test_a_recipe_file_without_measure_is_refused_at_once(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(text)
    started = time.perf_counter()
    with pytest.raises(ValueError, match=r"mine\.toml cannot be used: " + f".*{re.escape(message)}"):
        load_recipe(str(path))
    assert time.perf_counter() - started < 2


HUGE = str(10**30)
OPTIONS = {
    **{f"--{name}": ("-1", HUGE, "x", "2.5") for name in ("epochs", "batch-size", "labels", "params", "image-size")},
    **{f"--{name}": ("-1", HUGE, "x", "2.5") for name in ("seed", "patience", "devices", "nodes")},
    **{f"--{name}": ("-1", HUGE, "nan", "inf", "-inf", "x") for name in ("minutes", "validation", "learning-rate")},
    **{f"--{name}": ("-1", HUGE, "nan", "inf", "-inf", "x") for name in ("weight-decay", "checkpoint-seconds")},
}


@pytest.mark.parametrize(("option", "value"), [(option, value) for option, found in OPTIONS.items() for value in found])
def test_options_of_the_command_are_refused_before_anything_starts(option: str, value: str, tmp_path: Path) -> None:
    outcome = command_line.steerable("train", "digits", "--out", "x", f"{option}={value}", cwd=tmp_path, code=2)
    name = "param" if option == "--params" else option[2:].replace("-", "_")
    assert name in outcome.stderr.replace("-", "_")
    assert "Traceback" not in outcome.stderr
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("kind", [RunConfig, Recipe])
def test_a_setting_is_an_option_of_the_command_by_being_marked_as_one(kind: type) -> None:
    """Its help, its range and its names come from the field."""
    command: Any = typer.main.get_command(app)
    found = {parameter.name: parameter for parameter in command.commands["train"].params}
    for name, known in settings_of(kind).items():
        assert (name in found and name != "dataset") == known.option, name
        if known.option:
            assert found[name].help == known.help
            assert set(known.flags or (f"--{name.replace('_', '-')}",)) == set(found[name].opts)


MODEL_OPTIONS = [f"copies={HUGE}", f"depth={HUGE}", "copies=1e999", "copies=NaN", "depth=-1", "copies=0", "copies=true"]
MODEL_OPTIONS += [f"copies={'[' * 100_000}", f"copies={'9' * 5000}", f"stream={HUGE}*regular", f"group=C{HUGE}"]


@pytest.mark.parametrize("option", MODEL_OPTIONS, ids=lambda text: text[:20])
def test_options_of_a_model_are_refused_before_anything_starts(option: str, tmp_path: Path) -> None:
    started = time.perf_counter()
    outcome = command_line.steerable("train", "digits", "--out", "x", f"-m{option}", cwd=tmp_path, code=2)
    assert time.perf_counter() - started < 10
    assert outcome.stderr.startswith("error: ")
    assert not list(tmp_path.iterdir())


COSTS = ("--kernel-size", "--depth", "--copies", "--in-channels", "--size")


@pytest.mark.parametrize("option", COSTS)
@pytest.mark.parametrize("value", ["-1", "0", HUGE, "x", "2.5"])
def test_numbers_of_the_cost_table(option: str, value: str, tmp_path: Path) -> None:
    types = ("regular", "regular") if option == "--kernel-size" else ("resnet",)
    outcome = command_line.steerable("cost", *types, f"{option}={value}", cwd=tmp_path, code=2)
    assert "Traceback" not in outcome.stderr
