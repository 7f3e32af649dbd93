"""Batch and instance norm of whole capsules: statistics over pixels, with or without running averages."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.channels import hides_shapes, is_exported, is_vector, widened
from steerable.nn.fused_norm import can_fuse, fused_norm, moments_norm, scaled_and_shifted
from steerable.nn.norms import CapsuleNorm, has_no_values, invariant_reference
from steerable.nn.plain import plain_batch_norm
from steerable.nn.processes import moments_over_processes, several_processes
from steerable.nn.torch_tools import KnownToTorch
from steerable.nn.triton import HAS_TRITON
from steerable.types.field_types import FieldType

__all__ = ["BatchNorm2d", "InstanceNorm2d"]


class _StatisticsNorm(CapsuleNorm):
    """Batch and instance norm: statistics per capsule, taken over pixels, with or without running averages."""

    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    projections: Tensor
    reference: Tensor
    inverse_square: Tensor
    capsule_dims: Tensor
    capsule_means: Tensor

    def __init__(
        self, field_type: FieldType, eps: float, momentum: float | None, affine: bool, track_running_stats: bool
    ) -> None:
        super().__init__(field_type, eps, affine)
        self.momentum, self.track_running_stats = momentum, track_running_stats
        projections = [
            directions.T @ np.linalg.pinv(directions.T) if len(directions) else np.zeros((capsule.dim, capsule.dim))
            for (_, directions), (capsule, _) in zip(self.invariants.kinds, field_type.blocks, strict=True)
        ]
        self.register_constant("projections", np.concatenate([p.ravel() for p in projections]))
        self.one_direction = all(len(directions) <= 1 for _, directions in self.invariants.kinds)
        reference = invariant_reference(self.invariants)
        squares = [float(reference[s] @ reference[s]) for s in field_type.slices]
        self.register_constant("reference", reference)
        self.register_constant("inverse_square", np.array([1 / q if q else 0.0 for q in squares]))
        counted = [
            (capsule.dim, len(d))
            for (capsule, n), (_, d) in zip(field_type.blocks, self.invariants.kinds, strict=True)
            for _ in range(n)
        ]
        self.register_constant("capsule_dims", np.array([float(dim) for dim, _ in counted]))
        self.register_constant("capsule_means", np.array([float(k) for _, k in counted]))
        tracked = track_running_stats
        self.register_buffer("running_mean", torch.zeros(field_type.channels) if tracked else None)
        self.register_buffer("running_var", torch.ones(len(field_type)) if tracked else None)
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long) if tracked else None)

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and running statistics as if nothing had been seen."""
        super().reset_parameters()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Forget what was seen in training."""
        if self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def normalise(self, x: Tensor) -> Tensor:
        if not self.training and self.running_mean is not None and self.running_var is not None:
            return self._normalise_by_running_statistics(x)
        if has_no_values(x) and not self.synchronises:
            return self.without_values(x)
        y, centre, variance, count = self.normalise_by_batch(x)
        if self.training and self.running_mean is not None:
            self._track(centre.detach(), variance.detach(), count)
        return y

    def _normalise_by_running_statistics(self, x: Tensor) -> Tensor:
        if self.running_mean is None or self.running_var is None:
            raise RuntimeError("only a norm with running statistics can use them")
        weight = None if self.weight is None else self.on_channels(self.weight)
        bias = None if self.bias is None else self.expanded(self.bias)
        variance = self.on_channels(self.running_var)
        return F.batch_norm(x, self.running_mean, variance, weight, bias, False, 0.0, self.eps)

    @property
    def synchronises(self) -> bool:
        """Whether statistics are taken over several processes now."""
        return False

    def normalise_by_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | int]:
        """y, then centre (rows, channels), variance (rows, capsules), and the number of values per channel."""
        wide = widened(x)
        mean, variance, count = self.moments(wide)
        centre, capsule_variance = self.capsule_statistics(mean, variance)
        scale, shift = self.scale_and_shift(centre, capsule_variance, self.weight, self.bias)
        if not is_vector(x):
            scale, shift = scale[..., None, None], shift[..., None, None]
        return (wide * scale + shift).to(x.dtype), centre, capsule_variance, count

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        """Mean and variance of channels, each (rows, channels), and the number of values that each is taken over."""
        raise TypeError(f"{type(self).__name__} is a base class; use BatchNorm2d or InstanceNorm2d.")

    def values_per_channel(self, x: Tensor, *, over_batch: bool) -> int:
        """Over how many values a mean is taken, in training; one alone is refused."""
        if not self.training:
            return 0
        count = x.numel() // (x.shape[1] if over_batch else x.shape[0] * x.shape[1])
        if not hides_shapes(x) and count == 1:
            raise ValueError(
                f"{type(self).__name__} needs more than one value per channel when training, got a tensor of shape "
                f"{tuple(x.shape)}. Use a larger batch, or eval()."
            )
        return count

    def capsule_statistics(self, mean: Tensor, variance: Tensor) -> tuple[Tensor, Tensor]:
        """Centre (rows, channels) and variance (rows, capsules) from the moments of channels, (rows, channels)."""
        centre = self._project(mean)
        spread = self.segments.sum_statistics(variance + (mean - centre).square())
        return centre, spread / self.capsule_dims.to(spread.dtype)

    def plain(self) -> nn.Module:
        """The layer in evaluation mode: one call of torch's ``batch_norm``, which takes pooled fields and images alike.

        The numbers of a capsule stand on each of its channels. Without running statistics it is traced like any layer.
        """
        if self.running_mean is None or self.running_var is None:
            return super().plain()
        with torch.no_grad():
            statistics = self.running_mean.clone(), self.on_channels(self.running_var).clone()
            weight = None if self.weight is None else nn.Parameter(self.on_channels(self.weight).clone())
            bias = None if self.bias is None else nn.Parameter(self.expanded(self.bias).clone())
        return plain_batch_norm(f"Plain{type(self).__name__}", *statistics, weight, bias, self.eps)

    def _project(self, mean: Tensor) -> Tensor:
        """The invariant part of (rows, channels) means."""
        if self.one_direction:  # w ⟨w, mean⟩ / ⟨w, w⟩ for each capsule
            reference = self.reference.to(mean.dtype)
            along = self.segments.sum_statistics(mean * reference) * self.inverse_square.to(mean.dtype)
            return self.segments.spread(along) * reference
        parts, at, start = [], 0, 0
        for copies, dim in self.segments.shapes:
            matrix = self.projections[at : at + dim * dim].view(dim, dim).to(mean.dtype)
            parts.append((mean.narrow(1, start, copies * dim).unflatten(1, (copies, dim)) @ matrix).flatten(1))
            at, start = at + dim * dim, start + copies * dim
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def _track(self, centre: Tensor, variance: Tensor, count: Tensor | int) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        # Over several processes only the device knows the count, and it may be too small for a variance.
        enough = (count > 1).squeeze(0) if isinstance(count, Tensor) else True
        self.num_batches_tracked.add_(enough)
        values = self.capsule_dims.to(variance.dtype) * count  # in float16 this would overflow
        # A mean that is zero by symmetry costs no degree of freedom.
        unbiased = values / (values - self.capsule_means.to(variance.dtype)).clamp(min=1)
        new_mean = centre.mean(0).to(self.running_mean.dtype)
        new_variance = (variance.mean(0) * unbiased).to(self.running_var.dtype)
        weight: Tensor | float
        if self.momentum is None:  # cumulative average
            weight = self.num_batches_tracked.clamp(min=1).to(new_mean.dtype).reciprocal()
        else:
            weight = self.momentum
        if isinstance(enough, Tensor):
            weight = enough.to(new_mean.dtype) * weight
        self.running_mean.lerp_(new_mean, weight)
        self.running_var.lerp_(new_variance, weight)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum}, track_running_stats={self.track_running_stats}"


def _compiled() -> bool:
    """Whether a compiler is looking on that takes our operators; torch.export is to see torch's own."""
    return torch.compiler.is_compiling() and not is_exported()


