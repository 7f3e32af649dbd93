"""SO(2) and O(2): the rotations of the plane, or of space about one axis, by any angle, and the reflections."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from functools import cached_property, partial
from typing import final

import numpy as np

from steerable.algebra.actions import motion_text, turn
from steerable.algebra.arrays import FloatArray
from steerable.algebra.compact_groups import GOLDEN_ANGLE, AnyWave, CompactGroup
from steerable.algebra.compact_representations import CompactRepresentation
from steerable.algebra.function_spaces import (
    functions_in_the_plane,
    functions_on_cosets,
    named_functions_in_the_plane,
)
from steerable.algebra.group_interface import Group
from steerable.algebra.lines_in_space import Line
from steerable.algebra.metrics import TOLERANCE
from steerable.algebra.motions_in_space import signed_permutations
from steerable.algebra.representations import Representation
from steerable.algebra.waves import Wave, checked_frequency, clebsch_gordan

__all__ = ["PlanarElement", "PlanarGroup"]


@final
@dataclass(frozen=True, eq=False)
class PlanarElement:
    """A rotation of the plane, or a rotation followed by m, which mirrors left and right; made by ``G.rotation(30)``.

    Elements of one group are equal when they move the plane alike up to rounding errors. In a group about an axis the
    plane is the one across the axis.
    """

    group: PlanarGroup
    angle: float
    """The angle of the rotation: counter-clockwise, in degrees, at least 0 and below 360."""
    mirrored: bool

    @property
    def matrix(self) -> FloatArray:
        """The motion of the plane: an orthogonal 2×2 matrix, x to the right and y up."""
        return turn(self.angle, mirrored=self.mirrored)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, PlanarElement) or (self.group, self.mirrored) != (other.group, other.mirrored):
            return False
        return bool(np.abs(self.matrix - other.matrix).max() <= TOLERANCE)

    def __hash__(self) -> int:
        return hash((self.group, self.mirrored))  # the angle is left out: equal elements may differ by rounding

    def __repr__(self) -> str:
        return f"reflection({-self.angle / 2 % 180:g})" if self.mirrored else f"rotation({self.angle:g})"


@final
class PlanarGroup(CompactGroup):
    """SO(2), or with ``reflections=True`` O(2); made by :func:`so2` and :func:`o2`.

    Every real representation is a finite sum of irreps, which are numbered by frequency: under a rotation by θ,
    ``E3`` turns by 3θ. With a line it moves space about that line; :func:`about_axis` makes such groups.
    """

    _element, _coordinates = PlanarElement, 2
    _irrep_example = "E2"
    _element_examples = ("rotation(30)", "reflection(0)")

    def __init__(self, *, reflections: bool, line: Line | None = None) -> None:
        self.reflections, self.line = reflections, line
        own = "O2" if reflections else "SO2"
        self.name = own if line is None else f"{own} {line}"
        self.finite_example = "cyclic(8)" if line is None else f"about_axis(cyclic(8), {line.label!r})"
        self.subgroups_in_words = "cyclic(n), dihedral(n), so2()" if reflections else "cyclic(n)"

    def __reduce__(self) -> tuple[object, ...]:
        return partial(PlanarGroup, reflections=self.reflections, line=self.line), ()

    @cached_property
    def digest(self) -> bytes:
        own = b"O2" if self.reflections else b"SO2"
        return own if self.line is None else own + repr((self.line.direction, self.line.flips)).encode()

    def __repr__(self) -> str:
        if self.line is None:
            return super().__repr__()
        motions = "rotations and reflections" if self.reflections else "rotations"
        return f"<{self.name}, all {motions} of space about {self.line.label}>"

    # ---------------------------------------------------------------- elements

    @property
    def generators(self) -> tuple[PlanarElement, ...]:
        """Elements whose products come arbitrarily close to every element: an irrational turn, and m in O(2)."""
        turning = PlanarElement(self, GOLDEN_ANGLE, False)
        return (turning, PlanarElement(self, 0.0, True)) if self.reflections else (turning,)

    @property
    def axes(self) -> int:
        return 2 if self.line is None else 3

    def motion(self, element: PlanarElement) -> FloatArray:
        self.check_element(element)
        return element.matrix if self.line is None else self.line.in_space(element.matrix)

    @cached_property
    def grid_elements(self) -> tuple[PlanarElement, ...]:
        if self.line is None:
            kinds = (False, True) if self.reflections else (False,)
            return tuple(PlanarElement(self, 90.0 * k, mirrored) for mirrored in kinds for k in range(4))
        carried = [self._moving_by(m) for m in signed_permutations() if self.embedded(m) is not None]
        return tuple(sorted(carried, key=lambda g: (g.mirrored, round(g.angle, 6))))

    def _turning_by(self, degrees: float, *, mirrored: bool = False) -> PlanarElement:
        if mirrored and not self.reflections:
            raise ValueError(
                f"{self.name} has no {motion_text(turn(degrees, mirrored=True))}: it turns the plane and does not "
                "mirror it. Use o2(), which has all reflections."
            )
        angle = degrees % 360
        return PlanarElement(self, 0.0 if angle == 360 else angle, mirrored)  # -1e-20 % 360 is 360.0

    def _moving_by(self, matrix: FloatArray) -> PlanarElement:
        planar = matrix
        if self.line is not None and len(matrix) == 3:
            seen = self.line.across(matrix)
            planar = matrix[:2, :2] if seen is None else seen[0]
            if seen is None or np.abs(self.line.in_space(planar) - matrix).max() > TOLERANCE:
                raise ValueError(
                    f"{self.name} has no {motion_text(matrix)}: it turns space {self.line} only. Use so3() or o3()."
                )
        elif len(matrix) != 2:
            raise ValueError(
                f"{self.name} moves the plane, where rotations and reflections are given by an angle alone: write "
                f"{self.name}.rotation(30)."
            )
        angle = math.degrees(math.atan2(planar[1, 0], planar[1, 1]))
        return self._turning_by(angle, mirrored=bool(np.linalg.det(planar) < 0))

    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[PlanarElement, ...]:
        angles = generator.uniform(0, 360, size=count)
        mirrored = generator.integers(2, size=count) if self.reflections else np.zeros(count)
        return tuple(PlanarElement(self, float(a), bool(m)) for a, m in zip(angles, mirrored, strict=True))

    def embedded(self, motions: FloatArray) -> FloatArray | None:
        if self.line is None or motions.shape[-1] == 2:
            own = motions if self.line is None else self.line.in_space(motions)
            return own if motions.shape[-1] == 2 else None
        seen = self.line.across(motions)
        if seen is None or np.abs(self.line.in_space(seen[0]) - motions).max() > TOLERANCE:
            return None
        return motions if self.reflections or (np.linalg.det(seen[0]) > 0).all() else None

    # ---------------------------------------------------------------- irreps, and functions on the group

    def wave_named(self, name: str) -> Wave | None:
        """The irrep of that name; ``trivial``, ``A`` and ``A1`` name the trivial one, as in every group."""
        if name in ("trivial", "A", "A1"):
            return Wave(0)
        if name == "A2" and self.reflections:
            return Wave(0, odd=True)
        match = re.fullmatch(r"E([1-9]\d*)", name)
        return Wave(checked_frequency(int(match[1]))) if match else None

    def wave_numbered(self, number: int) -> Wave:
        return Wave(max(0, number - 1), number == 1) if self.reflections else Wave(number)

    def has_subgroup(self, other: CompactGroup) -> bool:
        if not isinstance(other, PlanarGroup) or (other.reflections and not self.reflections):
            return False
        if other.line in (None, self.line):
            return True
        same_axis = self.line is not None and other.line is not None and self.line.direction == other.line.direction
        return same_axis and not other.reflections  # what reflections become does not matter to rotations

    def seen_by(self, subgroup: CompactGroup, wave: Wave) -> tuple[tuple[AnyWave, ...], FloatArray | None]:
        return (type(wave)(wave.frequency),), None

    def clebsch_gordan(self, a: Wave, b: Wave) -> tuple[tuple[AnyWave, ...], FloatArray]:
        return clebsch_gordan(self, a, b)

    def functions_named(self, name: str) -> CompactRepresentation | None:
        return named_functions_in_the_plane(self, name)

    @property
    def capsules_in_words(self) -> str:
        if not self.reflections:
            return (
                "the irreps A, E1, E2 …, and functions up to a frequency: `regular(3)` on the group, `qC4(8)` on cosets"
            )
        return (
            "the irreps A1, A2, E1, E2 …, and functions up to a frequency: `regular(3)` on the group, `qm(3)` on the "
            "circle, `qC4(8)` and `qD4(8)` on cosets, and `r` on those of SO(2)"
        )

    def regular(self, frequency: int) -> Representation:
        """The action on functions on the group up to a frequency; as a capsule it is written ``regular(3)``."""
        return functions_in_the_plane(self, frequency)

    def quotient(self, subgroup: Group, frequency: int) -> Representation:
        """The action on functions on the left cosets of a subgroup C_n or D_n, up to a frequency.

        Functions on the circle up to frequency 3, on which O(2) acts, are ``o2().quotient(dihedral(1), 3)``; as a
        capsule they are written ``qm(3)``.
        """
        return functions_on_cosets(self, subgroup, frequency)
