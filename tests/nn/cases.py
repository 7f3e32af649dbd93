"""The layers that the conformance suite runs over.

To add a layer to the library: export it from ``steerable.nn`` and add one entry to ``CASES`` below, a name, a function
from a group to the layer, and the input sizes on which it is exactly equivariant. ``test_conformance.py`` then holds it
to every law, over all groups of ``GROUPS``, ``OFF_GRID`` and ``INFINITE``; ``test_export.py`` exports it. A law that
cannot hold for a layer is switched off by a field of ``Case``, which says why. Without an entry
``test_every_public_layer_has_a_case`` fails.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
import torch
from filter_zoo import cross, stencils
from filter_zoo import slanted as slanted_stencils
from torch import Tensor, nn

import steerable as st
from steerable import FieldType, FiniteGroup
from steerable import nn as snn
from steerable.algebra.group_interface import Element, Group
from steerable.conversion.fitted_pools import FittedAvgPool2d, FittedAvgPool3d, FittedMaxPool2d, FittedMaxPool3d
from steerable.nn import EquivariantModule
from steerable.nn.sampling import axes_exchanged
from steerable.transforms import elements_on_the_grid

Size = tuple[int, ...]
VECTOR: Size = ()

GROUPS: dict[str, FiniteGroup] = {
    "D4": st.dihedral(4),
    "D1": st.dihedral(1),
    "C1": st.trivial(),
    "C2": st.cyclic(2),
    "C4": st.cyclic(4),
    # Contrast inversion beside the mirror: two elements each move the pixels alike.
    "C2xD1": st.cyclic(2).direct_product(st.dihedral(1), acting="second"),
}

# Groups that turn images by angles that the pixel grid does not carry: exact for the part that it carries.
OFF_GRID: dict[str, FiniteGroup] = {name: st.group_named(name) for name in ("C3", "C8", "D6", "D8")}

# Groups with infinitely many elements: exact for the symmetries of the square.
INFINITE: dict[str, Group] = {"SO2": st.so2(), "O2": st.o2()}

# Groups of space that the grid of voxels carries: all rotations of the cube, its mirrors, the tetrahedron's rotations,
# and a group of the plane about an axis.
VOLUMES: dict[str, FiniteGroup] = {
    "O": st.octahedral(),
    "Oh": st.octahedral(reflections=True),
    "T": st.tetrahedral(),
    "D4z": st.about_axis(st.dihedral(4), "z"),
}

# Groups that turn volumes by angles that the grid of voxels does not carry: exact for the part that it carries.
VOLUMES_OFF_GRID: dict[str, Group] = {
    "SO3": st.so3(),
    "O3": st.o3(),
    "I": st.icosahedral(),
    "SO2 about z": st.about_axis(st.so2(), "z"),
}
_SMALLEST = {2: GROUPS["D1"], 3: st.about_axis(st.dihedral(1), "z")}

# Irreps, quotients and regular capsules, in no particular order.
_MIXED = {
    "O": "T1 + A2 + q6a + 2*A1",
    "O_h": "T1u + A2g + q8a + 2*A1g",
    "T": "T + 2*q4a + A",
    "D4 about z": "2*E + A2 + 2*qmr2 + A1",
    "D1 about z": "2*B + 2*regular + A",
    "SO3": "3*L0",
    "O3": "2*L0o + r + L0e",
    "I": "3*A",
    "SO2 about z": "3*A",
    "D4": "2*E + regular + A2 + 2*qmr2 + A1",
    "D1": "2*A2 + 2*regular + A1",
    "C1": "3*A",
    "C2": "2*B + 2*regular + A",
    "C4": "E + regular + B + 2*r2 + A",
    "C2 x D1": "2*A2 + regular + B1 + 2*q2a + A1",
    "C3": "2*regular + A",
    "C8": "2*B + regular + 2*r4 + A",
    "D6": "2*A2 + regular + B1 + 2*r2m + A1",
    "D8": "2*B2 + regular + A2 + 2*r4mr + A1",
    # All signed permutations there are: no rotation changes them.
    "SO2": "3*A",
    "O2": "2*A2 + r + A1",
}
_PERMUTATIONS = {
    "O": "A1 + 2*q6a",
    "O_h": "A1g + 2*q8a",
    "T": "A + 2*q4a",
    "D4 about z": "A1 + 2*qm + r2m",
    "D1 about z": "A + 2*regular",
    "D4": "A1 + 2*regular + qm + r2m",
    "D1": "A1 + 2*regular",
    "C1": "3*A",
    "C2": "A + 2*regular",
    "C4": "A + 2*regular + r2",
    "C2 x D1": "A1 + 2*regular + q2b",
    "C3": "A + 2*regular",
    "C8": "A + 2*regular + r2",
    "D6": "A1 + 2*r2 + regular",
    "D8": "A1 + 2*r4m + regular",
    "SO2": "3*A",
    "O2": "A1 + 2*r",
}
# Irreps that turn their channels by other angles than 90°.
_TURNING = {
    "C3": "E",
    "C8": "E1 + E2 + E3",
    "D6": "E1 + E2",
    "D8": "E1 + 2*E2",
    "SO2": "2*E1 + regular(2) + E3",
    "O2": "E1 + qm(2) + 2*E2",
    "SO3": "L1 + L2",
    "O3": "L1o + L2e",
    "I": "T1 + H",
    "SO2 about z": "E1 + E2",
}


def mixed(group: Group) -> FieldType:
    """Signed permutations of every kind."""
    return FieldType(group, _MIXED[group.name])


def typical(group: Group) -> FieldType:
    """What networks are made of: signed permutations, and for infinite groups capsules that turn their channels."""
    turning = [f"2*A1 + {_TURNING[group.name]}"] if group.name in INFINITE else []
    return FieldType(group, " + ".join([_MIXED[group.name], *turning]))


def solid(group: Group) -> FieldType:
    """What networks of volumes are made of: signed permutations, and capsules that turn their channels."""
    return FieldType(group, " + ".join([_MIXED[group.name], *filter(None, [_TURNING.get(group.name)])]))


def permutations(group: Group) -> FieldType:
    return FieldType(group, _PERMUTATIONS[group.name])


def regular(group: Group) -> st.Capsule:
    """Functions on the group; of an infinite one those up to frequency 1."""
    return group.capsule("regular" if isinstance(group, FiniteGroup) else "regular(1)")


def last_irrep(group: Group) -> st.Representation:
    if isinstance(group, FiniteGroup):
        return group.irreps[-1]
    return group.irrep({"SO3": "L1", "O3": "L1o"}.get(group.name, "E2"))


def orthogonal(group: Group) -> FieldType:
    """Beside others, two capsules that mix their channels: the regular one in a basis that is turned."""
    if group.is_trivial:
        return mixed(group)  # there is nothing to mix
    functions = regular(group).representation
    turn = np.linalg.qr(np.random.default_rng(0).normal(size=(functions.dim, functions.dim)))[0]
    tilted = st.Capsule(functions.change_basis(turn), "tilted")
    text = " + ".join([f"2*tilted + {_MIXED[group.name]}", *filter(None, [_TURNING.get(group.name)])])
    return FieldType(group, text, capsules=[tilted])


def several_invariants(group: Group) -> FieldType:
    """Capsules with two and three invariant directions: orbits side by side, and mixed by a turn of the basis."""
    functions = regular(group).representation
    orbits = st.Capsule(functions + group.trivial, "orbits")
    three = 2 * group.trivial + functions
    turn = np.linalg.qr(np.random.default_rng(1).normal(size=(three.dim, three.dim)))[0]
    turned = st.Capsule(three.change_basis(turn), "turned")
    text = f"2*orbits + {_MIXED[group.name]} + 2*turned"
    return FieldType(group, text, capsules=[orbits, turned])


def slanted_capsule(group: Group) -> st.Capsule:
    """Three irreps in a basis that is not orthogonal; its two invariant directions are not those of its dual."""
    rho = group.trivial + last_irrep(group) + group.trivial
    shear = np.triu(np.random.default_rng(1).normal(size=(rho.dim, rho.dim)), 1)
    return st.Capsule(rho.change_basis(np.eye(rho.dim) + 0.5 * shear), "slanted")


def stretched_capsule(group: Group) -> st.Capsule:
    """The regular one with axes of different lengths: monomial, with entries other than ±1; `r` for O(2)."""
    rho = group.capsule("r").representation if group.name == "O2" else regular(group).representation
    return st.Capsule(rho.change_basis(np.diag(np.linspace(1, 2, rho.dim))), "stretched")


def slanted(group: Group) -> FieldType:
    """Capsules that are neither orthogonal nor monomial, beside others."""
    return FieldType(group, [(2, slanted_capsule(group)), (1, group.trivial), (1, stretched_capsule(group))])


def stretched(group: Group) -> FieldType:
    """Monomial capsules, some of which are not orthogonal."""
    if group.is_trivial or group.name == "SO2":
        return mixed(group)  # the matrices of A, which has one axis, stay as they are
    return FieldType(group, f"2*stretched + {_MIXED[group.name]}", capsules=[stretched_capsule(group)])


def coefficients(group: Group) -> FieldType:
    """Functions on the group by their coefficients in orthogonal and other bases, and those that two irreps span."""
    if group.is_trivial:
        return mixed(group)
    functions = regular(group).representation
    spectral = st.Capsule(functions.change_basis(st.decompose(functions)[1]), "spectral")
    shear = np.eye(functions.dim) + 0.2 * np.triu(np.random.default_rng(2).normal(size=(functions.dim,) * 2), 1)
    sheared = st.Capsule(functions.change_basis(shear), "sheared")
    low = st.Capsule(group.trivial + last_irrep(group), "low")
    return FieldType(group, "2*spectral + A1 + sheared + 2*low", capsules=[spectral, sheared, low])


def turned(group: Group) -> FieldType:
    """Beside others, two small capsules that mix their channels."""
    rho = group.trivial + last_irrep(group)
    turn = np.linalg.qr(np.random.default_rng(3).normal(size=(rho.dim, rho.dim)))[0]
    small = st.Capsule(rho.change_basis(turn), "small")
    text = " + ".join(["2*small + A1", *filter(None, [_TURNING.get(group.name)])])
    return FieldType(group, text, capsules=[small])


def fibres(group: Group) -> FieldType:
    """Few channels, for inputs."""
    return FieldType(group, [(2, group.trivial), (1, regular(group))])


@dataclass(frozen=True)
class Case:
    """One way to use a layer.

    Attributes:
        name: what tests are called.
        build: a function from a group to the layer.
        sizes: (height, width) of inputs on which it is exact, or (depth, height, width); ``VECTOR`` for pooled fields;
            odd, even, and not square.
        out: height or width of the output, from that of the input; None where the output is pooled.
        bfloat16_in_autocast: whether autocast makes it run in bfloat16, as it does for matrix products; other layers
            keep the dtype of their input.
        keeps_channels_last: whether torch's own layer of that kind keeps the memory format.
        random: draws random numbers in training, so that f(gx) and gf(x) are different draws.
        has_bank: expands filters from parameters.
        has_onnx: False where torch.onnx has no operation for torch's own layer either.
        needs_grid: its filters or their initialisation exist only where the pixel grid carries the whole group.
        needs_elements: it works with channels of which each belongs to an element or a coset, as finite groups have.
        axes: 3 for a layer on volumes.
    """

    name: str
    build: Callable[[Group], EquivariantModule]
    sizes: tuple[Size, ...] = ((5, 5), (6, 4), (4, 7))
    out: Callable[[int], int] | None = lambda n: n
    bfloat16_in_autocast: bool = False
    keeps_channels_last: bool = False
    random: bool = False
    has_bank: bool = False
    has_onnx: bool = True
    needs_grid: bool = False
    needs_elements: bool = False
    axes: int = 2

    @property
    def home(self) -> FiniteGroup:
        """The group over which laws are tried that no group changes."""
        return GROUPS["D4"] if self.axes == 2 else VOLUMES["D4z"]

    @property
    def smallest(self) -> FiniteGroup:
        """One mirror: a group with few kinds of capsules, for laws that take long."""
        return _SMALLEST[self.axes]


def conv(
    name: str,
    kernel: int,
    sizes: tuple[Size, ...] = ((5, 5), (6, 4), (4, 7)),
    source: Callable[[Group], FieldType] = typical,
    target: Callable[[Group], FieldType] = typical,
    filters: Callable[[Group], st.FilterSpace] | None = None,
    **options: object,
) -> Case:
    stride, dilation = options.get("stride", 1), options.get("dilation", 1)
    extent = dilation * (kernel - 1) + 1
    padding = {"same": (extent - 1) // 2, "valid": 0}.get(options.get("padding", 0), options.get("padding", 0))
    return Case(
        f"Conv2d-{name}",
        lambda G: snn.Conv2d(source(G), target(G), kernel, filters=filters and filters(G), **options),
        sizes,
        out=lambda n: (n + 2 * padding - extent) // stride + 1,
        bfloat16_in_autocast=True,
        keeps_channels_last=options.get("padding_mode") != "circular",  # torch's own does not
        has_bank=True,
        needs_grid=filters in (cross, stencils, slanted_stencils) or options.get("init") == "orthogonal",
    )


def on(
    layer: Callable[..., EquivariantModule],
    kind: Callable[[Group], FieldType],
    *args: object,
    label: str = "",
    sizes: tuple[Size, ...] = ((5, 5), (4, 7), VECTOR),
    **options: object,
) -> Case:
    """A layer made from one type that treats each pixel alike, and takes pooled fields where sizes have ``VECTOR``."""
    flags = {k: options.pop(k) for k in tuple(options) if k in Case.__dataclass_fields__}
    name = layer.__name__ + (f"-{label}" if label else "")
    return Case(name, lambda G: layer(kind(G), *args, **options), sizes, **flags)


def window(kernel: int, stride: int, padding: int = 0) -> Callable[[int], int]:
    return lambda n: (n + 2 * padding - kernel) // stride + 1


def scaled_pair(G: Group) -> EquivariantModule:
    """An oblong kernel, for the groups that do not exchange height and width."""
    square = bool(axes_exchanged(G))
    return snn.Conv2d(typical(G), fibres(G), 3 if square else (3, 1), padding=1 if square else (1, 0))


def several_copies(G: Group, backend: str) -> EquivariantModule:
    """Convolutions between the same kinds, alive at once, that differ in nothing but the number of copies."""
    types = [FieldType(G, [(copies, regular(G))]) for copies in (1, 2, 3, 2, 1)]
    return snn.Sequential(
        *(snn.Conv2d(a, b, 3, padding=1, backend=backend) for a, b in itertools.pairwise(types))  # type: ignore[arg-type]
    )


def small_net(G: Group) -> EquivariantModule:
    """A residual network with a bit of everything; invariant at the end."""
    stream, inner = permutations(G), mixed(G)
    act = snn.CReLU(inner)
    block = snn.Sequential(
        snn.Conv2d(stream, inner, 3, padding=1),
        snn.BatchNorm2d(inner),
        act,
        snn.Conv2d(act.out_type, stream, 3, padding=1),
    )
    return snn.Sequential(
        snn.Conv2d(FieldType(G, "3*A1"), stream, 3, padding=1),
        snn.ReLU(stream),
        snn.Residual(block, snn.Conv2d(stream, stream, 1)),
        snn.AvgPool2d(stream, 2),
        snn.NormReLU(stream),
        snn.MaxPool2d(stream, 3, 1, 1),
        snn.GroupPool(stream),
        snn.GlobalAvgPool(FieldType(G, [(len(stream), G.trivial)])),
        snn.Linear(FieldType(G, [(len(stream), G.trivial)]), FieldType(G, "5*A1")),
    )


_EVEN: tuple[Size, ...] = ((6, 6), (4, 8))
_ODD: tuple[Size, ...] = ((5, 5), (7, 5))
_POINTWISE = (snn.ReLU, snn.LeakyReLU, snn.ELU, snn.GELU, snn.SiLU, snn.Sigmoid, snn.Softplus)
_ODD_FUNCTIONS = (snn.Tanh, snn.Softsign, snn.Hardtanh)

_LIST = [
    # Convolutions and linear maps.
    *(conv(f"{mode}", 3, padding=1, padding_mode=mode) for mode in ("zeros", "reflect", "replicate", "circular")),
    *(conv(f"5-{mode}", 5, padding=2, padding_mode=mode) for mode in ("zeros", "reflect", "replicate", "circular")),
    conv("valid", 3, padding="valid"),
    conv("1x1", 1),
    conv("even", 2),
    conv("even-padded", 4, padding=2, padding_mode="circular"),
    conv("stride-odd-sizes", 3, _ODD, stride=2, padding=1),
    conv("stride-even-sizes", 4, _EVEN, stride=2, padding=1, padding_mode="reflect"),
    conv("stride-3", 3, ((6, 6), (9, 3)), stride=3),
    conv("dilated", 3, padding="same", dilation=2, padding_mode="replicate"),
    conv("groups", 3, padding=1, groups=2, source=lambda G: 2 * typical(G), target=lambda G: 2 * fibres(G)),
    conv(
        "groups-one-kind",
        2,
        groups=2,
        source=lambda G: FieldType(G, [(4, regular(G))]),
        target=lambda G: 2 * typical(G),
    ),
    conv("no-bias", 3, padding=1, bias=False),
    conv("fourier", 3, padding=1, padding_mode="replicate", backend="fourier"),
    conv("orthogonal-capsules", 3, padding=1, source=orthogonal, target=orthogonal),
    conv("orthogonal-init", 3, padding=1, init="orthogonal"),
    conv("several-invariants", 3, padding=1, source=several_invariants, target=several_invariants),
    # Filters from spaces of their own.
    conv("cross", 3, padding=1, filters=cross),
    conv("cross-fourier", 3, padding=1, filters=cross, backend="fourier"),
    conv(
        "cross-stride-groups",
        3,
        _ODD,
        padding=1,
        stride=2,
        groups=2,
        filters=cross,
        source=lambda G: 2 * typical(G),
        target=lambda G: 2 * fibres(G),
    ),
    conv("stencils", 3, padding="same", dilation=2, filters=stencils, init="orthogonal"),
    conv("steerable", 5, ((5, 5), (6, 4)), padding=2, filters=lambda G: st.filter_space(G, 5), source=orthogonal),
    conv("rings", 4, ((5, 5), (6, 5)), filters=lambda G: st.ring_space(G, 4), target=orthogonal),
    conv("slanted-stencils", 3, padding=1, filters=slanted_stencils, source=slanted, target=orthogonal),
    Case(
        "ConvTranspose2d-slanted-stencils",
        lambda G: snn.ConvTranspose2d(mixed(G), orthogonal(G), 3, 2, 1, filters=slanted_stencils(G)),
        out=lambda n: 2 * n - 1,
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
        has_bank=True,
        needs_grid=True,
    ),
    Case("Conv2d-oblong", scaled_pair, bfloat16_in_autocast=True, keeps_channels_last=True, has_bank=True),
    *(
        Case(
            f"ConvTranspose2d-{k}-{s}-{p}-{d}",
            lambda G, k=k, s=s, p=p, d=d: snn.ConvTranspose2d(typical(G), fibres(G), k, s, p, dilation=d),
            out=lambda n, k=k, s=s, p=p, d=d: (n - 1) * s - 2 * p + d * (k - 1) + 1,
            bfloat16_in_autocast=True,
            keeps_channels_last=True,
            has_bank=True,
        )
        for k, s, p, d in ((4, 2, 1, 1), (2, 2, 0, 1), (3, 1, 1, 1), (3, 2, 0, 2))
    ),
    Case("Linear", lambda G: snn.Linear(typical(G), orthogonal(G)), (VECTOR,), None, True, has_bank=True),
    Case(
        "Linear-several-invariants",
        lambda G: snn.Linear(several_invariants(G), several_invariants(G)),
        (VECTOR,),
        None,
        True,
        has_bank=True,
    ),
    conv("slanted", 3, padding=1, source=slanted, target=slanted),
    conv("slanted-fourier", 3, padding=1, source=slanted, target=slanted, backend="fourier"),
    Case(
        "ConvTranspose2d-slanted",
        lambda G: snn.ConvTranspose2d(slanted(G), stretched(G), 4, 2, 1),
        out=lambda n: 2 * n,
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
        has_bank=True,
    ),
    Case("Linear-slanted", lambda G: snn.Linear(slanted(G), slanted(G)), (VECTOR,), None, True, has_bank=True),
    *(
        Case(
            f"Sequential-copies-{backend}",
            lambda G, backend=backend: several_copies(G, backend),
            bfloat16_in_autocast=True,
            keeps_channels_last=True,
            has_bank=True,
        )
        for backend in ("dense", "fourier")
    ),
    # Nonlinearities.
    *(on(layer, permutations, keeps_channels_last=True) for layer in _POINTWISE),
    *(on(layer, mixed, keeps_channels_last=True) for layer in _ODD_FUNCTIONS),
    on(snn.Pointwise, permutations, torch.square, keeps_channels_last=True),
    on(snn.Odd, mixed, torch.sin, keeps_channels_last=True),
    on(snn.CReLU, mixed, keeps_channels_last=True),
    on(snn.Concatenated, mixed, torch.exp, keeps_channels_last=True),
    on(snn.NormReLU, orthogonal, keeps_channels_last=True),
    on(snn.NormActivation, orthogonal, torch.tanh, keeps_channels_last=True),
    on(snn.Gated, orthogonal, keeps_channels_last=True),
    on(snn.NormReLU, several_invariants, label="several-invariants", keeps_channels_last=True),
    on(snn.Gated, several_invariants, label="several-invariants", keeps_channels_last=True),
    on(snn.Activation, orthogonal, keeps_channels_last=True),
    on(snn.Activation, permutations, label="permutations", keeps_channels_last=True),
    on(snn.CReLU, stretched, label="stretched", keeps_channels_last=True),
    on(snn.Activation, stretched, label="stretched", keeps_channels_last=True),
    on(snn.Gated, slanted, label="slanted", keeps_channels_last=True),
    # Of a polynomial there is no aliasing; other functions are exact for the group on which they are sampled.
    on(
        snn.Fourier,
        coefficients,
        torch.square,
        tolerance=1e-12,
        label="square",
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
    ),
    on(
        snn.Fourier,
        coefficients,
        torch.relu,
        sizes=((5, 5), (4, 7)),
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
    ),
    on(snn.Fourier, permutations, torch.relu, label="permutations", keeps_channels_last=True),
    Case(
        "Fourier-cut-off",
        lambda G: snn.Fourier(FieldType(G, "2*A1"), torch.tanh, out_type=2 * coefficients(G)[:1]),
        ((5, 5), (4, 7), VECTOR),
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
    ),
    on(snn.TensorProduct, mixed, bfloat16_in_autocast=True, keeps_channels_last=True),
    on(snn.TensorProduct, turned, label="turned", bfloat16_in_autocast=True, keeps_channels_last=True),
    on(snn.TensorProduct, slanted, label="slanted", bfloat16_in_autocast=True, keeps_channels_last=True),
    Case(
        "TensorProduct-other-type",
        lambda G: snn.TensorProduct(fibres(G), 3 * permutations(G)),
        ((5, 5), (4, 7), VECTOR),
        bfloat16_in_autocast=True,
        keeps_channels_last=True,
    ),
    # Norms.
    on(snn.BatchNorm2d, orthogonal, keeps_channels_last=True),
    on(snn.BatchNorm2d, typical, label="cumulative", momentum=None, keeps_channels_last=True),
    on(snn.BatchNorm2d, typical, label="no-affine", affine=False, keeps_channels_last=True),
    on(snn.BatchNorm2d, typical, label="untracked", track_running_stats=False, keeps_channels_last=True),
    on(snn.InstanceNorm2d, orthogonal, sizes=((5, 5), (4, 7)), keeps_channels_last=True),
    on(
        snn.InstanceNorm2d,
        typical,
        label="tracked",
        affine=True,
        track_running_stats=True,
        sizes=((5, 5), (4, 7)),
        keeps_channels_last=True,
    ),
    on(snn.LayerNorm, orthogonal, keeps_channels_last=True),
    on(snn.LayerNorm, typical, label="no-affine", affine=False, keeps_channels_last=True),
    on(snn.BatchNorm2d, typical, label="large-eps", eps=0.5, keeps_channels_last=True),
    on(snn.BatchNorm2d, several_invariants, label="several-invariants", keeps_channels_last=True),
    on(snn.InstanceNorm2d, several_invariants, label="several-invariants", affine=True, sizes=((5, 5), (4, 7))),
    on(snn.LayerNorm, several_invariants, label="several-invariants", keeps_channels_last=True),
    Case("GroupNorm-several-invariants", lambda G: snn.GroupNorm(1, several_invariants(G)), keeps_channels_last=True),
    Case("GroupNorm", lambda G: snn.GroupNorm(1, orthogonal(G)), keeps_channels_last=True),
    Case("GroupNorm-2", lambda G: snn.GroupNorm(2, 2 * typical(G)), keeps_channels_last=True),
    # Pooling over pixels, resampling.
    on(snn.AvgPool2d, typical, 2, label="even-sizes", sizes=_EVEN, out=window(2, 2)),
    on(snn.AvgPool2d, typical, 3, 2, 1, label="odd-sizes", sizes=_ODD, out=window(3, 2, 1)),
    on(snn.MaxPool2d, permutations, 2, label="even-sizes", sizes=_EVEN, out=window(2, 2)),
    on(snn.MaxPool2d, permutations, 3, 2, 1, label="odd-sizes", sizes=_ODD, out=window(3, 2, 1)),
    on(snn.NormMaxPool2d, orthogonal, 2, label="even-sizes", sizes=_EVEN, out=window(2, 2)),
    on(snn.NormMaxPool2d, typical, 3, 2, 1, label="odd-sizes", sizes=_ODD, out=window(3, 2, 1)),
    on(snn.BlurPool2d, typical, label="even-sizes", sizes=_EVEN, out=window(4, 2, 1), bfloat16_in_autocast=True),
    on(
        snn.BlurPool2d,
        typical,
        3,
        label="odd-sizes",
        sizes=_ODD,
        out=window(3, 2, 1),
        strict=True,
        bfloat16_in_autocast=True,
    ),
    # Those of converted networks, whose windows fit every size.
    on(FittedAvgPool2d, typical, 3, 2, 1, sizes=((5, 5), (4, 7)), out=window(3, 2, 1)),
    on(FittedMaxPool2d, permutations, 2, 2, sizes=((5, 5), (4, 7)), out=window(2, 2)),
    on(
        FittedMaxPool2d,
        permutations,
        3,
        2,
        label="rounded-up",
        ceil_mode=True,
        sizes=((5, 5), (4, 7)),
        out=lambda n: -(-(n - 3) // 2) + 1,
    ),
    on(snn.AdaptiveAvgPool2d, typical, 3, sizes=((5, 5), (4, 7)), out=lambda n: 3),
    on(snn.AdaptiveMaxPool2d, permutations, 2, sizes=((5, 5), (4, 7)), out=lambda n: 2, has_onnx=False),
    on(snn.GlobalAvgPool, typical, sizes=((5, 5), (4, 7)), out=None),
    on(snn.GlobalMaxPool, permutations, sizes=((5, 5), (4, 7)), out=None),
    on(snn.Upsample, typical, 3, sizes=((3, 3), (2, 5)), out=lambda n: 3 * n),
    on(snn.Upsample, typical, 2, "bilinear", label="bilinear", sizes=((3, 3), (2, 5)), out=lambda n: 2 * n),
    on(snn.Upsample, typical, 2, "bilinear", True, label="corners", sizes=((3, 3), (2, 5)), out=lambda n: 2 * n),
    # Pooling over capsules.
    on(snn.GroupPool, mixed),
    on(snn.GroupPool, permutations, "mean", label="mean"),
    on(snn.GroupPool, slanted, "mean", label="mean-slanted"),
    on(snn.GroupPool, orthogonal, "norm", label="norm"),
    on(snn.GroupPool, several_invariants, "norm", label="norm-several-invariants"),
    *(
        Case(
            f"CosetPool-{mode}",
            lambda G, mode=mode: snn.CosetPool(_cosets(G), _subgroup(G), mode),
            needs_elements=True,
        )
        for mode in ("max", "mean")
    ),
    *(
        Case(
            f"SubgroupPool-{mode}",
            lambda G, kind=kind, mode=mode: snn.SubgroupPool(kind(G), _half(G), mode),
            needs_elements=True,
        )
        for mode, kind in (("max", permutations), ("mean", orthogonal))
    ),
    # Plumbing.
    on(snn.Identity, typical, keeps_channels_last=True),
    on(snn.Dropout, typical, 0.4, random=True, keeps_channels_last=True),
    on(snn.Dropout2d, typical, 0.4, random=True, keeps_channels_last=True),
    Case("Restrict", lambda G: snn.Restrict(typical(G), _half(G)), ((5, 5), (4, 7), VECTOR)),
    Case("Restrict-orthogonal", lambda G: snn.Restrict(orthogonal(G), _half(G)), ((5, 5), (4, 7), VECTOR)),
    Case("Restrict-slanted", lambda G: snn.Restrict(slanted(G), _half(G)), ((5, 5), (4, 7), VECTOR)),
    on(snn.ToIrreps, orthogonal, bfloat16_in_autocast=True),
    on(snn.ToIrreps, slanted, label="slanted", bfloat16_in_autocast=True),
    on(snn.FromIrreps, orthogonal, bfloat16_in_autocast=True),
    on(snn.ToIrreps, several_invariants, label="several-invariants", bfloat16_in_autocast=True),
    on(snn.FromIrreps, slanted, label="slanted", bfloat16_in_autocast=True),
    on(snn.Select, typical, slice(1, None, 2), label="slice"),
    on(snn.Select, typical, [-1, 0], label="numbers"),
    on(snn.Select, typical, [1, -1, 1, 0, -1], label="repeats"),
    on(snn.DiskMask, typical, 5, label="odd", sizes=((5, 5),)),
    on(snn.DiskMask, typical, 6, 0.5, 0.0, label="even", sizes=((6, 6),)),
    # Containers.
    Case("Sequential", small_net, ((6, 6), (4, 8)), None, True, has_bank=True),
    Case(
        "Residual",
        lambda G: snn.Residual(snn.Conv2d(typical(G), typical(G), 3, padding=1)),
        keeps_channels_last=True,
        has_bank=True,
    ),
    Case(
        "Parallel",
        lambda G: snn.Parallel(snn.Conv2d(typical(G), permutations(G), 3, padding=1), snn.NormReLU(typical(G))),
        keeps_channels_last=True,
        has_bank=True,
    ),
    Case("Concat", lambda G: snn.Concat([typical(G), permutations(G), typical(G)]), ((5, 5), (4, 7), VECTOR)),
]

_CUBES: tuple[Size, ...] = ((3, 3, 3), (4, 3, 2))
_EVEN_CUBES, _ODD_CUBES = ((4, 4, 4), (2, 4, 2)), ((3, 3, 3), (5, 3, 3))


def volume_net(G: Group) -> EquivariantModule:
    """A residual network on volumes; invariant at the end."""
    stream, inner = permutations(G), mixed(G)
    act = snn.CReLU(inner)
    block = snn.Sequential(
        snn.Conv3d(stream, inner, 3, padding=1),
        snn.BatchNorm3d(inner),
        act,
        snn.Conv3d(act.out_type, stream, 1),
    )
    return snn.Sequential(
        snn.Conv3d(FieldType(G, "2*A1"), stream, 2),
        snn.Residual(block),
        snn.MaxPool3d(stream, 3, 2, 1),
        snn.GroupPool(stream),
        snn.GlobalAvgPool(FieldType(G, [(len(stream), G.trivial)])),
    )


def in_space(case: Case, name: str) -> Case:
    """A layer of images and volumes, on volumes."""
    sizes = tuple(dict.fromkeys(size if size == VECTOR else _CUBES[k > 0] for k, size in enumerate(case.sizes)))
    return replace(case, name=f"{name}-of-volumes", sizes=sizes, axes=3)


_VOLUME_LIST = [
    # Torch keeps channels_last of its convolutions of volumes in float32 only.
    Case(
        "Conv3d",
        lambda G: snn.Conv3d(solid(G), turned(G), 3, padding=1, padding_mode="replicate"),
        _CUBES,
        bfloat16_in_autocast=True,
        has_bank=True,
        axes=3,
    ),
    Case(
        "Conv3d-fourier",
        lambda G: snn.Conv3d(solid(G), turned(G), 3, padding=1, padding_mode="replicate", backend="fourier"),
        _CUBES,
        bfloat16_in_autocast=True,
        has_bank=True,
        axes=3,
    ),
    Case(
        "Conv3d-stride-groups",
        lambda G: snn.Conv3d(2 * mixed(G), 2 * permutations(G), 3, 2, 1, groups=2, bias=False),
        _ODD_CUBES,
        out=window(3, 2, 1),
        bfloat16_in_autocast=True,
        has_bank=True,
        axes=3,
    ),
    Case(
        "ConvTranspose3d",
        lambda G: snn.ConvTranspose3d(solid(G), turned(G), 4, 2, 1),
        ((2, 2, 2), (3, 2, 1)),
        out=lambda n: 2 * n,
        bfloat16_in_autocast=True,
        has_bank=True,
        axes=3,
    ),
    on(snn.BatchNorm3d, turned, sizes=(*_CUBES, VECTOR), keeps_channels_last=True, axes=3),
    on(snn.InstanceNorm3d, turned, sizes=_CUBES, keeps_channels_last=True, axes=3, affine=True),
    on(snn.AvgPool3d, solid, 2, sizes=_EVEN_CUBES, out=window(2, 2), axes=3),
    on(snn.MaxPool3d, permutations, 3, 2, 1, sizes=_ODD_CUBES, out=window(3, 2, 1), axes=3),
    on(snn.NormMaxPool3d, turned, 2, sizes=_EVEN_CUBES, out=window(2, 2), axes=3),
    on(snn.BlurPool3d, mixed, sizes=_EVEN_CUBES, out=window(4, 2, 1), bfloat16_in_autocast=True, axes=3),
    on(FittedAvgPool3d, solid, 2, 2, sizes=_CUBES, out=window(2, 2), axes=3),
    on(
        FittedAvgPool3d, mixed, 2, 2, label="rounded-up", ceil_mode=True, sizes=_CUBES, out=lambda n: -(-n // 2), axes=3
    ),
    on(FittedMaxPool3d, permutations, 3, 2, 1, sizes=_CUBES, out=window(3, 2, 1), axes=3),
    on(snn.AdaptiveAvgPool3d, mixed, 2, sizes=_CUBES, out=lambda n: 2, has_onnx=False, axes=3),
    on(snn.AdaptiveMaxPool3d, permutations, 2, sizes=_CUBES, out=lambda n: 2, has_onnx=False, axes=3),
    on(
        snn.Upsample,
        mixed,
        2,
        "trilinear",
        label="trilinear",
        sizes=((2, 2, 2), (1, 2, 3)),
        out=lambda n: 2 * n,
        axes=3,
    ),
    on(snn.Dropout3d, mixed, 0.4, sizes=(*_CUBES, VECTOR), random=True, keeps_channels_last=True, axes=3),
    on(snn.DiskMask, mixed, 3, label="ball", sizes=((3, 3, 3),), axes=3),
    in_space(Case("", lambda G: snn.GroupNorm(1, turned(G)), keeps_channels_last=True), "GroupNorm"),
    in_space(on(snn.LayerNorm, turned, keeps_channels_last=True), "LayerNorm"),
    in_space(on(snn.CReLU, mixed, keeps_channels_last=True), "CReLU"),
    in_space(on(snn.TensorProduct, turned, bfloat16_in_autocast=True, keeps_channels_last=True), "TensorProduct"),
    in_space(on(snn.NormReLU, solid, keeps_channels_last=True), "NormReLU"),
    in_space(on(snn.Gated, solid, keeps_channels_last=True), "Gated"),
    in_space(
        on(
            snn.Fourier,
            lambda G: turned(G)[:3],
            torch.square,
            tolerance=1e-9,
            bfloat16_in_autocast=True,
            keeps_channels_last=True,
        ),
        "Fourier",
    ),
    in_space(on(snn.GlobalAvgPool, mixed, sizes=((5, 5), (4, 7)), out=None), "GlobalAvgPool"),
    Case("Sequential-of-volumes", volume_net, ((4, 4, 4), (2, 4, 4)), None, True, has_bank=True, axes=3),
]

CASES: dict[str, Case] = {case.name: case for case in (*_LIST, *_VOLUME_LIST)}

PAIRS: dict[str, tuple[Case, Group]] = {
    f"{name}-{case.name}": (case, group)
    for name, group in (GROUPS | OFF_GRID | INFINITE | VOLUMES).items()
    for case in CASES.values()
    if (case.axes == 3) == (name in VOLUMES)
    and (name in GROUPS | VOLUMES or not case.needs_grid)
    and not (name in INFINITE and case.needs_elements)
}
_TURNED_BY_ANY_ANGLE = ("Conv3d", "ConvTranspose3d", "BatchNorm3d", "AvgPool3d")
PAIRS |= {
    f"{name}-{case.name}": (case, group)
    for name, group in VOLUMES_OFF_GRID.items()
    for case in CASES.values()
    if case.name in _TURNED_BY_ANY_ANGLE or (case.name.endswith("-of-volumes") and case.out is not None)
}

ON_FIBRES: dict[str, Case] = {
    case.name: in_space(case, case.name)
    for case in _LIST
    if VECTOR in case.sizes and len(case.sizes) > 1 and not case.name.startswith(("BatchNorm2d", "Dropout2d"))
}
"""Layers that treat each pixel alike, which need no other one for volumes."""


TURNS_WITHIN = 0.2
"""The relative error inside the disc for elements that the grid does not carry, measured on smooth images, rounded up.

