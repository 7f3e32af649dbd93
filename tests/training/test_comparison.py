"""``--compare plain``: two networks from one command, resumed like any run, and what is said of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from cell_images import write_cells
from command_line import steerable

from steerable.data.labelled_images import LabelledImages
from steerable.data.mask_folders import load_mask_folder
from steerable.data.masked_images import MaskedImages
from steerable.data.object_fields import instance_fields
from steerable.training.choosing.defaults import configured
from steerable.training.evaluation.comparison_in_words import basis, compared_figures, verdict
from steerable.training.evaluation.pixel_answers import ObjectFields
from steerable.training.evaluation.posed_values import posed_values
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import load_recipe
from steerable.training.running import plain_contest
from steerable.training.running.plain_contest import compare_with_plain, plain_request
from steerable.training.running.run import train

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*training images are few.*"),
]

COMMAND = ("train", "digits", "--out", "run", "--labels", "40", "--epochs", "1", "-mdepth=8", "-mcopies=1")
WHERE = ("-mhead=invariant", "--accelerator", "cpu", "--no-progress")


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a run that ended, and was then compared; the plain run was interrupted before it began."""
    work = tmp_path_factory.mktemp("work")
    steerable(*COMMAND, *WHERE, cwd=work)
    before = (work / "run" / "results.json").read_bytes()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plain_contest, "TO_READ", 0.005)

        def killed(*arguments: Any, **more: Any) -> None:
            raise ValueError("the power went out")

        patch.setattr(plain_contest, "train", killed)
        assert "power" in steerable(*COMMAND, *WHERE, "--compare", "plain", cwd=work, code=2).stderr
        assert not (work / "run" / "comparison.json").exists()
        patch.setattr(plain_contest, "train", train)
        said = steerable(*COMMAND, *WHERE, "--compare", "plain", cwd=work).stdout
    assert "nothing was trained now" in said
    assert "Now the plain network" in said
    assert (work / "run" / "results.json").read_bytes() == before
    return work


def test_a_finished_run_is_compared_afterwards(work: Path) -> None:
    run = work / "run"
    found, plain = (json.loads((run / name).read_text()) for name in ("comparison.json", "plain/results.json"))
    ours = json.loads((run / "results.json").read_text())
    assert found["images"] == sum(map(sum, ours["poses"]["confusion"]))
    assert found["judged_by"] == ""
    for name, results in (("steerable", ours), ("plain", plain)):
        about = found["networks"][name]
        assert about["parameters"] == results["parameters"]
        assert found["figures"]["upright"][name]["value"] == pytest.approx(results["poses"]["upright"])
        assert found["figures"]["all_poses"][name]["value"] == pytest.approx(results["poses"]["all_poses"])
    assert abs(plain["parameters"] / ours["parameters"] - 1) < 0.1
    assert found["figures"]["agreement"]["steerable"]["value"] == 1.0
    difference = found["figures"]["agreement"]["difference"]  # how long the plain network was trained depends on clocks
    assert difference["value"] == pytest.approx(1.0 - found["figures"]["agreement"]["plain"]["value"])
    assert 0 <= difference["p"] <= 1


def test_what_was_compared_is_shown_again_and_not_trained_again(work: Path) -> None:
    files = [work / "run" / name for name in ("comparison.json", "plain/results.json")]
    before = [file.stat().st_mtime_ns for file in files]
    said = steerable(*COMMAND, *WHERE, "--compare", "plain", cwd=work).stdout
    assert "Steerable and plain network on the same test images" in said
    assert [file.stat().st_mtime_ns for file in files] == before
    shown = json.loads(steerable("evaluate", "run", "--json", cwd=work).stdout)
    assert shown["comparison"] == json.loads(files[0].read_text())
    steerable("report", "run", "--out", "page.html", cwd=work)
    page = (work / "page.html").read_text()
    assert "Compared with a plain network" in page
    assert verdict(shown["comparison"]) in page.replace("&lt;", "<")
    assert page.count('class="run"') >= 4  # the plain run has a row, curves and poses of its own


