"""What the Fourier backend does where little is left of an input, a layer or a dtype: the same as the dense one."""

from __future__ import annotations

import gc

import pytest
import torch
from torch import Tensor

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
REGULAR = FieldType(D4, "4*regular")


def layer(backend: str) -> snn.Conv2d:
    return snn.Conv2d(REGULAR, REGULAR, 3, padding=1, backend=backend)  # type: ignore[arg-type]


def field() -> Tensor:
    return torch.randn(2, REGULAR.channels, 6, 6)


@pytest.mark.parametrize("backend", ["auto", "dense", "fourier"])
def test_the_meta_device_knows_shapes_only(backend: str) -> None:
    conv = layer(backend).to("meta")
    assert conv(field().to("meta")).shape == field().shape


def test_a_backward_pass_may_outlive_its_layer() -> None:
    for change in ("deleted", "dense"):
        conv, x = layer("fourier"), field().requires_grad_()
        y = conv(x)
        if change == "dense":
            conv.backend = "dense"
        else:
            del conv
        gc.collect()
        y.square().sum().backward()
        assert x.grad is not None


@pytest.mark.parametrize("backend", ["dense", "fourier"])
@pytest.mark.parametrize("slice_", [(slice(None), slice(8, 40)), (slice(None, None, 2),)], ids=["channels", "batch"])
def test_parts_of_channels_last_fields_stay_so(backend: str, slice_: tuple[slice, ...]) -> None:
    wide = torch.randn(4, 48, 6, 6).contiguous(memory_format=torch.channels_last)
    x = wide[slice_]
    kind = FieldType(D4, f"{x.shape[1] // 8}*regular")
    y = snn.Conv2d(kind, kind, 3, padding=1, backend=backend)(x)
    assert y.is_contiguous(memory_format=torch.channels_last)


def test_evaluation_in_bfloat16_rounds_no_more_than_training() -> None:
    kind = FieldType(D4, "32*E")
    conv = snn.Conv2d(kind, kind, 3, padding=1, bias=False, backend="fourier").bfloat16()
    x = torch.randn(2, kind.channels, 6, 6).bfloat16()
    y = conv(x)
    with torch.no_grad():
        assert torch.equal(conv.eval()(x), y)


def test_an_image_of_no_pixels_is_refused_alike() -> None:
    messages = []
    for backend in ("dense", "fourier"):
        conv = snn.Conv2d(REGULAR, REGULAR, 3, padding=3, backend=backend)
        with pytest.raises(RuntimeError) as error:
            conv(torch.randn(2, REGULAR.channels, 0, 5))
        messages.append(str(error.value))
    assert messages[0] == messages[1]
