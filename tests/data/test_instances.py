"""Numbered objects: their fields turn with the image, objects grow from them again, and both are exact."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from cell_images import cells, write_cells

from steerable import FieldType, dihedral, transform
from steerable.algebra.families import group_named
from steerable.data.augmentation import Augmentation
from steerable.data.instance_growing import courses, grown_instances
from steerable.data.instance_merging import merged_parts
from steerable.data.label_files import label_file
from steerable.data.mask_files import COLOUR, read_label_file
from steerable.data.mask_folders import load_mask_folder
from steerable.data.mask_survey import object_numbers
from steerable.data.masked_images import MaskedImages
from steerable.data.object_fields import BOUNDARY, INSIDE, instance_fields, instance_type
from steerable.data.regions import connected_regions
from steerable.data.tile_batches import TileBatches
from steerable.training.evaluation.average_precision import average_precisions
from steerable.transforms import elements_on_the_grid

D4 = dihedral(4)


def blobs(seed: int, height: int, width: int) -> torch.Tensor:
    """Objects that touch, some of them concave, with gaps between their numbers."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[:height, :width]
    numbers = np.zeros((height, width), np.int64)
    for number in (3, 4, 9, 17, 18):
        y, x, radius = generator.uniform(0, height), generator.uniform(0, width), generator.uniform(2, 7)
        numbers[np.hypot(rows - y, (columns - x) * generator.uniform(0.5, 1.5)) < radius] = number
    return torch.from_numpy(numbers)[None]


def packed(seed: int) -> np.ndarray:
    """Discs on a grid that touch their neighbours, of radius 6 to 9 in all."""
    generator = np.random.default_rng(seed)
    rows, columns = np.mgrid[:96, :96]
    centres = generator.uniform(-2, 2, (7, 7, 2)) + np.mgrid[8:96:13, 8:96:13].transpose(1, 2, 0)
    distances = [np.hypot(rows - y, columns - x) for y, x in centres.reshape(-1, 2)]
    return np.where(np.min(distances, axis=0) < generator.uniform(6, 9), 1 + np.argmin(distances, axis=0), 0)


def said_of(numbers: torch.Tensor) -> torch.Tensor:
    """What a perfect network says, (batch, 5, height, width)."""
    parts, vectors = instance_fields(numbers)
    return torch.cat([10.0 * torch.nn.functional.one_hot(parts, 3).movedim(-1, 1), vectors], dim=1)


