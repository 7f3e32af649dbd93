"""Typed tensors and typecheck: what passes is equivariant, what is refused is named with its line."""

from __future__ import annotations

import collections
import dataclasses
import functools
import inspect
import itertools
import linecache
import math
import re
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.checking import EquivarianceError, other_angles, typed
from steerable.checking.calls import Refused, bound_call
from steerable.checking.operations import OPERATIONS

G = st.dihedral(4)
IMAGE = st.FieldType(G, "3*A1")
STREAM = st.FieldType(G, "2*regular + qm")
VECTORS = st.FieldType(G, "2*E")
SCALARS = st.FieldType(G, "5*A1")
ANYTHING = st.FieldType(st.trivial(), "2*A")

Function = Callable[[Tensor], Tensor]


def field(field_type: st.FieldType, size: int = 9) -> Tensor:
    return torch.randn(
        2, field_type.channels, size, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64
    )


def attention(x: Tensor, heads: int, bias: Tensor | float = 0) -> Tensor:
    """Between all pixels, with heads of so many channels; dropout does nothing in evaluation."""
    tokens = x.flatten(2).reshape(len(x), heads, -1, x.shape[-1] * x.shape[-2])
    scores = F.softmax(tokens.transpose(-2, -1) @ tokens / 3 + bias, -1)
    return (tokens @ F.dropout(scores, 0.1, training=False).transpose(-2, -1)).reshape(x.shape)


def _tokens(x: Tensor) -> Tensor:
    return x.flatten(2).transpose(1, 2)


def _from_tokens(tokens: Tensor, x: Tensor) -> Tensor:
    return tokens.transpose(1, 2).reshape(x.shape)


