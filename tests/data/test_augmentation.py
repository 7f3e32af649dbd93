"""Augmentation: symmetries, shifts, turns, scales and grey levels, and that the same draw moves images alike."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from smooth_images import images, turns
from torch import Tensor

from steerable import FieldType, octahedral, transform
from steerable.data import Augmentation, augment
from steerable.data.augmentation import Padding
from steerable.data.warping import PERMUTATIONS, turned_and_scaled

PADDINGS = {"zero": "constant", "reflect": "reflect"}


@pytest.mark.parametrize("padding", ["zero", "reflect"])
@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
def test_augmentation_is_symmetry_then_shift(padding: str, dtype: torch.dtype) -> None:
    """Against pad and crop of every image by itself, for every draw there is."""
    chosen = Augmentation(2, dihedral=True, padding=padding)  # type: ignore[arg-type]
    draws = torch.tensor(list(itertools.product((-2, 0, 1), (-1, 0, 2), range(8))))
    data = images(len(draws), 2, 5, 5).to(dtype)
    moved = chosen.apply(data, draws)
    for image, (down, right, symmetry), result in zip(data, draws.tolist(), moved, strict=True):
        x = image.flip(-1) if symmetry & 1 else image
        x = x.flip(-2) if symmetry & 2 else x
        x = x.mT if symmetry & 4 else x
        padded = F.pad(x[None].float(), (2, 2, 2, 2), PADDINGS[padding])[0].to(dtype)
        assert torch.equal(result, padded[:, 2 - down : 7 - down, 2 - right : 7 - right])


def test_the_eight_symmetries_are_all_different() -> None:
    x = images(1, 1, 5, 5).expand(8, -1, -1, -1)
    moved = Augmentation(0, dihedral=True).apply(x, torch.tensor([[0, 0, g] for g in range(8)]))
    assert {y.numpy().tobytes() for y in moved} == {y.contiguous().numpy().tobytes() for y in turns(x[0])}


def test_draws_cover_everything_evenly() -> None:
    draws = Augmentation(1, dihedral=True).draw(7200, torch.Generator().manual_seed(0))
    values, counts = draws.unique(dim=0, return_counts=True)
    assert len(values) == 9 * 8
    assert counts.min() > 60
    assert counts.max() < 150
    assert Augmentation(1).draw(100, torch.Generator())[:, 2].unique().tolist() == [0, 1]
    assert Augmentation(0, flip=False).draw(100, torch.Generator()).unique().tolist() == [0]


def test_rows_pick_images() -> None:
    data, rows = images(6, 3, 5, 4), torch.tensor([4, 0, 4, 5])
    chosen = Augmentation(1)
    draws = chosen.draw(4, torch.Generator().manual_seed(0))
    assert torch.equal(chosen.apply(data, draws, rows), chosen.apply(data[rows], draws))


def test_augment_is_reproducible_and_leaves_its_input_alone() -> None:
    data = images(40, 3, 9, 9)
    before = data.clone()
    first, again, other = (augment(data, torch.Generator().manual_seed(s), shift=2) for s in (0, 0, 1))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert torch.equal(data, before)
    assert torch.equal(augment(data, torch.Generator(), shift=0, flip=False), data)
    assert augment(data, torch.Generator(), dihedral=True).shape == data.shape
    assert augment(images(3, 1, 8, 6), torch.Generator(), padding="reflect").dtype == torch.uint8


# ---------------------------------------------------------------- any angle and scale


def drawn(symmetry: int = 0, down: float = 0, right: float = 0, angle: float = 0, scale: float = 1) -> torch.Tensor:
    """What ``draw`` would give for one image whose grey levels stay."""
    return torch.tensor([[down, right, symmetry, angle, math.log(scale), 0, 0]])


@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_interpolating_agrees_with_exact_moves_where_pixels_meet_pixels(padding: str) -> None:
    """Mirrored at the same places, shifted alike, and black where the other is."""
    exact = Augmentation(2, dihedral=True, padding=padding)  # type: ignore[arg-type]
    any_angle = Augmentation(2, dihedral=True, padding=padding, angle=180)  # type: ignore[arg-type]
    draws = torch.tensor(list(itertools.product((-2, 0, 1), (-1, 0, 2), range(8))))
    data = images(len(draws), 2, 7, 7)
    still = torch.cat([draws, torch.zeros(len(draws), 4)], dim=1)
    assert torch.equal(any_angle.apply(data, still), exact.apply(data, draws))


@pytest.mark.parametrize("symmetry", range(8))
def test_quarter_turns_are_those_of_torch_and_come_after_the_symmetry(symmetry: int) -> None:
    chosen, data = Augmentation(2, dihedral=True, angle=180, padding="reflect"), images(1, 3, 8, 8)
    for quarters in range(-2, 3):
        still = chosen.apply(data, drawn(symmetry))
        turned = chosen.apply(data, drawn(symmetry, angle=90 * quarters))
        assert torch.equal(turned, still.rot90(quarters, (-2, -1)))


def test_an_image_is_turned_then_enlarged_then_shifted() -> None:
    """A bright spot goes where the formula says: turned by 30°, twice as far from the centre, and shifted."""
    data = torch.zeros(1, 1, 41, 41)
    data[0, 0, 20, 26] = 255.0  # 6 pixels to the right of the centre
    moved = Augmentation(3, angle=180, scale=2).apply(data, drawn(right=3, down=1, angle=30, scale=2))
    x, y = ((moved[0, 0].sum(dim) * torch.arange(41.0)).sum() / moved.sum() for dim in (0, 1))
    assert x == pytest.approx(20 + 12 * math.cos(math.radians(30)) + 3, abs=0.05)
    assert y == pytest.approx(20 - 12 * math.sin(math.radians(30)) + 1, abs=0.05)
    assert float(moved.sum()) == pytest.approx(4 * 255, rel=0.1)


def test_images_that_are_not_square_are_turned_as_they_are_seen() -> None:
    wide = torch.zeros(1, 1, 9, 21)
    wide[0, 0, 4, 13] = 255.0  # 3 pixels to the right of the centre
    moved = Augmentation(0, angle=180).apply(wide, drawn(angle=90))
    assert moved[0, 0, 1, 10] == pytest.approx(255)  # 3 pixels above it


def test_what_comes_in_is_mirrored_or_black() -> None:
    data = torch.full((1, 1, 16, 16), 200, dtype=torch.uint8)
    assert Augmentation(0, angle=45, padding="reflect").apply(data, drawn(angle=45)).unique().tolist() == [200]
    black = Augmentation(0, angle=45).apply(data, drawn(angle=45))
    assert black[0, 0, 0, 0] == 0
    assert black[0, 0, 8, 8] == 200


def test_grey_levels_are_multiplied_and_shifted_and_stay_bytes() -> None:
    chosen = Augmentation(0, flip=False, brightness=0.5, contrast=0.5)
    data = torch.arange(256, dtype=torch.uint8).view(1, 1, 16, 16)
    draws = torch.tensor([[0.0, 0, 0, 0, 0, 0.25, -20.4]])
    expected = (1.25 * data.double() - 20.4).clamp(0, 255).round()
    assert torch.equal(chosen.apply(data, draws).double(), expected)
    as_floats = Augmentation(0, flip=False, contrast=0.5).apply(data.float(), draws)
    assert torch.allclose(as_floats, 1.25 * data.float() - 20.4)
    turned = Augmentation(0, angle=10, brightness=0.5, contrast=0.5)
    assert torch.equal(turned.apply(data, draws).double(), expected)


def test_draws_of_angles_scales_and_levels_reach_to_their_limits_and_no_further() -> None:
    chosen = Augmentation(1, dihedral=True, angle=45, scale=1.2, brightness=0.1, contrast=0.2)
    draws = chosen.draw(5000, torch.Generator().manual_seed(0))
    largest = torch.tensor([45, math.log(1.2), 0.2, 25.5])
    assert (draws.shape, draws.dtype) == ((5000, 7), torch.float32)
    assert bool((draws[:, 3:].abs() <= largest).all())
    assert torch.allclose(draws[:, 3:].abs().amax(0), largest, rtol=0.01)
    assert torch.allclose(draws[:, 3:].mean(0) / largest, torch.zeros(4), atol=0.05)
    exact = Augmentation(1, dihedral=True).draw(5000, torch.Generator().manual_seed(0))
    assert exact.dtype == torch.int64
    assert torch.equal(draws[:, :3].long(), exact)


def test_wrong_augmentations() -> None:
    for name, value in (("angle", 200), ("scale", 0.5), ("brightness", -0.1), ("contrast", math.nan)):
        with pytest.raises(ValueError, match=f"`{name}` must lie between . and .*, got {value}"):
            Augmentation(**{name: value})  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`shift` must not be negative, got -1"):
        Augmentation(-1)
    with pytest.raises(ValueError, match="`padding` must be one of zero, reflect; got 'wrap'"):
        Augmentation(padding="wrap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shift by 4 moves a 4×8 image out of sight"):
        augment(images(1, 1, 4, 8), torch.Generator())
    with pytest.raises(ValueError, match="quarter turns need square images, got 5×8"):
        augment(images(1, 1, 5, 8), torch.Generator(), dihedral=True)


def _volumes(count: int = 48) -> Tensor:
    return torch.randint(256, (count, 2, 6, 6, 6), generator=torch.Generator().manual_seed(0), dtype=torch.uint8)


def test_volumes_are_moved_by_the_48_symmetries_of_the_cube() -> None:
    cube = Augmentation(shift=0, dihedral=True, axes=3)
    draws = torch.zeros(48, 4, dtype=torch.int64)
    draws[:, 3] = torch.arange(48)
    volumes = _volumes()[:1].expand(48, -1, -1, -1, -1)
    moved = cube.apply(volumes, draws)
    assert len({bytes(one.numpy().tobytes()) for one in moved}) == 48
    for number, (order, bits) in enumerate((order, bits) for order in PERMUTATIONS[3] for bits in range(8)):
        mirrored = volumes[0].flip([3 - k for k in range(3) if bits >> k & 1])
        # The coordinate along axis a of the source is the one along axis order[a] of the result.
        back = [order.index(axis) for axis in range(3)]
        assert torch.equal(moved[number], mirrored.permute(0, *(1 + axis for axis in back))), number
    upright = Augmentation(shift=0, dihedral=True, axes=3, upright=True)
    drawn = upright.draw(500, torch.Generator().manual_seed(0))[:, 3]
    assert set(drawn.tolist()) == {0, 1, 2, 3, 8, 9, 10, 11}  # z stays z


@pytest.mark.parametrize("padding", ["zero", "reflect"])
def test_volumes_between_voxels_agree_with_exact_moves(padding: Padding) -> None:
    exact = Augmentation(shift=2, dihedral=True, axes=3, padding=padding)
    draws = exact.draw(48, torch.Generator().manual_seed(1))
    turned = replace(exact, angle=10.0)
    nothing = torch.cat([draws, torch.zeros(48, 6)], dim=1)
    volumes = _volumes()
    assert torch.equal(turned.apply(volumes, nothing), exact.apply(volumes, draws))


@pytest.mark.parametrize(("axis", "element"), [((0, 0, 90), "r"), ((90, 0, 0), "s")])
def test_a_quarter_turn_of_a_volume_is_that_of_the_octahedral_group(axis: tuple[float, ...], element: str) -> None:
    turned = Augmentation(shift=0, flip=False, angle=90.0, axes=3)
    draws = torch.zeros(3, 10)
    draws[:, 4:7] = torch.tensor(axis)
    volumes = _volumes(3)
    assert torch.equal(turned.apply(volumes, draws), transform(volumes, element, FieldType(octahedral(), "2*A1")))


def test_turns_of_volumes_are_equally_likely() -> None:
    anything = Augmentation(shift=0, flip=False, angle=180.0, axes=3)
    draws = anything.draw(20_000, torch.Generator().manual_seed(0))
    matrices = turned_and_scaled(draws[:, 4:7], torch.ones(len(draws)), torch.zeros(len(draws), dtype=torch.int64))
    assert torch.allclose(matrices @ matrices.mT, torch.eye(3).expand_as(matrices), atol=1e-5)
    assert matrices.mean(0).abs().max() < 0.02  # as for Haar's measure
    assert abs(float((matrices**2).mean()) - 1 / 3) < 0.01
    few = replace(anything, angle=30.0).draw(5_000, torch.Generator().manual_seed(0))[:, 4:7].norm(dim=1)
    assert 29 < few.max() <= 30.0001
    assert few.median() > 20  # small turns are rare
    upright = replace(anything, upright=True).draw(100, torch.Generator().manual_seed(0))
    assert not upright[:, 4:6].any()
    assert upright[:, 6].std() > 80


def test_volumes_have_words_and_limits_of_their_own() -> None:
    some = Augmentation(2, flip=False, angle=45.0, axes=3, upright=True)
    assert str(some) == "turns up to 45° about z, shifts up to 2 voxels"
    with pytest.raises(ValueError, match=r"for volumes with 3 sides, got 8×8\. Use axes=2"):
        some.check(8, 8)
    with pytest.raises(ValueError, match="quarter turns need cubic volumes, got 4×8×8"):
        Augmentation(1, dihedral=True, axes=3).check(4, 8, 8)
    Augmentation(1, dihedral=True, axes=3, upright=True).check(4, 8, 8)
