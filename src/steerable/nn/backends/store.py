"""Measured choices, remembered also on disk: the fastest backend, and the fastest memory format.

The file holds nothing but choices. If it is missing, damaged or read-only, they are measured again, for this process.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import torch

from steerable.atomic import write_text
from steerable.locks import exclusive
from steerable.nn.backends.known import BACKENDS, passes_from_text

__all__ = ["MEMORY_FORMATS", "ChoiceStore", "cache_folder", "choice_store", "remembered", "store_key"]

LARGEST_FILE = 4096  # entries; beyond that the oldest are dropped
LARGEST_BYTES = 10_000_000  # far more than that many entries take
LONGEST_WAIT = 10.0  # seconds for other processes, each of which writes for some milliseconds
MEMORY_FORMATS = {"channels_last": torch.channels_last, "contiguous_format": torch.contiguous_format}
FORMAT = 4  # to be raised where kernels become faster: what was found with the old ones no longer holds


class ChoiceStore:
    """Choices by key, in memory and in a file that other processes may write as well.

    A choice is the name of a backend, the text of :class:`Passes`, or the name of a memory format.

    Args:
        path: the JSON file; None keeps them in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._memory: dict[str, str] | None = None

    def get(self, key: str) -> str | None:
        if self._memory is None:
            self._memory = self._read()
        return self._memory.get(key)

    def put(self, key: str, choice: str) -> None:
        """Remember a choice, and write the file with what others have written since; one process at a time does so."""
        if self._memory is None:
            self._memory = self._read()
        self._memory[key] = choice
        if self.path is None:
            return
        with contextlib.suppress(OSError):  # it is kept in memory all the same
            self.path.parent.mkdir(parents=True, exist_ok=True)
            with exclusive(self.path.with_name(f"{self.path.name}.lock"), seconds=LONGEST_WAIT):
                entries = [(k, c) for k, c in self._read().items() if k != key]
                kept = dict([*entries, (key, choice)][-LARGEST_FILE:])
                write_text(self.path, json.dumps({"format": FORMAT, "choices": kept}))

    def _read(self) -> dict[str, str]:
        if self.path is None:
            return {}
        try:
            if self.path.stat().st_size > LARGEST_BYTES:
                return {}
            content = json.loads(self.path.read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}
        if not isinstance(content, Mapping) or content.get("format") != FORMAT:
            return {}
        choices = content.get("choices")
        if not isinstance(choices, Mapping):
            return {}
        return {k: c for k, c in choices.items() if isinstance(k, str) and isinstance(c, str) and _is_known(c)}


def _is_known(choice: str) -> bool:
    is_backend = choice in BACKENDS and BACKENDS[choice].is_whole
    return is_backend or choice in MEMORY_FORMATS or passes_from_text(choice) is not None


def choice_store() -> ChoiceStore:
    """The store of this user; the environment variable STEERABLE_CACHE_DIR moves it, empty text switches it off."""
    folder = cache_folder()
    return _store(None if folder is None else folder / "convolutions.json")


@lru_cache(maxsize=8)
def _store(path: Path | None) -> ChoiceStore:
    return ChoiceStore(path)


def remembered(device: torch.device, question: tuple[Any, ...], measure: Callable[[], str]) -> str:
    """The answer to a question: found earlier, in this process or another, or measured now."""
    store, key = choice_store(), store_key(device, question)
    found = store.get(key)
    if found is None:
        found = measure()
        store.put(key, found)
    return found


def cache_folder() -> Path | None:
    """The folder for data that programs can compute again; None if caching is switched off."""
    named = os.environ.get("STEERABLE_CACHE_DIR")
    if named is not None:
        return Path(named).expanduser() if named else None
    try:
        home = Path.home()
    except RuntimeError:  # no home folder
        return None
    if sys.platform == "darwin":
        return home / "Library" / "Caches" / "steerable"
    if sys.platform == "win32":
        return Path(os.environ.get("LOCALAPPDATA", home / "AppData" / "Local")) / "steerable"
    return Path(os.environ.get("XDG_CACHE_HOME") or home / ".cache") / "steerable"


def store_key(device: torch.device, parts: tuple[Any, ...]) -> str:
    """A fingerprint of the machine, the versions and the question; a change of any of them asks anew."""
    text = json.dumps([_environment(device), torch.get_num_threads(), *parts], default=str)
    return hashlib.blake2b(text.encode(), digest_size=12).hexdigest()


@lru_cache(maxsize=16)
def _environment(device: torch.device) -> tuple[str, ...]:
    hardware = torch.cuda.get_device_name(device) if device.type == "cuda" else _processor()
    return (hardware, str(os.cpu_count()), *(_version(name) for name in ("steerable", "torch", "numba", "triton")))


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("model name", "cpu family", "model", "cache size", "flags", "CPU part")
    facts = {line.split(":")[0].strip(): line.partition(":")[2].strip() for line in lines if ":" in line}
    return "; ".join(facts[name] for name in wanted if name in facts)
