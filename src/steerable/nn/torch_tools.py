"""The interface that torch's tools for batch norms expect, for the norms of this library."""

from __future__ import annotations

from typing import TypeVar

from torch import nn
from torch.nn.modules.batchnorm import _BatchNorm

__all__ = ["KnownToTorch", "convert_sync_batchnorm"]

ModuleT = TypeVar("ModuleT", bound=nn.Module)


class KnownToTorch(_BatchNorm):
    """A base by which torch's tools recognise a layer as a batch norm, as ``swa_utils.update_bn`` does.

    They ask for running statistics, ``momentum`` and ``reset_running_stats``, which mean the same here.
    ``SyncBatchNorm.convert_sync_batchnorm`` asks for ``num_features`` and would put a norm of single channels in the
    layer's place, which is not equivariant.
    """

    __constants__: list[str] = []  # noqa: RUF012, torch's own is declared like this; it names `num_features`
    sync: bool

    def __init__(self) -> None:
        nn.Module.__init__(self)  # torch's own would make parameters for each channel

    @property
    def num_features(self) -> int:  # type: ignore[override]
        raise TypeError(
            f"{type(self).__name__} has no `num_features`: it has one scale for each capsule. A norm of single "
            "channels in its place would not be equivariant. To take statistics over all processes use "
            "`steerable.nn.convert_sync_batchnorm(net)`, not `torch.nn.SyncBatchNorm.convert_sync_batchnorm`."
        )

    def __dir__(self) -> list[str]:
        """All attributes but ``num_features``, for tools that look at each of them, such as ``torch.jit.trace``."""
        return [name for name in super().__dir__() if name != "num_features"]


def convert_sync_batchnorm(module: ModuleT) -> ModuleT:
    """Change a network in place, so that its batch norms take statistics over all processes in training.

    It is the counterpart of ``torch.nn.SyncBatchNorm.convert_sync_batchnorm``, which does not know about capsules. In
    each :class:`BatchNorm2d` of this library it sets ``sync``; torch's own batch norms become
    ``torch.nn.SyncBatchNorm``.

    >>> from steerable import FieldType, dihedral
    >>> from steerable import nn as snn
    >>> regular = FieldType(dihedral(4), "regular")
    >>> net = nn.Sequential(snn.BatchNorm2d(regular), snn.GlobalAvgPool(regular), nn.BatchNorm1d(8))
    >>> net = snn.convert_sync_batchnorm(net)
    >>> net[0].sync, type(net[2]).__name__
    (True, 'SyncBatchNorm')
    """
    if isinstance(module, KnownToTorch):
        module.sync = True
        return module
    if isinstance(module, _BatchNorm):
        return nn.SyncBatchNorm.convert_sync_batchnorm(module)  # type: ignore[no-any-return]
    for name, child in module._modules.items():  # not named_children, which leaves out a layer that is used twice
        if child is not None:
            module._modules[name] = convert_sync_batchnorm(child)
    return module