Convolutions have 0.06 to 0.17, nonlinearities 0.003 to 0.05, most of it from interpolation. A layer that is not
equivariant has about 1.
"""

COARSER: dict[str, float | None] = {
    # Windows that move in steps of several pixels, or pick one of several pixels.
    "MaxPool2d-even-sizes": 0.3,
    "MaxPool2d-odd-sizes": 0.3,
    "NormMaxPool2d-even-sizes": 0.5,
    "NormMaxPool2d-odd-sizes": 0.5,
    "AdaptiveMaxPool2d": 0.3,
    "FittedMaxPool2d": 0.3,
    "FittedMaxPool2d-rounded-up": 0.3,
    "Upsample": 0.4,
    # It divides by the length of the whole fibre, which is small where the image fades.
    "LayerNorm": 0.3,
    "LayerNorm-no-affine": 0.3,
    "Sequential-copies-dense": 0.4,  # five convolutions
    "Sequential-copies-fourier": 0.4,
    # So coarse that they turn smooth images with the grid only.
    "Conv2d-stride-3": None,
    "AdaptiveAvgPool2d": None,
    "ConvTranspose2d-4-2-1-1": None,
    "ConvTranspose2d-2-2-0-1": None,
    "ConvTranspose2d-3-2-0-2": None,
    "ConvTranspose2d-slanted": None,
    "ConvTranspose3d": None,
    "AvgPool3d": 0.3,
}


def _cosets(G: Group) -> FieldType:
    """Quotients by parts of ``_subgroup``."""
    return FieldType(G, "2*regular + r2" if G.name in ("C4", "D4", "D4 about z") else "2*regular + A1")


def _subgroup(G: Group) -> tuple[str, ...]:
    return ("e", "r2") if G.name in ("C4", "D4", "D4 about z") else G.elements


def _half(G: Group) -> list[str] | Group:
    smaller = {"C4": ["e", "r2"], "SO2": st.cyclic(8), "O2": st.so2()}
    if G.name in ("D4", "D6", "D8", "D4 about z"):
        return [g for g in G.elements if not g.startswith("m")]
    return smaller.get(G.name, ["e"])


# ---------------------------------------------------------------- how the laws use a case


def built(case: Case, group: Group, dtype: torch.dtype = torch.float64) -> EquivariantModule:
    """The layer in evaluation mode, with parameters and running statistics that are not those of the start."""
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(0)
    module = case.build(group).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.add_(0.3 * torch.randn(parameter.shape, generator=generator, dtype=torch.float64))
        for seed in range(2):
            module.train()(*fields(module, case.sizes[0], seed=seed))
    return module.eval().to(dtype)


def in_types(module: nn.Module) -> tuple[FieldType, ...]:
    return module.in_types if isinstance(module, snn.Concat) else (module.in_type,)


def fields(
    module: nn.Module, size: Size, dtype: torch.dtype = torch.float64, batch: int = 2, seed: int = 0
) -> list[Tensor]:
    """Random inputs, one for each that the layer takes."""
    generator = torch.Generator().manual_seed(seed)
    return [
        torch.randn(batch, t.channels, *size, generator=generator, dtype=torch.float64).to(dtype)
        for t in in_types(module)
    ]


def exact_elements(group: Group, size: Size) -> tuple[Element, ...]:
    """The elements that move a field of that size exactly: all of them where it is pooled, some if there is no end."""
    if size:
        return elements_on_the_grid(group)
    return group.elements if isinstance(group, FiniteGroup) else group.random(6, seed=0)


def off_grid_elements(group: Group) -> tuple[Element, ...]:
    """Two elements that need interpolation."""
    if not isinstance(group, FiniteGroup):
        return group.random(2, seed=1)
    others = [g for g in group.elements if g not in elements_on_the_grid(group)]
    return others[0], others[-1]


def public_layers() -> set[type]:
    exported = (getattr(snn, name) for name in snn.__all__)
    return {
        thing
        for thing in exported
        if isinstance(thing, type) and issubclass(thing, EquivariantModule) and thing is not EquivariantModule
    }
