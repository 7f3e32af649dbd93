"""Networks by name: built, or read from a folder or the hub, whole or without their heads."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from torch import nn

from steerable.conversion import Converted
from steerable.errors import expect
from steerable.models.converted_features import converted_features
from steerable.models.levels import FeatureMaps
from steerable.models.places import WEIGHTS, local_folder, read_config, warn_of_normalisation
from steerable.models.registry import MODELS, build_model, recognised_model
from steerable.models.saving import SavedModel
from steerable.models.tensor_files import read_tensors

__all__ = ["create", "feature_maps", "from_pretrained"]


def create(name: str, *, features_only: bool = False, **options: Any) -> nn.Module:
    """The model of this name with these options, or its feature maps.

    Args:
        name: one of :data:`~steerable.models.MODELS`.
        features_only: whether to leave out the head, and return a :class:`~steerable.models.FeatureMaps`.
        **options: those of the model.

    >>> net = create("resnet", depth=8, copies=1, features_only=True)
    >>> [str(kind) for kind in net.feature_types][0], net.reductions
    ('regular + qm + qmr2 + qmr3', (1, 2, 4))
    """
    network = build_model(name, **options)
    return feature_maps(network) if features_only else network


def from_pretrained(name: str | Path, *, features_only: bool = False, **options: Any) -> nn.Module:
    """The network in a folder or on the hub, whichever model it is, or its feature maps.

    This gives only the network: one that was trained by ``steerable train`` takes normalised images, and a warning says
    so.

    Args:
        name: a folder that ``save_pretrained`` or ``steerable export`` wrote, a run folder, or ``owner/name``.
        features_only: whether to leave out the head, and return a :class:`~steerable.models.FeatureMaps`.
        **options: arguments of ``huggingface_hub.snapshot_download``, such as ``revision``.
    """
    place = local_folder(name, **options)
    shapes = {key: tuple(value.shape) for key, value in read_tensors(place / WEIGHTS).items()}
    model = recognised_model(read_config(place), shapes)
    warn_of_normalisation("from_pretrained", place)
    network = MODELS[model["name"]].from_pretrained(place)
    return feature_maps(network) if features_only else network


def feature_maps(network: nn.Module, at: Sequence[str] | None = None, *, size: int = 64) -> FeatureMaps | nn.Module:
    """The feature maps of a network, as a module that gives a list of fields; it shares the network's parameters.

    Args:
        network: one of this library's, or one that :func:`~steerable.convert` made.
        at: for a converted network, the paths of the modules after which maps are taken, such as ``["layer1",
            "layer2"]``; other networks have levels of their own.
        size: for a converted network, the sides of the images or volumes from which reductions are found out.
    """
    expect(network, nn.Module, "a network")
    if isinstance(network, Converted):
        return converted_features(network, at, size)
    if not isinstance(network, SavedModel):
        raise TypeError(
            f"feature maps are taken of networks of steerable.models and of `convert`; got {type(network).__name__}. "
            "Its layers have types, layer.out_type: return their outputs from a forward pass of your own."
        )
    if at is not None:
        raise ValueError(
            f"at={list(at)} is for converted networks; a {type(network).__name__} has levels of its own. Leave it out."
        )
    return network.feature_maps()
