"""Training runs: a request (``RunConfig`` and its recipe), the plan that it comes to, and a folder with the outcome."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steerable.training.config import RunConfig
    from steerable.training.plan import Plan
    from steerable.training.recipes import Recipe, load_recipe
    from steerable.training.run import train
    from steerable.training.trained_model import TrainedModel

__all__ = ["Plan", "Recipe", "RunConfig", "TrainedModel", "load_recipe", "train"]

_HOMES = {
    "Plan": "plan",
    "Recipe": "recipes",
    "RunConfig": "config",
    "TrainedModel": "trained_model",
    "load_recipe": "recipes",
    "train": "run",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is first used: Lightning, for one, is needed by ``train`` alone."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
