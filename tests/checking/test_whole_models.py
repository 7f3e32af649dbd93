"""What typecheck finds by measuring a model as a whole: in training, in float64, with other parameters and sizes."""

from __future__ import annotations

import math
import re
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import nn as snn
from steerable.checking import EquivarianceError, TypedTensor, typed

G = st.dihedral(4)
SCALARS = st.FieldType(G, "4*A1")
STREAM = st.FieldType(G, "2*regular")

AS_A_WHOLE = "on random input it depends on whether"


class Own(snn.EquivariantModule):
    """A layer of somebody else's, whose parameter has these values at first."""

    def __init__(self, field_type: st.FieldType, start: Tensor) -> None:
        super().__init__(field_type, field_type)
        self.weight = nn.Parameter(start)

    def forward(self, x: Tensor) -> Tensor:
        return F.conv2d(x, self.weight, padding=self.weight.shape[-1] // 2)


def _symmetric(channels: int) -> Tensor:
    filters = torch.randn(channels, channels, 3, 3)
    filters = sum(torch.rot90(filters, k, (2, 3)) for k in range(4))
    return filters + filters.flip(-1)


@pytest.mark.parametrize(
    ("in_type", "start"),
    [
        (STREAM, torch.eye(16)[:, :, None, None]),
        (STREAM, torch.eye(16)[:, :, None, None] * 1e-3),
        (SCALARS, nn.init.dirac_(torch.empty(4, 4, 3, 3))),
        (SCALARS, _symmetric(4)),
    ],
    ids=["identity", "small", "one tap", "symmetric"],
)
def test_parameters_that_begin_symmetric_do_not_stay_so(in_type: st.FieldType, start: Tensor) -> None:
    layer = Own(in_type, start.clone())
    for model in (layer, nn.Sequential(layer), snn.Sequential(layer)):
        with pytest.raises(EquivarianceError, match=r"Own says that it maps .* but it does not commute with `r` of D4"):
            st.typecheck(model, in_type)
    assert torch.equal(layer.weight, start)
    assert st.typecheck(Own(SCALARS, torch.eye(4)[:, :, None, None])) == SCALARS  # scalars may be mixed at will


class InMode(nn.Module):
    """A network that does something more in training."""

    def __init__(self, extra: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.body = nn.Sequential(
            snn.Conv2d(SCALARS, STREAM, 3, padding=1),
            snn.BatchNorm2d(STREAM),
            nn.ReLU(),
            nn.Dropout(),
            snn.Dropout(STREAM),
        )
        self.extra = extra

    def forward(self, x: Tensor) -> Tensor:
        x = self.body(x)
        return self.extra(x) if self.training else x


@pytest.mark.parametrize(
    "extra",
    [lambda x: x.roll(1, -1), lambda x: x * torch.arange(16).view(16, 1, 1), lambda x: x - x[:, :1]],
    ids=["pixels", "channels", "one channel"],
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_training_is_measured_too(extra: Callable[[Tensor], Tensor], dtype: torch.dtype) -> None:
    model = InMode(extra).to(dtype)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    with pytest.raises(EquivarianceError, match=f"in training, {AS_A_WHOLE}"):
        st.typecheck(model, SCALARS)
    assert all(torch.equal(value, before[key]) for key, value in model.state_dict().items())
    assert all(module.training for module in model.modules())


@pytest.mark.parametrize(
    "extra",
    [
        lambda x: 2 * x,
        lambda x: x + torch.randn_like(x),
        lambda x: F.dropout(x),
        lambda x: (x, x),
        lambda x: F.conv2d(x, torch.ones(1, 1, 1, 1)),
    ],
    ids=["harmless", "noise", "dropout", "another structure", "an error"],
)
def test_what_training_alone_does_at_random_is_let_pass(extra: Callable[[Tensor], Tensor]) -> None:
    model, state = InMode(extra), torch.random.get_rng_state()
    assert st.typecheck(model, SCALARS) == STREAM
    assert torch.equal(torch.random.get_rng_state(), state)


class StochasticDepth(nn.Module):
    def __init__(self, *, shifted: bool) -> None:
        super().__init__()
        self.conv, self.shifted = snn.Conv2d(SCALARS, SCALARS, 3, padding=1), shifted

    def forward(self, x: Tensor) -> Tensor:
        y = self.conv(x)
        if self.training:
            y = y * (torch.rand(len(x), 1, 1, 1) < 0.8) / 0.8
            y = y.roll(1, -1) if self.shifted else y
        return x + y


@pytest.mark.parametrize("seed", range(5))
def test_chance_hides_nothing_and_breaks_nothing(seed: int) -> None:
    """Two seeds may drop the same samples, and a third others: that is not a breach, but a shift beside it is one."""
    torch.manual_seed(seed)
    assert st.typecheck(StochasticDepth(shifted=False), SCALARS) == SCALARS
    with pytest.raises(EquivarianceError, match=f"in training, {AS_A_WHOLE}"):
        st.typecheck(StochasticDepth(shifted=True), SCALARS)


class Running(snn.EquivariantModule):
    """A layer of somebody else's, which learns the mean of each channel."""

    def __init__(self) -> None:
        super().__init__(STREAM, STREAM)
        self.register_buffer("mean", torch.zeros(16))

    def forward(self, x: Tensor) -> Tensor:
        if self.training:
            self.mean.copy_(x.mean((0, 2, 3)))
        return x - self.mean[:, None, None]


def test_what_training_leaves_in_buffers_is_measured() -> None:
    with pytest.raises(EquivarianceError, match=f"after a step of training, {AS_A_WHOLE}"):
        st.typecheck(nn.Sequential(Running(), nn.ReLU()), STREAM)


class Keeping(nn.Module):
    """Keeps what it computes, in every way there is."""

    def __init__(self) -> None:
        super().__init__()
        self.kept, self.runs, self.conv = [], 0, snn.Conv2d(SCALARS, STREAM, 3, padding=1)
        self.register_buffer("count", torch.zeros(()))
        self.register_buffer("last", None)

    def forward(self, x: Tensor) -> Tensor:
        self.features = self.last = self.conv(x)
        self.kept.append(self.features)
        self.runs += 1
        self.count += 1
        return self.features


def test_what_a_model_keeps_of_a_check_is_forgotten() -> None:
    model = Keeping()
    assert st.typecheck(model, SCALARS) == STREAM
    st.testing.assert_equivariant(model, in_type=SCALARS, out_type=STREAM)
    assert (model.kept, model.runs, model.count, model.last) == ([], 0, 0, None)
    assert not hasattr(model, "features")


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * x.float().softmax(1).to(x.dtype),
        lambda x: F.softmax(x, 1, dtype=torch.float32).type_as(x) + x.mean((2, 3), keepdim=True, dtype=torch.float32),
    ],
)
def test_what_is_computed_in_single_precision_is_no_fault(model: Callable[[Tensor], Tensor]) -> None:
    class Net(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return model(x)

    assert st.typecheck(Net(), STREAM) == STREAM
    assert st.typecheck(Net().double(), STREAM) == STREAM


def test_a_filter_for_other_angles_is_told_from_one_for_right_angles() -> None:
    """Fourth powers of a direction commute with C4; constant images do not show what they do."""

    class Quartic(snn.EquivariantModule):
        def forward(self, x: Tensor) -> Tensor:
            x = F.pad(x, (1, 1, 1, 1))
            across, down = x[..., 1:-1, 2:] - x[..., 1:-1, :-2], x[..., 2:, 1:-1] - x[..., :-2, 1:-1]
            return (across * down) ** 2

    for group, sound in ((st.cyclic(4), True), (st.cyclic(8), False), (st.so2(), False)):
        kind = st.FieldType(group, "A")
        if sound:
            assert st.typecheck(Quartic(kind, kind)) == kind
        else:
            with pytest.raises(EquivarianceError, match=r"does not commute with|on random input it depends"):
                st.typecheck(Quartic(kind, kind))


def test_random_places_in_training_are_let_pass() -> None:
    def cut_out(x: Tensor) -> Tensor:
        column = int(torch.randint(0, x.shape[-1], ()))
        return torch.cat([x[..., :column], 0 * x[..., column:]], -1)

    assert st.typecheck(InMode(cut_out), SCALARS) == STREAM


def test_a_compiled_part_is_checked_as_it_was_written() -> None:
    conv = torch.compile(snn.Conv2d(SCALARS, STREAM, 3, padding=1), backend="eager")
    assert st.typecheck(nn.Sequential(conv, nn.ReLU()), SCALARS) == STREAM


def _shifted(x: Tensor) -> Tensor:
    return x.roll(1, -1)


@pytest.mark.parametrize(
    ("found", "model"),
    [
        ("inputs of size 49", lambda x: _shifted(x) if x.shape[-1] > 40 else x),
        ("inputs of size 49", lambda x: _shifted(x) if x.shape[-1] > 40.5 or -x.shape[-1] < -45 else x),
        ("inputs of size 65", lambda x: _shifted(x) if x.shape[-1] ** 2 > 3000 else x),
        ("inputs of size 33×65", lambda x: _shifted(x) if x.shape[-1] / x.shape[-2] > 1.5 else x),
        ("inputs of size 65×33", lambda x: _shifted(x) if x.shape[-2] > x.shape[-1] * 1.5 else x),
        ("inputs of size 113", lambda x: _shifted(x) if x.shape[2] * x.shape[3] >= 10_000 else x),
        ("inputs of size 1", lambda x: x if x.size(-1) >= 12 else _shifted(x)),
        ("inputs of size 49", lambda x: x if x.size(dim=3) % 7 else _shifted(x)),
        ("inputs of size 97", lambda x: _shifted(x) if x.shape[-1] >= 96 and x.shape[-2] == 97 else x),
        ("inputs of size 224", lambda x: _shifted(x) if x.shape[-1] == 224 else x),
        ("a batch of 5, but not with one of 2", lambda x: _shifted(x) if 1 + x.numel() > 20_000 else x),
        ("inputs of size 33×65", lambda x: _shifted(x) if x.shape[-1] != x.shape[-2] else x),
        ("inputs of size 49", lambda x: F.avg_pool2d(x, 3, 2, 1) if x.shape[-1] < 40 else _pooled_and_shifted(x)),
        ("a batch of 1, but not with one of 2", lambda x: _shifted(x) if len(x.shape) > 2 and x.shape[0] == 1 else x),
        ("a batch of 9, but not with one of 2", lambda x: _shifted(x) if x.size(0) > 8 else x),
        # What Python computes without telling us is found on a large batch and on twice the size.
        ("a batch of 17, but not with one of 2", lambda x: _shifted(x) if len(x) > 8 else x),
        ("inputs of size 66", lambda x: _shifted(x) if int(x.shape[-1]) >= 64 else x),
        ("inputs of size 66", lambda x: _shifted(x) if math.log2(x.shape[-1]) >= 6 else x),
    ],
)
def test_what_a_model_asks_of_sizes_is_answered_both_ways(found: str, model: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(EquivarianceError, match=f"`roll` is not known .*{re.escape(f'This happens with {found}')}"):
        st.typecheck(model, SCALARS)
    assert st.typecheck(model, SCALARS, size=33) == SCALARS


def _pooled_and_shifted(x: Tensor) -> Tensor:
    return F.avg_pool2d(_shifted(F.avg_pool2d(x, 3, 2, 1)), 3, 2, 1)


@pytest.mark.parametrize(
    "model",
    [
        lambda x: x * 2 if x.shape[-1] > 40 else x,
        lambda x: x if x.shape[-1] == x.shape[-2] else x.mean((2, 3), keepdim=True) + x,
        lambda x: F.interpolate(x, scale_factor=2) if min(x.shape[2:]) < 8 else x,
        lambda x: x * sum(1 for k in range(40) if k < x.shape[-1]),
        lambda x: x * (x.shape[-1] / 2) * (x.shape[-1] // max(x.shape[-1] - 33, 1)),
    ],
)
def test_sound_answers_are_accepted(model: Callable[[Tensor], Tensor]) -> None:
    assert st.typecheck(model, SCALARS) == SCALARS


def test_a_model_may_refuse_what_it_asks_for() -> None:
    def square_only(x: Tensor) -> Tensor:
        if x.shape[-1] != x.shape[-2] or x.shape[-1] > 100:
            raise ValueError("small squares only")
        return 2 * x

    assert st.typecheck(square_only, SCALARS) == SCALARS


def test_a_small_fault_is_told_from_rounding() -> None:
    """What is not seen as an operation is measured in float64, where a millionth is far more than rounding."""

    class Hidden(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.conv = snn.Conv2d(SCALARS, SCALARS, 3, padding=1)

        def forward(self, x: Tensor) -> Tensor:
            unseen = torch.autograd.Variable(x)[:, :1, :1, :1]
            return self.conv(x) * (1 + 1e-6 * torch.sigmoid(unseen))

    with pytest.raises(EquivarianceError, match=AS_A_WHOLE):
        st.typecheck(Hidden(), SCALARS)


@pytest.mark.parametrize("shift", [0, 1])
def test_rounding_that_many_layers_carry_far_is_no_fault(shift: int) -> None:
    """Sums in another order differ in the last digit, which each of these steps doubles."""

    class Deep(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            gate = torch.autograd.Variable(torch.sigmoid(x.mean((2, 3), keepdim=True)))
            for _ in range(30):
                gate = 4 * gate * (1 - gate)
            return x if isinstance(x, TypedTensor) else x * gate.roll(shift, 1)

    if shift:
        with pytest.raises(EquivarianceError, match=AS_A_WHOLE):
            st.typecheck(Deep(), STREAM, size=33)
    else:
        assert st.typecheck(Deep(), STREAM, size=33) == STREAM


def test_what_is_declared_a_constant_must_be_one() -> None:
    """The check begins on an image of zeros, of which everything is invariant."""

    def hidden(x: Tensor) -> Tensor:
        return x + typed(torch.autograd.Variable(x).flip(-1), SCALARS)

    with pytest.raises(EquivarianceError, match=AS_A_WHOLE):
        st.typecheck(hidden, SCALARS)
    constant = typed(torch.ones(1, 4, 1, 1), SCALARS)
    assert st.typecheck(lambda x: x * 2 + constant, SCALARS) == SCALARS
    with pytest.raises(EquivarianceError, match=AS_A_WHOLE):
        st.typecheck(lambda x: x * torch.autograd.Variable(x)[:, :1, :1, :1] + constant, SCALARS)


def test_odd_and_even_sizes_are_both_tried() -> None:
    """A branch on the size is followed; a stride that does not fit one of the sizes is another matter."""

    def padded(x: Tensor) -> Tensor:
        spare = x.shape[-1] % 2
        return F.avg_pool2d(F.pad(x, (0, spare, 0, spare)), 2)

    with pytest.raises(
        EquivarianceError, match=re.escape("This happens with inputs of size 33, but not with those of size 32")
    ):
        st.typecheck(padded, SCALARS)
    assert st.typecheck(padded, SCALARS, size=32) == SCALARS
    with pytest.raises(EquivarianceError, match=r"is not symmetric under D4"):
        st.typecheck(padded, SCALARS, size=33)
    with pytest.raises(EquivarianceError, match=r"`roll` is not known .* typecheck\(\.\.\., size=33\)"):
        st.typecheck(lambda x: x if x.shape[-1] % 2 else x.roll(1, -1), SCALARS)
    assert st.typecheck(lambda x: F.avg_pool2d(x, 2), SCALARS) == SCALARS
    assert st.typecheck(lambda x: F.avg_pool2d(x, 3, 2, 1), SCALARS) == SCALARS
    assert st.typecheck(lambda x: F.interpolate(x, size=64), SCALARS) == SCALARS


@pytest.mark.parametrize(("group", "hidden"), [("C8", "2*regular"), ("D8", "regular"), ("SO2", "A + E1")])
def test_padding_may_be_felt_in_what_a_network_pools(group: str, hidden: str) -> None:
    """By angles off the grid only: a square border does not turn with the image."""
    kind, image = st.FieldType(group, hidden), st.FieldType(group, "A1" if group == "D8" else "A")
    layers = [snn.Conv2d(image, kind, 3, padding=1), snn.NormReLU(kind), snn.Conv2d(kind, kind, 3, padding=1)]
    assert st.typecheck(snn.Sequential(*layers, snn.GlobalAvgPool(kind))) == kind
    with pytest.raises(EquivarianceError, match=AS_A_WHOLE):
        st.typecheck(lambda x: snn.GlobalAvgPool(kind)(x * torch.autograd.Variable(x)[:, :1, :1, :1]), kind)
