"""What every layer does: the laws, over all cases of ``cases.py`` and all groups. How to add a layer is said there."""

from __future__ import annotations

import copy
import io
import math
import pickle
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
import torch
from cases import (
    CASES,
    COARSER,
    GROUPS,
    INFINITE,
    OFF_GRID,
    PAIRS,
    TURNS_WITHIN,
    VECTOR,
    VOLUMES_OFF_GRID,
    Case,
    Size,
    built,
    exact_elements,
    fields,
    in_types,
    off_grid_elements,
    public_layers,
)
from safetensors.torch import load, save
from torch import Tensor, nn
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn

import steerable as st
from steerable import FieldType
from steerable import nn as snn
from steerable.algebra.embeddings import embedding
from steerable.algebra.group_interface import Group
from steerable.nn import EquivariantModule
from steerable.nn.filter_bank import FilterBankModule
from steerable.testing import assert_equivariant

D4 = GROUPS["D4"]
EXACT = {torch.float64: 1e-12, torch.float32: 1e-5}

every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)
every_group = pytest.mark.parametrize("group", GROUPS.values(), ids=GROUPS)
every_pair = pytest.mark.parametrize(("case", "group"), PAIRS.values(), ids=PAIRS)
# Files, copies and dtypes do not depend on the group: one that the grid carries, one that it does not, an infinite one,
# and one of space.
KINDS = {name: pair for name, pair in PAIRS.items() if name.partition("-")[0] in ("D4", "D8", "O2", "O")}
every_kind_of_group = pytest.mark.parametrize(("case", "group"), KINDS.values(), ids=KINDS)
every_bank = pytest.mark.parametrize("case", [c for c in CASES.values() if c.has_bank], ids=lambda c: c.name)


@contextmanager
def default_dtype(dtype: torch.dtype) -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def _turns_smooth_images(case: Case, group: Group) -> bool:
    """Whether the law of other angles applies: to layers of one image, of any size, between fields of one group."""
    if (
        group.name not in OFF_GRID | INFINITE | VOLUMES_OFF_GRID
        or case.sizes == (VECTOR,)
        or COARSER.get(case.name, TURNS_WITHIN) is None
    ):
        return False
    return not case.random and not case.name.startswith(("Concat", "DiskMask", "Restrict", "CosetPool", "SubgroupPool"))


def relative_error(y: Tensor, expected: Tensor) -> float:
    assert y.shape == expected.shape
    y, expected = y.detach().double(), expected.detach().double()
    return float((y - expected).abs().max()) / max(float(expected.abs().max()), 1e-300)


def assert_commutes(module: EquivariantModule, xs: list[Tensor]) -> None:
    """f(π(g)x) = π(g)f(x) in whatever mode the module is in, and for several inputs."""
    into = embedding(module.out_type.group, module.in_type.group)
    y = module(*xs)
    for g in exact_elements(module.out_type.group, tuple(xs[0].shape[2:])):
        moved = module(*[st.transform(x, into(g), t) for x, t in zip(xs, in_types(module), strict=True)])
        assert relative_error(moved, st.transform(y, g, module.out_type)) <= EXACT[y.dtype], g


def expected_shape(case: Case, module: EquivariantModule, size: Size, batch: int) -> Size:
    spatial = () if case.out is None else tuple(case.out(n) for n in size)
    return (batch, module.out_type.channels, *spatial)


# ---------------------------------------------------------------- the suite itself


def test_every_public_layer_has_a_case():
    tested = {type(case.build(case.home)) for case in CASES.values()}
    missing = public_layers() - tested
    assert not missing, f"add an entry to tests/nn/cases.py for {', '.join(sorted(t.__name__ for t in missing))}"


def test_every_layer_that_takes_images_is_tried_on_square_and_oblong_ones():
    for case in CASES.values():
        sizes = [size for size in case.sizes if size != VECTOR]
        assert not sizes or any(len({*size}) > 1 for size in sizes) or case.name.startswith("DiskMask"), case.name


@every_kind_of_group
def test_layers_say_their_types_and_shapes(case: Case, group: Group):
    module = case.build(group)
    assert isinstance(module.in_type, FieldType)
    assert isinstance(module.out_type, FieldType)
    assert str(module.in_type) in repr(module)
    assert str(module.out_type) in repr(module)
    assert "Shapes: " in (type(module).__doc__ or "")


# ---------------------------------------------------------------- equivariance, shapes


