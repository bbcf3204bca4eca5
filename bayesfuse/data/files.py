"""Files of tables: CSV and other text, Parquet and JSON."""

from __future__ import annotations

import bz2
import csv
import gzip
import json
import lzma
import warnings
import zipfile
from collections.abc import Callable, Iterator, Sequence
from io import BytesIO
from os import PathLike
from pathlib import Path
from typing import Any

import pandas as pd
from pandas.api.types import is_scalar

from bayesfuse.data.arrays import MISSING
from bayesfuse.data.column_contents import as_text
from bayesfuse.errors import ModelError
from bayesfuse.errors.messages import brief

SNIFFED_LINES = 20  # lines from which separator and width of a file are taken
UNNAMED = "Unnamed: 0"  # the first column without a name, in pandas
OPENERS: dict[str, Any] = {".gz": gzip.open, ".bz2": bz2.open, ".xz": lzma.open}
ARCHIVES = (".zip", ".eval")
# zipfile does not implement some compressions
UNREADABLE = (OSError, ValueError, RecursionError, NotImplementedError, zipfile.BadZipFile,
              EOFError, lzma.LZMAError, Warning)  # fmt: skip
TEXT = (".csv", ".tsv", ".txt")


def read_path(path: str | PathLike[str], wanted: Sequence[str] = ()) -> tuple[pd.DataFrame, str]:
    """Return what :func:`read_cells` does, or raise ModelError with the kinds of files."""
    try:
        return read_cells(path, lambda: path, wanted)
    except UNREADABLE as error:
        raise ModelError(
            "A table as text is the path of a CSV, TSV, Parquet, JSON or JSONL (one object "
            f"a line) file. Got: {brief(str(path))} ({in_short(error)})."
        ) from None


def read_cells(
    path: str | PathLike[str],
    opened: Callable[[], Any],
    wanted: Sequence[str] = (),
    has_header: bool = True,
) -> tuple[pd.DataFrame, str]:
    """Return a table as unchanged text, and its separator; of Parquet with its types, and ""."""
    suffixes = {*Path(path).suffixes}
    if ".parquet" in suffixes:
        return pd.read_parquet(opened()), ""
    if {".json", ".jsonl"} & suffixes:
        return _json_as_text(Path(path), opened()), ","
    # the dtype category would read 007 as 7
    return read_text(path, opened, wanted, has_header, dtype=str, na_values=MISSING)


def _json_as_text(path: Path, source: Any) -> pd.DataFrame:
    """Return a list of JSON objects, or an object of columns, as text; lists in cells stay."""
    if isinstance(source, BytesIO):
        rows = parse_records(path.name, source.getvalue())
    else:
        rows = [row for name, data in _contents(Path(source)) for row in parse_records(name, data)]
    columns = list(rows[0].values()) if len(rows) == 1 else []
    if columns and all(isinstance(cells, list) for cells in columns):
        values = pd.DataFrame(
            dict(zip(rows[0], map(pd.Series, columns), strict=True)), dtype=object
        )
    elif columns and all(isinstance(cells, dict) for cells in columns):
        values = pd.DataFrame({name: pd.Series(cells) for name, cells in rows[0].items()})
        if values.index.tolist() == [*map(str, range(len(values)))]:
            values = values.reset_index(drop=True)
    else:
        values = pd.DataFrame(rows, dtype=object)
    text = values.map(lambda cell: as_text(cell) if is_scalar(cell) else cell).astype(object)
    return text.mask(values.isna() | text.isin(MISSING))


def read_call(path: str | PathLike[str], separator: str, texts: Sequence[Any] = ()) -> str:
    """Return the call of pandas that reads a file, some of its columns as text."""
    suffixes, name = Path(path).suffixes, str(path)
    if ".parquet" in suffixes:
        return f"frame = pd.read_parquet({name!r})"
    types = f"dtype={{{', '.join(f'{column!r}: str' for column in texts)}}}" if texts else ""
    if {".json", ".jsonl"} & {*suffixes}:
        options = f", {types}" if types else ""
        return f"frame = pd.read_json({name!r}, lines={'.jsonl' in suffixes}{options})"
    options = "" if separator == "," else f", sep={separator!r}"
    types = f" {types}," if types else ""
    return (
        f"frame = pd.read_csv(\n    {name!r}{options}, keep_default_na=False,\n"
        f"    na_values={MISSING},{types}\n)"
    )


