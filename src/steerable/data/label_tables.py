"""Images listed in a CSV file with the columns ``file`` and ``label``."""

from __future__ import annotations

import csv
import io
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple, Unpack

from steerable.data.assembling import FoundFiles, LabelledFile, Reading, assemble
from steerable.data.files import looks_like_an_image, named, printable
from steerable.data.labelled_images import LabelledImages
from steerable.data.part_folders import PART_OF, Part, with_test_part
from steerable.data.splits import Splits
from steerable.errors import did_you_mean, listing

__all__ = ["labelled_table", "load_label_table"]

COLUMNS = ("file", "label")
SPLIT = "split"
"""A column that says whether an image is for training, validation or the test."""


def load_label_table(
    path: str | Path, *, group_by: str | None = None, **how: Unpack[Reading]
) -> Splits[LabelledImages]:
    """The images of a table, as squares; ``how`` is as for :func:`~steerable.data.folders.load_image_folder`.

    The table is UTF-8 with a header line ``file,label``, where semicolons or tabs may stand for the commas. A column
    ``split`` with ``train``, ``val`` and ``test`` divides the images as folders of these names do; other columns are
    ignored. Files are relative to the table's own folder. Rows without a label, and rows whose file is missing or
    cannot be read, are left out and named. ``group_by`` is the column that says which specimen, such as a patient, an
    image belongs to: images of one specimen are all trained on or all tested on.
    """
    path = Path(path).expanduser()
    return assemble(labelled_table(path, group_by), path, **how)


def labelled_table(path: Path, group_by: str | None = None) -> FoundFiles:
    """The files of the rows, and the rows that are left out."""
    files: dict[tuple[str, str], LabelledFile] = {}
    skipped: list[tuple[str, str]] = []
    repeated = []
    rows = list(_rows(path, group_by))
    part_of, notes = _parts(path, rows)
    for row in rows:
        name, line, file = row.file, row.line, _file(path.parent, row.file)
        if not name:
            skipped.append((f"line {line}", "it has no file"))
        elif not row.label:
            skipped.append((name, f"line {line} has no label"))
        elif group_by is not None and not row.specimen:
            skipped.append((name, f"line {line} has no {group_by}"))
        elif missing := _missing(file):
            skipped.append((name, f"line {line}: the file {missing}"))
        elif (name, row.label) in files:
            repeated.append(name)
        else:
            about = printable(name), printable(row.label), part_of.get(row.split, "train"), printable(row.specimen)
            files[name, row.label] = LabelledFile(file, *about)
    if not rows:
        raise ValueError(f"`{path}` has no rows below its header, expected one for each image: its file and label.")
    if not files:
        raise ValueError(
            f"none of the {len(rows)} rows of `{path}` can be used: {named(skipped)}. Files are relative to "
            f"`{path.parent}`."
        )
    if repeated:
        notes.append(f"`{path}` lists {listing(repeated, 5)} more than once; each is used once.")
    notes += _without_label(path, {file.path for file in files.values()} | {path.parent / name for name, _ in skipped})
    return FoundFiles(list(files.values()), skipped, notes)


def _file(folder: Path, name: str) -> Path:
    """The file of this name; if there is none, backslashes separate folders, as on Windows."""
    file = folder / name
    return folder / name.replace("\\", "/") if "\\" in name and _missing(file) else file


def _missing(file: Path) -> str:
    """The reason why there is no such file; empty if there is one."""
    try:
        return "" if file.is_file() else "is a folder" if file.is_dir() else "does not exist"
    except OSError as error:  # a name that is too long, for one
        return f"cannot be looked for: {error.strerror}"


class _Row(NamedTuple):
    """A row of the table, without spaces around its cells; ``specimen`` and ``split`` are empty where nobody asks."""

    line: int
    file: str
    label: str
    specimen: str
    split: str


def _parts(path: Path, rows: Sequence[_Row]) -> tuple[dict[str, Part], list[str]]:
    """What the words of the column ``split`` stand for, and a note where they are others."""
    words = {row.split for row in rows} - {""}
    if strange := sorted(words - PART_OF.keys()):
        return {}, [
            f"`{path}` has a column `{SPLIT}` with {listing(strange, 5)}, expected train, val and test; it is not "
            "used, and a share of the images is held out for the test."
        ]
    parts = with_test_part({PART_OF[word]: PART_OF[word] for word in sorted(words)})
    new = {old: part for part, old in parts.items()}
    return {word: new[PART_OF[word]] for word in words}, []


def _rows(path: Path, group_by: str | None) -> Iterator[_Row]:
    """The rows below the header."""
    if not path.is_file():
        raise FileNotFoundError(f"there is no file `{path}`. Give a CSV file with the columns `file` and `label`.")
    try:
        text = path.read_text("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"`{path}` is not UTF-8 text: byte 0x{error.object[error.start]:02x} at position {error.start}. Save it as "
            "`CSV UTF-8`."
        ) from None
    header = text.split("\n", 1)[0].strip()
    reader = csv.reader(io.StringIO(text, newline=""), delimiter=max(",;\t", key=header.count))
    columns = [name.strip().lower() for name in next(reader, [])]
    if missing := [name for name in COLUMNS if name not in columns]:
        raise ValueError(
            f"`{path}` has no {'column' if len(missing) == 1 else 'columns'} {listing(missing)}: its first line is "
            f"{header[:80]!r}, expected the header `file,label`. Add that line or rename the columns."
        )
    if (group := "" if group_by is None else group_by.strip().lower()) and group not in columns:
        raise ValueError(f"`{path}` has no column `{group_by}` to group its images by. {did_you_mean(group, columns)}")
    known = [name if name in columns else None for name in (*COLUMNS, group or None, SPLIT)]
    places = [sys.maxsize if name is None else columns.index(name) for name in known]
    try:
        for row in reader:
            if any(cell.strip() for cell in row):
                file, label, specimen, split = (row[place].strip() if place < len(row) else "" for place in places)
                yield _Row(reader.line_num, file, label, specimen, split.lower())
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num} of `{path}` cannot be read as CSV: {error}.") from None


def _without_label(table: Path, known: set[Path]) -> list[str]:
    """A note on images beside those of the table."""
    here = {path.parent for path in known if _missing(path.parent) == "is a folder"}
    beside = sorted(
        printable(path.relative_to(table.parent) if path.is_relative_to(table.parent) else path)
        for folder in here
        for path in folder.iterdir()
        if looks_like_an_image(path) and path not in known
    )
    if not beside:
        return []
    return [f"{listing(beside, 5)} beside the images of `{table}` have no label there and are not used."]
