"""The costs of a convolution between two field types, over any filter space."""

from __future__ import annotations

from collections.abc import Sequence

from steerable.algebra.characters import inner_product, multiplicities, product, whole_number
from steerable.errors import expect
from steerable.filters.space_arguments import chosen_space
from steerable.filters.spaces import FilterSpace
from steerable.types.field_types import FieldType

__all__ = ["dense_weights", "fourier_products", "parameter_cost", "parameter_utilization"]

Size = int | Sequence[int] | None


def parameter_cost(
    in_type: FieldType, out_type: FieldType, kernel_size: Size = None, *, filters: FilterSpace | None = None
) -> int:
    """The number of parameters of an equivariant filter bank: dim Hom_H(V ⊗ ρ_in, ρ_out).

    Args:
        in_type, out_type: field types of one group.
        kernel_size: the extents of the filters, 3 by default.
        filters: the filter space V; by default that of a convolution.

    >>> from steerable import dihedral
    >>> G = dihedral(4)
    >>> parameter_cost(FieldType(G, "3*A1"), FieldType(G, "regular"), kernel_size=3)
    27
    """
    space = _space(in_type, out_type, kernel_size, filters)
    return whole_number(inner_product(product(space.representation.character, in_type.character), out_type.character))


def parameter_utilization(
    in_type: FieldType, out_type: FieldType, kernel_size: Size = None, *, filters: FilterSpace | None = None
) -> float:
    """μ = dim π · dim ρ / dim Hom_H(π, ρ): the number of weights of a plain filter bank per parameter.

    π is V ⊗ ρ_in: the plain bank has filters from the same space. The arguments are those of :func:`parameter_cost`.
    """
    cost = parameter_cost(in_type, out_type, kernel_size, filters=filters)
    space = _space(in_type, out_type, kernel_size, filters)
    if cost == 0:
        raise ValueError(
            f"there is no equivariant map from `{in_type}` to `{out_type}` with kernel size "
            f"{kernel_size or space.size}, so the utilization has no value. Choose types that share an irrep, or "
            "a larger kernel."
        )
    return space.dim * in_type.channels * out_type.channels / cost


def dense_weights(in_type: FieldType, out_type: FieldType, kernel_size: Size = None) -> int:
    """The number of weights of the expanded filter bank, and of the products per pixel of a dense convolution."""
    return _space(in_type, out_type, kernel_size).taps * in_type.channels * out_type.channels


def fourier_products(in_type: FieldType, out_type: FieldType, kernel_size: Size = None) -> int:
    """The number of products per pixel in the basis of irreps, where the map V ⊗ ρ_in → ρ_out is block diagonal.

    With nᵢ copies of irrep i coming in and mᵢ going out they are Σ sᵢ dᵢ nᵢ mᵢ; for D4 the change of basis is
    additions only.
    """
    group, space = in_type.group, _space(in_type, out_type, kernel_size)
    incoming = multiplicities(group, product(space.representation.character, in_type.character))
    return sum(
        irrep.commutant_dim * irrep.dim * n * m
        for irrep, n, m in zip(group.irreps_of(incoming), incoming, out_type.type, strict=False)
    )


def _space(
    in_type: FieldType, out_type: FieldType, kernel_size: Size, filters: FilterSpace | None = None
) -> FilterSpace:
    for given in (in_type, out_type):
        expect(given, FieldType, "field types such as FieldType(dihedral(4), '2*regular')")
    if in_type.group != out_type.group:
        raise TypeError(
            f"a filter bank maps between fields of one group; got `{in_type}` of {in_type.group.name} and "
            f"`{out_type}` of {out_type.group.name}. Restrict one of them first."
        )
    if kernel_size is None:
        kernel_size = filters.size if isinstance(filters, FilterSpace) else 3
    return chosen_space(in_type.group, kernel_size, filters)
