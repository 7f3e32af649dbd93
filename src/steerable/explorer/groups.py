"""The groups that the page offers, with their capsules."""

from __future__ import annotations

from steerable.algebra.capsules import Capsule
from steerable.algebra.examples import capsules_to_show, elements_to_show
from steerable.algebra.families import group_named
from steerable.algebra.group_interface import Element, Group
from steerable.algebra.sampled_functions import is_sampled
from steerable.errors import did_you_mean

__all__ = [
    "FILTER_GROUPS",
    "GROUPS",
    "PLANAR_GROUPS",
    "admitted",
    "capsule_names",
    "checked_group",
    "element_named",
    "filter_group",
    "planar_group",
]

PLANAR_GROUPS = ("C1", "C2", "C3", "C4", "C6", "C8", "C16", "D1", "D2", "D3", "D4", "D6", "D8", "SO2", "O2")
"""Those that move pictures; C1, C2, C4, D1, D2 and D4 map pixels onto pixels."""
GROUPS = (*PLANAR_GROUPS, "O", "O_h")
FILTER_GROUPS = (*PLANAR_GROUPS, "C4 about z", "D4 about z", "T", "O")
"""Those whose filters are shown: of pictures, and of volumes as slices."""


def checked_group(name: str) -> Group:
    """The group of this name, if the page offers it: larger ones would keep the server busy for too long."""
    if name not in (*GROUPS, *FILTER_GROUPS):
        raise ValueError(f"the page has no group `{name}`. {did_you_mean(str(name), GROUPS)}")
    return group_named(name)


def filter_group(name: str) -> Group:
    """The same for a group whose filters are shown."""
    if name not in FILTER_GROUPS:
        raise ValueError(f"filters are shown of {', '.join(FILTER_GROUPS)}; got `{name}`.")
    return checked_group(name)


def planar_group(name: str) -> Group:
    """The same for a group that moves pictures."""
    if name not in PLANAR_GROUPS:
        raise ValueError(f"pictures and their filters are moved by {', '.join(PLANAR_GROUPS)}; got `{name}`.")
    return checked_group(name)


def capsule_names(group: str) -> list[str]:
    """The names of a group's capsules; for an infinite group, of the first ones."""
    return list(capsules_to_show(checked_group(group)))


def element_named(group: Group, name: str) -> Element:
    """The element of this name, among those that the page offers."""
    offered = elements_to_show(group)
    if name not in offered:
        raise ValueError(f"the page shows no element `{name}` of {group.name}. {did_you_mean(str(name), offered)}")
    return offered[name]


def admitted(capsule: Capsule) -> str:
    """The nonlinearities that a capsule admits, in a few words."""
    if capsule.admits("pointwise"):
        return "any nonlinearity"
    return ", ".join([*capsule.nonlinearities, *(["Fourier"] if is_sampled(capsule) else [])]) or "none"