def same_objects(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two label images show the same objects, whatever their numbers."""
    pairs = set(zip(a.ravel().tolist(), b.ravel().tolist(), strict=True))
    return len(pairs) == len({x for x, _ in pairs}) == len({y for _, y in pairs}) and ((a > 0) == (b > 0)).all()


@pytest.mark.parametrize("size", [(24, 24), (23, 30), (1, 9)])
@pytest.mark.parametrize("name", ["D4", "C4", "D2", "C2", "C8", "C1"])
def test_fields_of_a_turned_mask_are_the_turned_fields(name: str, size: tuple[int, int]) -> None:
    group, numbers = group_named(name), blobs(1, *size)
    kinds = FieldType(group, [(1, group.trivial)]), instance_type(name)
    for element in elements_on_the_grid(group):
        moved = transform(numbers[:, None], element, kinds[0])[:, 0]
        assert torch.equal(said_of(moved), transform(said_of(numbers), element, kinds[1])), element


def test_what_vectors_are() -> None:
    numbers = blobs(2, 40, 50)
    parts, vectors = instance_fields(numbers)
    for number in numbers.unique()[1:]:
        here = numbers[0] == number
        rows, columns = (here.nonzero().double().T[axis] for axis in range(2))
        towards = torch.stack([columns.mean() - columns, rows - rows.mean()])  # to the right and up
        radius = float((towards.square().sum(0).mean() + 1 / 6).sqrt())
        assert torch.allclose(vectors[0][:, here].double(), 4 * towards / radius, atol=1e-5)
    assert (vectors.square().sum(1)[numbers == 0] == 0).all()
    inner = torch.nn.functional.pad(numbers, (1, 1, 1, 1), value=-1).unfold(1, 3, 1).unfold(2, 3, 1).flatten(3)
    alone = ((inner == numbers[..., None]) | (inner == -1)).all(3)
    assert torch.equal(parts, (numbers > 0).long() * torch.where(alone, INSIDE, BOUNDARY))


def test_objects_grow_again_from_their_fields() -> None:
    for seed in range(6):
        numbers = torch.from_numpy(cells(seed, 90, 70, 15)[1].astype(np.int64))
        grown, count = grown_instances(courses(said_of(numbers[None])[0]), smallest=1)
        assert same_objects(grown, numbers.numpy())
        assert count == int(numbers.max())
    # Two discs that overlap are told apart by their vectors alone.
    rows, columns = np.mgrid[:30, :50]
    touching = np.where(np.hypot(rows - 14, columns - 16) < 9, 1, 0)
    touching[np.hypot(rows - 15, columns - 31) < 9] = 2
    assert connected_regions(touching > 0)[1] == 1
    assert same_objects(grown_instances(courses(said_of(torch.from_numpy(touching)[None])[0]))[0], touching)


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0, 2.0])
def test_growing_bears_vectors_with_errors(noise: float) -> None:
    """Vectors are four units long at a radius: errors of half a radius, in each component, cost little."""
    generator, found = torch.Generator().manual_seed(0), []
    for seed in range(6):
        numbers = packed(seed)
        fields = said_of(torch.from_numpy(numbers).long()[None])[0]
        fields[3:] += noise * torch.randn(fields[3:].shape, generator=generator)
        found.append(average_precisions(grown_instances(courses(fields))[0], numbers).mean())
    assert np.mean(found) > 0.99


def test_objects_with_a_hole_or_the_shape_of_a_sickle_are_one() -> None:
    """Their centre is not part of them, so that paths end in several places."""
    rows, columns = np.mgrid[:40, :80]
    ring = np.hypot(rows - 20, columns - 18)
    sickle = (np.hypot(rows - 20, columns - 58) < 17) & (np.hypot(rows - 20, columns - 66) > 17)
    numbers = np.where((ring > 9) & (ring < 15), 1, np.where(sickle, 2, 0))
    course = courses(said_of(torch.from_numpy(numbers)[None])[0])
    assert same_objects(grown_instances(course)[0], numbers)
    assert grown_instances(course, jump=-9999)[1] > 2  # what they are without being united


def test_parts_are_united_only_where_vectors_do_not_point_apart() -> None:
    """Two parts side by side, with vectors to the right and down; a third one has only two pixels."""
    parts = np.repeat(np.array([[1, 1, 1, 2, 2, 2]], np.int32), 4, axis=0)
    apart = np.zeros((2, 4, 6), np.int8)
    apart[0] = np.where(parts == 1, -9, 9)
    assert len(np.unique(merged_parts(parts, apart, 2, 1))) == 2
    for vectors in (-apart, np.abs(apart), np.zeros_like(apart)):
        assert len(np.unique(merged_parts(parts, vectors, 2, 1))) == 1
    parts[:2, 5] = 3
    assert len(np.unique(merged_parts(parts, apart, 2, 1))) == 2
    apart[:, :2, 5] = 99
    assert len(np.unique(merged_parts(parts, apart, 2, 1))) == 3
    assert len(np.unique(merged_parts(parts, apart, 2, 3))) == 2


@pytest.mark.parametrize("element", D4.elements)
def test_growing_commutes_with_turns(element: str) -> None:
    """Also of fields as rough as those of an untrained network, exactly."""
    generator = torch.Generator().manual_seed(4)
    one = FieldType(D4, "A1")
    for size in ((32, 32), (21, 36)):
        coarse = torch.randn(1, 5, 7, 9, generator=generator)
        fields = torch.nn.functional.interpolate(coarse, size, mode="bilinear")[0]
        grown, count = grown_instances(courses(fields))
        turned, again = grown_instances(courses(transform(fields, element, instance_type(D4))))
        assert count == again > 3
        assert same_objects(turned, transform(torch.from_numpy(grown)[None], element, one)[0].numpy())


def test_nothing_and_almost_nothing() -> None:
    empty = said_of(torch.zeros(1, 5, 6, dtype=torch.long))
    assert grown_instances(courses(empty[0])) == (pytest.approx(np.zeros((5, 6))), 0)
    speck = torch.zeros(1, 5, 6, dtype=torch.long)
    speck[0, 2, 2:5] = 1
    assert grown_instances(courses(said_of(speck)[0]))[1] == 0
    assert grown_instances(courses(said_of(speck)[0]), smallest=3)[1] == 1
    assert not courses(torch.full((5, 3, 3), torch.nan)).any()


def test_groups_without_room_for_a_vector() -> None:
    assert str(instance_type("O2")) == "3*A1 + E1"
    with pytest.raises(ValueError, match=r"the channels of D1 cannot hold one beside the scores\. Use another group"):
        instance_type("D1")


def test_mirrored_objects_are_objects_of_their_own() -> None:
    image, mask = cells(3, 20, 20, 2)
    numbers = torch.from_numpy(mask.astype(np.int32))
    data = MaskedImages((torch.from_numpy(image)[None],), (numbers,), ("background", "object"), 64, "instances")
    tile = TileBatches(data, 1, seed=0, device="cpu").batch(0)[1][0].numpy()
    regions, count = connected_regions(tile)
    assert count > 2 * data.objects == 4
    assert same_objects(tile, regions)
    # A tile inside its image has the numbers of the mask.
    whole = MaskedImages(data.images, data.masks, data.classes, 16, "instances")
    for _, tiles in TileBatches(whole, 4, seed=0, device="cpu", augment=Augmentation(0, padding="reflect")):
        assert set(tiles.unique().tolist()) <= {0, 1, 2}


def test_what_masks_number(tmp_path: Path) -> None:
    notes: list[str] = []
    colours = np.full((4, 6), COLOUR)
    colours[0], colours[3] = COLOUR + 255, COLOUR + 9
    assert np.array_equal(object_numbers([colours], tmp_path, notes)[0] > 0, colours > COLOUR)
    two = np.zeros((4, 6), np.int64)
    two[0], two[3] = 255, 255
    assert not notes
    assert object_numbers([two, two * 0], tmp_path, notes)[0].max() == 2
    assert "what is connected counts as one object" in notes[0]
    with pytest.raises(ValueError, match="hold no object"):
        object_numbers([two * 0], tmp_path, [])
    root = write_cells(tmp_path / "cells", 6)
    with pytest.warns(UserWarning, match="one number for all objects"):
        splits = load_mask_folder(root, kind="instances")
    assert splits.train.objects > 6
    assert load_mask_folder(root).train.kind == "classes"
    assert load_mask_folder(write_cells(tmp_path / "numbered", 6, instances=True)).train.kind == "instances"


def test_files_hold_as_many_objects_as_there_are(tmp_path: Path) -> None:
    many = np.arange(300 * 300, dtype=np.int32).reshape(300, 300)
    (tmp_path / "a.tif").write_bytes(label_file(many, kind="TIFF"))
    (tmp_path / "b.png").write_bytes(label_file(np.array([[0, 65535]], np.uint16)))
    assert np.array_equal(read_label_file(tmp_path / "a.tif"), many)
    assert read_label_file(tmp_path / "b.png").tolist() == [[0, 65535]]
