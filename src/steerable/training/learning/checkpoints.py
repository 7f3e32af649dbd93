"""Checkpoints of a run: the last two, each complete or absent, with a checksum, and read without running code.

A checkpoint is an ordinary file of ``torch.save``, a zip archive whose comment holds the SHA-256 of everything
before it. So archive and checksum are one file, and appear together.
"""

from __future__ import annotations

import hashlib
import io
import pickle
import re
import struct
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO
from torch import Tensor

from steerable.atomic import write_bytes
from steerable.errors import listing
from steerable.training.requests.run_files import kind_of

__all__ = [
    "LAST",
    "PREVIOUS",
    "AtomicCheckpoints",
    "DamagedCheckpoint",
    "HostileCheckpoint",
    "has_checkpoint",
    "latest_checkpoint",
    "read_checkpoint",
    "set_aside",
    "ways_on",
]

LAST, PREVIOUS = "last.ckpt", "previous.ckpt"
KEYS = ("state_dict", "optimizer_states", "lr_schedulers", "loops", "callbacks", "epoch", "global_step")
_END = b"PK\x05\x06"  # begins the record of 22 bytes that ends an archive; its last two are the length of a comment
_MARK = b"steerable sha256 "
_SEAL = len(_MARK) + 64


class DamagedCheckpoint(ValueError):
    """A checkpoint that cannot be read; the message says why, but not which."""


class HostileCheckpoint(ValueError):
    """A checkpoint that asks for code to be run."""


class AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoints, of which a kill at any moment leaves a complete one; the previous one is kept."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        path = Path(path)
        # In memory first: its size is known before anything is written, and torch never meets a full disk.
        content = io.BytesIO()
        torch.save(checkpoint, content)
        write_bytes(path, _sealed(content), keep=path.with_name(PREVIOUS))

    def load_checkpoint(self, path: str | Path, map_location: Any = None, weights_only: bool | None = None) -> Any:
        """Read tensors, numbers and text only, whatever ``weights_only`` says."""
        return read_checkpoint(Path(path))


def has_checkpoint(folder: Path) -> bool:
    """Whether there is a checkpoint to resume from."""
    return any((folder / name).exists() for name in (LAST, PREVIOUS))


def latest_checkpoint(
    folder: Path, network: Mapping[str, Tensor] | None = None
) -> tuple[Path | None, list[tuple[Path, str]]]:
    """The checkpoint to resume from, if the run has one, and those that had to be skipped, with the reasons.

    Args:
        folder: where the checkpoints are.
        network: the state that a checkpoint must hold the same tensors as.

    Raises:
        ValueError: where there are checkpoints, and none can be used.
    """
    damaged: list[tuple[Path, str]] = []
    for path in (folder / LAST, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            _check_tensors(read_checkpoint(path)["state_dict"], network)
        except DamagedCheckpoint as error:
            damaged.append((path, str(error)))
        except HostileCheckpoint as error:
            raise HostileCheckpoint(
                f"`{path}` was not loaded: {error}. Nothing in it was run. Do not trust this run folder unless you "
                f"know where it comes from. {ways_on(folder)}"
            ) from error
        else:
            return path, damaged
    if damaged:
        reasons = "; ".join(f"`{path}` {reason}" for path, reason in damaged)
        raise ValueError(f"the run cannot continue from its checkpoints: {reasons}. {ways_on(folder)}")
    return None, []


def read_checkpoint(path: Path) -> dict[str, Any]:
    """The contents of a checkpoint with the right checksum; tensors, numbers and text only, and no code is run.

    Checkpoints of earlier versions have no checksum; of these the archive's own, which cover all tensors, are compared.
    """
    if not path.is_file():
        raise DamagedCheckpoint("is not a file")
    try:
        content = path.read_bytes()
    except OSError as error:
        raise DamagedCheckpoint(f"cannot be read ({error.strerror})") from error
    if not content:
        raise DamagedCheckpoint("is empty")
    if not _is_earlier(content) and content[-_SEAL:] != _seal(memoryview(content)[:-_SEAL]):
        raise DamagedCheckpoint(
            f"is damaged: its {len(content):,} bytes do not have the checksum that they were saved with"
        )
    _check_archive(content)
    try:
        found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        asked = re.search(r"GLOBAL ([\w.]+)", str(error))
        what = f"it asks for `{asked[1]}`" if asked else "it asks for something"
        raise HostileCheckpoint(f"{what}, and a checkpoint needs tensors, numbers and text only") from error
    # A file that was made by another program fails in many ways.
    except Exception as error:
        raise DamagedCheckpoint(f"is not a checkpoint ({type(error).__name__})") from error
    if not isinstance(found, dict):
        raise DamagedCheckpoint(f"holds {kind_of(found)}, expected the state of a run")
    if missing := [key for key in KEYS if key not in found]:
        raise DamagedCheckpoint(f"lacks {listing(missing)} of a run's state")
    return found


def set_aside(path: Path) -> Path:
    """Give a damaged checkpoint a name under which it is in nobody's way, and return the name."""
    number = 1
    while (found := path.with_name(f"{path.name}.damaged" + (f"-{number}" if number > 1 else ""))).exists():
        number += 1
    path.rename(found)
    return found


def _sealed(archive: io.BytesIO) -> memoryview:
    """The archive with a comment: the checksum of all bytes before the comment, its length included."""
    content = archive.getbuffer()
    if not _is_earlier(bytes(content[-22:])):
        raise RuntimeError("torch.save has written something other than a zip archive without a comment.")
    content[-2:] = struct.pack("<H", _SEAL)
    seal = _seal(content)
    content.release()
    archive.seek(0, io.SEEK_END)
    archive.write(seal)
    return archive.getbuffer()


def _seal(content: bytes | memoryview) -> bytes:
    return _MARK + hashlib.sha256(content).hexdigest().encode()


def _is_earlier(content: bytes) -> bool:
    """Whether it ends as an archive without a comment does. No damage turns an end with a checksum into that."""
    return content[-22:-18] == _END and content[-2:] == b"\0\0"


def _check_archive(content: bytes) -> None:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            compressed = any(entry.compress_type != zipfile.ZIP_STORED for entry in archive.infolist())
            broken = None if compressed else archive.testzip()
    except (zipfile.BadZipFile, ValueError, OSError, NotImplementedError, RuntimeError, EOFError) as error:
        raise DamagedCheckpoint(f"is not a checkpoint ({error})") from error
    if compressed:
        raise DamagedCheckpoint("is not a checkpoint: its parts are compressed")
    if broken is not None:
        raise DamagedCheckpoint(f"is damaged: its part `{broken}` does not have the checksum that it was saved with")


def _check_tensors(found: Any, network: Mapping[str, Tensor] | None) -> None:
    if not isinstance(found, dict):
        raise DamagedCheckpoint("holds no weights")
    if network is None:
        return
    if found.keys() != network.keys():
        odd = sorted(map(str, found.keys() ^ network.keys()))
        raise DamagedCheckpoint(f"belongs to another network: {listing(odd, 3)} in only one of the two")
    for name, value in network.items():
        if not isinstance(found[name], Tensor) or found[name].shape != value.shape:
            raise DamagedCheckpoint(f"belongs to another network: `{name}` has another shape there")


def ways_on(folder: Path) -> str:
    """What a user can do if none of a run's checkpoints can be used."""
    return (
        f"Remove the folder `{folder}`, and the same command trains from the beginning; or begin another run with "
        "another `--out`."
    )
