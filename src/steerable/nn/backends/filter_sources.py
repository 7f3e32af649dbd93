"""The sources of parameters and expanded filters for a backend: a layer, or a copy of its filters for timing."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from torch import Tensor

__all__ = ["FilterSource", "FiltersApart"]

Made = TypeVar("Made")


class FilterSource(Protocol):
    """The part of a layer that a backend uses; ``FilterBankModule`` is one."""

    @property
    def weight(self) -> Tensor:
        """The parameters of the filters, (parameters,)."""

    @property
    def bias(self) -> Tensor | None:
        """The parameters of the bias, or None if there is none."""

    def filters(self) -> tuple[Tensor, Tensor | None]:
        """The expanded bank (out, in / groups, *kernel) and the expanded bias (out,)."""

    def expand_from(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        """The filters and the bias as functions of any parameters."""

    def expand_bias(self, bias: Tensor | None) -> Tensor | None:
        """The expanded bias only."""

    def keeps_filters(self) -> bool:
        """Whether what is made from the parameters may be kept from one pass to the next."""

    def kept(self, name: object, make: Callable[[], Made]) -> Made | None:
        """The result of ``make()`` for the current parameters, or None if nothing may be kept."""


class FiltersApart:
    """The filters of a layer, whose parameters are leaves of their own: nothing done with them is seen outside."""

    def __init__(self, source: FilterSource) -> None:
        self._source = source
        self.weight = source.weight.detach().requires_grad_(source.weight.requires_grad)
        given = source.bias
        self.bias = None if given is None else given.detach().requires_grad_(given.requires_grad)
        self._made: dict[object, Any] = {}

    def filters(self) -> tuple[Tensor, Tensor | None]:
        make = partial(self.expand_from, self.weight, self.bias)
        known = self.kept("filters", make)
        return make() if known is None else known

    def expand_from(self, weight: Tensor, bias: Tensor | None) -> tuple[Tensor, Tensor | None]:
        return self._source.expand_from(weight, bias)

    def expand_bias(self, bias: Tensor | None) -> Tensor | None:
        return self._source.expand_bias(bias)

    def keeps_filters(self) -> bool:
        return self._source.keeps_filters()

    def kept(self, name: object, make: Callable[[], Made]) -> Made | None:
        if not self.keeps_filters():
            return None
        if name not in self._made:
            self._made[name] = make()
        made: Made = self._made[name]
        return made
