"""Normalisation and augmentation: their statistics, symmetries and reproducibility."""

import dataclasses
import itertools
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from safetensors.torch import save_file

from steerable.data import Augmentation, Normalisation, augment
from steerable.training.config import RunConfig
from steerable.training.preparing import make_classifier, prepare_data
from steerable.training.recipes import Recipe


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    """Smooth random images: neighbouring pixels are correlated, as in photographs."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(*shape, generator=generator)
    smooth = F.avg_pool2d(noise, 3, 1, 1, count_include_pad=False)
    return (80 + 40 * torch.arange(shape[1]).view(-1, 1, 1) + 100 * (smooth - 0.5)).clamp(0, 255).byte()


def turns(x: torch.Tensor) -> list[torch.Tensor]:
    flipped = (x, x.flip(-1))
    return [y.rot90(k, (-2, -1)) for y in flipped for k in range(4)]


def test_channels_have_mean_0_and_variance_1() -> None:
    data = images(50, 3, 8, 6)
    module = Normalisation.fit(data)
    y = module(data)
    assert (y.dtype, y.shape, module.kind, module.channels) == (torch.float32, data.shape, "channels", 3)
    torch.testing.assert_close(y.mean((0, 2, 3)), torch.zeros(3), atol=1e-5, rtol=0)
    torch.testing.assert_close(y.std((0, 2, 3), correction=0), torch.ones(3))
    x = data.double() / 255
    torch.testing.assert_close(module.mean.flatten().double(), x.mean((0, 2, 3)), atol=1e-6, rtol=0)
    assert module(images(2, 3, 5, 5)).shape == (2, 3, 5, 5)


def test_a_constant_channel_stays_finite() -> None:
    assert Normalisation.fit(torch.full((3, 1, 4, 4), 7).byte())(torch.zeros(1, 1, 4, 4).byte()).isfinite().all()


@pytest.mark.parametrize("size", [(6, 6), (5, 5), (4, 7), (1, 3)])
@pytest.mark.parametrize("channels", [1, 3])
def test_zca_whitens(channels: int, size: tuple[int, int]) -> None:
    """With every turn and mirror image among the data, and little ε, the covariance becomes the identity."""
    data = images(1500, channels, *size)
    square = size[0] == size[1]
    orbit = torch.cat(turns(data) if square else [data, data.flip(-1), data.flip(-2), data.flip(-1, -2)])
    y = Normalisation.fit(data, "zca", epsilon=1e-9)(orbit).flatten(1).double()
    torch.testing.assert_close(torch.cov(y.T, correction=0), torch.eye(y.shape[1]).double(), atol=2e-3, rtol=0)
    torch.testing.assert_close(y.mean(0), torch.zeros(y.shape[1]).double(), atol=1e-4, rtol=0)


def test_zca_is_the_root_of_the_covariance() -> None:
    """Against the formula, written down plainly: W = U (Λ + ε)^(-1/2) Uᵀ of the data with all their mirror images."""
    data, epsilon = images(400, 2, 4, 4), 0.1
    orbit = torch.cat(turns(data)).double() / 255
    scale = orbit.std((0, 2, 3), keepdim=True, correction=0)
    x = ((orbit - orbit.mean(0)) / scale).flatten(1)
    variances, directions = torch.linalg.eigh(x.T @ x / len(x))
    root = directions @ torch.diag((variances + epsilon) ** -0.5) @ directions.T
    expected = x @ root
    expected = expected / expected.square().mean().sqrt()
    y = Normalisation.fit(data, "zca", epsilon=epsilon)(torch.cat(turns(data)))
    torch.testing.assert_close(y.flatten(1).double(), expected, atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(y.square().mean(), torch.tensor(1.0), atol=1e-4, rtol=0)


def test_zca_commutes_with_turns_and_mirror_images() -> None:
    module = Normalisation.fit(images(200, 3, 6, 6), "zca")
    x = images(5, 3, 6, 6, seed=1)
    for moved, expected in zip(turns(x), turns(module(x)), strict=True):
        torch.testing.assert_close(module(moved), expected, atol=1e-4, rtol=0)


def test_zca_stays_float32_under_autocast() -> None:
    module, x = Normalisation.fit(images(50, 1, 4, 4), "zca"), images(3, 1, 4, 4)
    expected = module(x)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(module(x), expected)


@pytest.mark.parametrize("kind", ["channels", "zca"])
def test_the_statistics_are_saved(kind: str, tmp_path: Path) -> None:
    data = images(30, 3, 4, 4)
    module = Normalisation.fit(data, kind)  # type: ignore[arg-type]
    other = Normalisation.fit(images(30, 3, 4, 4, seed=1), kind)  # type: ignore[arg-type]
    assert not torch.equal(other(data), module(data))
    other.load_state_dict(module.state_dict())
    module.save(tmp_path / "n.safetensors")
    loaded = Normalisation.load(tmp_path / "n.safetensors")
    assert torch.equal(other(data), module(data))
    assert torch.equal(loaded(data), module(data))
    assert (loaded.kind, loaded.channels, str(loaded)) == (kind, 3, str(module))


def test_normalisation_runs_as_one_graph() -> None:
    module = Normalisation.fit(images(30, 3, 4, 4), "zca")
    exported = torch.export.export(module, (images(2, 3, 4, 4),)).module()
    torch.testing.assert_close(exported(images(2, 3, 4, 4, seed=1)), module(images(2, 3, 4, 4, seed=1)))


def test_wrong_inputs_of_normalisation(tmp_path: Path) -> None:
    data = images(30, 3, 4, 4)
    with pytest.raises(TypeError, match=r"reads bytes, 0 to 255; got torch\.float32"):
        Normalisation.fit(data)(data.float())
    with pytest.raises(ValueError, match=r"of images \(3, 1, 1\), got \(1, 4, 4\)"):
        Normalisation.fit(data)(data[:, :1])
    with pytest.raises(ValueError, match=r"of images \(3, 4, 4\), got \(3, 5, 5\)"):
        Normalisation.fit(data, "zca")(images(2, 3, 5, 5))
    with pytest.raises(ValueError, match="`kind` must be one of channels, zca; got 'pca'"):
        Normalisation.fit(data, "pca")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="`epsilon` must be positive, got 0"):
        Normalisation.fit(data, "zca", epsilon=0)
    with pytest.raises(TypeError, match=r"fit reads uint8 images .* got torch.float32"):
        Normalisation.fit(data.float())
    with pytest.raises(TypeError, match=r"either `std` .* or `matrix`"):
        Normalisation(torch.zeros(3, 1, 1))
    with pytest.raises(ValueError, match=r"mean and std are \(channels, 1, 1\).* got \(3,\) and \(3,\)"):
        Normalisation(torch.zeros(3), torch.ones(3))
    with pytest.raises(ValueError, match=r"the 12 values of an image \(3, 2, 2\).* got the shape \(3, 3\)"):
        Normalisation(torch.zeros(3, 2, 2), matrix=torch.eye(3))
    save_file({"weight": torch.zeros(1)}, tmp_path / "x.safetensors")
    with pytest.raises(ValueError, match=r"x\.safetensors` holds \['weight'\], expected the `mean`"):
        Normalisation.load(tmp_path / "x.safetensors")


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


def test_wrong_augmentations() -> None:
    with pytest.raises(ValueError, match="`shift` must not be negative, got -1"):
        Augmentation(-1)
    with pytest.raises(ValueError, match="`padding` must be one of zero, reflect; got 'wrap'"):
        Augmentation(padding="wrap")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="shift by 4 moves a 4×8 image out of sight"):
        augment(images(1, 1, 4, 8), torch.Generator())
    with pytest.raises(ValueError, match="quarter turns need square images, got 5×8"):
        augment(images(1, 1, 5, 8), torch.Generator(), dihedral=True)


@pytest.mark.parametrize("of_all", [False, True])
def test_statistics_come_from_the_images_in_use_or_from_all(of_all: bool) -> None:
    recipe = Recipe(epochs=1, statistics_of_all=of_all)
    config = RunConfig(dataset="digits", model={"name": "resnet", "depth": 8, "copies": 1}, recipe=recipe, labels=50)
    data = prepare_data(config)
    everything = prepare_data(dataclasses.replace(config, labels=None)).train.images
    used = everything if of_all else data.train.images
    assert len(data.train) == 50
    assert torch.equal(data.for_statistics, used)
    expected = Normalisation.fit(used).state_dict()
    for name, value in make_classifier(config, data).normalisation.state_dict().items():
        assert torch.equal(value, expected[name])
