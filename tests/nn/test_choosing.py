"""``backend="auto"``: measured once, remembered, out of the way everywhere else."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

import steerable as st
from steerable import FieldType, locks
from steerable import nn as snn
from steerable.locks import exclusive
from steerable.nn.backends import DENSE, Choice, Passes, known, measuring, runner
from steerable.nn.backends import store as choice
from steerable.nn.backends.combined import carry_out
from steerable.nn.backends.fourier import backend, execution
from steerable.nn.backends.fourier.backend import FEWEST_COPIES, MEASURED_FROM
from steerable.nn.backends.measuring import fastest, shortest_times
from steerable.nn.backends.store import ChoiceStore, cache_folder, choice_store

pytest.importorskip("numba")

D4 = st.dihedral(4)
REGULAR = FieldType(D4, "4*regular")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A cache folder for each test, and nothing too small or too narrow to be measured."""
    monkeypatch.setenv("STEERABLE_CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(backend, "MEASURED_FROM", {"cpu": 0})
    monkeypatch.setattr(backend, "FEWEST_COPIES", {"cpu": 1})
    choice._store.cache_clear()
    yield tmp_path / "convolutions.json"
    choice._store.cache_clear()


@pytest.fixture
def measurements(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The result of every measurement that is made, always Fourier."""
    made: list[str] = []

    def always_fourier(*_: object) -> str:
        made.append("fourier")
        return "fourier"

    monkeypatch.setattr(runner, "fastest_backend", always_fourier)
    return made


def layer(**options: object) -> snn.Conv2d:
    return snn.Conv2d(REGULAR, REGULAR, 3, padding=1, **options)  # type: ignore[arg-type]


def field(size: int = 6, **options: object) -> Tensor:
    return torch.randn(2, REGULAR.channels, size, size, **options)  # type: ignore[call-overload]


def chosen(conv: snn.Conv2d, x: Tensor) -> str:
    return conv.runner.passes_for(x, conv).forward


# ---------------------------------------------------------------- measured once, remembered


def test_each_shape_is_measured_once_and_remembered_on_disk(own_cache: Path, measurements: list[str]) -> None:
    conv = layer()
    for _ in range(3):
        assert chosen(conv, field()) == "fourier"
    assert len(measurements) == 1
    conv(field(7))
    assert len(measurements) == 2
    with torch.no_grad():
        conv(field(7))  # without gradients it is another question
    assert len(measurements) == 3
    assert set(json.loads(own_cache.read_text())["choices"].values()) == {"fourier"}
    choice._store.cache_clear()  # as in a new process
    assert chosen(layer(), field()) == "fourier"
    assert len(measurements) == 3


def test_another_machine_version_or_thread_count_asks_anew(
    measurements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    layer()(field())
    monkeypatch.setattr(choice, "_environment", lambda device: ("another machine",))
    layer()(field())
    assert len(measurements) == 2
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(before + 1)
        layer()(field())
    finally:
        torch.set_num_threads(before)
    assert len(measurements) == 3


def test_where_memory_is_short_the_choice_is_dense_for_this_process(
    own_cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tried: list[str] = []

    def too_large(*_: object) -> str:
        tried.append("once")
        raise torch.cuda.OutOfMemoryError

    monkeypatch.setattr(runner, "fastest_backend", too_large)
    conv, x = layer(), field()
    for _ in range(2):
        torch.testing.assert_close(conv(x), carry_out(conv.runner.problem, DENSE, x, conv))
    assert tried == ["once"]
    assert not own_cache.exists()


def test_a_real_measurement_is_not_seen_from_outside() -> None:
    conv, x = layer(), field(requires_grad=True)
    calls: list[object] = []
    conv.register_forward_hook(lambda *_: calls.append("forward"))
    conv.weight.register_hook(lambda g: calls.append("gradient"))
    conv.weight.register_post_accumulate_grad_hook(lambda p: calls.append("accumulated"))
    random, weight = torch.get_rng_state(), conv.weight.detach().clone()
    y = conv(x)
    assert calls == ["forward"]
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.equal(conv.weight, weight)
    assert conv.weight.grad is None
    assert x.grad is None
    y.sum().backward()
    assert calls == ["forward", "gradient", "accumulated"]
    assert chosen(conv, x) in ("dense", "fourier")
    assert conv.backend == "auto"


def test_both_choices_give_the_same_values(monkeypatch: pytest.MonkeyPatch) -> None:
    conv, x = layer().double(), field(dtype=torch.float64)
    outputs = []
    for result in ("dense", "fourier"):
        monkeypatch.setattr(runner, "fastest_backend", lambda *_, result=result: result)
        conv.backend = "auto"
        monkeypatch.setenv("STEERABLE_CACHE_DIR", "")
        choice._store.cache_clear()
        assert chosen(conv, x) == result
        outputs.append(conv(x))
    torch.testing.assert_close(outputs[0], outputs[1], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("dense", "fourier", "expected"), [(1.0, 0.9, "fourier"), (1.0, 0.99, "dense"), (1.0, 1.5, "dense")]
)
def test_fourier_has_to_be_clearly_faster(
    dense: float, fourier: float, expected: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    taking = clock_of_runs(monkeypatch)
    # The first run compiles, and does not count.
    runs = {"dense": taking(dense, 9.0), "fourier": taking(fourier, 99.0)}
    assert fastest(shortest_times(runs, lambda: None)) == expected


def test_where_both_are_close_more_turns_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    taking = clock_of_runs(monkeypatch)
    disturbed = (99.0, *[1.05] * measuring.REPEATS)
    runs = {"dense": taking(1.0), "fourier": taking(0.7, *disturbed)}
    assert fastest(shortest_times(runs, lambda: None)) == "fourier"


def test_a_busy_machine_that_disturbs_most_turns_does_not_decide(monkeypatch: pytest.MonkeyPatch) -> None:
    taking = clock_of_runs(monkeypatch)
    runs = {"dense": taking(9.0, 99.0, 9.0, 1.0), "fourier": taking(2.0)}
    assert fastest(shortest_times(runs, lambda: None)) == "dense"


def clock_of_runs(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], None]]:
    """Makes runs that take so many seconds by the clock, the first ones others."""
    now = [0.0]
    monkeypatch.setattr(measuring.time, "perf_counter", lambda: now[0])

    def taking(seconds: float, *first: float) -> Callable[[], None]:
        runs = iter(first)

        def run() -> None:
            now[0] += next(runs, seconds)

        return run

    return taking


# ---------------------------------------------------------------- where nothing is measured


def test_small_convolutions_are_dense_without_a_measurement(
    own_cache: Path, measurements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backend, "MEASURED_FROM", MEASURED_FROM)
    assert chosen(layer(), field()) == "dense"
    assert not measurements
    assert not own_cache.exists()
    assert chosen(layer(), torch.randn(64, REGULAR.channels, 32, 32)) == "fourier"


def test_narrow_layers_and_groups_without_symmetry_are_dense(
    measurements: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    none = FieldType(st.trivial(), "32*A")
    assert chosen(snn.Conv2d(none, none, 3, padding=1), torch.randn(2, 32, 6, 6)) == "dense"
    monkeypatch.setattr(backend, "FEWEST_COPIES", FEWEST_COPIES)
    assert chosen(layer(), field()) == "dense"
    assert not measurements


def test_the_widths_of_which_a_layer_is_never_asked_again_are_those_that_gain_nowhere() -> None:
    fourier = known.BACKENDS["fourier"]
    for copies, device in ((3, "cuda"), (4, "cuda"), (4, "cpu")):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(backend, "FEWEST_COPIES", {device: 4, "other": 9})
            problem = snn.Conv2d(*[FieldType(D4, f"{copies}*regular")] * 2, 3).runner.problem
            assert fourier.can_ever_gain(problem) == (copies >= 4)


def test_named_backends_are_never_measured(measurements: list[str]) -> None:
    assert chosen(layer(backend="dense"), field()) == "dense"
    assert chosen(layer(backend="fourier"), field()) == "fourier"
    assert not measurements


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # torch.func's own
def test_compilers_and_transforms_get_the_dense_form(measurements: list[str]) -> None:
    conv, x = layer().eval(), field()
    graphs: list[str] = []

    def collect(graph: torch.fx.GraphModule, inputs: object) -> object:
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    torch._dynamo.reset()
    torch.compile(conv, fullgraph=True, backend=collect)(x)
    torch._dynamo.reset()
    assert "conv2d" in graphs[0]
    torch.func.functional_call(conv, {"weight": conv.weight.detach()}, (x,))
    torch.func.vmap(conv)(torch.stack([x, x]))
    torch.func.jvp(conv, (x,), (x,))
    torch.export.export(conv, (x,))
    assert not measurements


# ---------------------------------------------------------------- settled for a network


class Network(torch.nn.Module):
    """A layer that inputs of two sizes reach, one with a stride, one that has its backend, and a norm."""

    def __init__(self) -> None:
        super().__init__()
        self.shared, self.strided, self.fixed = layer(), layer(stride=3), layer(backend="dense")
        self.norm = snn.BatchNorm2d(REGULAR)

    def forward(self, x: Tensor) -> Tensor:
        return self.fixed(self.norm(self.shared(self.strided(self.shared(x)))))  # type: ignore[no-any-return]


@pytest.mark.filterwarnings("ignore::steerable.nn.EquivarianceWarning")
@pytest.mark.parametrize("slower_at", [None, 6, 2])
def test_backends_are_settled_for_all_inputs_of_a_layer(slower_at: int | None, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def measure(problem: object, x: Tensor, *_: object) -> str:
        seen.append(x.shape[-1])
        return "dense" if x.shape[-1] == slower_at else "fourier"

    monkeypatch.setattr(runner, "fastest_backend", measure)
    network = Network()
    network.norm.eval()
    x, statistics = field(), {key: value.clone() for key, value in network.state_dict().items()}
    found = snn.choose_backends(network, x)
    assert found == {"shared": "fourier" if slower_at is None else "dense", "strided": "dense"}
    assert [network.shared.backend, network.strided.backend] == list(found.values())
    assert seen == [6, 6, 2, 2]  # a step and a forward pass each
    assert network.training
    assert not network.norm.training
    assert all(torch.equal(value, statistics[key]) for key, value in network.state_dict().items())
    settled = network(x)
    network.shared.backend = "dense"
    torch.testing.assert_close(network(x), settled)


@pytest.mark.parametrize("faster", ["dense", "fourier"], ids=lambda name: f"steps {name}")
def test_steps_and_forward_passes_may_take_different_backends(faster: str, monkeypatch: pytest.MonkeyPatch) -> None:
    slower = {"dense": "fourier", "fourier": "dense"}[faster]
    monkeypatch.setattr(runner, "fastest_backend", lambda *_: faster if torch.is_grad_enabled() else slower)
    conv, x = layer(), field()
    assert snn.choose_backends(conv, x) == {"": faster}
    held: list[str] = []

    def look(graph: torch.fx.GraphModule, inputs: object) -> torch.fx.GraphModule:
        names = {str(node.target) for node in graph.graph.nodes}
        held.append("fourier" if "steerable.fourier_conv.default" in names else "dense")
        return graph

    torch.compiler.reset()
    run = torch.compile(conv, backend=look, fullgraph=True)
    y = run(x)
    with torch.no_grad():
        assert chosen(conv, x) == slower
        torch.testing.assert_close(run(x), y)
    assert chosen(conv, x) == faster
    assert held == [faster, slower]
    conv.backend = faster  # what a user says holds for both
    assert conv.runner.choice == Choice(Passes.all_by(faster), faster)


def test_forward_passes_alone_are_compared_where_no_gradients_are_recorded(measurements: list[str]) -> None:
    conv = layer()
    with torch.no_grad():
        assert snn.choose_backends(conv, field()) == {"": "fourier"}
    assert measurements == ["fourier"]
    assert conv.runner.choice == Choice(Passes.all_by("fourier"), "fourier")


@pytest.mark.filterwarnings("ignore:The .grad attribute")  # dynamo's own
def test_backends_are_settled_however_a_layer_is_called(measurements: list[str]) -> None:
    class Called(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.named, self.compiled, self.unused = layer(), torch.compile(layer(), backend="eager"), layer()

        def forward(self, x: Tensor, *, twice: bool) -> Tensor:
            y: Tensor = self.named(x=x)
            return self.compiled(y) if twice else y  # type: ignore[no-any-return]

    network, x = Called(), field()
    network(x, twice=True)
    found = snn.choose_backends(network, x, twice=True)
    assert found == {"named": "fourier", "compiled._orig_mod": "fourier", "unused": "auto"}
    with pytest.raises(ValueError, match="rank 3"):
        snn.choose_backends(layer(), x[0])


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("trained", ["weight", "input", "both", "nothing"])
def test_whatever_is_trained_can_be_measured(bias: bool, trained: str) -> None:
    """Gradients are taken of what has some: a frozen layer, a layer without a bias, an image."""
    conv, x = layer(bias=bias), field()
    conv.requires_grad_(trained in ("weight", "both"))
    x.requires_grad_(trained in ("input", "both"))
    assert chosen(conv, x) in ("dense", "fourier")


def test_tiles_are_for_numba_on_cpus_in_single_and_double_precision(monkeypatch: pytest.MonkeyPatch) -> None:
    for dtype in (torch.float32, torch.float64):
        assert execution._in_tiles(torch.zeros(1, dtype=dtype))
        assert not execution._in_tiles(torch.zeros(1, dtype=dtype, device="meta"))
    assert not execution._in_tiles(torch.zeros(1, dtype=torch.bfloat16))
    monkeypatch.setattr(execution, "numba_available", lambda: False)
    assert not execution._in_tiles(torch.zeros(1))


def test_without_numba_it_is_dense(measurements: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "numba_available", lambda: False)
    assert chosen(layer(), field()) == "dense"
    assert not measurements


def test_deterministic_algorithms_go_by_a_rule(measurements: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    wide = FieldType(D4, "32*regular")
    x = torch.randn(2, wide.channels, 16, 16)
    torch.use_deterministic_algorithms(True)
    try:
        assert chosen(layer(), field()) == "dense"
        assert chosen(snn.Conv2d(wide, wide, 3, padding=1), x) == "fourier"
        assert chosen(snn.Conv2d(wide, wide, 1), x) == "dense"
        monkeypatch.setattr(backend, "MEASURED_FROM", MEASURED_FROM)
        assert chosen(snn.Conv2d(wide, wide, 3, padding=1), x[:1, :, :2, :2]) == "dense"  # it is over before it pays
    finally:
        torch.use_deterministic_algorithms(False)
    assert not measurements


def test_dtypes_that_do_not_agree_are_refused_before_anything_is_measured(measurements: list[str]) -> None:
    with pytest.raises(TypeError, match=r"expected a field of torch.float32.*got one of torch.float64"):
        layer()(field(dtype=torch.float64))
    assert not measurements


# ---------------------------------------------------------------- the file


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "null",
        '{"format": 99, "choices": {"key": "fourier"}}',
        '{"format": 3}',
        '{"format": 3, "choices": ["key"]}',
        '{"format": 3, "choices": {"key": "furier"}}',
        '{"format": 3, "choices": {"key": 1}}',
        '{"format": 3, "choices": {"key": "dense/padded/dense"}}',
        '{"format": 3, "choices": {"key": "padded/fourier/dense"}}',
        "\x00\xff",
        "[" * 200_000,
    ],
)
def test_a_damaged_file_is_replaced(content: str, own_cache: Path) -> None:
    own_cache.write_bytes(content.encode("latin-1"))
    store = ChoiceStore(own_cache)
    assert store.get("key") is None
    store.put("key", "dense")
    assert ChoiceStore(own_cache).get("key") == "dense"


@pytest.mark.parametrize("large", [False, True], ids=["a folder", "far too large"])
def test_what_is_no_store_is_ignored(large: bool, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if large:
        monkeypatch.setattr(choice, "LARGEST_BYTES", 20)
        own_cache.write_text('{"format": 3, "choices": {"key": "fourier"}}')
    else:
        own_cache.mkdir()
    store = ChoiceStore(own_cache)
    assert store.get("key") is None
    store.put("key", "dense")
    assert store.get("key") == "dense"


def test_what_other_processes_wrote_is_kept(own_cache: Path) -> None:
    one, two = ChoiceStore(own_cache), ChoiceStore(own_cache)
    assert one.get("a") is two.get("b") is None
    one.put("a", "fourier")
    two.put("b", "dense")
    both = ChoiceStore(own_cache)
    assert (both.get("a"), both.get("b")) == ("fourier", "dense")
    left = sorted(file.name for file in own_cache.parent.iterdir())
    assert left == [own_cache.name, f"{own_cache.name}.lock"]


_WRITES = """
import sys
from pathlib import Path
from steerable.nn.backends.store import ChoiceStore
name, path = sys.argv[1:]
store = ChoiceStore(Path(path))
print("ready", flush=True)
sys.stdin.readline()
for k in range(100):
    store.put(f"{name}-{k}", "dense")
"""


def test_several_processes_that_write_at_once_lose_nothing(own_cache: Path) -> None:
    names = ("a", "b", "c", "d")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", _WRITES, name, str(own_cache)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in names
    ]
    for writer in writers:  # importing torch takes much longer than writing
        assert writer.stdout is not None
        assert writer.stdout.readline() == "ready\n"
    for writer in writers:
        assert writer.stdin is not None
        writer.stdin.write("go\n")
        writer.stdin.flush()
    for writer in writers:
        writer.communicate(timeout=120)
        assert writer.returncode == 0
    kept = json.loads(own_cache.read_text())["choices"]
    assert kept.keys() == {f"{name}-{k}" for name in names for k in range(100)}


def test_a_lock_that_cannot_be_had_does_not_stop_anyone(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "LONGEST_WAIT", 0.01)
    with exclusive(own_cache.with_name(f"{own_cache.name}.lock")) as alone:
        assert alone
        ChoiceStore(own_cache).put("key", "dense")
    assert ChoiceStore(own_cache).get("key") == "dense"


def test_without_locks_the_store_works_as_before(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(locks, "fcntl", None)  # as on Windows
    ChoiceStore(own_cache).put("key", "dense")
    assert ChoiceStore(own_cache).get("key") == "dense"
    assert [file.name for file in own_cache.parent.iterdir()] == [own_cache.name]


def test_the_file_does_not_grow_without_end(own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choice, "LARGEST_FILE", 3)
    store = ChoiceStore(own_cache)
    for k in range(5):
        store.put(str(k), "dense")
    assert list(json.loads(own_cache.read_text())["choices"]) == ["2", "3", "4"]


def test_a_folder_that_cannot_be_written_is_done_without(tmp_path: Path, measurements: list[str]) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("")
    store = ChoiceStore(blocked / "convolutions.json")
    store.put("key", "fourier")
    assert store.get("key") == "fourier"
    assert blocked.read_text() == ""


def test_the_folder_is_the_users_and_can_be_moved_or_switched_off(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, measurements: list[str]
) -> None:
    assert cache_folder() == tmp_path
    monkeypatch.setenv("STEERABLE_CACHE_DIR", "")
    assert cache_folder() is None
    assert choice_store().path is None
    layer()(field())
    assert not list(tmp_path.iterdir())
    monkeypatch.delenv("STEERABLE_CACHE_DIR")
    monkeypatch.setattr(choice.sys, "platform", "linux")
    monkeypatch.setenv("XDG_CACHE_HOME", "somewhere")
    assert cache_folder() == Path("somewhere/steerable")


def test_fake_tensors_are_never_measured(measurements: list[str], own_cache: Path) -> None:
    conv, x = layer(), field()
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        assert conv(mode.from_tensor(x)).shape == x.shape
    assert not measurements
    assert not own_cache.exists()


def test_a_layer_tells_both_of_its_backends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "fastest_backend", lambda *_: "fourier" if torch.is_grad_enabled() else "dense")
    conv = layer()
    snn.choose_backends(conv, field())
    assert "backend=fourier, without gradients dense" in repr(conv)
