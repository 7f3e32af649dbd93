"""The call that replaces a network's ``forward``: recorded or compiled where that is right, plain otherwise."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Callable
from types import CodeType
from typing import Any

import torch
from torch import Tensor, nn

from steerable.nn.backends import MEMORY_FORMATS
from steerable.nn.channels import is_exported, is_transformed
from steerable.nn.memory_formats import laid_out
from steerable.nn.network_places import NetworkPlaces, untouched
from steerable.nn.processes import several_processes
from steerable.nn.replay import Replay

__all__ = ["AcceleratedCall"]

Run = Callable[..., Tensor]

SEEN_BEFORE = 2  # calls with an input of another shape that run as they are: a shape that comes once is not recorded
MOST_READY = 6  # recordings, of which each keeps the memory of its passes; training and evaluation count as two
MOST_SHAPES = 64


class AcceleratedCall:
    """Computes the same as a network's ``forward``, for any input and in any mode.

    The first shape that comes is compiled and recorded at once. Others are recorded when they have come three times,
    because recording takes much longer than a pass. Everything that a recording cannot know runs as it is: tensors that
    are followed by a compiler, an export or ``torch.func``, activation checkpointing, layers with hooks, a training
    mode without gradients, and a second call before the backward pass of the first. Parts of the network that have been
    moved or replaced are noticed, and recorded anew. Copies of the network, and networks that are loaded from a file,
    record for themselves.

    Numbers that a layer keeps as attributes, such as the momentum of a norm, are those of the moment of recording.

    Args:
        network: the network; its ``forward`` takes one tensor and returns one.
        compiles: whether inputs of the first shape go through ``torch.compile``.
        records: whether passes are recorded as CUDA graphs.
        memory_format: into which inputs of rank 4 are brought; None leaves them as they are.

    Attributes:
        shapes: those that are compiled and recorded at once; the first one that comes where none is given.
        convolutions: how they are computed, in words.
        device: the kind of device on which passes are recorded, that of the first input.
        notes: what was said about inputs that run slowly, each once.
    """

    def __init__(
        self, network: nn.Module, *, compiles: bool, records: bool, memory_format: torch.memory_format | None = None
    ) -> None:
        self.network, self.plain = network, network.forward
        self.compiles, self.records, self.memory_format = compiles, records, memory_format
        self.convolutions = ""
        self.notes: list[str] = []
        self.shapes: list[torch.Size] = []
        self.device: str | None = None
        self._forget()

    def _forget(self) -> None:
        """Forget everything that is ready, as at the beginning."""
        self._places: NetworkPlaces | None = None
        self._ready: dict[object, Run] = {}
        self._seen: Counter[object] = Counter()
        self._compiled: Run | None = None

    def __call__(self, *inputs: Any, **options: Any) -> Any:
        if len(inputs) != 1 or options or not _is_ordinary(inputs[0]):
            return self.plain(*inputs, **options)
        x = self.laid_out(inputs[0])
        if not (self.compiles or self.records):
            return self.plain(x)
        run = self.ready(x)
        if isinstance(run, Replay) and run.taken:
            self.say(
                "the accelerated network is called again before the backward pass of an earlier call, so it runs as it "
                "is, which is slower. Call `backward` first, or call the network under `torch.no_grad()`."
            )
            return self.plain(x)
        return run(x)

    def laid_out(self, x: Tensor) -> Tensor:
        """The input in the memory format of the network."""
        return x if self.memory_format is None or x.ndim != 4 else laid_out(x, self.memory_format)

    def ready(self, x: Tensor) -> Run:
        """The way to run inputs like x, under the current modes, gradients and autocast."""
        places = self._current_places()
        if places is None or (x.is_cuda and torch.cuda.is_current_stream_capturing()):
            return self.plain
        if places.hooked:
            self.say("layers of the accelerated network have hooks, so it runs as it is, which is slower.")
            return self.plain
        modes = places.modes
        key = (*_conditions(x), modes)
        if key not in self._ready:
            gradients = torch.is_grad_enabled() and (x.requires_grad or any(p.requires_grad for p in places.parameters))
            if (any(modes) and not gradients) or not self._is_due(x, key):
                return self.plain
            self._ready[key] = self._made_ready(x, places)
        return self._ready[key]

    def step_down(self, reason: str) -> None:
        """Work without the compiler from now on, or without recordings if it is switched off already."""
        self.compiles, self.records = False, self.records and self.compiles
        self._forget()
        self.say(
            f"{reason}, so the network is {'recorded without being compiled' if self.records else 'run as it is'}."
        )

    def say(self, note: str) -> None:
        """Warn of something, once."""
        if note not in self.notes:
            self.notes.append(note)
            warnings.warn(note, UserWarning, stacklevel=4)

    # ---------------------------------------------------------------- what is made ready

    def _current_places(self) -> NetworkPlaces | None:
        """The places of the network; None while other tensors replace its parameters."""
        if self._places is not None and not self._places.unchanged:
            if self._places.borrowed:
                return None
            self._forget()
        self._places = self._places or NetworkPlaces(self.network)
        return self._places

    def _is_due(self, x: Tensor, key: object) -> bool:
        """Whether an input that appears for the first time, or again, is to be made ready."""
        if not self.shapes or x.shape in self.shapes:
            return True
        if not self.records:  # a second shape would be compiled as well: a minute of waiting
            return False
        if len(self._ready) >= MOST_READY or len(self._seen) >= MOST_SHAPES:
            self.say(
                "the accelerated network has received inputs of many shapes; those that are not recorded yet run as "
                "they are, which is slower. Bring inputs to a few shapes, by padding for instance."
            )
            return False
        self._seen[key] += 1
        return self._seen[key] > SEEN_BEFORE

    def _made_ready(self, x: Tensor, places: NetworkPlaces) -> Run:
        with untouched(self.network, x.device):
            self.plain(x)  # an input that does not fit is refused by the network itself
        self.shapes, self.device = self.shapes or [x.shape], self.device or x.device.type
        records = self.records and x.device.type == self.device
        if records and any(places.modes) and _synchronises(places):
            self.say("norms that take statistics over several processes cannot be recorded, so training runs as it is.")
            records = False
        ways = [True, False] if self.compiles and x.shape in self.shapes else [False]
        for compiles in ways:
            run = self._through_compiler() if compiles else self.plain
            if not (compiles or records):
                break
            try:
                with untouched(self.network, x.device):
                    return self._recorded(run, x, places) if records else _tried(run, x)
            except Exception as error:  # whatever compilers and drivers raise
                what = "compiled" if compiles else "recorded"
                lines = str(error).strip().splitlines() or [""]
                self.say(
                    f"inputs of shape {tuple(x.shape)} cannot be {what} ({type(error).__name__}: {lines[0]}), so they "
                    f"are run {'without the compiler' if compiles else 'as they are'}."
                )
        return self.plain

    def _through_compiler(self) -> Run:
        if self._compiled is None:
            self._compiled = torch.compile(self.plain, dynamic=False)
        return self._compiled

    def _recorded(self, run: Run, x: Tensor, places: NetworkPlaces) -> Replay:
        gradients = torch.is_grad_enabled()
        # Memory that is made in inference mode could not be written to outside of it.
        with torch.inference_mode(False), torch.set_grad_enabled(gradients):
            return Replay(self.network, run, x, places)

    # ---------------------------------------------------------------- copies, and words

    @property
    def __wrapped__(self) -> Run:
        """The network's own ``forward``, for tools that inspect its arguments."""
        return self.plain

    @property
    def __code__(self) -> CodeType:
        """The name and file of ``forward``, for ``torch.export``."""
        return self.plain.__code__

    def __getstate__(self) -> dict[str, Any]:
        """The state of a copy or a file; what is ready belongs to this network on this machine."""
        kept = ("network", "plain", "compiles", "records", "device", "convolutions", "notes", "shapes")
        # Memory formats go by name: what `torch.save` writes can hold no others.
        memory_format = next((name for name, known in MEMORY_FORMATS.items() if known is self.memory_format), None)
        return {**{name: self.__dict__[name] for name in kept}, "memory_format": memory_format}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.memory_format = MEMORY_FORMATS.get(state["memory_format"])
        self.notes, self.shapes = list(self.notes), list(self.shapes)
        self._forget()

    def __repr__(self) -> str:
        formats = {torch.channels_last: "channels_last", torch.contiguous_format: "contiguous"}
        parts = [formats[self.memory_format]] if self.memory_format in formats else []
        parts += [self.convolutions] if self.convolutions else []
        recorded = sum(isinstance(run, Replay) for run in self._ready.values())
        parts += ["compiled"] if self.compiles else []
        parts += [f"recorded as CUDA graphs ({recorded} so far)"] if self.records else []
        return "\n".join([f"accelerated {type(self.network).__name__}: {', '.join(parts) or 'as it is'}", *self.notes])


def _is_ordinary(x: object) -> bool:
    """Whether an input is a tensor that is computed here and now."""
    if torch.compiler.is_compiling() or type(x) not in (Tensor, nn.Parameter):
        return False
    # Hooks on what is saved for the backward pass are those of activation checkpointing.
    hooked = torch._C._autograd._top_saved_tensors_default_hooks(True) is not None
    return not (hooked or is_exported() or is_transformed())


def _conditions(x: Tensor) -> tuple[object, ...]:
    """Everything besides the network that a recording depends on."""
    casts = torch.is_autocast_enabled(x.device.type) and torch.get_autocast_dtype(x.device.type)
    return x.shape, x.dtype, x.device, x.requires_grad, torch.is_grad_enabled(), casts


def _synchronises(places: NetworkPlaces) -> bool:
    return several_processes() and any(
        isinstance(m, nn.SyncBatchNorm) or getattr(m, "sync", False) for m in places.modules
    )


def _tried(run: Run, x: Tensor) -> Run:
    """The same function, after one run: what a compiler cannot do appears in the first call."""
    run(x)
    return run
