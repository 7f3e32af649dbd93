"""The group Fourier convolution: the same function of the same parameters as the dense one, by another route."""

import copy
import itertools
import pickle
import threading
import warnings
from collections.abc import Iterator

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from fourier_kernels import fourier_plan
from torch import Tensor

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.nn import threads as workers
from steerable.nn.backends import DENSE, Passes
from steerable.nn.backends.fourier import execution
from steerable.nn.backends.fourier import operator as operations
from steerable.nn.backends.fourier import plan as plans
from steerable.nn.backends.fourier.cpu.line_convolution import LineConvolution
from steerable.nn.backends.fourier.cpu.tiled_convolution import TiledConvolution
from steerable.nn.backends.fourier.irrep_blocks import IrrepBlockPlan
from steerable.nn.backends.fourier.reference import block_gradient_reference, fourier_conv_reference
from steerable.nn.backends.fourier.spectrum import commutant, isotypic_basis
from steerable.nn.expansion import BankPlan

pytest.importorskip("numba")

FOURIER = Passes.all_by("fourier")

D4, C4, C1 = st.dihedral(4), st.cyclic(4), st.trivial()
GROUPS = {"C1": C1, "C2": st.cyclic(2), "C4": C4, "D1": st.dihedral(1), "D2": st.dihedral(2), "D4": D4}
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
both_routes = pytest.mark.parametrize("route", ["lines", "copies", "reference"], indirect=True)
both_ways = pytest.mark.parametrize("way", [TiledConvolution, LineConvolution], ids=["copies", "lines"])


def every_capsule(group: FiniteGroup, start: int = 0) -> FieldType:
    """All capsules of the catalogue, once or twice each."""
    return FieldType(group, " + ".join(f"{(k + start) % 2 + 1}*{c}" for k, c in enumerate(group.capsules)))


def pair_of_layers(*arguments: object, axes: int = 2, **options: object) -> tuple[snn.Conv2d, snn.Conv2d]:
    """One layer with both backends, in float64, with a bias that is not zero."""
    torch.manual_seed(0)
    make = snn.Conv2d if axes == 2 else snn.Conv3d
    fourier = make(*arguments, **options, backend="fourier").double()  # type: ignore[arg-type]
    dense = make(*arguments, **options, backend="dense").double()  # type: ignore[arg-type]
    if fourier.bias is not None:
        torch.nn.init.normal_(fourier.bias)
    dense.load_state_dict(fourier.state_dict())
    return fourier, dense


def field(layer: snn.Conv2d, size: tuple[int, ...] = (7, 6), batch: int = 2) -> Tensor:
    return torch.randn(batch, layer.in_type.channels, *size, dtype=layer.weight.dtype, requires_grad=True)


def relative(a: Tensor, b: Tensor) -> float:
    assert a.shape == b.shape
    return float((a - b).detach().abs().max() / b.detach().abs().max().clamp_min(1e-300))


def outcome(layer: snn.Conv2d, x: Tensor) -> list[Tensor]:
    """The output and all gradients."""
    torch.manual_seed(1)
    y = layer(x)
    wanted = [x, *layer.parameters()]
    return [y, *torch.autograd.grad(y, wanted, torch.randn_like(y))]


def assert_same(fourier: snn.Conv2d, dense: snn.Conv2d, x: Tensor, tolerance: float = 1e-12) -> None:
    assert fourier.runner.passes_for(x, fourier) == FOURIER
    for a, b in zip(outcome(fourier, x), outcome(dense, x), strict=True):
        assert relative(a, b) <= tolerance


