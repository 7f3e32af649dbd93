"""Warnings, each given once, that rotations by angles other than the pixel grid's are approximate, and by how much."""

from __future__ import annotations

import warnings

from steerable.errors import frames_to_caller, listing
from steerable.filters.pixel_grids import size_text
from steerable.filters.spaces import FilterSpace
from steerable.nn.sampling import EquivarianceWarning

__all__ = ["warn_of_angles_off_the_grid", "warn_of_gaps_off_the_grid"]

_told: list[str] = []  # which of the warnings have been given in this process


def warn_of_angles_off_the_grid(layer_name: str, space: FilterSpace) -> None:
    """Say once per process for which elements a layer is exact, and what share of its filters does not turn."""
    if space.exact:
        return
    leaks = space.leaks
    far = "an unknown share" if leaks is None else f"up to {100 * float(leaks.max()):.2g} %"
    images, pixel, carried = "images", "pixel", listing(space.carried)
    if space.group.axes == 3:
        images, pixel = "volumes", "voxel"
        carried = f"the {len(space.carried)} of its elements that map voxels onto voxels"
    _warn_once(
        "angles",
        f"{layer_name}: {space.group.name} turns {images} by angles that the {pixel} grid does not carry. The layer "
        f"is exactly equivariant to {carried}; for the other elements it is approximate: of what its "
        f"{size_text(space.size)} filters do to band-limited {images}, {far} does not turn as it should. "
        "`filter_space` makes filters with a smaller leak.",
    )


def warn_of_gaps_off_the_grid(layer_name: str, space: FilterSpace, stride: tuple[int, ...]) -> None:
    """Say once per process that strided filters which enlarge a field do not turn well."""
    if space.exact or max(stride) == 1:
        return
    images, pixel, mode = ("volumes", "voxel", "tri") if space.group.axes == 3 else ("images", "pixel", "bi")
    axes = len(stride)
    _warn_once(
        "gaps",
        f"{layer_name} with stride {stride}: {space.group.name} turns {images} by angles that the {pixel} grid does "
        f"not carry, and each {pixel} of the larger {images} sees other taps than its neighbours, so that such a turn "
        "may change the result by half of it or more, whatever the filters' leaks. Enlarge smoothly instead, with "
        f"snn.Upsample(t, {max(stride)}, '{mode}linear') before or after a Conv{axes}d.",
    )


def _warn_once(which: str, message: str) -> None:
    if which not in _told:
        _told.append(which)
        shown = f"{message} This warning is shown once, whatever the number of layers."
        warnings.warn(shown, EquivarianceWarning, stacklevel=frames_to_caller())
