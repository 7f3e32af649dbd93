"""Images to normalise and to move: smooth noise, and its eight poses."""

import torch
import torch.nn.functional as F


def images(*shape: int, seed: int = 0) -> torch.Tensor:
    """Smooth random images: neighbouring pixels are correlated, as in photographs."""
    generator = torch.Generator().manual_seed(seed)
    noise = torch.rand(*shape, generator=generator)
    smooth = F.avg_pool2d(noise, 3, 1, 1, count_include_pad=False)
    return (80 + 40 * torch.arange(shape[1]).view(-1, 1, 1) + 100 * (smooth - 0.5)).clamp(0, 255).byte()


def turns(x: torch.Tensor) -> list[torch.Tensor]:
    flipped = (x, x.flip(-1))
    return [y.rot90(k, (-2, -1)) for y in flipped for k in range(4)]
