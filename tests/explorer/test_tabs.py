"""What the explorer's tabs compute and say, without a browser."""

from __future__ import annotations

import html
import re
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import steerable as st
from steerable.algebra.examples import elements_to_show
from steerable.algebra.families import group_named
from steerable.explorer.cost_tab import cost_page
from steerable.explorer.filters_tab import filter_count, filters_page, poses_page
from steerable.explorer.group_tab import group_page
from steerable.explorer.groups import GROUPS, PLANAR_GROUPS, capsule_names
from steerable.explorer.pictures import PICTURES, bundled_picture, uploaded_picture
from steerable.explorer.steer_tab import steer_page
from steerable.explorer.steering_run import IMAGE_SIZE, Comparison, compare
from steerable.explorer.uploads import Uploads
from steerable.types.convolution_costs import convolution_cost

ON_THE_GRID = ("C1", "C2", "C4", "D1", "D2", "D4")
INFINITE = ("SO2", "O2")
OFF_THE_GRID = tuple(name for name in PLANAR_GROUPS if name not in (*ON_THE_GRID, *INFINITE))
NO_UPLOADS = Uploads(Path("no-uploads"))


def words(page: str) -> str:
    """The page's text, as it is read."""
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", page)))


@pytest.mark.parametrize("name", [name for name in GROUPS if name not in INFINITE])
def test_a_group_is_shown_with_all_its_parts(name: str) -> None:
    page, group = group_page(name), group_named(name)
    text = words(page)
    assert f"{name} : {group.order} element" in text
    for title in ("Multiplication", "Characters", "Irreps", "Subgroups"):
        assert title in text
    for irrep in group.irreps:
        assert f"{irrep} dim {irrep.dim}" in text
    assert page.count("the boat under") == (group.order if name in PLANAR_GROUPS else 0)
    assert ("turn the picture by interpolation" in text) == (name in OFF_THE_GRID)
    assert "st-error" not in page


def test_the_subgroups_of_d4_give_the_capsules_of_the_papers_appendix() -> None:
    rows = re.findall(r"<tr>(.*?)</tr>", group_page("D4").split("Subgroups")[1])
    found = {words(row).split("} ")[1].split()[1]: words(row) for row in rows if "{e" in words(row)}
    assert set(found) == {"regular", "qm", "qmr", "qmr2", "qmr3", "r2", "r", "r2m", "r2mr", "A1"}
    assert "{e mr} 2 qmr 4 A1 + B2 + E any nonlinearity" in re.sub(r"\s+", " ", found["qmr"])


def test_costs_of_groups_that_turn_by_other_angles_are_those_of_their_default_filters() -> None:
    assert st.parameter_cost(st.FieldType(st.cyclic(8), "A"), st.FieldType(st.cyclic(8), "regular"), 5) == 13
    assert "<b>13</b>" in cost_page("C8", "A", "regular", 5, 32)


@pytest.mark.parametrize("name", INFINITE)
def test_all_rotations_are_shown_by_the_first_irreps_and_some_elements(name: str) -> None:
    group = group_named(name)
    page = group_page(name)
    text = words(page)
    assert f"{name} : every rotation" in text
    assert "infinitely many elements" in text
    assert page.count("the boat under") == len(elements_to_show(group)) >= 8
    assert ("E2 E1 + E3" if name == "SO2" else "E1 A1 + A2 + E2 E1 + E3") in text  # products
    for capsule in capsule_names(name):
        assert f"{capsule} {group.capsule(capsule).dim} " in text


@pytest.mark.parametrize("name", INFINITE)
def test_filters_costs_and_steering_of_all_rotations(name: str) -> None:
    group = group_named(name)
    count = st.parameter_cost(st.FieldType(group, "regular(1)"), st.FieldType(group, "E1"), 5)
    assert filter_count(name, "regular(1)", "E1", 5) == count
    page = filters_page(name, "regular(1)", "E1", 5)
    assert f"{count} equivariant 5×5 filters from regular(1) to E1" in words(page)
    assert "the filters, by angular frequency, with their leaks" in page
    assert "filter 2 in every pose" in poses_page(name, "A", "E1", 5, 2)
    assert f"<b>{count}</b>" in cost_page(name, "regular(1)", "E1", 5, 32)
    picture = bundled_picture("sailing boat", IMAGE_SIZE)
    for element, largest in ((group.rotation(90), 1e-12), (group.rotation(30), 0.1)):
        result = compare(picture, element, group.capsule("E1"))
        assert result.steerable.worst < largest < result.plain.worst
    assert "difference inside the disc" in words(
        steer_page(NO_UPLOADS, name, "regular(2)", "rotation(30)", "sailing boat", None, 16, 16)
    )
    unknown = steer_page(NO_UPLOADS, name, "E1", "rotation(31)", "sailing boat", None, 16, 16)
    assert f"the page shows no element `rotation(31)` of {name}" in unknown


