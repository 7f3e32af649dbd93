"""``steerable train --advise``: the images decide what the user left open about group and head, once for each run.

What was found is kept as ``advice.json`` in the run folder. A resumed run follows that file and does not look again, so
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
    f"A run of less than {SHORTEST:g} minutes is too short to look at the images, so the network is the usual one. "
    "Give more --minutes for advice, or look first with `steerable advise`."
)


def advised(
    config: RunConfig,
    folder: Path,
    *,
    said: Collection[str] = (),
    tell: Callable[[str], None] | None = None,
    phase: Phase = unseen,
) -> RunConfig:
    """The request with the advice that the images give; the folder then holds what was found.

    Args:
        config: the request as it would be without advice.
        folder: the run folder; advice that it holds from an earlier start is followed.
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
    """The advice that the folder holds; None if it holds no run."""
    if not (folder / FILE).is_file():
        if (folder / "config.json").is_file():
            raise FileExistsError(
                f"{folder} holds a run that was begun without --advise. Resume it without --advise, or choose another "
                "folder."
            )
        return None
    try:
        return read_fields(folder / FILE, ADVICE, tuple(ADVICE))
    except ValueError as error:
        raise ValueError(
            f"{error} It records what the run chose from its images. Put the file back, or choose another folder."
        ) from error
