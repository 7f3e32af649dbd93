"""The speed settings of a planned run, in words: for the lines that a run begins with, and for reports."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

__all__ = ["announce_speed", "convolutions_in_words", "precision_in_words", "switched_on"]

DENSE = ("dense", "padded", "turned")
"""The backends that run torch's convolution with the expanded filters."""
PRECISIONS = {"32-true": "float32", "bf16-mixed": "bfloat16", "16-mixed": "float16"}
SWITCHES = {"channels_last": "channels_last", "cuda_graphs": "CUDA graphs", "compile": "torch.compile"}


def announce_speed(settings: Mapping[str, Any], backends: Iterable[str]) -> str:
    """One line about what makes a planned run fast, and how to switch it off.

    Args:
        settings: those of the plan.
        backends: how each convolution is computed, as ``snn.recorded_backends`` writes it.
    """
    ways = list(backends)
    convolutions = f"{convolutions_in_words(ways)}; " if ways else ""
    off = {
        "`--backend dense`": any(map(_family, ways)),
        "`--precision 32-true`": settings["precision"] != "32-true",
        "`--eager`": settings["cuda_graphs"] or settings["compile"],
    }
    switches = [option for option, is_on in off.items() if is_on]
    off_by = f" To switch off: {', '.join(switches)}." if switches else ""
    numbers = [precision_in_words(settings["precision"]), *switched_on(settings)]
    return f"Speed: {convolutions}{', '.join(numbers)}.{off_by}"


def convolutions_in_words(backends: Iterable[str]) -> str:
    """How many convolutions each backend computes; a convolution counts if any of its passes is not dense.

    >>> convolutions_in_words(["fourier[numba]/dense/dense/dense", "dense/turned/dense/dense"])
    '1 of 2 convolutions by fourier, the rest dense'
    """
    counts = Counter(map(_family, backends))
    total, dense = counts.total(), counts.pop("", 0)
    everything = "the one convolution" if total == 1 else f"all {total} convolutions"
    if not counts:
        return f"{everything} dense"
    (first, number), *others = counts.most_common()
    if number == total:
        return f"{everything} by {first}"
    rest = [*(f"{n} by {name}" for name, n in others), *(["the rest dense"] if dense else [])]
    return ", ".join([f"{number} of {total} convolutions by {first}", *rest])


def precision_in_words(precision: str) -> str:
    """The numbers that a network computes with.

    >>> precision_in_words("bf16-mixed")
    'bfloat16'
    """
    return PRECISIONS.get(precision, precision)


def switched_on(settings: Mapping[str, Any]) -> list[str]:
    """The other settings that make a run fast, if they are on."""
    return [words for name, words in SWITCHES.items() if settings.get(name)]


def _family(way: str) -> str:
    """The backends of a convolution's passes that are not dense; "" if all are dense."""
    names = dict.fromkeys(part.partition("[")[0] for part in way.split("/"))
    return " and ".join(name for name in names if name not in DENSE)
