"""All figures of a group, written to a folder."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from steerable.algebra.group_interface import Group
from steerable.figures.diagrams import filter_bank_figure, steering_figure
from steerable.figures.fibres import feature_maps_figure, induced_figure
from steerable.figures.filters import check_planar, filter_poses_figure, kernel_basis_figure, patch_basis_figure
from steerable.figures.steering import paper_capsule
from steerable.figures.style import save
from steerable.figures.tables import character_table_figure, irreps_figure, multiplication_table_figure

__all__ = ["OF_A_GROUP", "OF_PIXELS", "write_figures"]

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


def write_figures(out: str | Path, group: Group, *, formats: tuple[str, ...] = ("png", "svg")) -> list[Path]:
    """Draw all figures of a group and write each in the given formats; returns the files.

    Groups that do not map the pixel grid of a plane onto itself, such as C8 or O, have the first three only.
    """
    out = Path(out)
    if out.exists() and not out.is_dir():
        raise ValueError(f"`{out}` is a file; figures are written into a folder. Give a folder's name.")
    unknown = [name for name in formats if name not in ("png", "svg")]
    if unknown or not formats:
        raise ValueError(f"figures are written as png, svg or both; got {', '.join(unknown) or 'no format'}.")
    wanted = dict(OF_A_GROUP)
    try:
        check_planar(group)
    except ValueError:
        pass
    else:
        wanted |= OF_PIXELS
    drawn = {name: draw(group) for name, draw in wanted.items()}
    return [save(figure, out / f"{name}.{ending}") for name, figure in drawn.items() for ending in formats]
