"""The paper's networks and the plain ones to compare with."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any, get_args

import pytest
import torch
from torch import nn

import steerable as st
from steerable import models
from steerable import nn as snn
from steerable.lazy import resolve
from steerable.models.residual_blocks import Downsampling, Head
from steerable.models.resnets import Layout
from steerable.models.tensor_files import read_tensors, write_tensors
from steerable.models.unets import UNetLayout
from steerable.models.wide_resnets import WideOptions
from steerable.types.network_plans import STEMS

IRREPS = "A1 + A2 + B1 + B2 + 2*E"


@pytest.mark.parametrize(
    ("depth", "copies", "count"),
    [(14, 14, 4_448_374), (20, 8, 2_218_888), (26, 14, 9_140_614), (20, 22, 16_777_222), (14, 20, 9_077_620)],
)
def test_convolution_parameters_of_the_papers_networks(depth: int, copies: int, count: int) -> None:
    with torch.device("meta"):
        net = models.resnet(depth=depth, copies=copies)
    assert sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv2d)) == count
    assert isinstance(net.head, nn.Linear)
    assert net.head.in_features == 80 * copies


def test_the_hundred_class_network_with_its_head() -> None:
    with torch.device("meta"):
        net = models.resnet(depth=20, copies=14, num_classes=100)
    convolutions = sum(m.weight.numel() for m in net.modules() if isinstance(m, snn.Conv2d))
    assert convolutions == 6_794_494
    assert convolutions + sum(p.numel() for p in net.head.parameters()) == 6_906_594


@pytest.mark.parametrize("head", ["invariant", "max"])
@pytest.mark.parametrize(
    ("group", "stream", "inner"),
    [
        ("D4", "regular + qm + qmr2 + qmr3", IRREPS),
        ("D4", "regular", "regular"),
        ("D4", IRREPS, IRREPS),
        ("D4", "E", "E"),
        ("D4", "regular + E", "qm + B1"),
        ("C4", "regular", "A + B + E"),
        ("D1", "regular + A2", "regular"),
        ("C1", "3*A", "2*A"),
    ],
)
def test_networks_are_invariant(group: str, stream: str, inner: str, head: str) -> None:
    net = models.resnet(8, 1, group=group, stream=stream, inner=inner, head=head).double()
    st.testing.assert_equivariant(net, size=16)
    assert st.typecheck(net, size=16) == net.out_type


@pytest.mark.parametrize(("group", "axes"), [("SO2", 2), ("O2", 2), ("SO2", 3), ("SO3", 3), ("O3", 3)])
def test_groups_with_infinitely_many_elements_need_no_mix(group: str, axes: int) -> None:
    net = models.resnet(8, 1, group=group, head="invariant", axes=axes, in_channels=1).double().eval()
    assert (net.invariant_under, net.out_type.channels) == (net.group.name, 10)
    assert models.resnet(8, 1, group=group, axes=axes).invariant_under == "nothing"
    elements = net.group.grid_elements[1:4]
    st.testing.assert_equivariant(net, size=8, elements=elements, tolerance=1e-12)


@pytest.mark.parametrize("group", ["D4", "C4", "D1"])
@pytest.mark.parametrize("stem", [2, 4, 8])
def test_a_stem_is_exact_and_reduces_the_image_at_once(stem: int, group: str) -> None:
    net = models.resnet(8, 1, group=group, head="invariant", stem=stem).double()
    st.testing.assert_equivariant(net, size=4 * stem)
    st.testing.assert_equivariant(net, size=8 * stem)
    assert st.typecheck(net, size=4 * stem) == net.out_type
    assert net.features.stem(torch.zeros(1, 3, 8 * stem, 4 * stem).double()).shape[2:] == (8, 4)
    plain = models.plain_resnet(8, 4, stem=stem)
    assert plain.features[0](torch.zeros(1, 3, 8 * stem, 4 * stem)).shape[2:] == (8, 4)


def test_strides_are_exact_on_odd_sizes_and_warn_on_even_ones() -> None:
    net = models.resnet(8, 1, downsampling="stride", head="invariant").double()
    st.testing.assert_equivariant(net, size=17)
    with pytest.warns(snn.EquivarianceWarning, match="Conv2d is not exactly equivariant to D4"):
        assert st.testing.equivariance_error(net, size=16) > 1e-6


def test_the_papers_head_is_not_invariant_and_says_so() -> None:
    net = models.resnet(8, 1)
    with pytest.raises(AttributeError, match="invariant under nothing has no output type of D4"):
        _ = net.out_type
    assert not hasattr(net, "out_type")  # torch.jit and others ask so, and stumble over any other error
    with pytest.raises(TypeError, match="a plain linear layer mixes the channels"):
        st.typecheck(net, size=16)


@pytest.mark.parametrize(("group", "stream"), [("D4", None), ("D4", IRREPS), ("D2", "regular")])
def test_a_mirror_head_sees_turns_but_not_left_and_right(group: str, stream: str | None) -> None:
    torch.manual_seed(0)
    net = models.resnet(8, 1, group=group, stream=stream, head="mirror").double().eval()
    x = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    with torch.no_grad():
        y, mirrored, turned = net(x), net(x.flip(-1)), net(x.flip(-1, -2))
    torch.testing.assert_close(mirrored, y, rtol=1e-12, atol=1e-12)
    assert (turned - y).abs().max() > 1e-3
    with pytest.raises(AttributeError, match=f"invariant under m alone has no output type of {group}"):
        _ = net.out_type


def test_under_a_group_of_nothing_but_m_a_mirror_head_is_invariant() -> None:
    net = models.resnet(8, 1, group="D1", head="mirror").double()
    st.testing.assert_equivariant(net, size=16)
    assert str(net.out_type) == "10*A1"


C4 = st.cyclic(4)
SAVED: list[tuple[str, dict[str, Any], tuple[int, ...]]] = [
    ("resnet", {"depth": 8, "copies": 1, "head": "max", "in_channels": 1}, (1, 12, 12)),
    ("resnet", {"depth": 8, "copies": 1, "group": "C4", "axes": 3, "in_channels": 1}, (1, 8, 8, 8)),
    ("plain_resnet", {"depth": 8, "width": 4, "inner": 2, "crelu": True, "in_channels": 1}, (1, 12, 12)),
    ("plain_resnet", {"depth": 8, "width": 4, "axes": 3, "in_channels": 1}, (1, 8, 8, 8)),
    ("wide_resnet", {"depth": 10, "width": 1, "groups": ("C8", "C4", "C1"), "match": "channels"}, (3, 12, 12)),
    ("plain_wide_resnet", {"depth": 10, "width": 1, "dropout": 0.2}, (3, 12, 12)),
    ("unet", {"depth": 1, "copies": 1, "out_type": "A1 + E", "group": "C4", "in_channels": 2}, (2, 8, 8)),
    ("unet", {"depth": 1, "copies": 1, "group": "C4", "axes": 3, "in_channels": 1}, (1, 8, 8, 8)),
    ("plain_unet", {"depth": 1, "width": 3, "out_channels": 3, "in_channels": 2}, (2, 8, 8)),
    ("plain_unet", {"depth": 1, "width": 4, "axes": 3, "in_channels": 1}, (1, 8, 8, 8)),
]


@pytest.mark.filterwarnings("ignore:.*pixel grid does not carry")
@pytest.mark.parametrize(("name", "options", "shape"), SAVED)
def test_saved_models_come_back(name: str, options: dict[str, Any], shape: tuple[int, ...], tmp_path: Path) -> None:
    """Also from a run folder, and by whichever class."""
    torch.manual_seed(0)
    net = models.build_model(name, **options).eval()
    net.save_pretrained(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} >= {"config.json", "model.safetensors"}
    x = torch.randn(2, *shape)
    with torch.no_grad():
        expected = net(x)
        for again in (models.MODELS[name].from_pretrained(tmp_path / "model"), models.from_pretrained(tmp_path)):
            assert type(again) is type(net)
            assert torch.equal(again.eval()(x), expected)


def test_field_types_are_saved_too(tmp_path: Path) -> None:
    net = models.unet(1, 1, st.FieldType(C4, "E"), in_type=st.FieldType(C4, "2*A"), stream="regular + E")
    net.save_pretrained(tmp_path)
    again = models.UNet.from_pretrained(tmp_path)
    assert (again.in_type, again.out_type) == (st.FieldType(C4, "2*A"), st.FieldType(C4, "E"))
    assert [p.shape for p in again.parameters()] == [p.shape for p in net.parameters()]


@pytest.mark.parametrize("name", models.MODELS)
def test_an_entry_lists_what_its_class_takes(name: str) -> None:
    entry = models.MODELS[name]
    kind = resolve(entry.home)
    taken = [key for key, p in inspect.signature(kind).parameters.items() if p.kind is not p.VAR_KEYWORD]
    layout = {"resnet": Layout, "unet": UNetLayout, "wide_resnet": WideOptions}.get(name)
    layout = [] if layout is None else list(layout.__annotations__)
    assert sorted(entry.all_options) == sorted([*taken, *layout])
    assert all(set(size) <= set(entry.all_options) for size in entry.sizes)
    assert entry.options.get("stem", tuple(map(str, STEMS))) == tuple(map(str, STEMS))
    assert entry.options.get("head", get_args(Head)) == get_args(Head)
    assert entry.options.get("downsampling", get_args(Downsampling)) == get_args(Downsampling)


def test_names_and_options_are_known_without_torch() -> None:
    code = (
        "import sys; from steerable.models.registry import MODELS; print(MODELS['unet'].help, 'torch' in sys.modules)"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert found == "copies, depth, group, stream, inner, restricted_to, axes (2, 3) False\n"


def test_a_network_saved_with_every_option_written_out_comes_back(tmp_path: Path) -> None:
    """As the first release wrote them: mixes that were not given are null."""
    net = models.resnet(8, 1).eval()
    net.save_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    assert not {"stream", "inner"} & config.keys()
    (tmp_path / "config.json").write_text(json.dumps({**config, "stream": None, "inner": None}))
    again = models.ResNet.from_pretrained(tmp_path).eval()
    x = torch.randn(1, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(net(x), again(x))


def test_the_same_weights_are_the_same_bytes(tmp_path: Path) -> None:
    """Within a process safetensors hashes names with one key for each call."""
    tensors = {"a.weight": torch.arange(6.0).view(2, 3), "ü": torch.ones(1, dtype=torch.float64)}
    written = set()
    for number in range(8):
        write_tensors(tmp_path / f"{number}.safetensors", tensors)
        written.add((tmp_path / f"{number}.safetensors").read_bytes())
    assert len(written) == 1
    read = read_tensors(tmp_path / "0.safetensors")
    assert all(torch.equal(read[name], value) for name, value in tensors.items())


def test_an_unknown_option_of_the_class_is_refused() -> None:
    with pytest.raises(TypeError, match=r"ResNet has no option `steam`\. Did you mean `stream`"):
        models.resnet(8, 1, steam="regular")


def test_weights_of_another_network_are_refused(tmp_path: Path) -> None:
    models.resnet(8, 1, 4, head="mirror").save_pretrained(tmp_path)
    with pytest.raises(RuntimeError, match=r"not those of the PlainResNet in its config\."):
        models.PlainResNet.from_pretrained(tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    del config["head"]
    (tmp_path / "config.json").write_text(json.dumps(config))
    with pytest.raises(RuntimeError, match="Missing key"):
        models.ResNet.from_pretrained(tmp_path)


@pytest.mark.parametrize("config", ["", "{", "[]", "null", b"\xff\xfe{}", None])
def test_a_damaged_config_is_named_whoever_reads_it(config: str | bytes | None, tmp_path: Path) -> None:
    models.resnet(8, 1).save_pretrained(tmp_path)
    if config is None:
        (tmp_path / "config.json").unlink()
    else:
        (tmp_path / "config.json").write_bytes(config.encode() if isinstance(config, str) else config)
    for read in (models.from_pretrained, models.ResNet.from_pretrained):
        with pytest.raises(
            (ValueError, FileNotFoundError), match=r"`.*config\.json`,? (cannot be|does not|which says)"
        ):
            read(tmp_path)


@pytest.mark.parametrize(
    "name", ["missing-folder", "runs/missing", "./a/b", "a/b/c", "/missing/folder", Path("owner/name"), "~/missing-run"]
)
def test_what_is_no_name_on_the_hub_is_looked_for_here_alone(
    name: str | Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "runs").mkdir()
    monkeypatch.chdir(tmp_path)

    def asked(*arguments: object, **options: object) -> None:
        raise AssertionError("a server was asked")

    monkeypatch.setattr("huggingface_hub.hub_mixin.hf_hub_download", asked)
    monkeypatch.setattr("huggingface_hub.snapshot_download", asked)
    with pytest.raises(
        FileNotFoundError, match=r"there is no folder .* or a model of the hub by its name, `owner/name`"
    ):
        models.ResNet.from_pretrained(name)
    with pytest.raises(FileNotFoundError, match=r"has no `model\.safetensors`.* Finish a run with the command"):
        models.ResNet.from_pretrained("runs")
    with pytest.raises(AssertionError, match="a server was asked"):
        models.ResNet.from_pretrained("owner/name")


def _small_plain(width: int = 16) -> nn.Sequential:
    head = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(width, 3))
    return nn.Sequential(nn.Conv2d(3, width, 3, padding=1), nn.BatchNorm2d(width), nn.ReLU(), *head)


def test_a_converted_network_comes_back(tmp_path: Path) -> None:
    options: dict[str, Any] = {"match": "parameters", "mix": "regular + qm", "out_type": "A1 + E"}
    net = st.convert(_small_plain(), "D4", **options)
    net(torch.randn(4, 3, 8, 8))  # running statistics
    models.save_converted(net, tmp_path / "saved")
    again = models.load_converted(tmp_path / "saved", _small_plain())
    x = torch.randn(2, 3, 8, 8)
    with torch.no_grad():
        assert torch.equal(net.eval()(x), again.eval()(x))
    assert again.out_type == net.out_type
    with pytest.raises(FileExistsError, match="exists already"):
        models.save_converted(net, tmp_path / "saved")
    with pytest.raises(ValueError, match="a converted Sequential, and this Sequential has other tensors, `net"):
        models.load_converted(tmp_path / "saved", _small_plain(64))
    with pytest.raises(FileNotFoundError, match="Give the folder that `save_converted` wrote"):
        models.load_converted(tmp_path, _small_plain())
    with pytest.raises(TypeError, match="expected a network that `convert` made, got Sequential"):
        models.save_converted(_small_plain(), tmp_path / "other")  # type: ignore[arg-type]
    by_function = st.convert(_small_plain(), "D4", mix=lambda c: st.FieldType("D4", "2*regular"))
    with pytest.raises(ValueError, match="Convert it with a mix as text"):
        models.save_converted(by_function, tmp_path / "other")
    (tmp_path / "saved" / "converted.json").write_text("{}")
    with pytest.raises(ValueError, match="is damaged: it does not say which network was converted"):
        models.load_converted(tmp_path / "saved", _small_plain())


def test_a_conversion_says_that_weights_are_not_carried_over() -> None:
    plain = _small_plain()
    assert "pretrained ones are not carried over" in str(st.convert(plain, "D4").report)
    plain(torch.randn(4, 3, 8, 8))
    with pytest.warns(UserWarning, match="not carried over.* Sequential has been trained, and its counterpart has not"):
        st.convert(plain, "D4")


def test_a_plain_network_with_the_same_dense_convolutions() -> None:
    steerable, plain = models.resnet(14, 2), models.plain_resnet(14, 40, inner=16, crelu=True)
    dense = snn.to_plain(steerable)
    shapes = [
        sorted(tuple(m.weight.shape) for m in net.modules() if isinstance(m, nn.Conv2d)) for net in (dense, plain)
    ]
    assert shapes[0] == shapes[1]


def test_equal_parameters() -> None:
    for wanted in (10_000, 250_000):
        width = models.plain_width(14, wanted)
        counts = [
            sum(p.numel() for p in models.plain_resnet(14, w).parameters()) for w in (width - 1, width, width + 1)
        ]
        assert abs(counts[1] - wanted) == min(abs(count - wanted) for count in counts)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("resnt", {}, "unknown model 'resnt'. Did you mean `resnet`"),
        ("resnet", {"copys": 1}, "resnet has no option `copys`. Did you mean `copies`"),
        ("resnet", {"depth": 9}, "has a depth of 6·blocks"),
        ("resnet", {"downsampling": "skip"}, "`downsampling` must be one of pool, stride; got 'skip'"),
        ("resnet", {"head": "tail"}, "`head` must be one of linear, mirror, invariant, max; got 'tail'"),
        (
            "resnet",
            {"head": "mirror", "group": "C4"},
            "head='mirror' is for groups with the mirror image m; C4 has none",
        ),
        ("resnet", {"num_classes": 0}, "`num_classes` and `in_channels` must be at least 1; got 0, 3"),
        ("resnet", {"in_channels": -1}, "`num_classes` and `in_channels` must be at least 1; got 10, -1"),
        ("resnet", {"stream": st.FieldType(st.dihedral(4), "E")}, "ResNet: stream is given as text, 'E' for instance"),
        ("resnet", {"group": st.dihedral(4)}, "ResNet: group is given as text, 'D4' for instance"),
        (
            "resnet",
            {"group": st.cyclic(2).direct_product(st.dihedral(4), acting="second")},
            "got the group C2 x D4, which is not one of them. Choose one of them, or build the network from the layers",
        ),
        (
            "resnet",
            {"group": st.cyclic(2).direct_product(st.cyclic(2), acting="second", name="D2")},
            "got the group D2, which is not one of them",
        ),
        (
            "resnet",
            {"copies": 100_000_000},
            "a residual network with a depth of 14 and 100,000,000 copies of each capsule fits no machine",
        ),
        ("resnet", {"depth": 62_000_000}, "the depth is at most 2,000 and the number of copies at most 5,000"),
        (
            "plain_resnet",
            {"width": 100_000_000},
            "a depth of 14 and a width of 100,000,000",
        ),
        ("plain_resnet", {"crelu": "no"}, "PlainResNet: `crelu` must be true or false, got 'no'"),
        ("plain_resnet", {"depth": 10}, "`depth` must be 6·blocks"),
        ("plain_resnet", {"width": 0}, "must be at least 1; got 0"),
        ("resnet", {"copies": "many"}, "ResNet: `copies` must be a whole number, got 'many'"),
        ("resnet", {"copies": 1.5}, "ResNet: `copies` must be a whole number, got 1.5"),
        ("resnet", {"stem": 3}, "`stem` is how many pixels .* one of 1, 2, 4, 8; got 3"),
        ("resnet", {"stem": "4"}, "ResNet: `stem` must be a whole number, got '4'"),
        ("plain_resnet", {"stem": 0}, "`stem` is how many pixels .* one of 1, 2, 4, 8; got 0"),
        ("plain_resnet", {"width": True}, "PlainResNet: `width` must be a whole number, got True"),
    ],
)
def test_bad_options_are_refused(name: str, options: dict[str, object], message: str) -> None:
    with pytest.raises((ValueError, TypeError), match=message):
        models.build_model(name, **options)


@pytest.mark.parametrize("training", [True, False])
def test_a_network_runs_on_the_meta_device(training: bool) -> None:
    with torch.device("meta"):
        net = models.resnet(8, 1).train(training)
        assert net(torch.empty(2, 3, 32, 32)).shape == (2, 10)
