"""``--compare plain``: after a steerable network, train a plain one of as many parameters for as long, and compare
them.

The plain network's run is a run folder of its own, ``plain``, inside that of the steerable network. Both can be
resumed; ``comparison.json`` is written when both have ended.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from steerable.atomic import write_json
from steerable.models.registry import MODELS
from steerable.training.learning.moves_to_show import invariance
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import PLAIN_RATES, RATE_OF_VOLUMES, RECIPES_OF_OWN_IMAGES, RunConfig
from steerable.training.requests.recipes import Recipe, load_recipe
from steerable.training.requests.run_files import COMPARISON, COMPARISON_NEEDED, SUB_RUN, read_fields
from steerable.training.running.run import is_first_process, train
from steerable.training.trained_networks.comparison import compare
from steerable.training.trained_networks.trained_segmenter import load_trained

__all__ = ["check_comparable", "compare_with_plain", "plain_recipe", "plain_request", "read_comparison"]

TO_READ = 0.1  # minutes to read images and write results, for a plain run that has no minutes of its own
SHARED = ("depth", "stem", "dropout", "axes")
"""The options that a plain network has in common with the steerable one."""


def check_comparable(config: RunConfig) -> None:
    """Raise a ValueError for a run without a plain counterpart or test images, before anything is read."""
    if config.start is not None:
        raise ValueError(
            f"--compare plain trains a plain network on the same images, and this run starts from `{config.start}`, "
            "which has learnt from others as well. Leave one of the two out."
        )
    name = config.model["name"]
    if f"plain_{name}" not in MODELS:
        known = [model for model in MODELS if f"plain_{model}" in MODELS]
        raise ValueError(
            f"--compare plain compares a steerable network, {', '.join(known)}, with a plain one; got the model "
            f"{name}. Leave one of the two out."
        )
    if config.evaluate != "test":
        raise ValueError("networks are compared on test images, and this run does not look at them (evaluate).")


def plain_request(request: RunConfig, results: Mapping[str, Any]) -> RunConfig:
    """The run of the plain network that a finished run is compared with.

    It has as many parameters, and the same depth, stem, images, seed and augmentation: it is shown turns by every angle
    and mirror images if the steerable network is shown those that it does not know, and no turns if the steerable one
    is shown none because it uses the orientation. It has the same minutes, and as many epochs as fit into them. If the
    run had a number of epochs instead of minutes, it gets the time that they took and a tenth more, to read the images.

    Args:
        request: that of the steerable run.
        results: those of the steerable run.
    """
    model, name = results["model"], f"plain_{request.model['name']}"
    shared = {key: model[key] for key in SHARED if key in model and key in MODELS[name].options}
    recipe = plain_recipe(request.recipe, request.task)
    if request.task == "classify" and invariance(model) is None:
        # Upright images are turned for neither network, and the same holds for mirror images.
        recipe = replace(recipe, turn=False, mirror=recipe.mirror and model.get("head") != "linear")
    minutes = request.minutes or round(1.1 * float(results["training_minutes"]) + TO_READ, 3)
    return replace(
        request,
        model={"name": name, **shared},
        recipe=recipe,
        orientation="model",
        parameters=int(results["parameters"]),
        minutes=minutes,
        fit="stretch",
    )


def plain_recipe(recipe: Recipe, task: str = "classify") -> Recipe:
    """A recipe for a plain network: AdamW if its rates are those of the recipe for people's own images."""
    usual = load_recipe(RECIPES_OF_OWN_IMAGES[task])
    rates = usual.learning_rate, RATE_OF_VOLUMES
    is_usual = recipe.learning_rate in rates and recipe.weight_decay == usual.weight_decay
    return replace(recipe, **(PLAIN_RATES if is_usual else {"rates_by_sharing": False}))


def compare_with_plain(
    config: RunConfig,
    folder: Path,
    results: Mapping[str, Any],
    *,
    tell: Callable[[str], None] | None = None,
    phase: Phase = unseen,
) -> dict[str, Any] | None:
    """Train a plain network after a finished run, unless that was done already, and compare both on the test images.

    Args:
        config: the request of the steerable run, with the machine that it uses.
        folder: its run folder.
        results: its results.
        tell: called with lines about the plain run.
        phase: shows what is being done.

    Returns:
        What ``comparison.json`` contains; None if the plain run was stopped before its end, and in all processes except
        the first, because the others only train.
    """
    check_comparable(config)
    if (known := read_comparison(folder)) is not None:
        return known
    if tell is not None:
        tell(f"Now the plain network, with as many parameters and as much time, in {folder / SUB_RUN}:")
    request = plain_request(RunConfig.load(folder / "config.json").elsewhere(config), results)
    outcome = train(request, folder / SUB_RUN, tell=tell, phase=phase, images_of=folder)
    if outcome.get("stopped") or not is_first_process():
        return None
    with phase("comparing both networks") as progress:
        found = compare(load_trained(folder), load_trained(folder / SUB_RUN), progress=progress)
    for name, run in (("steerable", results), ("plain", outcome)):
        found["networks"][name] |= {key: run[key] for key in ("training_minutes", "epochs", "augmentation")}
    write_json(folder / "comparison.json", found)
    return found


def read_comparison(folder: Path) -> dict[str, Any] | None:
    """The contents of ``comparison.json`` in a run folder; None if there is none."""
    if not (folder / "comparison.json").is_file():
        return None
    try:
        return read_fields(folder / "comparison.json", COMPARISON, COMPARISON_NEEDED)
    except ValueError as error:
        raise ValueError(f"{error} Remove the file, and `--compare plain` makes it again.") from error
