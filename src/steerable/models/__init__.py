"""Networks: the paper's residual network, and plain ones to compare with."""

from steerable.models.plain import PlainResNet, plain_resnet, plain_width
from steerable.models.registry import MODELS, build_model
from steerable.models.resnet import ResNet, resnet

__all__ = ["MODELS", "PlainResNet", "ResNet", "build_model", "plain_resnet", "plain_width", "resnet"]
