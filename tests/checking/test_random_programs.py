"""What ``typecheck`` accepts is true: random programs, the verdict beside the numbers.

The long run, which prints how many programs were accepted:
``STEERABLE_PROGRAMS=10000 STEERABLE_SEED=1 pytest tests/test_random_programs.py -s``.
"""

from __future__ import annotations

import warnings
from collections import Counter

import torch
from hypothesis import given, seed
from random_programs import EXAMPLES, SEED, Program, programs, search
from torch import Tensor

import steerable as st

counts: Counter[str] = Counter()


def differs(program: Program, in_type: st.FieldType, out_type: st.FieldType, shape: tuple[int, int, int]) -> str:
    """The first element under which the program's values say otherwise, and how far; "" where there is none."""
    batch, height, width = shape
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(batch, in_type.channels, height, width, generator=generator, dtype=torch.float64) * 3
    y = program(x)
    for g in out_type.group.elements:
        moved, expected = program(moved_field(x, g, in_type)), moved_field(y, g, out_type)
        if moved.shape != expected.shape:
            return f"{g}: shapes {tuple(moved.shape)} and {tuple(expected.shape)}"
        both = moved.isfinite() & expected.isfinite()
        alike = (moved == expected) | (moved.isnan() & expected.isnan())
        scale = expected[both].abs().max() if both.any() else 0
        off = ~(alike | (both & ((moved - expected).abs() <= 1e-4 * scale if moved.dtype == torch.float32 else
                                 (moved - expected).abs() <= 1e-9 * scale)))  # fmt: skip
        if off.any():
            return f"{g}: {int(off.sum())} of {off.numel()} values"
    return ""


def moved_field(x: Tensor, g: str, field_type: st.FieldType) -> Tensor:
    if x.ndim == 3:  # (batch, channels, 1)
        return st.transform(x.squeeze(-1), g, field_type).unsqueeze(-1)
    return st.transform(x, g, field_type)


@seed(SEED)
@search(EXAMPLES)
@given(programs())
def test_what_typecheck_accepts_is_equivariant(case: tuple[Program, st.FieldType, tuple[int, int, int]]) -> None:
    program, in_type, shape = case
    with warnings.catch_warnings(), torch.no_grad():
        warnings.simplefilter("ignore")
        try:
            out_type = st.typecheck(program, in_type, size=shape[1:], batch=shape[0])
        except TypeError:
            counts["refused"] += 1
            return
        except (
            RuntimeError,
            ValueError,
            IndexError,
            AssertionError,
        ):  # not a program, such as one with shapes that do not fit
            counts["not a program"] += 1
            return
        counts["accepted"] += 1
        counts[f"accepted with {len(program.steps)} steps"] += 1
        assert isinstance(out_type, st.FieldType)
        failure = differs(program, in_type, out_type, shape)
    assert not failure, f"accepted, but not equivariant under {failure}\n{in_type!r} {shape}: {program!r}"


def test_programs_of_both_kinds_were_met() -> None:
    """A test that accepts nothing, or everything, says nothing."""
    print(dict(counts))  # noqa: T201
    assert counts["accepted"] >= EXAMPLES / 20
    assert counts["refused"] >= EXAMPLES / 10
