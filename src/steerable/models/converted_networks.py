"""Converted networks as a folder of two files: weights in safetensors, and the request to ``convert`` in JSON.

The layout of a converted network is that of a plain one, which only its own Python code knows. So the folder is read
together with the plain network: that is converted again in the same way, and gets the saved weights. Nothing is
unpickled.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from torch import nn

from steerable.atomic import folder_in_place, write_json
from steerable.conversion import Converted, convert
from steerable.errors import expect
from steerable.models.places import WEIGHTS
from steerable.models.tensor_files import read_tensors, write_tensors

__all__ = ["load_converted", "save_converted"]

CONFIG = "converted.json"


def save_converted(network: Converted, folder: str | Path) -> Path:
    """Write a network that :func:`~steerable.convert` made into a new folder, which :func:`load_converted` reads.

    Args:
        network: the converted network.
        folder: the folder, new or empty.
    """
    expect(network, Converted, "a network that `convert` made")
    if network.request is None:
        raise ValueError(
            "this network was converted with a function for `mix`, or over a group without a name, neither of which a "
            "file can hold. Convert it with a mix as text, such as 'regular + qm', or save its state_dict."
        )
    folder = Path(folder).expanduser()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise FileExistsError(f"{folder} exists already; choose another folder, or remove it first.")
    with folder_in_place(folder) as aside:
        write_tensors(aside / WEIGHTS, network.state_dict())
        write_json(aside / CONFIG, {"plain": network.plain_name, "convert": network.request})
    return folder


def load_converted(folder: str | Path, model: nn.Module) -> Converted:
    """The converted network that :func:`save_converted` wrote.

    Args:
        folder: what was written.
        model: the plain network that was converted, with any weights; it is not changed.

    >>> import tempfile, torch
    >>> plain = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 2))
    >>> net = convert(plain, "D4")
    >>> with tempfile.TemporaryDirectory() as place:
    ...     again = load_converted(save_converted(net, place), plain)
    >>> x = torch.randn(1, 3, 8, 8)
    >>> torch.equal(net(x), again(x))
    True
    """
    expect(model, nn.Module, "the plain network that was converted")
    folder = Path(folder).expanduser()
    config = folder / CONFIG
    if not config.is_file():
        raise FileNotFoundError(f"there is no file `{config}`. Give the folder that `save_converted` wrote.")
    about = _about(config)
    network = convert(model, **about["convert"])
    tensors = read_tensors(folder / WEIGHTS)
    own = network.state_dict()
    differing = sorted(
        k for k in {*own, *tensors} if k not in own or k not in tensors or own[k].shape != tensors[k].shape
    )
    if differing:
        raise ValueError(
            f"the weights in `{folder}` are those of a converted {about['plain']}, and this {type(model).__name__} has "
            f"other tensors, `{differing[0]}` for one. Give the plain network with the layout that was saved."
        )
    network.load_state_dict(tensors)
    return network


def _about(config: Path) -> dict[str, Any]:
    try:
        about = json.loads(config.read_text("utf-8"))
        if not isinstance(about["convert"], dict) or not isinstance(about["plain"], str):
            raise TypeError
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(
            f"`{config}` is damaged: it does not say which network was converted. Save the network again."
        ) from error
    return dict(about)
