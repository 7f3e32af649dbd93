"""Steerable CNNs: equivariant convolutional networks whose feature types you choose.

Groups, representations, intertwiners and field types are numpy; what needs torch is imported when it is first used.
"""

from steerable.capsules import Capsule
from steerable.characters import CharacterTable, character_table, intertwining_number
from steerable.families import cyclic, dihedral, octahedral, trivial
from steerable.fields import FieldType, parameter_cost, parameter_utilization
from steerable.filters import kernel_basis, pixel_patch
from steerable.generation import group_from_matrices, group_from_permutations
from steerable.groups import FiniteGroup
from steerable.homomorphisms import Homomorphism, homomorphisms, inclusion
from steerable.intertwiners import intertwiner_basis
from steerable.irreps import Irrep, decompose
from steerable.representations import Representation, direct_sum, induce

__version__ = "0.1.0"

__all__ = [
    "Capsule",
    "CharacterTable",
    "FieldType",
    "FiniteGroup",
    "Homomorphism",
    "Irrep",
    "Representation",
    "character_table",
    "cyclic",
    "decompose",
    "dihedral",
    "direct_sum",
    "group_from_matrices",
    "group_from_permutations",
    "homomorphisms",
    "inclusion",
    "induce",
    "intertwiner_basis",
    "intertwining_number",
    "kernel_basis",
    "octahedral",
    "parameter_cost",
    "parameter_utilization",
    "pixel_patch",
    "trivial",
]
