"""A probe for an up and a handedness of images: a small network learns to tell an image from its turned copy.

The probe is one number f(x), how much an image looks like those of the folder. It is trained to be larger for an image
than for its other poses, and tested on images that it has not seen: shown x and gx, which one is the original? If the
images have no preferred pose under g, x and gx are equally likely, and no probe can be right in more than half
of the cases. So the share of right answers is a figure with a known chance level and a binomial spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.algebra.families import dihedral
from steerable.data.images import Progress
from steerable.data.warping import turned_and_scaled, warped
from steerable.training.evaluation.intervals import Estimate, wilson
from steerable.transforms import transform
from steerable.types.field_types import FieldType

__all__ = ["PoseEvidence", "probe_poses", "probe_tilt"]

SIDE = 32  # pixels that the probe sees
TILT = 22.5  # degrees to either side; both are interpolated alike, which no angle and 0° would be
BATCH = 16  # images, each in all poses
RATE, DECAY = 3e-3, 1e-4
BLUR = 1.0  # pixels; without it the square grid of pixels would tell how far an image was turned


@dataclass(frozen=True)
class PoseEvidence:
    """How well images were told from their other poses, each image by a probe that was trained on others.

    Args:
        images: how many.
        told: for each move, the share of images for which the original was picked from itself and the moved one, a half
            by chance, with its 95 % interval.
        picked: the share for which it was picked among all poses.
        bits: how much the probe knows of the pose, log₂ of the number of poses less its cross-entropy; 0 at least.
        poses: how many poses there are.
    """

    images: int
    told: dict[str, Estimate]
    picked: Estimate
    bits: float
    poses: int


class _Probe(nn.Sequential):
    """A small network, (n, channels, side, side) → (n,)."""

    def __init__(self, channels: int) -> None:
        super().__init__(
            nn.Conv2d(channels, 16, 5, stride=2, padding=2),
            nn.BatchNorm2d(16),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.BatchNorm2d(32),
            nn.ReLU(),
            nn.AvgPool2d(2, ceil_mode=True),
            nn.Conv2d(32, 64, 3, padding=1),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(2),
            nn.Flatten(),
            nn.Dropout(0.2),
            nn.Linear(256, 1),
            nn.Flatten(0),
        )


def probe_poses(images: Tensor, specimens: Sequence[str] = (), **how: Any) -> PoseEvidence:
    """Probe turns by 90° and mirror images, the eight elements of D4, which move pixels to pixels.

    Args:
        images: uint8, (n, channels, side, side), square.
        specimens: what each image shows a part of, or nothing; a specimen is never both learnt from and asked about.
        **how: ``steps``, ``seed`` and ``progress`` of the training.
    """
    group = dihedral(4)
    kind = FieldType(group, [(images.shape[1], group.trivial)])
    prepared = _prepared(images)
    poses = torch.stack([transform(prepared, element, kind) for element in group.elements], dim=1)
    scores = _cross_fitted(poses, specimens, **how)
    told = {element: _told(scores[:, 0] - scores[:, k]) for k, element in enumerate(group.elements) if k}
    return _evidence(scores, told)


def probe_tilt(images: Tensor, specimens: Sequence[str] = (), **how: Any) -> PoseEvidence:
    """Probe eight angles 45° apart; ``told["tilt"]`` compares those that are not quarter turns of each other.

    An image is turned by 22.5° to the left or to the right, and by quarter turns after that. Where things are aligned
    with the edges of the images, the two can be told apart, also where quarter turns cannot. Images are blurred a
    little and seen in a disc, so that neither corners nor pixels give the angle away.

    Args:
        images, specimens, **how: see :func:`probe_poses`.
    """
    prepared = _blurred(_prepared(images))
    count, side = len(prepared), prepared.shape[-1]
    still = torch.zeros(count, dtype=torch.long)
    both = []
    for angle in (TILT, -TILT):
        matrices = turned_and_scaled(torch.full((count, 1), angle), torch.ones(count), still)
        both.append(warped(prepared, matrices, torch.zeros(count, 2), reflect=True))
    place = torch.arange(side) - (side - 1) / 2
    # Near the edges a blurred image is a mixture with its mirror image, which shows where the edges were.
    radius = max(side / 2 - 1 - 2.5 * BLUR, side / 3)
    disc = (place[:, None] ** 2 + place**2 <= radius**2).float()
    poses = torch.stack([torch.rot90(x * disc, k, (-2, -1)) for x in both for k in range(4)], dim=1)
    scores = _cross_fitted(poses, specimens, **how)
    return _evidence(scores, {"tilt": _told(scores[:, :4].logsumexp(1) - scores[:, 4:].logsumexp(1))})


def _evidence(scores: Tensor, told: dict[str, Estimate]) -> PoseEvidence:
    poses = scores.shape[1]
    best = scores[:, 1:].max(1).values
    picked = wilson(float((scores[:, 0] > best).double().sum()), len(scores))
    bits = math.log2(poses) - float(F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long))) / math.log(2)
    return PoseEvidence(len(scores), told, picked, max(0.0, bits), poses)


def _told(advantage: Tensor) -> Estimate:
    """How often the original has the higher score; a tie, such as that of a symmetric image, counts as a half."""
    right = float((advantage > 0).double().sum() + 0.5 * (advantage == 0).double().sum())
    return wilson(right, len(advantage))


def _cross_fitted(
    poses: Tensor,
    specimens: Sequence[str],
    *,
    steps: int,
    seed: int = 0,
    progress: Progress | None = None,
) -> Tensor:
    """Scores (n, poses); each half of the images gets them from a probe that was trained on the other half.

    Args:
        poses: (n, poses, channels, side, side), the originals first.
        specimens: see :func:`probe_poses`.
        steps: of each half.
        seed: of halves, weights and order.
        progress: called with (steps done, all steps).
    """
    halves = _halves(len(poses), specimens, seed)
    scores = torch.empty(poses.shape[:2])
    with torch.random.fork_rng(devices=[]):
        for number, (learnt, asked) in enumerate((halves, halves[::-1])):

            def tell(done: int, before: int = number * steps) -> None:
                if progress is not None:
                    progress(before + done, 2 * steps)

            probe = _trained(poses[learnt], steps, seed + number, tell)
            with torch.no_grad():
                parts = [probe(part.flatten(0, 1)).view(len(part), -1) for part in poses[asked].split(64)]
            scores[asked] = torch.cat(parts)
    return scores


def _trained(poses: Tensor, steps: int, seed: int, tell: Callable[[int], None]) -> _Probe:
    torch.manual_seed(seed)
    probe = _Probe(poses.shape[2])
    optimiser = torch.optim.AdamW(probe.parameters(), RATE, weight_decay=DECAY)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimiser, RATE, total_steps=steps)
    order = torch.cat([torch.randperm(len(poses)) for _ in range(math.ceil(steps * BATCH / len(poses)))])
    for step in range(steps):
        batch = poses[order[step * BATCH : (step + 1) * BATCH]]
        contrast = 1 + 0.2 * (2 * torch.rand(len(batch), 1, 1, 1, 1) - 1)
        scores = probe((batch * contrast).flatten(0, 1)).view(len(batch), -1)
        loss = F.cross_entropy(scores, torch.zeros(len(batch), dtype=torch.long), label_smoothing=0.05)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        schedule.step()
        tell(step + 1)
    return probe.eval()


def _halves(count: int, specimens: Sequence[str], seed: int) -> tuple[Tensor, Tensor]:
    """Two random halves of the images, with whole specimens in each."""
    names, numbers = np.unique(np.asarray(specimens or range(count)), return_inverse=True)
    chosen = np.isin(numbers, np.random.default_rng(seed).permutation(len(names))[: len(names) // 2])
    return torch.from_numpy(np.flatnonzero(chosen)), torch.from_numpy(np.flatnonzero(~chosen))


def _prepared(images: Tensor) -> Tensor:
    """Floats of 32×32 pixels at most, with mean 0 and variance 1 in each channel."""
    found = images.float()
    if images.shape[-1] > SIDE:
        found = F.interpolate(found, (SIDE, SIDE), mode="bilinear", antialias=True)
    spread = found.std((0, 2, 3), keepdim=True).clamp_min(1e-6)
    return (found - found.mean((0, 2, 3), keepdim=True)) / spread


def _blurred(images: Tensor) -> Tensor:
    """The images, blurred by a Gaussian, whose spectrum is round."""
    reach = min(math.ceil(3 * BLUR), images.shape[-1] - 1)
    taps = torch.exp(-((torch.arange(-reach, reach + 1) / BLUR) ** 2) / 2)
    filters = (taps / taps.sum()).expand(images.shape[1], 1, -1)
    padded = F.pad(images, 4 * (reach,), mode="reflect")
    rows = F.conv2d(padded, filters[:, :, None], groups=images.shape[1])
    return F.conv2d(rows, filters[..., None], groups=images.shape[1])
