"""Run folders of the last revision, which wrote no plans: they load, and go on bit for bit as they would have there.

``last_revision`` was written by revision 53456b1 on one thread. ``finished`` is a run that ended, ``killed`` was
stopped by kill -9 after some of the epochs that had been fitted to its minutes, and ``ended`` is what that revision
made of it when it resumed it. Checkpoints and drawings that no test needs were removed. In ``models`` are networks that
it saved, each with an input and the output that it had there.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from steerable import models
from steerable.reporting.report import write_report
from steerable.training.choosing.defaults import configured
from steerable.training.requests.config import OWN_IMAGES, RunConfig
from steerable.training.requests.recipes import load_recipe
from steerable.training.running.environment import environment
from steerable.training.running.run import train
from steerable.training.running.run_folder import check_run_folder
from steerable.training.trained_networks.export import export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel

FOLDERS = Path(__file__).parent / "last_revision"

pytestmark = [
    pytest.mark.filterwarnings("ignore:the smallest resnet for these images has"),
]


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def finished(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "finished", tmp_path / "finished"))


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    return Path(shutil.copytree(FOLDERS / "killed", tmp_path / "killed"))


def request_of_killed(**changes: Any) -> RunConfig:
    """What the same command means today."""
    settings: dict[str, Any] = {
        "parameters": 6000,
        "minutes": 0.05,
        "labels": 60,
        "validation": 20.0,
        "accelerator": "cpu",
        "progress": False,
        "checkpoint_seconds": 0.0,
    }
    recipe = {"augment": True, "rates_by_sharing": True}
    model = {"name": "resnet", "head": "invariant"}
    return configured("digits", model, recipe="demo", changes=recipe, **{**settings, **changes})


def test_a_finished_run_loads_and_has_the_same_figures(finished: Path, tmp_path: Path) -> None:
    results = json.loads((finished / "results.json").read_text())
    trained = TrainedModel.load(finished)
    found = trained.evaluate()  # a warning would say that the images have changed
    assert found["poses"]["confusion"] == results["poses"]["confusion"]
    assert found["poses"]["accuracy"] == results["poses"]["accuracy"]
    assert train(replace(trained.config, progress=False), finished) == results  # type: ignore[type-var]
    page = write_report([finished], tmp_path / "report.html").read_text("utf-8")
    assert f"{results['parameters']:,}" in page
    assert "damaged" not in page
    exported = export_safetensors(trained, tmp_path / "exported")
    assert TrainedModel.load(exported).classes == trained.classes


@pytest.mark.parametrize("name", sorted(path.name for path in (FOLDERS / "models").iterdir()))
def test_a_saved_model_loads_and_gives_the_same_output(name: str) -> None:
    network = models.from_pretrained(FOLDERS / "models" / name).eval()
    example = load_file(FOLDERS / "models" / name / "example.safetensors")
    with torch.no_grad():
        torch.testing.assert_close(network(example["x"]), example["y"], rtol=1e-4, atol=1e-5)


def test_a_killed_run_goes_on(killed: Path) -> None:
    """To rounding: batch norm sums in another order by now."""
    before = {path.name: path.read_bytes() for path in killed.glob("*.json")}
    results = train(request_of_killed(), killed)
    expected = json.loads((FOLDERS / "ended" / "results.json").read_text())
    assert (results["epochs"], results["model"]) == (expected["epochs"], expected["model"])
    assert {name: (killed / name).read_bytes() for name in before} == before  # nothing was settled anew
    then, now = json.loads((FOLDERS / "ended" / "environment.json").read_text()), environment()
    same = then["cpu"] == now["cpu"] and then["versions"]["torch"] == now["versions"]["torch"]
    old, new = load_file(FOLDERS / "ended" / "model.safetensors"), load_file(killed / "model" / "model.safetensors")
    assert old.keys() == new.keys()
    closeness = 1e-3 if same else 0.05  # another CPU rounds differently in every layer
    for name, value in old.items():
        torch.testing.assert_close(new[name], value, rtol=closeness, atol=closeness, msg=name)
    if same:
        assert results["poses"]["accuracy"] == expected["poses"]["accuracy"]


@pytest.mark.parametrize(
    ("changes", "what"),
    [({"seed": 1}, "seed"), ({"minutes": 0.06}, "recipe`, `minutes"), ({"precision": "bf16-mixed"}, "precision")],
)
def test_another_request_does_not_touch_it(changes: dict[str, Any], what: str, killed: Path) -> None:
    with pytest.raises(FileExistsError, match=f"holds a run that differs in `{what}`"):
        train(request_of_killed(**changes), killed)


def test_a_broken_note_of_its_images_is_named(killed: Path) -> None:
    (killed / "resolved.json").write_text("[]")
    with pytest.raises(
        ValueError, match=r"resolved\.json` .*Remove the file to continue with the images as they are now"
    ):
        train(request_of_killed(), killed)
    assert "resolved.json` " in write_report([killed], killed.parent / "report.html").read_text("utf-8")


def test_other_images_are_noticed(killed: Path) -> None:
    path = killed / "resolved.json"
    found = json.loads(path.read_text())
    path.write_text(json.dumps({**found, "digests": {**found["digests"], "train": "0" * 64}}))
    with pytest.raises(ValueError, match="the images of `digits` have changed since the run in"):
        train(request_of_killed(), killed)


def test_a_run_goes_on_without_the_settings_that_its_recipe_did_not_have(tmp_path: Path) -> None:
    """The recipe of the same name turns images by now; a run that was begun without turns ends without them."""
    request = RunConfig("digits", {"name": "resnet"}, load_recipe("images"))
    values = request.to_dict()
    for name in ("turn", "scale", "brightness", "contrast", "padding"):
        del values["recipe"][name]
    (tmp_path / "config.json").write_text(json.dumps(values))
    earlier = check_run_folder(request, tmp_path)
    assert earlier is not None
    assert (earlier.recipe.turn, earlier.recipe.scale, earlier.recipe.padding) == (False, 1.0, "zero")
    with pytest.raises(FileExistsError, match="holds a run that differs in `recipe`"):
        check_run_folder(replace(request, recipe=load_recipe("images", shift=1)), tmp_path)
    # Defaults for people's own images have changed at the same time.
    (tmp_path / "config.json").write_text(json.dumps({**values, "validation": 0.15, "patience": 20}))
    now = {name: OWN_IMAGES[name] for name in ("validation", "patience")}
    earlier = check_run_folder(replace(request, **now), tmp_path)
    assert earlier is not None
    assert (earlier.validation, earlier.patience) == (0.15, 20)
    with pytest.raises(FileExistsError, match="holds a run that differs in `patience`"):
        check_run_folder(replace(request, **{**now, "patience": 5}), tmp_path)
