from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest
from group_zoo import ALL_GROUPS, group, random_invertible, random_orthogonal

import steerable as st
from steerable.algebra.capsules import Nonlinearity

D4 = st.dihedral(4)
Array = np.ndarray


def test_appendix_c() -> None:
    """Names, subgroups and dimensions of D4's quotient capsules."""
    appendix = {
        "regular": (("e",), 8),
        "qm": (("e", "m"), 4),
        "qmr": (("e", "mr"), 4),
        "qmr2": (("e", "mr2"), 4),
        "qmr3": (("e", "mr3"), 4),
        "r2": (("e", "r2"), 4),
        "r": (("e", "r", "r2", "r3"), 2),
        "r2m": (("e", "r2", "m", "mr2"), 2),
        "r2mr": (("e", "r2", "mr", "mr3"), 2),
        "A1": (D4.elements, 1),
    }
    for name, (subgroup, dim) in appendix.items():
        capsule = D4.capsule(name)
        assert (capsule.name, capsule.dim, capsule.kind) == (name, dim, "permutation")
        assert capsule.representation == D4.quotient(subgroup)
        assert D4.quotient(subgroup).name == name
    assert set(D4.capsules) == {*appendix, "A2", "B1", "B2", "E"}


def test_types_of_the_quotients() -> None:
    types = {name: D4.capsule(name).type for name in ("regular", "qm", "qmr", "r2", "r", "r2m", "r2mr")}
    assert types == {
        "regular": (1, 1, 1, 1, 2),
        "qm": (1, 0, 1, 0, 1),
        "qmr": (1, 0, 0, 1, 1),
        "r2": (1, 1, 1, 1, 0),
        "r": (1, 1, 0, 0, 0),
        "r2m": (1, 0, 1, 0, 0),
        "r2mr": (1, 0, 0, 1, 0),
    }


