"""SO(3) and O(3): the rotations of space by any angle about any axis, without and with reflections."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import NoReturn, final

import numpy as np

from steerable.algebra.arrays import FloatArray, read_only
from steerable.algebra.clebsch_gordan import real_clebsch_gordan
from steerable.algebra.compact_groups import GOLDEN_ANGLE, AnyWave, CompactGroup
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.function_spaces import functions_in_space, named_functions_in_space
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.motions_in_space import (
    about_z,
    axis_and_angle,
    motion_of_space,
    rotation_matrix,
    signed_permutations,
    straightened,
)
from steerable.algebra.planar_groups import PlanarGroup
from steerable.algebra.representations import Representation
from steerable.algebra.spherical_harmonics import checked_degree
from steerable.algebra.spherical_waves import SphericalWave, parts_about_z, product_parts

__all__ = ["SpatialElement", "SpatialGroup"]


@final
@dataclass(frozen=True, eq=False)
class SpatialElement:
    """A rotation of space, or the inversion x ↦ -x after a rotation; made by ``G.rotation((0, 0, 1), 30)``.

    Elements of one group are equal when they move space alike up to rounding errors.
    """

    group: SpatialGroup
    matrix: FloatArray
    """How it moves space: an orthogonal 3×3 matrix, x to the right, y up, z towards the viewer."""

    @cached_property
    def mirrored(self) -> bool:
        """Whether it turns right hands into left hands."""
        return bool(np.linalg.det(self.matrix) < 0)

    @property
    def rotation(self) -> FloatArray:
        """The rotation matrix; if the element is mirrored, the inversion comes after it."""
        return -self.matrix + 0.0 if self.mirrored else self.matrix

    @property
    def axis(self) -> FloatArray:
        """(3,): the axis of the rotation, of length 1."""
        return axis_and_angle(self.rotation)[0]

    @property
    def angle(self) -> float:
        """The angle of the rotation, counter-clockwise about the axis: in degrees, from 0 to 180."""
        return axis_and_angle(self.rotation)[1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, SpatialElement) or self.group != other.group:
            return False
        return bool(np.abs(self.matrix - other.matrix).max() <= TOLERANCE)

    def __hash__(self) -> int:
        return hash((self.group, self.mirrored))  # the matrix is left out: equal elements may differ by rounding

    def __repr__(self) -> str:
        return motion_of_space(self.matrix)


@final
class SpatialGroup(CompactGroup):
    """SO(3), or with ``reflections=True`` O(3); made by :func:`so3` and :func:`o3`.

    Every real representation is a finite sum of irreps, which are numbered by degree: ``L1`` is the rotation matrix
    itself, in the coordinates x, y, z, and the channels of ``L3`` are coefficients of spherical harmonics of degree 3.
    """

    _element, _coordinates = SpatialElement, 3
    _irrep_example = "L2"
    finite_example = "octahedral()"
    _element_examples = ("rotation((0, 0, 1), 30)", "reflection((1, 0, 0))")

    def __init__(self, *, reflections: bool) -> None:
        self.reflections = reflections
        self.name = "O3" if reflections else "SO3"
        solids = "octahedral(), icosahedral(), tetrahedral(), cyclic(n), dihedral(n), so2(), o2()"
        self.subgroups_in_words = f"so3(), {solids}" if reflections else solids

    # ---------------------------------------------------------------- elements

    @property
    def inversion(self) -> SpatialElement:
        """The element x ↦ -x of O(3), which commutes with every other one."""
        return self._moving_by(-np.eye(3))

    @property
    def generators(self) -> tuple[SpatialElement, ...]:
        """Elements whose products come arbitrarily close to every element: turns about z and x, and -1 in O(3)."""
        turns = tuple(self._moving_by(rotation_matrix(axis, GOLDEN_ANGLE)) for axis in ("z", "x"))
        return (*turns, self.inversion) if self.reflections else turns

    @property
    def axes(self) -> int:
        return 3

    def motion(self, element: SpatialElement) -> FloatArray:
        self.check_element(element)
        return element.matrix

    @cached_property
    def grid_elements(self) -> tuple[SpatialElement, ...]:
        return tuple(self._moving_by(m) for m in signed_permutations() if self.reflections or np.linalg.det(m) > 0)

    def _turning_by(self, degrees: float, *, mirrored: bool = False) -> NoReturn:
        example = self._element_examples[1] if mirrored else f"rotation((0, 0, 1), {degrees:g})"
        given = "the normal of its plane" if mirrored else "its axis and its angle"
        raise ValueError(
            f"{self.name} moves space, where a {'reflection' if mirrored else 'rotation'} is given by {given}: write "
            f"{self.name}.{example}."
        )

    def _moving_by(self, matrix: FloatArray) -> SpatialElement:
        if not self.reflections and np.linalg.det(matrix) < 0:
            raise ValueError(
                f"{self.name} has no {motion_of_space(matrix)}: it turns space and does not mirror it, so its "
                "matrices have the determinant 1. Use o3(), which has all reflections."
            )
        return SpatialElement(self, read_only(straightened(matrix)))

    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[SpatialElement, ...]:
        # The first two columns of a Gaussian matrix, made orthonormal, are uniform; the third one follows.
        pairs = generator.standard_normal((count, 2, 3))
        signs = generator.choice([1.0, -1.0], size=count) if self.reflections else np.ones(count)
        first = pairs[:, 0] / np.linalg.norm(pairs[:, 0], axis=1, keepdims=True)
        second = pairs[:, 1] - (pairs[:, 1] * first).sum(axis=1, keepdims=True) * first
        second /= np.linalg.norm(second, axis=1, keepdims=True)
        matrices = np.stack([first, second, np.cross(first, second)], axis=2) * signs[:, None, None]
        return tuple(self._moving_by(matrix) for matrix in matrices)

    def embedded(self, motions: FloatArray) -> FloatArray:
        """As they are, or those of the plane about z; without reflections, mirrors of the plane turn z over."""
        return motions if motions.shape[-1] == 3 else about_z(motions, proper=not self.reflections)

    # ---------------------------------------------------------------- irreps, and functions on the group

    def wave_named(self, name: str) -> SphericalWave | None:
        """The irrep of that name; ``trivial``, ``A`` and ``A1`` name the trivial one, and e3nn's ``1o`` is L1o."""
        if name in ("trivial", "A", "A1"):
            return SphericalWave(0)
        match = re.fullmatch(r"L?(\d{1,9})([eo])" if self.reflections else r"L(\d{1,9})", name)
        return SphericalWave(checked_degree(int(match[1])), odd=name.endswith("o")) if match else None

    def wave_numbered(self, number: int) -> SphericalWave:
        return SphericalWave(number // 2, bool(number % 2)) if self.reflections else SphericalWave(number)

    def has_subgroup(self, other: CompactGroup) -> bool:
        line = other.line if isinstance(other, PlanarGroup) else None
        turns_over = isinstance(other, PlanarGroup) and (line is None or line.flips)
        return self.reflections or not other.reflections or turns_over

    def seen_by(self, subgroup: CompactGroup, wave: SphericalWave) -> tuple[tuple[AnyWave, ...], FloatArray | None]:
        """The rotations alone have the same irreps; about an axis, orders m and -m are the wave of frequency m."""
        if not isinstance(subgroup, PlanarGroup):
            return (type(wave)(wave.degree),), None
        line = subgroup.line
        flips = not self.reflections if line is None else line.flips
        mirror = about_z(np.diag([-1.0, 1.0]), proper=flips)
        seen = subgroup.reflections and (flips or self.reflections)
        parts, basis = parts_about_z(wave, self._moving_by(mirror) if seen else None)
        return parts, basis if line is None else wave.at(self._moving_by(line.frame)) @ basis

    def product_parts(self, a: SphericalWave, b: SphericalWave) -> tuple[AnyWave, ...]:
        return product_parts(a, b)

    def clebsch_gordan(self, a: SphericalWave, b: SphericalWave) -> tuple[tuple[AnyWave, ...], FloatArray]:
        return product_parts(a, b), real_clebsch_gordan(a.degree, b.degree)

    def functions_named(self, name: str) -> CompactRepresentation | None:
        return named_functions_in_space(self, name)

    @property
    def capsules_in_words(self) -> str:
        irreps = "L0e, L0o, L1e, L1o …" if self.reflections else "L0, L1, L2 …"
        pair = ", and `r` on the cosets of SO(3)" if self.reflections else ""
        functions = f"`regular(2)` on the group, `sphere(3)` on the sphere{pair}"
        return f"the irreps {irreps}, and functions up to a degree: {functions}"

    def regular(self, degree: int) -> Representation:
        """The action on functions on the group up to a degree, in which L_l occurs 2l + 1 times: ``regular(3)``."""
        return functions_in_space(self, degree)

    def sphere(self, degree: int) -> Representation:
        """The action on functions on the sphere up to a degree, L0 + L1 + …; as a capsule it is ``sphere(3)``."""
        return functions_in_space(self, degree, on_sphere=True)