def _attended(query: Tensor, key: Tensor, value: Tensor, product: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    scores = product(_tokens(query), key.flatten(2)).softmax(-1)
    return product(value.flatten(2), scores.transpose(1, 2)).view_as(value)


def _mask(x: Tensor) -> Tensor:
    """The weights with which pixels are pooled."""
    return x.mean(1, keepdim=True).flatten(2).softmax(2).transpose(1, 2)


ADMITTED: list[tuple[str, st.FieldType, Function]] = [
    ("larger of two", STREAM, lambda x: torch.maximum(x, 2 * x)),
    ("symmetric clamp", VECTORS, lambda x: x.clamp(-1, 1)),
    ("axis", STREAM, lambda x: torch.cat([x[:, :8], x], axis=1).sum(axis=(-2, -1))),
    ("keywords", STREAM, lambda x: torch.add(input=x, other=x)),
    ("reciprocal", STREAM, lambda x: 1 / x),
    ("difference", VECTORS, lambda x: 2 * x - x),
    ("arithmetic", STREAM, lambda x: 2 * x - x / 3 + 1.5 - (-x)),
    ("in place", STREAM, lambda x: x.clone().add_(x).mul_(2)),
    ("scalar tensor", VECTORS, lambda x: x * torch.tensor(0.5)),
    ("relu", STREAM, F.relu),
    ("gelu", STREAM, F.gelu),
    ("tanh", VECTORS, torch.tanh),
    ("hardtanh", VECTORS, F.hardtanh),
    ("cube", VECTORS, lambda x: x**3),
    ("square", STREAM, lambda x: x**2),
    ("gate", st.FieldType(G, "A1 + E"), lambda x: torch.sigmoid(x[:, :1]) * x[:, 1:]),
    ("product", STREAM, lambda x: x * torch.sigmoid(x)),
    ("average pool", VECTORS, lambda x: F.avg_pool2d(x, 3, 2, 1)),
    ("max pool", STREAM, lambda x: F.max_pool2d(x, 3, 2, 1)),
    ("adaptive pool", VECTORS, lambda x: F.adaptive_avg_pool2d(x, 4)),
    ("upsampling", VECTORS, lambda x: F.interpolate(x, scale_factor=2, mode="bilinear")),
    ("padding", VECTORS, lambda x: F.pad(x, (1, 1, 1, 1))),
    ("reflection padding", VECTORS, lambda x: F.pad(x, (2, 2, 2, 2), mode="reflect")),
    ("mean of pixels", VECTORS, lambda x: x.mean((2, 3))),
    ("flatten", VECTORS, lambda x: F.adaptive_avg_pool2d(x, 1).flatten(1)),
    ("maximum of pixels", STREAM, lambda x: x.amax(dim=(-1, -2))),
    ("mean of channels", STREAM, lambda x: x.mean(1, keepdim=True)),
    ("softmax", STREAM, lambda x: x.softmax(1)),
    ("slice", STREAM, lambda x: x[:, 8:]),
    ("concatenation", STREAM, lambda x: torch.cat([x[:, :8], x], 1)),
    ("batches", STREAM, lambda x: torch.cat([x, x], 0)[:2]),
    ("1×1 convolution of scalars", SCALARS, nn.Conv2d(5, 3, 1).double()),
    ("batch norm of scalars", SCALARS, nn.BatchNorm2d(5).double().eval()),
    ("layer of the library", STREAM, snn.Conv2d(STREAM, VECTORS, 3).double()),
    ("quotient", STREAM, lambda x: x / (1 + x.abs())),
    ("division by an invariant", VECTORS, lambda x: x / x.norm(dim=1, keepdim=True)),
    ("division by a mean", STREAM, lambda x: x / (x.square().mean((1, 2, 3), keepdim=True) + 1).sqrt()),
    ("reciprocal by name", STREAM, lambda x: torch.div(1.0, x)),
    ("largest channel", STREAM, lambda x: x * x.max(1, keepdim=True).values),
    ("smallest channel", STREAM, lambda x: x.min(dim=1, keepdim=True)[0]),
    ("unit vectors", VECTORS, lambda x: F.normalize(x, dim=1)),
    ("unit vectors of pooled fields", VECTORS, lambda x: F.normalize(x.mean((2, 3)), dim=-1)),
    ("sum of magnitudes", STREAM, lambda x: F.normalize(x, p=1)),
    ("spread", STREAM, lambda x: x.std((2, 3), keepdim=True) + x.var((2, 3), False).view(2, 20, 1, 1)),
    ("soft maximum", STREAM, lambda x: x.logsumexp((2, 3))),
    ("a matrix", SCALARS, lambda x: x.mean((2, 3)) @ x.new_ones(5, 3)),
    ("the only pixel", STREAM, lambda x: F.adaptive_avg_pool2d(x, 1)[:, :, 0, 0]),
    ("a size between", VECTORS, lambda x: F.interpolate(x, size=13, mode="bilinear")),
    ("corners", VECTORS, lambda x: F.interpolate(x, size=17, mode="bicubic", align_corners=True)),
    (
        "a factor between",
        STREAM,
        lambda x: F.interpolate(x[..., 1:-1, 1:-1][..., 1:-1, 1:-1], scale_factor=0.2, mode="area"),
    ),
    ("sum of a list", VECTORS, lambda x: sum([x, x, x])),
    ("division that cuts off", VECTORS, lambda x: torch.div(x, 0.3, rounding_mode="trunc")),
    ("one slope", STREAM, nn.PReLU().double()),
    ("a factor per sample", VECTORS, lambda x: x * torch.tensor([0.0, 2.0]).view(2, 1, 1, 1)),
    ("squeeze and excitation", SCALARS, lambda x: x * torch.sigmoid(x.mean((2, 3))).view(2, 5, 1, 1)),
    ("expanded fibre", VECTORS, lambda x: x + F.adaptive_avg_pool2d(x, 1).expand_as(x)),
    ("new dimensions", STREAM, lambda x: x * x.mean((2, 3)).unsqueeze(-1).unsqueeze(-1)),
    ("new dimensions by index", STREAM, lambda x: x * x.mean((2, 3))[:, :, None, None]),
    ("layer norm of pooled scalars", SCALARS, lambda x: F.layer_norm(x.mean((2, 3)), (5,), x.new_ones(5))),
    ("layer norm without weights", STREAM, lambda x: F.layer_norm(x.mean((2, 3)), (20,))),
    ("no gradient wanted", VECTORS, lambda x: x.requires_grad_(False)),
    ("same padding", SCALARS, nn.Conv2d(5, 3, 1, padding="same").double()),
    ("maxima without their places", STREAM, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[0]),
    ("all of a slice", STREAM, lambda x: x[:, 0:8, 0:9, ::1]),
    ("a crop", VECTORS, lambda x: x[:, :, 1:-1, 1:-1]),
    ("a crop of samples and capsules", STREAM, lambda x: x[:1, 8:, 2:7, 2:-2]),
    ("a crop after an ellipsis", VECTORS, lambda x: x[..., 3:-3, 3:-3]),
    ("single precision", VECTORS, lambda x: x.to(torch.float32).double()),
    ("half of the batch", VECTORS, lambda x: x.chunk(2, 0)[0]),
    ("samples apart", VECTORS, lambda x: x.split(1, dim=-4)[1]),
    ("group norm of scalars", SCALARS, nn.GroupNorm(1, 5).double()),
    ("instance norm of scalars", SCALARS, nn.InstanceNorm2d(5, affine=True).double()),
    ("one norm of pooled scalars", SCALARS, lambda x: F.rms_norm(x.mean((2, 3)), (5,), x.new_ones(5))),
    ("any convolution without symmetry", ANYTHING, nn.Conv2d(2, 3, 3, stride=2).double()),
    ("flattened pixels without symmetry", ANYTHING, lambda x: x.flatten(1)),
    ("in place on pooled scalars", SCALARS, lambda x: F.silu(x.mean((2, 3)), inplace=True).mul_(2)),
    ("a number made like a field", VECTORS, lambda x: x * torch.tensor(2).to(x)),
    ("a number that is like a field", VECTORS, lambda x: x * torch.tensor(0.5, dtype=x.dtype).to(x)),
    ("a factor made like a field", VECTORS, lambda x: x * torch.tensor([1, 2]).view(2, 1, 1, 1).type_as(x)),
    ("factors of scalars", SCALARS, lambda x: x * x.new_ones(5, 1, 1) + x.new_ones(5, 1, 1)),
    ("slopes of scalars", SCALARS, nn.PReLU(5).double()),
    ("cube by a fraction", VECTORS, lambda x: x**3.0),
    ("pixels in two steps", VECTORS, lambda x: x.mean(3).mean(2) + x.sum(-1, keepdim=True).sum(2).flatten(1)),
    ("maxima in two steps", STREAM, lambda x: x.max(-1)[0].max(dim=-1).values),
    ("flattened pixels", VECTORS, lambda x: x.flatten(2).mean(-1)),
    ("spread of flattened pixels", STREAM, lambda x: x.view(x.size(0), x.size(1), -1).std(2)),
    (
        "attention of one pixel",
        STREAM,
        lambda x: x * F.softmax(x.mean(1, keepdim=True).flatten(2), -1).view(2, 1, 9, 9),
    ),
    ("mean of a stack", VECTORS, lambda x: torch.stack([x, 2 * x]).mean(0)),
    ("maximum of a stack", STREAM, lambda x: torch.stack((x, 2 * x), dim=-1).max(dim=-1).values),
    ("a stack, pixels and all", VECTORS, lambda x: torch.stack([x, 2 * x], 2).flatten(2).sum(2)),
    ("a stack of a stack", STREAM, lambda x: torch.stack([torch.stack([x, x])]).sum((0, 1))),
    ("pixels as a sequence", VECTORS, lambda x: x.flatten(2).transpose(1, 2).mean(1)),
    ("maximum over capsules", st.FieldType(G, "2*regular"), lambda x: x.view(2, 2, 8, 9, 9).amax(2)),
    ("attention between pixels", VECTORS, lambda x: attention(x, 2)),
    ("attention with heads", STREAM, lambda x: x + attention(x[:, :16], 2).mean((1, 2, 3), keepdim=True)),
    ("attention by torch.bmm", VECTORS, lambda x: _attended(x, x, x, torch.bmm)),
    (
        "attention by torch.einsum",
        VECTORS,
        lambda x: _attended(x, x, x, lambda a, b: torch.einsum("bij,bjk->bik", a, b)),
    ),
    ("attention with other queries", STREAM, lambda x: _attended(x[:, :16], x[:, :16], x, torch.bmm)),
    ("attention of torch", STREAM, lambda x: _from_tokens(F.scaled_dot_product_attention(*[_tokens(x)] * 3), x)),
    ("a mask of one channel", STREAM, lambda x: (x.flatten(2) @ _mask(x)).unsqueeze(-1) + x),
    ("maximum over unflattened capsules", st.FieldType(G, "2*regular"), lambda x: x.unflatten(1, (2, 8)).amax(2)),
    ("instance norm without weights", VECTORS, lambda x: F.instance_norm(x)),
    ("group norm without weights", STREAM, lambda x: F.group_norm(x, 1)),
    ("layer norm of everything", STREAM, lambda x: F.layer_norm(x, x.shape[1:])),
    ("norm of all pixels", STREAM, lambda x: x / (1 + x.norm(dim=(2, 3), keepdim=True))),
    ("norm of linear algebra", VECTORS, lambda x: x / (1 + torch.linalg.vector_norm(x, ord=2, dim=1, keepdim=True))),
    ("one field joined with none", VECTORS, lambda x: torch.cat([x], 1)),
    ("mean of everything", STREAM, lambda x: x - x.mean((1, 2, 3), keepdim=True)),
]


@pytest.mark.parametrize(("name", "in_type", "function"), ADMITTED, ids=[case[0] for case in ADMITTED])
def test_what_passes_is_equivariant_with_the_type_it_says(name: str, in_type: st.FieldType, function: Function) -> None:
    out_type = st.typecheck(function, in_type, size=9) if not isinstance(function, nn.Module) else None
    if out_type is None:
        out_type = st.typecheck(nn.Sequential(function), in_type, size=9)
    assert st.testing.equivariance_error(function, field(in_type), in_type=in_type, out_type=out_type) < 1e-12


REFUSED: list[tuple[str, st.FieldType, Function, str]] = [
    (
        "relu of signs",
        VECTORS,
        F.relu,
        "`relu` is not admissible for capsule `E`: its matrices are signed permutations. Use",
    ),
    ("constant on signs", VECTORS, lambda x: x + 1, "a constant was added to capsule `E`"),
    ("square of signs", VECTORS, lambda x: x**2, "is not admissible for capsule `E`"),
    ("relu6", VECTORS, lambda x: F.hardtanh(x, 0.0, 6.0), "is not admissible for capsule `E`"),
    ("max pool of signs", VECTORS, lambda x: F.max_pool2d(x, 3, 2, 1), "is not admissible for capsule `E`"),
    ("uneven stride", STREAM, lambda x: F.avg_pool2d(x, 2), "samples 9 pixels unevenly"),
    (
        "plain convolution",
        SCALARS,
        nn.Conv2d(5, 3, 3).double(),
        "a plain convolution of `5*A1` does not commute with D4",
    ),
    ("plain norm", STREAM, nn.BatchNorm2d(20).double(), "one by one, but the group moves them"),
    (
        "linear",
        STREAM,
        lambda x: F.linear(x.mean((2, 3)), torch.ones(3, 20)),
        "mixes the channels of `2*regular + qm`",
    ),
    ("untyped term", STREAM, lambda x: x + torch.ones_like(field(STREAM)), "nothing says how the other one transforms"),
    ("factors per channel", STREAM, lambda x: x * torch.ones(20, 1, 1), "break equivariance. Multiply by a number"),
    ("flattened pixels", STREAM, lambda x: x.flatten(1), "mixes pixels and channels"),
    ("torn capsule", STREAM, lambda x: x[:, :9], "channels 0 to 9 of `2*regular + qm` cut a capsule in two"),
    ("pixels", STREAM, lambda x: x[:, :, ::2, ::2], "slicing pixels samples the grid unevenly"),
    ("an oblong crop", STREAM, lambda x: x[:, :, 1:-1], "slicing pixels samples the grid unevenly"),
    ("a crop off centre", STREAM, lambda x: x[..., 1:-2, 1:-2], "slicing pixels samples the grid unevenly"),
    ("a mirrored crop", STREAM, lambda x: x[..., 2:, 2:], "Take as many away on all sides"),
    ("transposed image", STREAM, lambda x: x.transpose(2, 3), "`transpose` is not known to be equivariant"),
    ("equal capsules apart", STREAM, lambda x: torch.cat([x, x], 1), "leaves equal capsules apart"),
    ("lopsided padding", STREAM, lambda x: F.pad(x, (0, 1, 0, 0)), "is not symmetric"),
    ("mask", STREAM, lambda x: x > 0, "`gt` is not known to be equivariant. Write what depends on single values as"),
    ("oblong window", STREAM, lambda x: F.avg_pool2d(x, (1, 3), 1, (0, 1)), "D4 exchanges height and width"),
    ("oblong padding", STREAM, lambda x: F.pad(x, (1, 1, 2, 2)), "D4 exchanges height and width"),
    ("oblong output", STREAM, lambda x: F.adaptive_avg_pool2d(x, (2, 3)), "D4 exchanges height and width"),
    ("oblong enlargement", STREAM, lambda x: F.interpolate(x, size=(9, 18)), "D4 exchanges height and width"),
    ("dilated window", STREAM, lambda x: F.max_pool2d(x, 3, 3, 0, 2), "samples 9 pixels unevenly"),
    ("overhanging window", STREAM, lambda x: F.avg_pool2d(x, 3, 2, 1, True), "ceil_mode"),
    ("broken factor", STREAM, lambda x: F.interpolate(x, scale_factor=1.5), "not by a whole factor"),
    (
        "factor and size",
        STREAM,
        lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear"),
        "samples off the centre",
    ),
    ("layer norm of pixels", SCALARS, lambda x: F.layer_norm(x, (9,)), "Use `snn.LayerNorm`"),
    ("linear on pixels", SCALARS, lambda x: F.linear(x, torch.eye(9)), "is not the channels"),
    ("transposition by attribute", STREAM, lambda x: x.mT, "`mT` is not known to be equivariant"),
    ("written channel", STREAM, lambda x: x.clone().__setitem__((slice(None), 0), 0), "writing into a part of a field"),
    ("dropout", STREAM, lambda x: F.dropout(x, 0.5, True), "Use `snn.Dropout`"),
    ("division by vectors", VECTORS, lambda x: x / x, "`div` by a field is not admissible for capsule `E`"),
    ("division by another type", STREAM, lambda x: x[:, :8] / x[:, 8:16].mean((2, 3)), "of fields of ranks 2 and 4"),
    ("largest vector", VECTORS, lambda x: x.max(1, keepdim=True)[0], "`max` is not admissible for capsule `E`"),
    ("places of the largest", STREAM, lambda x: x.max(1, keepdim=True).indices * 2, "but is not one"),
    ("norm of a row", STREAM, lambda x: x.norm(dim=2, keepdim=True), "`norm` over dimensions [2] is not known"),
    ("sum of magnitudes", VECTORS, lambda x: F.normalize(x, p=1), "`normalize` is not admissible for capsule `E`"),
    ("normalised rows", STREAM, lambda x: F.normalize(x, dim=-1), "`normalize` over dimensions [3] is not known"),
    ("spread of vectors", VECTORS, lambda x: x.std((2, 3)), "`std` is not admissible for capsule `E`"),
    ("a matrix on capsules", STREAM, lambda x: x.mean((2, 3)) @ torch.ones(20, 3), "a plain linear layer mixes"),
    ("a product of fields", SCALARS, lambda x: x.mean((2, 3)) @ x.mean((2, 3)), "got a field as its argument `other`"),
    ("one pixel of many", STREAM, lambda x: x[:, :, 0, 0], "anything but slices"),
    ("heads on top of each other", STREAM, lambda x: torch.stack([x, x]), "Return the fields in a list, add them up"),
    ("a mean of maxima", STREAM, lambda x: x.amax(3).mean(2), "`amax` over dimensions [3] is not known"),
    ("a spread in two steps", STREAM, lambda x: x.std(3).std(2), "`std` over dimensions [3] is not known"),
    ("a maximum of signs in two steps", VECTORS, lambda x: x.amax(3).amax(2), "`amax` is not admissible for capsule"),
    ("flattened pixels moved", STREAM, lambda x: x.flatten(2).roll(1, 2).mean(2), "`roll` is not known"),
    ("flattened pixels alone", STREAM, lambda x: x.flatten(2), "mixes pixels and channels"),
    ("rows alone", STREAM, lambda x: snn.ReLU(STREAM)(x.mean(3)), "`mean` over dimensions [3] is not known"),
    ("columns as rows", STREAM, lambda x: x.flatten(2).view(2, 9, 9, 20).mean((1, 2)), "mixes pixels and channels"),
    (
        "a stack of two types",
        st.FieldType(G, "qm + qmr"),
        lambda x: torch.stack([x[:, :4], x[:, 4:]]).sum(0),
        "`stack`",
    ),
    ("a stack of samples", STREAM, lambda x: torch.stack([x, x]).mean(1), "Return the fields in a list, add them up"),
    (
        "attention with places",
        STREAM,
        lambda x: attention(x, 2, torch.arange(81.0, dtype=x.dtype)),
        "`flatten` to shape",
    ),
    (
        "attention that looks back",
        STREAM,
        lambda x: attention(x, 2, torch.full((81, 81), -9.0).triu(1)),
        "`flatten` to",
    ),
    (
        "attention of torch that looks back",
        STREAM,
        lambda x: _from_tokens(F.scaled_dot_product_attention(*[_tokens(x)] * 3, is_causal=True), x),
        "`flatten` to shape",
    ),
    ("rows with rows", STREAM, lambda x: torch.einsum("bchw,bcvw->bchv", x, x), "only in attention between pixels"),
    (
        "attention between samples",
        STREAM,
        lambda x: (x.flatten(1) @ x.flatten(1).transpose(0, 1) @ x.flatten(1)).view_as(x),
        "mixes",
    ),
    ("attention with a matrix", STREAM, lambda x: (torch.eye(20).to(x) @ x.flatten(2)).view_as(x), "mixes pixels"),
    (
        "channels of other capsules",
        VECTORS,
        lambda x: (x.flatten(2) @ x.flatten(2).transpose(1, 2)).flatten(1),
        "mixes pixels",
    ),
    ("every other channel", st.FieldType(G, "2*regular"), lambda x: x.view(2, 8, 2, 9, 9).amax(2), "snn.GroupPool"),
    ("all pixels but one", STREAM, lambda x: x.flatten(2)[..., 1:].amax(2), "`flatten` to shape"),
    ("pixels in two halves", STREAM, lambda x: x.flatten(2).split((80, 1), 2)[0].amax(2), "`flatten` to shape"),
    ("rows by columns", STREAM, lambda x: x.softmax(2) * x.softmax(3), "`softmax` is known to be equivariant over"),
    ("a step in place", STREAM, lambda x: _written(x.flatten(2)).mean(2), "`flatten` to shape"),
    (
        "softmax of rows",
        STREAM,
        lambda x: x.flatten(2).view_as(x).softmax(3),
        "`softmax` is known to be equivariant over",
    ),
    ("group norm of vectors", VECTORS, lambda x: F.group_norm(x, 1), "`group_norm` is not admissible for capsule `E`"),
    ("slopes per channel", STREAM, nn.PReLU(20).double(), "`prelu` with 20 slopes, one per channel"),
    (
        "bounds per channel",
        STREAM,
        lambda x: x.clamp(min=torch.zeros(20, 1, 1)),
        "a tensor of shape (20, 1, 1) as `min`",
    ),
    ("bounds per pixel", STREAM, lambda x: x.clamp_min(torch.zeros(9, 9)), "a tensor of shape (9, 9) as `min`"),
    ("powers per channel", STREAM, lambda x: x ** torch.ones(20, 1, 1), "a tensor of shape (20, 1, 1) as `exponent`"),
    ("a field as exponent", STREAM, lambda x: x**x, "`pow` got a field as its argument `exponent`"),
    ("a field in the exponent", STREAM, lambda x: 2**x, "got a field as its argument `exponent`"),
    ("odd base, field in the exponent", VECTORS, lambda x: 3**x, "got a field as its argument `exponent`"),
    ("division that rounds down", VECTORS, lambda x: torch.div(x, 2, rounding_mode="floor"), "not admissible for"),
    ("whole numbers", VECTORS, lambda x: x.to(torch.int32), "`to` gives numbers of torch.int32"),
    ("bytes", VECTORS, lambda x: x.type(torch.uint8), "`type` gives numbers of torch.uint8"),
    ("truth values", STREAM, lambda x: x.type(torch.bool), "`type` gives numbers of torch.bool"),
    ("whole sums", STREAM, lambda x: x.sum((2, 3), dtype=torch.int64), "`sum` gives numbers of torch.int64"),
    ("complex numbers", STREAM, lambda x: x.to(torch.complex64), "`to` gives numbers of torch.complex64"),
    ("bits", VECTORS, lambda x: x.view(torch.int32), "reads the bits of a field as torch.int32"),
    ("nearly a factor", STREAM, lambda x: F.interpolate(x, scale_factor=2.02), "Use size=... or a whole factor"),
    ("nearly two factors", STREAM, lambda x: F.interpolate(x, scale_factor=(2, 2.02)), "Use size=..."),
    ("random slopes", STREAM, lambda x: F.rrelu(x, training=True), "draws a slope for every value"),
    ("other data", STREAM, lambda x: _with_data(x, torch.zeros(x.shape)), "are replaced by something else"),
    ("data of another type", VECTORS, lambda x: _with_data(x[:, :2], x.new_zeros(2, 2, 9, 9)), "are replaced by"),
    ("map and pooled field", STREAM, lambda x: x * x.mean((2, 3)), "of fields of ranks 2 and 4"),
    ("places of maxima", STREAM, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True)[1] * 2, "but is not one"),
    ("returned places", STREAM, lambda x: F.max_pool2d(x, 3, 2, 1, return_indices=True), "but is not one"),
    (
        "a constant that is moved",
        STREAM,
        lambda x: x + typed(torch.arange(20.0).view(1, 20, 1, 1), STREAM),
        "invariant",
    ),
    ("a moved constant alone", STREAM, lambda x: typed(torch.arange(20.0).view(1, 20), STREAM), "is not invariant"),
    (
        "another name for a field",
        st.FieldType(G, "4*E"),
        lambda x: typed(x, st.FieldType(G, "8*A1")),
        "is declared to be",
    ),
    ("writing over a field", STREAM, lambda x: torch.add(x, x, out=x), "changes a tensor without changing its type"),
    ("in place into another type", st.FieldType(G, "A1 + A2"), lambda x: _into(x[:, :1], x[:, 1:]), "keeps its type"),
    (
        "values in Python",
        STREAM,
        lambda x: x * x.mean((1, 2, 3), keepdim=True).max().item(),
        "`max` over dimensions all",
    ),
    ("values in numpy", STREAM, lambda x: torch.from_numpy(x.numpy()), "`numpy` is not known to be equivariant"),
    ("a decision by value", STREAM, lambda x: x if bool(x.mean((1, 2, 3), keepdim=True)) else -x, "`bool` is not"),
    ("an unknown argument", STREAM, lambda x: torch.add(x, 1, x), "this way of calling `add` is not known"),
    ("an operator of another library", STREAM, torch.ops.aten.relu.default, "is not known to be equivariant"),
    (
        "layer norm of pooled capsules",
        STREAM,
        lambda x: F.layer_norm(x.mean((2, 3)), (20,), x.new_ones(20)),
        "one by one",
    ),
    ("a pixel of many", STREAM, lambda x: x.expand(2, 20, 9, 9)[:, :, :1, :1], "slicing pixels"),
    ("a dimension in between", STREAM, lambda x: x.mean((2, 3))[:, None], "in the middle of a field"),
    ("a channel for many", SCALARS, lambda x: x[:, :1].expand(2, 5, 9, 9), "to shape (2, 5, 9, 9) is not known"),
    ("mean of signs", VECTORS, lambda x: x.mean(1, keepdim=True), "`mean` is not admissible for capsule `E`"),
    ("batches mixed", ANYTHING, lambda x: x.view(4, -1), "mixes pixels and channels"),
    (
        "a number of higher rank",
        STREAM,
        lambda x: x * torch.ones(1, 1, 1, 1, 1),
        "has shape (batch, 20, …)",
    ),
    (
        "a constant sign",
        st.FieldType(G, "A2"),
        lambda x: x + typed(torch.ones(1, 1, 1, 1), x.field_type),
        "is not invariant",
    ),
    ("equality", VECTORS, lambda x: x * (x == 1), "`eq` is not known to be equivariant"),
    ("inequality", STREAM, lambda x: x * (x != 0), "`ne` is not known to be equivariant"),
    ("data of a constant", STREAM, lambda x: x + typed(torch.arange(20.0).view(1, 20, 1, 1), STREAM).data, "invariant"),
    ("a field into a factor", st.FieldType(G, "A2"), lambda x: x * _scaled(x), "into an untyped tensor"),
    ("a value as a number", STREAM, lambda x: x * float(x.mean((1, 2, 3), keepdim=True)), "`float` is not known"),
    ("a learned constant", STREAM, lambda x: x + typed(nn.Parameter(torch.zeros(1, 20, 1, 1)), STREAM), "a learned"),
    ("one sample for all", VECTORS, lambda x: x[:1].expand(2, 4, 9, 9), "depends on how another input of the batch"),
    ("the next sample", SCALARS, lambda x: x + torch.cat([x[1:], x[:1]]), "depends on how another input of the batch"),
    ("a matrix before a field", SCALARS, lambda x: torch.eye(9) @ x, "got a field as its argument `other`"),
    ("oblong dilation", STREAM, lambda x: F.max_pool2d(x, 3, 1, 1, (2, 1)), "D4 exchanges height and width"),
    ("dropped channels", VECTORS, lambda x: F.feature_alpha_dropout(x, 0.5, True), "Use `snn.Dropout`"),
]