@pytest.fixture
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Tiles, along lines of pixels or along copies, or the plain torch operations that they fall back on."""
    if request.param == "reference":
        monkeypatch.setattr(execution, "numba_available", lambda: False)
    monkeypatch.setattr(plans, "MANY_COPIES", dict.fromkeys((2, 3), 0 if request.param == "copies" else 1000))
    return request.param


# ---------------------------------------------------------------- the algebra


@every_group
@pytest.mark.parametrize("size", [1, 2, 3, 4])
def test_the_isotypic_basis_block_diagonalises_patch_times_fibre(group: FiniteGroup, size: int) -> None:
    for capsule in group.capsules.values():
        rho = capsule.representation
        basis = isotypic_basis(rho, st.pixel_space(group, size))
        product = rho @ st.pixel_patch(group, size)
        u = basis.transform.reshape(product.dim, product.dim)
        assert basis.multiplicity == product.type
        expected = np.zeros((group.order, product.dim, product.dim))
        at = 0
        for irrep, copies in zip(group.irreps, product.type, strict=True):
            for _ in range(copies):
                expected[:, at : at + irrep.dim, at : at + irrep.dim] = irrep.matrices
                at += irrep.dim
        np.testing.assert_allclose(u @ product.matrices @ u.T, expected, atol=1e-12)
        np.testing.assert_allclose(u @ u.T, np.eye(product.dim), atol=1e-12)


@pytest.mark.parametrize("group", [*GROUPS.values(), st.octahedral(), st.cyclic(5)], ids=lambda g: g.name)
def test_commutants_commute_and_are_orthogonal(group: FiniteGroup) -> None:
    for irrep in group.irreps:
        algebra = commutant(irrep)
        assert len(algebra) == irrep.commutant_dim
        np.testing.assert_allclose(irrep.matrices[:, None] @ algebra, algebra @ irrep.matrices[:, None], atol=1e-12)
        gram = np.einsum("aij,bij->ab", algebra, algebra)
        np.testing.assert_allclose(gram, irrep.dim * np.eye(len(algebra)), atol=1e-12)


def test_the_products_cost_what_the_design_says() -> None:
    """Multiplications per pixel: 12 in place of 64 for a tap and a pair of regular fields, 270 in place of 1440."""

    def cost(into: str, out: str) -> int:
        blocks = fourier_plan(FieldType(D4, into), FieldType(D4, out), (3, 3)).forward.direction.blocks
        return sum(block.dim * block.n * block.m for block in blocks)

    assert cost("regular", "regular") == 9 * 12
    assert cost("regular + qm + qmr2 + qmr3", "A1 + A2 + B1 + B2 + 2*E") == 270


@every_group
@pytest.mark.parametrize("adjoint", [False, True])
def test_blocks_are_an_invertible_function_of_the_parameters(group: FiniteGroup, adjoint: bool) -> None:
    bank = BankPlan(every_capsule(group), every_capsule(group, 1), (3, 3))
    plan = IrrepBlockPlan(bank, adjoint=adjoint)
    weight = torch.randn(2, bank.parameters, dtype=torch.float64)
    assert sum(block.size for block in plan.direction.blocks) == bank.parameters
    blocks = plan.expand(weight[0])
    torch.testing.assert_close(blocks @ weight[1], weight[0] @ plan.collect(weight[1]))  # each other's transpose
    columns = [
        plan.expand(row) for row in torch.eye(bank.parameters, dtype=torch.float64)[:: max(1, bank.parameters // 50)]
    ]
    assert torch.linalg.matrix_rank(torch.stack(columns)) == len(columns)


# ---------------------------------------------------------------- agreement with the dense convolution


@every_group
@both_routes
@pytest.mark.parametrize("kernel", [1, 2, 3, 4, 5])
def test_it_is_the_dense_convolution_for_every_capsule(group: FiniteGroup, kernel: int, route: str) -> None:
    if kernel > 3 and group is D4:
        types = FieldType(D4, "2*regular + E + A2 + qmr"), FieldType(D4, "E + 2*qm + B1 + r")
    else:
        types = every_capsule(group), every_capsule(group, 1)
    fourier, dense = pair_of_layers(*types, kernel, padding=kernel // 2)
    assert_same(fourier, dense, field(fourier))


@both_routes
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 4},  # more than the kernel reaches: the input gradient is cut
        {"kernel_size": 3, "dilation": 2, "padding": 1},
        {"kernel_size": 2, "dilation": (2, 3), "padding": (0, 3)},
        {"kernel_size": 1, "padding": (2, 1)},
        {"kernel_size": (1, 3), "padding": (0, 1)},
        {"kernel_size": (3, 2), "padding": (2, 1), "dilation": (1, 2)},
        {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
        {"kernel_size": 3, "padding": "same", "padding_mode": "circular"},
        {"kernel_size": 3, "bias": False},
    ],
    ids=str,
)
def test_options_of_the_convolution(options: dict[str, object], route: str) -> None:
    for group in (GROUPS["D2"], GROUPS["D1"], C1):
        fourier, dense = pair_of_layers(every_capsule(group), every_capsule(group, 1), **options)
        assert_same(fourier, dense, field(fourier))


def test_products_of_groups_and_capsules_that_mix_their_channels() -> None:
    group = st.group_from_matrices([np.diag([-1.0, 1.0]), np.diag([1.0, -1.0])])
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(group.order, group.order)))[0]
    tilted = st.Capsule(group.regular.change_basis(turn), "tilted")
    sheared = st.Capsule(group.regular.change_basis(np.eye(group.order) + np.tri(group.order, k=-1)), "sheared")
    a = FieldType(group, "2*tilted + regular + sheared", capsules=[tilted, sheared])
    b = FieldType(group, "sheared + 2*tilted", capsules=[tilted, sheared])
    fourier, dense = pair_of_layers(a, b, 3, padding=1)
    assert_same(fourier, dense, field(fourier), 1e-11)


def test_irreps_that_no_patch_contains_stay_zero() -> None:
    """A 1×1 kernel takes A1 to the invariants of the output only; B1 gets nothing."""
    fourier, dense = pair_of_layers(FieldType(D4, "3*A1"), FieldType(D4, "B1 + 2*regular + B1"), 1)
    assert_same(fourier, dense, field(fourier))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        nothing = snn.Conv2d(FieldType(D4, "A1"), FieldType(D4, "B1"), 1, backend="fourier")
    assert torch.equal(nothing(torch.randn(1, 1, 3, 3)), torch.zeros(1, 1, 3, 3))


# ---------------------------------------------------------------- volumes


CUBE, CUBE_WITH_MIRRORS = st.octahedral(), st.octahedral(reflections=True)
SPATIAL = {
    "O": (CUBE, "regular + A2 + E + 2*T1", "2*T2 + regular + E"),
    "O_h": (CUBE_WITH_MIRRORS, "regular + T1u + Eg", "2*T2g + A1u + Eu"),
    "T": (st.tetrahedral(), "2*regular + E", "T + E + regular"),
    "T_d": (st.tetrahedral(reflections=True), "regular + T1", "2*T2 + E"),
    "C4 about z": (st.about_axis(C4, "z"), "2*regular + E", "E + regular"),
    "D4 about z": (st.about_axis(D4, "z"), "regular + 2*E", "qm + E + regular"),
}


@both_routes
@pytest.mark.parametrize("kernel", [1, 2, 3])
@pytest.mark.parametrize("name", SPATIAL)
def test_it_is_the_dense_convolution_of_volumes(name: str, kernel: int, route: str) -> None:
    group, into, out = SPATIAL[name]
    types = FieldType(group, into), FieldType(group, out)
    fourier, dense = pair_of_layers(*types, kernel, axes=3, padding=kernel // 2)
    assert_same(fourier, dense, field(fourier, (4, 5, 3)))


@both_routes
@pytest.mark.parametrize(
    "options",
    [
        {"kernel_size": 3, "padding": 3},  # more than the kernel reaches: the input gradient is cut
        {"kernel_size": 3, "dilation": 2, "padding": 1},
        {"kernel_size": (1, 3, 3), "padding": (0, 1, 2), "dilation": (1, 2, 2)},
        {"kernel_size": (2, 3, 1), "padding": (1, 0, 2)},
        {"kernel_size": 3, "padding": 1, "padding_mode": "reflect"},
        {"kernel_size": 2, "padding": 1, "padding_mode": "circular", "bias": False},
        {"kernel_size": 3, "padding": "same", "padding_mode": "replicate"},
    ],
    ids=str,
)
def test_options_of_the_convolution_of_volumes(options: dict[str, object], route: str) -> None:
    group = st.about_axis(st.dihedral(2), "z")
    types = FieldType(group, "regular + 2*A1"), FieldType(group, "2*regular + B1")
    fourier, dense = pair_of_layers(*types, axes=3, **options)
    assert_same(fourier, dense, field(fourier, (5, 6, 7)))


@both_routes
def test_gradients_of_volumes_agree_with_finite_differences(route: str) -> None:
    fourier, _ = pair_of_layers(FieldType(CUBE, "A1 + T1"), FieldType(CUBE, "E + A1"), 3, axes=3, padding=1)
    x = field(fourier, (2, 3, 2), batch=1)

    def run(x: Tensor, weight: Tensor) -> Tensor:
        return torch.func.functional_call(fourier, {"weight": weight}, (x,))

    inputs = (x, fourier.weight.detach().requires_grad_())
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_products_of_volumes_cost_what_the_theory_says() -> None:
    """Multiplications for a tap and a pair of regular fields: Σ d³."""
    for group, products in ((CUBE, 64), (CUBE_WITH_MIRRORS, 128)):
        regular = FieldType(group, "regular")
        blocks = fourier_plan(regular, regular, (3, 3, 3)).forward.direction.blocks
        assert sum(block.dim * block.n * block.m for block in blocks) == 27 * products


def test_the_spectrum_of_a_volume_is_never_written_out() -> None:
    """Beyond input and output a convolution takes a slab and a tile; the whole spectrum would be 27 times the input."""
    from steerable.nn.backends.fourier.cpu import line_convolution, slabs

    kind = FieldType(CUBE, "8*regular")
    plan = fourier_plan(kind, kind, (3, 3, 3)).on_cpu
    assert isinstance(plan, LineConvolution)
    grid = slabs.Grid(4, (32, 32, 32), (3, 3, 3), (1, 1, 1), (1, 1, 1))
    planes = 4 * 3 * kind.channels
    numbers = max(line_convolution.TILE_PIXELS, line_convolution.TILE_BYTES // (4 * plan.widest))
    for slab in grid.slabs(2, planes):
        assert planes * slab.steps[0] <= 1.2 * slabs.SLAB_BYTES
        longest = max(last - first for first, last in slab.tiles(numbers)) * slab.line
        assert 4 * plan.widest * longest <= 2 * line_convolution.TILE_BYTES


@pytest.mark.parametrize("options", [{"stride": 2, "kernel_size": 3}, {"groups": 2, "kernel_size": 3}], ids=str)
def test_strides_and_groups_are_carried_out_densely(options: dict[str, object]) -> None:
    fourier, dense = pair_of_layers(FieldType(D4, "2*regular + 2*E"), FieldType(D4, "2*qm"), **options)
    x = field(fourier, (7, 7))
    assert fourier.runner.passes_for(x, fourier) == DENSE
    assert torch.equal(fourier(x), dense(x))


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("axes", [2, 3])
@both_ways
def test_tiles_agree_with_the_reference_whatever_their_number(
    way: type[TiledConvolution | LineConvolution], axes: int, threads: int, last: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("tiled", "line"):
        monkeypatch.setattr(f"steerable.nn.backends.fourier.cpu.{name}_convolution.TILE_PIXELS", 7)
        monkeypatch.setattr(f"steerable.nn.backends.fourier.cpu.{name}_convolution.TILE_BYTES", 1)
    monkeypatch.setattr("steerable.nn.backends.fourier.cpu.slabs.SLAB_BYTES", 1)
    before = torch.get_num_threads()
    if axes == 2:
        types, last_format = (every_capsule(C4), every_capsule(C4, 1)), torch.channels_last
    else:  # T has irreps of complex type
        types = FieldType(st.tetrahedral(), "regular + 2*E + T"), FieldType(st.tetrahedral(), "A + E + 2*T")
        last_format = torch.channels_last_3d
    plan, padding, ones = fourier_plan(*types, (3,) * axes), (1,) * axes, (1,) * axes
    torch.manual_seed(0)
    x = torch.randn(3, plan.bank.in_type.channels, *(5, 4, 6)[-axes:], dtype=torch.float64)
    x = x.to(memory_format=last_format) if last else x
    blocks = torch.randn(plan.forward.parameters, dtype=torch.float64)
    expected = fourier_conv_reference(x, blocks, plan.forward, padding, ones)
    outer = torch.randn_like(expected)
    try:
        torch.set_num_threads(threads)
        y, gradient = way(plan.forward).run(x, padding, ones, blocks=blocks, outer=outer)
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)
    assert y.is_contiguous(memory_format=last_format if last else torch.contiguous_format)
    assert relative(y, expected) <= 1e-12
    assert relative(gradient, block_gradient_reference(x, outer, plan.forward, padding, ones)) <= 1e-12


@pytest.fixture(params=["openmp", "python"])
def two_threads(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Two threads of torch's own, or of Python where torch has none to lend."""
    before = torch.get_num_threads()
    if request.param == "python":
        monkeypatch.setattr(workers, "_openmp", lambda: None)
    elif workers._openmp() is None:
        pytest.skip("this torch is not built on GNU OpenMP")
    torch.set_num_threads(2)
    yield request.param
    torch.set_num_threads(before)


