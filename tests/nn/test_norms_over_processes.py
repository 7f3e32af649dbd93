"""Batch norm over two processes of which one has little or nothing is batch norm of what they have together."""

from __future__ import annotations

import itertools
import warnings
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
# The second has capsules with two invariant directions, for which means are projected in another way.
TYPES = {
    "mixed": FieldType(D4, "2*regular + 2*E + A2 + 2*qm + A1"),
    "two": FieldType(D4, "2*two + E", capsules=[st.Capsule(D4.regular + D4.trivial, "two")]),
}
# (images of the first process, of the second), size, in each step. A pooled field of size () is one value per channel.
STEPS = {
    "the first is empty": [((0, 5), (4, 4))],
    "the second is empty": [((3, 0), (4, 4))],
    "in turn": [((0, 2), (4, 4)), ((3, 0), (4, 4)), ((2, 1), (4, 4))],
    "one vector each": [((1, 1), ())],
    "one and none, then both": [((1, 0), ()), ((1, 2), ())],
    "nobody has any, then both": [((0, 0), (4, 4)), ((2, 3), (4, 4))],
    "nobody has any": [((0, 0), ())],
    "both have some": [((3, 5), (4, 4))],
}
CASES = list(itertools.product(TYPES, STEPS, (0.1, None), (True, False), (torch.float64, torch.float32)))
FAR = {"both have some": 1000.0}
"""How far from zero the mean is, where E[x²] - E[x]² would lose all digits of float32."""


def batches(channels: int, name: str, dtype: torch.dtype) -> list[tuple[Tensor, Tensor, int]]:
    """(whole batch, cotangent, how many images are the first process's) of each step."""
    generator = torch.Generator().manual_seed(0)
    made = []
    for (first, second), size in STEPS[name]:
        x, cotangent = (torch.randn(first + second, channels, *size, generator=generator) for _ in range(2))
        made.append(((3 * x + FAR.get(name, 2.0)).to(dtype), cotangent.to(dtype), first))
    return made


def layer_for(case: tuple[Any, ...]) -> snn.BatchNorm2d:
    kind, _, momentum, affine, dtype = case
    torch.manual_seed(0)
    layer = snn.BatchNorm2d(TYPES[kind], momentum=momentum, affine=affine, sync=True).to(dtype)
    for parameter in layer.parameters():
        torch.nn.init.normal_(parameter)
    return layer


def stepped(layer: snn.BatchNorm2d, x: Tensor, cotangent: Tensor) -> tuple[Any, ...]:
    layer.zero_grad()
    leaf = x.clone().requires_grad_()
    y = layer(leaf)
    (y * cotangent).sum().backward()
    state = {name: value.clone() for name, value in layer.state_dict().items()}
    return y.detach(), leaf.grad, [p.grad.clone() for p in layer.parameters()], state


def worker(rank: int, folder: str) -> None:
    warnings.simplefilter("error")
    torch.set_num_threads(1)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/store", rank=rank, world_size=2, timeout=timedelta(seconds=60)
    )
    results = []
    for case in CASES:
        layer, outcome = layer_for(case), []
        for x, cotangent, first in batches(layer.in_type.channels, case[1], case[-1]):
            share = slice(0, first) if rank == 0 else slice(first, None)
            outcome.append(stepped(layer, x[share], cotangent[share]))
        results.append(outcome)
    torch.save(results, f"{folder}/result{rank}.pt")
    dist.destroy_process_group()


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    folder = tmp_path_factory.mktemp("processes")
    mp.spawn(worker, args=(str(folder),), nprocs=2)  # type: ignore[no-untyped-call]
    return [torch.load(Path(folder) / f"result{rank}.pt") for rank in range(2)]


@pytest.mark.parametrize("number", range(len(CASES)), ids=[" ".join(map(str, case)) for case in CASES])
def test_two_processes_are_one_with_the_whole_batch(results: list[list[Any]], number: int):
    case = CASES[number]
    dtype = case[-1]
    tolerance = (1e-9, 2e-2) if case[1] in FAR else (1e-10, 1e-4)
    close = dict.fromkeys(("rtol", "atol"), tolerance[dtype == torch.float32])
    alone = layer_for(case)
    for step, (x, cotangent, _) in enumerate(batches(alone.in_type.channels, case[1], dtype)):
        first, second = (result[number][step] for result in results)
        before = {name: value.clone() for name, value in alone.state_dict().items()}
        values_per_channel = x[:, 0].numel()
        # One process would refuse a single value per channel in training; several normalise it and track nothing.
        enough = values_per_channel > 1
        expected = stepped(alone if enough else in_evaluation(alone), x, cotangent)
        torch.testing.assert_close(torch.cat([first[0], second[0]]), expected[0], **close)
        torch.testing.assert_close(torch.cat([first[1], second[1]]), expected[1], **close)
        for a, b, whole in zip(first[2], second[2], expected[2], strict=True):
            torch.testing.assert_close(a + b, whole, **close)
        for state in (first[3], second[3]):
            for name, value in alone.state_dict().items():
                torch.testing.assert_close(state[name], value, **close)
                assert enough or torch.equal(value, before[name])


def in_evaluation(layer: snn.BatchNorm2d) -> snn.BatchNorm2d:
    """The same function of the batch's own statistics, which takes a single value as well."""
    twin = snn.BatchNorm2d(layer.in_type, affine=layer.affine, track_running_stats=False).to(layer.reference.dtype)
    twin.load_state_dict({name: value for name, value in layer.state_dict().items() if name in twin.state_dict()})
    return twin.eval()