def _with_data(x: Tensor, new: Tensor) -> Tensor:
    y = x.clone()
    y.data = new
    return y


def _scaled(x: Tensor) -> Tensor:
    factor = torch.ones(2, 1, 1, 1)
    factor.mul_(F.adaptive_avg_pool2d(x, 1))
    return factor


def _written(x: Tensor) -> Tensor:
    x.mul_(2)
    return x


def _into(a: Tensor, b: Tensor) -> Tensor:
    a = a.clone()
    a.mul_(b)
    return a


@pytest.mark.parametrize(("name", "in_type", "function", "message"), REFUSED, ids=[case[0] for case in REFUSED])
def test_what_breaks_equivariance_is_refused(
    name: str, in_type: st.FieldType, function: Function, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The message quotes the source line, on which the expected words may stand too.
    monkeypatch.setattr(linecache, "getline", lambda *_: "")
    with pytest.raises(EquivarianceError, match=re.escape(message)):
        st.typecheck(function, in_type, size=9)


class Transformer(nn.Module):
    """A block on tokens of scalars, whose layers may be in the wrong place."""

    def __init__(self, channels: int, *, batch_first: bool = True, on_pixels: bool = False) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)
        self.attention = nn.MultiheadAttention(channels, 1, batch_first=batch_first)
        self.mixing = nn.Linear(81 if on_pixels else channels, 81 if on_pixels else channels)
        nn.init.eye_(self.mixing.weight)  # as it may begin, and does not stay

    def forward(self, x: Tensor) -> Tensor:
        tokens = self.norm(_tokens(x))
        tokens = tokens + self.attention(tokens, tokens, tokens, need_weights=False)[0]
        if self.mixing.in_features == 81:
            return F.gelu(self.mixing(tokens.transpose(1, 2))).view_as(x)
        return _from_tokens(F.gelu(self.mixing(tokens)), x)


