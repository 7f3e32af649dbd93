"""Runs that start from a trained network: what is kept, adapted, frozen and drawn anew; they resume exactly."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from cell_images import write_cells
from command_line import steerable
from PIL import Image
from safetensors.torch import load_file
from small_runs import killed_in, same_weights, weights

from steerable.models import build_model, resnet
from steerable.models.parts import frozen_parts, parts_of
from steerable.models.transfer import transfer_weights
from steerable.reporting.report import write_report
from steerable.training.choosing.defaults import configured, repeated
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan import Plan
from steerable.training.running.run import train
from steerable.training.trained_networks.export import export_safetensors
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import load_trained

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*images are few.*"),
]

MODEL = {"name": "resnet", "depth": 8, "copies": 1, "head": "invariant"}
UNET = {"name": "unet", "depth": 2, "copies": 1}


def write_shapes(
    root: Path, classes: tuple[str, ...], mode: str = "L", count: int = 12, size: tuple[int, int] = (16, 16)
) -> Path:
    """Class folders of noisy bars and squares."""
    generator = np.random.default_rng(0)
    for number, name in enumerate(classes):
        (root / name).mkdir(parents=True)
        for k in range(count):
            picture = generator.integers(0, 60, (16, 16, len(mode)))
            picture[4:12, 6 - number : 8 + number] += 150
            Image.fromarray(picture.astype(np.uint8).squeeze()).resize(size).save(root / name / f"{k}.png")
    return root


def asked(folder: Path, model: dict[str, Any] | None = None, epochs: int = 2, **settings: Any) -> RunConfig:
    settings = {"progress": False, "accelerator": "cpu", "checkpoint_seconds": 0.0, "validation": 0.0, **settings}
    return configured(str(folder), model or {}, changes={"epochs": epochs}, **settings)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("data")
    write_shapes(root / "grey", ("bar", "box"))
    write_shapes(root / "colour", ("bar", "box", "wide"), "RGB")
    write_cells(root / "cells", 8, size=(32, 32))
    return root


@pytest.fixture(scope="module")
def old(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "old"
    train(asked(data / "grey", MODEL), folder)
    return folder


@pytest.fixture(scope="module")
def old_cells(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "cells"
    train(asked(data / "cells", UNET, epochs=1), folder)
    return folder


@pytest.fixture(scope="module")
def whole(data: Path, old: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("runs") / "whole"
    train(asked(data / "colour", start=str(old), freeze="stem"), folder)
    return folder


def told(config: RunConfig, folder: Path) -> str:
    lines: list[str] = []
    train(config, folder, tell=lines.append)
    return "\n".join(lines)


def test_other_classes_and_channels_get_a_new_head_and_adapted_filters(data: Path, old: Path, tmp_path: Path) -> None:
    said = told(asked(data / "colour", start=str(old), freeze="all-but-head"), tmp_path / "new")
    assert f"Starts from the weights of {old} (SHA-256 " in said
    assert (
        "a new head for 3 classes; filters for 1 channel adapted to 3; frozen: `stem`, `stage1`, `stage2`, `stage3`."
        in said
    )
    before, after = weights(old), weights(tmp_path / "new")
    assert before.keys() == after.keys()
    for name, value in before.items():
        if name.startswith("head."):
            assert value.shape != after[name].shape
        elif name != "features.stem.weight":  # running statistics of batch norms as well
            assert torch.equal(value, after[name]), name
    grey = TrainedModel.load(old).model
    colour = TrainedModel.load(tmp_path / "new").model
    x = torch.randn(2, 1, 16, 16)
    with torch.no_grad():
        torch.testing.assert_close(colour.features(x.expand(-1, 3, -1, -1)), grey.features(x))
    plan = json.loads((tmp_path / "new" / "plan.json").read_text())
    assert plan["settings"]["model"]["copies"] == 1
    assert len(plan["start"]) == 64
    card = (tmp_path / "new" / "model" / "README.md").read_text()
    assert "| starts from | old |" in card  # and not where that lies
    assert str(tmp_path) not in card
    exported = export_safetensors(TrainedModel.load(tmp_path / "new"), tmp_path / "exported")
    assert (exported / "README.md").read_text() == card
    page = write_report([tmp_path / "new"], tmp_path / "report.html").read_text()
    assert "starts from" in page
    assert "all-but-head" in page


def test_images_are_resized_to_what_the_network_reduces_exactly(data: Path, tmp_path: Path) -> None:
    """A stem that reduces 16 pixels to 4 leaves 6 of 24 pixels, which cannot be halved twice."""
    old, new = tmp_path / "old", write_shapes(tmp_path / "images", ("bar", "box"), size=(24, 24))
    train(asked(data / "grey", {**MODEL, "stem": 4}, epochs=1), old)
    request = asked(new, epochs=1, start=str(old))
    results = train(request, tmp_path / "run")
    assert results["image_size"] == [32, 32]
    assert max(results["poses"]["drift"].values()) < 1e-4
    (tmp_path / "run" / "results.json").unlink()
    assert train(request, tmp_path / "run")["image_size"] == [32, 32]
    assert train(asked(new, epochs=1, start=str(old), image_size=16), tmp_path / "own")["image_size"] == [16, 16]


def test_what_is_not_frozen_learns_and_the_same_classes_keep_their_head(data: Path, old: Path, tmp_path: Path) -> None:
    said = told(asked(data / "grey", start=str(old), freeze="2", epochs=3), tmp_path / "new")
    assert "the head is kept, since the classes are the same; frozen: `stem`, `stage1`." in said
    before, after = weights(old), weights(tmp_path / "new")
    for name, value in before.items():
        frozen = name.startswith(("features.stem", "features.stage1"))
        assert torch.equal(value, after[name]) == (frozen or not value.numel()), name
    start = load_file(tmp_path / "new" / "start.safetensors")
    assert all(torch.equal(value, start[name]) for name, value in before.items())


def test_a_network_for_segmentation_starts_from_another(data: Path, old_cells: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    said = told(asked(data / "cells", start=str(old_cells), freeze="level1, level2", epochs=3), new)
    assert "frozen: `level1`, `level2`." in said
    before, after = weights(old_cells), weights(new)
    for name, value in before.items():
        if name.startswith(("encoders.0.", "encoders.1.")):
            assert torch.equal(value, after[name]), name
    assert not torch.equal(before["head.weight"], after["head.weight"])
    assert load_trained(new).channels == 1


@pytest.mark.parametrize("epoch", [0, 1])
def test_a_resumed_run_ends_with_the_same_bits_when_the_first_has_gone(
    data: Path, old: Path, whole: Path, tmp_path: Path, epoch: int
) -> None:
    origin = tmp_path / "old"
    shutil.copytree(old, origin)
    config = asked(data / "colour", start=str(origin), freeze="stem")
    with killed_in(epoch):
        train(config, tmp_path / "killed")
    if epoch == 0:
        shutil.rmtree(origin)
    else:  # other weights in its place
        resnet(8, 1, num_classes=2, in_channels=1).save_pretrained(origin / "model")
    train(asked(data / "colour", start=str(origin), freeze="stem"), tmp_path / "killed")
    assert same_weights(whole, tmp_path / "killed")


def test_a_plan_is_repeated_with_the_weights_that_it_was_made_for(data: Path, old: Path, tmp_path: Path) -> None:
    origin = tmp_path / "old"
    shutil.copytree(old, origin)
    train(asked(data / "colour", start=str(origin), epochs=1), tmp_path / "first")
    plan = Plan.load(tmp_path / "first" / "plan.json")
    again = repeated(plan, str(data / "colour"), accelerator="cpu", progress=False)
    train(again, tmp_path / "second", plan=plan)
    first, second = weights(tmp_path / "first"), weights(tmp_path / "second")
    assert all(torch.equal(value, second[name]) for name, value in first.items())
    resnet(8, 1, num_classes=2, in_channels=1, head="invariant").save_pretrained(origin / "model")
    with pytest.raises(ValueError, match="not those that the plan was made for"):
        train(again, tmp_path / "third", plan=plan)
    assert not (tmp_path / "third").exists()
    (tmp_path / "first" / "results.json").unlink()
    (tmp_path / "first" / "start.safetensors").write_bytes(b"damaged")
    with pytest.raises(
        ValueError, match=r"cannot continue without the weights that it started from.*start\.safetensors"
    ):
        train(asked(data / "colour", start=str(origin), epochs=1), tmp_path / "first")


def test_a_saved_folder_has_no_class_names_and_a_head_may_be_of_another_kind(data: Path, tmp_path: Path) -> None:
    torch.manual_seed(0)
    resnet(8, 1, num_classes=2, in_channels=1, group="C4").save_pretrained(tmp_path / "saved")
    said = told(asked(data / "grey", {"head": "max"}, start=str(tmp_path / "saved"), epochs=1), tmp_path / "new")
    assert "a new head for 2 classes." in said
    found = TrainedModel.load(tmp_path / "new").model_config
    assert (found["name"], found["group"], found["head"]) == ("resnet", "C4", "max")


@pytest.mark.parametrize(
    ("settings", "model", "words"),
    [
        ({"start": "missing"}, {}, r"there is no folder `.*missing`\. Give a folder"),
        ({"start": "cells"}, {}, r"`.*cells` holds a unet, which gives classes of pixels, and this run is to classify"),
        ({}, {"group": "C4"}, r"asks for group=C4, and the network in `.*` has group=D4: .* `network\.restrict"),
        ({}, {"stem": 2}, r"asks for stem=2, and the network in `.*` has stem=its default: .* Leave stem out"),
        ({}, {"copies": 3}, r"asks for copies=3, and the network in `.*` has copies=1"),
        ({}, {"name": "wide_resnet"}, r"holds a resnet, and the run asks for a wide_resnet\. Leave the model out"),
        ({}, {"copy": 3}, r"resnet has no option `copy`\. Did you mean"),
        ({"freeze": "5"}, {}, r"freeze=5 is the number of parts.* expected 1 to 4: `?stem"),
        ({"freeze": "stage4"}, {}, r"names the part 'stage4', and this network has .*Did you mean `?stage"),
        ({"freeze": "head"}, {}, r"freeze names the head, which is always trained"),
        ({"parameters": 1000}, {}, r"parameters=1,000 chooses the network's width, and start="),
        ({"start": None, "freeze": "1"}, MODEL, r"keeps parts of a trained network as they are, and this run starts"),
    ],
)
def test_what_contradicts_the_network_is_refused_before_images_are_read(
    settings: dict[str, Any],
    model: dict[str, Any],
    words: str,
    data: Path,
    old: Path,
    old_cells: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    places = {"missing": tmp_path / "missing", "cells": old_cells}
    settings = {"start": str(old), **settings}
    if settings["start"] in places:
        settings["start"] = str(places[settings["start"]])
    monkeypatch.setattr("steerable.training.running.run.prepare_data", lambda *_: pytest.fail("images were read"))
    with pytest.raises((ValueError, FileNotFoundError), match=words):
        train(asked(data / "grey", model, **settings), tmp_path / "new")
    assert not (tmp_path / "new").exists()


def test_foreign_weights_and_vectors_are_refused(data: Path, old: Path, tmp_path: Path) -> None:
    shutil.copytree(old / "model", tmp_path / "other")
    config = json.loads((tmp_path / "other" / "config.json").read_text())
    (tmp_path / "other" / "config.json").write_text(json.dumps({**config, "copies": 2}))
    with pytest.raises(ValueError, match=r"does not hold a network that a run can start from: expected the config"):
        train(asked(data / "grey", start=str(tmp_path / "other")), tmp_path / "new")
    (tmp_path / "other" / "config.json").unlink()
    with pytest.raises(FileNotFoundError, match="which says what network the weights belong to"):
        train(asked(data / "grey", start=str(tmp_path / "other")), tmp_path / "new")
    build_model("unet", depth=2, copies=1, in_type="E").save_pretrained(tmp_path / "vectors")
    with pytest.raises(ValueError, match="takes fields of the type `E`, and images have scalar channels"):
        train(asked(data / "cells", start=str(tmp_path / "vectors")), tmp_path / "new")


@pytest.mark.parametrize(
    ("name", "options", "parts"),
    [
        ("resnet", {"depth": 14, "copies": 1}, "stem stage1 stage2 stage3 head"),
        ("plain_resnet", {"depth": 14, "width": 4}, "stem stage1 stage2 stage3 head"),
        ("wide_resnet", {"depth": 10, "width": 1, "groups": "D4,C4,C1"}, "stem stage1 stage2 stage3 head"),
        ("plain_wide_resnet", {"depth": 10, "width": 1}, "stem stage1 stage2 stage3 head"),
        ("unet", {"depth": 2, "copies": 1}, "level1 level2 level3 up2 up1 head"),
        ("plain_unet", {"depth": 2, "width": 4}, "level1 level2 level3 up2 up1 head"),
    ],
)
def test_parts_are_the_whole_network_and_any_model_takes_other_channels(
    name: str, options: dict[str, Any], parts: str
) -> None:
    torch.manual_seed(0)
    colour, grey = (build_model(name, in_channels=n, **options).double() for n in (3, 1))
    found = parts_of(colour)
    assert " ".join(found) == parts
    assert frozen_parts(found, "all-but-head") == parts.split()[:-1]
    inside = [p for modules in found.values() for module in modules for p in module.parameters()]
    assert sorted(map(id, inside)) == sorted(map(id, colour.parameters()))
    transfer_weights(colour, grey, head=True)
    x = torch.randn(2, 1, 16, 16, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(grey.train()(x), colour.train()(x.expand(-1, 3, -1, -1)), rtol=1e-10, atol=1e-10)


def test_the_command(data: Path, old: Path, tmp_path: Path) -> None:
    common = ("--epochs", "1", "--accelerator", "cpu", "--no-progress", "--validation", "0")
    said = steerable("train", str(data / "colour"), "--from", str(old), "--freeze", "1", *common, cwd=tmp_path).stdout
    assert "frozen: `stem`." in said
    for option, value, words in (
        ("--group", "D8", "the run asks for group=D8"),
        ("--compare", "plain", "which has learnt from others as well. Leave one of the two out"),
    ):
        refused = steerable("train", str(data / "colour"), "--from", str(old), option, value, cwd=tmp_path, code=2)
        assert words in refused.stderr