@pytest.mark.parametrize("name", ALL_GROUPS)
def test_the_catalogue_has_every_irrep_and_every_quotient(name: str) -> None:
    """Quotients up to conjugacy for any group; for C_n and D_n, where names tell them apart, by every subgroup."""
    g = group(name)
    capsules = g.capsules
    rotations = name[0] in "CD" and not set(name) & set("x:")
    proper = [k for k in g.subgroups(up_to_conjugacy=not rotations) if len(k) < g.order]
    assert [str(c) for c in capsules.values()] == list(capsules)
    assert list(capsules)[: len(g.irreps)] == [str(i) for i in g.irreps]
    quotients = list(capsules.values())[len(g.irreps) :]
    assert sorted(c.dim for c in quotients) == sorted(g.order // len(k) for k in proper)
    assert all(c.kind == "permutation" for c in quotients)
    assert g.capsule("regular").representation == g.regular


@pytest.mark.parametrize(
    "g",
    [
        st.cyclic(2).direct_product(st.cyclic(2)),  # elements called (r,e)
        st.cyclic(3).direct_product(st.cyclic(2)),
        st.group_from_permutations({"A": [1, 2, 3, 0], "m": [1, 0, 3, 2]}),  # A2 is an element and an irrep
        st.group_from_permutations({"a": [1, 0, 2], "b": [0, 2, 1]}),  # two reflections
    ],
    ids=str,
)
def test_catalogues_whatever_the_elements_are_called(g: st.FiniteGroup) -> None:
    types = {capsule.type for capsule in list(g.capsules.values())[len(g.irreps) :]}
    assert types == {g.quotient(k).type for k in g.subgroups() if len(k) < g.order}
    assert all(st.FieldType(g, name)[0].representation == c.representation for name, c in g.capsules.items())


def test_systematic_names() -> None:
    names = list(group("S4").capsules)
    assert " ".join(names) == "A1 A2 E T1 T2 regular q2a q2b q3a q4a q4b q4c q6a q8a q12a"
    s4 = group("S4")
    assert {s4.quotient(k).name for k in s4.subgroups() if len(k) == 6} == {"q6a", None}


# ---------------------------------------------------------------- nonlinearities, tested by applying them


def _generic(x: Array) -> Array:
    return np.exp(0.7 * x) + 0.3 * x


def _odd(x: Array) -> Array:
    return x**3 + np.tanh(2 * x)


def _relu(x: Array) -> Array:
    return np.maximum(x, 0)


NONLINEARITIES: dict[Nonlinearity, Callable[[Array], Array]] = {
    "pointwise": _generic,
    "odd": _odd,
    "concatenated": lambda x: np.concatenate([_generic(x), _generic(-x)]),
    "scale-free concatenated": lambda x: np.concatenate([_relu(x), _relu(-x)]),
    "norm": lambda x: x * _generic(np.linalg.norm(x, axis=0)),
}
OWN = [
    st.Capsule(st.Representation(st.cyclic(2), {"r": [[0, 2], [0.5, 0]]}), "scaled"),
    st.Capsule(st.Representation(st.cyclic(2), {"r": [[0, -2], [-0.5, 0]]}), "scaled_sign"),
    st.Capsule(D4.regular.change_basis(random_orthogonal(8)), "turned"),
    st.Capsule(D4.regular.change_basis(random_invertible(8)), "skewed"),
    st.Capsule(D4.regular.change_basis(np.diag([1, -1, 1, -1, 1, 1, 1, 1])), "signed"),
]
CAPSULES = OWN + [c for name in ("C4", "C5", "D3", "D4", "Q8", "A4", "O") for c in group(name).capsules.values()]
each_capsule = pytest.mark.parametrize("capsule", CAPSULES, ids=lambda c: f"{c.group.name}-{c}")


@each_capsule
@pytest.mark.parametrize("kind", NONLINEARITIES)
def test_admits_what_commutes(capsule: st.Capsule, kind: Nonlinearity) -> None:
    """The paper's definition: ν is admissible if for each g some linear map ρ'(g) has ν(ρ(g)x) = ρ'(g)ν(x)."""
    nu, x = NONLINEARITIES[kind], np.random.default_rng(1).standard_normal((capsule.dim, 12 * capsule.dim + 5))
    before, worst = nu(x), 0.0
    for matrix in capsule.representation.matrices:
        after = nu(matrix @ x)
        fit = np.linalg.lstsq(before.T, after.T, rcond=None)[0]
        worst = max(worst, float(np.abs(before.T @ fit - after.T).max()))
    assert (worst < 1e-8) == capsule.admits(kind)
    assert worst < 1e-8 or worst > 1e-3  # nothing in between: the two cases are well apart
    assert (kind in capsule.nonlinearities) == capsule.admits(kind)


@each_capsule
def test_act_of_a_concatenated_nonlinearity(capsule: st.Capsule) -> None:
    """ν'(ρ(g)x) = (Act ρ)(g) ν'(x) for ν'(x) = (ν(x), ν(-x)), where it is admissible at all."""
    if not capsule.admits("scale-free concatenated"):
        with pytest.raises(TypeError, match=f"not admissible for capsule `{capsule}` of .*It admits: `?n"):
            capsule.after_concatenation()
        return
    after = capsule.after_concatenation()
    act = st.direct_sum([c.representation for c in after])
    assert act.dim == 2 * capsule.dim
    nu = NONLINEARITIES["concatenated" if capsule.admits("concatenated") else "scale-free concatenated"]
    x = np.random.default_rng(2).standard_normal((capsule.dim, 5))
    for rho, action in zip(capsule.representation.matrices, act.matrices, strict=True):
        assert np.allclose(nu(rho @ x), action @ nu(x), atol=1e-12)
    assert all((m >= 0).all() for m in act.matrices)
    assert (act.kind == "permutation") == capsule.admits("concatenated")


def test_act_of_the_irreps_of_d4() -> None:
    after = {str(c): [str(a) for a in c.after_concatenation()] for c in D4.capsules.values() if c.dim < 3}
    assert after["A1"] == ["A1", "A1"]
    assert after["A2"] == ["r"]
    assert (after["B1"], after["B2"]) == (["r2m"], ["r2mr"])
    assert len(after["E"]) == 1
    assert D4.capsule(after["E"][0]).dim == 4


# ---------------------------------------------------------------- values and mistakes


def test_capsules_are_compared_by_their_matrices() -> None:
    mine = st.Capsule(D4.irrep("E"), "mine")
    assert mine == D4.capsule("E")
    assert hash(mine) == hash(D4.capsule("E"))
    assert str(mine) == "mine"
    assert st.Capsule(D4.regular.change_basis(random_orthogonal(8)), "regular") != D4.capsule("regular")
    assert pickle.loads(pickle.dumps(mine)) == mine


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: D4.capsule("qmr4"), "unknown capsule `qmr4` of D4. Did you mean `qmr` or `qmr3` or `qmr2`"),
        (lambda: D4.capsule("zzz"), "unknown capsule `zzz` of D4. Known names: `A1`, `A2`"),
        (lambda: D4.capsule("E").admits("relu"), "unknown kind of nonlinearity 'relu'"),
        (lambda: D4.capsule("E").admits("pointwize"), "Did you mean `pointwise`"),
        (lambda: st.Capsule(D4.irrep("E") + D4.regular), "a capsule needs a name .* got None. Pass name="),
        (lambda: st.Capsule(D4.irrep("E"), "2E"), "does not start with a digit.* got '2E'"),
        (lambda: st.Capsule(0 * D4.irrep("E"), "none"), "capsule `none` has no channels"),
    ],
)
def test_bad_values_are_refused(build, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        build()


def test_a_capsule_is_made_from_a_representation() -> None:
    with pytest.raises(TypeError, match="made from a Representation, got str"):
        st.Capsule("E")
