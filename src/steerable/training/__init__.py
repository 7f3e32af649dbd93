"""Training runs: a request (``RunConfig`` and its recipe), the plan that it comes to, and a folder with the outcome.

Each name is imported when it is first used: Lightning, for one, is needed by ``train`` alone.
"""

from typing import TYPE_CHECKING

from steerable import data
from steerable.lazy import lazy_names

if TYPE_CHECKING:
    from steerable.training.config import RunConfig
    from steerable.training.plan import Plan
    from steerable.training.recipes import Recipe, load_recipe
    from steerable.training.run import train
    from steerable.training.trained_model import TrainedModel
    from steerable.training.trained_segmenter import TrainedSegmenter, load_trained

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        **dict.fromkeys(data.__all__, "steerable.data"),  # where these names were before they had a room
        "Plan": "steerable.training.plan",
        "Recipe": "steerable.training.recipes",
        "RunConfig": "steerable.training.config",
        "TrainedModel": "steerable.training.trained_model",
        "TrainedSegmenter": "steerable.training.trained_segmenter",
        "load_recipe": "steerable.training.recipes",
        "load_trained": "steerable.training.trained_segmenter",
        "train": "steerable.training.run",
    },
)

__all__ = ["Plan", "Recipe", "RunConfig", "TrainedModel", "TrainedSegmenter", "load_recipe", "load_trained", "train"]
