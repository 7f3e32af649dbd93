"""The list of backends, and choices between them as text. A new backend is one more entry here."""

from __future__ import annotations

from steerable.errors import did_you_mean, listing, shown
from steerable.nn.backends.dense import Dense, PaddedChannels, Turned
from steerable.nn.backends.fourier.backend import FourierBackend
from steerable.nn.backends.interface import Backend
from steerable.nn.backends.passes import Choice, Passes
from steerable.nn.backends.problem import ConvolutionProblem

__all__ = ["AUTO", "BACKENDS", "checked_name", "forward_only", "in_words", "passes_from_text", "read", "record"]

AUTO = "auto"
"""The name under which the chooser takes the fastest backend."""
BACKENDS: dict[str, Backend] = {b.name: b for b in (Dense(), PaddedChannels(), Turned(), FourierBackend())}


def checked_name(name: str) -> str:
    """The name, if a layer can be told to use the backend of that name."""
    known = [AUTO, *(b.name for b in BACKENDS.values() if b.is_whole)]
    if name not in known:
        raise ValueError(f"unknown backend {shown(name)}. {did_you_mean(str(name), known)}")
    return name


def forward_only(name: str) -> Passes:
    """The passes of a forward pass that no gradients follow."""
    return Passes.all_by(name) if BACKENDS[name].is_whole else Passes(name)


def passes_from_text(text: str) -> Passes | None:
    """The passes that ``Passes.to_text`` wrote; None if the text names none."""
    names = text.split("/")
    if len(names) != 3 or any(name not in BACKENDS for name in names):
        return None
    forward, *gradients = (BACKENDS[name] for name in names)
    if not forward.forwards or not all(b.differentiates for b in gradients):
        return None
    # Parameters belong to the operands as they were.
    if forward.changes_operands and any(b.weight_gradient == "parameters" for b in gradients):
        return None
    return Passes(*names)


# ---------------------------------------------------------------- choices as text


def in_words(choice: Choice) -> str:
    """A choice such as ``"dense, input gradient turned"``; passes that are not named go with the forward pass."""
    passes, forward = choice.passes, BACKENDS[choice.passes.forward]
    gradients = (("input", passes.for_input), ("weight", passes.for_weight))
    parts = [forward.family, forward.remark, *(f"{p} gradient {by}" for p, by in gradients if by != forward.family)]
    parts += [f"without gradients {choice.alone}"] if choice.alone != passes.forward else []
    return ", ".join(part for part in parts if part)


def record(choice: Choice | None, problem: ConvolutionProblem, device: str) -> str:
    """A choice as ``read`` reads it: all backends, with the library that each runs on."""
    if choice is None:
        return AUTO
    return "/".join(_with_library(name, problem, device) for name in (*choice.passes, choice.alone))


def read(text: str, problem: ConvolutionProblem, device: str) -> Choice | None:
    """The recorded choice, or None for ``"auto"``; a ValueError if it cannot be repeated here exactly."""
    if text == AUTO:
        return None
    texts = str(text).split("/")
    names = [part.partition("[")[0] for part in texts]
    passes = passes_from_text("/".join(names[:3]))
    if passes is None or len(names) != 4 or names[3] not in BACKENDS or not BACKENDS[names[3]].forwards:
        raise ValueError(
            f"the recorded backend {shown(text)} cannot be read; expected {AUTO!r} or the backends of the forward "
            "pass, the input gradient, the weight gradient and a forward pass without gradients, such as "
            f"'dense/dense/dense/dense'. The backends are {listing(BACKENDS)}."
        )
    for name, part in zip(names, texts, strict=True):
        reason = BACKENDS[name].why_not(problem)
        if reason is not None:
            raise ValueError(
                f"the recorded backend {shown(text)} does not support this convolution: {reason}. Use a record of the "
                "same network, or choose backends again."
            )
        here = _with_library(name, problem, device)
        if part != here:
            raise ValueError(
                f"the recorded backend {shown(text)} names `{part}`, but here, on {device}, it would be `{here}`, "
                "which rounds differently. Install the library that is named in brackets, move the network to the "
                "device of the record, or choose backends again."
            )
    return Choice(passes, names[3])


def _with_library(name: str, problem: ConvolutionProblem, device: str) -> str:
    library = BACKENDS[name].library(problem, device)
    return f"{name}[{library}]" if library else name
