"""Models as a folder of two files: weights in safetensors, and a JSON config that says how to build the network.

Loading never unpickles anything: the config names a model of this library and its arguments. Weights are saved with
their SHA-256, and compared with it when they are read.
"""

from __future__ import annotations

import hashlib
import json
import re
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, overload

import torch
from torch import Tensor

from steerable.atomic import make_folder, naming_full_disk, write_bytes
from steerable.errors import frames_to_caller
from steerable.extras import missing
from steerable.models.levels import FeatureMaps

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
            push_to_hub = generate_model_card = save_pretrained


__all__ = [
    "WEIGHTS",
    "SavedModel",
    "is_hub_name",
    "local_folder",
    "place_of_weights",
    "read_config",
    "read_tensors",
    "tensor_digest",
    "warn_of_normalisation",
    "write_tensors",
]

WEIGHTS = "model.safetensors"
NORMALISATION = "normalisation.safetensors"
_HUB_NAME = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")


CARD = """---
{{ card_data }}
---

# {{ name }}

A `{{ name }}` of `steerable`, a library of [equivariant networks](https://arxiv.org/abs/1612.08498), with
{{ parameters }} parameters. `config.json` says how it is built.

Licence: {{ licence }}

```python
from steerable.models import {{ name }}

network = {{ name }}.from_pretrained("FOLDER")
```
"""
"""The model card beside saved weights. What the data were, and whose they are, only the author knows."""


class SavedModel(
    PyTorchModelHubMixin,
    library_name="steerable",
    tags=["steerable-cnn", "equivariance"],
    model_card_template=CARD,
):
    """``save_pretrained(folder)``, ``from_pretrained(folder or hub name)`` and ``push_to_hub(name)`` for a model.

    The arguments of ``__init__`` become the config; they must be plain numbers and text. Weights that do not fit the
    network of the config are an error.
    """

    @overload
    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        strict: bool = ...,
        features_only: Literal[False] = ...,
        **options: Any,
    ) -> Self: ...

    @overload
    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        strict: bool = ...,
        features_only: Literal[True],
        **options: Any,
    ) -> FeatureMaps: ...

    @classmethod
    def from_pretrained(
        cls,
        pretrained_model_name_or_path: str | Path,
        *,
        strict: bool = True,
        features_only: bool = False,
        **options: Any,
    ) -> Self | FeatureMaps:
        """The network that ``save_pretrained`` wrote to a folder, or ``push_to_hub`` to the hub.

        The network alone: one that was trained by ``steerable train`` takes normalised images, which
        :class:`~steerable.training.TrainedModel` makes of bytes; a warning says so.

        Args:
            pretrained_model_name_or_path: the folder, or a run folder with the folder ``model`` in it, or a name of the
                hub's form, ``owner/name``. No server is asked for other names.
            strict: whether weights that are missing, or belong to another network, are an error.
            features_only: whether to leave out the head, and return a :class:`~steerable.models.FeatureMaps`.
            **options: what huggingface_hub's mixin takes.
        """
        place = place_of_weights(pretrained_model_name_or_path)
        if isinstance(place, Path):
            warn_of_normalisation(f"{cls.__name__}.from_pretrained", place)
        network = cls.network_in(place, strict=strict, **options)
        return network.feature_maps() if features_only else network

    @classmethod
    def network_in(cls, place: Path | str, *, strict: bool = True, **options: Any) -> Self:
        """The network in a folder that is known to hold one, or on the hub."""
        try:
            found: Self = super().from_pretrained(place, strict=strict, **options)
        except RuntimeError as error:
            if "loading state_dict" not in str(error):  # no GPU, for instance
                raise
            raise RuntimeError(
                f"the saved weights are not those of the {cls.__name__} in its config. Load them with the class that "
                f"saved them, and with its own config.json. {error}"
            ) from error
        return found

    def feature_maps(self) -> FeatureMaps:
        """The network without its head: a module that gives the feature maps of every level, with their types."""
        raise TypeError(
            f"{type(self).__name__} is a plain network, whose channels have no types, so that its feature maps have "
            "none either. Take those of resnet, wide_resnet or unet."
        )

    def save_pretrained(self, save_directory: str | Path, *, licence: str | None = None, **options: Any) -> str | None:
        """Write weights, config and a model card into a folder.

        Args:
            save_directory: the folder.
            licence: the licence that you give to your model, for its card: ``"mit"``, ``"cc-by-4.0"``. By default the
                card names none.
            **options: what huggingface_hub's mixin takes.
        """
        folder = Path(save_directory)
        if licence is not None:
            options["model_card_kwargs"] = {**(options.get("model_card_kwargs") or {}), "licence": licence}
        with naming_full_disk(folder):
            make_folder(folder)  # huggingface_hub would make it, but does not say what is in the way
            url: str | None = super().save_pretrained(save_directory, **options)
        return url

    def _save_pretrained(self, save_directory: Path) -> None:
        write_tensors(save_directory / WEIGHTS, self.state_dict())  # type: ignore[attr-defined]

    def generate_model_card(self, *arguments: Any, licence: str | None = None, **options: Any) -> Any:
        """The text beside the weights; the licence is what the author says, else none."""
        stated = licence or "not stated. It is for the author of this model to choose one."
        size = sum(p.numel() for p in self.parameters())  # type: ignore[attr-defined]
        about = {"name": type(self).__name__, "parameters": f"{size:,}", "licence": stated}
        card = super().generate_model_card(*arguments, **about, **options)
        if licence is not None:
            card.data["license"] = licence  # as the hub spells the field
        return card

    @classmethod
    def _load_as_safetensor(cls, model: Any, model_file: str, map_location: str, strict: bool) -> Any:
        model.load_state_dict(read_tensors(Path(model_file), map_location), strict=strict)
        return model

    @classmethod
    def _load_as_pickle(cls, *arguments: Any, **options: Any) -> NoReturn:
        raise ValueError(
            f"a model's weights are read from `{WEIGHTS}` only. Ask its author to save them as safetensors."
        )


