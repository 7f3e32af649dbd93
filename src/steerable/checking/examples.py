"""Random inputs for measuring a function, with sizes that fit its strides."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor, nn

from steerable.checking.discs import smoothed
from steerable.checking.places import as_if_unwarned
from steerable.nn.geometry import numbers_per_axis
from steerable.nn.sampling import EquivarianceWarning
from steerable.types.field_types import FieldType

__all__ = ["dtype_of", "examples"]

# Tried in this order where no size is given: odd and even, and small enough to be quick. By axes, and whether fields
# are smooth: a disc needs room for those.
_SIZES = {
    (2, False): (17, 16, 33, 32, 9, 8),
    (2, True): (33, 32, 65, 64, 17, 16),
    (3, False): (9, 8, 17, 16, 5, 4),
    (3, True): (17, 16, 33, 32),
}


def examples(
    function: Callable[[Tensor], Tensor],
    in_type: FieldType,
    *,
    size: int | tuple[int, ...] | None = None,
    batch: int = 2,
    seed: int = 0,
    smooth: bool = False,
) -> Iterator[Tensor]:
    """A random input of this size; without one, the first odd and even inputs that the function takes.

    Where it takes neither, one is of the first size; the error is then its own. Inputs have the function's dtype.
    """
    axes = in_type.group.axes or 2
    tensors = (*function.parameters(), *function.buffers()) if isinstance(function, nn.Module) else ()
    device = next((t.device for t in tensors), torch.device("cpu"))

    def draw(*shape: int) -> Tensor:
        generator = torch.Generator().manual_seed(seed)
        x = torch.randn(batch, in_type.channels, *shape, generator=generator, dtype=torch.float64)
        return (smoothed(x) if smooth and shape else x).to(device, dtype_of(function))

    if size is not None:
        yield draw(*numbers_per_axis(size, "size", axes, minimum=1))
        return
    sizes, parities = _SIZES[axes, smooth], set[int]()
    for side in sizes:
        if side % 2 not in parities and _takes(function, x := draw(*(side,) * axes)):
            parities.add(side % 2)
            yield x
    if not parities:
        yield x if _takes(function, x := draw()) else draw(*(sizes[0],) * axes)


def dtype_of(function: object) -> torch.dtype:
    """The dtype that a function's inputs should have."""
    tensors: Any = (*function.parameters(), *function.buffers()) if isinstance(function, nn.Module) else ()
    return next((t.dtype for t in tensors if t.is_floating_point()), torch.get_default_dtype())


def _takes(function: Callable[[Tensor], Tensor], x: Tensor) -> bool:
    """Whether a function takes an input, and no layer warns of its size."""
    with warnings.catch_warnings(), as_if_unwarned(function):
        warnings.simplefilter("error", EquivarianceWarning)
        try:
            function(x.clone())  # it may write into it
        except (EquivarianceWarning, ValueError, TypeError, RuntimeError, IndexError, AssertionError):
            return False
        return True
