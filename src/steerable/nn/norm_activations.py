"""Nonlinearities on whole capsules: norm nonlinearities, gates, and a sound default for a mixed type."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor, nn

from steerable.nn.activations import ReLU
from steerable.nn.admissibility import require
from steerable.nn.channels import capsule_of_channel, merge_order, scale_channels, take_channels, widened
from steerable.nn.concatenated import CReLU
from steerable.nn.module import EquivariantModule
from steerable.nn.scalar_functions import ScalarFunction, check_pixelwise, function_name
from steerable.nn.segments import Segments
from steerable.types.field_types import FieldType

__all__ = ["Activation", "Gated", "NormActivation", "NormReLU"]

_SQUARE_OF_NOTHING = 1e-30  # shorter capsules than its root count as that long, so that one of length 0 has a gradient


class NormActivation(EquivariantModule):
    """y = ν(‖x‖) · x / ‖x‖ for each capsule, with any ν; capsules must be orthogonal. A capsule of length 0 stays 0.

    Choose a ν that vanishes at 0: where features are zero up to rounding, as on a uniform background, any other ν turns
    the rounding errors into values.

    Shapes: (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        function: ν, a module or a function that acts on each pixel alone; it gets one channel per capsule.
    """

    parameters_serve_subgroups = True

    def __init__(self, field_type: FieldType, function: ScalarFunction) -> None:
        require(type(self).__name__, field_type, "norm")
        super().__init__(field_type, field_type)
        check_pixelwise(f"{type(self).__name__}({function_name(function)})", function, len(field_type))
        self.function = function
        self.segments = Segments(field_type)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return self.segments.scale(x, self.factors(x).to(x.dtype))

    def factors(self, x: Tensor) -> Tensor:
        """(batch, capsules, …): ν(‖x‖) / ‖x‖."""
        length = self.segments.norm(x)
        return self.function(length) / torch.where(length == 0, torch.ones_like(length), length)


class NormReLU(NormActivation):
    """y = max(‖x‖ - |b|, 0) · x / ‖x‖ for each capsule, with one learned b per capsule; capsules must be orthogonal.

    Shapes: (batch, channels, …) → the same.

    Args:
        field_type: the type, which stays the same.
        bias: the initial b; positive, so that the layer is not the identity.
    """

    def __init__(self, field_type: FieldType, bias: float = 0.1) -> None:
        super().__init__(field_type, nn.ReLU())
        self.initial = float(bias)
        self.threshold = nn.Parameter(torch.full((len(field_type),), self.initial))

    def reset_parameters(self) -> None:
        """Set every b to its initial value."""
        nn.init.constant_(self.threshold, self.initial)

    def factors(self, x: Tensor) -> Tensor:
        """max(1 - |b| / ‖x‖, 0), in fewer passes than max(‖x‖ - |b|, 0) / ‖x‖."""
        wide = widened(x)
        inverse = self.segments.sum(wide * wide).clamp_min(_SQUARE_OF_NOTHING).rsqrt()
        # A negative b would lengthen what is zero but for rounding, in a direction that is rounding too. Written so,
        # |b| has the slope 1 at 0; that of abs() is 0, and a b that begins there would never learn.
        shift = torch.where(self.threshold < 0, self.threshold, -self.threshold)
        return self.function(1 + scale_channels(inverse, shift.to(inverse.dtype)))


class Gated(EquivariantModule):
    """y = σ(s) · x for each capsule x, with a gate s of its own: an invariant channel that the previous layer computes.

    Shapes: (batch, in_type.channels, …) → (batch, field_type.channels, …), where ``in_type`` is ``field_type`` plus one
    trivial capsule per capsule. Any capsule is admissible.
    """

    fields: Tensor
    gates: Tensor

    def __init__(self, field_type: FieldType) -> None:
        gates = FieldType(field_type.group, [(len(field_type), field_type.group.trivial)])
        in_type = field_type + gates
        super().__init__(in_type, field_type)
        order = merge_order([*field_type.capsules, *gates.capsules], in_type)
        place = np.argsort(order)  # where each stacked channel is in in_type
        self.register_index("fields", place[: field_type.channels])
        self.register_index("gates", place[field_type.channels :][capsule_of_channel(field_type)])

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        return take_channels(x, self.fields) * torch.sigmoid(take_channels(x, self.gates))


class Activation(EquivariantModule):
    """A sound default for each capsule of a mixed type: ReLU on permutations, CReLU on signed permutations and other
    monomial capsules, NormReLU on other orthogonal ones.

    Shapes: (batch, in_type.channels, …) → (batch, out_type.channels, …); CReLU doubles its channels.
    """

    parameters_serve_subgroups = True

    order: Tensor

    def __init__(self, field_type: FieldType) -> None:
        layers: list[EquivariantModule] = []
        for capsule, copies in field_type.terms:
            part = FieldType(field_type.group, [(copies, capsule)])
            if capsule.admits("pointwise"):
                layers.append(ReLU(part))
            elif capsule.admits("scale-free concatenated"):
                layers.append(CReLU(part))
            elif capsule.admits("norm"):
                layers.append(NormReLU(part))
            else:
                require("Activation", part, "norm")
        stack = [c for layer in layers for c in layer.out_type.capsules]
        super().__init__(field_type, FieldType(field_type.group, stack))
        self.layers = nn.ModuleList(layers)
        self.sizes = [layer.in_type.channels for layer in layers]
        order = merge_order(stack, self.out_type)
        self.reorder = not np.array_equal(order, np.arange(len(order)))
        if self.reorder:
            self.register_index("order", order)

    def forward(self, x: Tensor) -> Tensor:
        self.check_input(x, pooled=True)
        if len(self.layers) == 1:
            return self.layers[0](x)  # type: ignore[no-any-return]
        parts = x.split(self.sizes, 1)
        y = torch.cat([layer(parts[k]) for k, layer in enumerate(self.layers)], dim=1)
        return take_channels(y, self.order) if self.reorder else y
