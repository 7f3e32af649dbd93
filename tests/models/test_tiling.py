"""Tiles leave no seam: the result is that of the whole image, turns with it, and needs the memory of a few tiles."""

from __future__ import annotations

import itertools

import pytest
import torch
from torch import Tensor, nn

from steerable.algebra.families import dihedral
from steerable.models.plain_unets import plain_unet
from steerable.models.tiling import Tiling, bands_in_tiles, mirrored_indices, predict_in_tiles
from steerable.models.unets import unet
from steerable.transforms import transform
from steerable.types.field_types import FieldType


def network(kind: str, depth: int) -> nn.Module:
    torch.manual_seed(depth)
    made = {
        "unet": lambda: unet(depth, 1, "A1 + E", in_channels=1),
        "unet off the grid": lambda: unet(depth, 1, "A + E1", group="C8", in_channels=1),
        "plain_unet": lambda: plain_unet(depth, 4, 3, in_channels=1),
    }[kind]()
    for module in made.modules():  # statistics that matter
        if isinstance(module, nn.BatchNorm2d):
            nn.init.normal_(module.running_mean)
    return made.double().eval()


@pytest.mark.parametrize("kind", ["unet", "unet off the grid", "plain_unet"])
@pytest.mark.parametrize("depth", [1, 2, 3])
def test_the_reach_is_exact(kind: str, depth: int) -> None:
    made = network(kind, depth)
    reach, stride = made.reach, made.stride
    side = 2 * (reach // stride + 2) * stride
    x = torch.randn(1, 1, side, side, dtype=torch.double, requires_grad=True)
    distances = []
    for place in range(side // 2, side // 2 + stride):
        (gradient,) = torch.autograd.grad(made(x)[..., side // 2, place].sum(), x)
        touched = (gradient[0, 0].abs().sum(0) > 0).nonzero().flatten()
        distances += [place - int(touched.min()), int(touched.max()) - place]
    assert max(distances) == reach


@pytest.mark.parametrize("kind", ["unet", "plain_unet"])
@pytest.mark.parametrize(("height", "width"), [(96, 160), (60, 101), (24, 130), (7, 64), (1, 1)])
@torch.no_grad()
def test_tiles_say_what_the_whole_image_says(kind: str, height: int, width: int) -> None:
    made = network(kind, 1)
    image = torch.randn(1, height, width, dtype=torch.double)
    tiling = Tiling(40, made.stride, made.reach)
    rows = mirrored_indices(-tiling.padded(height)[0], tiling.padded(height)[1], height)
    columns = mirrored_indices(-tiling.padded(width)[0], tiling.padded(width)[1], width)
    whole = made(image[:, rows][:, :, columns][None])[0]
    top, left = tiling.padded(height)[0], tiling.padded(width)[0]
    expected = whole[:, top : top + height, left : left + width].float()
    assert torch.allclose(predict_in_tiles(made, image, tiling), expected, atol=1e-5)


@torch.no_grad()
def test_a_margin_that_is_too_small_is_seen() -> None:
    made = network("plain_unet", 2)
    image = torch.randn(1, 128, 128, dtype=torch.double)
    exact = made(image[None])[0].float()
    assert torch.allclose(predict_in_tiles(made, image, Tiling(96, 4, 26)), exact, atol=1e-5)
    near = predict_in_tiles(made, image, Tiling(96, 4, 2))
    assert not torch.allclose(near, exact, atol=1e-5)
    # Tiles that do not begin at multiples of the stride see other blocks of pixels.
    assert all(start % 4 == 0 for start in Tiling(96, 4, 2).starts(128))


@torch.no_grad()
def test_turned_images_are_cut_alike() -> None:
    made = network("unet", 2)
    image = torch.randn(1, 72, 56, dtype=torch.double)
    group = dihedral(4)
    tiling = Tiling(32, 4, 6)  # not exact, but equivariant nevertheless
    said = predict_in_tiles(made, image, tiling)
    for element in group.elements:
        moved = predict_in_tiles(made, transform(image, element, FieldType(group, "A1")), tiling)
        assert torch.allclose(moved, transform(said, element, made.out_type), atol=1e-5), element


def test_starts_are_symmetric_and_leave_no_gap() -> None:
    tilings = [Tiling(tile, stride, margin) for tile, stride, margin in [(32, 8, 0), (64, 16, 8), (40, 2, 10)]]
    for tiling, blocks in itertools.product(tilings, range(1, 60)):
        size = blocks * tiling.stride
        starts = tiling.starts(size)
        last = max(0, size - tiling.tile)
        assert starts == sorted(last - start for start in starts)
        assert all(start % tiling.stride == 0 for start in starts)
        weight = torch.zeros(size)
        for start in starts:
            weight[start : start + tiling.tile] += tiling.weights(start, size)
        assert weight.min() > 0


def test_bands_go_down_the_image_and_tiles_stay_small() -> None:
    seen: list[tuple[int, ...]] = []

    def scores(x: Tensor) -> Tensor:
        seen.append(tuple(x.shape))
        return x.float()

    image = torch.randint(0, 255, (2, 150, 90), dtype=torch.uint8)
    rows = 0
    for first, band in bands_in_tiles(scores, image, Tiling(32, 8, 4), batch_size=3):
        assert first == rows
        assert band.shape[1] <= 32
        assert torch.allclose(band, image[:, rows : rows + band.shape[1]].float(), atol=1e-3)
        rows += band.shape[1]
    assert rows == 150
    assert max(shape[0] for shape in seen) == 3
    assert {shape[2:] for shape in seen} == {(32, 32)}


def test_tilings_that_cannot_be_are_refused() -> None:
    with pytest.raises(ValueError, match="multiple of 8, such as 48"):
        Tiling(41, 8, 2)
    with pytest.raises(ValueError, match="nothing left inside a margin of 16"):
        Tiling(32, 8, 16)
    with pytest.raises(ValueError, match="whole number"):
        Tiling(32, 8, -1)
    with pytest.raises(TypeError, match="does not say how far it reaches"):
        Tiling.for_network(nn.Conv2d(1, 1, 3))
    with pytest.raises(TypeError, match=r"give a Tiling"):
        predict_in_tiles(lambda x: x, torch.zeros(1, 8, 8))
    with pytest.raises(ValueError, match="channels, height, width"):
        predict_in_tiles(nn.Identity(), torch.zeros(8, 8), Tiling(32, 8, 2))
    deep = Tiling.for_network(plain_unet(4, 1))
    assert deep.margin == plain_unet(4, 1).reach
    assert deep.tile % 16 == 0
    assert Tiling.for_network(plain_unet(4, 1), 64).margin == 16
