"""Imports go downwards only, the mathematics does not import torch, and no files or packages import each other.

Every import counts, also one inside a function or under ``TYPE_CHECKING``. The order of the rooms is a list; the order
of the files inside a room is whatever their imports say, as long as these form no cycle.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pytest
from source_tree import Module, is_module, modules

import steerable
import steerable.data
import steerable.models
import steerable.training

# The rooms, base first; a room imports from those before it, and rooms of one line do not import each other both ways.
ROOMS: tuple[tuple[str, ...], ...] = (
    ("errors", "atomic", "extras", "lazy", "locks", "pages"),
    ("algebra",),
    ("filters",),
    ("types",),
    ("__init__",),  # steerable/__init__.py: the mathematics under one roof; it imports the rest late
    ("transforms",),
    ("nn",),
    ("checking",),
    ("testing",),
    ("conversion",),
    ("models",),
    ("figures",),
    ("data",),
    ("training",),
    ("reporting",),
    ("cli", "explorer"),
)
RANK = {room: rank for rank, line in enumerate(ROOMS) for room in line}
FIRST_WITH_TORCH = "transforms"

# From outside such a package only the package itself is imported, none of its files.
FRONT_DOORS = ("nn.backends",)

# A group offers its irreps and capsules, a representation its type: early classes with accessors for what is computed
# later. They import late, and only these do so against the order of the other imports.
ACCESSORS = {
    ("algebra.group_interface", "algebra.capsules"),
    ("algebra.group_interface", "algebra.groups"),
    ("algebra.group_interface", "algebra.irreps"),
    ("algebra.groups", "algebra.capsules"),
    ("algebra.groups", "algebra.homomorphisms"),
    ("algebra.groups", "algebra.induction"),
    ("algebra.groups", "algebra.irreps"),
    ("algebra.groups", "algebra.representations"),
    ("algebra.compact_groups", "algebra.compact_irreps"),
    ("algebra.compact_groups", "algebra.compact_representations"),
    ("algebra.compact_groups", "algebra.irreps"),
    ("algebra.representations", "algebra.characters"),
    ("algebra.representations", "algebra.families"),
    ("nn.module", "nn.seen_by_subgroup"),
    ("nn.norms", "nn.restricted_norm"),
}


def room(name: str) -> str:
    return name.split(".")[0]


def targets(module: Module) -> Iterable[tuple[str, bool]]:
    """(module of the package, late?) for every import of one; that of a package is called its ``__init__``."""
    for found in module.imports():
        if room(found.name) == "steerable":
            name = found.name.removeprefix("steerable").removeprefix(".")
            file = f"{name}.__init__".removeprefix(".")
            yield (file if not name or is_package(name) else name), found.late


def is_package(name: str) -> bool:
    return is_module(f"steerable.{name}.__init__")


def complaints(module: Module) -> list[str]:
    """What a module may not import, by the order of the rooms, the front doors, and the rule on torch."""
    here = room(module.name)
    if here not in RANK:
        return [f"{here} is not in ROOMS; add it at its place"]
    found = [
        f"{module.name} imports {imported.name}"
        for imported in module.imports()
        if room(imported.name) == "torch" and RANK[here] < RANK[FIRST_WITH_TORCH]
    ]
    for target, late in targets(module):
        there = room(target)
        if there not in RANK:
            found.append(f"{module.name} imports {there}, which is not in ROOMS")
        elif RANK[there] > RANK[here] and not (late and module.name == "__init__"):
            found.append(f"{module.name} imports {target} upwards")
        for door in FRONT_DOORS:
            inside = target.startswith(f"{door}.") and target != f"{door}.__init__"
            if inside and not module.name.startswith(f"{door}."):
                found.append(f"{module.name} imports {target} past its front door `{door}`")
    return found


def levels(files: Iterable[Module], accessors: set[tuple[str, str]]) -> dict[str, dict[str, set[str]]]:
    """For each package the graph of what lies in it, files and packages alike: which of them import which."""
    graphs: dict[str, dict[str, set[str]]] = {}
    for module in files:
        for target, late in targets(module):
            if late and ((module.name, target) in accessors or module.name == "__init__"):
                continue
            here, there = module.name.split("."), target.split(".")
            shared = next((n for n, (a, b) in enumerate(zip(here, there, strict=False)) if a != b), None)
            if shared is not None:
                graph = graphs.setdefault(".".join(here[:shared]), {})
                graph.setdefault(here[shared], set()).add(there[shared])
    return graphs


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """What a name imports, and what that imports, and so on."""
    found: set[str] = set()
    new = {start}
    while new := set().union(*(graph.get(name, set()) for name in new)) - found:
        found |= new
    return found


def cycles(files: Iterable[Module], accessors: set[tuple[str, str]] = ACCESSORS) -> set[tuple[str, ...]]:
    """The largest sets of files and packages in which each imports each other, on some way round."""
    found = set()
    for package, graph in levels(files, accessors).items():
        reach = {name: reachable(name, graph) for name in graph}
        for name in graph:
            if name in reach[name]:
                others = sorted(other for other in reach[name] if name in reach.get(other, ()))
                found.add(tuple(f"{package}.{other}".removeprefix(".") for other in others))
    return found


@pytest.mark.parametrize("module", modules(), ids=lambda module: module.name)
def test_imports_go_downwards(module: Module) -> None:
    assert complaints(module) == []


def test_no_files_or_packages_import_each_other() -> None:
    assert cycles(modules()) == set()


def test_convolutions_ask_their_filter_space_and_do_not_know_pixel_patches() -> None:
    """Pixel patches are one filter space among others; drawings are of them."""
    known = {module.name for module in modules() if "filters.pixel_patches" in {name for name, _ in targets(module)}}
    assert {name for name in known if room(name) not in ("filters", "figures")} == set()


@pytest.mark.parametrize("accessor", sorted(ACCESSORS))
def test_every_accessor_in_the_list_is_needed(accessor: tuple[str, str]) -> None:
    assert cycles(modules(), ACCESSORS - {accessor}) != set()


def test_every_room_in_the_list_is_there() -> None:
    assert {room(module.name) for module in modules()} == RANK.keys()


@pytest.mark.parametrize(
    ("name", "source", "complaint"),
    [
        (
            "algebra.groups",
            "from steerable.types.field_types import FieldType",
            "algebra.groups imports types.field_types upwards",
        ),
        ("algebra.groups", "import steerable.types.field_types", "algebra.groups imports types.field_types upwards"),
        ("algebra.groups", "from steerable import cyclic", "algebra.groups imports __init__ upwards"),
        (
            "algebra.groups",
            "def f():\n    from steerable.types.field_types import FieldType",
            "algebra.groups imports types.field_types upwards",
        ),
        (
            "algebra.groups",
            "if TYPE_CHECKING:\n    from steerable.types import field_types",
            "algebra.groups imports types.field_types upwards",
        ),
        ("algebra.groups", "class A:\n    from ..nn import Conv2d", "algebra.groups imports nn.__init__ upwards"),
        ("algebra.groups", "if True:\n    import torch.nn", "algebra.groups imports torch.nn"),
        ("types.network_plans", "def f():\n    from torch import nn", "types.network_plans imports torch"),
        ("__init__", "import torch", "__init__ imports torch"),
        ("__init__", "from steerable import nn", "__init__ imports nn.__init__ upwards"),
        ("nn.conv", "from ..models import resnets", "nn.conv imports models.resnets upwards"),
        ("models.resnet", "from steerable.training import fit", "models.resnet imports training.__init__ upwards"),
        (
            "nn.conv",
            "def f():\n    import steerable.nn.backends.dense",
            "nn.conv imports nn.backends.dense past its front door `nn.backends`",
        ),
        (
            "training.runs",
            "from steerable.nn.backends import known",
            "training.runs imports nn.backends.known past its front door `nn.backends`",
        ),
        ("surprise", "", "surprise is not in ROOMS; add it at its place"),
        ("nn.conv", "from steerable.surprise import x", "nn.conv imports surprise, which is not in ROOMS"),
    ],
)
def test_this_test_can_fail(name: str, source: str, complaint: str) -> None:
    assert complaints(Module(name, source)) == [complaint]


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("types.field_types", "from steerable.algebra.groups import FiniteGroup"),
        ("algebra.groups", "def f():\n    from steerable.algebra.irreps import Irrep"),
        ("__init__", "def __getattr__(name):\n    from steerable import nn"),
        ("__init__", "if TYPE_CHECKING:\n    from steerable import nn"),
        ("nn.conv", "import torch\nimport steerable as st\nfrom steerable.nn.module import Layer\nfrom . import init"),
        ("nn.conv", "from steerable.nn.backends import choose_backends\nimport steerable.nn.backends"),
        ("nn.backends.choice", "from steerable.nn.backends.dense import Dense"),
    ],
)
def test_and_can_pass(name: str, source: str) -> None:
    assert complaints(Module(name, source)) == []


@pytest.mark.parametrize(
    ("sources", "found"),
    [
        ({"nn.conv": "import steerable.nn.init", "nn.init": "import steerable.nn.module"}, set()),
        (
            {
                "nn.conv": "import steerable.nn.init",
                "nn.init": "def f():\n    import steerable.nn.module",
                "nn.module": "if TYPE_CHECKING:\n    from .conv import Conv2d",
                "nn.linear": "import steerable.nn.conv",
            },
            {("nn.conv", "nn.init", "nn.module")},
        ),
        (
            {"nn.conv": "from steerable.nn import init", "nn.init": "from steerable.nn import Conv2d",
             "nn.__init__": "from steerable.nn.conv import Conv2d"},
            {("nn.__init__", "nn.conv", "nn.init")},
        ),
        (  # between a package and a file beside it, though no two files import each other
            {"nn.conv": "import steerable.nn.fourier.plan", "nn.fourier.scales": "import steerable.nn.conv"},
            {("nn.conv", "nn.fourier")},
        ),
        (
            {"cli.tables": "import steerable.explorer.app", "explorer.app": "import steerable.cli.extras"},
            {("cli", "explorer")},
        ),
        ({"algebra.groups": "import steerable.algebra.irreps", "algebra.irreps": "from .groups import FiniteGroup"},
         {("algebra.groups", "algebra.irreps")}),
        ({"algebra.groups": "def f():\n    import steerable.algebra.irreps",
          "algebra.irreps": "from .groups import FiniteGroup"}, set()),
    ],
)  # fmt: skip
def test_cycles_are_found(sources: dict[str, str], found: set[tuple[str, ...]]) -> None:
    assert cycles(Module(name, source) for name, source in sources.items()) == found


def test_importing_the_package_is_light() -> None:
    """``import steerable`` and building a field type need neither torch nor matplotlib nor scipy."""
    code = (
        "import sys, steerable as st; st.parameter_cost(*2 * [st.FieldType(st.dihedral(4), 'regular + E')]); "
        "print(sorted({'torch', 'matplotlib', 'scipy'} & set(sys.modules)))"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout.strip() == "[]"


@pytest.mark.parametrize("package", [steerable.data, steerable.models, steerable.training], ids=lambda p: p.__name__)
def test_no_file_has_the_name_of_something_that_its_package_offers(package: ModuleType) -> None:
    """To import the file would put it in the place of what is imported late."""
    files = {path.stem for path in Path(package.__file__).parent.glob("*.py")}
    assert not files & set(package.__all__)
    assert not [name for name in package.__all__ if isinstance(getattr(package, name), ModuleType)]


def test_everything_exported_is_there() -> None:
    assert sorted(steerable.__all__) == list(dict.fromkeys(sorted(steerable.__all__)))
    assert [name for name in steerable.__all__ if not hasattr(steerable, name)] == []
