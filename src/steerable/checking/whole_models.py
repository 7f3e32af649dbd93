"""A model measured as a whole, whatever it does where no operation is seen."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from steerable.checking.calls import Refused, tensors_in
from steerable.checking.commutation import element_that_fails, redrawn_parameters
from steerable.checking.places import Run
from steerable.nn.dropout import Dropout
from steerable.types.field_types import FieldType

__all__ = ["confirm_as_a_whole"]

_DROPOUT = (Dropout, nn.modules.dropout._DropoutNd)

# What a model may raise on an input, or in a mode, that it does not take.
_NOT_TAKEN = (RuntimeError, ValueError, AssertionError, NotImplementedError)


def confirm_as_a_whole(model: Callable[[Any], Any], x: Tensor, in_type: FieldType, types: Any, run: Run) -> None:
    """Refuse a model whose values contradict its types, in evaluation or in training.

    Args:
        model: in evaluation mode.
        x: an input that it takes; its values do not count.
        in_type: the type of x.
        types: the type of what comes out, or a structure of such types.
        run: how its modules are called.
    """
    results = list(_field_types(types))
    if not results:
        return
    model, x = _in_double(model, x)
    trial = _Trial(model, x, in_type, results)
    with redrawn_parameters(model):
        element, mode = trial.element_that_fails(), ""
        if element is None and isinstance(model, nn.Module):
            run.in_training = True
            _train(model)
            element, mode = trial.element_that_fails_in_training(), "in training, "
    if element is not None:
        raise Refused(
            f"{mode}on random input it depends on whether `{element}` of {results[0].group.name} acts before or after "
            "the model, although no single operation was seen to break equivariance. Something works on values that "
            "are not fields, or a layer was changed after it was made."
        )


class _Trial:
    def __init__(
        self, model: Callable[[Any], Any], x: Tensor, in_type: FieldType, results: Sequence[FieldType]
    ) -> None:
        self._model, self._x, self._in_type, self._results = model, x, in_type, results

    def _outputs(self, field: Tensor) -> list[Tensor]:
        with torch.enable_grad():  # as in training
            return [tensor.detach() for tensor in tensors_in(self._model(field))]

    def element_that_fails(self) -> str | None:
        types = {id(self._x): self._in_type}
        return element_that_fails(self._outputs, (self._x,), {}, types, self._results, slack=10, network=self._model)

    def element_that_fails_in_training(self) -> str | None:
        """As in evaluation; None as well for a model that returns something else then, or that is random."""
        try:
            with torch.random.fork_rng(devices=[]):
                x = torch.randn(self._x.shape).to(self._x)
                before, after = (self._seeded(x, seed) for seed in (1, 2))
        except _NOT_TAKEN:
            return None
        steady = all(a.shape == b.shape and torch.equal(a, b) for a, b in zip(before, after, strict=True))
        return self.element_that_fails() if steady and len(before) == len(self._results) else None

    def _seeded(self, x: Tensor, seed: int) -> list[Tensor]:
        torch.default_generator.manual_seed(seed)
        return self._outputs(x.clone())


def _in_double(model: Callable[[Any], Any], x: Tensor) -> tuple[Callable[[Any], Any], Tensor]:
    """A copy of the model in float64, which tells a small fault from rounding; the model itself where that fails."""
    if not isinstance(model, nn.Module) or x.dtype == torch.float64:
        return model, x
    try:
        twin = copy.deepcopy(model).double()
        for _ in tensors_in(twin(x.double())):
            return twin, x.double()
    except Exception:  # a model that cannot be copied, or that works in one precision only
        pass
    return model, x


def _train(model: nn.Module) -> None:
    model.train()
    for module in model.modules():
        if isinstance(module, _DROPOUT):
            module.eval()


def _field_types(types: Any) -> Iterator[FieldType]:
    if isinstance(types, FieldType):
        yield types
    elif isinstance(types, tuple | list | dict):
        for part in types.values() if isinstance(types, dict) else types:
            yield from _field_types(part)
