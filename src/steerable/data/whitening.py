"""ZCA whitening that commutes with turns and mirror images."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

__all__ = ["zca"]


def zca(images: Tensor, mean: Tensor, std: Tensor, epsilon: float) -> tuple[Tensor, Tensor]:
    """(mean, matrix) of whitening, (channels, height, width) and (features, features).

    In a basis of even and odd rows and columns, a covariance averaged over mirror images falls into four blocks.
    """
    channels, height, width = images.shape[1:]
    rows, columns = (_parity_basis(size).to(images.device) for size in (height, width))
    halves = [[slice(0, (size + 1) // 2), slice((size + 1) // 2, size)] for size in (height, width)]
    sectors = [(i, j) for i in (0, 1) for j in (0, 1) if (height > 1 or i == 0) and (width > 1 or j == 0)]
    products: dict[tuple[int, int], Tensor] = {}
    total: Tensor = torch.zeros(channels, height, width, dtype=torch.float64, device=images.device)
    mean, std = mean.view(-1, 1, 1), std.view(-1, 1, 1)
    for chunk in images.split(2048):
        x = rows @ ((chunk.double() / 255 - mean) / std) @ columns.T
        total += x.sum(0)
        for i, j in sectors:
            part = x[:, :, halves[0][i], halves[1][j]]
            moments = (part.flatten(1).T @ part.flatten(1)).view(*part.shape[1:], *part.shape[1:]) / len(images)
            products[i, j] = products[i, j] + moments if (i, j) in products else moments
    if height == width:
        total = (total + total.mT) / 2
        products = {(i, j): (products[i, j] + products[j, i].permute(0, 2, 1, 3, 5, 4)) / 2 for i, j in sectors}
    centre = torch.zeros_like(total)
    centre[:, halves[0][0], halves[1][0]] = total[:, halves[0][0], halves[1][0]] / len(images)  # odd parts average out
    roots = torch.zeros(*2 * (channels, height, width), dtype=torch.float64, device=images.device)
    remaining = torch.zeros((), dtype=torch.float64, device=images.device)
    for i, j in sectors:
        here = (slice(None), halves[0][i], halves[1][j])
        middle = centre[here].flatten()
        variances, directions = torch.linalg.eigh(products[i, j].reshape(len(middle), -1) - torch.outer(middle, middle))
        variances = variances.clamp_min(0)
        remaining += (variances / (variances + epsilon)).sum()
        roots[here + here] = ((directions * (variances + epsilon).rsqrt()) @ directions.T).view_as(roots[here + here])
    # Back to pixels, on both sides: Qᵀ roots Q with Q = rows ⊗ columns, done axis by axis.
    back = columns.T @ (rows.T @ roots.flatten(3).view(channels, height, -1)).view(channels, height, width, -1)
    back = back.view(-1, channels, height, width)
    matrix = (rows.T @ back @ columns).view(total.numel(), -1) / (remaining / total.numel()).clamp_min(1e-12).sqrt()
    scale = std.expand_as(total).flatten()
    return mean + std * (rows.T @ centre @ columns), matrix / scale[:, None]


def _parity_basis(size: int) -> Tensor:
    """(size, size), orthogonal: first the even rows (e_k + e_(size-1-k)) / √2 and the middle, then the odd ones."""
    unit = torch.eye(size, dtype=torch.float64)
    even = (unit + unit.flip(0))[: (size + 1) // 2]
    odd = (unit - unit.flip(0))[: size // 2]
    return F.normalize(torch.cat([even, odd]))
