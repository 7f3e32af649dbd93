"""What the figures show is what the library computes: the arrays are read back out of the drawings."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure
from numpy.typing import NDArray

import steerable as st
from steerable import figures
from steerable.algebra.families import group_named
from steerable.figures.filters import moved_filter
from steerable.figures.steering import Steering, paper_capsule, random_bank

PLANAR = ("C1", "C2", "C4", "D1", "D2", "D4")
FloatArray = NDArray[np.float64]


def axes_of(figure: Figure, label: str) -> Axes:
    (found,) = [axes for axes in figure.axes if axes.get_label() == label]
    return found


def shown(figure: Figure, label: str) -> FloatArray:
    (image,) = axes_of(figure, label).images
    return np.ma.filled(np.ma.asarray(image.get_array(), dtype=np.float64), np.nan)


def tiles(sheet: FloatArray, rows: int, columns: int) -> FloatArray:
    """(rows, columns, height, width) of a mosaic with gaps of one."""
    height, width = (sheet.shape[0] + 1) // rows, (sheet.shape[1] + 1) // columns
    parts = [
        [sheet[i * height : (i + 1) * height - 1, j * width : (j + 1) * width - 1] for j in range(columns)]
        for i in range(rows)
    ]
    return np.array(parts)


@pytest.mark.parametrize("name", ["C1", "C3", "D4", "D8", "O"])
def test_tables_show_the_group(name: str) -> None:
    group = group_named(name)
    np.testing.assert_array_equal(shown(figures.multiplication_table_figure(group), "products"), group.table)
    table = st.character_table(group)
    np.testing.assert_array_equal(shown(figures.character_table_figure(group), "characters"), table.values)
    drawing = figures.irreps_figure(group)
    for irrep in group.irreps:
        sheet = shown(drawing, str(irrep))
        np.testing.assert_array_equal(tiles(sheet, 1, group.order)[0], irrep.matrices)


@pytest.mark.parametrize("name", ["T", "O"])
def test_filters_of_volumes_are_drawn_as_slices(name: str) -> None:
    group = group_named(name)
    source, target = group.capsule("trivial"), group.capsule(str(group.irreps[-1]))
    kernel = st.kernel_basis(source.representation, target.representation, 3)[0]
    poses = figures.filter_poses_figure(source, target, 3)
    np.testing.assert_allclose(tiles(shown(poses, "moved e"), target.dim, 3), kernel[:, 0], atol=1e-12)
    for element in group.elements:
        np.testing.assert_allclose(shown(poses, f"moved {element}"), shown(poses, f"mixed {element}"), atol=1e-12)


@pytest.mark.parametrize("name", [*PLANAR, "T", "O"])
def test_the_patch_is_drawn_in_the_basis_that_block_diagonalises_it(name: str) -> None:
    group = group_named(name)
    drawing = figures.patch_basis_figure(group, 3)
    patch = st.pixel_patch(group, 3)
    labels, slices = [str(axes.get_label()) for axes in drawing.axes], patch.dim // 9
    filters = {label: tiles(shown(drawing, label), 1, slices).ravel() for label in labels}
    assert len(filters) == patch.dim
    for irrep, copies in zip(group.irreps, patch.type, strict=True):
        for copy in range(copies):
            columns = np.stack([filters[f"{irrep} {copy} {k}"] for k in range(irrep.dim)], axis=1)
            for element in group.elements:  # π(g) mixes the filters of one card by the irrep's own matrix
                np.testing.assert_allclose(patch(element) @ columns, columns @ irrep(element), atol=1e-12)


@pytest.mark.parametrize(("source", "target"), [("A1", "E"), ("qm", "E"), ("E", "regular")])
def test_filters_between_capsules_are_the_kernel_basis(source: str, target: str) -> None:
    group = st.dihedral(4)
    a, b = group.capsule(source), group.capsule(target)
    drawing = figures.kernel_basis_figure(a, b, 3)
    basis = st.kernel_basis(a.representation, b.representation, 3)
    assert len(drawing.axes) == len(basis)
    for k, kernel in enumerate(basis):
        np.testing.assert_array_equal(tiles(shown(drawing, f"ψ {k}"), b.dim, a.dim), kernel)


def test_a_long_list_of_filters_is_cut_and_says_so() -> None:
    regular = st.dihedral(4).capsule("regular")
    drawing = figures.kernel_basis_figure(regular, regular, 3, limit=4)
    assert len(drawing.axes) == 4
    assert any("72 of them, the first 4 drawn" in text.get_text() for text in drawing.texts)


def test_no_filter_is_said_in_words() -> None:
    group = st.dihedral(4)
    drawing = figures.kernel_basis_figure(group.capsule("A1"), group.capsule("A2"), 3)
    assert drawing.axes == []
    assert any("there are none" in text.get_text() for text in drawing.texts)


@pytest.mark.parametrize(
    ("name", "source", "target"),
    [("D4", "qm", "E"), ("C4", "E", "regular"), ("D2", "A1", "qm"), ("C8", "E1", "E2"), ("D6", "A1", "regular")],
)
def test_both_rows_of_the_poses_are_equal(name: str, source: str, target: str) -> None:
    group = group_named(name)
    a, b = group.capsule(source), group.capsule(target)
    drawing = figures.filter_poses_figure(a, b, 3, number=1)
    kernel = st.kernel_basis(a.representation, b.representation, 3)[1]
    np.testing.assert_allclose(tiles(shown(drawing, "moved e"), b.dim, a.dim), kernel, atol=1e-12)
    for element in group.elements:
        np.testing.assert_allclose(shown(drawing, f"moved {element}"), shown(drawing, f"mixed {element}"), atol=1e-12)
    # A bank that is not an intertwiner would be seen: its two rows differ.
    other = np.random.default_rng(0).normal(size=kernel.shape)
    g = group.elements[1]
    mixed = np.tensordot(b.representation(group.inverse(g)), other, axes=1)
    assert np.abs(moved_filter(other, a.representation, g) - mixed).max() > 0.1


@pytest.mark.parametrize("name", PLANAR)
def test_every_path_of_the_steering_diagram_ends_in_the_same_place(name: str) -> None:
    group = group_named(name)
    capsule = paper_capsule(group)
    drawing = figures.steering_figure(group, picture_size=9)
    g = next(iter(group.generators), "e")
    steering = Steering(shown(drawing, "f 0"), random_bank(capsule, 5), capsule)
    across = int(np.ceil(np.sqrt(capsule.dim)))
    for k, element in enumerate(("e", g, group.multiply(g, g))):
        sheet = shown(drawing, f"Φ {k}")
        steered = steering.moved_features(element)  # π'(g) Φ f, without Φ π(g) f
        for channel, expected in enumerate(steered):
            row, column = divmod(channel, across)
            drawn = sheet[10 * row : 10 * row + 9, 10 * column : 10 * column + 9]
            np.testing.assert_allclose(drawn, expected, atol=1e-12)
    assert np.array_equal(shown(drawing, "f 1"), steering.picture) == (group.order == 1)


def test_the_filter_bank_turns_a_moved_patch_into_a_mixed_fibre() -> None:
    group = st.dihedral(4)
    for element in ("r", "m", "mr"):
        drawing = figures.filter_bank_figure(group, element)
        bank = np.stack([shown(drawing, f"filter {k}") for k in range(4)])
        fibre, moved = shown(drawing, "fibre e")[:, 0], shown(drawing, "fibre g")[:, 0]
        np.testing.assert_allclose(np.tensordot(bank, shown(drawing, "patch g")), moved, atol=1e-12)
        np.testing.assert_allclose(group.capsule("qm").representation(element) @ fibre, moved, atol=1e-12)
        assert np.abs(fibre - moved).max() > 0.01


def field(figure: Figure, label: str, shape: tuple[int, ...]) -> FloatArray:
    (collection,) = axes_of(figure, label).collections
    assert isinstance(collection, PolyCollection)
    return np.asarray(collection.get_array(), dtype=np.float64).reshape(shape)


def test_maps_and_fibres_show_the_same_numbers() -> None:
    drawing = figures.feature_maps_figure(st.dihedral(4))
    maps, fibres = (field(drawing, name, (4, 5, 5)) for name in ("maps", "fibres"))
    np.testing.assert_array_equal(maps, fibres)
    assert np.abs(maps).max() > 0


def test_the_induced_representation_moves_pixels_and_then_mixes() -> None:
    group = st.dihedral(4)
    drawing = figures.induced_figure(group, "mr")
    f, moved, steered = (field(drawing, name, (4, 25)) for name in ("f", "f moved", "π(g) f"))
    np.testing.assert_array_equal(moved, f @ st.pixel_patch(group, 5)("mr").T)
    np.testing.assert_allclose(steered, group.capsule("qm").representation("mr") @ moved, atol=1e-12)


@pytest.mark.parametrize("element", ["r", "m", "mr3"])
@pytest.mark.parametrize("picture", [figures.letter_picture, figures.sailing_boat])
def test_the_pictures_have_no_symmetry(picture: object, element: str) -> None:
    assert callable(picture)
    image = picture(16)
    patch = st.pixel_patch(st.dihedral(4), 16)(element)
    assert np.abs(patch @ image.reshape(256, -1) - image.reshape(256, -1)).max() > 0.5
    assert image.min() >= 0
    assert image.max() <= 1


def test_files_are_written_and_are_the_same_each_time(tmp_path: Path) -> None:
    first = figures.write_figures(tmp_path / "a", st.cyclic(2))
    second = figures.write_figures(tmp_path / "b", st.cyclic(2), formats=("svg",))
    assert len(first) == 20
    assert {path.suffix for path in first} == {".png", ".svg"}
    assert all(path.stat().st_size > 3000 for path in first)
    first = [path for path in first if path.suffix == ".svg"]
    for one, two in zip(first, second, strict=True):
        assert one.read_bytes() == two.read_bytes(), one


@pytest.mark.parametrize(("name", "filters"), [("C3", True), ("I", False), ("C8 abstractly", False)])
def test_every_group_has_its_tables_and_those_of_the_plane_their_filters(
    name: str, filters: bool, tmp_path: Path
) -> None:
    group = st.FiniteGroup(st.cyclic(8).elements, st.cyclic(8).table) if " " in name else group_named(name)
    names = [path.stem for path in figures.write_figures(tmp_path, group, formats=("svg",))]
    turned = ["steerable_filters", "capsule_filters", "filter_in_every_pose"]
    assert names == ["multiplication_table", "character_table", "irreps", *(turned if filters else [])]


def test_groups_of_voxels_have_their_filters(tmp_path: Path) -> None:
    names = [path.stem for path in figures.write_figures(tmp_path, st.tetrahedral(), formats=("svg",))]
    assert names[3:] == ["basis_filters", "capsule_filters", "filter_in_every_pose"]


@pytest.mark.parametrize("group", [st.so2(), st.o2()], ids=lambda group: group.name)
def test_groups_of_all_rotations_have_their_filters(group: st.Group, tmp_path: Path) -> None:
    written = figures.write_figures(tmp_path, group, formats=("svg",))
    assert [path.stem for path in written] == ["steerable_filters", "capsule_filters"]
    with pytest.raises(ValueError, match="no figure is drawn of SO3: it has infinitely many elements"):
        figures.write_figures(tmp_path / "none", st.so3())
    assert not (tmp_path / "none").exists()


@pytest.mark.parametrize(
    "space", [st.filter_space(st.cyclic(8), 5), st.filter_space(st.dihedral(6), 4, 0.1), st.ring_space(st.cyclic(3), 7)]
)
def test_filters_off_the_grid_are_drawn_with_their_leaks(space: st.FilterSpace) -> None:
    drawing = figures.filter_space_figure(space)
    drawn = {str(axes.get_label()): shown(drawing, str(axes.get_label())) for axes in drawing.axes}
    assert len(drawn) == space.dim
    numbers: dict[int, int] = {}
    for found in space.harmonics:
        k = numbers.setdefault(found.frequency, 0)
        numbers[found.frequency] += 1
        for c, taps in enumerate(found.taps.T):
            np.testing.assert_array_equal(drawn[f"{found.frequency} {k} {c}"], taps.reshape(space.size))
    texts = [text.get_text() for text in drawing.texts]
    written = sorted(float(t.removeprefix("leak ").removesuffix(" %")) for t in texts if t.startswith("leak"))
    np.testing.assert_allclose(written, sorted(100 * f.leak for f in space.harmonics), rtol=0.06, atol=1e-4)
    assert {t for t in texts if t.startswith("m = ")} == {f"m = {m}" for m in numbers}


@pytest.mark.parametrize(("name", "source", "target"), [("C8", "A", "E1"), ("D6", "E1", "E2"), ("C3", "A", "regular")])
def test_filters_between_capsules_off_the_grid_say_how_they_turn(name: str, source: str, target: str) -> None:
    group = group_named(name)
    space, a, b = st.filter_space(group, 5, 0.02), group.capsule(source), group.capsule(target)
    drawing = figures.kernel_basis_figure(a, b, space)
    basis = st.kernel_basis(a.representation, b.representation, space)
    assert len(basis) == len(drawing.axes) > 1
    for k, kernel in enumerate(basis):
        np.testing.assert_array_equal(tiles(shown(drawing, f"ψ {k}"), b.dim, a.dim), kernel)
        used = np.abs(np.linalg.pinv(space.sampling) @ kernel.reshape(-1, space.taps).T).max(axis=1) > 1e-9
        assert space.frequencies is not None
        (m,) = set(space.frequencies[used].tolist())  # each filter of a basis has one frequency
        assert axes_of(drawing, f"ψ {k}").get_title().startswith(f"ψ{k + 1}  m = {m}, leak ")


def test_an_untitled_filter_has_no_leak() -> None:
    group = st.dihedral(4)
    drawing = figures.kernel_basis_figure(group.capsule("A1"), group.capsule("E"), 3)
    assert [axes.get_title() for axes in drawing.axes] == ["ψ1", "ψ2"]


def test_mistakes_are_refused_in_words(tmp_path: Path) -> None:
    group = st.dihedral(4)
    with pytest.raises(ValueError, match="`r` of C8 does not map the 3×3 pixel grid onto itself"):
        figures.patch_basis_figure(st.cyclic(8))
    with pytest.raises(ValueError, match="O acts on space, and a figure shows filters of the plane"):
        figures.steering_figure(st.octahedral())
    with pytest.raises(ValueError, match="the filters of `3×3 patch` of D4 have no angular frequencies"):
        figures.filter_space_figure(st.pixel_space(group, 3))
    with pytest.raises(TypeError, match=r"expected a capsule, such as dihedral\(4\)"):
        figures.kernel_basis_figure("qm", group.capsule("E"))  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="a filter bank maps between fields of one group; got D4 and C4"):
        figures.kernel_basis_figure(group.capsule("qm"), st.cyclic(4).capsule("E"))
    with pytest.raises(ValueError, match="there are 2 filters from `A1` to `E`, numbered from 0; got number 2"):
        figures.filter_poses_figure(group.capsule("A1"), group.capsule("E"), 3, number=2)
    with pytest.raises(ValueError, match=r"written as .png or .svg; got `x.pdf`"):
        figures.save(figures.irreps_figure(group), tmp_path / "x.pdf")
    with pytest.raises(ValueError, match="got pdf"):
        figures.write_figures(tmp_path, group, formats=("pdf",))
    with pytest.raises(ValueError, match="no equivariant 1×1 filter from grey images to `E` of D4"):
        random_bank(group.capsule("E"), 1)
    (tmp_path / "file").write_text("")
    with pytest.raises(ValueError, match="file` is a file; figures are written into a folder"):
        figures.write_figures(tmp_path / "file", group)


def test_matplotlibs_own_settings_are_left_alone_by_several_threads() -> None:
    before = dict(matplotlib.rcParams)
    with matplotlib.rc_context({"image.cmap": "magma"}), ThreadPoolExecutor(4) as pool:
        drawn = list(pool.map(figures.character_table_figure, [st.cyclic(2), st.dihedral(2)] * 4))
        assert matplotlib.rcParams["image.cmap"] == "magma"
    assert dict(matplotlib.rcParams) == before
    assert {drawing.axes[0].images[0].get_cmap().name for drawing in drawn} == {"RdBu_r"}