def place_of_weights(name: str | Path) -> Path | str:
    """The folder with the weights, which may be the folder ``model`` of a run; else a name of the hub's form.

    A name such as ``runs/x`` has that form as well: where there is a folder ``runs``, it is looked for there only.
    """
    folder = Path(name).expanduser()
    for place in (folder, folder / "model"):
        if (place / WEIGHTS).is_file():
            return place
    if folder.is_dir():
        raise FileNotFoundError(
            f"the folder `{folder}` has no `{WEIGHTS}`, and no folder `model` with one: nothing was saved there, or "
            "its run has not finished. Finish a run with the command that started it."
        )
    if not is_hub_name(name):
        raise FileNotFoundError(
            f"there is no folder `{folder}`. Give a folder that `save_pretrained` or `steerable train` wrote, or a "
            "model of the hub by its name, `owner/name`."
        )
    return str(name)


def warn_of_normalisation(caller: str, place: Path) -> None:
    """Say that a network takes normalised images, where a run has saved it with its normalisation."""
    if (place / NORMALISATION).is_file():
        warnings.warn(
            f"{caller} gives the network of `{place}` alone, without the normalisation that it was trained with. "
            f"`steerable.training.TrainedModel.load({str(place)!r})` takes images of bytes and applies it.",
            stacklevel=frames_to_caller(),
        )


def read_config(folder: Path) -> dict[str, Any]:
    """The options of the network in a folder."""
    path = folder / "config.json"
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`, which says what the weights are of.")
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"`{path}` cannot be read as JSON: {error}.") from error
    if not isinstance(found, dict):
        raise ValueError(f"`{path}` does not hold the options of a network. Save the network again.")
    return found


def is_hub_name(name: str | Path) -> bool:
    """Whether a name is one of the hub, ``owner/name``, and not that of a folder, or of one beside other folders."""
    folder = Path(name).expanduser()
    of_hub = isinstance(name, str) and _HUB_NAME.fullmatch(name) is not None
    return of_hub and not folder.exists() and not folder.parent.is_dir()


def local_folder(name: str | Path, **options: Any) -> Path:
    """The folder with the weights, downloaded first where the name is one of the hub.

    Args:
        name: see :func:`place_of_weights`.
        **options: what ``huggingface_hub.snapshot_download`` takes, such as ``revision``.
    """
    place = place_of_weights(name)
    if isinstance(place, Path):
        return place
    try:
        from huggingface_hub import snapshot_download
        from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError
    except ImportError as error:
        raise missing("huggingface_hub", "models of the hub") from error
    try:
        found = Path(snapshot_download(place, **options))
    except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
        reason = " ".join(str(error).split())
        raise FileNotFoundError(
            f"there is no folder `{place}` here, and the hub has not given a model of that name: {reason} Check the "
            "name, and your connection."
        ) from error
    return place_of_weights(found)  # type: ignore[return-value]


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file that appears whole or not at all, with the SHA-256 of the tensors among its metadata."""
    from safetensors.torch import save

    # Copies: tensors that share memory, or lie in it in another order, cannot be saved as they are.
    copies = {
        name: value.detach().to("cpu", copy=True, memory_format=torch.contiguous_format)
        for name, value in tensors.items()
    }
    write_bytes(path, _in_order(save(copies, metadata={"format": "pt", "sha256": tensor_digest(copies)})))


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