@pytest.mark.parametrize("name", [name for name in PLANAR_GROUPS if name not in INFINITE])
def test_the_number_of_filters_is_the_papers_formula(name: str) -> None:
    group = group_named(name)
    for source in capsule_names(name)[:2]:
        for target in capsule_names(name)[-2:]:
            in_type, out_type = st.FieldType(group, source), st.FieldType(group, target)
            count = st.parameter_cost(in_type, out_type, 3)
            assert filter_count(name, source, target, 3) == count
            text = words(filters_page(name, source, target, 3))
            assert re.search(rf"\b{count} equivariant 3×3 filters? from {group.capsule(source)} to {target}\b", text)
            assert f"/ {group.order} = {count}" in text


@pytest.mark.parametrize("name", OFF_THE_GRID)
def test_filters_off_the_grid_come_with_their_leaks(name: str) -> None:
    group = group_named(name)
    target = str(group.irreps[-1])
    page = filters_page(name, "A", target, 5, 0.01)
    space = st.filter_space(group, 5, 0.01)
    assert filter_count(name, "A", target, 5, 0.01) == len(st.kernel_basis(group.trivial, group.irrep(target), space))
    assert "the filters, by angular frequency, with their leaks" in page
    assert f"They are exact for {', '.join(space.carried)}, and approximate" in words(page)
    assert "Table 1" not in words(page)
    assert "in every pose" in poses_page(name, "A", "regular", 5, 1, 0.01)


def test_a_larger_leak_gives_more_filters_off_the_grid_and_none_on_it() -> None:
    assert filter_count("C8", "A", "regular", 5, 0.003) < filter_count("C8", "A", "regular", 5, 0.1)
    assert filter_count("C4", "A", "regular", 5, 0.003) == filter_count("C4", "A", "regular", 5, 0.1) == 25
    assert "got 0" in words(filters_page("C8", "A", "A", 5, 0))


def test_filters_of_table_1_are_offered_for_images() -> None:
    assert "Table 1 of the paper" in words(filters_page("D4", "A1", "E", 3))
    assert "Table 1 of the paper" not in words(filters_page("D4", "E", "A1", 3))


def test_complex_irreps_count_twice_in_the_formula() -> None:
    assert "Σ sᵢ mᵢ m′ᵢ = 2 · 2 · 1 = 4" in words(filters_page("C4", "A", "E", 3))


def test_filters_of_volumes_are_shown_as_slices() -> None:
    page = filters_page("O", "A1", "T1", 3)
    assert "3 equivariant 3×3×3 filters from A1 to T1" in words(page)
    assert "st-error" not in poses_page("C4 about z", "A", "E", 3, 1)


def test_no_filter_is_no_error() -> None:
    page = filters_page("D4", "A1", "A2", 3)
    assert "0 equivariant 3×3 filters" in words(page)
    assert "There is no filter to turn" in words(poses_page("D4", "A1", "A2", 3, 1))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("O_h", "A1g", "A1g", 3, 1), "filters are shown of C1, C2, C3"),
        (("O", "A1", "A1", 4, 1), "the filter's size must be a whole number from 1 to 3; got 4"),
        (("D4", "A1", "F", 3, 1), "unknown capsule `F` of D4"),
        (("D4", "A1", "E", 8, 1), "the filter's size must be a whole number from 1 to 7; got 8"),
        (("D4", "A1", "E", 3, 3), "the filter's number must be a whole number from 1 to 2; got 3"),
    ],
)
def test_filters_that_cannot_be_are_refused_in_words(arguments: tuple[object, ...], message: str) -> None:
    page = poses_page(*arguments)  # type: ignore[arg-type]
    assert "st-error" in page
    assert message in html.unescape(page)


