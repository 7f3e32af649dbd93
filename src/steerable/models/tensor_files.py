"""Tensors as safetensors files, written completely or not at all, with a SHA-256 that is checked."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

import torch
from torch import Tensor

from steerable.atomic import write_bytes

__all__ = ["read_tensors", "tensor_bytes", "tensor_digest", "write_tensors"]


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file completely or not at all, with the tensors' SHA-256 among its metadata."""
    write_bytes(path, tensor_bytes(tensors))


def tensor_bytes(tensors: Mapping[str, Tensor]) -> bytes:
    """A safetensors file, the same bytes for the same tensors."""
    from safetensors.torch import save

    # Copies: tensors that share memory, or lie in it in another order, cannot be saved as they are.
    copies = {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    return _in_order(save(copies, metadata={"format": "pt", "sha256": tensor_digest(copies)}))


def _in_order(file: bytes) -> bytes:
    """A safetensors file with its metadata sorted: the library writes them in another order every time.

    The file begins with the length of its header in eight bytes, and the header is JSON, filled up with spaces.
    """
    length = int.from_bytes(file[:8], "little")
    header = json.loads(file[8 : 8 + length])
    header["__metadata__"] = dict(sorted(header["__metadata__"].items()))
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    return file[:8] + text.ljust(length) + file[8 + length :]


def read_tensors(path: Path, device: str = "cpu") -> dict[str, Tensor]:
    """The tensors that :func:`write_tensors` wrote, checked by their SHA-256; other programs' files have none."""
    from safetensors import SafetensorError, safe_open

    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`. Give the folder that `save_pretrained` wrote.")
    try:
        with safe_open(path, "pt", device=device) as file:
            tensors: dict[str, Tensor] = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
            known = (file.metadata() or {}).get("sha256")
    except SafetensorError as error:
        raise ValueError(
            f"`{path}` cannot be read as safetensors: {error}. It is damaged, or not such a file."
        ) from error
    if known is not None and known != tensor_digest(tensors):
        raise ValueError(f"`{path}` is damaged: its tensors do not have the checksum that they were saved with.")
    return tensors


def tensor_digest(tensors: Mapping[str, Tensor]) -> str:
    """A digest of names, shapes, dtypes and bytes, whatever their order."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].cpu().contiguous()
        found.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return found.hexdigest()
