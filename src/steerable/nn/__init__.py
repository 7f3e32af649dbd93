"""Equivariant layers: plain tensors through plain modules, with types that are checked when a network is built."""

from steerable.nn import init
from steerable.nn.activations import (
    ELU,
    GELU,
    Concatenated,
    CReLU,
    Hardtanh,
    LeakyReLU,
    Odd,
    Pointwise,
    ReLU,
    Sigmoid,
    SiLU,
    Softplus,
    Softsign,
    Tanh,
)
from steerable.nn.containers import Concat, Parallel, Residual, Sequential
from steerable.nn.conv import Conv2d, ConvTranspose2d
from steerable.nn.invariants import CosetPool, GroupPool
from steerable.nn.linear import Linear
from steerable.nn.module import EquivariantModule
from steerable.nn.network_backends import choose_backends, recorded_backends, use_backends
from steerable.nn.norm_activations import Activation, Gated, NormActivation, NormReLU
from steerable.nn.norms import GroupNorm, LayerNorm
from steerable.nn.plain import to_plain
from steerable.nn.plumbing import DiskMask, Dropout, Dropout2d, FromIrreps, Identity, Restrict, Select, ToIrreps
from steerable.nn.pooling import (
    AdaptiveAvgPool2d,
    AdaptiveMaxPool2d,
    AvgPool2d,
    BlurPool2d,
    GlobalAvgPool,
    GlobalMaxPool,
    MaxPool2d,
    NormMaxPool2d,
)
from steerable.nn.resampling import Upsample
from steerable.nn.sampling import EquivarianceWarning
from steerable.nn.statistics_norms import BatchNorm2d, InstanceNorm2d
from steerable.nn.torch_tools import convert_sync_batchnorm

__all__ = [
    "ELU",
    "GELU",
    "Activation",
    "AdaptiveAvgPool2d",
    "AdaptiveMaxPool2d",
    "AvgPool2d",
    "BatchNorm2d",
    "BlurPool2d",
    "CReLU",
    "Concat",
    "Concatenated",
    "Conv2d",
    "ConvTranspose2d",
    "CosetPool",
    "DiskMask",
    "Dropout",
    "Dropout2d",
    "EquivarianceWarning",
    "EquivariantModule",
    "FromIrreps",
    "Gated",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "GroupPool",
    "Hardtanh",
    "Identity",
    "InstanceNorm2d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "NormActivation",
    "NormMaxPool2d",
    "NormReLU",
    "Odd",
    "Parallel",
    "Pointwise",
    "ReLU",
    "Residual",
    "Restrict",
    "Select",
    "Sequential",
    "SiLU",
    "Sigmoid",
    "Softplus",
    "Softsign",
    "Tanh",
    "ToIrreps",
    "Upsample",
    "choose_backends",
    "convert_sync_batchnorm",
    "init",
    "recorded_backends",
    "to_plain",
    "use_backends",
]