@every_pair
@pytest.mark.parametrize("dtype", EXACT, ids=str)
def test_commutes_with_all_that_the_grid_carries_on_the_whole_image(case: Case, group: Group, dtype: torch.dtype):
    module = built(case, group, dtype)
    for size in case.sizes:
        xs = fields(module, size, dtype)
        with torch.no_grad():
            if len(xs) == 1:
                assert_equivariant(module, xs[0], elements=exact_elements(module.out_type.group, size))
            else:
                assert_commutes(module, xs)


@pytest.mark.parametrize(
    ("case", "group"),
    [p for p in PAIRS.values() if not p[0].random],
    ids=[k for k, p in PAIRS.items() if not p[0].random],
)
def test_commutes_in_training_too(case: Case, group: Group):
    module = built(case, group).train()
    for size in case.sizes:
        with torch.no_grad():
            assert_commutes(module, fields(module, size))


@pytest.mark.parametrize("name", [n for n, (case, group) in PAIRS.items() if _turns_smooth_images(case, group)])
def test_turns_smooth_images_by_other_angles_within_a_stated_error(name: str):
    case, group = PAIRS[name]
    module = built(case, group)
    tolerance = COARSER.get(case.name, TURNS_WITHIN)
    assert tolerance is not None
    options = {
        "elements": off_grid_elements(group),
        "size": (32 if case.axes == 2 else 14) + case.sizes[0][0] % 2,
        "batch": 1,
    }
    assert_equivariant(module, off_grid=tolerance, **options)


@every_group
@pytest.mark.parametrize("name", [n for n in CASES if n.startswith(("BatchNorm2d", "InstanceNorm2d"))])
def test_running_statistics_do_not_depend_on_the_pose(group: Group, name: str):
    module = built(CASES[name], group).train()
    (x,) = fields(module, (5, 4))
    states = []
    for g in group.elements:
        moved = copy.deepcopy(module)
        moved(st.transform(x, g, module.in_type))
        states.append(moved.state_dict())
    for state in states[1:]:
        for key, value in state.items():
            torch.testing.assert_close(value, states[0][key], rtol=1e-12, atol=1e-12)


@every_kind_of_group
def test_output_has_the_declared_shape_and_the_dtype_of_the_input(case: Case, group: Group):
    for dtype in (torch.float64, torch.float32, torch.bfloat16):
        module = built(case, group, dtype)
        for size in case.sizes:
            for training in (False, True):
                y = module.train(training)(*fields(module, size, dtype, batch=3))
                assert tuple(y.shape) == expected_shape(case, module, size, 3)
                assert y.dtype == dtype


@every_case
def test_numbers_that_are_not_floating_point_are_refused_with_a_remedy(case: Case):
    """Unless a layer only moves them. Constants would be rounded to whole numbers, and torch's words help nobody."""
    module = built(case, case.home, torch.float32)
    moves = not any(m.computes for m in module.modules() if isinstance(m, EquivariantModule))
    for dtype, remedy in (
        (torch.uint8, "`x.float() / 255`"),
        (torch.int64, "`x.float()`"),
        (torch.bool, "`x.float()`"),
        (torch.complex64, "`torch.cat([x.real, x.imag], 1)`"),
    ):
        xs = [(10 * x.abs()).to(dtype) for x in fields(module, case.sizes[0])]
        if moves:
            assert module(*xs).dtype == dtype
            continue
        with pytest.raises(TypeError) as refused:
            module(*xs)
        assert f"expected a field of floating-point numbers, since it computes with them, got one of {dtype}. " in str(
            refused.value
        )
        assert remedy in str(refused.value)


def test_an_image_of_bytes_is_told_how_to_become_a_field():
    image = torch.randint(0, 256, (2, 3, 8, 8), dtype=torch.uint8)
    layer = snn.Conv2d(FieldType(D4, "3*A1"), FieldType(D4, "regular"), 3)
    with pytest.raises(TypeError) as refused:
        layer(image)
    assert str(refused.value) == (
        "Conv2d expected a field of floating-point numbers, since it computes with them, got one of torch.uint8. Scale "
        "an image of bytes to the range from 0 to 1 with `x.float() / 255`."
    )
    assert layer(image.float() / 255).shape == (2, 8, 6, 6)


# ---------------------------------------------------------------- dtypes and memory formats