def test_a_damaged_comparison_is_named(work: Path, tmp_path: Path) -> None:
    (tmp_path / "comparison.json").write_text('{"task": "classify", "images": 3}')
    with pytest.raises(ValueError, match=r"has no `posed`.*Remove the file, and `--compare plain` makes it again"):
        plain_contest.read_comparison(tmp_path)
    file = work / "run" / "comparison.json"
    whole = file.read_text()
    try:
        file.write_text(whole.replace('"p":', '"q":'))
        run = steerable("report", "run", "--out", "page.html", cwd=work)
        assert "for `figures`, expected the figures of both networks" in run.stderr
    finally:
        file.write_text(whole)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--compare", "fancy"), "a network can only be compared with a plain one, --compare plain; got 'fancy'"),
        (
            ("--compare", "plain", "--model", "plain_resnet"),
            "compares a steerable network, resnet, wide_resnet, unet, with a plain one; got the model plain_resnet",
        ),
    ],
)
def test_what_cannot_be_compared_is_refused_at_once(arguments: tuple[str, ...], message: str, tmp_path: Path) -> None:
    assert message in steerable("train", "digits", "--out", "x", *arguments, cwd=tmp_path, code=2).stderr
    assert not (tmp_path / "x").exists()


def test_the_plain_network_has_the_same_chances(tmp_path: Path) -> None:
    """As many parameters, the same images, minutes and seed, all poses to look at, and rates of its own."""
    (tmp_path / "a").mkdir()
    request = configured(str(tmp_path), {}, minutes=7.0, seed=3, group_by="folder")
    results = {"model": {"name": "resnet", "depth": 14, "copies": 3, "stem": 2, "head": "invariant"}}
    plain = plain_request(request, {**results, "parameters": 12_345, "training_minutes": 6.0})
    assert plain.model == {"name": "plain_resnet", "depth": 14, "stem": 2}
    assert (plain.parameters, plain.minutes, plain.seed, plain.fit) == (12_345, 7.0, 3, "stretch")
    assert plain.group_by == "folder"
    assert (plain.recipe.optimiser, plain.recipe.learning_rate, plain.recipe.weight_decay) == ("adamw", 0.005, 0.05)
    (tmp_path / "cells" / "images").mkdir(parents=True)
    (tmp_path / "cells" / "masks").mkdir()
    masks = configured(str(tmp_path / "cells"), {}, minutes=7.0)
    small = plain_request(masks, {"model": {"name": "unet", "depth": 3, "copies": 1}, "parameters": 15_000})
    assert small.model == {"name": "plain_unet", "depth": 3}
    assert (small.recipe.optimiser, small.recipe.learning_rate) == ("adamw", 0.005)
    assert configured(str(tmp_path / "cells"), {"name": "plain_unet"}).recipe.optimiser == "adamw"
    own = RunConfig("digits", {"name": "resnet"}, load_recipe("images", learning_rate=0.02))
    without = plain_request(own, {**results, "parameters": 9, "training_minutes": 2.0})
    assert (without.recipe.optimiser, without.recipe.learning_rate) == ("sgd", 0.02)
    assert without.minutes == 2.3


def test_figures_of_single_images() -> None:
    """A network that looks at one corner is right where the bright corner is that one."""
    images = torch.zeros(3, 1, 4, 4, dtype=torch.uint8)
    images[0, 0, 0, 0] = images[1, 0, 0, 3] = 255
    images[2] = 255
    data = LabelledImages(images, torch.tensor([1, 1, 1]), ("dark", "bright"))

    def corner(x: torch.Tensor) -> torch.Tensor:
        value = x[:, 0, 0, 0].float()
        return torch.stack([100 - value, value], dim=1)

    found = posed_values(corner, data)
    np.testing.assert_array_equal(found.upright, [1, 0, 1])
    np.testing.assert_array_equal(found.all_poses, [0.25, 0.25, 1])
    np.testing.assert_array_equal(found.agreement, [0, 0, 1])


def test_figures_of_single_masks(tmp_path: Path) -> None:
    data = load_mask_folder(write_cells(tmp_path / "cells", 5, size=(32, 32))).test

    def by_level(image: torch.Tensor) -> torch.Tensor:
        levels = image[0].float()
        return torch.stack([110 - levels, levels - 110])

    def lopsided(image: torch.Tensor) -> torch.Tensor:
        return by_level(image) * torch.tensor([[1.0] * 16 + [-1.0] * 16])

    ours, theirs = posed_values(by_level, data), posed_values(lopsided, data)
    assert ours.upright.min() > 0.8
    np.testing.assert_allclose(ours.all_poses, ours.upright, atol=1e-12)
    np.testing.assert_array_equal(ours.agreement, 1.0)
    assert theirs.upright.max() < 0.6
    assert theirs.agreement.max() < 0.1


