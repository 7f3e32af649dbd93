"""The places of saved networks: folders, run folders, and the hub by names ``owner/name``."""

from __future__ import annotations

import json
import re
import warnings
from pathlib import Path
from typing import Any

from steerable.errors import frames_to_caller
from steerable.extras import missing

__all__ = [
    "HUB_OPTIONS",
    "NORMALISATION",
    "WEIGHTS",
    "is_hub_name",
    "local_folder",
    "read_config",
    "warn_of_normalisation",
]

WEIGHTS = "model.safetensors"
NORMALISATION = "normalisation.safetensors"
HUB_OPTIONS = ("revision", "cache_dir", "force_download", "token", "local_files_only")
"""What says how something is fetched from the hub."""
FETCHED = ["*.json", "*.safetensors", "*.md"]
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


def is_hub_name(name: str | Path) -> bool:
    """Whether a name has the form of the hub's, ``owner/name``, and is not the path of a folder."""
    folder = Path(name).expanduser()
    of_hub = isinstance(name, str) and _HUB_NAME.fullmatch(name) is not None
    return of_hub and not folder.exists() and not folder.parent.is_dir()


def local_folder(name: str | Path, **options: Any) -> Path:
    """The folder with the weights, perhaps the folder ``model`` of a run; one on the hub is downloaded first.

    Args:
        name: a folder, or a name of the hub's form. One such as ``runs/x`` has that form as well: where there is a
            folder ``runs``, it is looked for there only.
        **options: arguments of ``huggingface_hub.snapshot_download``, such as ``revision``.
    """
    folder = _downloaded(str(name), options) if is_hub_name(name) else Path(name).expanduser()
    for place in (folder, folder / "model"):
        if (place / WEIGHTS).is_file():
            return place
    if folder.is_dir():
        raise FileNotFoundError(
            f"the folder `{folder}` has no `{WEIGHTS}`, and no folder `model` with one: nothing was saved there, or "
            "its run has not finished. Finish a run with the command that started it."
        )
    raise FileNotFoundError(
        f"there is no folder `{folder}`. Give a folder that `save_pretrained` or `steerable train` wrote, or a model "
        "of the hub by its name, `owner/name`."
    )


def _downloaded(name: str, options: dict[str, Any]) -> Path:
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError
    except ImportError as error:
        raise missing("huggingface_hub", "fetching models of the hub") from error
    try:
        return Path(snapshot_download(name, **{"allow_patterns": FETCHED, **options}))
    except (HfHubHTTPError, OSError) as error:
        reason = " ".join(str(error).split())
        raise FileNotFoundError(
            f"there is no folder `{name}` here, and no model of that name could be fetched from the hub. Check the "
            f"name and your connection. The hub says: {reason}"
        ) from error


def warn_of_normalisation(caller: str, place: Path) -> None:
    """Warn that a network takes normalised images if a run has saved it with its normalisation."""
    if (place / NORMALISATION).is_file():
        warnings.warn(
            f"{caller} gives the network of `{place}` alone, without the normalisation that it was trained with. "
            f"`steerable.training.TrainedModel.load({str(place)!r})` takes images as bytes and applies it.",
            stacklevel=frames_to_caller(),
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The options of the network in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`, which says what network the weights belong to.")
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"`{path}` cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"`{path}` does not hold the options of a network. Save the network again.")
    return found
