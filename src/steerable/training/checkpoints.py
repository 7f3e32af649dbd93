"""Checkpoints that are whole or not there: written aside, flushed, and then put in place in one step."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import torch
from lightning.fabric.plugins.io.torch_io import TorchCheckpointIO

__all__ = ["AtomicCheckpoints", "latest_checkpoint"]


class AtomicCheckpoints(TorchCheckpointIO):
    """Lightning's checkpoint files, written so that a kill at any moment leaves the previous one."""

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any = None) -> None:
        path = Path(path)
        path.parent.mkdir(parents=True, exist_ok=True)
        aside = path.with_name(f".{path.name}.{os.getpid()}.part")
        with aside.open("wb") as file:
            torch.save(checkpoint, file)
            file.flush()
            os.fsync(file.fileno())
        os.replace(aside, path)


def latest_checkpoint(folder: Path) -> Path | None:
    """The checkpoint to resume from, if the run has one; leftovers of interrupted writes are removed."""
    for leftover in folder.glob(".*.part"):
        leftover.unlink(missing_ok=True)
    last = folder / "last.ckpt"
    return last if last.is_file() else None
