"""Networks: residual ones, the paper's and wide ones with a group per stage, U-Nets, and plain ones to compare with.

Each name is imported when it is first used, so that the names of models are known without torch.
"""

from typing import TYPE_CHECKING

from steerable.lazy import lazy_names

if TYPE_CHECKING:
    from steerable.models.converted_networks import load_converted, save_converted
    from steerable.models.factory import create, feature_maps, from_pretrained
    from steerable.models.levels import FeatureMaps
    from steerable.models.plain_resnets import PlainResNet, plain_resnet, plain_width
    from steerable.models.plain_unets import PlainUNet, plain_unet, plain_unet_width
    from steerable.models.plain_wide_resnets import PlainWideResNet, plain_wide_resnet
    from steerable.models.registry import MODELS, build_model
    from steerable.models.resnets import ResNet, resnet
    from steerable.models.tiling import Tiling, predict_in_tiles
    from steerable.models.unets import UNet, unet
    from steerable.models.wide_resnets import WideResNet, wide_resnet

__getattr__, __dir__ = lazy_names(
    __name__,
    {
        "steerable.models.converted_networks": ("load_converted", "save_converted"),
        "steerable.models.factory": ("create", "feature_maps", "from_pretrained"),
        "steerable.models.levels": ("FeatureMaps",),
        "steerable.models.plain_resnets": ("PlainResNet", "plain_resnet", "plain_width"),
        "steerable.models.plain_unets": ("PlainUNet", "plain_unet", "plain_unet_width"),
        "steerable.models.plain_wide_resnets": ("PlainWideResNet", "plain_wide_resnet"),
        "steerable.models.registry": ("MODELS", "build_model"),
        "steerable.models.resnets": ("ResNet", "resnet"),
        "steerable.models.tiling": ("Tiling", "predict_in_tiles"),
        "steerable.models.unets": ("UNet", "unet"),
        "steerable.models.wide_resnets": ("WideResNet", "wide_resnet"),
    },
)

__all__ = [
    "MODELS",
    "FeatureMaps",
    "PlainResNet",
    "PlainUNet",
    "PlainWideResNet",
    "ResNet",
    "Tiling",
    "UNet",
    "WideResNet",
    "build_model",
    "create",
    "feature_maps",
    "from_pretrained",
    "load_converted",
    "plain_resnet",
    "plain_unet",
    "plain_unet_width",
    "plain_wide_resnet",
    "plain_width",
    "predict_in_tiles",
    "resnet",
    "save_converted",
    "unet",
    "wide_resnet",
]
