"""Synthetic images: the targets belong to the images, in every pose."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import steerable as st

sys.path.insert(0, str(Path(__file__).parents[2] / "examples"))
from synthetic import cell_images, particle_flow

D4 = st.dihedral(4)


def shifted(frame: Tensor, flow: Tensor) -> Tensor:
    """frame(p + u(p)) for pixels (n, h, w), with u in pixels, to the right and up."""
    size = frame.shape[-1]
    line = torch.arange(size) - (size - 1) / 2
    rows, columns = torch.meshgrid(line, line, indexing="ij")
    places = torch.stack([columns + flow[:, 0], rows - flow[:, 1]], dim=-1) * (2 / size)
    return F.grid_sample(frame.unsqueeze(1), places, align_corners=False).squeeze(1)


def agreement(frames: Tensor, flow: Tensor) -> float:
    """The correlation of both frames after each has been moved half way."""
    both = torch.stack([shifted(frames[:, 0], -flow / 2).flatten(), shifted(frames[:, 1], flow / 2).flatten()])
    return float(torch.corrcoef(both)[0, 1])


@pytest.mark.parametrize("element", D4.elements)
def test_the_flow_takes_one_frame_to_the_other(element: str) -> None:
    frames, flow = particle_flow(8, 32, seed=3)
    frames = st.transform(frames, element, st.FieldType(D4, "2*A1"))
    moved = st.transform(flow, element, st.FieldType(D4, "E"))
    assert agreement(frames, moved) > 0.7
    for wrong in (-moved, moved.flip(1), moved * torch.tensor([1.0, -1.0]).view(2, 1, 1), 0 * moved):
        assert agreement(frames, wrong) < agreement(frames, moved) - 0.1


def test_the_drift_is_to_the_right() -> None:
    _, flow = particle_flow(32, 16)
    right, up = flow.mean((0, 2, 3))
    assert right > 1 > 5 * abs(up)


def test_cells_are_outlined_and_not_brighter_inside() -> None:
    images, masks = cell_images(32, 48)
    assert images.shape == (32, 1, 48, 48)
    assert masks.unique().tolist() == [0, 1]
    inside = masks.unsqueeze(1).float()
    core = -F.max_pool2d(-inside, 5, 1, 2) == 1  # two pixels and more from the outline
    rim = (F.max_pool2d(inside, 3, 1, 1) == 1) & (-F.max_pool2d(-inside, 3, 1, 1) == 0)
    far = F.max_pool2d(inside, 5, 1, 2) == 0
    assert images[rim].mean() > images[core].mean() + 0.15
    assert abs(images[core].mean() - images[far].mean()) < 0.15


@pytest.mark.parametrize("generate", [particle_flow, cell_images])
def test_a_seed_draws_the_same_images_again(generate: object) -> None:
    assert callable(generate)
    first, again, other = generate(2, 16, seed=1), generate(2, 16, seed=1), generate(2, 16, seed=2)
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], other[0])
    with pytest.raises(ValueError, match="at least 1 image of at least 8×8 pixels can be drawn, got count=0"):
        generate(0)