def test_two_runs_give_the_same_bits(two_threads: str) -> None:
    fourier, _ = pair_of_layers(FieldType(D4, "16*regular"), FieldType(D4, "8*regular + 8*E"), 3, padding=1)
    fourier, x = fourier.float(), field(fourier.float(), (17, 16))
    for a, b in zip(outcome(fourier, x), outcome(fourier, x), strict=True):
        assert torch.equal(a, b)


def test_every_part_runs_once_without_gradients_on_one_core(two_threads: str) -> None:
    seen: list[tuple[int, int]] = []
    grad: list[bool] = []
    found: list[int] = []

    def part(k: int, n: int) -> None:
        seen.append((k, n))
        grad.append(torch.is_grad_enabled())

    for _ in range(3):
        workers.on_all_threads(part)
    other = threading.Thread(target=lambda: found.append(torch.get_num_threads()))
    other.start()
    other.join()
    assert sorted(seen) == [(0, 2)] * 3 + [(1, 2)] * 3
    assert not any(grad)
    assert torch.is_grad_enabled()
    assert torch.get_num_threads() == 2
    assert found == [2]


def test_python_threads_use_one_core_each(two_threads: str) -> None:
    if two_threads != "python":
        pytest.skip("inside OpenMP's own threads torch does not start others")
    seen: list[int] = []
    workers.on_all_threads(lambda k, n: seen.append(torch.get_num_threads()))
    assert seen == [1, 1]