def test_layers_on_tokens_of_scalars_are_followed() -> None:
    """Where they mix channels, which scalars admit, and not pixels or samples."""
    assert st.typecheck(Transformer(5), SCALARS, size=9) == SCALARS
    wrong = [
        (Transformer(5, batch_first=False), SCALARS),
        (Transformer(5, on_pixels=True), SCALARS),
        (Transformer(20), STREAM),
    ]
    for model, in_type in wrong:
        with pytest.raises(EquivarianceError):
            st.typecheck(model, in_type, size=9)
    frozen = Transformer(5).requires_grad_(False)
    with pytest.raises(EquivarianceError, match="`flatten` to shape"):  # what is not learned may pick pixels
        st.typecheck(frozen, SCALARS, size=9)


class Net(nn.Module):
    """A user's own module: the mistake, if any, is in its forward."""

    def __init__(self, mistake: bool) -> None:
        super().__init__()
        self.first = snn.Conv2d(IMAGE, STREAM, 3, padding=1)
        self.second = snn.Conv2d(STREAM, VECTORS, 3, padding=1)
        self.third = snn.Conv2d(VECTORS, STREAM, 3, padding=1)
        self.norm = snn.BatchNorm2d(STREAM)
        self.mistake = mistake

    def forward(self, x: Tensor) -> Tensor:
        x = F.relu(self.norm(self.first(x)))
        v = self.second(x)
        if self.mistake:
            v = F.relu(v)  # the line that breaks equivariance
        return x + self.third(v)


