"""Images of one specimen are never both trained and tested on."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from small_runs import request

from steerable.data import LabelledImages, load_dataset
from steerable.training.learning.preparing import prepare_data
from steerable.training.requests.config import RunConfig
from steerable.training.running.run import train
from steerable.training.trained_networks.trained_model import TrainedModel


def picture(path: Path, number: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.fromarray(np.random.default_rng(number).integers(0, 256, (8, 8), dtype=np.uint8)).save(path)


def folder_of_patients(root: Path, patients: int = 10, crops: int = 3) -> Path:
    """Every patient has crops of both classes."""
    number = 0
    for patient in range(patients):
        for label in ("healthy", "ill"):
            for crop in range(crops):
                picture(root / label / f"patient{patient}" / f"{crop}.png", number := number + 1)
    return root


def table_of_patients(root: Path, patients: int = 10, crops: int = 4) -> Path:
    lines = ["file,label,Patient"]
    for k in range(patients * crops):
        picture(root / f"{k}.png", k)
        lines.append(f"{k}.png,{'ill' if k % 2 else 'healthy'},P{k // crops}")
    (root / "labels.csv").write_text("\n".join(lines))
    return root / "labels.csv"


@pytest.mark.parametrize("kind", ["folder", "table"])
@pytest.mark.parametrize("seed", range(5))
def test_no_specimen_is_in_two_parts(kind: str, seed: int, tmp_path: Path) -> None:
    source = folder_of_patients(tmp_path) if kind == "folder" else table_of_patients(tmp_path)
    splits = load_dataset(source, seed=seed, group_by="folder" if kind == "folder" else "patient")
    train, test = set(splits.train.specimens), set(splits.test.specimens)
    assert not train & test
    assert len(train | test) == 10
    assert len(splits.test) == pytest.approx(0.2 * (len(splits.train) + len(splits.test)), abs=6)
    assert min(splits.test.counts) > 0
    rest, validation = splits.train.split(0.2, seed=seed)
    assert not set(rest.specimens) & set(validation.specimens)


def test_without_it_crops_of_a_specimen_fall_into_both(tmp_path: Path) -> None:
    with pytest.warns(
        UserWarning, match="each of `healthy`, `ill` has the folders `patient0`, .*give --group-by folder"
    ):
        splits = load_dataset(folder_of_patients(tmp_path))
    assert splits.train.specimens == ()
    patients = [{file.split("/")[1] for file in part.files} for part in (splits.train, splits.test)]
    assert patients[0] & patients[1]


def test_a_run_keeps_specimens_together_in_all_three_parts(tmp_path: Path) -> None:
    config = RunConfig(
        dataset=str(folder_of_patients(tmp_path)), model={"name": "resnet"}, validation=0.2, group_by="folder"
    )
    data = prepare_data(config)
    assert data.validation is not None
    parts = [set(part.specimens) for part in (data.train, data.validation, data.test)]
    assert sum(map(len, parts)) == len(set.union(*parts)) == 10
    assert data.train.resized(4).specimens == data.train.specimens


def test_of_a_copy_of_its_images_a_run_is_tested_on_the_same_specimens(tmp_path: Path) -> None:
    images = folder_of_patients(tmp_path / "images")
    train(request(dataset=str(images), group_by="folder", labels=None), tmp_path / "run")
    images.rename(tmp_path / "moved")
    trained = TrainedModel.load(tmp_path / "run")
    with pytest.warns(UserWarning, match="these are the images that the network comes from"):
        _, found = trained.test_images(str(tmp_path / "moved"))
    (tmp_path / "moved").rename(images)
    assert found.digest == trained.test_images()[1].digest
    picture(tmp_path / "other" / "ill" / "0.png", 1)
    assert len(trained.test_images(str(tmp_path / "other"))[1]) == 1


def test_a_specimen_of_the_only_images_of_a_class_stays_in_training() -> None:
    images = torch.zeros(9, 1, 4, 4, dtype=torch.uint8)
    data = LabelledImages(images, torch.tensor([0] * 6 + [1] * 3), ("a", "b"), (), tuple("112233" + "444"))
    for seed in range(5):
        rest, part = data.split(0.3, seed=seed)
        assert set(part.specimens) < {"1", "2", "3"}
        assert min(rest.counts) > 0


@pytest.mark.parametrize("crops", [2, 3, 5])
@pytest.mark.parametrize("patients", [2, 3])
def test_a_few_specimens_of_one_class_each_are_divided_nevertheless(patients: int, crops: int) -> None:
    labels = torch.tensor([0, 1]).repeat_interleave(patients * crops)
    specimens = tuple(str(k // crops) for k in range(len(labels)))
    data = LabelledImages(torch.zeros(len(labels), 1, 4, 4, dtype=torch.uint8), labels, ("a", "b"), (), specimens)
    for seed in range(5):
        rest, part = data.split(0.2, seed=seed)
        assert not set(rest.specimens) & set(part.specimens)
        assert part.counts == (crops, crops)


@pytest.mark.parametrize(
    ("group_by", "message"),
    [("patent", "has no column `patent` to group its images by. Did you mean `patient`"), ("x1", "no column `x1`")],
)
def test_columns_that_are_not_there(group_by: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        load_dataset(table_of_patients(tmp_path), group_by=group_by)


def test_a_table_whose_first_column_has_no_name(tmp_path: Path) -> None:
    """As pandas writes it: these numbers are no specimens."""
    table = table_of_patients(tmp_path)
    header, *rows = table.read_text().splitlines()
    table.write_text("\n".join([f",{header}", *(f"{number},{row}" for number, row in enumerate(rows))]))
    assert load_dataset(table).train.specimens == ()


def test_what_cannot_be_grouped_is_refused(tmp_path: Path) -> None:
    folder = folder_of_patients(tmp_path / "few", patients=1)
    with pytest.raises(ValueError, match="no whole specimen can be held out: there are 1, `patient0`"):
        load_dataset(folder, group_by="folder")
    with pytest.raises(ValueError, match=r"is a folder, whose images are grouped by 'folder'.* Got 'patient'"):
        load_dataset(folder, group_by="patient")
    with pytest.raises(ValueError, match="`digits` is a known data set, which has no specimens to group by"):
        load_dataset("digits", group_by="folder")
    for part in ("train", "test"):
        folder_of_patients(tmp_path / "divided" / part, patients=3)
    with pytest.raises(ValueError, match="has images of `patient0`, `patient1`, `patient2` for training and for test"):
        load_dataset(tmp_path / "divided", group_by="folder")


def test_an_image_that_lies_in_no_folder_is_a_specimen_of_its_own(tmp_path: Path) -> None:
    """Also where another class, or the test, has an image of the same name."""
    names = [f"train/{{}}/{name}" for name in ("0.png", "a/1.png", "b/1.png", "c/1.png")]
    names += [f"test/{{}}/{name}" for name in ("0.png", "d/1.png", "e/1.png")]
    for number, name in enumerate(name.format(label) for name in names for label in ("healthy", "ill")):
        picture(tmp_path / name, number)
    splits = load_dataset(tmp_path, group_by="folder")
    assert set(splits.train.specimens) == {"a", "b", "c", "train/healthy/0.png", "train/ill/0.png"}
    assert set(splits.test.specimens) == {"d", "e", "test/healthy/0.png", "test/ill/0.png"}


def test_a_folder_without_specimens_is_not_grouped(tmp_path: Path) -> None:
    for number in range(6):
        picture(tmp_path / ("healthy" if number % 2 else "ill") / f"{number}.png", number)
    with pytest.raises(ValueError, match=r"no image in .* lies in a folder inside its class folder.*leave the option"):
        load_dataset(tmp_path, group_by="folder")


def test_a_row_without_a_specimen_is_left_out_and_named(tmp_path: Path) -> None:
    table = table_of_patients(tmp_path)
    picture(tmp_path / "last.png", 99)
    table.write_text(table.read_text() + "\nlast.png,ill,\n")
    with pytest.warns(UserWarning, match=r"last\.png` \(line 42 has no patient\)"):
        splits = load_dataset(table, group_by="patient")
    assert splits.skipped == (("last.png", "line 42 has no patient"),)
