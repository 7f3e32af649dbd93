"""``steerable train --advise``: what is left open about group and head is chosen by the images, once for each run.

What was found is kept as ``advice.json`` in the run folder. A resumed run goes by that file and does not look again, so
that it is the same run to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from pathlib import Path
from typing import Any

from steerable.atomic import write_json
from steerable.training.choosing.advising import look_at_images
from steerable.training.choosing.looking import with_changes
from steerable.training.choosing.orientation import SHORTEST
from steerable.training.phases import Phase, unseen
from steerable.training.requests.config import RunConfig
from steerable.training.requests.run_files import ADVICE, read_fields

__all__ = ["advised", "request_in"]

FILE = "advice.json"
TOO_SHORT = (
    f"Less than {SHORTEST:g} minutes are too few to look at the images, so that the network is the usual one. Give "
    "more --minutes for advice, or look first with `steerable advise`."
)


def advised(
    config: RunConfig,
    folder: Path,
    *,
    said: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
    phase: Phase = unseen,
) -> RunConfig:
    """The request with what the images advise; the folder then holds what was found.

    Args:
        config: the request as it would be without advice.
        folder: the run folder; what it holds of an earlier start is gone by.
        said: settings of the recipe that the user has given, which stay.
        tell: called with a line about what was found.
        phase: shows what is being done.
    """
    recorded = _recorded(folder)
    if recorded is None:
        is_short = config.minutes is not None and config.minutes < SHORTEST
        if is_short and not config.volumes:  # the look would take longer than the training; volumes are refused there
            recorded = {"model": {}, "recipe": {}, "why": TOO_SHORT}
        else:
            recorded = look_at_images(config, phase=phase).to_dict()
        folder.mkdir(parents=True, exist_ok=True)
        write_json(folder / FILE, recorded)
    if tell is not None:
        tell(f"Advice: {recorded['why']}")
    return _with_advice(config, recorded, said)


def request_in(config: RunConfig, folder: Path, said: Collection[str] = ()) -> RunConfig:
    """The request with the advice that a run folder holds, if there is any."""
    recorded = _recorded(folder)
    return config if recorded is None else _with_advice(config, recorded, said)


def _with_advice(config: RunConfig, recorded: Mapping[str, Any], said: Collection[str]) -> RunConfig:
    changes = {name: value for name, value in recorded["recipe"].items() if name not in said}
    return with_changes(config, recorded["model"], changes)


def _recorded(folder: Path) -> dict[str, Any] | None:
    """What the folder holds; None where it holds no run."""
    if not (folder / FILE).is_file():
        if (folder / "config.json").is_file():
            raise FileExistsError(
                f"{folder} holds a run that was not advised by its images. Resume it without --advise, or choose "
                "another folder."
            )
        return None
    try:
        return read_fields(folder / FILE, ADVICE, tuple(ADVICE))
    except ValueError as error:
        raise ValueError(
            f"{error} It says what the run chose by its images. Put the file back, or choose another folder."
        ) from error
