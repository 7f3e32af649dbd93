"""The precision in which torch carries out a convolution here and now."""

from __future__ import annotations

import torch
from torch import Tensor

__all__ = ["dtype_in_use", "products_in_tf32", "tf32_allowed"]


def dtype_in_use(x: Tensor) -> torch.dtype:
    """The dtype that a convolution of x is carried out in: autocast may have changed it."""
    device = x.device.type
    cast = torch.is_autocast_enabled(device) and x.dtype != torch.float64
    return torch.get_autocast_dtype(device) if cast else x.dtype


def tf32_allowed(device: torch.device) -> bool:
    """Whether a dense convolution of float32 there would be carried out in TF32, which is torch's default."""
    if device.type != "cuda" or torch.version.cuda is None or not torch.backends.cudnn.enabled:
        return False
    precision: str = torch.backends.cudnn.conv.fp32_precision  # type: ignore[attr-defined]
    return precision == "tf32" and torch.cuda.get_device_capability(device) >= (8, 0)


def products_in_tf32() -> bool:
    """Whether a product of float32 matrices on a GPU may be carried out in TF32."""
    return bool(torch.backends.cuda.matmul.fp32_precision == "tf32")
