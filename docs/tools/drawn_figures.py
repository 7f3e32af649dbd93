"""The figures of the pages, drawn from what the library computes: `make figures` writes them into `docs/figures`.

They are kept in the repository, so that a page shows them wherever it is read. A test draws them again and compares.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from matplotlib.figure import Figure

from steerable import cyclic, dihedral
from steerable.figures import save
from steerable.figures.gallery import OF_A_GROUP, OF_PIXELS, OF_TURNED_FILTERS

__all__ = ["FIGURES", "FOLDER", "write"]

FOLDER = Path(__file__).resolve().parents[1] / "figures"

FIGURES: Mapping[str, Callable[[], Figure]] = {
    "multiplication_table": lambda: OF_A_GROUP["multiplication_table"](dihedral(4)),
    "irreps": lambda: OF_A_GROUP["irreps"](dihedral(4)),
    "steering": lambda: OF_PIXELS["steering"](dihedral(4)),
    "induced_representation": lambda: OF_PIXELS["induced_representation"](dihedral(4)),
    "basis_filters": lambda: OF_PIXELS["basis_filters"](dihedral(4)),
    "capsule_filters": lambda: OF_PIXELS["capsule_filters"](dihedral(4)),
    "steerable_filters": lambda: OF_TURNED_FILTERS["steerable_filters"](cyclic(8)),
}
"""By file name."""


def write(folder: Path = FOLDER) -> None:
    """Draw all of them into a folder."""
    for name, draw in FIGURES.items():
        save(draw(), folder / f"{name}.png")


if __name__ == "__main__":
    write()
