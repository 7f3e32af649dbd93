"""Steerable CNNs: equivariant convolutional networks whose feature types you choose.

Groups, representations, intertwiners and field types are numpy; what needs torch is imported when it is first used.
"""

from typing import TYPE_CHECKING

from steerable.algebra.capsules import Capsule
from steerable.algebra.characters import CharacterTable, character_table, intertwining_number
from steerable.algebra.decomposition import decompose
from steerable.algebra.families import cyclic, dihedral, group_named, o2, so2, trivial
from steerable.algebra.generation import group_from_matrices, group_from_permutations
from steerable.algebra.groups import FiniteGroup
from steerable.algebra.homomorphisms import Homomorphism, homomorphisms, inclusion
from steerable.algebra.induction import induce
from steerable.algebra.intertwiners import intertwiner_basis
from steerable.algebra.irreps import Irrep
from steerable.algebra.representations import Representation, direct_sum
from steerable.algebra.space_families import about_axis, icosahedral, o3, octahedral, so3, tetrahedral
from steerable.algebra.spherical_harmonics import spherical_harmonics
from steerable.filters import FilterSpace, filter_space, kernel_basis, pixel_patch, pixel_space, ring_space
from steerable.lazy import lazy_names
from steerable.types.costs import parameter_cost, parameter_utilization
from steerable.types.field_types import FieldType
from steerable.types.restriction import restriction

if TYPE_CHECKING:
    from steerable import models, nn, testing
    from steerable.checking import EquivarianceError, typecheck, typed
    from steerable.conversion import convert
    from steerable.transforms import transform

__version__ = "0.1.0rc1"

__getattr__, __dir__ = lazy_names(  # all that needs torch
    __name__,
    {
        "steerable": ("models", "nn", "testing"),
        "steerable.checking": ("EquivarianceError", "typecheck", "typed"),
        "steerable.conversion": ("convert",),
        "steerable.transforms": ("transform",),
    },
)

__all__ = [
    "Capsule",
    "CharacterTable",
    "EquivarianceError",
    "FieldType",
    "FilterSpace",
    "FiniteGroup",
    "Homomorphism",
    "Irrep",
    "Representation",
    "about_axis",
    "character_table",
    "convert",
    "cyclic",
    "decompose",
    "dihedral",
    "direct_sum",
    "filter_space",
    "group_from_matrices",
    "group_from_permutations",
    "group_named",
    "homomorphisms",
    "icosahedral",
    "inclusion",
    "induce",
    "intertwiner_basis",
    "intertwining_number",
    "kernel_basis",
    "models",
    "nn",
    "o2",
    "o3",
    "octahedral",
    "parameter_cost",
    "parameter_utilization",
    "pixel_patch",
    "pixel_space",
    "restriction",
    "ring_space",
    "so2",
    "so3",
    "spherical_harmonics",
    "testing",
    "tetrahedral",
    "transform",
    "trivial",
    "typecheck",
    "typed",
]
