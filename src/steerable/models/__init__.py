"""Networks: the paper's residual network, a U-Net with typed outputs, and plain ones to compare with.

Each name is imported when it is first used, so that the names of models are known without torch.
"""

from typing import TYPE_CHECKING

from steerable.lazy import lazy_names

if TYPE_CHECKING:
    from steerable.models.converted_networks import load_converted, save_converted
    from steerable.models.plain_resnets import PlainResNet, plain_resnet, plain_width
    from steerable.models.plain_unets import PlainUNet, plain_unet, plain_unet_width
    from steerable.models.registry import MODELS, build_model
    from steerable.models.resnets import ResNet, resnet
    from steerable.models.tiling import Tiling, predict_in_tiles
    from steerable.models.unets import UNet, unet

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "MODELS": "steerable.models.registry",
        "PlainResNet": "steerable.models.plain_resnets",
        "PlainUNet": "steerable.models.plain_unets",
        "ResNet": "steerable.models.resnets",
        "Tiling": "steerable.models.tiling",
        "UNet": "steerable.models.unets",
        "build_model": "steerable.models.registry",
        "load_converted": "steerable.models.converted_networks",
        "plain_resnet": "steerable.models.plain_resnets",
        "plain_unet": "steerable.models.plain_unets",
        "plain_unet_width": "steerable.models.plain_unets",
        "plain_width": "steerable.models.plain_resnets",
        "predict_in_tiles": "steerable.models.tiling",
        "resnet": "steerable.models.resnets",
        "save_converted": "steerable.models.converted_networks",
        "unet": "steerable.models.unets",
    },
)

__all__ = [
    "MODELS",
    "PlainResNet",
    "PlainUNet",
    "ResNet",
    "Tiling",
    "UNet",
    "build_model",
    "load_converted",
    "plain_resnet",
    "plain_unet",
    "plain_unet_width",
    "plain_width",
    "predict_in_tiles",
    "resnet",
    "save_converted",
    "unet",
]