def test_an_error_in_a_worker_is_raised(two_threads: str) -> None:
    def fails(k: int, n: int) -> None:
        raise ArithmeticError(f"worker {k}")

    with pytest.raises(ArithmeticError, match="worker"):
        workers.on_all_threads(fails)


def test_several_threads_may_use_a_layer_at_once(two_threads: str) -> None:
    fourier, dense = pair_of_layers(FieldType(D4, "4*regular"), FieldType(D4, "4*regular"), 3, padding=1)
    x = field(fourier, (16, 16)).detach()
    expected = dense(x)
    outputs: list[Tensor] = []
    callers = [threading.Thread(target=lambda: outputs.append(fourier(x))) for _ in range(4)]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert len(outputs) == 4
    assert all(relative(y, expected) <= 1e-12 for y in outputs)


# ---------------------------------------------------------------- precision, gradients, equivariance


def test_single_precision() -> None:
    fourier, dense = pair_of_layers(FieldType(D4, "8*regular + 4*E"), FieldType(D4, "8*qm + 4*A1"), 3, padding=1)
    exact = dense(x := field(fourier, (9, 9)))
    y = fourier.float()(x.float())
    assert y.dtype == torch.float32
    assert relative(y.double(), exact) <= 1e-5
    assert relative(y.double(), exact) <= 2 * relative(dense.float()(x.float()).double(), exact)


