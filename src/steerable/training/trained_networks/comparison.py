"""The comparison of a steerable and a plain network on the same test images: their difference, and how sure it is."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch

from steerable.data.images import Progress
from steerable.data.masked_images import MaskedImages
from steerable.training.evaluation.comparison_in_words import FIGURES
from steerable.training.evaluation.intervals import difference, estimate
from steerable.training.evaluation.posed_values import PosedValues, posed_values
from steerable.training.learning.moves_to_show import invariance
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter

__all__ = ["compare"]


def compare(
    steerable: TrainedModel,
    plain: TrainedModel,
    *,
    dataset: str | None = None,
    data_dir: str | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Compare two trained networks on the same images, with 95 % intervals and tests of the differences.

    Args:
        steerable: the one.
        plain: the other, trained on the same images.
        dataset: other images to test on than the run's own.
        data_dir: where these are.
        progress: called with (images tested, all of them), for one network after the other.

    Returns:
        Plain values for JSON: what was tested, and for each figure the ``"steerable"`` and the ``"plain"`` estimate,
        their ``"difference"``, and the ``p`` of as large a difference by chance.
    """
    name, data = steerable.test_images(dataset, data_dir)
    same = (steerable.image_size, steerable.pixels) == (plain.image_size, plain.pixels)
    theirs = data if same else plain.test_images(dataset, data_dir)[1]
    segments = isinstance(data, MaskedImages)
    values = _values(steerable, data, progress), _values(plain, theirs, progress)
    specimens = () if segments else data.specimens
    task = "segment" if segments else "classify"
    return {
        "dataset": name,
        "task": task,
        "images": len(data),
        "posed": len(values[0].tried),
        "specimens": len(set(specimens)),
        "networks": {"steerable": _about(steerable), "plain": _about(plain)},
        "judged_by": "upright" if not segments and invariance(steerable.model_config) is None else "",
        "figures": {
            figure: _figure(figure, *values, specimens)
            for figure in FIGURES[task]
            if getattr(values[0], figure) is not None
        },
    }


def _values(network: TrainedModel, data: Any, progress: Progress | None) -> PosedValues:
    if isinstance(network, TrainedSegmenter):
        return posed_values(network.whole, data, progress=progress, answer=network.answer)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return posed_values(network.to(device), data, device=device, progress=progress)


def _figure(name: str, ours: PosedValues, theirs: PosedValues, specimens: tuple[str, ...]) -> dict[str, Any]:
    """The figures of both networks and their difference; some exist only for images that were tried in all poses."""
    whose = specimens if name == "upright" or not specimens else tuple(specimens[k] for k in ours.tried)
    pair = getattr(ours, name), getattr(theirs, name)
    return {
        "steerable": asdict(estimate(pair[0], whose)),
        "plain": asdict(estimate(pair[1], whose)),
        "difference": asdict(difference(*pair, whose)),
    }


def _about(network: TrainedModel) -> dict[str, Any]:
    return {"model": network.model_config, "parameters": sum(p.numel() for p in network.model.parameters())}
