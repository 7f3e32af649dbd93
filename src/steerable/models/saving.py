"""Models as a folder of two files: weights in safetensors, and a JSON config that says how to build the network.

Loading never unpickles anything: the config names a model of this library and its arguments. Weights are saved with
their SHA-256, which is checked when they are read.
"""

from __future__ import annotations

import contextlib
import io
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NoReturn, Self, overload

from steerable.atomic import make_folder, naming_full_disk
from steerable.extras import missing
from steerable.models.cards import TEMPLATE, card_values, evaluation_results, is_ours
from steerable.models.levels import FeatureMaps
from steerable.models.places import HUB_OPTIONS, WEIGHTS, local_folder, read_config, warn_of_normalisation
from steerable.models.tensor_files import read_tensors, write_tensors

if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin
else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ImportError:

        class PyTorchModelHubMixin:
            """Replaces the mixin: networks can be built and trained, but not saved as folders."""

            def __init_subclass__(cls, **options: Any) -> None:
                super().__init_subclass__()

            def save_pretrained(self, *arguments: Any, **options: Any) -> None:
                raise missing("huggingface_hub", "saving and loading models")

            from_pretrained = classmethod(save_pretrained)
            push_to_hub = generate_model_card = save_pretrained


__all__ = ["SavedModel"]


class SavedModel(
    PyTorchModelHubMixin,
    library_name="steerable",
    tags=["steerable-cnn", "equivariance"],
    model_card_template=TEMPLATE,
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
                hub's form, ``owner/name``. Other names are not looked up on any server.
            strict: whether weights that are missing, or belong to another network, are an error.
            features_only: whether to leave out the head, and return a :class:`~steerable.models.FeatureMaps`.
            **options: what huggingface_hub's mixin takes, such as ``revision``.
        """
        of_hub = {key: options.pop(key) for key in HUB_OPTIONS if key in options}
        place = local_folder(pretrained_model_name_or_path, **of_hub)
        warn_of_normalisation(f"{cls.__name__}.from_pretrained", place)
        network = cls.network_in(place, strict=strict, **options)
        return network.feature_maps() if features_only else network

    @classmethod
    def network_in(cls, place: Path | str, *, strict: bool = True, **options: Any) -> Self:
        """The network in a folder that is known to hold one."""
        read_config(Path(place))  # huggingface_hub builds a network without options where it cannot be read
        try:
            with contextlib.redirect_stdout(io.StringIO()):  # huggingface_hub prints a line
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
            f"{type(self).__name__} is a plain network, whose channels have no types, so its feature maps have "
            "none either. Take those of resnet, wide_resnet or unet."
        )

    def save_pretrained(
        self,
        save_directory: str | Path,
        *,
        licence: str | None = None,
        facts: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> str | None:
        """Write weights, config and a model card into a folder; a card that somebody has edited is kept.

        Args:
            save_directory: the folder.
            licence: the licence that you give to your model, for its card: ``"mit"``, ``"cc-by-4.0"``. By default the
                card names none.
            facts: what is known of its data and figures, for the card; a run gives them.
            **options: what huggingface_hub's mixin takes.
        """
        folder = Path(save_directory)
        about = {"licence": licence, "facts": facts, **(options.get("model_card_kwargs") or {})}
        with naming_full_disk(folder):
            make_folder(folder)  # huggingface_hub would make it, but does not say what is in the way
            if is_ours(folder / "README.md"):
                (folder / "README.md").unlink()
            url: str | None = super().save_pretrained(save_directory, **{**options, "model_card_kwargs": about})
        return url

    def _save_pretrained(self, save_directory: Path) -> None:
        write_tensors(save_directory / WEIGHTS, self.state_dict())  # type: ignore[attr-defined]

    def generate_model_card(
        self, *arguments: Any, licence: str | None = None, facts: Mapping[str, Any] | None = None, **options: Any
    ) -> Any:
        """The text beside the weights; it has a licence only if the author gives one."""
        facts = facts or {}
        card = super().generate_model_card(*arguments, **card_values(self, facts, licence), **options)  # type: ignore[arg-type]
        header: Any = card.data
        if licence is not None:
            header.license = licence  # as the hub spells the field
        if results := evaluation_results(facts):
            header.model_name, header.eval_results = type(self).__name__, results
            header.pipeline_tag = results[0].task_type
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