def test_costs_are_those_of_the_design() -> None:
    """The paper's block: 270 multiplications in place of 1440, and 560 in place of 2880; regular: 12 in place of 64."""
    G = st.dihedral(4)
    stream = st.FieldType(G, "regular + qm + qmr2 + qmr3")
    inner = st.FieldType(G, "A1 + A2 + B1 + B2 + 2*E")
    first = convolution_cost(stream, inner, 3, 32)
    assert (first.weights, first.fourier, first.parameters) == (1440, 270, 180)
    second = convolution_cost(inner.after_concatenation(), stream, 3, 32)
    assert (second.weights, second.fourier) == (2880, 560)
    regular = st.FieldType(G, "regular")
    each = convolution_cost(regular, regular, 3, 1)
    assert (each.weights, each.fourier) == (9 * 64, 9 * 12)
    assert first.utilization == 8.0
    assert first.dense_flops == 2 * 1440 * 32 * 32


@pytest.mark.parametrize("name", ["C1", "C4", "D2", "O"])
def test_fourier_never_costs_more_than_dense_nor_less_than_the_parameters(name: str) -> None:
    group = group_named(name)
    for text in ("regular", str(group.irreps[-1]), f"2*regular + {group.irreps[0]}"):
        cost = convolution_cost(st.FieldType(group, text), st.FieldType(group, "regular"), 3, 8)
        assert cost.parameters <= cost.fourier <= cost.weights


def test_a_wrong_type_is_marked_at_its_place() -> None:
    page = cost_page("D4", "2*(regular + qmr4)", "E +", 3, 32)
    carets = [html.unescape(text) for text in re.findall(r"<pre>(.*?)</pre>", page, re.DOTALL)]
    assert len(carets) == 2
    for message, place in zip(carets, ("qmr4", ""), strict=True):
        _, text, caret = message.splitlines()
        assert caret.strip() == "^"
        assert text[caret.index("^") :].startswith(place)
    assert "Did you mean `qmr`" in carets[0]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("D4", "0", "E", 3, 32), "share no irrep"),
        (("D4", "A1", "A2", 1, 32), "share no irrep"),
        (("Z4", "A1", "A1", 3, 32), "the page has no group `Z4`"),
        (("D4", "A1", "A1", 99, 32), "the filter's size must be a whole number from 1 to 15; got 99"),
        (("D4", "A1", "A1", 2.5, 32), "a whole number from 1 to 15; got 2.5"),
        (("D4", "A1", "A1", None, 32), "got None"),
        (("D4", "A1", "A1", float("inf"), 32), "got inf"),
        (("D4", None, "A1", 3, 32), "NoneType"),
        (("D4", "A1", "A1", 3, 10**9), "the image's size must be a whole number"),
        (("D4", "999999999*regular", "A1", 3, 32), "the page counts up to 100,000"),
        (("D4", "A1" + " + A1" * 200, "A1", 3, 32), "at most 500 are read"),
        (("D4", "<script>alert(1)</script>", "A1", 3, 32), "got `<`"),
    ],
)
def test_costs_that_cannot_be_counted_are_refused_in_words(arguments: tuple[object, ...], message: str) -> None:
    page = cost_page(*arguments)  # type: ignore[arg-type]
    assert message in html.unescape(page)
    assert "<script>" not in page


@pytest.mark.parametrize("name", ON_THE_GRID)
def test_steered_features_are_the_features_of_the_moved_picture(name: str) -> None:
    group = group_named(name)
    picture = bundled_picture("sailing boat", IMAGE_SIZE)
    for capsule in (group.capsule("regular"), group.capsule(str(group.irreps[-1]))):
        for element in group.elements:
            result = compare(picture, element, capsule)
            assert result.steerable.worst < 1e-12
            assert element == "e" or result.plain.worst > 0.01
            row, column = 20, 9
            place = Comparison.place(capsule, element, row, column)
            assert place is not None
            np.testing.assert_allclose(result.picture, picture, atol=1e-12)  # in its own colours
            np.testing.assert_array_equal(result.moved[place], result.picture[row, column])
            fibre = capsule.representation(element) @ result.steerable.of_picture[:, row, column]
            np.testing.assert_allclose(result.steerable.of_moved[:, place[0], place[1]], fibre, atol=1e-12)


