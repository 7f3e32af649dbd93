"""Laws that tie groups to each other: restriction in steps, and intertwiners of representations in any basis."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import steerable as st

CHAINS = [
    ("SO2", ("C8", "C4", "C2"), ("A", "E1", "E5", "regular(2)", "qC4(8)")),
    ("O2", ("SO2", "C8", "C4"), ("A2", "E3", "qm(3)", "regular(1)", "r")),
    ("O2", ("D8", "D4", "D2", "D1"), ("A2", "E3", "qm(3)", "regular(1)", "qD4(4)")),
    ("O3", ("SO3", "I"), ("L1o", "L2e", "sphere(2)", "regular(1)", "r")),
    ("O3", ("O_h", "O", "T"), ("L1o", "L3o", "sphere(2)")),
    ("O3", ("O_h", "D4 about z", "C2 about z"), ("L1e", "L2o")),
    ("O_h", ("D4 about z", "C4 about z"), ("A1g", "T1u", "Eg", "regular")),
    ("D16", ("D8", "C8", "C4", "C2"), ("E1", "E7", "B1", "qm", "regular")),
    ("D12", ("D6", "D3", "C3"), ("E5", "B1", "B2", "qmr3")),
    ("D12", ("D4", "D2", "D1"), ("E5", "B1", "B2")),
]


@pytest.mark.parametrize(
    ("top", "steps", "capsule"), [(top, steps, capsule) for top, steps, names in CHAINS for capsule in names]
)
def test_restriction_in_steps_is_restriction_at_once(top: str, steps: tuple[str, ...], capsule: str) -> None:
    whole = st.group_named(top)
    rho = whole.capsule(capsule).representation
    in_steps = rho
    for step in steps:
        smaller = st.group_named(step)
        in_steps = in_steps.restrict(smaller)
        at_once = rho.restrict(smaller)
        elements = smaller.random(8, seed=0)
        wanted = np.array([rho(whole.element(smaller.motion(g))) for g in elements])
        assert np.abs(in_steps.at(elements) - wanted).max() < 1e-12
        assert np.abs(at_once.at(elements) - wanted).max() < 1e-12
        assert in_steps.type == at_once.type


def null_space_dim(source: st.Representation, target: st.Representation, elements: tuple[object, ...]) -> int:
    """The dimension of {X: ρ(g) X = X π(g)}, from the equations themselves."""
    one = [np.eye(rho.dim) for rho in (source, target)]
    equations = [np.kron(target(g), one[0]) - np.kron(one[1], source(g).T) for g in elements]
    sizes = np.linalg.svd(np.concatenate(equations), compute_uv=False)
    return source.dim * target.dim - int(np.count_nonzero(sizes > 1e-8))


@pytest.mark.parametrize("name", ["C5", "C8", "D1", "D2", "D3", "D6", "T", "O", "SO2", "O2", "SO3", "O3"])
def test_sums_of_irreps_in_any_basis_have_the_intertwiners_that_the_equations_say(name: str) -> None:
    g, random = st.group_named(name), np.random.default_rng(0)
    irreps = g.irreps_of((1,) * 4) if name in ("SO2", "O2", "SO3", "O3") else g.irreps
    elements = (*g.generators, *g.random(3, seed=0))

    def mixed() -> st.Representation:
        first, *others = (irreps[k] for k in random.integers(len(irreps), size=3))
        total = sum(others, first)
        return total.change_basis(random.normal(size=(total.dim, total.dim)) + 3 * np.eye(total.dim))

    for source, target in itertools.product([mixed(), mixed()], [mixed(), mixed()]):
        basis = st.intertwiner_basis(source, target)
        assert len(basis) == st.intertwining_number(source, target) == null_space_dim(source, target, elements)
        for h in elements:
            assert np.abs(target(h) @ basis - basis @ source(h)).max(initial=0) < 1e-9
        lengths = basis.reshape(len(basis), source.dim * target.dim)
        assert np.abs(lengths @ lengths.T - np.eye(len(basis))).max(initial=0) < 1e-9
        kind, a = st.decompose(source @ target)
        assert sum(n * irrep.dim for n, irrep in zip(kind, g.irreps_of(kind), strict=True)) == len(a)
