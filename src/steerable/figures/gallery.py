"""All figures of a group, written to a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from steerable.algebra.group_interface import Group
from steerable.algebra.groups import FiniteGroup
from steerable.figures.diagrams import filter_bank_figure, steering_figure
from steerable.figures.fibres import feature_maps_figure, induced_figure
from steerable.figures.filter_spaces import filter_space_figure
from steerable.figures.filters import check_grid, filter_poses_figure, kernel_basis_figure, patch_basis_figure
from steerable.figures.steering import paper_capsule
from steerable.figures.style import save
from steerable.figures.tables import character_table_figure, irreps_figure, multiplication_table_figure
from steerable.filters import filter_space

__all__ = ["OF_ALL_ROTATIONS", "OF_A_GROUP", "OF_PIXELS", "OF_TURNED_FILTERS", "OF_VOXELS", "write_figures"]

OF_A_GROUP: Mapping[str, Callable[[Group], Figure]] = {
    "multiplication_table": multiplication_table_figure,
    "character_table": character_table_figure,
    "irreps": irreps_figure,
}
"""Figures that every finite group has, by file name."""

OF_PIXELS: Mapping[str, Callable[[Group], Figure]] = {
    "feature_maps_and_fibres": feature_maps_figure,
    "steering": steering_figure,
    "filter_bank": filter_bank_figure,
    "induced_representation": induced_figure,
    "basis_filters": patch_basis_figure,
    "capsule_filters": lambda group: kernel_basis_figure(paper_capsule(group), group.capsule(str(group.irreps[-1]))),
    "filter_in_every_pose": lambda group: filter_poses_figure(group.capsule("trivial"), paper_capsule(group), number=0),
}
"""Figures of groups that map the pixel grid onto itself."""

OF_VOXELS: Mapping[str, Callable[[Group], Figure]] = {
    "basis_filters": patch_basis_figure,
    "capsule_filters": lambda group: kernel_basis_figure(
        group.capsule("trivial"), group.capsule(str(group.irreps[-1]))
    ),
    "filter_in_every_pose": lambda group: filter_poses_figure(
        group.capsule("trivial"), group.capsule(str(group.irreps[-1]))
    ),
}
"""Figures of groups that map the voxels of a cube onto each other."""

OF_TURNED_FILTERS: Mapping[str, Callable[[Group], Figure]] = {
    "steerable_filters": lambda group: filter_space_figure(filter_space(group, 5)),
    "capsule_filters": OF_PIXELS["capsule_filters"],
    "filter_in_every_pose": lambda group: filter_poses_figure(  # number 3 is the first that turns
        group.capsule("trivial"), paper_capsule(group), 5, number=3
    ),
}
"""Figures of groups that turn the plane by angles that the pixel grid does not carry."""


OF_ALL_ROTATIONS: Mapping[str, Callable[[Group], Figure]] = {
    "steerable_filters": OF_TURNED_FILTERS["steerable_filters"],
    "capsule_filters": lambda group: kernel_basis_figure(group.capsule("regular(1)"), group.capsule("E1"), 5),
}
"""Figures of SO(2) and O(2), whose elements and irreps no table can list."""


def write_figures(out: str | Path, group: Group, *, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Draw all figures of a group and write each in the given formats; returns the files.

    Every finite group has its tables and irreps. Groups that turn the plane by other angles than 90°, such as C8, also
    have their filters, with the leak of each; SO(2) and O(2) have these alone. Of groups of space that map voxels onto
    voxels, such as O, filters are drawn as slices.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"`{out}` is a file; figures are written into a folder. Give a folder's name.")
    unknown = [name for name in formats if name not in ("png", "svg")]
    if unknown or not formats:
        raise ValueError(f"figures are written as png, svg or both; got {', '.join(unknown) or 'no format'}.")
    drawn = {name: draw(group) for name, draw in _figures_of(group).items()}
    return [save(figure, out / f"{name}.{ending}") for name, figure in drawn.items() for ending in formats]


def _figures_of(group: Group) -> Mapping[str, Callable[[Group], Figure]]:
    if not isinstance(group, FiniteGroup):
        if group.axes != 2:
            raise ValueError(
                f"no figure is drawn of {group.name}: it has infinitely many elements, and its filters for volumes are "
                "not drawn. Draw a finite group of space, such as O or I."
            )
        return OF_ALL_ROTATIONS
    try:
        check_grid(group, planar=False)
    except ValueError:
        return {**OF_A_GROUP, **OF_TURNED_FILTERS} if group.axes == 2 else OF_A_GROUP
    return {**OF_A_GROUP, **(OF_PIXELS if group.axes == 2 else OF_VOXELS)}