def test_half_precision_is_rounded_once() -> None:
    fourier, dense = pair_of_layers(FieldType(D4, "4*regular"), FieldType(D4, "4*regular"), 3, padding=1)
    fourier, rounded = fourier.bfloat16(), dense.bfloat16()
    x = field(fourier)
    y = fourier(x)
    exact = rounded.double()(x.double())
    assert y.dtype == torch.bfloat16
    assert relative(y.double(), exact) <= 2**-8


@both_routes
@pytest.mark.parametrize("group", [D4, C4], ids=["D4", "C4"])
def test_gradients_and_their_gradients_agree_with_finite_differences(group: FiniteGroup, route: str) -> None:
    fourier, _ = pair_of_layers(FieldType(group, "regular + E"), FieldType(group, "E + 2*A1"), 3, padding=1)
    x = field(fourier, (3, 4), batch=1)

    def run(x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        parameters = {"weight": weight, "bias": bias}
        return torch.func.functional_call(fourier, parameters, (x,))

    inputs = (x, fourier.weight.detach().requires_grad_(), fourier.bias.detach().requires_grad_())
    assert torch.autograd.gradcheck(run, inputs)
    assert torch.autograd.gradgradcheck(run, inputs, fast_mode=True)


def test_the_operations_pass_torchs_own_checks() -> None:
    plan = fourier_plan(FieldType(D4, "regular"), FieldType(D4, "E + A1"), (3, 3))
    weight = torch.randn(plan.forward.parameters, dtype=torch.float64, requires_grad=True)
    x = torch.randn(1, 8, 3, 3, dtype=torch.float64, requires_grad=True)
    torch.library.opcheck(operations._conv, (x, weight, None, None, plan.key, [1, 1], [1, 1]))
    gradient = torch.randn(1, 3, 3, 3, dtype=torch.float64)
    for wanted in ([True, True], [True, False], [False, True]):
        arguments = (gradient, x.detach(), weight.detach(), plan.key, [1, 1], [1, 1], wanted)
        torch.library.opcheck(operations._gradients, arguments)
    y = operations.fourier_conv(x, weight, None, None, plan.key, (1, 1), (1, 1))
    torch.testing.assert_close(y, F.conv2d(x, plan.bank.expand(weight, torch.tensor(plan.bank.basis)), padding=1))


# ---------------------------------------------------------------- one layer, two backends


def test_the_state_dict_does_not_know_the_backend() -> None:
    fourier, dense = pair_of_layers(FieldType(D4, "2*regular"), FieldType(D4, "E + qm"), 3)
    assert list(fourier.state_dict()) == list(dense.state_dict()) == ["weight", "bias"]
    x = field(fourier)
    expected = dense(x)
    dense.backend = "fourier"
    assert relative(dense(x), expected) <= 1e-12
    fourier.backend = "dense"
    assert torch.equal(fourier(x), expected)
    assert "backend=dense" in repr(fourier)
    assert "backend" not in repr(snn.Conv2d(fourier.in_type, fourier.out_type, 3))


def test_an_unknown_backend_is_refused() -> None:
    message = "unknown backend 'furier'. Did you mean `fourier`?"
    with pytest.raises(ValueError, match="unknown backend") as error:
        snn.Conv2d(FieldType(D4, "A1"), FieldType(D4, "A1"), 3, backend="furier")  # type: ignore[arg-type]
    assert str(error.value).startswith(message)


def test_copies_and_pickles_share_the_plan_and_to_plain_is_dense() -> None:
    fourier, _ = pair_of_layers(FieldType(D4, "2*regular"), FieldType(D4, "E + qm"), 3)
    x = field(fourier)
    for twin in (copy.deepcopy(fourier), pickle.loads(pickle.dumps(fourier))):
        assert twin.backend == "fourier"
        assert twin.runner._prepared["fourier"] is fourier.runner._prepared["fourier"]
        assert torch.equal(twin(x), fourier(x))
    plain = snn.to_plain(fourier)
    assert type(plain) is torch.nn.Conv2d
    assert relative(plain(x), fourier(x)) <= 1e-12


def test_plans_live_as_long_as_their_layers() -> None:
    types = FieldType(D4, "3*E + 5*B2"), FieldType(D4, "7*A2 + E")
    plan = fourier_plan(*types, (3, 3))
    assert fourier_plan(*types, (3, 3)) is plan
    key = plan.key
    del plan
    with pytest.raises(RuntimeError, match="no longer exists"):
        operations.plan_by_key(key)


def test_layers_alive_at_once_have_plans_of_their_own() -> None:
    """Two convolutions differ in copies at either end, kinds, their order, a basis, the group or the kernel."""
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(8, 8)))[0]
    tilted = st.Capsule(D4.regular.change_basis(turn), "tilted")
    texts = ["2*regular", "3*regular", "2*regular + E", "E + 2*regular", "2*tilted", "2*E + A1", "A1 + 2*E"]
    types = [FieldType(D4, text, capsules=[tilted]) for text in texts]
    arguments = [(a, b, k) for a, b in itertools.product(types, types) for k in (1, 3)]
    arguments += [(types[0], types[0], kernel) for kernel in (2, 4)]
    arguments += [(FieldType(C4, f"{n}*regular"), FieldType(C4, "4*regular"), 3) for n in (1, 2, 4)]
    layers = [pair_of_layers(*given) for given in arguments]
    assert len({fourier.runner.problem.key for fourier, _ in layers}) == len(layers)
    for fourier, dense in layers:
        x = field(fourier, (5, 4))
        assert fourier(x).shape == dense(x).shape
        assert_same(fourier, dense, x)


