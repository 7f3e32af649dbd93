"""Training runs: a request (``RunConfig`` and its recipe), the plan made from it, and a folder with the results.

Each name is imported when it is first used: only ``train`` needs Lightning, for example.
"""

from typing import TYPE_CHECKING

from steerable import data
from steerable.lazy import lazy_names

if TYPE_CHECKING:
    from steerable.training.requests.config import RunConfig
    from steerable.training.requests.plan import Plan
    from steerable.training.requests.recipes import Recipe, load_recipe
    from steerable.training.running.run import train
    from steerable.training.trained_networks.trained_model import TrainedModel
    from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter, load_trained

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "steerable.data": data.__all__,  # where these names were before they had a room
        "steerable.training.requests.config": ("RunConfig",),
        "steerable.training.requests.plan": ("Plan",),
        "steerable.training.requests.recipes": ("Recipe", "load_recipe"),
        "steerable.training.running.run": ("train",),
        "steerable.training.trained_networks.trained_model": ("TrainedModel",),
        "steerable.training.trained_networks.trained_segmenter": ("TrainedSegmenter", "load_trained"),
    },
)

__all__ = ["Plan", "Recipe", "RunConfig", "TrainedModel", "TrainedSegmenter", "load_recipe", "load_trained", "train"]
