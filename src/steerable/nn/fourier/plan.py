"""What a layer's Fourier form needs, made once per pair of types and kernel, shared by equal layers."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from functools import cached_property
from weakref import WeakValueDictionary

from steerable.nn.expansion import BankPlan
from steerable.nn.fourier.blocks import BlockPlan
from steerable.nn.fourier.tiles import TiledConvolution
from steerable.nn.fourier.whole import WholeConvolution
from steerable.types.field_types import FieldType

__all__ = ["FourierPlan", "fourier_plan", "plan_by_key", "plan_key"]


class FourierPlan:
    """Blocks of both directions, and what runs them: ``forward`` and ``adjoint``, the input gradient's.

    Attributes:
        key: a fingerprint of types and kernel, by which an operation finds its plan. Operations of torch take tensors,
            numbers and text only.
    """

    def __init__(self, bank: BankPlan, key: str) -> None:
        self.bank, self.key = bank, key
        self.forward = BlockPlan(bank, adjoint=False)

    @cached_property
    def adjoint(self) -> BlockPlan:
        return BlockPlan(self.bank, adjoint=True)

    @cached_property
    def tiled(self) -> TiledConvolution:
        return TiledConvolution(self.forward)

    @cached_property
    def tiled_adjoint(self) -> TiledConvolution:
        return TiledConvolution(self.adjoint)

    @cached_property
    def whole(self) -> WholeConvolution:
        return WholeConvolution(self.forward)

    @cached_property
    def whole_adjoint(self) -> WholeConvolution:
        return WholeConvolution(self.adjoint)

    def __deepcopy__(self, memo: object) -> FourierPlan:
        return self  # a constant

    def __reduce__(self) -> tuple[Callable[..., FourierPlan], tuple[FieldType, FieldType, tuple[int, int]]]:
        return fourier_plan, (self.bank.in_type, self.bank.out_type, self.forward.direction.kernel_size)


_ALIVE: WeakValueDictionary[str, FourierPlan] = WeakValueDictionary()  # a plan lives as long as a layer that uses it


def fourier_plan(in_type: FieldType, out_type: FieldType, kernel_size: tuple[int, int]) -> FourierPlan:
    """The plan of a convolution, made anew or shared with a layer that has it."""
    key = plan_key(in_type, out_type, kernel_size)
    plan = _ALIVE.get(key)
    if plan is None:
        plan = _ALIVE[key] = FourierPlan(BankPlan(in_type, out_type, kernel_size), key)
    return plan


def plan_key(in_type: FieldType, out_type: FieldType, kernel_size: tuple[int, int]) -> str:
    """The same for all convolutions between equal types with equal kernels."""
    content = hashlib.blake2b(repr(kernel_size).encode(), digest_size=16)
    for field_type in (in_type, out_type):
        content.update(b"|")
        for capsule, copies in field_type.terms:
            content.update(capsule.representation.digest + b"%d," % copies)
    return content.hexdigest()


def plan_by_key(key: str) -> FourierPlan:
    """The plan that some layer holds."""
    plan = _ALIVE.get(key)
    if plan is None:
        raise RuntimeError(
            "this operation belongs to a Fourier convolution that no longer exists. Keep the layer as long as the "
            "compiled graph that was made from it."
        )
    return plan
