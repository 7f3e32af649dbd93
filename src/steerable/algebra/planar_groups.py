"""SO(2) and O(2): the rotations of the plane by any angle, without and with reflections."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn, final

import numpy as np
from numpy.typing import ArrayLike

from steerable.algebra.actions import motion_text, turn
from steerable.algebra.arrays import FloatArray
from steerable.algebra.group_interface import LISTS, Element, Group
from steerable.algebra.metrics import TOLERANCE, is_orthogonal

if TYPE_CHECKING:
    from steerable.algebra.irreps import Irrep
    from steerable.algebra.representations import Representation

__all__ = ["PlanarElement", "PlanarGroup"]

# No multiple of the golden angle comes close to a whole turn, so that its powers fill the circle evenly.
_GOLDEN_ANGLE = 180 * (3 - math.sqrt(5))


@final
@dataclass(frozen=True, eq=False)
class PlanarElement:
    """A rotation of the plane, or m, which mirrors left and right, after a rotation; made by ``G.rotation(30)``.

    Elements of one group are equal when they move the plane alike up to rounding errors.
    """

    group: PlanarGroup
    angle: float
    """The angle of the rotation: counter-clockwise, in degrees, at least 0 and below 360."""
    mirrored: bool

    @property
    def matrix(self) -> FloatArray:
        """How it moves the plane: an orthogonal 2×2 matrix, x to the right and y up."""
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
class PlanarGroup(Group):
    """SO(2), or with ``reflections=True`` O(2); made by :func:`so2` and :func:`o2`.

    Every real representation is a finite sum of irreps, which are numbered by frequency: under a rotation by θ,
    ``E3`` turns by 3θ.
    """

    def __init__(self, *, reflections: bool) -> None:
        self.reflections = reflections
        self.name = "O2" if reflections else "SO2"

    # ---------------------------------------------------------------- elements

    @property
    def identity(self) -> PlanarElement:
        return PlanarElement(self, 0.0, False)

    @property
    def generators(self) -> tuple[PlanarElement, ...]:
        """Elements whose products come as close as one likes to every element: an endless turn, and m in O(2)."""
        turning = PlanarElement(self, _GOLDEN_ANGLE, False)
        return (turning, PlanarElement(self, 0.0, True)) if self.reflections else (turning,)

    def multiply(self, *factors: PlanarElement) -> PlanarElement:
        angle, mirrored = 0.0, False
        for factor in factors:
            self.check_element(factor)  # (m^a r^θ)(m^b r^φ) = m^(a+b) r^(±θ + φ) with a minus where b = 1
            angle = (-angle if factor.mirrored else angle) + factor.angle
            mirrored ^= factor.mirrored
        return self._turning_by(angle, mirrored=mirrored)

    def inverse(self, element: PlanarElement) -> PlanarElement:
        self.check_element(element)
        return element if element.mirrored else self._turning_by(-element.angle)

    def moving_by(self, matrix: ArrayLike) -> PlanarElement:
        """The element that moves the plane by this orthogonal 2×2 matrix (x to the right, y up)."""
        m = np.array(matrix, dtype=np.float64)
        if m.shape != (2, 2) or not np.isfinite(m).all() or not is_orthogonal(m[None]):
            raise ValueError(f"{self.name} moves the plane by orthogonal 2×2 matrices; got {m.tolist()}.")
        return self._turning_by(math.degrees(math.atan2(m[1, 0], m[1, 1])), mirrored=bool(np.linalg.det(m) < 0))

    def check_element(self, element: Element) -> None:
        """Raise TypeError unless this is an element of the group."""
        if isinstance(element, PlanarElement) and element.group == self:
            return
        mirrors = f" or {self.name}.reflection(0)" if self.reflections else ""
        of_another = f" of {element.group.name}" if isinstance(element, PlanarElement) else ""
        raise TypeError(
            f"`{element}`{of_another} is not an element of {self.name}, whose elements are given by angle: write "
            f"{self.name}.rotation(30){mirrors}, or {self.name}.moving_by(matrix) for an element of another group."
        )

    def __contains__(self, element: object) -> bool:
        return isinstance(element, PlanarElement) and element.group == self

    @property
    def axes(self) -> int:
        return 2

    def motion(self, element: PlanarElement) -> FloatArray:
        self.check_element(element)
        return element.matrix

    @cached_property
    def grid_elements(self) -> tuple[PlanarElement, ...]:
        kinds = (False, True) if self.reflections else (False,)
        return tuple(PlanarElement(self, 90.0 * k, mirrored) for mirrored in kinds for k in range(4))

    def _turning_by(self, degrees: float, *, mirrored: bool = False) -> PlanarElement:
        if mirrored and not self.reflections:
            raise ValueError(
                f"{self.name} has no {motion_text(turn(degrees, mirrored=True))}: it turns the plane and does not "
                "mirror it. Use o2(), which has all reflections."
            )
        angle = degrees % 360
        return PlanarElement(self, 0.0 if angle == 360 else angle, mirrored)  # -1e-20 % 360 is 360.0

    def _drawn(self, count: int, generator: np.random.Generator) -> tuple[PlanarElement, ...]:
        angles = generator.uniform(0, 360, size=count)
        mirrored = generator.integers(2, size=count) if self.reflections else np.zeros(count)
        return tuple(PlanarElement(self, float(a), bool(m)) for a, m in zip(angles, mirrored, strict=True))

    # ---------------------------------------------------------------- what later modules compute for this group

    @property
    def irreps(self) -> tuple[Irrep, ...]:
        return self.__getattr__("irreps")

    def irrep(self, name: str) -> Irrep:
        from steerable.algebra.planar_irreps import planar_irrep

        return planar_irrep(self, name)

    def irreps_of(self, kind: tuple[int, ...]) -> tuple[Irrep, ...]:
        from steerable.algebra.planar_irreps import first_irreps

        return first_irreps(self, len(kind))

    def regular(self, frequency: int) -> Representation:
        """The action on functions on the group up to a frequency; as a capsule it is written ``regular(3)``."""
        from steerable.algebra.function_spaces import FunctionSpace

        return FunctionSpace(self, frequency).representation

    def quotient(self, subgroup: Group, frequency: int) -> Representation:
        """The action on functions on the left cosets of a subgroup C_n or D_n, up to a frequency.

        Functions on the circle up to frequency 3, on which O(2) acts, are ``o2().quotient(dihedral(1), 3)``; as a
        capsule they are written ``qm(3)``.
        """
        from steerable.algebra.function_spaces import FunctionSpace

        return FunctionSpace.on_cosets(self, subgroup, frequency).representation

    # ---------------------------------------------------------------- value semantics

    @cached_property
    def digest(self) -> bytes:
        return self.name.encode()

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, (self.reflections,)

    def __repr__(self) -> str:
        return f"<{self.name}, all rotations{' and reflections' if self.reflections else ''} of the plane>"

    def __getattr__(self, name: str) -> NoReturn:
        if name == "irreps":
            what, remedy = (
                "list of irreps",
                "Name one, as in irrep('E2'), or ask for the first few with irreps_of(kind).",
            )
        elif name in LISTS:
            what, remedy = (
                f"`{name}`",
                "Work with elements such as rotation(30) or random(5), or restrict to cyclic(8).",
            )
        else:
            raise AttributeError(f"{self.name} has no attribute `{name}`.")
        raise _InfiniteGroupError(
            f"{self.name} has infinitely many elements and irreps, so that it has no {what}. {remedy}"
        )


class _InfiniteGroupError(TypeError, AttributeError):
    """What only finite groups have: an infinite group is of the wrong type, and ``hasattr`` is False."""


def _rebuild(reflections: bool) -> PlanarGroup:
    return PlanarGroup(reflections=reflections)
