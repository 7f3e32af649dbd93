"""The laws on a GPU: where there is none, this file is skipped."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import torch
from cases import CASES, GROUPS, Case, built, fields, small_net, volume_net
from test_bank_tables import CASES as BANKS
from test_bank_tables import Kernel, filters_of
from test_conformance import assert_commutes, relative_error

import steerable as st
from steerable import nn as snn
from steerable.algebra.families import group_on
from steerable.nn.backends import DENSE, Choice, Passes, measuring
from steerable.nn.backends.combined import carry_out

if not torch.cuda.is_available():
    pytest.skip("needs a CUDA device", allow_module_level=True)

D4 = GROUPS["D4"]
inductors_own_warnings = pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32")
every_case = pytest.mark.parametrize("case", CASES.values(), ids=CASES)


@every_case
def test_commutes_and_agrees_with_the_cpu(case: Case):
    module = built(case, case.home)
    for size in case.sizes:
        xs = fields(module, size)
        expected = module(*xs)
        twin = copy.deepcopy(module).cuda()
        with torch.no_grad():
            assert relative_error(twin(*[x.cuda() for x in xs]).cpu(), expected) <= 1e-12
            assert_commutes(twin, [x.cuda() for x in xs])


@every_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_autocast_runs_in_training(case: Case, dtype: torch.dtype):
    module = built(case, case.home, torch.float32).train()
    xs = [x.cuda().requires_grad_() for x in fields(module, case.sizes[0], torch.float32)]
    module = module.cuda()
    with torch.autocast("cuda", dtype=dtype):
        y = module(*[x.clone() for x in xs])
    assert y.dtype == dtype or not case.bfloat16_in_autocast
    y.float().sum().backward()


# torch says that this mode may miss some synchronisations; what it finds is an error all the same.
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_forward_and_backward_do_not_wait_for_the_device():
    net = small_net(D4).cuda().train()
    x = torch.randn(4, 3, 8, 8, device="cuda")
    net(x).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        net(x).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@pytest.mark.parametrize(("group", "in_text", "out_text", "kernel"), BANKS)
def test_a_bank_by_the_kernel_is_that_of_the_products(group: str, in_text: str, out_text: str, kernel: Kernel):
    g, filters = filters_of(group, kernel)
    size = filters.size if isinstance(filters, st.FilterSpace) else filters
    types = st.FieldType(g, in_text), st.FieldType(g, out_text)
    space = filters if isinstance(filters, st.FilterSpace) else None
    conv = (snn.Conv2d if len(size) == 2 else snn.Conv3d)(*types, size, bias=False, filters=space).double()
    twin = copy.deepcopy(conv).cuda()
    assert twin.bank_index is not None
    bank, expected = twin.expand()[0], conv.expand()[0]
    assert bank.is_contiguous(memory_format=torch.channels_last if len(size) == 2 else torch.channels_last_3d)
    assert (bank.cpu() - expected).abs().max() < 1e-15
    upstream = torch.randn_like(expected)
    (bank * upstream.cuda()).sum().backward()
    (expected * upstream).sum().backward()
    assert (twin.weight.grad.cpu() - conv.weight.grad).abs().max() < 1e-12
    with torch.autocast("cuda", torch.bfloat16):
        assert torch.equal(twin.expand()[0].cpu(), expected.bfloat16())


@pytest.mark.parametrize(
    ("group", "text", "size"),
    [
        ("D4", "2*(regular + qm)", (4, 5)),
        ("D4", "3*(A1 + A2 + 2*E)", (4, 5)),
        ("D4", "4*A1", (4, 5)),
        ("O", "2*regular + T1 + A2", (3, 4, 5)),
    ],
)
@pytest.mark.parametrize("affine", [True, False])
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
def test_batch_norm_agrees_with_the_cpu_to_all_derivatives(
    group: str, text: str, size: tuple[int, ...], affine: bool, last: bool
):
    kind = snn.BatchNorm2d if len(size) == 2 else snn.BatchNorm3d
    norm = kind(st.FieldType(group_on(group, len(size)), text), affine=affine).double()
    for p in norm.parameters():
        torch.nn.init.normal_(p)
    twin = copy.deepcopy(norm).cuda()
    x = 3 + torch.randn(3, norm.in_type.channels, *size, dtype=torch.float64)
    x = x.contiguous(memory_format=last_format(x)) if last else x
    upstream = torch.randn_like(x)
    results = []
    for module, device in ((norm, "cpu"), (twin, "cuda")):
        leaf = x.to(device).requires_grad_()
        y = module(leaf)
        first = torch.autograd.grad((y * upstream.to(device)).sum(), [leaf, *module.parameters()], create_graph=True)
        second = torch.autograd.grad(first[0].square().sum(), [leaf, *module.parameters()], allow_unused=True)
        again = module(leaf)
        cheap = torch.autograd.grad((again * upstream.to(device)).sum(), [leaf, *module.parameters()])
        found = [y, *first, *second, *cheap, *module.buffers()]
        results.append([t.detach().cpu() for t in found if t is not None and t.is_floating_point()])
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= 1e-10 * b.abs().max().clamp(min=1)


def last_format(x: torch.Tensor) -> torch.memory_format:
    return torch.channels_last_3d if x.ndim == 5 else torch.channels_last


@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_a_network_of_volumes_learns_as_on_the_cpu(half: bool, last: bool, monkeypatch: pytest.MonkeyPatch):
    """All kernels of volumes in one step, and in one evaluation after it."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    group = st.octahedral()
    torch.manual_seed(0)
    net = volume_net(group).train()
    x = torch.randn(3, net.in_type.channels, 6, 6, 6)
    x = x.contiguous(memory_format=torch.channels_last_3d) if last else x

    def results(module: torch.nn.Module, x: torch.Tensor, half: bool) -> list[torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            y = module(x)
        y.float().square().sum().backward()
        with torch.no_grad(), torch.autocast("cuda", torch.bfloat16, enabled=half):
            evaluated = module.eval()(x)
        return [t.detach().double().cpu() for t in (y, evaluated, *[p.grad for p in module.parameters()])]

    exact = results(copy.deepcopy(net).double(), x.double(), False)
    twin = copy.deepcopy(net).cuda()
    assert all(m._on_gpu is not None for m in twin.modules() if isinstance(m, snn.Conv3d))
    found = results(twin, x.cuda(), half)
    assert all(torch.isfinite(t).all() for t in found)
    # A bias before a norm has no gradient but rounding; in bfloat16 the maximum of a pool may be another voxel.
    slack = 1e-5 * max(t.norm() for t in exact)
    for a, b in zip(exact[:2] if half else exact, found, strict=False):
        assert (b - a).norm() <= (0.1 if half else 1e-3) * a.norm() + slack


@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype feature")
def test_volumes_do_not_wait_for_the_device():
    net = volume_net(st.octahedral()).cuda().train()
    x = torch.randn(2, net.in_type.channels, 6, 6, 6, device="cuda")
    net(x).sum().backward()
    torch.cuda.set_sync_debug_mode("error")
    try:
        net(x).sum().backward()
    finally:
        torch.cuda.set_sync_debug_mode("default")


@inductors_own_warnings
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_a_network_of_volumes_is_one_compiled_graph(training: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.compiler.reset()
    torch.manual_seed(0)
    net = volume_net(st.octahedral()).cuda()
    x = torch.randn(2, net.in_type.channels, 6, 6, 6, device="cuda")
    net.train()(3 * x + 1)
    net.train(training)
    other = copy.deepcopy(net)
    found = []
    for module, call in ((net, net), (other, torch.compile(other, fullgraph=True))):
        y = call(x)
        y.square().sum().backward()
        found.append([y.detach(), *[p.grad for p in module.parameters()]])
    slack = 1e-5 * max(t.norm() for t in found[0])  # a bias before a norm has no gradient but rounding
    for a, b in zip(*found, strict=True):
        assert (b - a).norm() <= 1e-3 * a.norm() + slack


@pytest.mark.parametrize("rectified", [True, False], ids=["CReLU", "CTanh"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("last", [False, True], ids=["contiguous", "channels_last"])
@pytest.mark.parametrize(
    ("group", "text", "size"), [("D4", "2*E + A2", (5, 7)), ("D4", "A2", (3, 3)), ("O", "T1 + A2", (3, 4, 5))]
)
def test_signed_selections_are_exact(
    group: str, text: str, size: tuple[int, ...], last: bool, dtype: torch.dtype, rectified: bool
):
    """The interpreter of test_triton_kernels.py cannot compute in bfloat16."""
    field_type = st.FieldType(group_on(group, len(size)), text)
    layer = snn.CReLU(field_type) if rectified else snn.Concatenated(field_type, torch.abs)
    x = torch.randn(2, field_type.channels, *size).to(dtype)
    x = x.contiguous(memory_format=last_format(x)) if last else x
    found = []
    for module, field in ((layer, x), (copy.deepcopy(layer).cuda(), x.cuda())):
        leaf = field.detach().requires_grad_()
        y = module(leaf)
        weights = torch.linspace(-1, 2, y.numel()).view(y.shape).to(y)
        found.append((y.detach().cpu(), torch.autograd.grad(y, leaf, weights)[0].cpu()))
    for a, b in zip(*found, strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.bfloat16], ids=str)
@pytest.mark.parametrize("memory_format", [torch.contiguous_format, torch.channels_last], ids=str)
def test_fields_that_do_not_vary_are_normalised(dtype: torch.dtype, memory_format: torch.memory_format):
    """3x3 filters from images to A2 are all zero: a network of irreps has such fields behind its first layer."""
    norm = snn.BatchNorm2d(st.FieldType(D4, "2*A2 + 2*regular + A1"))
    x = torch.randn(3, norm.in_type.channels, 4, 5)
    x[:, :5] = 0  # the A2 fields and a part of a regular one
    x[:, -1] = 3
    upstream = torch.randn_like(x)
    results = []
    for device, kind in (("cpu", torch.float64), ("cuda", dtype)):
        module = copy.deepcopy(norm).to(device, torch.promote_types(kind, torch.float32))
        leaf = x.to(dtype).to(device, kind, memory_format=memory_format).requires_grad_()
        y = module(leaf)
        (y * upstream.to(device)).sum().backward()
        results.append([t.detach().double().cpu() for t in (y, leaf.grad, module.running_mean, module.running_var)])
    tolerance = {torch.float64: 1e-12, torch.float32: 1e-5, torch.bfloat16: 2e-2}[dtype]
    # The rounding of a mean of 3 is divided by the root of the norm's ε.
    rounding = torch.finfo(torch.promote_types(dtype, torch.float32)).eps
    amplified = 8 * 3 * rounding / norm.eps**0.5
    for a, b in zip(*results, strict=True):
        assert (a - b).abs().max() <= tolerance * a.abs().max() + amplified


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore:TensorFloat32")  # inductor's own
@pytest.mark.parametrize("half", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_a_network_is_one_compiled_graph(half: bool, training: bool):
    torch.compiler.reset()
    torch.manual_seed(0)
    net = small_net(D4).cuda().to(memory_format=torch.channels_last)
    x = torch.randn(4, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    net.train()(3 * x + 1)  # running statistics other than 0 and 1
    with torch.no_grad():
        for parameter in net.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    net.train(training)

    def results(call: torch.nn.Module, half: bool) -> list[torch.Tensor]:
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            y = call(x)
        y.float().square().sum().backward()
        return [t.detach().double() for t in (y, *[p.grad for p in call.parameters()])]

    exact = results(copy.deepcopy(net), False)
    eager, compiled = (
        results(copy.deepcopy(net), half),
        results(torch.compile(copy.deepcopy(net), fullgraph=True), half),
    )
    # Both round, neither much more than the other. A bias before a norm has no gradient but rounding.
    share, rounding = (0.1, 1e-3) if half else (1e-3, 1e-6)
    slack = rounding * max(tensor.norm() for tensor in exact)
    for a, b, c in zip(exact, eager, compiled, strict=True):
        assert (c - a).norm() <= 3 * (b - a).norm() + share * a.norm() + slack


@pytest.mark.parametrize(
    ("in_text", "out_text", "kernel", "dtype", "memory_format"),
    [  # few, because each compiles a dozen kernels
        ("3*regular", "2*regular", 3, torch.float64, torch.contiguous_format),
        ("2*(regular + qm)", "3*(A1 + A2 + 2*E)", 1, torch.float64, torch.channels_last),
        ("2*A1 + 3*E", "2*regular + B1", 5, torch.float32, torch.channels_last),
        ("17*regular + 20*A1", "40*E + 33*qm", 3, "tf32", torch.channels_last),
        ("2*A1 + 3*E", "2*regular + B1", 2, torch.float16, torch.contiguous_format),
        ("17*regular + 20*A1", "40*E + 33*qm", 3, torch.bfloat16, torch.channels_last),
        ("17*regular + 20*A1", "40*E + 33*qm", 1, torch.bfloat16, torch.contiguous_format),
    ],
)
def test_the_fourier_path_is_the_dense_one(
    in_text: str,
    out_text: str,
    kernel: int,
    dtype: torch.dtype | str,
    memory_format: torch.memory_format,
    monkeypatch: pytest.MonkeyPatch,
):
    """Within the precision that is asked for, which in bfloat16 is better than the dense path's own.

    In float16 it is less: the dense path rounds once to what the Fourier path keeps all its steps in. With TF32 the
    limit is the rounding of both factors to 11 bits: the dense path may round none where channels are few.
    """
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", dtype == "tf32")
    limits = {torch.float64: 1e-12, torch.float32: 1e-5, "tf32": 2 * 2.0**-11, torch.float16: 2e-3}
    limit = limits.get(dtype)
    dtype = dtype if isinstance(dtype, torch.dtype) else torch.float32
    types = st.FieldType(D4, in_text), st.FieldType(D4, out_text)
    exact = snn.Conv2d(*types, kernel, padding=kernel // 2, backend="dense").double().cuda()
    x = torch.randn(3, types[0].channels, 8, 9, device="cuda").to(dtype)
    errors = {}
    for backend in ("dense", "fourier"):
        layer = snn.Conv2d(*types, kernel, padding=kernel // 2, backend=backend).cuda()
        layer.load_state_dict(exact.state_dict())
        layer = layer.double() if dtype == torch.float64 else layer
        found = []
        for conv in (exact, layer):
            half = conv is layer and dtype in (torch.bfloat16, torch.float16)
            field = x.double() if conv is exact else x.float() if half else x
            field = field.clone(memory_format=memory_format).requires_grad_()
            with torch.autocast("cuda", dtype if half else torch.bfloat16, enabled=half):
                y = conv(field)
            upstream = torch.linspace(-1, 2, y.numel(), dtype=torch.float64, device="cuda").view(y.shape)
            upstream = upstream.to(x.dtype).to(y.dtype)
            found.append((y, *torch.autograd.grad(y, [field, *conv.parameters()], upstream)))
        errors[backend] = max(relative_error(b.double(), a) for a, b in zip(*found, strict=True))
    assert errors["fourier"] < (limit or 1.1 * errors["dense"])


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_half_precision_spans_the_range_of_bfloat16(scale: float):
    conv = snn.Conv2d(st.FieldType(D4, "2*regular"), st.FieldType(D4, "qm"), 3, padding=1, backend="fourier").cuda()
    x = torch.randn(2, 16, 8, 8, device="cuda", requires_grad=True)
    with torch.no_grad():
        conv.weight.mul_(scale)
    outputs = []
    for backend in ("dense", "fourier"):
        conv.backend = backend
        with torch.autocast("cuda", torch.bfloat16):
            y = conv(x * scale)
        outputs.append((y, *torch.autograd.grad(y, [x, conv.weight], scale * torch.ones_like(y))))
    for a, b in zip(*outputs, strict=True):
        assert relative_error(b.float(), a.float()) < 1e-2


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> list[list[str]]:
    """What is compared in each measurement that is made; Fourier always wins."""
    made: list[list[str]] = []

    def shortest_times(runs, synchronise):
        for run in runs.values():
            run()
        synchronise()
        made.append(sorted(map(str, runs)))
        return {name: 1.0 + ("fourier" not in name) for name in runs}

    monkeypatch.setenv("STEERABLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(measuring, "shortest_times", shortest_times)
    return made


def test_in_float32_the_faster_backend_is_found_without_being_asked_for(measurements: list[list[str]]):
    conv = snn.Conv2d(st.FieldType(D4, "40*regular"), st.FieldType(D4, "32*regular"), 3, padding=1).cuda()
    x = torch.randn(256, 320, 16, 16, device="cuda")
    with torch.autocast("cuda", torch.bfloat16):
        conv(x)
    assert not measurements  # of half floats the dense form is faster unless kernels start by themselves
    for _ in range(2):
        y = conv(x)
    assert measurements == [["dense", "fourier"]]
    expected = carry_out(conv.runner.problem, DENSE, x, conv)
    assert (y - expected).abs().max() < 1e-2 * expected.abs().max()  # TF32


@inductors_own_warnings
def test_compiled_networks_hold_our_operators():
    """Where a version of torch takes compiling for exporting, they would be replaced by slower ones."""
    net = small_net(D4).cuda().eval()
    for layer in net.modules():
        if isinstance(layer, snn.Conv2d):
            layer.backend = "fourier"
    held: set[str] = set()

    def look(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        held.update(str(node.target) for node in graph.graph.nodes)
        return graph

    torch.compiler.reset()
    torch.compile(net, backend=look, fullgraph=True)(torch.randn(2, 3, 8, 8, device="cuda"))
    assert {"steerable.fourier_conv.default", "steerable.capsule_affine.default"} <= held


@inductors_own_warnings
@pytest.mark.filterwarnings("ignore:The CUDA Graph is empty")  # torch's own, of the graph that it begins with
@pytest.mark.parametrize("backend", ["dense", "fourier"])
def test_networks_compiled_as_cuda_graphs(backend: str, monkeypatch: pytest.MonkeyPatch):
    """Whatever a first pass makes for later ones must not lie in memory that a graph overwrites."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)  # which rounds to a thousandth
    torch.manual_seed(0)
    net = small_net(D4).cuda()
    for layer in net.modules():
        if isinstance(layer, snn.Conv2d):
            layer.backend = backend
    other = copy.deepcopy(net)
    torch.compiler.reset()
    compiled = torch.compile(other, mode="reduce-overhead")
    x = torch.randn(2, 3, 8, 8, device="cuda")
    for _ in range(4):  # warm up, record, replay
        for call, parameters in ((net, net.parameters()), (compiled, other.parameters())):
            call(x).square().sum().backward()
            with torch.no_grad():
                for parameter in parameters:
                    parameter -= 1e-4 * parameter.grad
                    parameter.grad = None
    for (name, value), now in zip(net.state_dict().items(), other.state_dict().values(), strict=True):
        assert (value.double() - now.double()).abs().max() <= 1e-4 * value.double().abs().max().clamp(min=1), name


@pytest.mark.parametrize("training", [False, True], ids=["evaluation", "training"])
def test_exported_networks_hold_operators_of_torch_only(training: bool):
    net = small_net(D4).cuda().train(training)
    program = torch.export.export(net, (torch.randn(2, 3, 8, 8, device="cuda"),))
    held = {str(node.target) for node in program.graph.nodes}
    assert not [name for name in held if name.startswith("steerable")]


def test_blocks_are_multiplied_by_tensor_cores_where_they_are_rounded_anyway(monkeypatch: pytest.MonkeyPatch):
    device = torch.device("cuda")
    precision = pytest.importorskip("steerable.nn.backends.fourier.gpu.kernels.irrep_blocks")._precision.__wrapped__
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    assert [precision(device, scaled=scaled) for scaled in (False, True)] == ["ieee", "tf32x3"]
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (7, 5))
    assert precision(device, scaled=True) == "ieee"


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("half", [False, True], ids=["float32", "autocast"])
@pytest.mark.parametrize("graphs", [False, True], ids=["started by Python", "as CUDA graphs"])
def test_passes_are_measured_once(graphs: bool, gradients: bool, half: bool, measurements: list[list[str]]):
    types = st.FieldType(D4, "96*regular"), st.FieldType(D4, "100*regular")
    net = snn.Sequential(snn.Conv2d(*types, 3, padding=1), snn.ReLU(types[1]), snn.Conv2d(*types[::-1], 3, padding=1))
    net = net.cuda().to(memory_format=torch.channels_last)
    x = torch.randn(128, 768, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    with torch.set_grad_enabled(gradients), torch.autocast("cuda", torch.bfloat16, enabled=half):
        assert snn.choose_backends(net, x, cuda_graphs=graphs) == {"0": "fourier", "2": "fourier"}
        forward, each, both = ["dense", "fourier"], ["dense", "fourier", "turned"], ["('fourier', 'fourier')"]
        # The first layer's input gets no gradient.
        assert measurements == ([forward, each, forward, each, each, both] if gradients else [forward, forward])
        y = net(x)
    assert torch.isfinite(y).all()


@pytest.mark.parametrize("half", [False, True], ids=["TF32", "bfloat16"])
@pytest.mark.parametrize(
    "passes",
    [
        Passes("dense", "turned", "turned"),
        Passes("dense", "fourier", "fourier"),
        Passes("dense", "turned", "fourier"),
        Passes("fourier", "dense", "turned"),
        Passes("padded", "dense", "turned"),
    ],
    ids=Passes.to_text,
)
def test_passes_in_any_way_are_the_dense_ones(passes: Passes, half: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", True)
    torch.manual_seed(0)
    types = st.FieldType(D4, "3*A1 + 5*regular"), st.FieldType(D4, "4*regular + 3*E")
    exact = snn.Conv2d(*types, 3, padding=1, backend="dense").cuda().double()
    layer = snn.Conv2d(*types, 3, padding=1, backend="dense").cuda().to(memory_format=torch.channels_last)
    layer.load_state_dict(exact.state_dict())
    layer.runner.use(Choice(passes, passes.forward))
    x = torch.randn(4, types[0].channels, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    found = []
    for conv, field in ((exact, x.double()), (layer, x.clone(memory_format=torch.channels_last))):
        field.requires_grad_()
        with torch.autocast("cuda", torch.bfloat16, enabled=half and conv is layer):
            y = conv(field)
        found.append((y, *torch.autograd.grad(y, [field, *conv.parameters()], torch.cos(y.detach()))))
    for a, b in zip(*found, strict=True):
        assert relative_error(b.double(), a) < (1e-2 if half else 2 * 2.0**-11)


@inductors_own_warnings
@pytest.mark.parametrize("half", [False, True], ids=["float32", "bfloat16"])
def test_a_network_of_settled_passes_compiles(half: bool, monkeypatch: pytest.MonkeyPatch):
    """Compared with the same network left dense, in float32 without TF32."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", False)
    torch.manual_seed(0)
    types = st.FieldType(D4, "3*A1"), st.FieldType(D4, "4*regular")
    layers = [snn.Conv2d(*types, 3, padding=1, bias=False), snn.BatchNorm2d(types[1]), snn.ReLU(types[1])]
    net = snn.Sequential(*layers, snn.Conv2d(types[1], types[1], 3, padding=1)).cuda()
    net = net.to(memory_format=torch.channels_last)
    other = copy.deepcopy(net)
    for layer, passes in (
        (other[0], Passes("padded", "dense", "turned")),
        (other[3], Passes("dense", "turned", "turned")),
    ):
        layer.runner.use(Choice(passes, passes.forward))
    torch.compiler.reset()
    x = torch.randn(4, 3, 8, 8, device="cuda").contiguous(memory_format=torch.channels_last)
    found = []
    for network in (net, torch.compile(other, fullgraph=True)):
        with torch.autocast("cuda", torch.bfloat16, enabled=half):
            y = network(x)
        found.append((y, *torch.autograd.grad(y, list(network.parameters()), torch.cos(y.detach()))))
    for a, b in zip(*found, strict=True):
        assert relative_error(b.float(), a.float()) < (3e-2 if half else 1e-4)
