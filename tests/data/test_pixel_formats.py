"""How counts become bytes: the scale of a data set, its words, and what is stored of it."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from steerable.data.pixel_formats import EARLIER, PixelFormat, Selection
from steerable.data.pixel_survey import scale


def images(*values: float, count: int = 20, channels: int = 1) -> list[np.ndarray]:
    """Images of 32×32 random counts between the two values."""
    low, high = values
    drawn = np.random.default_rng(0).uniform(low, high, (count, channels, 32, 32))
    return list(np.rint(drawn).astype(np.float32))


def test_the_whole_range_is_kept_where_nothing_lies_far_outside() -> None:
    assert scale(images(290, 420)) == ((290,), (420,))
    drawn = np.random.default_rng(0).normal(300, 10, (20, 1, 32, 32)).astype(np.float32)
    assert scale(list(drawn)) == ((drawn.min(),), (drawn.max(),))


@pytest.mark.parametrize("hot", [65535, 4095, -30000])
def test_hot_and_dead_pixels_do_not_take_the_grey_levels(hot: int) -> None:
    given = images(290, 420)
    for k, image in enumerate(given):  # two of 1,024 pixels
        image[0, 5, 5] = image[0, 0, k] = hot
    (low,), (high,) = scale(given)
    assert 220 <= low <= 290
    assert 420 <= high <= 490
    shades = PixelFormat("16-bit", 1, (low,), (high,)).to_bytes(np.stack(given))
    assert len(np.unique(shades)) > 120
    assert shades[0, 0, 5, 5] == (255 if hot > 0 else 0)


def test_channels_have_scales_of_their_own() -> None:
    dim, bright = images(100, 120), images(1000, 50000)
    low, high = scale([np.concatenate(pair) for pair in zip(dim, bright, strict=True)])
    assert (low[0], high[0]) == (100, 120)
    assert high[1] > 49000


def test_counts_that_are_all_the_same_become_black() -> None:
    given = [np.full((1, 4, 4), 300, np.float32)]
    low, high = scale(given)
    assert low < high
    assert not PixelFormat("16-bit", 1, low, high).to_bytes(given[0]).any()


def test_sparse_bright_points_on_an_even_ground_are_seen() -> None:
    given = [np.zeros((1, 64, 64), np.float32) for _ in range(10)]
    given[3][0, 7, 7] = 900
    assert scale(given) == ((0,), (900,))


def test_counts_become_bytes_by_an_affine_map() -> None:
    pixels = PixelFormat("16-bit", 2, (100, 0), (355, 510))
    counts = np.array([[[100, 355, 227]], [[0, 1000, -5]]], np.float64)
    assert pixels.to_bytes(counts).tolist() == [[[0, 255, 127]], [[0, 255, 0]]]
    assert PixelFormat("8-bit", 1).to_bytes(np.array([[[0.4, 7, 255]]])).tolist() == [[[0, 7, 255]]]


@pytest.mark.parametrize(
    ("pixels", "words"),
    [
        (PixelFormat("8-bit", 1), "grey"),
        (PixelFormat("8-bit", 3), "colour"),
        (PixelFormat("8-bit", 5), "5 channels"),
        (PixelFormat("8-bit", 1, selection=Selection(2, (1,))), "grey, page 2, channel 1"),
        (PixelFormat("16-bit", 1, (290,), (420,)), "16-bit grey, counts 290 … 420 shown as 0 … 255"),
        (
            PixelFormat("floating-point", 2, (0, -1.5), (1, 1.5), Selection("all", (0, 2))),
            "floating-point 2 channels, all pages, channels 0 and 2, values 0 … 1 and -1.5 … 1.5 shown as 0 … 255",
        ),
        (
            PixelFormat("32-bit", 5, (0,) * 5, (9,) * 5),
            "32-bit 5 channels, counts 0 … 9, 0 … 9, 0 … 9 and so on shown as 0 … 255",
        ),
    ],
)
def test_words(pixels: PixelFormat, words: str) -> None:
    assert pixels.in_words() == words
    assert PixelFormat.from_dict(json.loads(json.dumps(pixels.to_dict()))) == pixels


def test_a_model_without_an_entry_reads_files_as_before() -> None:
    assert PixelFormat.from_dict(None) is EARLIER


@pytest.mark.parametrize(
    "change",
    [
        {"low": [3]},
        {"low": [420]},
        {"low": [float("nan")]},
        {"low": None},
        {"low": [1, 2], "high": [3, 4]},
        {"depth": "8-bit"},
        {"depth": ""},
        {"channels": "x"},
        {"selection": {}},
        {"selection": {"page": -1, "channels": []}},
        {"selection": {"page": None, "channels": [-1]}},
    ],
    ids=str,
)
def test_damaged_entries_are_refused(change: dict[str, Any]) -> None:
    good = PixelFormat("16-bit", 1, (290,), (420,)).to_dict()
    if change == {"low": [3]}:
        change = {"low": [3], "high": []}
    with pytest.raises(ValueError, match="for the pixels of image files, expected their depth, their channels, and"):
        PixelFormat.from_dict({**good, **change})


def test_what_a_user_writes() -> None:
    assert Selection.parse(None, None) == Selection()
    assert not Selection.parse(None, None)
    assert Selection.parse("all", " 2, 0") == Selection("all", (2, 0))
    assert Selection.parse("3", None) == Selection(3)
    for page in ("-1", "one", "", "1.5", "²"):
        with pytest.raises(ValueError, match=r"page is .*, expected the number of a page, counted from 0, or `all`"):
            Selection.parse(page, None)
    for channels in ("-1", "red", "", "0,,1", "1,1", "0;1"):
        with pytest.raises(ValueError, match=r"channels is .*, expected different numbers with commas between them"):
            Selection.parse(None, channels)
