"""The groups over which the laws are tested, and a few random representations of them."""

from __future__ import annotations

from functools import cache

import numpy as np

import steerable as st


def _quaternion() -> st.FiniteGroup:
    """Left multiplication by the quaternions i and j on 1, i, j, k."""
    i = [[0, -1, 0, 0], [1, 0, 0, 0], [0, 0, 0, -1], [0, 0, 1, 0]]
    j = [[0, 0, -1, 0], [0, 0, 0, 1], [1, 0, 0, 0], [0, -1, 0, 0]]
    return st.group_from_matrices({"i": i, "j": j}, name="Q8")


def _sl23() -> st.FiniteGroup:
    """SL(2, 3) as permutations of the 8 non-zero vectors of GF(3)²."""
    vectors = [(x, y) for x in range(3) for y in range(3) if (x, y) != (0, 0)]

    def moved(a: int, b: int, c: int, d: int) -> list[int]:
        return [vectors.index(((a * x + b * y) % 3, (c * x + d * y) % 3)) for x, y in vectors]

    return st.group_from_permutations({"a": moved(1, 1, 0, 1), "b": moved(1, 0, 1, 1)}, name="SL(2,3)")


def _through(group: st.FiniteGroup, target: st.FiniteGroup) -> st.FiniteGroup:
    """The group acting through the first homomorphism onto another one."""
    return group.acting_through(next(phi for phi in st.homomorphisms(group, target) if phi.is_surjective))


_BUILDERS = {
    **{f"C{n}": lambda n=n: st.cyclic(n) for n in range(1, 13)},
    **{f"D{n}": lambda n=n: st.dihedral(n) for n in (*range(1, 9), 64)},
    "Q8": _quaternion,
    "A4": lambda: st.group_from_permutations([[1, 2, 0, 3], [1, 0, 3, 2]], name="A4"),
    "S4": lambda: st.group_from_permutations([[1, 2, 3, 0], [1, 0, 2, 3]], name="S4"),
    "A5": lambda: st.group_from_permutations([[1, 2, 3, 4, 0], [1, 2, 0, 3, 4]], name="A5"),
    "S5": lambda: st.group_from_permutations([[1, 2, 3, 4, 0], [1, 0, 2, 3, 4]], name="S5"),
    "O": lambda: st.octahedral(),
    "O_h": lambda: st.octahedral(reflections=True),
    "T": lambda: st.tetrahedral(),
    "T_d": lambda: st.tetrahedral(reflections=True),
    "I": lambda: st.icosahedral(),
    "I_h": lambda: st.icosahedral(reflections=True),
    "C4xC2": lambda: st.cyclic(4).direct_product(st.cyclic(2)),
    "C2xC2xC2": lambda: st.cyclic(2).direct_product(st.cyclic(2)).direct_product(st.cyclic(2)),
    "S3xC3": lambda: st.dihedral(3).direct_product(st.cyclic(3)),
    "Q8xC3": lambda: _quaternion().direct_product(st.cyclic(3)),
    "SL(2,3)": _sl23,
    # Actions in which several elements move the plane alike.
    "C2xD4|D4": lambda: st.cyclic(2).direct_product(st.dihedral(4), acting="second"),
    "C4xC2|C4": lambda: st.cyclic(4).direct_product(st.cyclic(2), acting="first"),
    "D4|D2": lambda: _through(st.dihedral(4), st.dihedral(2)),
    "C4|C1": lambda: _through(st.cyclic(4), st.trivial()),
    "Q8|D2": lambda: _through(_quaternion(), st.dihedral(2)),
    "C2xO|O": lambda: st.cyclic(2).direct_product(st.octahedral(), acting="second"),
    "C7:C3": lambda: st.group_from_permutations([[1, 2, 3, 4, 5, 6, 0], [0, 2, 4, 6, 1, 3, 5]], name="C7:C3"),
}

ALL_GROUPS = tuple(_BUILDERS)
# Enough to meet every Schur type, abelian and not, with and without an action, where a law costs more.
SMALL_GROUPS = tuple(
    name
    for name in _BUILDERS
    if name not in ("D64", "A5", "S5", "I", "I_h", "O_h", "T_d", "Q8xC3", "C9", "C10", "C11", "D7", "D8", "C2xO|O")
)
NOT_FAITHFUL = tuple(name for name in _BUILDERS if "|" in name)
SOLIDS = ("T", "T_d", "O", "O_h", "I", "I_h")
ODD_TYPES = ("C4", "C5", "Q8", "A4", "Q8xC3", "SL(2,3)", "C7:C3")  # with complex and quaternionic irreps


@cache
def group(name: str) -> st.FiniteGroup:
    return _BUILDERS[name]()


def random_orthogonal(dim: int, seed: int = 0) -> np.ndarray:
    return np.linalg.qr(np.random.default_rng(seed).standard_normal((dim, dim)))[0]


def random_invertible(dim: int, seed: int = 0) -> np.ndarray:
    """With singular values between 1/2 and 2, so that tolerances stay those of rounding."""
    return random_orthogonal(dim, seed) @ np.diag(np.linspace(0.5, 2, dim)) @ random_orthogonal(dim, seed + 1)


def sample_representations(g: st.FiniteGroup) -> dict[str, st.Representation]:
    """One of each kind: permutation, signed, orthogonal, general, with every irrep among the parts."""
    largest = max(g.subgroups(up_to_conjugacy=True)[:-1], key=len, default=(g.identity,))
    vector = g.irreps[-1]
    mixed = st.direct_sum([g.irreps[len(g.irreps) // 2], g.trivial, vector])
    return {
        "trivial": g.trivial,
        "last irrep": vector,
        "quotient": g.quotient(largest),
        "mixed": mixed,
        "turned": mixed.change_basis(random_orthogonal(mixed.dim)),
        "skewed": (vector + g.irreps[len(g.irreps) // 3]).change_basis(
            random_invertible(vector.dim + g.irreps[len(g.irreps) // 3].dim)
        ),
    }


def homomorphism_error(rho: st.Representation) -> float:
    """max |ρ(a) ρ(b) - ρ(ab)| over all pairs."""
    matrices, table = rho.matrices, rho.group.table
    return max(float(np.abs(matrices @ matrices[b] - matrices[table[:, b]]).max()) for b in range(rho.group.order))


def same_span(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two stacks of orthonormal arrays span the same space."""
    size = int(np.prod(a.shape[1:]))
    overlap = a.reshape(len(a), size) @ b.reshape(len(b), size).T
    return len(a) == len(b) and np.allclose(overlap @ overlap.T, np.eye(len(a)), atol=1e-10)


def is_orthonormal(a: np.ndarray) -> bool:
    flat = a.reshape(len(a), int(np.prod(a.shape[1:])))
    return bool(np.abs(flat @ flat.T - np.eye(len(a))).max(initial=0) < 1e-12)