def test_the_first_wrong_line_is_named() -> None:
    source = Path(__file__).read_text().splitlines()
    line = next(k for k, text in enumerate(source, start=1) if "the line that breaks equivariance" in text)
    with pytest.raises(TypeError) as caught:
        st.typecheck(Net(mistake=True), IMAGE)
    assert str(caught.value).startswith(f"in Net, test_type_checking.py, line {line} (`v = F.relu(v)")
    assert st.typecheck(Net(mistake=False), IMAGE) == STREAM


def test_a_module_is_named_by_its_path() -> None:
    model = nn.Sequential(snn.Conv2d(IMAGE, VECTORS, 3), nn.Sequential(nn.Identity(), nn.ReLU()))
    with pytest.raises(TypeError, match=re.escape("in module `1.1` (ReLU): `relu` is not admissible for capsule `E`")):
        st.typecheck(model, IMAGE)


class Gate(snn.EquivariantModule):
    """A layer of somebody else's, which may be wrong: x ↦ x · [x > 0]."""

    def __init__(self, field_type: st.FieldType) -> None:
        super().__init__(field_type, field_type)

    def forward(self, x: Tensor) -> Tensor:
        return x * (x > 0)


def test_layers_of_other_people_are_tried() -> None:
    assert st.typecheck(Gate(STREAM)) == STREAM
    for model in (Gate(VECTORS), snn.Sequential(snn.Conv2d(STREAM, VECTORS, 3), Gate(VECTORS))):
        with pytest.raises(
            EquivarianceError, match=r"Gate says that it maps `2\*E` to `2\*E`, but it does not commute"
        ):
            st.typecheck(model)


