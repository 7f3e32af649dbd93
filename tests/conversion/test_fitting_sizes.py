"""``convert`` on networks that bring one map to the size of another: decoders, pyramids, squeeze and excitation."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from plain_networks import Calls
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.conversion import ConversionError
from steerable.conversion.fitting_sizes import ExpandTo, FittedTo, PadTo, ResizeTo

D4 = st.dihedral(4)
GROUPS = {
    "D4": D4,
    "C4": st.cyclic(4),
    "left and right": D4.subgroup(["e", "m"]),
    "diagonal": D4.subgroup(["e", "mr3"]),
    "O": st.octahedral(),
}
MODES = ("nearest", "nearest-exact", "area", "linear", "aligned")


def resize_to(field_type: st.FieldType, like: st.FieldType, mode: str) -> ResizeTo:
    linear = "bilinear" if field_type.group.axes == 2 else "trilinear"
    if mode in ("linear", "aligned"):
        return ResizeTo(field_type, like, linear, mode == "aligned")
    return ResizeTo(field_type, like, mode)


LAYERS: dict[str, Callable[[st.FieldType, st.FieldType], FittedTo]] = {
    "pad": PadTo,
    "expand": ExpandTo,
    **{mode: lambda a, b, mode=mode: resize_to(a, b, mode) for mode in MODES},  # type: ignore[misc]
}


@pytest.mark.parametrize("group", GROUPS)
@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("sizes", [(4, 8), (3, 9), (4, 7), (5, 7), (7, 4), (5, 5)])
def test_a_layer_is_exact_or_warns(group: str, name: str, sizes: tuple[int, int]) -> None:
    """On every size; where it does not warn, it commutes with the whole group, and where it does, it need not."""
    a, b = st.FieldType(GROUPS[group], "regular"), st.FieldType(GROUPS[group], GROUPS[group].irreps[0].name)
    axes, (before, after) = GROUPS[group].axes, (1 if name == "expand" else sizes[0], sizes[1])
    layer, generator = LAYERS[name](a, b), torch.Generator().manual_seed(0)
    x = torch.randn(1, a.channels, *(before,) * axes, generator=generator, dtype=torch.float64)
    like = torch.zeros(1, b.channels, *(after,) * axes, dtype=torch.float64)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        y = layer(x, like)
        moved = {g: layer(st.transform(x, g, a), st.transform(like, g, b)) for g in a.group.elements}
    assert y.shape == (1, a.channels, *(after,) * axes)
    if not caught:
        assert max(float((moved[g] - st.transform(y, g, a)).abs().max()) for g in moved) < 1e-12
    else:
        assert issubclass(caught[0].category, snn.EquivarianceWarning)
        assert f"{type(layer).__name__} is not exactly equivariant to" in str(caught[0].message)
    assert (not caught) == (group == "diagonal" or layer.fits(before, after))


def test_a_network_that_is_restricted_warns_for_its_new_group() -> None:
    layer = ResizeTo(st.FieldType(D4, "regular"), st.FieldType(D4, "A1"))
    x, like = torch.randn(1, 8, 4, 4), torch.randn(1, 1, 7, 7)
    with pytest.warns(snn.EquivarianceWarning, match="from 4×4 to 7×7 pixels, where the nearest ones are not shared"):
        y = layer(x, like)
    diagonal = layer.restrict(["e", "mr3"])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert diagonal(x, like).shape == y.shape


# -------------------------------------------------------------------- networks


class Pyramid(nn.Module):
    """The upper half of a feature pyramid: what is coarse is enlarged to what is fine, and added."""

    def __init__(self, mode: str = "nearest", whole: bool = False) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(3, 8, 3, padding=1), nn.Conv2d(8, 16, 3, stride=2, padding=1)
        self.lateral, self.top, self.out = nn.Conv2d(8, 8, 1), nn.Conv2d(16, 8, 1), nn.Conv2d(8, 2, 3, padding=1)
        self.mode, self.whole = mode, whole

    def forward(self, x: Tensor) -> Tensor:
        fine = torch.relu(self.first(x))
        coarse = self.top(torch.relu(self.second(fine)))
        size = x.shape[-2:] if self.whole else (fine.size(2), fine.size(3))
        return self.out(self.lateral(fine) + F.interpolate(coarse, size=size, mode=self.mode))


class Squeeze(nn.Module):
    """Squeeze and excitation, with the factors spelled out for every pixel."""

    def __init__(self, spread: Callable[[Tensor, Tensor], Tensor]) -> None:
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(3, 16, 3, padding=1), nn.Linear(16, 8), nn.Linear(8, 16)
        self.spread = spread

    def forward(self, x: Tensor) -> Tensor:
        x = self.conv(x)
        b, c, _, _ = x.size()
        factors = torch.sigmoid(self.up(torch.relu(self.down(F.adaptive_avg_pool2d(x, 1).view(b, c))))).view(b, c, 1, 1)
        return (x * self.spread(factors, x)).mean((2, 3))


NETWORKS: dict[str, Callable[[], nn.Module]] = {
    "nearest": Pyramid,
    "bilinear": lambda: Pyramid("bilinear", whole=True),
    "expand_as": lambda: Squeeze(lambda y, x: y.expand_as(x)),
    "expand": lambda: Squeeze(lambda y, x: y.expand(x.shape[0], x.shape[1], x.shape[2], x.shape[3])),
    "expand to a shape": lambda: Squeeze(lambda y, x: y.expand(x.shape)),
    "expand pixels": lambda: Squeeze(lambda y, x: y.expand(-1, -1, x.shape[2], x.shape[3])),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks_that_fit_sizes_become_exact(name: str) -> None:
    torch.manual_seed(0)
    plain = NETWORKS[name]().double()
    net = st.convert(plain, D4)
    assert net.report.checked_size == 32
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    st.testing.assert_equivariant(net, x)
    assert net(x).shape == plain(x).shape
    torch.testing.assert_close(pickle.loads(pickle.dumps(copy.deepcopy(net)))(x), net(x))
    torch.testing.assert_close(snn.to_plain(net)(x), net(x))
    st.testing.assert_equivariant(net.restrict("C4"), x)


def test_a_pyramid_says_on_which_sizes_it_is_exact() -> None:
    net, x = st.convert(Pyramid(), D4), torch.randn(1, 3, 15, 15)
    assert "resize: exact where it enlarges by a whole factor" in str(net.report)
    with pytest.warns(snn.EquivarianceWarning, match="ResizeTo is not exactly equivariant to D4 from 8×8 to 15×15"):
        net(x)


@pytest.mark.parametrize(
    "function",
    [
        lambda x: F.interpolate(x, size=(x.shape[2] + 1, x.shape[3] + 1)),
        lambda x: F.interpolate(x, size=x.shape[2:]),
        lambda x: F.interpolate(x, scale_factor=x.shape[2] // 8),
        lambda x: x[:, :1].expand_as(x),
        lambda x: x.expand_as(x.mean((2, 3), keepdim=True)),
        lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, x.shape[2], 5),
        lambda x: x.mean((2, 3), keepdim=True).expand(-1, -1, x.shape[3], x.shape[2]),
    ],
)
def test_other_sizes_are_refused(function: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(
        ConversionError, match=r"`(interpolate|expand|expand_as|getitem)` in the forward of the network"
    ):
        st.convert(Calls(function), D4)
