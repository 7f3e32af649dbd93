"""What makes a run fast on its machine: a function of the card, the run's length, its processes and the user's word."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from steerable.nn.backends.known import BACKENDS
from steerable.training.choosing.speed import Machine, autocast, this_machine, with_speed
from steerable.training.requests import plan_in_words
from steerable.training.requests.config import RunConfig
from steerable.training.requests.plan_in_words import announce_speed, convolutions_in_words

H200, A100, V100, CPU = (9, 0), (8, 0), (7, 0), None
ON = {"precision": "bf16-mixed", "channels_last": True, "cuda_graphs": True, "compile": False}
DENSE, FOURIER = "dense/dense/dense/dense", "fourier[numba]/fourier[numba]/fourier[numba]/dense"
OFF = {"precision": "32-true", "channels_last": False, "cuda_graphs": False, "compile": False}


def settled(capability: tuple[int, int] | None, steps: int, **wishes: Any) -> dict[str, Any]:
    machine = Machine("cpu" if capability is None else "cuda", capability)
    found = with_speed(RunConfig("digits", {"name": "resnet"}, **wishes), machine, steps)
    # On a CPU the memory format is measured later.
    assert set(found.left_open) <= ({"backend", "channels_last"} if capability is None else {"backend"})
    return {name: getattr(found, name) for name in ON}


@pytest.mark.parametrize(
    ("capability", "steps", "wishes", "expected"),
    [
        (H200, 10_000, {}, ON),
        (A100, 10_000, {}, ON),
        (V100, 10_000, {}, OFF),
        (CPU, 10_000, {}, OFF | {"channels_last": None}),
        (CPU, 10_000, {"channels_last": False}, OFF),
        (H200, 299, {}, ON | {"cuda_graphs": False}),
        (H200, 300, {}, ON),
        (H200, 10_000, {"devices": 2}, ON | {"cuda_graphs": False}),
        (H200, 10_000, {"nodes": 2}, ON | {"cuda_graphs": False}),
        (H200, 10_000, {"eager": True}, ON | {"cuda_graphs": False}),
        (H200, 10_000, {"precision": "32-true"}, OFF | {"cuda_graphs": True}),
        (H200, 10_000, {"precision": "32-true", "eager": True}, OFF),
        (H200, 10_000, {"precision": "16-mixed"}, ON | {"precision": "16-mixed"}),
        (H200, 10_000, {"channels_last": False}, ON | {"channels_last": False}),
        (H200, 10_000, {"cuda_graphs": False}, ON | {"cuda_graphs": False}),
        (H200, 10_000, {"compile": True}, ON | {"compile": True}),
        (V100, 10, {"cuda_graphs": True, "channels_last": True}, OFF | {"cuda_graphs": True, "channels_last": True}),
        (
            CPU,
            10,
            {"precision": "bf16-mixed", "channels_last": True, "compile": True},
            OFF | {"precision": "bf16-mixed", "channels_last": True, "compile": True},
        ),
    ],
)
def test_what_is_on(
    capability: tuple[int, int] | None, steps: int, wishes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert settled(capability, steps, **wishes) == expected


@pytest.mark.parametrize("name", ["compile", "cuda_graphs"])
def test_eager_and_its_opposite_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"eager runs the network as ordinary code, and {name} is on"):
        RunConfig("digits", {"name": "resnet"}, eager=True, **{name: True})


@pytest.mark.parametrize(
    ("ways", "words"),
    [
        ([DENSE], "the one convolution dense"),
        ([DENSE] * 15, "all 15 convolutions dense"),
        (["dense/turned/turned/padded", "padded/dense/dense/dense"], "all 2 convolutions dense"),
        ([FOURIER] * 2, "all 2 convolutions by fourier"),
        ([FOURIER] * 4 + [DENSE] * 11, "4 of 15 convolutions by fourier, the rest dense"),
        (["padded/turned/fourier[triton]/dense", DENSE], "1 of 2 convolutions by fourier, the rest dense"),
        ([FOURIER, "winograd/dense/dense/dense"] * 2 + [FOURIER], "3 of 5 convolutions by fourier, 2 by winograd"),
    ],
)
def test_backends_in_words(ways: list[str], words: str) -> None:
    assert convolutions_in_words(ways) == words


def test_the_dense_backends_are_those_of_the_layers() -> None:
    assert [name for name, backend in BACKENDS.items() if backend.family == "dense"] == list(plan_in_words.DENSE)


@pytest.mark.parametrize(
    ("wishes", "ways", "line"),
    [
        (
            ON,
            [DENSE, FOURIER],
            "Speed: 1 of 2 convolutions by fourier, the rest dense; bfloat16, channels_last, CUDA graphs. "
            "To switch off: `--backend dense`, `--precision 32-true`, `--eager`.",
        ),
        (OFF, [DENSE, DENSE], "Speed: all 2 convolutions dense; float32."),
        (
            OFF | {"compile": True},
            [DENSE] * 2,
            "Speed: all 2 convolutions dense; float32, torch.compile. To switch off: `--eager`.",
        ),
        (OFF, [], "Speed: float32."),
    ],
)
def test_one_line_says_what_is_on(wishes: dict[str, Any], ways: list[str], line: str) -> None:
    assert announce_speed(vars(RunConfig("digits", {"name": "resnet"}, **wishes)), ways) == line


def test_this_machine_and_its_precision() -> None:
    machine = this_machine(RunConfig("digits", {"name": "resnet"}, accelerator="cpu"))
    assert machine == Machine("cpu", None, torch.get_num_threads())
    assert (machine.accelerator, Machine("cuda", H200).accelerator) == ("cpu", "gpu")
    for precision, dtype in (("32-true", torch.float32), ("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)):
        with autocast(torch.device("cpu"), precision):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