@pytest.mark.parametrize("name", OFF_THE_GRID)
def test_features_off_the_grid_are_nearly_steered(name: str) -> None:
    group = group_named(name)
    picture, capsule = bundled_picture("sailing boat", IMAGE_SIZE), group.capsule("regular")
    for element in group.elements:
        result = compare(picture, element, capsule)
        on_grid = element in st.filter_space(group, 5).carried
        assert result.steerable.worst < (1e-12 if on_grid else 0.3)
        assert element == "e" or result.plain.worst > 2 * result.steerable.worst
    middle = Comparison.place(capsule, "r", 15, 15)
    assert middle is not None
    assert np.hypot(middle[0] - 15, middle[1] - 15) <= 1.5


def test_sums_that_are_zero_but_for_rounding_are_zero() -> None:
    text = words(filters_page("C8", "A", "E3", 3))
    assert "χ_out⟩ = 0 / 8 = 0" in text
    assert "e-1" not in text


def test_a_fibre_that_leaves_the_picture_is_said() -> None:
    assert "carried out of the picture" in words(steer_page(NO_UPLOADS, "C8", "regular", "r", "letter F", None, 0, 0))


def test_the_steer_page_says_which_network_is_steered() -> None:
    text = words(steer_page(NO_UPLOADS, "D4", "qm", "r", "sailing boat", None, 20, 9))
    steerable, plain = text.split("Plain network of the same size")
    assert "the features are steered" in steerable
    assert "they are not steered" in plain
    assert "row 20, column 9 (framed above) is carried to row 22, column 20" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("O", "regular", "e", "letter F", None, 0, 0), "pictures and their filters are moved by"),
        (("D4", "qm", "s", "letter F", None, 0, 0), "`s`"),
        (("D4", "qx", "r", "letter F", None, 0, 0), "unknown capsule `qx` of D4"),
        (("D4", "qm", "r", "letter G", None, 0, 0), "there is no picture `letter G`. Did you mean `letter F`"),
        (("D4", "qm", "r", "letter F", None, 32, 0), "the row must be a whole number from 0 to 31; got 32"),
        (("D4", "qm", "r", "letter F", "no/such/file.png", 0, 0), "`no/such/file.png` is not an uploaded file"),
        (("D4", "qm", "r", "letter F", {"path": __file__}, 0, 0), "is not an uploaded file"),
        (("D4", "qm", "r", "letter F", {"name": "a.png"}, 0, 0), "`None` is not an uploaded file"),
        (("D4", "qm", "r", "letter F", {"path": "no-uploads/a.png"}, 0, 0), "was deleted in the meantime"),
        (([], "qm", "r", "letter F", None, 0, 0), "pictures and their filters are moved by"),
        (("D4", {}, "r", "letter F", None, 0, 0), "a capsule of D4 is named by text"),
    ],
)
def test_steering_that_cannot_be_is_refused_in_words(arguments: tuple[object, ...], message: str) -> None:
    page = steer_page(NO_UPLOADS, *arguments)  # type: ignore[arg-type]
    assert "st-error" in page
    assert message in html.unescape(page)


def test_every_bundled_picture_is_there() -> None:
    for name in PICTURES:
        picture = bundled_picture(name, 16)
        assert picture.shape == (16, 16, 3)
        assert 0 <= picture.min() < picture.max() <= 1


def test_uploads_are_read_within_limits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    colours = np.zeros((40, 60, 3), np.uint8)
    colours[:, 10:50, 0] = 255
    Image.fromarray(colours).save(tmp_path / "red.png")
    picture = uploaded_picture(tmp_path / "red.png", 20)
    np.testing.assert_array_equal(picture, np.broadcast_to([1.0, 0.0, 0.0], (20, 20, 3)))  # the middle square

    (tmp_path / "text.png").write_text("no image")
    with pytest.raises(ValueError, match="cannot be read as an image"):
        uploaded_picture(tmp_path / "text.png", 20)
    Image.new("1", (6000, 6000)).save(tmp_path / "huge.png")
    assert (tmp_path / "huge.png").stat().st_size < 100_000
    with pytest.raises(ValueError, match="6000×6000 pixels; at most 20 million are taken"):
        uploaded_picture(tmp_path / "huge.png", 20)
    monkeypatch.setattr("steerable.explorer.pictures.LARGEST_UPLOAD", 10)
    with pytest.raises(ValueError, match=r"the file has 0\.0 MiB"):
        uploaded_picture(tmp_path / "red.png", 20)
