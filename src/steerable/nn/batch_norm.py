"""Batch norm of whole capsules, fused in eager code, and over several processes."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from steerable.nn.channels import is_exported, is_vector, widened
from steerable.nn.fused_norm import NormPasses, as_images, can_fuse, dense, fused_norm, moments_norm, scaled_and_shifted
from steerable.nn.kept_filters import MadeFromParameters
from steerable.nn.norm_on_cpu import PassesOnCpu
from steerable.nn.norms import CapsuleNorm
from steerable.nn.numba import HAS_NUMBA
from steerable.nn.processes import moments_over_processes, several_processes
from steerable.nn.statistics_norms import StatisticsNorm
from steerable.nn.torch_tools import KnownToTorch
from steerable.nn.triton import HAS_TRITON
from steerable.types.field_types import FieldType

if TYPE_CHECKING:
    from steerable.nn.triton.norm_passes import NormKernels, PassesOnGpu

__all__ = ["BatchNorm", "BatchNorm2d", "BatchNorm3d"]


class BatchNorm(StatisticsNorm, KnownToTorch):  # type: ignore[misc]  # one scale for each capsule
    """The base of batch norms; a subclass sets the number of axes."""

    takes_pooled = True

    first_channel: Tensor
    bias_index: Tensor

    def __init__(
        self,
        field_type: FieldType,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        *,
        bias: bool = True,
        sync: bool = False,
    ) -> None:
        super().__init__(field_type, eps, momentum, affine, track_running_stats, bias=bias)
        self.sync = sync
        dims = [capsule.dim for capsule in field_type.capsules]
        directed = np.array([len(d) for copies, d in self.invariants.kinds for _ in range(copies)])
        self.register_index("first_channel", np.concatenate([[0], np.cumsum(dims)]))
        has_entry = directed > 0 if self.bias is not None else np.zeros(len(dims), dtype=bool)
        self.register_index("bias_index", np.where(has_entry, np.cumsum(directed) - 1, -1))
        self._kept: MadeFromParameters | None = None  # numbers of channels in evaluation on a CPU
        self._kernel_width = 1 << (max(dims) - 1).bit_length()
        self._kernels: NormKernels | None = None  # of eager code on a GPU
        self._kernel_passes: Callable[..., NormPasses] | None = None  # of eager code on a CPU

    def forward(self, x: Tensor) -> Tensor:
        if type(self).normalise is not BatchNorm.normalise or not self._fuses(x):
            return super().forward(x)
        self.check_input(x, pooled=True)
        self.check_dtype(x)
        return self._fused(x)  # by operations that autocast leaves alone

    def normalise(self, x: Tensor) -> Tensor:
        return self._fused(x) if self._fuses(x) else super().normalise(x)

    def _fused(self, x: Tensor) -> Tensor:
        """The few passes of eager code, if :meth:`_fuses` allows them."""
        weight, bias, buffers = self.weight, self.bias, self._buffers
        mean, variance = buffers["running_mean"], buffers["running_var"]
        if self.training or mean is None or variance is None:
            self.values_per_channel(x, over_batch=True)
            passes = self._passes_on_gpu() if x.is_cuda else self._passes_on_cpu()
            return fused_norm(x, weight, bias, passes, self._affine)
        if x.is_cuda:
            return self._passes_on_gpu().by_running_statistics(dense(as_images(x)), weight, bias).view(x.shape)
        kept = self._kept
        if kept is None or not kept.is_of(variance, weight, bias):
            kept = self._kept = MadeFromParameters(variance, weight, bias)
            of_capsules = (None if t is None else self.on_channels(t) for t in (weight, variance))
            kept.made["channels"] = *of_capsules, None if bias is None else self.expanded(bias)
        weight, variance, bias = kept.made["channels"]
        return torch.native_batch_norm(x, weight, bias, mean, variance, False, 0.0, self.eps)[0]

    def _fuses(self, x: Tensor) -> bool:
        # Buffers by name: attributes are searched for by torch, which takes as long as a small operation.
        mean, variance, reference = (self._buffers[name] for name in ("running_mean", "running_var", "reference"))
        if self.synchronises or not self.one_direction or not can_fuse(x, HAS_TRITON) or reference is None:
            return False
        if x.get_device() != reference.get_device():
            return False
        if mean is None or variance is None:
            return True
        if torch.is_grad_enabled() and not self.training:
            return False
        # Kernels go by addresses.
        alike = x.is_cuda or mean.dtype == variance.dtype == x.dtype
        return alike and mean.is_contiguous() and variance.is_contiguous()

    def _passes_on_cpu(self) -> NormPasses:
        mean, variance = self._buffers["running_mean"], self._buffers["running_var"]
        running = (mean, variance) if self.training and mean is not None and variance is not None else None
        if not HAS_NUMBA:
            return PassesOnCpu(self, self._affine)
        make = self._kernel_passes
        if make is None:
            from steerable.nn.numba.norm import CapsuleTables, KernelPasses

            tables = CapsuleTables(*(self._constants[name] for name in CapsuleTables._fields))
            make = self._kernel_passes = partial(KernelPasses, tables)
        return make(self.eps, running, 0.0 if running is None else self.pace_on_cpu())

    def _passes_on_gpu(self) -> PassesOnGpu:
        from steerable.nn.triton.norm_passes import NormKernels, PassesOnGpu

        buffers, kernels = self._buffers, self._kernels
        if kernels is None or kernels.reference is not buffers["reference"]:
            kernels = self._kernels = NormKernels(self._kernel_tables[:5])
        running = (buffers["running_mean"], buffers["running_var"], buffers["num_batches_tracked"])
        return PassesOnGpu(kernels, running, self.momentum, self.eps)

    def normalise_by_batch(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor, Tensor | int]:
        if self.synchronises:
            return super().normalise_by_batch(x)
        count = self.values_per_channel(x, over_batch=True)
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

    def _affine_by_kernel(
        self, mean: Tensor, variance: Tensor, weight: Tensor | None, bias: Tensor | None, project: bool = True
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        from steerable.nn.triton.norm import capsule_affine

        scale, shift, centre, total = capsule_affine(mean, variance, weight, bias, self._kernel_tables, project=project)
        return scale, shift, centre, total

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

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kernels": None, "_kernel_passes": None, "_kept": None}

    def moments(self, x: Tensor) -> tuple[Tensor, Tensor, Tensor | int]:
        if self.synchronises:
            return moments_over_processes(x)
        variance, mean = torch.var_mean(x, [0] if is_vector(x) else [0, *self.map_axes], correction=0)
        return mean.unsqueeze(0), variance.unsqueeze(0), self.values_per_channel(x, over_batch=True)

    def without_affine(self) -> CapsuleNorm:
        twin = super().without_affine()
        twin.register_index("bias_index", np.full(len(self.in_type), -1))
        return twin


class BatchNorm2d(BatchNorm):
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the batch and all pixels.

    Shapes: (batch, channels, height, width) or (batch, channels) → the same.

    Args:
        field_type: the type, which stays the same; its capsules must be orthogonal.
        eps, momentum, affine, track_running_stats: as for ``torch.nn.BatchNorm2d``; ``momentum=None`` averages over all
            batches so far.
        bias: whether the affine part has a shift β, along the invariant directions.
        sync: in training, take the statistics over all processes of ``torch.distributed``;
            :func:`convert_sync_batchnorm` sets it in a whole network.

    An empty batch gives an empty batch and leaves the running statistics as they are. With ``sync`` so does a step in
    which all processes together have fewer than two values per channel; a process may have one or none.
    ``torch.optim.swa_utils.update_bn`` renews the running statistics, as it does those of torch's batch norms.
    """

    axes = 2


class BatchNorm3d(BatchNorm):
    """y = γ (x - μ) / √(σ² + ε) + β, with μ and σ² of each capsule over the batch and all voxels.

    Shapes: (batch, channels, depth, height, width) or (batch, channels) → the same. Arguments are those of
    :class:`BatchNorm2d`.
    """

    axes = 3


def _compiled() -> bool:
    """Whether torch.compile is at work, which accepts our operators; torch.export must see only torch's own."""
    return torch.compiler.is_compiling() and not is_exported()
