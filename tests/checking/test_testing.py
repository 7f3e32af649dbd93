"""The measure of equivariance itself: it must see what is broken, and leave what it measures as it was."""

import math
from collections.abc import Callable
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn

import steerable as st
from steerable import FieldType
from steerable import nn as snn

D4 = st.dihedral(4)
A1, REGULAR = FieldType(D4, "A1"), FieldType(D4, "regular")


class LeftHalf(snn.EquivariantModule):
    """Doubles the left half of an image: commutes with e and mr2 (up and down) only."""

    def forward(self, x: Tensor) -> Tensor:
        weights = torch.ones(x.shape[-1], dtype=x.dtype)
        weights[: x.shape[-1] // 2] = 2
        return x * weights


def test_a_broken_module_is_found_and_the_elements_that_it_breaks() -> None:
    errors = st.testing.equivariance_errors(LeftHalf(A1, A1), size=8)
    assert list(errors) == list(D4.elements)
    assert {g for g, error in errors.items() if error == 0} == {"e", "mr2"}
    assert min(error for g, error in errors.items() if g not in ("e", "mr2")) > 0.1
    assert st.testing.equivariance_error(LeftHalf(A1, A1), size=8) == max(errors.values())


def test_the_assertion_names_the_worst_element() -> None:
    def almost(x: Tensor) -> Tensor:
        y = x.clone()
        y[..., 0, 0] += 1.0  # one corner
        return y

    x = torch.arange(16.0).view(1, 1, 4, 4)
    with pytest.raises(AssertionError) as error:
        st.testing.assert_equivariant(almost, x, in_type=A1, out_type=A1)
    # 1 of the largest output, 15; all elements but e and the mirror in the diagonal move the corner
    assert str(error.value).startswith(
        "not equivariant: f(π(g)x) differs from π(g)f(x) by 6.67e-02 of the largest output for g = `r`; expected at "
        "most 1e-05. Errors: e 0.0e+00, r 6.7e-02, r2 6.7e-02, r3 6.7e-02, m 6.7e-02"
    )
    st.testing.assert_equivariant(almost, x, in_type=A1, out_type=A1, tolerance=0.07)


def test_a_convolution_with_a_spoiled_filter_is_found() -> None:
    layer = snn.Conv2d(REGULAR, REGULAR, 3, padding=1)
    st.testing.assert_equivariant(layer)
    spoiled = snn.to_plain(layer)
    with torch.no_grad():
        spoiled.weight[0, 0, 0, 0] += 0.01  # type: ignore[index]
    with pytest.raises(AssertionError, match="not equivariant"):
        st.testing.assert_equivariant(spoiled, in_type=REGULAR, out_type=REGULAR)


class Residual(nn.Sequential):
    def forward(self, x: Tensor) -> Tensor:
        return x + super().forward(x)


def _of_zeros(layer: nn.Module) -> nn.Module:
    for parameter in layer.parameters():
        nn.init.zeros_(parameter)
    return layer


def _identity() -> nn.Module:
    layer = nn.Conv2d(8, 8, 1, bias=False)
    nn.init.dirac_(layer.weight)
    return layer


class Remembering(nn.Module):
    """Subtracts the image that it saw last in training."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("seen", torch.zeros(8, 17, 17))
        self.runs = 0

    def forward(self, x: Tensor) -> Tensor:
        self.runs += 1
        if self.training:
            self.seen.copy_(x[0])
        return x - self.seen


@pytest.mark.parametrize(
    "hidden",
    [
        nn.BatchNorm2d(8),
        nn.LayerNorm((8, 17, 17)),
        Residual(_of_zeros(nn.Conv2d(8, 8, 3, padding=1))),
        _of_zeros(nn.Conv2d(8, 8, 1)),
        nn.BatchNorm2d(8, affine=False),
        Remembering(),
        _identity(),
    ],
    ids=["scales per channel", "scales per pixel", "residual", "nothing but zeros", "running means", "a running image",
         "the identity"],
)  # fmt: skip
def test_a_fault_that_training_would_bring_to_light_is_found(hidden: nn.Module) -> None:
    before = {name: value.clone() for name, value in hidden.state_dict().items()}
    assert st.testing.equivariance_error(hidden, in_type=REGULAR, out_type=REGULAR, size=17) < 1e-6
    with pytest.raises(
        AssertionError, match=r"not equivariant once it has been trained \(freeze what training is to leave"
    ):
        st.testing.assert_equivariant(hidden, in_type=REGULAR, out_type=REGULAR, size=17)
    assert all(torch.equal(value, before[name]) for name, value in hidden.state_dict().items())
    assert getattr(hidden, "runs", 0) == 0
    only = {"in_type": REGULAR, "out_type": REGULAR, "size": 17}
    st.testing.assert_equivariant(hidden, elements=iter(["e"]), **only)  # type: ignore[arg-type]
    net = snn.Sequential(snn.Conv2d(A1, REGULAR, 3, padding=1), snn.BatchNorm2d(REGULAR)).double()
    st.testing.assert_equivariant(net)


@pytest.mark.parametrize("result", [(1, 2), {"a": 1}, None, 1.0])
def test_one_tensor_is_measured_at_a_time(result: object) -> None:
    with pytest.raises(TypeError, match=f"the function returned {type(result).__name__}. Measure one output at a time"):
        st.testing.equivariance_error(lambda x: result, in_type=A1, out_type=A1, size=4)  # type: ignore[arg-type, return-value]


def test_results_that_are_not_numbers_are_no_success() -> None:
    with pytest.raises(AssertionError, match="nan"):
        st.testing.assert_equivariant(lambda x: x / 0 * 0, in_type=A1, out_type=A1, size=4)


def test_one_element_without_a_number_is_the_worst() -> None:
    def only_upright(x: Tensor) -> Tensor:
        return x if x[0, 0, 0, 0] == 0 else x / 0 * 0

    x = torch.arange(16.0).view(1, 1, 4, 4)
    assert math.isnan(st.testing.equivariance_error(only_upright, x, in_type=A1, out_type=A1))


def test_plain_functions_and_vector_outputs() -> None:
    assert st.testing.equivariance_error(torch.relu, in_type=REGULAR, out_type=REGULAR) == 0
    pooled = lambda x: x.mean((2, 3))  # noqa: E731
    assert st.testing.equivariance_error(pooled, in_type=REGULAR, out_type=REGULAR) < 1e-6
    assert st.testing.equivariance_error(pooled, in_type=REGULAR, out_type=FieldType(D4, "8*A1")) > 0.1
    assert st.testing.equivariance_error(snn.Linear(REGULAR, A1)) < 1e-6


def test_outputs_of_a_subgroup_are_measured_over_the_subgroup() -> None:
    layer = snn.Restrict(REGULAR, ["e", "r2"])
    assert list(st.testing.equivariance_errors(layer)) == ["e", "r2"]


def test_types_must_be_known() -> None:
    with pytest.raises(TypeError) as error:
        st.testing.equivariance_error(nn.ReLU(), in_type=A1)
    assert str(error.value) == (
        "ReLU does not say its types; pass in_type=... and out_type=... (for invariant outputs a type of trivial "
        "capsules, such as FieldType(G, '10*A1'))."
    )


def test_training_modes_and_statistics_are_left_alone() -> None:
    net = snn.Sequential(snn.Conv2d(A1, REGULAR, 3, padding=1), snn.BatchNorm2d(REGULAR), snn.ReLU(REGULAR))
    net[1].eval()
    before = {name: value.clone() for name, value in net.state_dict().items()}
    st.testing.assert_equivariant(net)
    assert [module.training for module in net] == [True, False, True]
    assert net.training
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name])

    class Failing(snn.Identity):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyError("broken")

    failing = Failing(A1)
    with pytest.raises(KeyError):
        st.testing.equivariance_error(failing)
    assert failing.training


def test_a_size_that_fits_the_strides_is_chosen() -> None:
    for layer in (snn.MaxPool2d(REGULAR, 2), snn.MaxPool2d(REGULAR, 3, 2), snn.AvgPool2d(REGULAR, 3)):
        st.testing.assert_equivariant(layer)


@pytest.mark.parametrize(
    ("function", "off", "fits"),
    [
        (lambda x: x[..., ::2, ::2], 16, 17),
        (lambda x: F.avg_pool2d(x, 3, 2, 1), 16, 17),
        (lambda x: F.max_pool2d(x, 2), 17, 16),
        (lambda x: x if x.shape[-1] % 2 else x.roll(1, -1), 16, 17),
    ],
    ids=["every other pixel", "odd windows", "even windows", "a shift on even sizes"],
)
def test_odd_and_even_sizes_are_measured(function: Callable[[Tensor], Tensor], off: int, fits: int) -> None:
    types = {"in_type": REGULAR, "out_type": REGULAR}
    with pytest.raises(
        AssertionError, match=rf"not equivariant on inputs of size {off} \(give size=\.\.\. where others"
    ):
        st.testing.assert_equivariant(function, **types)
    st.testing.assert_equivariant(function, **types, size=fits)
    assert st.testing.equivariance_error(function, **types, size=off) > 0.1


def attention(x: Tensor, weights: Callable[[Tensor], Tensor]) -> Tensor:
    """Each channel a mixture of all channels, which no capsule but scalars admits, by weights of their products."""
    rows = x.flatten(2)
    return (weights(rows @ rows.mT) @ rows).view_as(x)


@pytest.mark.parametrize(
    "weights",
    [lambda products: products.softmax(-1), lambda products: products.exp() / products.exp().sum(-1, keepdim=True)],
    ids=["softmax", "by hand"],
)
def test_what_large_numbers_hide_is_found_on_small_ones(weights: Callable[[Tensor], Tensor]) -> None:
    """Products of large numbers make a softmax 1 and 0, and overflow one that is written by hand."""
    vectors = FieldType(D4, "4*E")
    with pytest.raises(AssertionError, match="not equivariant on"):
        st.testing.assert_equivariant(partial(attention, weights=weights), in_type=vectors, out_type=vectors)
    with pytest.raises(st.EquivarianceError):
        st.typecheck(partial(attention, weights=weights), vectors)


SIGNS = FieldType(D4, "4*A2")


@pytest.mark.parametrize("bound", [nn.Hardtanh(-6.0, 7.0), lambda x: x.clamp(max=8.0), lambda x: x * (x < 9)])
def test_bounds_that_ordinary_numbers_do_not_reach_are_found(bound: Callable[[Tensor], Tensor]) -> None:
    with pytest.raises(AssertionError, match="not equivariant on numbers of many magnitudes"):
        st.testing.assert_equivariant(bound, in_type=SIGNS, out_type=SIGNS)
    st.testing.assert_equivariant(bound, in_type=REGULAR, out_type=REGULAR)


class Tokens(nn.Module):
    """Attention between pixels where the layer knows where the batch is, and else between samples."""

    def __init__(self, *, batch_first: bool) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(4, 2, batch_first=batch_first)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.flatten(2).transpose(1, 2)
        return x + self.attention(tokens, tokens, tokens)[0].transpose(1, 2).reshape(x.shape)


MIXED: dict[str, Callable[[Tensor], Tensor]] = {
    "attention": Tokens(batch_first=False),
    "mean": lambda x: x - x.mean(0),
    "the next sample": lambda x: x + x.roll(1, 0),
    "the first sample": lambda x: torch.cat([x[:1], x[1:] + x[:1]]),
    "saturated": lambda x: (torch.softmax(x.flatten(1) @ x.flatten(1).mT, -1) @ x.flatten(1)).view_as(x),
}


@pytest.mark.parametrize("name", MIXED)
def test_samples_of_a_batch_are_turned_one_by_one(name: str) -> None:
    """Turned all alike, samples that are mixed with each other look sound."""
    types = {"in_type": FieldType(D4, "4*A1"), "out_type": FieldType(D4, "4*A1")}
    assert st.testing.equivariance_error(MIXED[name], **types) < 1e-5
    with pytest.raises(AssertionError, match="not equivariant where other samples of the batch stay as they are"):
        st.testing.assert_equivariant(MIXED[name], **types)
    st.testing.assert_equivariant(MIXED[name], **types, batch=1)


@pytest.mark.parametrize(
    "function",
    [Tokens(batch_first=True), lambda x: x.mean(0, keepdim=True), lambda x: F.batch_norm(x, None, None, training=True)],
    ids=["attention", "one output for all", "norm by the batch"],
)
def test_sound_functions_of_batches_pass(function: Callable[[Tensor], Tensor]) -> None:
    st.testing.assert_equivariant(function, in_type=FieldType(D4, "4*A1"), out_type=FieldType(D4, "4*A1"))


def test_a_model_may_demand_a_size_by_an_assertion() -> None:
    def odd_only(x: Tensor) -> Tensor:
        assert x.shape[-1] % 2, "odd sizes only"
        return x.relu()

    st.testing.assert_equivariant(odd_only, in_type=REGULAR, out_type=REGULAR)


def test_a_model_that_erases_its_input_is_measured_on_numbers() -> None:
    def erasing(x: Tensor) -> Tensor:
        y = x.flip(-1)
        x.zero_()
        return y

    with pytest.raises(AssertionError, match="not equivariant"):
        st.testing.assert_equivariant(erasing, in_type=REGULAR, out_type=REGULAR)


def test_shapes_that_the_pose_changes() -> None:
    with pytest.raises(AssertionError) as error:
        st.testing.equivariance_error(lambda x: x[..., :3, :], in_type=A1, out_type=A1, size=4)
    assert str(error.value) == "under `r` the output's shape changes from (2, 1, 4, 3) to (2, 1, 3, 4)."


@pytest.mark.parametrize("measure", ["equivariance_errors", "equivariance_error", "assert_equivariant"])
@pytest.mark.parametrize(("elements", "given"), [("r", "str 'r'"), (3, "int 3")])
def test_elements_are_given_in_a_list(measure: str, elements, given: str) -> None:
    message = (
        rf"`elements` takes elements in a list, such as \['r', 'r2'\] or \[so2\(\).rotation\(30\)\]; got {given}\."
    )
    with pytest.raises(TypeError, match=message):
        getattr(st.testing, measure)(st.nn.ReLU(A1), elements=elements)


def test_a_second_measurement_takes_a_size_that_fits_as_the_first_one_did() -> None:
    net = snn.Sequential(snn.Conv2d(A1, REGULAR, 3, padding=1), snn.BlurPool2d(REGULAR))
    with pytest.warns(snn.EquivarianceWarning, match="not exactly equivariant"):
        net(torch.zeros(1, 1, 17, 17))  # warned of once, as of a size that it was tried on
    assert [st.testing.equivariance_error(net) < 1e-5 for _ in range(3)] == [True] * 3


@pytest.mark.parametrize("measure", ["assert_equivariant", "equivariance_error", "equivariance_errors"])
def test_nothing_is_measured_in_silence(measure: str) -> None:
    """A misspelt argument, no elements and no samples would each let everything pass."""
    measured = partial(getattr(st.testing, measure), nn.Identity(), in_type=A1, out_type=A1)
    with pytest.raises(TypeError, match=r"`tolerence` is not an argument of this measurement"):
        measured(tolerence=1e-3)
    with pytest.raises(TypeError, match=r"Did you mean `size`"):
        measured(siz=5)
    with pytest.raises(ValueError, match="`elements` is empty, so nothing would be compared"):
        measured(elements=[])
    with pytest.raises(ValueError, match=r"an output of shape \(0, 1, 9, 9\) has no values to compare"):
        measured(batch=0, size=9)


def test_functions_that_write_into_their_input_are_measured_on_all_of_it() -> None:
    def wrong(x: Tensor) -> Tensor:
        y = x * torch.arange(x.shape[-1])
        x.zero_()  # of which everything is equivariant
        return y

    x = torch.randn(1, 1, 5, 5)
    before = x.clone()
    assert st.testing.equivariance_error(wrong, x, in_type=A1, out_type=A1) > 0.1
    st.testing.assert_equivariant(lambda x: x.relu_(), x, in_type=A1, out_type=A1)
    assert torch.equal(x, before)


def test_outputs_may_be_whole_numbers_and_truth_values() -> None:
    functions = [lambda x: x > 0, lambda x: (x * 100).to(torch.uint8), lambda x: x.long()]
    for function in functions:
        st.testing.assert_equivariant(function, in_type=A1, out_type=A1)
        with pytest.raises(AssertionError, match="not equivariant"):
            st.testing.assert_equivariant(lambda x, f=function: f(x.roll(1, -1)), in_type=A1, out_type=A1)
    image = torch.randint(0, 255, (1, 1, 5, 5))
    st.testing.assert_equivariant(lambda x: x / 255, image, in_type=A1, out_type=A1)


@pytest.mark.parametrize(
    ("size", "error"), [(-1, ValueError), (0, ValueError), ("a", TypeError), ((5, 5, 5), TypeError)]
)
def test_a_size_is_one_that_fields_have(size: object, error: type[Exception]) -> None:
    with pytest.raises(error, match=r"size must be (at least 1|a whole number or a pair of them), got "):
        st.testing.equivariance_error(snn.Identity(A1), size=size)


@pytest.mark.parametrize("group", [st.cyclic(8), st.so2()])
def test_constant_images_show_what_smooth_ones_leave_in_doubt(group) -> None:
    """tanh of each component is off by less than interpolation is."""
    vectors = FieldType(group, "2*E1")
    types = {"in_type": vectors, "out_type": vectors}
    st.testing.assert_equivariant(lambda x: torch.tanh(x), **types)  # a function, of which nothing is known
    with pytest.raises(AssertionError, match="differs from π\\(g\\)f\\(x\\) for constant images"):
        st.testing.assert_equivariant(nn.Tanh(), **types)
    st.testing.assert_equivariant(snn.NormReLU(vectors))


def test_frozen_parameters_are_not_redrawn() -> None:
    """A plain counterpart is equivariant as long as nobody trains it."""
    net = snn.Sequential(snn.Conv2d(A1, REGULAR, 3, padding=1), snn.BatchNorm2d(REGULAR), snn.ReLU(REGULAR))
    plain = snn.to_plain(net)
    st.testing.assert_equivariant(plain, in_type=A1, out_type=REGULAR)
    with pytest.raises(AssertionError, match="once it has been trained"):
        st.testing.assert_equivariant(plain.requires_grad_(True), in_type=A1, out_type=REGULAR)