def test_tiles_of_all_directions_have_the_rows_of_their_blocks() -> None:
    for adjoint, kernel in itertools.product((False, True), (1, 2, 3)):
        bank = BankPlan(every_capsule(D4), every_capsule(D4, 1), (kernel, kernel))
        tiled = TiledConvolution(IrrepBlockPlan(bank, adjoint=adjoint))
        direction = tiled.direction
        assert tiled.spectrum.layout.width == sum(b.dim * b.m for b in direction.blocks)
        assert tiled.inverse.layout.width == sum(b.dim * b.n for b in direction.blocks)


def test_kernels_compile_where_nothing_can_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    from steerable.nn.backends.fourier.cpu import numba_kernels as kernels
    from steerable.nn.numba import compiling

    whole = compiling.numba.njit

    def nowhere_to_write(function: object, **options: object) -> object:
        if options.get("cache"):
            raise RuntimeError("cannot cache function: no locator available")
        return whole(function, **options)

    monkeypatch.setattr(compiling.numba, "njit", nowhere_to_write)
    out = np.zeros(2)
    terms, index = np.array([[1, 0]], dtype=np.uint64), np.uint64
    add = compiling.compiled(kernels._add_runs)
    add(out, index(0), index(2), index(2), index(1), np.arange(4.0), index(0), terms, np.ones(1), index(0), index(1))
    np.testing.assert_array_equal(out, [1.0, 2.0])
