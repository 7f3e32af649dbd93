"""Models as a folder of two files: weights in safetensors, and a JSON config that says how to build the network.

Loading never unpickles anything: the config names a model of this library and its arguments.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from huggingface_hub import PyTorchModelHubMixin
else:
    try:
        from huggingface_hub import PyTorchModelHubMixin
    except ImportError:

        class PyTorchModelHubMixin:
            """Stands in for the mixin: networks can be built and trained, but not saved as folders."""

            def __init_subclass__(cls, **options: Any) -> None:
                super().__init_subclass__()

            def save_pretrained(self, *arguments: Any, **options: Any) -> None:
                raise ImportError(
                    "saving and loading models needs huggingface_hub and safetensors: pip install "
                    "'steerable[training]'."
                )

            from_pretrained = classmethod(save_pretrained)
            push_to_hub = save_pretrained


__all__ = ["SavedModel"]


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