class Two(snn.EquivariantModule):
    """A layer of somebody else's with two inputs."""

    def __init__(self) -> None:
        super().__init__(STREAM, STREAM)
        self.in_types = (STREAM, SCALARS)

    def forward(self, a: Tensor, b: Tensor) -> Tensor:
        return a * b[:, :1]


def test_keywords_of_layers_may_come_in_any_order() -> None:
    two, to_scalars = Two(), snn.Conv2d(STREAM, SCALARS, 1)
    assert st.typecheck(lambda x: two(b=to_scalars(x), a=x), STREAM) == STREAM
    with pytest.raises(EquivarianceError, match=r"Two takes a field of type `5\*A1` of D4"):
        st.typecheck(lambda x: two(b=x, a=x), STREAM)


class LayerScale(snn.EquivariantModule):
    """A layer of somebody else's that is equivariant only as long as it is not trained."""

    def __init__(self, field_type: st.FieldType, start: float) -> None:
        super().__init__(field_type, field_type)
        self.scale = nn.Parameter(torch.full((field_type.channels, 1, 1), start))

    def forward(self, x: Tensor) -> Tensor:
        return x + self.scale * x


@pytest.mark.parametrize("start", [0.0, 1e-6, 1.0])
def test_parameters_do_not_stay_as_they_begin(start: float) -> None:
    layer = LayerScale(STREAM, start)
    for model in (layer, nn.Sequential(layer), snn.Sequential(layer)):
        with pytest.raises(EquivarianceError, match="LayerScale says that it maps"):
            st.typecheck(model, STREAM)
    assert (layer.scale == start).all()
    assert st.typecheck(LayerScale(SCALARS, start)) == SCALARS


def _tampered_sequence() -> nn.Module:
    sequence = snn.Sequential(snn.Conv2d(STREAM, VECTORS, 1), snn.Tanh(VECTORS))
    sequence.add_module("more", nn.ReLU())
    return sequence


def _tampered_function() -> nn.Module:
    layer = snn.Tanh(VECTORS)
    layer.function = nn.ReLU()
    return nn.Sequential(snn.Conv2d(STREAM, VECTORS, 1), layer)


def _tampered_forward() -> nn.Module:
    layer = snn.Identity(STREAM)
    layer.forward = lambda x: x * torch.arange(20.0).view(20, 1, 1)  # type: ignore[method-assign]
    return layer


def _tampered_type() -> nn.Module:
    layer = snn.Identity(STREAM)
    layer.out_type = st.FieldType(G, "20*A1")
    return layer


UNSEEN: dict[str, Callable[[], Function]] = {
    "a layer put into a sequence": _tampered_sequence,
    "another function": _tampered_function,
    "another forward": _tampered_forward,
    "another type": _tampered_type,
    "a vectorised function": lambda: lambda x: x * torch.vmap(lambda s: s[:1].mean((1, 2), keepdim=True))(x),
    "a plain tensor": lambda: lambda x: x * torch.autograd.Variable(x)[:, :1, :1, :1],
    "a branch on gradients": lambda: lambda x: x * torch.arange(20.0).view(20, 1, 1) if torch.is_grad_enabled() else x,
}


@pytest.mark.parametrize("name", sorted(UNSEEN))
def test_what_no_operation_shows_is_measured(name: str) -> None:
    with pytest.raises(EquivarianceError, match="in the model's output: on random input it depends on whether"):
        st.typecheck(UNSEEN[name](), STREAM, size=9)


def test_a_size_that_does_not_fit_is_refused_every_time() -> None:
    """Layers warn once of a size; the verdict is the same each time, with a size and without."""
    layer = snn.Conv2d(IMAGE, STREAM, 5, stride=5)
    for size in (None, 33, None, 33):
        with pytest.raises(EquivarianceError, match="Conv2d is not exactly equivariant to D4 on inputs of height 33"):
            st.typecheck(layer, IMAGE, size=size)
    assert st.typecheck(layer, IMAGE, size=35) == STREAM


def test_one_check_inside_another_and_other_threads() -> None:
    layer, other = snn.ReLU(STREAM), snn.Dropout(STREAM).train()
    seen: list[object] = []

    def meanwhile() -> None:
        seen.append(other(torch.ones(1, 20, 3, 3)).shape)
        seen.append(other.training)

    def model(x: Tensor) -> Tensor:
        assert st.typecheck(layer, STREAM, size=5) == STREAM
        thread = threading.Thread(target=meanwhile)
        thread.start()
        thread.join()
        return layer(x)

    assert st.typecheck(model, STREAM, size=9) == STREAM
    assert set(seen) == {torch.Size([1, 20, 3, 3]), True}


def test_outputs_that_cannot_be_looked_into_are_refused() -> None:
    @dataclasses.dataclass
    class Output:
        field: Tensor

    with pytest.raises(EquivarianceError, match="typecheck looks into tuples, lists and dicts; it got Output"):
        st.typecheck(lambda x: Output(x), STREAM)
    assert st.typecheck(lambda x: (x, None, 3, "name"), STREAM) == (STREAM, None, 3, "name")


