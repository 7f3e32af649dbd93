"""The one warning that rotations by other angles than the pixel grid's are approximate, and how far they are."""

from __future__ import annotations

import warnings

from steerable.errors import frames_to_caller, listing
from steerable.filters.pixel_grids import size_text
from steerable.filters.spaces import FilterSpace
from steerable.nn.sampling import EquivarianceWarning

__all__ = ["warn_of_angles_off_the_grid"]

_told: list[str] = []  # names of groups; not empty once the warning has been given in this process


def warn_of_angles_off_the_grid(layer_name: str, space: FilterSpace) -> None:
    """Say once per process which elements a layer is exact for, and how much of its filters does not turn."""
    if space.exact or _told:
        return
    _told.append(space.group.name)
    leaks = space.leaks
    far = "an unknown share" if leaks is None else f"up to {100 * float(leaks.max()):.2g} %"
    images, pixel, carried = "images", "pixel", listing(space.carried)
    if space.group.axes == 3:
        images, pixel = "volumes", "voxel"
        carried = f"the {len(space.carried)} of its elements that map voxels onto voxels"
    warnings.warn(
        f"{layer_name}: {space.group.name} turns {images} by angles that the {pixel} grid does not carry. The layer "
        f"is exactly equivariant to {carried}; for the other elements it is approximate: of what its "
        f"{size_text(space.size)} filters do to band-limited {images}, {far} does not turn as it should. "
        "`filter_space` makes filters with a smaller leak. This warning is shown once, whatever the number of layers.",
        EquivarianceWarning,
        stacklevel=frames_to_caller(),
    )
