"""Normalisation: its statistics, its symmetry, and how it is saved."""

import dataclasses
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from smooth_images import images, turns

from steerable.data import Normalisation
from steerable.training.learning.preparing import make_classifier, prepare_data
from steerable.training.requests.config import RunConfig
from steerable.training.requests.recipes import Recipe


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