@every_case
def test_bfloat16_module_is_right_to_half_precision(case: Case):
    module = built(case, case.home)
    xs = [x.bfloat16() for x in fields(module, case.sizes[0])]
    expected = module(*[x.double() for x in xs])
    assert relative_error(module.bfloat16()(*xs), expected) <= 0.05


@every_case
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_autocast_gives_the_dtype_of_the_plain_counterpart(case: Case, training: bool):
    module = built(case, case.home, torch.float32).train(training)
    xs = fields(module, case.sizes[0], torch.float32)
    torch.manual_seed(0)
    expected = copy.deepcopy(module)(*xs)
    torch.manual_seed(0)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = module(*xs)
        half = module(*[x.bfloat16() for x in xs])
    assert y.dtype == (torch.bfloat16 if case.bfloat16_in_autocast else torch.float32)
    assert half.dtype == torch.bfloat16
    if case.bfloat16_in_autocast or case.has_bank:
        assert relative_error(y, expected) <= 0.05
    else:
        assert relative_error(y, expected) <= 1e-6, "autocast rounds what it leaves in float32 for torch's own layers"


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("name", ["NormReLU", "NormActivation", "GroupPool-norm", "NormMaxPool2d-even-sizes"])
def test_lengths_of_large_half_precision_capsules_do_not_overflow(name: str, dtype: torch.dtype):
    module = built(CASES[name], D4)
    xs = [(1000 * x).to(dtype) for x in fields(module, CASES[name].sizes[0])]
    expected = module(*[x.double() for x in xs])
    y = module.to(dtype)(*xs)
    assert bool(torch.isfinite(y).all())
    assert relative_error(y, expected) <= 0.05


@every_case
def test_channels_last_gives_the_same_values_and_stays_where_torch_keeps_it(case: Case):
    module = built(case, case.home)
    for size in case.sizes:
        if size == VECTOR:
            continue
        xs = fields(module, size)
        expected = module(*xs)
        form = torch.channels_last if case.axes == 2 else torch.channels_last_3d
        last = [x.to(memory_format=form) for x in xs]
        for candidate in (module, copy.deepcopy(module).to(memory_format=form)):
            y = candidate(*[x.clone(memory_format=torch.preserve_format) for x in last])
            assert relative_error(y, expected) <= 1e-12
            if case.keeps_channels_last:
                assert y.is_contiguous(memory_format=form), tuple(y.stride())


@every_case
def test_inputs_may_have_any_strides(case: Case):
    module = built(case, case.home)
    for size in case.sizes:
        xs = fields(module, size)
        odd = [torch.stack([x, x], -1)[..., 0] for x in xs]
        assert relative_error(module(*odd), module(*xs)) <= 1e-12


@every_kind_of_group
def test_constants_keep_full_precision_when_the_dtype_changes(case: Case, group: Group):
    module = built(case, group, torch.float32)
    with default_dtype(torch.float64):
        reference = case.build(group).eval()
    reference.load_state_dict(module.state_dict())
    xs = fields(module, case.sizes[0])
    expected = reference(*xs)
    assert expected.dtype == torch.float64
    assert relative_error(module.double()(*xs), expected) <= 1e-12
    assert relative_error(module.float().double()(*xs), expected) <= 1e-12
    assert relative_error(reference.half().double()(*xs), expected) <= 1e-2  # parameters are rounded, once


@every_case
def test_layers_made_on_the_meta_device_work_after_to_empty(case: Case):
    module = built(case, case.home)
    with torch.device("meta"):
        skeleton = case.build(case.home)
    skeleton = skeleton.double().to_empty(device="cpu").eval()
    skeleton.load_state_dict(module.state_dict())
    xs = fields(module, case.sizes[0])
    assert torch.equal(skeleton(*xs), module(*xs))


# ---------------------------------------------------------------- copies and files


@every_kind_of_group
def test_copies_and_pickles_are_the_same_function(case: Case, group: Group):
    module = built(case, group)
    xs = fields(module, case.sizes[0])
    with torch.no_grad():
        expected = module(*xs).clone()  # kept filters, where there are any, are not in the way
        for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module)), _saved_and_loaded(module)):
            assert torch.equal(twin(*xs), expected)
            assert (twin.in_type, twin.out_type) == (module.in_type, module.out_type)
            assert not _storages(twin) & _storages(module)


