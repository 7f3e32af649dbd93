"""The measurement of a model as a whole, which also sees what happens outside known operations."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from steerable.algebra.embeddings import embedding
from steerable.checking.calls import Refused, replaced, tensors_in
from steerable.checking.commutation import Alike, element_that_fails, grid_generators, in_double, redrawn_parameters
from steerable.checking.other_angles import move_field
from steerable.checking.places import Run
from steerable.types.field_types import FieldType

__all__ = ["confirm_as_a_whole"]

# What a model may raise on an input, or in a mode, that it does not take.
_NOT_TAKEN = (RuntimeError, ValueError, AssertionError)


def confirm_as_a_whole(model: Callable[[Any], Any], x: Tensor, in_type: FieldType, types: Any, run: Run) -> None:
    """Refuse a model whose values contradict its types, in evaluation or in training.

    Args:
        model: in evaluation mode.
        x: an input that it takes; its values do not count.
        in_type: the type of x.
        types: the type of what comes out, or a structure of such types.
        run: how its modules are called.
    """
    results: list[FieldType] = []
    replaced(types, lambda found: results.append(found) if isinstance(found, FieldType) else None)
    if not results:
        return
    model, x = in_double(model, x)
    trial = _Trial(model, x, in_type, results)
    with redrawn_parameters(model):
        element, mode = trial.element_that_fails(), ""
        if element is None and trial.mixes_samples():
            raise Refused(
                "the output for one input depends on how another input of the batch is turned, although each is turned "
                "by itself in use. Work on every input of a batch separately; typecheck(..., batch=1) looks at one "
                "alone."
            )
        if element is None and isinstance(model, nn.Module):
            run.in_training = True
            model.train()
            element, mode = trial.element_that_fails_in_training(), "in training, "
            run.in_training = False
            model.eval()
            if element is None:  # in training it may have learnt running means
                element, mode = trial.element_that_fails(), "after a step of training, "
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
        self._chance: Callable[[], AbstractContextManager[object]] = nullcontext
        self._precision = _NothingNarrow if x.dtype == torch.float64 else nullcontext

    def _outputs(self, field: Tensor) -> list[Tensor]:
        with torch.enable_grad(), self._chance(), self._precision():  # as in training
            return [tensor.detach() for tensor in tensors_in(self._model(field))]

    def element_that_fails(self) -> str | None:
        types = {id(self._x): self._in_type}
        return element_that_fails(self._outputs, (self._x,), {}, types, self._results, slack=10, network=self._model)

    def mixes_samples(self) -> bool:
        """Whether the model and a move of the first sample alone do not commute."""
        if len(self._x) < 2:
            return False
        with torch.random.fork_rng(devices=[]), torch.no_grad():
            x = _drawn_like(self._x)
            before = self._outputs(x.clone())
            alike = Alike(lambda fields: self._outputs(fields[0].clone()), {0: x}, before, 10.0, deep=True)
            for g in grid_generators(self._results[0].group):
                parent = embedding(self._results[0].group, self._in_type.group)(g)
                first = move_field(x[:1], parent, self._in_type)
                if first.shape != x[:1].shape:
                    continue
                after = self._outputs(torch.cat([first, x[1:]]))
                for number, (one, other, result) in enumerate(zip(before, after, self._results, strict=True)):
                    if len(one) == len(x) and not alike(
                        number, other, torch.cat([move_field(one[:1], g, result), one[1:]])
                    ):
                        return True
        return False

    def element_that_fails_in_training(self) -> str | None:
        """The same in training; None also for a model that is random then or returns something else."""
        self._chance = _OneDraw
        try:
            element = self.element_that_fails()
            return None if element is None or self._varies() else element
        except _NOT_TAKEN:
            return None
        finally:
            self._chance = nullcontext

    def _varies(self) -> bool:
        """Whether the model gives different results on the same input."""
        runs = []
        with torch.random.fork_rng(devices=[]):
            x = _drawn_like(self._x)
            for seed in range(6):
                torch.default_generator.manual_seed(seed)
                runs.append(self._outputs(x.clone()))
        return any(not torch.equal(a, b) for run in runs[1:] for a, b in zip(runs[0], run, strict=True))


class _OneDraw(TorchDispatchMode):
    """A context in which each random tensor has one value everywhere, and the same in every run.

    Noise, dropout and random factors do not move with an image. With one value they leave a model as equivariant as it
    is without them. Whole numbers, which choose among samples or places, stay random.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        value = func(*args, **(kwargs or {}))
        if torch.Tag.nondeterministic_seeded in func.tags:
            for tensor in tensors_in(value):
                if tensor.dtype != torch.int64:
                    chooses = bool(((tensor == 0) | (tensor == 1)).all())  # what to drop, say; then nothing is dropped
                    tensor.fill_(1 if chooses else 0.5)
        return value


class _NothingNarrow(TorchDispatchMode):
    """A context in which every narrower dtype is replaced by float64, so that a model computes in float64 throughout.

    Softmaxes and norms are often computed ``x.float()``, whose rounding would pass for a small fault.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        dtype = kwargs.get("dtype")
        if dtype is not None and dtype.is_floating_point:
            kwargs["dtype"] = torch.float64
        return func(*args, **kwargs)


def _drawn_like(x: Tensor) -> Tensor:
    return torch.randn(x.shape, device="cpu").to(x)
