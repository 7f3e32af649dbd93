"""The base of all layers: types at both ends, checked inputs, and constants that keep full precision."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from steerable.algebra.group_interface import Group
from steerable.nn.channels import hides_shapes
from steerable.nn.constants import restore_constants
from steerable.nn.input_errors import into_floats, no_tensor, other_axes, wrong_channels, wrong_rank
from steerable.nn.plain import WithPlainCounterpart
from steerable.nn.written_types import reads_types
from steerable.types.field_types import FieldType
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["EquivariantModule"]


class EquivariantModule(WithPlainCounterpart):
    """A layer f with f(π_in(g) x) = π_out(g) f(x) for all g.

    Tensors are plain, of shape (batch, in_type.channels, height, width) for groups of the plane and (batch,
    in_type.channels, depth, height, width) for groups of space, unless a layer says otherwise. Every layer takes its
    types as :class:`~steerable.FieldType`, or as text with the keyword ``group``, a group or its name:
    ``Conv2d("3*A1", "2*regular", 3, group="D4")``.

    Attributes:
        in_type: the type of the input.
        out_type: the type of the output.
        map_axes: the axes of a tensor that are those of its pixels, (2, 3), or voxels, (2, 3, 4).
    """

    in_type: FieldType
    out_type: FieldType

    axes: ClassVar[int | None] = None  # 2 for layers on images alone, 3 for those on volumes alone
    computes = True  # False for layers that only move values, and so take numbers of any dtype
    channelwise = False  # True for layers that do the same to every channel, and keep the type
    parameters_serve_subgroups = False  # True for layers whose parameters mean the same for a subgroup

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "__init__" in vars(cls):
            cls.__init__ = reads_types(cls.__init__)  # type: ignore[method-assign]

    @reads_types
    def __init__(self, in_type: FieldType, out_type: FieldType) -> None:
        super().__init__()
        for role, field_type in (("in_type", in_type), ("out_type", out_type)):
            if field_type.channels == 0:
                raise ValueError(f"{type(self).__name__}: {role} has no channels.")
        moved = in_type.group.axes
        if self.axes is not None and moved not in (None, self.axes):
            raise ValueError(other_axes(type(self).__name__, in_type.group, self.axes))
        self.in_type = in_type
        self.out_type = out_type
        self.map_axes = tuple(range(2, 2 + (self.axes or moved or 2)))
        self._constants: dict[str, NDArray[Any]] = {}

    def check_input(self, x: Tensor, *, maps: bool = True, pooled: bool = False) -> None:
        """Refuse tensors that cannot be fields of ``in_type``.

        Args:
            x: what came in.
            maps: whether the layer takes fields on pixels or voxels, (batch, channels, …).
            pooled: whether it takes pooled fields, (batch, channels).
        """
        if hides_shapes(x):
            return
        if not isinstance(x, Tensor):
            raise TypeError(f"{type(self).__name__} expected a torch.Tensor, got {no_tensor(x)}")
        axes = len(self.map_axes)
        if not (maps and x.ndim == 2 + axes) and not (pooled and x.ndim == 2):
            expected = wrong_rank(x, self.in_type, self.out_type, axes, maps=maps)
            raise ValueError(f"{type(self).__name__} expected {expected}")
        if x.shape[1] != self.in_type.channels:
            raise ValueError(f"{type(self).__name__} expected {wrong_channels(x, self.in_type)}")
        if self.computes and not x.is_floating_point():
            raise TypeError(
                f"{type(self).__name__} expected a field of floating-point numbers, since it computes with them, got "
                f"one of {x.dtype}. {into_floats(x.dtype)}"
            )

    # ---------------------------------------------------------------- subgroups

    def restrict(self, subgroup: Iterable[str] | Group) -> EquivariantModule:
        """The same function over a subgroup H: fewer promises, more freedom to learn. The layer itself is kept.

        Types are restricted as :class:`Restrict` does it, filters become those of the larger space Hom_H, and the new
        parameters are set such that nothing changes: ``layer.restrict(H)(Restrict(in_type, H)(x))`` is
        ``Restrict(out_type, H)(layer(x))`` up to rounding, in training and in evaluation.

        Args:
            subgroup: its name, such as ``"C4"``, or its elements, or the subgroup itself.

        >>> from steerable import FieldType, dihedral
        >>> from steerable import nn as snn
        >>> G = dihedral(4)
        >>> conv = snn.Conv2d(FieldType(G, "3*A1"), FieldType(G, "regular"), 3)
        >>> smaller = conv.restrict("C4")
        >>> str(smaller.out_type), conv.weight.numel(), smaller.weight.numel()
        ('2*regular', 27, 54)
        """
        smaller = subgroup_of(self.in_type.group, subgroup)
        if smaller == self.in_type.group:
            return copy.deepcopy(self)
        with torch.no_grad():
            return self.restricted_to(smaller)

    def restricted_to(self, subgroup: Group) -> EquivariantModule:
        """The result of :meth:`restrict` for a proper subgroup; layers with parameters of their own define it."""
        from steerable.nn.seen_by_subgroup import seen_by_subgroup

        return seen_by_subgroup(self, subgroup)

    # ---------------------------------------------------------------- constants

    def register_constant(self, name: str, values: NDArray[np.float64]) -> None:
        """A float64 constant as a buffer outside the state dict, exact in whatever dtype the layer has.

        A plain buffer would be rounded by ``.float()`` and stay rounded after ``.double()``.
        """
        self._constants[name] = np.ascontiguousarray(values, dtype=np.float64)
        self.register_buffer(name, torch.tensor(values, dtype=torch.get_default_dtype()), persistent=False)

    def register_index(self, name: str, values: NDArray[np.intp]) -> None:
        """A constant of whole numbers, also outside the state dict, restored after ``to_empty()``."""
        self._constants[name] = np.ascontiguousarray(values, dtype=np.int64)
        self.register_buffer(name, torch.tensor(values, dtype=torch.int64), persistent=False)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Self:
        super()._apply(fn, recurse)
        for name, values in self._constants.items():
            buffer = getattr(self, name)
            if buffer.device.type != "meta":
                setattr(self, name, torch.tensor(values, dtype=buffer.dtype, device=buffer.device))
        return self

    def train(self, mode: bool = True) -> Self:
        restore_constants(self._buffers, self._constants)  # averaged weights are evaluated after a change of mode
        return super().train(mode)

    def _load_from_state_dict(
        self,
        state_dict: dict[str, Any],
        prefix: str,
        local_metadata: dict[str, Any],
        strict: bool,
        missing_keys: list[str],
        unexpected_keys: list[str],
        error_msgs: list[str],
    ) -> None:
        for name in (*self._parameters, *self._buffers):
            value = state_dict.get(prefix + name)
            if isinstance(value, Tensor) and value.is_floating_point() and not torch.isfinite(value).all():
                error_msgs.append(
                    f"`{prefix}{name}` has values that are not finite. The checkpoint comes from a run that diverged, "
                    "or is damaged; load an earlier one."
                )
                return
        super()._load_from_state_dict(
            state_dict, prefix, local_metadata, strict, missing_keys, unexpected_keys, error_msgs
        )

    def extra_repr(self) -> str:
        return f"{self.in_type} → {self.out_type}" if self.in_type != self.out_type else str(self.in_type)