@every_case
@pytest.mark.parametrize("decay", [0.9, 0.9999])
def test_an_average_of_equal_layers_is_the_same_function(case: Case, decay: float):
    """Torch averages whole numbers as others, and rounds down."""
    module = built(case, case.home)
    xs = fields(module, case.sizes[0])
    network = nn.ModuleList([module, nn.Linear(1, 1)])  # torch refuses to average what has no tensors
    average = AveragedModel(network, multi_avg_fn=get_ema_multi_avg_fn(decay), use_buffers=True)
    for _ in range(3):
        average.update_parameters(network)
    assert relative_error(average.eval().module[0](*xs), module(*xs)) <= 1e-12


def _saved_and_loaded(module: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(module, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def _storages(module: nn.Module) -> set[int]:
    return {t.untyped_storage().data_ptr() for t in (*module.parameters(), *module.buffers()) if t.numel()}


@every_kind_of_group
def test_state_dict_holds_parameters_and_running_statistics_only(case: Case, group: Group):
    module = built(case, group)
    statistics = {"running_mean", "running_var", "num_batches_tracked"}
    names = {name for name, _ in module.named_parameters()}
    running = {k for k in module.state_dict() if k.rpartition(".")[2] in statistics}
    assert set(module.train().state_dict()) == names | running
    assert set(module.eval().state_dict()) == names | running
    with torch.no_grad():
        module(*fields(module, case.sizes[0]))
    assert set(module.state_dict()) == names | running


@every_kind_of_group
def test_state_dict_loads_across_modes_and_through_safetensors(case: Case, group: Group):
    module = built(case, group)
    xs = fields(module, case.sizes[0])
    expected = module(*xs)
    for state in (module.train().state_dict(), module.eval().state_dict(), load(save(module.state_dict()))):
        for training in (False, True):
            other = case.build(group).double().train(training)
            other.load_state_dict(state, strict=True)
            assert torch.equal(other.eval()(*xs), expected)


@every_case
def test_values_that_are_not_finite_are_refused_on_load(case: Case):
    module = built(case, case.home)
    before = copy.deepcopy(module.state_dict())
    for key, value in before.items():
        if not value.is_floating_point():
            continue
        for poison in (math.nan, math.inf):
            damaged = copy.deepcopy(before)
            damaged[key].view(-1)[-1] = poison
            with pytest.raises(RuntimeError, match=rf"`{key}` has values that are not finite. The checkpoint"):
                module.load_state_dict(damaged)
            assert torch.equal(module.state_dict()[key], value)


# ---------------------------------------------------------------- compile


@pytest.fixture
def fresh_dynamo() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


def _step(module: Callable[..., Tensor], parameters: list[Tensor], xs: list[Tensor]) -> list[Tensor]:
    """Output and all gradients."""
    xs = [x.clone().requires_grad_() for x in xs]
    torch.manual_seed(0)
    y = module(*xs)
    wanted = [*xs, *parameters]
    weights = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).view_as(y)
    return [y, *torch.autograd.grad((y * weights).sum(), wanted, allow_unused=True, materialize_grads=True)]


def _on_copies(module: nn.Module) -> Callable[..., Tensor]:
    """Some layers work in place."""
    return lambda *xs: module(*[x.clone() for x in xs])


@every_case
@pytest.mark.usefixtures("fresh_dynamo")
def test_compiles_without_graph_breaks_in_training_and_evaluation(case: Case):
    # D1 has fewer kinds of capsules than D4, hence smaller graphs with all the same operations.
    module = built(case, case.smallest)
    for training in (True, False):
        eager, compiled = copy.deepcopy(module).train(training), copy.deepcopy(module).train(training)
        graph = torch.compile(_on_copies(compiled), fullgraph=True, backend="aot_eager")
        xs = fields(module, case.sizes[0])
        expected = _step(_on_copies(eager), list(eager.parameters()), xs)
        for a, b in zip(_step(graph, list(compiled.parameters()), xs), expected, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-10, atol=1e-10)
        for key, value in eager.state_dict().items():
            torch.testing.assert_close(compiled.state_dict()[key], value, rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.parametrize(
    "name", ["Conv2d-groups", "BatchNorm2d", "Activation", "GroupNorm", "NormMaxPool2d-even-sizes"]
)
def test_one_graph_serves_all_sizes(name: str):
    case = CASES[name]
    module = built(case, case.home)
    graph = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=True)
    with torch.no_grad():
        for size in ((4, 6), (8, 8), (6, 10)):
            xs = fields(module, size, batch=3)
            torch.testing.assert_close(graph(*xs), module(*xs), rtol=1e-10, atol=1e-10)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own
@pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
def test_inductor_compiles_a_residual_network(training: bool):
    eager = built(CASES["Sequential"], GROUPS["D1"], torch.float32).train(training)
    compiled = copy.deepcopy(eager)
    graph = torch.compile(compiled, fullgraph=True)
    xs = fields(eager, (6, 6), torch.float32)
    expected = _step(eager, list(eager.parameters()), xs)
    for a, b in zip(_step(graph, list(compiled.parameters()), xs), expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)


@pytest.mark.usefixtures("fresh_dynamo")
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # inductor's own
def test_inductor_compiles_fields_of_one_capsule():
    """What a single parameter or capsule is spread over comes back as a sum, which it can compile for CPUs.

    For one thread it would compile a selection as well.
    """
    regular = FieldType(GROUPS["D4"], "regular")
    net = snn.Sequential(
        snn.Conv2d(regular, regular, 3, padding=1),
        snn.BatchNorm2d(regular),
        snn.GroupNorm(1, regular),
        snn.NormReLU(regular),
        snn.GlobalAvgPool(regular),
        snn.Linear(regular, regular),
    )
    twin = copy.deepcopy(net)
    x = torch.randn(2, regular.channels, 5, 5)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        for network in (net, torch.compile(twin, fullgraph=True)):
            network(x).square().sum().backward()
    finally:
        torch.set_num_threads(before)
    for a, b in zip(net.parameters(), twin.parameters(), strict=True):
        torch.testing.assert_close(b.grad, a.grad, rtol=1e-4, atol=1e-4)


@pytest.mark.usefixtures("fresh_dynamo")
def test_compiled_evaluation_sees_new_weights():
    module = built(CASES["Conv2d-zeros"], D4)
    graph = torch.compile(module, fullgraph=True, backend="aot_eager")
    xs = fields(module, (5, 5))
    with torch.no_grad():
        before = graph(*xs)
        module.weight.mul_(2)
        module.bias.mul_(2)
        torch.testing.assert_close(graph(*xs), 2 * before)


# ---------------------------------------------------------------- gradients


@every_case
def test_gradients_agree_with_finite_differences(case: Case):
    module = built(case, case.home)
    size = min(case.sizes, key=math.prod)
    xs = [x.requires_grad_() for x in fields(module, size)]
    assert torch.autograd.gradcheck(
        lambda *inputs: _called(module, inputs), (*xs, *module.parameters()), fast_mode=True
    )


@pytest.mark.parametrize(
    "name",
    ["Conv2d-groups", "ConvTranspose2d-4-2-1-1", "Linear", "NormReLU", "Gated", "GroupNorm", "LayerNorm", "ToIrreps"],
)
def test_second_derivatives_agree_with_finite_differences(name: str):
    case = CASES[name]
    module = built(case, case.home)
    size = min(case.sizes, key=math.prod)
    inputs = (*[x.requires_grad_() for x in fields(module, size)], *module.parameters())
    assert torch.autograd.gradgradcheck(lambda *args: _called(module, args), inputs, fast_mode=True)


@every_group
def test_second_derivatives_of_batch_norm_in_training_agree_with_finite_differences(group: Group):
    module = built(CASES["BatchNorm2d-untracked"], group).train()
    inputs = (*[x.requires_grad_() for x in fields(module, (2, 3))], *module.parameters())
    assert torch.autograd.gradgradcheck(lambda *args: _called(module, args), inputs, fast_mode=True)


def _called(module: EquivariantModule, args: tuple[Tensor, ...]) -> Tensor:
    """The layer as a function of inputs and parameters."""
    count = len(in_types(module))
    names = [name for name, _ in module.named_parameters()]
    # A layer that works in place may do so on its own copy only.
    inputs = tuple(x.clone() for x in args[:count])
    return torch.func.functional_call(module, dict(zip(names, args[count:], strict=True)), inputs)


@every_case
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
def test_gradients_at_a_zero_field_are_finite(case: Case, training: bool):
    module = built(case, case.home, torch.float32).train(training)
    for size in case.sizes:
        xs = [torch.zeros_like(x).requires_grad_() for x in fields(module, size, torch.float32)]
        module(*[x.clone() for x in xs]).sum().backward()
        for tensor in (*xs, *module.parameters()):
            assert tensor.grad is not None
            assert bool(torch.isfinite(tensor.grad).all())


def test_per_sample_gradients_by_vmap_equal_those_of_a_loop():
    kind, pooled = FieldType(D4, "A1 + regular + E"), FieldType(D4, "3*A1")
    net = snn.Sequential(
        snn.Conv2d(kind, kind, 3, padding=1), snn.GlobalAvgPool(kind), snn.Linear(kind, pooled)
    ).double()
    parameters = {name: p.detach() for name, p in net.named_parameters()}
    (x,) = fields(net, (5, 5), batch=3)

    def loss(parameters: dict[str, Tensor], sample: Tensor) -> Tensor:
        return torch.func.functional_call(net, parameters, (sample.unsqueeze(0),)).square().sum()

    for training in (True, False):
        net.train(training)
        batched = torch.func.vmap(torch.func.grad(loss), in_dims=(None, 0))(parameters, x)
        for k in range(len(x)):
            net.zero_grad()
            net(x[k : k + 1]).square().sum().backward()
            for name, p in net.named_parameters():
                torch.testing.assert_close(batched[name][k], p.grad, rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------- plain PyTorch


@every_kind_of_group
def test_to_plain_is_the_same_function_in_torch_modules_only(case: Case, group: Group):
    module = built(case, group)
    plain = snn.to_plain(module)
    for m in plain.modules():
        assert type(m).__module__.startswith("torch."), type(m)
        assert not m.training
    assert not _storages(plain) & _storages(module)
    for size in case.sizes:
        xs = fields(module, size)
        assert relative_error(plain(*[x.clone() for x in xs]), module(*xs)) <= 1e-12


@every_case
def test_to_plain_leaves_the_original_as_it_was(case: Case):
    module = built(case, case.home).train()
    classes = {name: type(m) for name, m in module.named_modules()}
    state = copy.deepcopy(module.state_dict())
    xs = fields(module, case.sizes[0])
    plain = snn.to_plain(module)
    with torch.no_grad():
        for tensor in (*plain.parameters(), *plain.buffers()):
            tensor.zero_()
    assert {name: type(m) for name, m in module.named_modules()} == classes
    assert all(m.training for m in module.modules())
    assert all(p.requires_grad for p in module.parameters())
    assert all(torch.equal(value, state[key]) for key, value in module.state_dict().items())
    module(*[x.requires_grad_().clone() for x in xs]).sum().backward()


@every_case
def test_plain_layers_can_be_pickled(case: Case):
    module = built(case, case.home)
    xs = fields(module, case.sizes[0])
    plain = _saved_and_loaded(snn.to_plain(module))
    assert relative_error(plain(*[x.clone() for x in xs]), module(*xs)) <= 1e-12


def test_to_plain_reaches_into_modules_of_the_users_own():
    net = _Own(D4).double().eval()
    plain = snn.to_plain(net)
    steerable = [m for m in plain.modules() if isinstance(m, EquivariantModule)]
    assert not steerable
    assert isinstance(net.first, snn.Conv2d)
    x = torch.randn(2, 3, 5, 5, dtype=torch.float64)
    torch.testing.assert_close(plain(x), net(x), rtol=1e-12, atol=1e-12)


class _Own(nn.Module):
    def __init__(self, group: Group) -> None:
        super().__init__()
        kind = FieldType(group, "regular + A1")
        self.first = snn.Conv2d(FieldType(group, "3*A1"), kind, 3, padding=1)
        self.rest = nn.ModuleList([snn.ReLU(kind), nn.Dropout(0.2)])

    def forward(self, x: Tensor) -> Tensor:
        x = self.first(x)
        for layer in self.rest:
            x = x + layer(x)
        return x


# ---------------------------------------------------------------- filters that are kept


def _in_place(module: nn.Module) -> None:
    with torch.no_grad():
        for p in module.parameters():
            p.mul_(1.5)


def _through_data(module: nn.Module) -> None:
    for p in module.parameters():
        p.data.mul_(1.5)


def _new_data(module: nn.Module) -> None:
    for p in module.parameters():
        p.data = 1.5 * p.data


def _new_data_twice(module: nn.Module) -> None:
    """The second tensor may lie where the first one was."""
    for p in module.parameters():
        values = 1.5 * p.data
        p.data = values.clone()
        p.data = values.clone()


def _new_parameter(module: nn.Module) -> None:
    for owner in module.modules():
        for name, p in tuple(owner.named_parameters(recurse=False)):
            setattr(owner, name, nn.Parameter(1.5 * p.detach()))


def _load(module: nn.Module) -> None:
    names = {name for name, _ in module.named_parameters()}
    module.load_state_dict({k: 1.5 * v if k in names else v for k, v in module.state_dict().items()})


def _load_assign(module: nn.Module) -> None:
    names = {name for name, _ in module.named_parameters()}
    state = {k: 1.5 * v if k in names else v for k, v in module.state_dict().items()}
    module.load_state_dict(state, assign=True)


def _optimizer_step(module: nn.Module) -> None:
    for p in module.parameters():
        p.grad = p.detach().clone()
    torch.optim.SGD(module.parameters(), lr=0.5).step()


def _through_training(module: nn.Module) -> None:
    module.train()
    _in_place(module)
    module.eval()


def _double(module: nn.Module) -> None:
    module.double()


def _in_inference_mode(module: nn.Module) -> None:
    with torch.inference_mode():
        for p in module.parameters():
            p.mul_(1.5)


@every_bank
@pytest.mark.parametrize(
    "change",
    [
        _in_place,
        _through_data,
        _new_data,
        _new_data_twice,
        _new_parameter,
        _load,
        _load_assign,
        _optimizer_step,
        _through_training,
        _double,
        _in_inference_mode,
    ],
)
def test_filters_are_never_stale(case: Case, change: Callable[[nn.Module], None]):
    module = built(case, case.home, torch.float32)
    xs = fields(module, case.sizes[0], torch.float32)
    with torch.no_grad():
        before = module(*xs)
    change(module)
    fresh = case.build(case.home).to(next(module.parameters()).dtype).eval()
    fresh.load_state_dict(module.state_dict())
    xs = [x.to(next(module.parameters()).dtype) for x in xs]
    with torch.no_grad():
        after = module(*xs)
        assert torch.equal(after, fresh(*xs))
        assert change is _double or not torch.allclose(after, before)
    with torch.inference_mode():
        assert torch.equal(module(*xs), after)


@every_bank
@pytest.mark.parametrize("through_data", [False, True])
def test_filters_are_not_stale_when_one_parameter_alone_changes(case: Case, through_data: bool):
    """Also the bias by itself, or one of several layers."""
    module = built(case, case.home)
    xs = fields(module, case.sizes[0])
    for name, parameter in module.named_parameters():
        with torch.no_grad():
            before = module(*xs)
            (parameter.data if through_data else parameter).add_(1.0)
            fresh = case.build(case.home).double().eval()
            fresh.load_state_dict(module.state_dict())
            after = module(*xs)
        assert torch.equal(after, fresh(*xs)), name
        assert not torch.allclose(after, before), name


def _banks(module: nn.Module) -> list[FilterBankModule]:
    return [m for m in module.modules() if isinstance(m, FilterBankModule)]


@every_bank
def test_evaluation_expands_filters_once(case: Case):
    module = built(case, case.home)
    with torch.no_grad():
        module(*fields(module, case.sizes[0]))
        first = [m.filters()[0] for m in _banks(module)]
        module(*fields(module, case.sizes[0], seed=1))
        assert all(m.filters()[0] is bank for m, bank in zip(_banks(module), first, strict=True))


@every_bank
def test_frozen_layers_keep_filters_with_gradients_on(case: Case):
    module = built(case, case.home).requires_grad_(False)
    module(*fields(module, case.sizes[0]))
    for m in _banks(module):
        assert m.filters()[0] is m.filters()[0]


@every_bank
def test_weights_have_gradients_in_evaluation_mode(case: Case):
    module = built(case, case.home)
    xs = fields(module, case.sizes[0])
    with torch.no_grad():
        expected = module(*xs)
    y = module(*xs)
    assert torch.equal(y, expected)
    y.sum().backward()
    assert all(p.grad is not None for p in module.parameters())


@every_bank
def test_inference_mode_leaves_nothing_behind(case: Case):
    module = built(case, case.home)
    xs = fields(module, case.sizes[0])
    with torch.inference_mode():
        expected = module(*xs).clone()
    y = module(*[x.requires_grad_() for x in xs])
    y.sum().backward()
    assert torch.equal(y.detach(), expected)
    with torch.no_grad():
        assert torch.equal(module(*xs), expected)
    module.requires_grad_(False)
    module(*xs).sum().backward()