def test_hooks_of_layers_are_tried() -> None:
    layer = snn.Identity(STREAM)
    layer.register_forward_hook(lambda module, args, output: output * 2)
    assert st.typecheck(layer) == STREAM
    layer.register_forward_hook(lambda module, args, output: output * torch.arange(20.0).view(20, 1, 1))
    with pytest.raises(EquivarianceError, match="does not commute with `r` of D4"):
        st.typecheck(layer)


def test_layers_are_followed_wherever_they_are_called() -> None:
    """Also those that are no parts of the model: in a closure, in a list, by keyword."""
    first, second = snn.Conv2d(IMAGE, STREAM, 3).train(), snn.ReLU(STREAM)
    layers = [first, second]

    class Listed(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return layers[1](x=layers[0](x=x))

    assert st.typecheck(lambda x: second(first(x)), IMAGE) == st.typecheck(Listed(), IMAGE) == STREAM
    assert first.training
    wrong = snn.Identity(st.FieldType(G, "5*qm"))
    for call in (lambda x: wrong(x), lambda x: wrong(x=x)):
        with pytest.raises(EquivarianceError, match=re.escape("Identity takes a field of type `5*qm` of D4, but got")):
            st.typecheck(call, STREAM)
    with pytest.raises(EquivarianceError, match=re.escape("got an untyped tensor, expected `5*qm`")):
        st.typecheck(lambda x: wrong(torch.zeros(2, 20, 5, 5)), STREAM)


def test_every_argument_of_a_layer_is_checked() -> None:
    concat = snn.Concat([STREAM, VECTORS])
    to_vectors = snn.Conv2d(STREAM, VECTORS, 1)
    assert st.typecheck(lambda x: concat(x, to_vectors(x)), STREAM) == STREAM + VECTORS
    for call in (lambda x: concat(x, x[:, 16:]), lambda x: concat(x[:, :16], to_vectors(x))):
        with pytest.raises(EquivarianceError, match="Concat takes a field of type"):
            st.typecheck(call, STREAM)
    with pytest.raises(EquivarianceError, match="Concat takes 2 fields, one for each of its types; it got 1 tensors"):
        st.typecheck(lambda x: concat(x), STREAM)


def test_a_compiled_model_is_checked_as_it_was_written() -> None:
    assert st.typecheck(torch.compile(nn.ReLU(), backend="eager"), STREAM) == STREAM
    assert st.typecheck(torch.compile(lambda x: 2 * x, backend="eager"), VECTORS) == VECTORS
    with pytest.raises(EquivarianceError, match="`relu` is not admissible"):
        st.typecheck(torch.compile(nn.ReLU(), backend="eager"), VECTORS)


def test_named_tuples_stay_named() -> None:
    Heads = collections.namedtuple("Heads", ["field", "pooled"])
    found = st.typecheck(lambda x: Heads(x, x.mean((2, 3))), STREAM)
    assert found == Heads(STREAM, STREAM)
    assert found.pooled == STREAM


def test_buffers_of_a_model_are_left_alone() -> None:
    """Even where it normalises by the batch in evaluation mode, or tries to write into a buffer."""

    class ByTheBatch(nn.BatchNorm2d):
        def forward(self, x: Tensor) -> Tensor:
            return F.batch_norm(x + 1, self.running_mean, running_var=self.running_var, training=True)

    norm, count = ByTheBatch(5), torch.zeros(5)
    mean = norm.running_mean.clone()
    st.typecheck(norm, SCALARS)
    with pytest.raises(EquivarianceError):
        st.typecheck(lambda x: count.add_(x.mean((2, 3)).sum(0)), SCALARS)
    assert torch.equal(norm.running_mean, mean)
    assert not count.any()


@pytest.mark.parametrize(("mirror", "widths"), [("mr3", (1, 2, 1, 2)), ("mr", (1, 2, 2, 1)), ("m", (1, 1, 2, 0))])
def test_padding_of_all_four_sides(mirror: str, widths: tuple[int, ...]) -> None:
    """A diagonal mirror takes the left side to the top, or to the bottom: every other padding breaks it."""
    field_type = st.FieldType(G.subgroup(["e", mirror]), "2*regular")
    for trial in itertools.product(range(3), repeat=4):
        function = functools.partial(F.pad, pad=trial)
        image = torch.randn(1, 4, 5, 5, dtype=torch.float64)
        try:
            st.testing.assert_equivariant(function, image, in_type=field_type, out_type=field_type)
            true = True
        except AssertionError:
            true = False
        try:
            accepted = st.typecheck(function, field_type, size=5) == field_type
        except EquivarianceError:
            accepted = False
        assert accepted == true, trial
        assert accepted or trial != widths


def test_layers_get_the_types_they_take() -> None:
    model = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3), snn.Conv2d(VECTORS, STREAM, 3))
    with pytest.raises(
        TypeError, match=re.escape("Conv2d takes a field of type `2*E` of D4, but got one of type `2*regular + qm`")
    ):
        st.typecheck(model, IMAGE)


def test_a_model_is_left_as_it_was() -> None:
    model = Net(mistake=False).train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    st.typecheck(model, IMAGE)
    with pytest.raises(EquivarianceError):
        st.typecheck(Net(mistake=True), IMAGE)
    assert all(module.training for module in model.modules())
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert type(model(torch.randn(2, 3, 9, 9))) is Tensor


def test_several_outputs_keep_their_structure() -> None:
    class Heads(nn.Module):
        def forward(self, x: Tensor) -> dict[str, object]:
            return {"all": x, "parts": x.split([8, 12], dim=1)}

    found = st.typecheck(Heads(), STREAM)
    assert found == {"all": STREAM, "parts": (st.FieldType(G, "regular"), st.FieldType(G, "regular + qm"))}


def test_addition_admits_identical_capsules_only() -> None:
    a, b = (
        typed(torch.zeros(1, 16, 5, 5), st.FieldType(G, "4*qm")),
        typed(torch.zeros(1, 16, 5, 5), st.FieldType(G, "4*qmr")),
    )
    assert (a + a).field_type == a.field_type
    for function in (lambda: a + b, lambda: b - a, lambda: torch.add(a, b), lambda: a.add_(b)):
        with pytest.raises(TypeError, match=r"moves their channels differently. Only identical capsules may be added"):
            function()
    with pytest.raises(TypeError, match="they have 16 and 8 channels"):
        a + typed(torch.zeros(1, 8, 5, 5), st.FieldType(G, "regular"))
    with pytest.raises(TypeError, match=r"C4 acts on the one|D4 acts on the one"):
        a + typed(torch.zeros(1, 16, 5, 5), st.FieldType(st.cyclic(4), "4*regular"))


