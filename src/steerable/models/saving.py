"""Models as a folder of two files: weights in safetensors, and a JSON config that says how to build the network.

Loading never unpickles anything: the config names a model of this library and its arguments. Weights are saved with
their SHA-256, and compared with it when they are read.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Self

import torch
from torch import Tensor

from steerable.atomic import make_folder, naming_full_disk, write_bytes
from steerable.extras import missing

if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin
else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ImportError:

        class PyTorchModelHubMixin:
            """Takes the place of the mixin: networks can be built and trained, but not saved as folders."""

            def __init_subclass__(cls, **options: Any) -> None:
                super().__init_subclass__()

            def save_pretrained(self, *arguments: Any, **options: Any) -> None:
                raise missing("huggingface_hub", "saving and loading models")

            from_pretrained = classmethod(save_pretrained)
            push_to_hub = save_pretrained


__all__ = ["SavedModel", "read_tensors", "write_tensors"]

WEIGHTS = "model.safetensors"


class SavedModel(
    PyTorchModelHubMixin, library_name="steerable", tags=["steerable-cnn", "equivariance"], license="apache-2.0"
):
    """``save_pretrained(folder)``, ``from_pretrained(folder or hub name)`` and ``push_to_hub(name)`` for a model.

    The arguments of ``__init__`` become the config; they must be plain numbers and text. Weights that do not fit the
    network of the config are an error.
    """

    @classmethod
    def from_pretrained(cls, *arguments: Any, strict: bool = True, **options: Any) -> Self:
        """The network that ``save_pretrained`` wrote to a folder, or ``push_to_hub`` to the hub.

        Args:
            *arguments, **options: the folder or name, and what huggingface_hub's mixin takes.
            strict: whether weights that are missing, or belong to another network, are an error.
        """
        try:
            found: Self = super().from_pretrained(*arguments, strict=strict, **options)
        except RuntimeError as error:
            if "loading state_dict" not in str(error):  # no GPU, for instance
                raise
            raise RuntimeError(
                f"the saved weights are not those of the {cls.__name__} in its config. Load them with the class that "
                f"saved them, and with its own config.json. {error}"
            ) from error
        return found

    def save_pretrained(self, save_directory: str | Path, **options: Any) -> str | None:
        """Write weights, config and a model card into a folder; see huggingface_hub's mixin for the options."""
        folder = Path(save_directory)
        with naming_full_disk(folder):
            make_folder(folder)  # huggingface_hub would make it, but does not say what is in the way
            url: str | None = super().save_pretrained(save_directory, **options)
        return url

    def _save_pretrained(self, save_directory: Path) -> None:
        write_tensors(save_directory / WEIGHTS, self.state_dict())  # type: ignore[attr-defined]

    @classmethod
    def _load_as_safetensor(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:
        model.load_state_dict(read_tensors(Path(model_file), map_location), strict=strict)
        return model

    @classmethod
    def _load_as_pickle(cls, *arguments: Any, **options: Any) -> NoReturn:
        raise ValueError(
            f"a model's weights are read from `{WEIGHTS}` only. Ask its author to save them as safetensors."
        )


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file that appears whole or not at all, with the SHA-256 of the tensors among its metadata."""
    from safetensors.torch import save

    # Copies: tensors that share memory, or lie in it in another order, cannot be saved as they are.
    copies = {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    write_bytes(path, _in_order(save(copies, metadata={"format": "pt", "sha256": _digest(copies)})))


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
    """What :func:`write_tensors` wrote, compared with its SHA-256; a file of another program has none."""
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
    if known is not None and known != _digest(tensors):
        raise ValueError(f"`{path}` is damaged: its tensors do not have the checksum that they were saved with.")
    return tensors


def _digest(tensors: Mapping[str, Tensor]) -> str:
    """A digest of names, shapes, dtypes and bytes, whatever their order."""
    found = hashlib.sha256()
    for name in sorted(tensors):
        value = tensors[name].cpu().contiguous()
        found.update(f"{name}\0{value.dtype}\0{tuple(value.shape)}\0".encode())
        found.update(value.reshape(-1).view(torch.uint8).numpy().data if value.numel() else b"")
    return found.hexdigest()
