"""The precision in which torch computes a convolution under the current settings."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dtype_in_use", "products_in_tf32", "tf32_allowed"]


def dtype_in_use(x: Tensor) -> torch.dtype:
    """The dtype in which a convolution of x is computed, which autocast may have changed."""
    device = x.device.type
    cast = torch.is_autocast_enabled(device) and x.dtype != torch.float64
    return torch.get_autocast_dtype(device) if cast else x.dtype


def tf32_allowed(device: torch.device) -> bool:
    """Whether a dense convolution of float32 on that device would use TF32, which is torch's default."""
    if device.type != "cuda" or torch.version.cuda is None or not torch.backends.cudnn.enabled:
        return False
    precision: str = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    return precision == "tf32" and torch.cuda.get_device_capability(device) >= (8, 0)


def products_in_tf32() -> bool:
    """Whether a product of float32 matrices on a GPU may use TF32."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")
