"""Networks: residual ones, as in the paper and wide ones with a group per stage, U-Nets, and plain ones beside them.

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
        "FeatureMaps": "steerable.models.levels",
        "MODELS": "steerable.models.registry",
        "PlainResNet": "steerable.models.plain_resnets",
        "PlainUNet": "steerable.models.plain_unets",
        "PlainWideResNet": "steerable.models.plain_wide_resnets",
        "ResNet": "steerable.models.resnets",
        "Tiling": "steerable.models.tiling",
        "UNet": "steerable.models.unets",
        "WideResNet": "steerable.models.wide_resnets",
        "build_model": "steerable.models.registry",
        "create": "steerable.models.factory",
        "feature_maps": "steerable.models.factory",
        "from_pretrained": "steerable.models.factory",
        "load_converted": "steerable.models.converted_networks",
        "plain_resnet": "steerable.models.plain_resnets",
        "plain_unet": "steerable.models.plain_unets",
        "plain_unet_width": "steerable.models.plain_unets",
        "plain_wide_resnet": "steerable.models.plain_wide_resnets",
        "plain_width": "steerable.models.plain_resnets",
        "predict_in_tiles": "steerable.models.tiling",
        "resnet": "steerable.models.resnets",
        "save_converted": "steerable.models.converted_networks",
        "unet": "steerable.models.unets",
        "wide_resnet": "steerable.models.wide_resnets",
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
