"""Homomorphisms between finite groups: inclusions of subgroups, and all maps from one group to another."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from steerable.algebra.arrays import IntArray
from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup, finite_group
from steerable.algebra.metrics import TOLERANCE

__all__ = ["Homomorphism", "homomorphisms", "inclusion"]


@dataclass(frozen=True)
class Homomorphism:
    """A map φ with φ(ab) = φ(a)φ(b), checked when it is made.

    Args:
        source: the group it starts from.
        target: the group it goes to.
        images: for each element of ``source``, in order, its image in ``target``.
    """

    source: FiniteGroup
    target: FiniteGroup
    images: tuple[str, ...]

    def __post_init__(self) -> None:
        if len(self.images) != self.source.order:
            raise ValueError(
                f"a map from {self.source.name} has {self.source.order} images, one per element; got "
                f"{len(self.images)}."
            )
        failing = _failing_pair(self.source, self.target, self.indices)
        if failing is not None:
            a, b = failing
            raise ValueError(
                f"the map from {self.source.name} to {self.target.name} is not a homomorphism: the image of "
                f"`{a}`·`{b}` = `{self.source.multiply(a, b)}` is not the product of the images `{self(a)}` and "
                f"`{self(b)}`."
            )

    def __call__(self, element: str) -> str:
        return self.images[self.source.index(element)]

    @property
    def indices(self) -> IntArray:
        """(source.order,): the images as indices of target elements."""
        return self.target.indices(self.images)

    @property
    def kernel(self) -> tuple[str, ...]:
        """The elements that are sent to the identity."""
        return tuple(
            g for g, image in zip(self.source.elements, self.images, strict=True) if image == self.target.identity
        )

    @property
    def image(self) -> tuple[str, ...]:
        """The elements of the target that are reached; they are a subgroup."""
        return tuple(g for g in self.target.elements if g in set(self.images))

    @property
    def is_injective(self) -> bool:
        return len(self.kernel) == 1

    @property
    def is_surjective(self) -> bool:
        return len(self.image) == self.target.order


def homomorphisms(source: FiniteGroup, target: FiniteGroup) -> tuple[Homomorphism, ...]:
    """All homomorphisms; with ``target = G.subgroup(...)`` the maps of G onto or into that subgroup.

    >>> from steerable import cyclic, dihedral
    >>> len(homomorphisms(dihedral(4), cyclic(2)))
    4
    """
    source, target = finite_group(source), finite_group(target)
    generators = source.indices(source.generators)
    words = source.words(generators)
    # An image's order divides the generator's: this prunes most candidates before any is tried.
    candidates = [np.flatnonzero(source.element_orders[g] % target.element_orders == 0) for g in generators]
    found = []
    for choice in itertools.product(*candidates):
        images = np.empty(source.order, dtype=np.intp)
        images[source.identity_index] = target.identity_index
        for element, parent, step in words:
            images[element] = target.table[images[parent], choice[step]]
        if _failing_pair(source, target, images) is None:
            found.append(Homomorphism(source, target, tuple(target.elements[i] for i in images)))
    return tuple(found)


def inclusion(subgroup: Group, group: Group, embedding: Mapping[str, str] | None = None) -> Homomorphism:
    """The injective map of one finite group into another.

    Without ``embedding`` (subgroup's element → group's element) elements are matched by how they move the plane or
    space: C2's ``r`` is D4's ``r2``. If one of the groups is abstract, or several elements move the plane or space
    alike, elements are matched by name.
    """
    subgroup, group, candidates = finite_group(subgroup), finite_group(group), []
    if embedding is not None:
        missing = [g for g in subgroup.elements if g not in embedding]
        if missing:
            raise ValueError(f"the embedding of {subgroup.name} into {group.name} leaves out `{missing[0]}`.")
        candidates.append(tuple(embedding[g] for g in subgroup.elements))
    else:
        # Where both move the same space, that decides: an element called m may be another mirror.
        alike = _moved_alike(subgroup, group)
        named = all(g in group for g in subgroup.elements)
        if named and alike[np.arange(subgroup.order), group.indices(subgroup.elements)].all():
            candidates.append(subgroup.elements)
        elif (alike.sum(axis=1) == 1).all():
            candidates.append(tuple(group.elements[i] for i in alike.argmax(axis=1)))
    for images in candidates:
        indices = group.indices(images)
        if len(set(images)) == len(images) and _failing_pair(subgroup, group, indices) is None:
            return Homomorphism(subgroup, group, images)
    reason = (
        "neither the elements' names nor their action on the plane or space agree with a subgroup"
        if group.action is None or group.acts_faithfully
        else "the elements' names do not agree with a subgroup, and several elements move the plane or space alike"
    )
    raise ValueError(
        f"{subgroup.name} is not recognised as a subgroup of {group.name}: {reason}. Take it from "
        f"{group.name}.subgroup([...]), or pass embedding={{element of {subgroup.name}: element of {group.name}}}."
    )


def _moved_alike(subgroup: FiniteGroup, group: FiniteGroup) -> NDArray[np.bool_]:
    """(subgroup.order, group.order): the pairs that move space alike; all, if the two do not move the same space."""
    if subgroup.action is None or group.action is None or subgroup.action.shape[1:] != group.action.shape[1:]:
        return np.ones((subgroup.order, group.order), dtype=np.bool_)
    distance = np.abs(subgroup.action[:, None] - group.action[None]).max(axis=(2, 3))
    return np.asarray(distance <= TOLERANCE)


def _failing_pair(source: FiniteGroup, target: FiniteGroup, images: IntArray) -> tuple[str, str] | None:
    for s in source.indices(source.generators):
        wrong = images[source.table[:, s]] != target.table[images, images[s]]
        if wrong.any():
            return source.elements[int(np.argmax(wrong))], source.elements[s]
    if source.order == 1 and images[0] != target.identity_index:
        return source.identity, source.identity
    return None
