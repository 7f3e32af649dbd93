"""Whole networks over a subgroup: the same function, saved and loaded as the network that it was made from."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Sequence
from typing import Any, Self

import torch
from torch import nn

from steerable.algebra.families import group_named, is_named
from steerable.algebra.group_interface import Group
from steerable.algebra.homomorphisms import inclusion
from steerable.nn.plain import without_acceleration
from steerable.types.shared_subgroups import subgroup_of

__all__ = ["Restrictable", "Steps", "step_text"]

Steps = str | Sequence[str] | None
"""Subgroups, one after the other, each by its name or by its elements, ``"e, m"``."""


class Restrictable(nn.Module):
    """A network with :meth:`restrict`. A subclass says in ``restrict_parts`` what becomes of its parts."""

    group: Group

    def restrict(self, subgroup: Iterable[str] | Group) -> Self:
        """The same function over a subgroup: fewer promises, more parameters to learn.

        Its filters are those of the subgroup's larger space, set such that the scores stay the same up to rounding.
        It is saved and loaded like any other network. This network stays as it is.

        Args:
            subgroup: its name, such as ``"C4"``, or its elements, or the subgroup itself.

        >>> from steerable.models import resnet
        >>> net = resnet(8, 1, head="max")
        >>> [sum(p.numel() for p in network.parameters()) for network in (net, net.restrict("C4"))]
        [11084, 20521]
        """
        step = step_text(self.group, subgroup)
        twin = without_acceleration(copy.deepcopy(self))
        twin.restrict_in_steps([step])
        config: dict[str, Any] | None = getattr(self, "_hub_mixin_config", None)
        if config is not None:
            twin._hub_mixin_config = {**config, "restricted_to": [*_listed(config.get("restricted_to")), step]}  # type: ignore[assignment]
        return twin

    @torch.no_grad()
    def restrict_in_steps(self, steps: Steps) -> None:
        """Make this network one over a subgroup, in place."""
        for step in _listed(steps):
            subgroup = group_named(step) if _is_name(step) else subgroup_of(self.group, step.replace(",", " ").split())
            self.restrict_parts(subgroup)

    def restrict_parts(self, subgroup: Group) -> None:
        raise TypeError(f"{type(self).__name__} does not say what becomes of its parts over {subgroup.name}.")


def step_text(group: Group, subgroup: Iterable[str] | Group) -> str:
    """A subgroup as text for a config: its name if it has one, else its elements.

    >>> from steerable import dihedral
    >>> step_text(dihedral(4), ["e", "mr"]), step_text(dihedral(8), "C4")
    ('e, mr', 'C4')
    """
    smaller = subgroup_of(group, subgroup)
    if is_named(smaller):
        return smaller.name
    return ", ".join(inclusion(smaller, group).images)


def _is_name(text: str) -> bool:
    try:
        group_named(text)
    except ValueError:
        return False
    return True


def _listed(steps: Steps) -> list[str]:
    return [] if steps is None else [steps] if isinstance(steps, str) else list(steps)
