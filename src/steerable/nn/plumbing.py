"""Layers that move, mask or re-express fields without mixing them: dropout, restriction, change of basis, selection."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from typing import SupportsIndex

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn

from steerable.algebra.capsules import Capsule
from steerable.algebra.decomposition import decompose
from steerable.algebra.groups import FiniteGroup
from steerable.nn.channels import hides_shapes, merge_order, take_channels
from steerable.nn.module import EquivariantModule
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType
from steerable.types.restriction import restriction

Selection = slice | int | str | Sequence[int | str] | NDArray[np.intp] | Tensor

__all__ = ["DiskMask", "Dropout", "Dropout2d", "FromIrreps", "Identity", "Restrict", "Select", "ToIrreps"]


class Identity(EquivariantModule):
    """y = x.

    Shapes: any → the same.
    """

    computes = False

    def __init__(self, field_type: FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return x

    def plain(self) -> nn.Module:
        return nn.Identity()


class Dropout(EquivariantModule):
    """In training, sets each capsule of each fibre to zero with probability p, and scales the others by 1/(1-p).

    Shapes: (batch, channels, …) → the same. A mask of single channels would not commute with the group.
    """

    def __init__(self, field_type: FieldType, p: float = 0.5) -> None:
        super().__init__(field_type, field_type)
        if not 0 <= p < 1:
            raise ValueError(f"the probability p of a dropout lies in [0, 1), got {p}.")
        self.p = p
        self.segments = Segments(field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        if not self.training or self.p == 0:
            return x
        ones = x.new_ones(self.mask_shape(x))
        return x * self.segments.spread(F.dropout(ones, self.p))

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0], len(self.in_type), *x.shape[2:])

    def plain(self) -> nn.Module:
        return nn.Identity()

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, p={self.p}"


class Dropout2d(Dropout):
    """In training, sets a capsule on the whole image to zero with probability p, and scales the others by 1/(1-p).

    Shapes: (batch, channels, …) → the same.
    """

    def mask_shape(self, x: Tensor) -> tuple[int, ...]:
        return (x.shape[0], len(self.in_type), *(1,) * (x.ndim - 2))


class Restrict(EquivariantModule):
    """From here on only a subgroup counts: the same values, in the capsules that the subgroup sees.

    Shapes: (batch, channels, …) → the same; channels are reordered where a capsule falls apart into several.

    Args:
        field_type: a type of the group.
        subgroup: its elements, or the subgroup itself (``cyclic(4)`` in ``dihedral(4)``).
    """

    computes = False

    order: Tensor

    def __init__(self, field_type: FieldType, subgroup: Iterable[str] | FiniteGroup) -> None:
        out_type, order = restriction(field_type, subgroup)
        super().__init__(field_type, out_type)
        self.reorder = not np.array_equal(order, np.arange(len(order)))
        self.register_index("order", order)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return take_channels(x, self.order) if self.reorder else x

    def plain(self) -> nn.Module:
        return super().plain() if self.reorder else nn.Identity()

    def extra_repr(self) -> str:
        return f"{self.in_type.group.name}: {self.in_type} → {self.out_type.group.name}: {self.out_type}"


class _BasisChange(EquivariantModule):
    """A fixed square matrix on each capsule, with a reordering of channels before or after it."""

    matrices: Tensor
    order: Tensor

    def __init__(
        self, in_type: FieldType, out_type: FieldType, matrices: Sequence[np.ndarray], capsules: FieldType
    ) -> None:
        super().__init__(in_type, out_type)
        self.shapes = [(copies, capsule.dim) for capsule, copies in capsules.blocks]
        self.register_constant("matrices", np.concatenate([m.ravel() for m in matrices] or [np.zeros(0)]))

    def change(self, x: Tensor) -> Tensor:
        """y = Mx for each capsule, kind by kind."""
        parts, at, matrix_at = [], 0, 0
        for copies, dim in self.shapes:
            matrix = self.matrices[matrix_at : matrix_at + dim * dim].view(dim, dim).to(x.dtype)
            part = x.narrow(1, at, copies * dim).unflatten(1, (copies, dim)).transpose(2, -1)
            parts.append((part @ matrix.T).transpose(2, -1).flatten(1, 2))
            at, matrix_at = at + copies * dim, matrix_at + dim * dim
        return torch.cat(parts, dim=1) if len(parts) > 1 else parts[0]


class ToIrreps(_BasisChange):
    """y = A⁻¹x for each capsule, A the basis in which ρ is block-diagonal: the same field in irreducible capsules.

    Shapes: (batch, channels, …) → the same. For orthogonal capsules the map is orthogonal. ``FromIrreps`` undoes it.
    """

    def __init__(self, field_type: FieldType) -> None:
        stack, matrices = _irrep_stack(field_type)
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type, [np.linalg.inv(a) for a in matrices], field_type)
        self.register_index("order", merge_order(stack, out_type))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return take_channels(self.change(x), self.order)


class FromIrreps(_BasisChange):
    """x = Ay for each capsule: from irreducible capsules back to the type that ``ToIrreps`` started from.

    Shapes: (batch, channels, …) → the same.

    Args:
        field_type: the type that comes out; ``in_type`` is its decomposition.
    """

    def __init__(self, field_type: FieldType) -> None:
        stack, matrices = _irrep_stack(field_type)
        in_type = FieldType(field_type.group, stack)
        super().__init__(in_type, field_type, matrices, field_type)
        self.register_index("order", np.argsort(merge_order(stack, in_type)))

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return self.change(take_channels(x, self.order))


def _irrep_stack(field_type: FieldType) -> tuple[list[Capsule], list[np.ndarray]]:
    """The irreps of every capsule in order, and the basis change A of each kind."""
    group = field_type.group
    irreps = [Capsule(irrep) for irrep in group.irreps]
    stack: list[Capsule] = []
    matrices = []
    for capsule, copies in field_type.blocks:
        kind, basis = decompose(capsule.representation)
        matrices.append(basis)
        stack += copies * [irrep for irrep, m in zip(irreps, kind, strict=True) for _ in range(m)]
    return stack, matrices


class Select(EquivariantModule):
    """Some of a field's capsules, in the given order, also more than once.

    A field type keeps equal capsules adjacent, so that kinds come in the order in which each is first named, and the
    copies of a kind in the order in which they are named: of ``2*E + A1`` the numbers ``[1, 2, 0]`` give ``2*E + A1``
    again, with the two capsules ``E`` exchanged.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …).

    Args:
        field_type: what goes in.
        which: capsules by number, counted from the end where it is negative; all capsules of a kind by its name, such
            as ``"E"``; a sequence of these, or a slice of the numbers.

    >>> from steerable import FieldType, dihedral
    >>> swap = Select(FieldType(dihedral(4), "2*E + A1"), [1, 2, 0])
    >>> str(swap.out_type), swap.channels.tolist()
    ('2*E + A1', [2, 3, 0, 1, 4])
    """

    computes = False

    channels: Tensor

    def __init__(self, field_type: FieldType, which: Selection) -> None:
        chosen = _chosen(field_type, which)
        stack = [field_type[i] for i in chosen]
        out_type = FieldType(field_type.group, stack)
        super().__init__(field_type, out_type)
        slices = field_type.slices
        channels = np.concatenate([np.arange(slices[i].start, slices[i].stop) for i in chosen])
        self.register_index("channels", channels[merge_order(stack, out_type)])

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, ranks=(2, 4))
        return take_channels(x, self.channels)


def _chosen(field_type: FieldType, which: Selection) -> list[int]:
    """The numbers of the capsules that are selected, in the given order."""
    if isinstance(which, slice):
        chosen = list(range(len(field_type)))[which]
    else:
        values = which.tolist() if isinstance(which, Tensor | np.ndarray) else which
        items = [values] if isinstance(values, str) or not isinstance(values, Iterable) else values
        chosen = [number for item in items for number in _numbers(field_type, item)]
    if not chosen:
        raise ValueError(f"Select: nothing of `{field_type}` is selected by {which!r}.")
    return chosen


def _numbers(field_type: FieldType, item: int | str) -> list[int]:
    """The number of one capsule, or those of all capsules of a name."""
    count = len(field_type)
    if isinstance(item, str):
        found = [i for i, capsule in enumerate(field_type.capsules) if str(capsule) == item]
        if not found:
            present = ", ".join(str(capsule) for capsule, _ in field_type.blocks)
            raise ValueError(f"Select: `{field_type}` has no capsule `{item}`; it has {present}.")
        return found
    if isinstance(item, bool) or not isinstance(item, SupportsIndex):
        raise TypeError(f"Select takes capsules by number or by name, such as [0, 2] or 'E'; got {item!r}.")
    number = operator.index(item)
    if not -count <= number < count:
        raise ValueError(f"Select: `{field_type}` has capsules 0 … {count - 1}, got number {number}.")
    return [number % count]


class DiskMask(EquivariantModule):
    """Sets the field to zero outside the disk inscribed in the image, so that corners do not tell the pose.

    y(x) = x inside, with an edge ``softness`` pixels wide. Shapes: (batch, channels, size, size) → the same.

    Args:
        field_type: the type, which stays the same.
        size: height and width of the images.
        margin: by how many pixels the disk stays clear of the border.
        softness: width of the edge; 0 for a hard one.
    """

    mask: Tensor

    def __init__(self, field_type: FieldType, size: int, margin: float = 0.0, softness: float = 1.0) -> None:
        super().__init__(field_type, field_type)
        if size < 1 or margin < 0 or softness < 0:
            raise ValueError(f"DiskMask takes size ≥ 1, margin ≥ 0, softness ≥ 0; got {size}, {margin}, {softness}.")
        self.size = size
        line = np.arange(size) - (size - 1) / 2
        radius = np.sqrt(line[:, None] ** 2 + line**2)
        inside = size / 2 - margin - radius
        self.register_constant(
            "mask", np.clip(inside / softness, 0, 1) if softness else (inside > 0).astype(np.float64)
        )

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x)
        if not hides_shapes(x) and tuple(x.shape[-2:]) != (self.size, self.size):
            raise ValueError(f"DiskMask was made for {self.size}×{self.size} images, got {tuple(x.shape[-2:])}.")
        return x * self.mask.to(x.dtype)
