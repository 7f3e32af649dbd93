"""A trained network for other programs: one ONNX file, or a folder of safetensors and JSON."""

from __future__ import annotations

import json
import logging
import warnings
from pathlib import Path

import torch

from steerable.atomic import check_new_file, check_place, folder_in_place, write_bytes
from steerable.extras import require
from steerable.training.trained_networks.deployed import Deployed
from steerable.training.trained_networks.model_facts import facts_in, save_network
from steerable.training.trained_networks.trained_model import TrainedModel
from steerable.training.trained_networks.trained_segmenter import TrainedSegmenter

__all__ = ["check_new_folder", "check_onnx", "export_onnx", "export_safetensors"]

LARGEST_ONNX = 1_900_000_000  # bytes of weights; the format's limit for all of a file is 2 GB


def export_onnx(trained: TrainedModel, path: str | Path) -> Path:
    """Write one ONNX file that takes images and gives probabilities.

    Its input ``images`` is (batch, channels, size, size), any batch, or (batch, channels, size, size, size) for
    volumes: pixels as they come from a file, already cut to the middle square or cube and resized, as
    :func:`~steerable.data.images.read_squares` does it; that part is not in the file. They are uint8, 0 to 255, or
    float32 where the network was trained on counts, such as those of 16-bit images. Scaling and normalisation are in
    the file. Its outputs are ``scores`` and ``probabilities``, (batch, classes). The metadata of the model hold
    ``classes`` (a JSON list, in the order of the outputs), ``image_size``, ``channels`` and ``pixels`` (JSON: the depth
    of the image files, the pages and channels that are used, and the counts that the network takes for 0 and 255; null
    where nothing is known about files).

    A network that segments takes images (batch, channels, height, width) of any size, and its outputs are (batch,
    classes, height, width). Where the run stretched images to their own ranges, so that ``stretch`` in ``pixels`` is
    above 0, the file does that, too: it takes whole images then, since a tile has another range than its image.

    A network that was trained on numbered objects gives the classes background, inside and boundary to each pixel, and
    a third output, ``vectors`` (batch, 2, height, width): to the right and up, from the pixel to the centre of its
    object, in the object's radius. :func:`~steerable.data.instance_growing.grown_instances` makes objects of them.
    """
    check_onnx()
    path = Path(path).expanduser()
    check_new_file(path, "model.onnx")
    deployed = Deployed(trained).eval()
    if (size := sum(value.nbytes for value in deployed.state_dict().values())) > LARGEST_ONNX:
        raise ValueError(
            f"the network's weights take {size / 1e9:.1f} GB, and an ONNX file holds less than 2 GB. Export it as "
            "safetensors."
        )
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    with warnings.catch_warnings():
        # torch.onnx's advice about its own inner workings.
        warnings.simplefilter("ignore")
        logger.setLevel(logging.ERROR)
        try:
            program = torch.onnx.export(
                deployed,
                (deployed.example,),
                dynamo=True,
                verbose=False,
                input_names=["images"],
                output_names=deployed.outputs,
                dynamic_shapes={"images": deployed.free_axes},
            )
        finally:
            logger.setLevel(level)
    if program is None:
        raise RuntimeError("torch.onnx.export returned no program.")
    program.model.metadata_props.update(
        {
            "classes": json.dumps(list(deployed.classes), ensure_ascii=False),
            "image_size": str(trained.image_size),
            "channels": str(trained.channels),
            "pixels": json.dumps(trained.pixels.to_dict() if trained.pixels.depth else None),
        }
    )
    write_bytes(path, program.model_proto.SerializeToString())
    return path


def export_safetensors(trained: TrainedModel, folder: str | Path, *, licence: str | None = None) -> Path:
    """Write a folder with weights, config, normalisation, class names and a model card.

    ``TrainedModel.load(folder)`` reads it again, and ``ResNet.from_pretrained(folder)`` the network alone.

    Args:
        trained: the network.
        folder: the folder, new or empty.
        licence: the licence that you give to the network, for its model card; by default the card names none.
    """
    folder = Path(folder).expanduser()
    check_new_folder(folder)
    images = {
        "classes": list(trained.classes),
        "image_size": trained.image_size,
        "channels": trained.channels,
        "pixels": trained.pixels.to_dict() if trained.pixels.depth else None,
        "model": trained.model_config,
    }
    if isinstance(trained, TrainedSegmenter):
        images |= {"masks": trained.answer.kind, "mask_values": list(trained.mask_values)}
    with folder_in_place(folder) as aside:
        facts = facts_in(trained.folder if trained.config is None else trained.folder / "model")
        save_network(trained.model, aside, trained.normalisation, images=images, facts=facts, licence=licence)
    return folder


def check_new_folder(folder: Path) -> None:
    """Refuse a folder that cannot be written, before anything is read, so that nobody waits for nothing."""
    folder = folder.expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists already; choose another folder, or remove it first.")
    check_place(folder)


def check_onnx() -> None:
    """Say how to install what ONNX needs, if it is missing."""
    require("onnx", "onnxscript", purpose="writing ONNX")
