"""Models as a folder of two files: weights in safetensors, and a JSON config that says how to build the network.

Loading never unpickles anything: the config names a model of this library and its arguments.
"""

from __future__ import annotations

try:
    from huggingface_hub import PyTorchModelHubMixin
except ImportError as error:
    raise ImportError(
        "steerable.models saves and loads with huggingface_hub and safetensors. Install them with "
        "pip install 'steerable[training]'."
    ) from error

__all__ = ["SavedModel"]


class SavedModel(
    PyTorchModelHubMixin, library_name="steerable", tags=["steerable-cnn", "equivariance"], license="apache-2.0"
):
    """``save_pretrained(folder)``, ``from_pretrained(folder or hub name)`` and ``push_to_hub(name)`` for a model.

    The arguments of ``__init__`` become the config; they must be plain numbers and text.
    """
