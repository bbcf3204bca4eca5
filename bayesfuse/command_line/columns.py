"""Files of the command line as columns of unchanged text, and checks of their cells."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from bayesfuse.command_line import FORMATS, CommandError
from bayesfuse.command_line.console import write_stderr
from bayesfuse.command_line.files import open_table
from bayesfuse.data.arrays import quoted, shown
from bayesfuse.data.column_roles import KNOWN, known_names
from bayesfuse.data.files import read_cells
from bayesfuse.data.headings import without_headings
from bayesfuse.data.layouts import refuse_nested
from bayesfuse.errors import ResponsesError

LINE_BREAK = re.compile(r"\r\n|\r|\n")


class Files(NamedTuple):
    """Files that are read as one table, with the rows of each that are left without headings."""

    frame: pd.DataFrame
    rows: list[tuple[Path, pd.Index]]
    separator: str = ""  # of text; a table with types has none
    n_headings: int = 0

    @property
    def path(self) -> Path:
        """Names of the files, for errors."""
        return Path(" + ".join(str(path) for path, _ in self.rows))

    def line(self, row: int) -> str:
        """Return in words the line of a row, and its file."""
        number = 0
        while row >= len(self.rows[number][1]):
            row -= len(self.rows[number][1])
            number += 1
        path, rows = self.rows[number]
        # files of text begin with the names of columns
        named = not {".json", ".jsonl", ".parquet"} & {*path.suffixes}
        return f"line {rows[row] + 1 + named} of {path}"

    def by_item(self, columns: list[str], need: str, rule: str, *, is_list: bool) -> pd.DataFrame:
        """Return columns with values of items, one row per item, as categories of text.

        The first column has the items. In a list, an item has one row; elsewhere, its rows are
        alike.
        """
        frame = self.frame[columns].astype("string")
        require_complete(frame, self, need)
        frame = frame if is_list else frame.drop_duplicates()
        if (repeats := frame[columns[0]].duplicated()).any():
            item = quoted(frame[columns[0]][repeats].iloc[0])
            raise CommandError(f"{rule}. Got: several for item {item} in {self.path}")
        return frame.astype("category")


def read_files(paths: list[Path], columns: Sequence[str], has_header: bool = True) -> Files:
    """Read tables with the same columns as one, without rows of headings."""
    frames: list[pd.DataFrame] = []
    rows, n_headings, separator = [], 0, ""
    for path in paths:
        frame, separator = read_text_table(path, columns, has_header)
        if any(LINE_BREAK.search(str(name)) for name in frame):
            raise CommandError(f"column names must be on one line. Got: several lines in {path}")
        refuse_nested(frame)
        has_index = not isinstance(frame.index, pd.RangeIndex)
        frame = frame if has_index else frame.reset_index(drop=True)  # numbers are those of rows
        frame, _, headings = without_headings(frame)
        if frames and frame.columns.tolist() != frames[0].columns.tolist():
            raise CommandError(
                "several tables must have the same columns, because they are read as one. Got: "
                f"{shown(frame.columns.tolist())} in {path}"
            )
        rows.append((path, pd.RangeIndex(len(frame)) if has_index else frame.index))
        n_headings += len(headings)
        frames.append(frame if has_index else frame.reset_index(drop=True))
    frame = frames[0] if len(frames) == 1 else pd.concat(frames, ignore_index=True)
    return Files(frame, rows, separator, n_headings)


def read_columns(path: Path, columns: Sequence[str] = (), hint: str = "") -> Files:
    """Read columns of a table, by default all, as categories of unchanged text."""
    files = read_files([path], columns)
    files = files._replace(frame=_with_role_names(files.frame, columns, path))
    header = files.frame.columns.tolist()
    columns = [*dict.fromkeys(columns or header)]
    require_lines(files, columns)
    require_columns(files, columns, hint)
    if repeated := [name for name in columns if header.count(name) > 1]:
        rule = f"{path} has several columns {repeated[0]!r}: the first line is read as their names"
        raise CommandError(f"{rule}. Got: columns {shown(header)}")
    return files._replace(frame=files.frame[columns].astype("string").astype("category"))


def read_text_table(
    path: Path, columns: Sequence[str], has_header: bool = True
) -> tuple[pd.DataFrame, str]:
    """Read a table as :func:`bayesfuse.data.files.read_cells` does."""
    try:
        opened = open_table(path)
        return read_cells(path, opened, columns, has_header)
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


def require_lines(files: Files, columns: Sequence[Any]) -> None:
    """Raise if a cell contains rows of the table, as after an unclosed quote."""
    frame = files.frame
    for index, name in enumerate(frame if files.separator else ()):
        cells = frame.iloc[:, index].astype("string")
        for row in np.flatnonzero(cells.str.contains(LINE_BREAK, na=False)).tolist():
            lines = LINE_BREAK.split(cells.iloc[row])
            first, *middle, last = (line.count(files.separator) for line in lines)
            n_other = frame.shape[1] - 1
            has_rows = (first, last) == (n_other - index, index) and {*middle} <= {n_other}
            if name in columns or has_rows:
                raise CommandError(
                    "a cell must be on one line, because an unclosed quote would merge rows. Got: "
                    f"{quoted(cells.iloc[row])} in column {name!r}, {files.line(row)}"
                )


def require_columns(files: Files, names: Sequence[Any], hint: str = "") -> None:
    """Raise CommandError if a column is missing."""
    if missing := [name for name in names if name not in files.frame]:
        raise CommandError(
            f"{files.path} has no column {missing[0]!r}{hint and f': {hint}'}. Got: columns "
            f"{shown(files.frame.columns.tolist())}"
        )


def require_complete(frame: pd.DataFrame, files: Files, rule: str) -> None:
    """Raise CommandError with the first line in which a value is missing."""
    gaps = frame.isna().any(axis=1)
    if gaps.any():
        several = f", and in {gaps.sum() - 1:,} others" if gaps.sum() > 1 else ""
        names = files.frame.index  # some rows of the file may have been left out
        row = int(names.get_indexer_for(gaps.index[[gaps.to_numpy().argmax()]])[0])
        raise CommandError(f"{rule}. Got: a missing value in {files.line(row)}{several}")
