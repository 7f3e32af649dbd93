"""Model cards: what a saved network is, what it was trained on and how good it is, in the form that the hub expects."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from torch import nn

from steerable.models.tensor_files import tensor_bytes

__all__ = ["TEMPLATE", "card_values", "evaluation_results", "inline", "is_ours"]

TEMPLATE = (resources.files("steerable.models") / "templates" / "model_card.md").read_text("utf-8")
"""What a model card looks like; Jinja2 fills it in."""
MARK = "<!-- Written by steerable"
MOST_CLASSES = 40
PIPELINES = {"classify": "image-classification", "segment": "image-segmentation"}
"""What the hub calls tasks."""


def card_values(network: nn.Module, facts: Mapping[str, Any], licence: str | None) -> dict[str, Any]:
    """The values for the template.

    Args:
        network: the network that is saved.
        facts: what is known of its training; see :func:`~steerable.training.trained_networks.model_facts.model_facts`.
        licence: the author's choice.
    """
    name, config = type(network).__name__, dict(getattr(network, "_hub_mixin_config", None) or {})
    group = getattr(network, "group", None)
    options = ", ".join(f"{key} {_shown(value)}" for key, value in sorted(config.items()) if value is not None)
    poses = facts.get("poses") or {}
    return {
        "title": inline(facts.get("dataset") or name),
        "name": name,
        "network": f"{name}: {options}" if options else name,
        "group": "none: a plain network" if group is None else group.name,
        "parameters": f"{sum(p.numel() for p in network.parameters()):,}",
        "sha256": hashlib.sha256(tensor_bytes(network.state_dict())).hexdigest(),
        "licence": licence or "not stated. It is for the author of this model to choose one.",
        "data": list(_data_rows(facts)) if facts else [],
        "figures": [(inline(what), f"{value:.4g}") for what, value in (facts.get("figures") or {}).items()],
        "pose_figure": inline(poses.get("figure", "")),
        "poses": [
            (inline(pose), f"{value:.4f}", f"{poses['drift'][pose]:.1e}")
            for pose, value in (poses.get("values") or {}).items()
        ],
    }


def evaluation_results(facts: Mapping[str, Any]) -> list[Any]:
    """The figures as the hub lists them in the header of a card."""
    from huggingface_hub import EvalResult

    task, name = PIPELINES.get(str(facts.get("task"))), str(facts.get("dataset"))
    if task is None:
        return []
    return [
        EvalResult(task_type=task, dataset_type=name, dataset_name=name, metric_type=what, metric_value=value)
        for what, value in (facts.get("figures") or {}).items()
    ]


def is_ours(card: Path) -> bool:
    """Whether a model card was written by this library and has not been edited."""
    try:
        return MARK in card.read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return False


def inline(text: object) -> str:
    """Other people's text for a cell of a table: on one line, without markup of Markdown or HTML."""
    plain = " ".join(str(text).split())
    for mark in "\\`*_[]<>|":
        plain = plain.replace(mark, f"\\{mark}")
    return plain


def _data_rows(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    classes, counts = facts.get("classes") or [], facts.get("images") or {}
    named = ", ".join(map(inline, classes[:MOST_CLASSES]))
    more = f" and {len(classes) - MOST_CLASSES} more" if len(classes) > MOST_CLASSES else ""
    rows = [
        ("name", inline(facts.get("dataset"))),
        ("images", ", ".join(f"{count:,} {inline(part)}" for part, count in counts.items() if count)),
        ("classes", f"{len(classes)}: {named}{more}"),
        ("size", inline(facts.get("size", ""))),
        ("starts from", inline(facts.get("start") or "")),
    ]
    rows += [
        (f"digest of the {inline(part)} images", f"`{inline(digest)}`")
        for part, digest in (facts.get("digests") or {}).items()
        if digest
    ]
    return [(what, value) for what, value in rows if value]


def _shown(value: object) -> str:
    return inline(", ".join(map(str, value)) if isinstance(value, list | tuple) else value)
