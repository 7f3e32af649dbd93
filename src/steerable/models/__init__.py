"""Networks: the paper's residual network, a U-Net with typed outputs, and plain ones to compare with."""

from steerable.models.plain import PlainResNet, plain_resnet, plain_width
from steerable.models.plain_unet import PlainUNet, plain_unet, plain_unet_width
from steerable.models.registry import MODELS, build_model
from steerable.models.resnet import ResNet, resnet
from steerable.models.unet import UNet, unet

__all__ = [
    "MODELS",
    "PlainResNet",
    "PlainUNet",
    "ResNet",
    "UNet",
    "build_model",
    "plain_resnet",
    "plain_unet",
    "plain_unet_width",
    "plain_width",
    "resnet",
    "unet",
]