def test_constants_of_a_model_must_be_invariant() -> None:
    """Outside a model ``typed`` may say of any tensor how it transforms."""
    constant = typed(torch.ones(1, 20, 1, 1), STREAM)
    assert st.typecheck(lambda x: x + constant, STREAM) == STREAM
    assert (typed(torch.randn(1, 20, 1, 1), STREAM) + constant).field_type == STREAM


def test_fields_of_different_groups_are_not_joined() -> None:
    a = typed(torch.zeros(1, 8, 5, 5), st.FieldType(G, "regular"))
    b = typed(torch.zeros(1, 8, 5, 5), st.FieldType(st.cyclic(4), "2*regular"))
    with pytest.raises(EquivarianceError, match="`cat` of fields of different groups"):
        torch.cat([a, b], 1)


@pytest.mark.parametrize(
    ("a", "b", "alike"),
    [
        ([1.0, 2.0], [1.0, 2.0 + 1e-10], True),
        ([1.0, 2.0], [1.0, 2.0 + 1e-7], False),
        ([math.nan, 2.0], [math.nan, 2.0], True),
        ([math.nan, 2.0], [1.0, 2.0], False),
        ([1.0, 2.0], [math.nan, 2.0], False),
        ([math.inf, 2.0], [math.inf, 2.0], True),
        ([math.inf, 2.0], [-math.inf, 2.0], False),
        ([1.0, 2.0], [math.inf, 2.0], False),
        ([math.inf, 2.0], [1.0, 2.0], False),
        ([math.inf, 1e-3], [math.inf, 2e-3], False),
        ([1.0], [1.0, 1.0], False),
        ([], [], True),
    ],
)
def test_two_orders_are_compared_to_rounding(a: list[float], b: list[float], alike: bool) -> None:
    assert other_angles.agree(*(torch.tensor(values, dtype=torch.float64) for values in (a, b))) is alike


def test_a_tensor_of_the_wrong_size_is_no_field() -> None:
    with pytest.raises(ValueError, match=re.escape("a field of type `2*E` has shape (batch, 4, …); got (1, 3, 5, 5).")):
        typed(torch.zeros(1, 3, 5, 5), VECTORS)


def test_an_untyped_result_and_a_missing_type_are_refused() -> None:
    with pytest.raises(EquivarianceError, match="the model's output is an untyped tensor"):
        st.typecheck(lambda x: torch.zeros(1), STREAM)
    with pytest.raises(TypeError, match="typecheck needs the type of the input"):
        st.typecheck(nn.Identity())


# -------------------------------------------------------------------- the table itself


def bound(name: str, **arguments: object) -> object:
    """What binding a call finds, with a field of 20 channels for each argument that has to be given."""
    operation, x = OPERATIONS[name], field(STREAM)
    values = {
        key: x if key in operation.fields else torch.ones(1)
        for key, parameter in operation.signature.parameters.items()
        if parameter.default is parameter.empty and parameter.kind == parameter.POSITIONAL_OR_KEYWORD
    }
    if "tensors" in values:
        values["tensors"] = [x]
    positional = {key: value for key, value in values.items() if key not in arguments}
    kinds = {key: parameter.kind for key, parameter in operation.signature.parameters.items()}
    many = [v for key, v in arguments.items() if kinds.get(key) == inspect.Parameter.VAR_POSITIONAL]
    rest = {key: value for key, value in arguments.items() if kinds.get(key) != inspect.Parameter.VAR_POSITIONAL}
    types = {id(value): STREAM for value in (x, *arguments.values())}
    return bound_call(name, operation, [*positional.values(), *many], rest, types)


PARAMETERS = [
    (name, key)
    for name, operation in OPERATIONS.items()
    for key in operation.signature.parameters
    if key not in (*operation.fields, *operation.models)
]


@pytest.mark.parametrize(("name", "parameter"), PARAMETERS)
def test_tensors_are_refused_where_an_operation_takes_numbers(name: str, parameter: str) -> None:
    """Whatever a rule thinks of: per channel, per pixel, or a field as a weight."""
    with pytest.raises(Refused, match=r"got a field as its argument|got a tensor of shape|out=\.\.\.|not known"):
        bound(name, **{parameter: field(STREAM)})


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_unknown_arguments_are_refused(name: str) -> None:
    options = any(p.kind == p.VAR_KEYWORD for p in OPERATIONS[name].signature.parameters.values())
    if options:  # of a tensor's construction, or of its shape
        assert set(name.split("_")) & {"to", "type", "new", "view", "reshape", "expand", "broadcast"}
    else:
        with pytest.raises(Refused, match="this way of calling"):
            bound(name, mystery=1)


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_arguments_are_called_as_torch_calls_them(name: str) -> None:
    """A new version of torch may add some; they are to be looked at."""
    for home in (torch, Tensor, F):
        function = getattr(home, name, None)
        if not inspect.isfunction(function):  # what is compiled does not tell
            continue
        names = list(inspect.signature(function).parameters)
        if set(names) <= {"args", "kwargs"}:
            continue
        known = list(OPERATIONS[name].signature.parameters)
        aliases = {"self": "input", "tensor": "input", "split_size": "split_size_or_sections"}
        names = [aliases.get(key, key) for key in names]
        assert [key for key in known if key in names] == names


@pytest.mark.parametrize("name", sorted(OPERATIONS))
def test_every_rule_names_an_operation_of_torch(name: str) -> None:
    """A misspelt rule would never be used."""
    homes = (torch, torch.Tensor, F, torch._C._linalg)
    assert any(hasattr(home, spelling) for home in homes for spelling in (name, f"__{name}__"))


def test_a_size_that_fits_is_found() -> None:
    """Strided convolutions fit odd sizes, pooling by two even ones."""
    odd = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, stride=2, padding=1), nn.ReLU())
    even = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, padding=1), nn.AvgPool2d(2))
    assert st.typecheck(odd, IMAGE) == st.typecheck(even, IMAGE) == STREAM
    both = nn.Sequential(snn.Conv2d(IMAGE, STREAM, 3, stride=2, padding=1), nn.AvgPool2d(2))
    with pytest.raises(EquivarianceError, match="pixels unevenly"):
        st.typecheck(both, IMAGE)


def test_a_network_that_refuses_sizes_is_tried_on_others() -> None:
    def only(*sizes: int) -> Function:
        def network(x: Tensor) -> Tensor:
            if x.shape[-1] not in sizes:
                raise ValueError(f"not {x.shape[-1]}")
            return 2 * x

        return network

    assert st.typecheck(only(16), IMAGE) == IMAGE
    with pytest.raises(ValueError, match="not 33"):
        st.typecheck(only(5), IMAGE)
    with pytest.raises(ValueError, match="not 16"):
        st.typecheck(only(32), IMAGE, size=16)
