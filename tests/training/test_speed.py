"""What makes a run fast on its machine: a function of the card, the run's length, its processes and the user's word."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from steerable.training.config import RunConfig
from steerable.training.speed import Machine, announce_speed, autocast, this_machine, with_speed

H200, A100, V100, CPU = (9, 0), (8, 0), (7, 0), None
ON = {"precision": "bf16-mixed", "channels_last": True, "cuda_graphs": True, "compile": False}
OFF = {"precision": "32-true", "channels_last": False, "cuda_graphs": False, "compile": False}


def settled(capability: tuple[int, int] | None, steps: int, **wishes: Any) -> dict[str, Any]:
    machine = Machine("cpu" if capability is None else "cuda", capability)
    found = with_speed(RunConfig("digits", {"name": "resnet"}, **wishes), machine, steps)
    assert found.left_open in ([], ["backend"])
    return {name: getattr(found, name) for name in ON}


@pytest.mark.parametrize(
    ("capability", "steps", "wishes", "expected"),
    [
        (H200, 10_000, {}, ON),
        (A100, 10_000, {}, ON),
        (V100, 10_000, {}, OFF),
        (CPU, 10_000, {}, OFF),
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
        (CPU, 10, {"precision": "bf16-mixed", "compile": True}, OFF | {"precision": "bf16-mixed", "compile": True}),
    ],
)
def test_what_is_on(
    capability: tuple[int, int] | None, steps: int, wishes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert settled(capability, steps, **wishes) == expected


@pytest.mark.parametrize("name", ["compile", "cuda_graphs"])
def test_eager_and_its_opposite_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=f"eager means that the network is run as it is, and {name} is on"):
        RunConfig("digits", {"name": "resnet"}, eager=True, **{name: True})


def test_one_line_says_what_is_on() -> None:
    fast = RunConfig("digits", {"name": "resnet"}, **ON)
    ways = ["dense/dense/dense/dense", "fourier[numba]/dense/dense/dense"]
    assert announce_speed(fast, ways) == (
        "1 of 2 convolutions run through the group's Fourier transform, the others densely; bfloat16, channels_last, "
        "CUDA graphs are on. `--precision 32-true` and `--eager` switch that off."
    )
    slow = RunConfig("digits", {"name": "resnet"}, **OFF)
    assert announce_speed(slow, ways[:1]) == "All 1 convolutions run densely."
    assert announce_speed(slow, ways[1:]) == "All 1 convolutions run through the group's Fourier transform."
    assert announce_speed(slow, []) == "Float32, eager."


def test_this_machine_and_its_precision() -> None:
    machine = this_machine(RunConfig("digits", {"name": "resnet"}, accelerator="cpu"))
    assert machine == Machine("cpu", None, torch.get_num_threads())
    assert (machine.accelerator, Machine("cuda", H200).accelerator) == ("cpu", "gpu")
    for precision, dtype in (("32-true", torch.float32), ("bf16-mixed", torch.bfloat16), ("16-mixed", torch.float16)):
        with autocast(torch.device("cpu"), precision):
            assert (torch.ones(2, 2) @ torch.ones(2, 2)).dtype == dtype
