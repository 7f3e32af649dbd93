"""Checks of a network's options, and of the sizes of images that it halves several times."""

from __future__ import annotations

from collections.abc import Iterable

from torch import Tensor

from steerable.algebra.families import is_named
from steerable.algebra.groups import FiniteGroup
from steerable.errors import did_you_mean
from steerable.models.registry import MODELS
from steerable.nn.channels import is_traced
from steerable.types.network_plans import DEEPEST

__all__ = [
    "check_counts",
    "check_depth",
    "check_extent",
    "check_known",
    "check_size",
    "check_text",
    "check_whole_numbers",
]


def check_whole_numbers(network: str, **options: object) -> None:
    """Raise TypeError for the first option that is not a whole number; from a command line it may be text."""
    for name, value in options.items():
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{network}: `{name}` must be a whole number, got {value!r}.")


def check_counts(network: str, **options: int) -> None:
    """Raise TypeError for the first option that is not a whole number, and ValueError for one below 1."""
    check_whole_numbers(network, **options)
    if min(options.values()) < 1:
        *first, last = (f"`{name}`" for name in options)
        found = ", ".join(map(str, options.values()))
        raise ValueError(f"{network}: {', '.join(first)} and {last} must be at least 1; got {found}.")


def check_extent(what: str, depth: int, width: int, widest: int) -> None:
    """Raise ValueError for a network that is too deep or too wide for any machine."""
    if depth > DEEPEST or width > widest:
        raise ValueError(
            f"no machine holds a {what} with a depth of {depth:,} and a width of {width:,}; up to {DEEPEST:,} and "
            f"{widest:,} are built."
        )


def check_known(network: str, options: Iterable[str], kind: type, model: str) -> None:
    """Raise TypeError for the first option that the typed dictionary ``kind`` does not have; ``model`` is its name."""
    for name in options:
        if name not in kind.__annotations__:
            raise TypeError(f"{network} has no option `{name}`. {did_you_mean(name, MODELS[model].all_options)}")


def check_text(network: str, name: str, value: object) -> None:
    """Raise TypeError unless an option is text: a saved network's config is text and numbers."""
    if isinstance(value, str):
        return
    if isinstance(value, FiniteGroup) and not is_named(value):
        raise TypeError(
            f"{network}: {name} is the name of a group, C1, C2, C3 …, D1, D2, D3 …, since a saved network's config is "
            f"text; got the group {value.name}, which is not one of them. Choose one of them, or build the network "
            "from the layers of steerable.nn, which take any group that moves the pixel grid onto itself."
        )
    raise TypeError(
        f"{network}: {name} is given as text, {getattr(value, 'name', str(value))!r} for instance; got {value!r}."
    )


def check_depth(network: str, depth: int) -> None:
    """Raise ValueError unless the number of halvings is a whole number from 1 to 10."""
    if isinstance(depth, bool) or not isinstance(depth, int) or depth < 1:
        raise ValueError(f"{network}: depth says how often the image is halved, a whole number ≥ 1; got {depth!r}.")
    if depth > 10:  # each level has twice the channels of the one above: no memory holds such a network
        raise ValueError(
            f"{network}: depth says how often the image is halved, at most 10 times; got {depth}, for images whose "
            f"sides are multiples of {2**depth:,}. Use a smaller depth."
        )


def check_size(network: str, x: Tensor, depth: int, channels: int, axes: int = 2) -> None:
    """Raise ValueError with a remedy unless x is (batch, channels, height, width) and 2^depth divides its sizes.

    With three axes it is (batch, channels, depth, height, width).
    """
    if is_traced(x):
        return
    sides = ("depth", "height", "width")[-axes:]
    if x.ndim != 2 + axes or x.shape[1] != channels:
        raise ValueError(
            f"{network} expected a tensor of shape (batch, {channels}, {', '.join(sides)}), got {tuple(x.shape)}."
            + (" Add a batch dimension with x.unsqueeze(0)." if x.ndim == 1 + axes else "")
        )
    multiple, kind = 2**depth, "image" if axes == 2 else "volume"
    all_sides = " and ".join(filter(None, (", ".join(sides[:-1]), sides[-1])))
    for name, n in zip(sides, x.shape[2:], strict=True):
        if n % multiple or n == 0:
            raise ValueError(
                f"{network} with depth={depth} halves the {kind} {depth} times, so {all_sides} must be multiples of "
                f"{multiple}; got {name} {n}. {_remedy(n, multiple)}"
            )


def _remedy(n: int, multiple: int) -> str:
    """The remedy for a size; padding is even, because otherwise the centre moves and rotations are not exact."""
    above = max(1, -(-n // multiple)) * multiple
    below = above - multiple
    resized = f"Resize it to {f'{below} or ' if below else ''}{above}"
    missing = above - n
    if missing % 2:
        return f"{resized}; an odd size cannot be padded evenly on both sides. Or use a smaller depth."
    return (
        f"Pad it by {missing // 2} on each side, with torch.nn.functional.pad, and crop the output; or "
        f"{resized[0].lower()}{resized[1:]}; or use a smaller depth."
    )
