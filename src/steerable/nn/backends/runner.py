"""The computation of a layer's convolution, by the backend that it was given or by the fastest one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import Tensor, nn

from steerable.nn.backends.combined import carry_out
from steerable.nn.backends.filter_sources import FilterSource
from steerable.nn.backends.known import (
    AUTO,
    BACKENDS,
    checked_name,
    forward_only,
    in_words,
    passes_from_text,
    read,
    record,
)
from steerable.nn.backends.measuring import fastest_backend, fastest_passes
from steerable.nn.backends.passes import DENSE, Choice, Passes
from steerable.nn.backends.precision import tf32_allowed
from steerable.nn.backends.problem import ConvolutionProblem
from steerable.nn.backends.store import choice_store, store_key
from steerable.nn.channels import is_exported, is_traced, is_transformed

__all__ = ["ConvolutionRunner"]


class ConvolutionRunner:
    """A convolution problem, and the choice of the backend that computes it.

    All backends compute the same function of the same parameters. ``"auto"`` measures them once per shape of the input
    and takes the fastest. Where nothing can or may be measured it takes the dense one: under torch.compile and
    torch.func, in exported graphs, and wherever a backend says that it gains nothing. Under
    ``torch.use_deterministic_algorithms`` it follows fixed rules. A backend that is named is final; where it does
    not support the problem, the dense one is taken.

    Args:
        problem: what is to be computed.
        backend: ``"auto"`` or the name of a backend.

    Attributes:
        choice: what is settled; None if it is not.
    """

    def __init__(self, problem: ConvolutionProblem, backend: str) -> None:
        self.problem, self.backend = problem, checked_name(backend)
        self.choice: Choice | None = None
        self._supporting = tuple(n for n, b in BACKENDS.items() if b.why_not(problem) is None)
        others = {name: BACKENDS[name] for name in self._supporting if name != DENSE.forward}
        self._whole = tuple(n for n, b in others.items() if b.is_whole and b.can_ever_gain(problem))
        self._always_dense = not self._whole  # which spares a small layer all questions
        self._prepared: dict[str, object] = {}
        self._remembered: dict[tuple[object, ...], str] = {}
        if backend != AUTO:
            name = backend if backend in self._supporting else DENSE.forward
            self._settle(Choice(Passes.all_by(name), name))

    def __call__(self, x: Tensor, filters: FilterSource) -> Tensor:
        """(batch, in, *grid) → (batch, out, *grid'), differentiable."""
        return carry_out(self.problem, self.passes_for(x, filters), x, filters)

    def __str__(self) -> str:
        return AUTO if self.choice is None else in_words(self.choice)

    def __getstate__(self) -> dict[str, object]:
        return {**self.__dict__, "_remembered": {}}

    # ---------------------------------------------------------------- the answer can be given

    def use(self, choice: Choice) -> None:
        """Compute each pass by this choice from now on."""
        self.backend = BACKENDS[choice.passes.forward].family
        self._settle(choice)

    def record(self, device: str) -> str:
        """The choice as text that ``read`` reads."""
        return record(self.choice, self.problem, device)

    def read(self, text: str, device: str) -> Choice | None:
        """Follow a recorded choice, or None for ``"auto"``; a ValueError if it cannot be repeated here exactly."""
        return read(text, self.problem, device)

    def _settle(self, choice: Choice) -> None:
        self.choice = choice
        self._always_dense = choice == Choice(DENSE, DENSE.forward)
        for name in (*choice.passes, choice.alone):
            self._prepare(name)

    def _prepare(self, name: str) -> None:
        """Make whatever the backend will need, now, because a compiler could not follow that."""
        if name not in self._prepared:
            self._prepared[name] = BACKENDS[name].prepare(self.problem)

    # ---------------------------------------------------------------- or is found

    def passes_for(self, x: Tensor, filters: FilterSource) -> Passes:
        """The passes by which this input is computed."""
        if self._always_dense or is_traced(x) or x.device.type == "meta":
            return DENSE
        if self.choice is None:
            name = DENSE.forward if torch.compiler.is_compiling() else self.faster(x, filters)
            return DENSE if name == DENSE.forward else Passes.all_by(name)
        passes = self.choice.passes if torch.is_grad_enabled() else forward_only(self.choice.alone)
        return passes if passes == DENSE or self._fits(x, filters.weight) else DENSE

    def faster(self, x: Tensor, filters: FilterSource) -> str:
        """The fastest backend for inputs like x, if that can be found out."""
        names = self._worth_measuring(x, ahead=False)
        if not names:
            return DENSE.forward
        weight = filters.weight
        if not self._computes(x, weight):
            return DENSE.forward
        if torch.are_deterministic_algorithms_enabled():
            found = next((n for n in names if BACKENDS[n].by_rule(self.problem, x)), DENSE.forward)
        else:
            measure = partial(fastest_backend, self.problem, x, filters, names)
            found = self._measured(x, weight, names, "step", measure)
        self._prepare(found)
        return found

    def fastest(self, x: Tensor, filters: FilterSource, *, cuda_graphs: bool) -> Choice:
        """The fastest choice for inputs like x in a network that will be compiled, or will run as CUDA graphs."""
        passes = self.fastest_passes(x, filters, cuda_graphs=cuda_graphs)
        if x.is_cuda:  # where the forward pass was compared by itself
            return Choice(passes, passes.forward)
        with torch.no_grad():
            return Choice(passes, self.fastest_passes(x, filters, cuda_graphs=cuda_graphs).forward)

    def fastest_passes(self, x: Tensor, filters: FilterSource, *, cuda_graphs: bool) -> Passes:
        """The same for the passes of a step, or of a forward pass where no gradients are recorded."""
        if not x.is_cuda:
            return Passes.all_by(self.faster(x, filters))
        names = self._worth_measuring(x, ahead=True)
        if not names or not self._computes(x, filters.weight) or torch.are_deterministic_algorithms_enabled():
            return DENSE
        question = "passes"
        if any(BACKENDS[name].started_by_python for name in names):
            question += ", replayed" if cuda_graphs else ", started"
        measure = partial(fastest_passes, self.problem, x, filters, names, cuda_graphs=cuda_graphs)
        found = self._measured(x, filters.weight, names, question, lambda: measure().to_text())
        return passes_from_text(found) or DENSE

    def _worth_measuring(self, x: Tensor, *, ahead: bool) -> list[str]:
        """The backends that may gain; only whole ones if passes are not compared one by one."""
        names = self._supporting if ahead else self._whole
        return [name for name in names if BACKENDS[name].may_gain(self.problem, x, ahead=ahead)]

    def _measured(
        self, x: Tensor, weight: Tensor, names: Sequence[str], question: str, measure: Callable[[], str]
    ) -> str:
        """The answer for inputs like x: found earlier, in this process or another, or measured now."""
        key = (*_conditions(x, weight), self.problem.window, question, *names)
        if key not in self._remembered:
            store, name = choice_store(), store_key(x.device, (self.problem.key, *key))
            found = store.get(name)
            if found is None:
                if x.is_cuda and torch.cuda.is_current_stream_capturing():  # nothing may be waited for
                    return DENSE.forward
                try:
                    for backend in names:
                        self._prepare(backend)
                    found = measure()
                    store.put(name, found)
                except torch.cuda.OutOfMemoryError:  # a spectrum is taps times the input; another process may have room
                    found = DENSE.forward
            self._remembered[key] = found
        return self._remembered[key]

    def _fits(self, x: Tensor, weight: Tensor) -> bool:
        """Whether dtypes, devices and sizes fit; if not, torch's own convolution says what is wrong."""
        if is_exported() or is_transformed():
            return False
        same = x.dtype == weight.dtype or (
            torch.is_autocast_enabled(x.device.type) and torch.float64 not in (x.dtype, weight.dtype)
        )
        sizes = (*x.shape[2:], *self.problem.output_size(x))
        return same and x.is_floating_point() and x.device == weight.device and min(sizes) > 0

    def _computes(self, x: Tensor, weight: Tensor) -> bool:
        """Tensors of other types, fake ones for instance, may not compute at all."""
        return type(weight) is nn.Parameter and type(x) in (Tensor, nn.Parameter) and self._fits(x, weight)


def _conditions(x: Tensor, weight: Tensor) -> tuple[object, ...]:
    """Everything else that the speed depends on."""
    device, recorded = x.device.type, torch.is_grad_enabled()
    return (
        tuple(x.shape),
        x.dtype,
        x.is_contiguous(),
        torch.get_num_threads(),
        torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
        recorded and x.requires_grad,
        recorded and weight.requires_grad,
        x.is_cuda and torch.backends.cudnn.benchmark,
        tf32_allowed(x.device),
    )
