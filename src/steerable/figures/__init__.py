"""The paper's figures, drawn from what the library computes; needs matplotlib."""

from steerable.figures.diagrams import filter_bank_figure, steering_figure
from steerable.figures.fibres import feature_maps_figure, induced_figure
from steerable.figures.filter_spaces import filter_space_figure
from steerable.figures.filters import filter_poses_figure, kernel_basis_figure, patch_basis_figure
from steerable.figures.gallery import write_figures
from steerable.figures.pictures import letter_picture, sailing_boat
from steerable.figures.style import save
from steerable.figures.tables import character_table_figure, irreps_figure, multiplication_table_figure
from steerable.lazy import public_names

__dir__ = public_names(__name__)

__all__ = [
    "character_table_figure",
    "feature_maps_figure",
    "filter_bank_figure",
    "filter_poses_figure",
    "filter_space_figure",
    "induced_figure",
    "irreps_figure",
    "kernel_basis_figure",
    "letter_picture",
    "multiplication_table_figure",
    "patch_basis_figure",
    "sailing_boat",
    "save",
    "steering_figure",
    "write_figures",
]
