"""Files of the command line as columns of unchanged text, and checks of their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import pandas as pd

from bayesfuse.command_line import FORMATS, CommandError
from bayesfuse.command_line.console import write_stderr
from bayesfuse.command_line.files import open_table
from bayesfuse.data.arrays import MISSING, quoted, shown
from bayesfuse.data.column_roles import KNOWN, known_names
from bayesfuse.data.files import parse_records, read_records, read_text
from bayesfuse.data.headings import without_headings
from bayesfuse.data.layouts import refuse_nested
from bayesfuse.errors import ResponsesError

LINE_BREAK = re.compile(r"\r\n|\r|\n")


def read_columns(path: Path, columns: Sequence[str] = (), hint: str = "") -> pd.DataFrame:
    """Read columns of a table, by default all, as categories of unchanged text."""
    frame, separator = read_text_table(path, columns)
    frame, _, _ = without_headings(frame)
    header = frame.columns.tolist()
    frame = _with_role_names(frame, columns, path)
    columns = columns or list(frame)
    require_lines(frame, columns, separator, path)
    require_columns(frame, columns, path, hint, header)
    if repeated := [name for name in columns if header.count(name) > 1]:
        rule = f"{path} has several columns {repeated[0]!r}: the first line is read as their names"
        raise CommandError(f"{rule}. Got: columns {shown(header)}")
    return frame[list(dict.fromkeys(columns))].astype("category")


def read_text_table(
    path: Path, columns: Sequence[str], has_header: bool = True
) -> tuple[pd.DataFrame, str]:
    """Read a table as unchanged text, and return its separator."""
    try:
        opened = open_table(path)
        if {".json", ".jsonl"} & {*path.suffixes} or path.suffix == ".parquet":
            return _read_values(path, opened()), ","
        # the dtype category would read 007 as 7
        return read_text(path, opened, columns, has_header, dtype=str, na_values=MISSING)
    except OSError as error:
        raise CommandError(f"cannot read {path}: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise CommandError(f"cannot read {path} as a table of UTF-8 text: {error}") from error
    except (CommandError, ResponsesError):
        raise
    except Exception as error:  # every compression has its own errors
        reason = str(error) or type(error).__name__
        if path.suffix == ".zip" and "ultiple files" in reason:
            reason = (
                "a zip file of a table holds one file; of an export, name the tool by --format "
                f"({', '.join(FORMATS)})"
            )
        raise CommandError(f"cannot read {path} as a table: {reason}") from error


def _with_role_names(frame: pd.DataFrame, columns: Sequence[str], path: Path) -> pd.DataFrame:
    """Rename columns that have another usual name, with a message."""
    renamed = {}
    for role in {*columns} & {*KNOWN} - {*frame.columns}:
        if len(alike := known_names(frame.columns.tolist(), role)) == 1:
            renamed[alike[0]] = role
            write_stderr(f"bayesfuse: column {alike[0]!r} of {path} is read as {role}")
    return frame.rename(columns=renamed)


def _read_values(path: Path, source: Path | BytesIO) -> pd.DataFrame:
    """Read a Parquet file, or a file of one JSON object a line, as unchanged text."""
    if path.suffix == ".parquet":
        frame = pd.read_parquet(source, dtype_backend="numpy_nullable")
    else:
        if isinstance(source, BytesIO):
            rows = parse_records(path.name, source.getvalue())
        else:
            rows = [row for _, listed in read_records(source) for row in listed]
        frame = pd.DataFrame(rows, dtype=object)
        refuse_nested(frame)
    text = frame.astype("string").astype(object)
    return text.mask(text.isna() | text.isin(MISSING))


def require_lines(frame: pd.DataFrame, columns: Sequence[str], sep: str, path: Path) -> None:
    """Raise if a cell contains rows of the table, as after an unclosed quote."""
    if any(LINE_BREAK.search(name) for name in frame):
        raise CommandError(f"column names must be on one line. Got: several lines in {path}")
    for index, name in enumerate(frame):
        cells = frame.iloc[:, index]
        broken = cells[cells.str.contains(LINE_BREAK, na=False)]
        for row, cell in broken.items():
            first, *middle, last = (line.count(sep) for line in LINE_BREAK.split(cell))
            n_other = frame.shape[1] - 1
            has_rows = (first, last) == (n_other - index, index) and {*middle} <= {n_other}
            if name in columns or has_rows:
                raise CommandError(
                    "a cell must be on one line, because an unclosed quote would merge rows. Got: "
                    f"{quoted(cell)} in column {name!r}, {_line(row, path)} of {path}"
                )


def require_columns(
    frame: pd.DataFrame, names: Sequence[str], path: Path, hint: str, header: list[str]
) -> None:
    """Raise CommandError if a column is missing."""
    if missing := [name for name in names if name not in frame]:
        raise CommandError(
            f"{path} has no column {missing[0]!r}{hint and f': {hint}'}. Got: columns "
            f"{shown(header)}"
        )


def require_complete(frame: pd.DataFrame, path: Path, rule: str) -> None:
    """Raise CommandError with the first line in which a value is missing."""
    gaps = frame.isna().any(axis=1)
    if gaps.any():
        several = f", and in {gaps.sum() - 1:,} others" if gaps.sum() > 1 else ""
        raise CommandError(
            f"{rule}. Got: a missing value in {_line(gaps.idxmax(), path)} of {path}{several}"
        )


def _line(row: Any, path: Path) -> str:
    """Return the line of a row in a file, which may begin with the names of columns."""
    named = not {".json", ".jsonl", ".parquet"} & {*path.suffixes}
    return f"line {row + 1 + named}"


def require_unique(items: pd.Series, path: Path, rule: str) -> None:
    """Raise CommandError if an item is in several rows."""
    if (repeats := items.duplicated()).any():
        raise CommandError(
            f"{rule}. Got: several for item {quoted(items[repeats].iloc[0])} in {path}"
        )