class BatchNorm2d(_StatisticsNorm, KnownToTorch):  # type: ignore[misc]  # one scale for each capsule
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the batch and all pixels.

    Shapes: (batch, channels, height, width) or (batch, channels) → the same.

    Args:
        field_type: the type, which stays the same; its capsules must be orthogonal.
        eps, momentum, affine, track_running_stats: as for ``torch.nn.BatchNorm2d``; ``momentum=None`` averages over all
            batches so far.
        sync: in training, take the statistics over all processes of ``torch.distributed``;
            :func:`convert_sync_batchnorm` sets it in a whole network.

    An empty batch gives an empty batch and leaves the running statistics as they are. With ``sync`` so does a step in
    which all processes together have fewer than two values per channel; a process may have one or none.
    ``torch.optim.swa_utils.update_bn`` renews the running statistics, as it does those of torch's batch norms.
    """

    ranks = (2, 4)

    first_channel: Tensor
    bias_index: Tensor
    biased_capsules: Tensor

    def __init__(
        self,
        field_type: FieldType,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        sync: bool = False,
    ) -> None:
        super().__init__(field_type, eps, momentum, affine, track_running_stats)
        self.sync = sync
        dims = [capsule.dim for capsule in field_type.capsules]
        directed = np.array([len(d) for copies, d in self.invariants.kinds for _ in range(copies)])
        self.register_index("first_channel", np.concatenate([[0], np.cumsum(dims)]))
        has_entry = directed > 0 if self.bias is not None else np.zeros(len(dims), dtype=bool)
        self.register_index("bias_index", np.where(has_entry, np.cumsum(directed) - 1, -1))
        self.register_index("biased_capsules", np.flatnonzero(has_entry))
        self._kernel_width = 1 << (max(dims) - 1).bit_length()

    def normalise_by_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | int]:
        if self.synchronises:
            return super().normalise_by_batch(x)
        count = self.values_per_channel(x, over_batch=True)
        if can_fuse(x, self._has_kernel):
            by_hand = (self._affine, self._gradients) if self.one_direction else None
            gradients = (self._affine_by_kernel, self._gradients_by_kernel) if self._has_kernel else by_hand
            y, centre, variance = fused_norm(x, self.weight, self.bias, self._affine, gradients)
        else:
            affine = self._affine_by_kernel if self._has_kernel and _compiled() else self._affine
            y, centre, variance = moments_norm(x, self.weight, self.bias, affine)
        return y, centre.unsqueeze(0), variance.unsqueeze(0), count

    def _normalise_by_running_statistics(self, x: Tensor) -> Tensor:
        if not (self._has_kernel and _compiled()) or self.running_mean is None or self.running_var is None:
            return super()._normalise_by_running_statistics(x)
        # A compiler would look up each capsule's numbers anew for every pixel. The kernel stands between.
        variance = self.on_channels(self.running_var)
        moments = widened(self.running_mean), widened(variance)
        scale, shift, *_ = self._affine_by_kernel(*moments, self.weight, self.bias, project=False)
        return scaled_and_shifted(x, scale, shift)

    def _affine(
        self, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        centre, total = self.capsule_statistics(mean.unsqueeze(0), variance.unsqueeze(0))
        scale, shift = self.scale_and_shift(centre, total, weight, bias)
        return scale.squeeze(0), shift.squeeze(0), centre.squeeze(0), total.squeeze(0)

    def _gradients(
        self,
        grads: tuple[Tensor, Tensor],
        moments: tuple[Tensor, Tensor, Tensor],
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        """Those of ``_affine``, written out: of mean, variance, weight and bias from those of scale and shift.

        With a = γ/σ and b = β - μa for each capsule, all sums run over its channels.
        """
        (to_scale, to_shift), (mean, centre, variance) = grads, moments
        reference = self.reference.to(mean.dtype)
        sums = self.segments.sum_statistics(torch.stack([to_scale - to_shift * centre, to_shift * reference]))
        to_slope, along = sums[0], sums[1]
        inverse = torch.rsqrt(variance + self.eps)
        slope = inverse if weight is None else inverse * weight
        to_variance = to_slope * slope * inverse.square() / (-2 * self.capsule_dims.to(mean.dtype))
        to_centre = along * slope * self.inverse_square.to(mean.dtype)
        spread = self.segments.spread(torch.stack([to_centre, to_variance]))
        to_mean = 2 * spread[1] * (mean - centre) - spread[0] * reference
        to_bias = None if bias is None else along.index_select(0, self.biased_capsules)
        return to_mean, spread[1], None if weight is None else to_slope * inverse, to_bias

    def _affine_by_kernel(
        self, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, project: bool = True
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        from steerable.nn.triton.norm import capsule_affine

        scale, shift, centre, total = capsule_affine(mean, variance, weight, bias, self._kernel_tables, project=project)
        return scale, shift, centre, total

    def _gradients_by_kernel(
        self,
        grads: tuple[Tensor, Tensor],
        moments: tuple[Tensor, Tensor, Tensor],
        weight: Tensor | None,
        bias: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        from steerable.nn.triton.norm import capsule_affine_gradients

        gradients: tuple[Tensor | None, ...] = capsule_affine_gradients(
            grads, moments, weight, bias, self._kernel_tables
        )
        return gradients

    @property
    def _has_kernel(self) -> bool:
        return HAS_TRITON and self.one_direction and self.reference.is_cuda

    @property
    def _kernel_tables(self) -> tuple[Tensor, Tensor, Tensor, Tensor, int, float]:
        tables = (self.first_channel, self.bias_index, self.reference, self.inverse_square)
        return *tables, self._kernel_width, self.eps

    @property
    def synchronises(self) -> bool:
        return self.sync and self.training and several_processes()

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        return moments_over_processes(x)


class InstanceNorm2d(_StatisticsNorm):
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the pixels of each image.

    Shapes: (batch, channels, height, width) → the same. Defaults are those of ``torch.nn.InstanceNorm2d``.
    """

    def __init__(
        self,
        field_type: FieldType,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
    ) -> None:
        super().__init__(field_type, eps, momentum, affine, track_running_stats)

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        variance, mean = torch.var_mean(x, (2, 3), correction=0)
        return mean, variance, self.values_per_channel(x, over_batch=False)
