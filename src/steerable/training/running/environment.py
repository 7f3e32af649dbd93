"""The environment of a run: versions, hardware, the revision of the code."""

from __future__ import annotations

import platform
import subprocess
from pathlib import Path
from typing import Any

import lightning
import numpy as np
import torch

import steerable

__all__ = ["environment"]


def environment() -> dict[str, Any]:
    """Versions, hardware and the revision of the code."""
    packages = {"steerable": steerable, "torch": torch, "lightning": lightning, "numpy": np}
    return {
        "python": platform.python_version(),
        "versions": {name: str(package.__version__) for name, package in packages.items()},
        "cpu": _processor(),
        "gpu": torch.cuda.get_device_name() if torch.cuda.is_available() else None,
        "git": _revision(),
    }


def _processor() -> str:
    """This machine's name for its CPU; on Linux, Python knows only the architecture."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _revision() -> str | None:
    try:
        found = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False, cwd=Path(__file__).parent
        )
    except OSError:  # no git on this machine
        return None
    return found.stdout.strip() if found.returncode == 0 else None