def test_figures_of_numbered_objects() -> None:
    """One network says the truth; the other one the same, but of nothing in the right half of what it sees."""
    mask = torch.zeros(24, 24, dtype=torch.int32)
    mask[2:10, 2:10], mask[2:10, 14:22], mask[14:22, 2:10], mask[14:22, 14:22] = 1, 2, 3, 4
    image = (60 * mask).to(torch.uint8)[None]
    data = MaskedImages((image,), (mask,), ("background", "object"), 24, "instances")

    def truth(image: torch.Tensor) -> torch.Tensor:
        parts, vectors = instance_fields(image.long() // 60)
        return torch.cat([9 * F.one_hot(parts[0], 3).permute(2, 0, 1), vectors[0]])

    def blind(image: torch.Tensor) -> torch.Tensor:
        fields = truth(image)
        fields[0, :, 12:] = 99
        return fields

    ours, theirs = (posed_values(network, data, answer=ObjectFields()) for network in (truth, blind))
    np.testing.assert_array_equal(ours.upright_precision, [1])
    np.testing.assert_array_equal(ours.posed_precision, [1])
    np.testing.assert_array_equal(theirs.upright_precision, [0.5])
    np.testing.assert_array_equal(theirs.posed_precision, [0.5])
    assert theirs.agreement[0] < 1


def figure(ours: float, theirs: float, p: float) -> dict[str, Any]:
    each = {
        name: {"value": v, "low": v - 0.02, "high": v + 0.02} for name, v in (("steerable", ours), ("plain", theirs))
    }
    apart = {"value": ours - theirs, "low": ours - theirs - 0.03, "high": ours - theirs + 0.03, "p": p}
    return {**each, "difference": apart}


@pytest.mark.parametrize(
    ("ours", "theirs", "p", "sentence"),
    [
        (0.9, 0.8, 0.001, "The steerable network is better, 90.0% against 80.0% (accuracy, mean over poses): the "),
        (0.7, 0.8, 1e-9, "The plain network is better, 80.0% against 70.0%"),
        (
            0.81,
            0.8,
            0.4,
            "but 50 test images are too few to tell this from chance (p = 0.4; steerable minus plain -2.0",
        ),
    ],
)
def test_the_sentence_says_what_the_figures_allow(ours: float, theirs: float, p: float, sentence: str) -> None:
    figures = dict.fromkeys(("upright", "all_poses", "agreement"), figure(ours, theirs, p))
    found = {"task": "classify", "images": 50, "posed": 40, "specimens": 7, "figures": figures}
    assert sentence in verdict(found)
    assert "50 test images of 7 specimens, which count as one observation each, 40 of them in all poses" in basis(found)
    assert [row.beyond_chance for row in compared_figures(found)] == 3 * [p < 0.05]


def test_networks_that_number_objects_are_judged_by_how_well_they_find_them() -> None:
    figures = dict.fromkeys(("upright", "all_poses", "agreement"), figure(0.9, 0.8, 0.001))
    found = {"task": "segment", "images": 50, "posed": 40, "specimens": 0, "figures": figures}
    assert "better, 90.0% against 80.0% (Dice, mean over poses)" in verdict(found)
    figures |= {"posed_precision": figure(0.3, 0.4, 0.01), "upright_precision": figure(0.3, 0.4, 0.01)}
    assert "The plain network is better, 40.0% against 30.0% (mean average precision, mean over poses)" in verdict(
        found
    )
    assert [row.name for row in compared_figures(found)][:3] == [
        "mean average precision, upright",
        "mean average precision, mean over poses",
        "Dice, upright",
    ]


def test_networks_of_upright_images_are_judged_by_upright_images() -> None:
    """The mean over poses in which images do not come says nothing about them."""
    figures = {**dict.fromkeys(("all_poses", "agreement"), figure(0.4, 0.3, 0.001)), "upright": figure(0.9, 0.95, 0.01)}
    found = {"task": "classify", "images": 50, "posed": 50, "specimens": 0, "figures": figures, "judged_by": "upright"}
    assert "The plain network is better, 95.0% against 90.0% (accuracy, upright)" in verdict(found)
    assert "The steerable network is better, 40.0% against 30.0%" in verdict({**found, "judged_by": ""})


def test_a_request_that_looks_at_no_test_images_is_not_compared(tmp_path: Path) -> None:
    config = RunConfig("digits", {"name": "resnet"}, validation=0.2, evaluate="validation")
    with pytest.raises(ValueError, match="networks are compared on test images, and this run does not look at them"):
        compare_with_plain(config, tmp_path, {})
