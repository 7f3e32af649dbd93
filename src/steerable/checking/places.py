"""The place in a model at which something is refused: the module that is running, and the line of its source."""

from __future__ import annotations

import linecache
import os
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import CodeType, FrameType
from typing import Any

import torch
from torch import nn

__all__ = [
    "Answers",
    "EquivarianceError",
    "Run",
    "Shape",
    "UnfitSize",
    "as_if_unwarned",
    "current",
    "current_run",
    "line_of_error",
    "place",
    "source_line",
]

Shape = tuple[int, ...]  # (batch, height, width), or (batch, depth, height, width)

# What was asked of sizes, by the source line, the comparison and the number that a size was compared with: each answer
# that was found, with the question as a function of the input's shape.
Answers = dict[tuple[str, str, float | str], dict[bool, Callable[[Shape], bool]]]

_TORCH = os.path.join(os.path.dirname(torch.__file__), "")
_LIBRARY = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "")


class EquivarianceError(TypeError):
    """The first operation of a model that breaks equivariance, with its place, the reason, and the remedy."""


class UnfitSize(EquivarianceError):
    """An operation whose windows or strides do not fit the size of the input, though they may fit another."""


@dataclass
class Run:
    """One run of a model on typed tensors.

    Attributes:
        start: the code of the function that began it; source lines above it are not the model's.
        shape: the input's batch and sides.
        answers: what the model asked of sizes.
        names: the path of each module in the model, by its identity.
        running: the modules whose ``forward`` has begun and not ended, outermost first.
        inside_layer: whether a layer of a known type is running, whose inner tensors are plain.
        on_plain_tensors: whether the model runs on plain tensors now, to be measured as a whole.
        in_training: whether its modules stay in the mode that they are in, instead of evaluation.
    """

    start: CodeType
    shape: Shape
    answers: Answers
    names: dict[int, str] = field(default_factory=dict)
    running: list[nn.Module] = field(default_factory=list)
    inside_layer: bool = False
    on_plain_tensors: bool = False
    in_training: bool = False


_runs: list[Run] = []


def current_run() -> Run | None:
    return _runs[-1] if _runs else None


@contextmanager
def current(run: Run) -> Iterator[None]:
    """A context in which :func:`place` speaks of this run."""
    _runs.append(run)
    try:
        yield
    finally:
        _runs.pop()


@contextmanager
def as_if_unwarned(model: object) -> Iterator[None]:
    """A context in which layers warn again of sizes that do not fit; otherwise they warn once."""
    parts: list[Any] = (
        [owner for m in model.modules() for owner in (m, *vars(m).values())] if isinstance(model, nn.Module) else []
    )
    warned = [(part, part.warned) for part in parts if isinstance(getattr(part, "warned", None), set)]
    try:
        for part, _ in warned:
            part.warned = set()
        yield
    finally:
        for part, sizes in warned:
            part.warned = sizes


def place() -> str:
    """``"in module `1.1` (ReLU), net.py, line 7 (`y = F.relu(x)`): "``, as far as it is known."""
    parts = [part for part in (_module(), source_line()) if part]
    return f"in {', '.join(parts)}: " if parts else ""


def _module() -> str:
    run = current_run()
    if run is None or not run.running:
        return ""
    module = run.running[-1]
    name, path = type(module).__name__, run.names.get(id(module), "")
    return f"module `{path}` ({name})" if path else name


def source_line() -> str:
    """The innermost line that is neither torch's nor this library's, below the start of the run."""
    run = current_run()
    frame: FrameType | None = sys._getframe()
    while frame is not None and (run is None or frame.f_code is not run.start):
        file = frame.f_code.co_filename
        if not file.startswith((_TORCH, _LIBRARY)):
            return _line(file, frame.f_lineno)
        frame = frame.f_back
    return ""


def line_of_error(error: BaseException) -> str:
    """The innermost line that raised it and is neither torch's nor this library's; "" if there is none."""
    frames = [(frame.f_code.co_filename, number) for frame, number in traceback.walk_tb(error.__traceback__)]
    return next((_line(*at) for at in reversed(frames) if not at[0].startswith((_TORCH, _LIBRARY))), "")


def _line(file: str, number: int) -> str:
    code = linecache.getline(file, number).strip()
    return f"{os.path.basename(file)}, line {number}" + (f" (`{code}`)" if code else "")
