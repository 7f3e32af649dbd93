"""A trained network for other programs: one ONNX file, or a folder of safetensors and JSON."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

import torch
from torch import Tensor, nn

from steerable import nn as snn
from steerable.atomic import folder_in_place, write_bytes, write_json
from steerable.extras import require
from steerable.training.trained_model import TrainedModel

__all__ = ["check_onnx", "export_onnx", "export_safetensors"]

LARGEST_ONNX = 1_900_000_000  # bytes of weights; the format's limit for all of a file is 2 GB


class _Deployed(nn.Module):
    """uint8 images (batch, channels, size, size) → class scores and probabilities, by torch's own modules only."""

    def __init__(self, trained: TrainedModel) -> None:
        super().__init__()
        self.normalisation = trained.normalisation
        self.network = snn.to_plain(trained.model)

    def forward(self, images: Tensor) -> tuple[Tensor, Tensor]:
        scores: Tensor = self.network(self.normalisation(images))
        return scores, scores.softmax(1)


def export_onnx(trained: TrainedModel, path: str | Path) -> Path:
    """Write one ONNX file that takes bytes and gives probabilities.

    Its input ``images`` is uint8, (batch, channels, size, size), any batch: pixels 0 to 255 as they come from a file,
    already cut to the middle square and resized, as :func:`~steerable.data.images.read_squares` does it; that part
    is not in the file. Scaling and normalisation are. Its outputs are ``scores`` and ``probabilities``, (batch,
    classes). The metadata of the model hold ``classes`` (a JSON list, in the order of the outputs), ``image_size`` and
    ``channels``.
    """
    check_onnx()
    path = Path(path).expanduser()
    if path.is_dir():
        raise IsADirectoryError(f"{path} is a folder, expected the name of a file such as {path / 'model.onnx'}.")
    deployed = _Deployed(trained).eval()
    if (size := sum(value.nbytes for value in deployed.state_dict().values())) > LARGEST_ONNX:
        raise ValueError(
            f"the network's weights take {size / 1e9:.1f} GB, and an ONNX file holds less than 2 GB. Export it as "
            "safetensors."
        )
    example = torch.zeros(2, trained.channels, trained.image_size, trained.image_size, dtype=torch.uint8)
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        # torch.onnx's advice about its own inner workings.
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                deployed,
                (example,),
                dynamo=True,
                verbose=False,
                input_names=["images"],
                output_names=["scores", "probabilities"],
                dynamic_shapes={"images": {0: torch.export.Dim("batch", min=1)}},
            )
        finally:
            logger.setLevel(level)
    if program is None:
        raise RuntimeError("torch.onnx.export gave no program.")
    program.model.metadata_props.update(
        {
            "classes": json.dumps(list(trained.classes), ensure_ascii=False),
            "image_size": str(trained.image_size),
            "channels": str(trained.channels),
        }
    )
    write_bytes(path, program.model_proto.SerializeToString())
    return path


def export_safetensors(trained: TrainedModel, folder: str | Path) -> Path:
    """Write a folder with weights, config, normalisation and class names, which ``TrainedModel.load`` reads again.

    ``ResNet.from_pretrained(folder)`` reads the network alone.
    """
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists already; choose another folder, or remove it first.")
    with folder_in_place(folder) as aside:
        trained.model.save_pretrained(aside)  # type: ignore[operator]
        trained.normalisation.save(aside / "normalisation.safetensors")
        write_json(
            aside / "images.json",
            {
                "classes": list(trained.classes),
                "image_size": trained.image_size,
                "channels": trained.channels,
                "model": trained.model_config,
            },
        )
    return folder


def check_onnx() -> None:
    """Say how to install what ONNX needs, where it is not there."""
    require("onnx", "onnxscript", purpose="writing ONNX")
