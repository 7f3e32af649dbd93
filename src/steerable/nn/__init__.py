"""Equivariant layers: plain tensors through plain modules, with types that are checked when a network is built."""

from steerable.lazy import public_names
from steerable.nn import init
from steerable.nn.acceleration import accelerate
from steerable.nn.activations import (
    ELU,
    GELU,
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
from steerable.nn.adaptive_pooling import (
    AdaptiveAvgPool2d,
    AdaptiveAvgPool3d,
    AdaptiveMaxPool2d,
    AdaptiveMaxPool3d,
    GlobalAvgPool,
    GlobalMaxPool,
)
from steerable.nn.basis_change import FromIrreps, ToIrreps
from steerable.nn.batch_norm import BatchNorm2d, BatchNorm3d
from steerable.nn.blur_pooling import BlurPool2d, BlurPool3d
from steerable.nn.concatenated import Concatenated, CReLU
from steerable.nn.containers import Concat, Parallel, Residual, Sequential
from steerable.nn.conv import Conv2d, Conv3d
from steerable.nn.conv_transpose import ConvTranspose2d, ConvTranspose3d
from steerable.nn.disk_mask import DiskMask
from steerable.nn.dropout import Dropout, Dropout2d, Dropout3d
from steerable.nn.fourier_activation import Fourier
from steerable.nn.group_norm import GroupNorm
from steerable.nn.identity import Identity
from steerable.nn.instance_norm import InstanceNorm2d, InstanceNorm3d
from steerable.nn.invariants import CosetPool, GroupPool
from steerable.nn.layer_norm import LayerNorm
from steerable.nn.linear import Linear
from steerable.nn.module import EquivariantModule
from steerable.nn.network_backends import choose_backends, recorded_backends, use_backends
from steerable.nn.norm_activations import Activation, Gated, NormActivation, NormReLU
from steerable.nn.parameter_groups import parameter_groups
from steerable.nn.plain import to_plain
from steerable.nn.pooling import AvgPool2d, AvgPool3d, MaxPool2d, MaxPool3d, NormMaxPool2d, NormMaxPool3d
from steerable.nn.resampling import Upsample
from steerable.nn.restrict import Restrict
from steerable.nn.sampling import EquivarianceWarning
from steerable.nn.selection import Select
from steerable.nn.subgroup_pool import SubgroupPool
from steerable.nn.tensor_product import TensorProduct
from steerable.nn.torch_tools import convert_sync_batchnorm

__dir__ = public_names(__name__)

__all__ = [
    "ELU",
    "GELU",
    "Activation",
    "AdaptiveAvgPool2d",
    "AdaptiveAvgPool3d",
    "AdaptiveMaxPool2d",
    "AdaptiveMaxPool3d",
    "AvgPool2d",
    "AvgPool3d",
    "BatchNorm2d",
    "BatchNorm3d",
    "BlurPool2d",
    "BlurPool3d",
    "CReLU",
    "Concat",
    "Concatenated",
    "Conv2d",
    "Conv3d",
    "ConvTranspose2d",
    "ConvTranspose3d",
    "CosetPool",
    "DiskMask",
    "Dropout",
    "Dropout2d",
    "Dropout3d",
    "EquivarianceWarning",
    "EquivariantModule",
    "Fourier",
    "FromIrreps",
    "Gated",
    "GlobalAvgPool",
    "GlobalMaxPool",
    "GroupNorm",
    "GroupPool",
    "Hardtanh",
    "Identity",
    "InstanceNorm2d",
    "InstanceNorm3d",
    "LayerNorm",
    "LeakyReLU",
    "Linear",
    "MaxPool2d",
    "MaxPool3d",
    "NormActivation",
    "NormMaxPool2d",
    "NormMaxPool3d",
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
    "SubgroupPool",
    "Tanh",
    "TensorProduct",
    "ToIrreps",
    "Upsample",
    "accelerate",
    "choose_backends",
    "convert_sync_batchnorm",
    "init",
    "parameter_groups",
    "recorded_backends",
    "to_plain",
    "use_backends",
]
