"""The common part of batch and instance norm: statistics of whole capsules, with or without running averages."""

from __future__ import annotations

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from steerable.nn.channels import hides_shapes, is_vector, on_maps, widened
from steerable.nn.norms import CapsuleNorm, has_no_values, invariant_reference
from steerable.nn.plain import plain_batch_norm
from steerable.types.field_types import FieldType

__all__ = ["StatisticsNorm"]


class StatisticsNorm(CapsuleNorm):
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
        self,
        field_type: FieldType,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        *,
        bias: bool,
    ) -> None:
        super().__init__(field_type, eps, affine, bias=bias)
        self.momentum, self.track_running_stats = momentum, track_running_stats
        projections = [
            directions.T @ np.linalg.pinv(directions.T) if len(directions) else np.zeros((capsule.dim, capsule.dim))
            for (_, directions), (capsule, _) in zip(self.invariants.kinds, field_type.terms, strict=True)
        ]
        self.register_constant("projections", np.concatenate([p.ravel() for p in projections]))
        self.one_direction = all(len(directions) <= 1 for _, directions in self.invariants.kinds)
        reference = invariant_reference(self.invariants)
        squares = [float(reference[s] @ reference[s]) for s in field_type.slices]
        self.register_constant("reference", reference)
        self.register_constant("inverse_square", np.array([1 / q if q else 0.0 for q in squares]))
        counted = [
            (capsule.dim, len(d))
            for (capsule, n), (_, d) in zip(field_type.terms, self.invariants.kinds, strict=True)
            for _ in range(n)
        ]
        self.register_constant("capsule_dims", np.array([float(dim) for dim, _ in counted]))
        self.register_constant("capsule_means", np.array([float(k) for _, k in counted]))
        tracked = track_running_stats
        self.register_buffer("running_mean", torch.zeros(field_type.channels) if tracked else None)
        self.register_buffer("running_var", torch.ones(len(field_type)) if tracked else None)
        self.register_buffer("num_batches_tracked", torch.tensor(0, dtype=torch.long) if tracked else None)

    def reset_parameters(self) -> None:
        """Set scale 1, shift 0, and running statistics as if nothing had been seen."""
        super().reset_parameters()
        self.reset_running_stats()

    def reset_running_stats(self) -> None:
        """Set the running statistics to mean 0 and variance 1."""
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
            self._track_batch(centre.detach(), variance.detach(), count)
        return y

    def _normalise_by_running_statistics(self, x: Tensor) -> Tensor:
        if self.running_mean is None or self.running_var is None:
            raise RuntimeError("only a norm with running statistics can use them")
        weight = None if self.weight is None else self.on_channels(self.weight)
        bias = None if self.bias is None else self.expanded(self.bias)
        variance = self.on_channels(self.running_var)
        return F.batch_norm(x, self.running_mean, variance, weight, bias, False, 0.0, self.eps)

    def normalise_in_order(
        self, x: Tensor, places: tuple[Tensor, Tensor], weight: Tensor | None, bias: Tensor | None
    ) -> Tensor:
        """The same; by running statistics with single numbers of channels in another order, not the images."""
        if self.training or self.running_mean is None or self.running_var is None:
            return super().normalise_in_order(x, places, weight, bias)
        mean, variance = self.running_mean[places[1]], self.on_channels(self.running_var)[places[1]]
        return F.batch_norm(x, mean, variance, weight, bias, False, 0.0, self.eps)

    @property
    def synchronises(self) -> bool:
        """Whether statistics are currently taken over several processes."""
        return False

    def normalise_by_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | int]:
        """y, then centre (rows, channels), variance (rows, capsules), and the number of values per channel."""
        wide = widened(x)
        mean, variance, count = self.moments(wide)
        centre, capsule_variance = self.capsule_statistics(mean, variance)
        scale, shift = self.scale_and_shift(centre, capsule_variance, self.weight, self.bias)
        axes = 0 if is_vector(x) else len(self.map_axes)
        y = wide * on_maps(scale, axes) + on_maps(shift, axes)
        return y.to(x.dtype), centre, capsule_variance, count

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        """Mean and variance of channels, each (rows, channels), and the number of values that each is taken over."""
        raise TypeError(f"{type(self).__name__} is a base class; use BatchNorm2d or InstanceNorm2d.")

    def values_per_channel(self, x: Tensor, *, over_batch: bool) -> int:
        """The number of values that a mean is taken over in training; a single one is refused."""
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
        """The layer in evaluation mode: one call of torch's ``batch_norm``, which takes fields of any rank.

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
        for capsule, copies in self.in_type.terms:
            dim = capsule.dim
            matrix = self.projections[at : at + dim * dim].view(dim, dim).to(mean.dtype)
            parts.append((mean.narrow(1, start, copies * dim).unflatten(1, (copies, dim)) @ matrix).flatten(1))
            at, start = at + dim * dim, start + copies * dim
        return torch.cat(parts, dim=1)

    @torch.no_grad()
    def _track_batch(self, centre: Tensor, variance: Tensor, count: Tensor | int) -> None:
        """Track statistics of a batch: centre (rows, channels), variance (rows, capsules), values per channel."""
        # Over several processes only the device knows the count, and it may be too small for a variance.
        enough = (count > 1).squeeze(0) if isinstance(count, Tensor) else True
        values = self.capsule_dims.to(variance.dtype) * count  # in float16 this would overflow
        # A mean that is zero by symmetry costs no degree of freedom.
        unbiased = values / (values - self.capsule_means.to(variance.dtype)).clamp(min=1)
        self.track(centre.mean(0), variance.mean(0) * unbiased, enough)

    def track(self, mean: Tensor, variance: Tensor, enough: Tensor | bool = True) -> None:
        """Move the running averages towards a mean of channels and an unbiased variance of capsules, if ``enough``."""
        running_mean, running_var, batches = self.running_mean, self.running_var, self.num_batches_tracked
        if running_mean is None or running_var is None or batches is None:
            return
        batches.add_(enough)
        weight: Tensor | float
        if self.momentum is None:  # cumulative average
            weight = batches.clamp(min=1).to(running_mean.dtype).reciprocal()
        else:
            weight = self.momentum
        if isinstance(enough, Tensor):
            weight = enough.to(running_mean.dtype) * weight
        running_mean.lerp_(mean.to(running_mean.dtype), weight)
        running_var.lerp_(variance.to(running_var.dtype), weight)

    def pace_on_cpu(self) -> float:
        """How far the running statistics move by this batch, which is counted; without tensors, which takes longer."""
        buffers = self._buffers  # by name: attributes are searched for by torch, as slowly as a small operation runs
        mean, variance, batches = buffers["running_mean"], buffers["running_var"], buffers["num_batches_tracked"]
        if mean is None or variance is None or batches is None:
            return 0.0
        seen = batches.numpy()
        seen += 1
        # They are moved by a kernel, without autograd's knowledge.
        torch.autograd.graph.increment_version([mean, variance, batches])
        return 1 / int(seen) if self.momentum is None else self.momentum

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, momentum={self.momentum}, track_running_stats={self.track_running_stats}"