def read_text(
    path: str | PathLike[str],
    opened: Callable[[], Any],
    wanted: Sequence[str] = (),
    has_header: bool = True,
    **settings: Any,
) -> tuple[pd.DataFrame, str]:
    """Return a table of text, in which several columns may have one name, and its separator.

    The separator follows from the suffix of the file, unless another one gives more of the wanted
    columns or, with equally many of these, more columns. Columns without a header are numbered.
    """
    settings = {"keep_default_na": False, "encoding": "utf-8-sig"} | settings  # no byte-order mark
    # whole lines, in which csv finds the cells: pandas refuses lines of several lengths
    sniffed = {"header": None, "nrows": SNIFFED_LINES, "dtype": str, "quoting": csv.QUOTE_NONE}
    lines = pd.read_csv(opened(), sep="\x1f", **settings | sniffed)
    if lines.shape[1] > 1:
        raise ValueError("control characters")
    parsed = []
    for separator in "\t,;" if ".tsv" in Path(path).suffixes else ",;\t":
        rows = [*csv.reader([f"{line}\n" for line in lines[0]], delimiter=separator)]
        parsed.append((rows, separator))
    rows, separator = max(
        parsed,
        key=lambda parsed_file: (len({*parsed_file[0][0]} & {*wanted}), len(parsed_file[0][0])),
    )
    settings["skipinitialspace"] = len(rows[0]) > 1 and all(n.startswith(" ") for n in rows[0][1:])
    if settings["skipinitialspace"]:  # as after ", "
        rows = [*csv.reader(lines[0], delimiter=separator, skipinitialspace=True)]
    n_named = len(rows[0])
    # separators at the ends of lines do not make columns
    width = max([n_named, *(len(row) for row in rows if not any(row[n_named:]))])
    header = [*rows[0], *[""] * (width - n_named)] if has_header else [*range(width)]
    nameless = {place: f"Unnamed: {place}" for place, name in enumerate(header) if name == ""}
    # a table that pandas has read and written again may have such a name, too
    names = [
        nameless.get(place, f"{name}.1" if name in nameless.values() else name)
        for place, name in enumerate(header)
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)  # rows longer than the header
        frame = pd.read_csv(
            opened(),
            sep=separator,
            header=0 if has_header else None,
            names=range(width),
            index_col=False,
            **settings,
        )
    return frame.set_axis(names, axis=1), separator


def as_paths(paths: Any) -> list[Any]:
    """Return one path or several as a list, or raise ModelError."""
    listed = [*paths] if isinstance(paths, list | tuple) else [paths]
    if not listed or not all(isinstance(path, str | PathLike) for path in listed):
        raise ModelError(
            "path must be the path of a file, or a list of paths. Got: "
            f"{type(paths).__name__} of {len(listed)} {type((listed or [None])[0]).__name__}."
        )
    return listed


def read_records(path: str | PathLike[str]) -> list[tuple[str, list[dict[str, Any]]]]:
    """Return the rows of a CSV, JSON or JSONL file, or of all files in an archive, as mappings.

    Rows come with the name of their file, without suffixes. Cells of CSV are unchanged text, or
    None.
    """
    try:
        return [
            (name.split(".")[0], parse_records(name, data)) for name, data in _contents(Path(path))
        ]
    except UNREADABLE as error:
        raise ModelError(
            "An export is the path of a CSV, JSON or JSONL (one object a line) file, also "
            f"compressed (.gz, .bz2, .xz, .zip). Got: {brief(str(path))} ({in_short(error)})."
        ) from None


def _contents(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield the names and contents of a file, or of the files in an archive."""
    if path.suffix.lower() not in ARCHIVES:
        with OPENERS.get(path.suffix.lower(), open)(path, "rb") as file:
            yield path.name, file.read()
        return
    with zipfile.ZipFile(path) as archive:
        for name in archive.namelist():
            is_table = name.lower().endswith((*TEXT, ".json", ".jsonl"))
            if is_table and not name.startswith("__MACOSX"):
                yield Path(name).name, archive.read(name)


def parse_records(name: str, data: bytes) -> list[dict[str, Any]]:
    """Return the rows of a file of text or JSON."""
    if {*TEXT} & {*Path(name.lower()).suffixes}:
        frame, _ = read_text(name, lambda: BytesIO(data), dtype=str, na_values=MISSING)
        frame = frame.astype(object)
        return frame.where(frame.notna(), None).to_dict("records")
    text = data.decode("utf-8-sig")
    try:
        rows = json.loads(text)
    except json.JSONDecodeError:
        rows = [json.loads(line) for line in text.split("\n") if line.strip()]
    rows = rows if isinstance(rows, list) else [rows]
    if not rows or not all(isinstance(row, dict) for row in rows):
        raise ValueError("no list of objects")
    return rows


def in_short(error: Exception) -> str:
    """Return the first line of an error's message."""
    return getattr(error, "strerror", None) or str(error).partition("\n")[0]
