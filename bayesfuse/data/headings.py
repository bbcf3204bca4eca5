"""Headings of tables: rows of names among the data, columns without names, and no header at all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.arrays import shown
from bayesfuse.data.column_roles import KNOWN, Columns, is_number, known_names, plain_name
from bayesfuse.errors import ResponsesError


def without_headings(frame: pd.DataFrame) -> tuple[pd.DataFrame, list[Any], list[int]]:
    """Return a table of rows of data, and the columns and rows that were removed.

    Columns without a name and values come from separators at the ends of lines. Rows of headings
    repeat the names of columns, or are above the data in exports of Qualtrics.
    """
    has_index = not isinstance(frame.index, pd.RangeIndex)
    nameless = [name for name in frame.columns if str(name).startswith("Unnamed: ")]
    empty = [name for name in nameless if frame[name].isna().all()]
    frame = frame.drop(columns=empty)
    first = frame.head(3).astype(object)
    exported = ["ImportId" in str(cells.tolist()) for _, cells in first.iterrows()]
    rows = {*range(3 - exported[::-1].index(True))} if any(exported) else set()
    if frame.shape[1] and frame.iloc[:, 0].dtype.kind not in "biufM":
        repeated = np.flatnonzero(np.asarray(frame.iloc[:, 0] == frame.columns[0], dtype=bool))
        rows |= {int(n) for n in repeated if frame.iloc[n].tolist() == frame.columns.tolist()}
    if rows:
        frame = frame.drop(index=frame.index[sorted(rows)])
    if not has_index:
        require_header(frame)
    return frame, empty, sorted(rows)


def require_header(frame: pd.DataFrame) -> None:
    """Raise ResponsesError if the names of columns look like a row of responses."""
    names = frame.columns.tolist()
    # columns without names have numbers in pandas
    if not all(isinstance(name, str) for name in names) or not len(frame):
        return
    if any(known_names(names, role) for role in KNOWN) or names[0].startswith("Unnamed: "):
        return
    table = Columns(frame.head(1000).set_axis(range(len(names)), axis=1), [*range(len(names))])
    # pandas writes 0.1 for the second column of the name 0
    texts = [re.sub(r"\.\d+$", "", name) if name.rpartition(".")[0] in names else name
             for name in names]  # fmt: skip
    below = [table.counts(place) for place in table.names]
    if any(
        counts and not is_number(text) and all(map(is_number, counts))
        for text, counts in zip(texts, below, strict=True)
    ):
        return
    is_value = [
        text in counts or plain_name(text) in map(plain_name, counts)
        for text, counts in zip(texts, below, strict=True)
    ]
    if any(is_value):
        inside = [name for name, is_in in zip(names, is_value, strict=True) if is_in]
        raise ResponsesError(
            "The first line of a table must hold names of columns, which labels are not: read a "
            "file without names by pd.read_csv(path, header=None) (--no-header), skip further "
            "lines of headings (skiprows=), and rename columns that have the name of a class. "
            f"Got: {shown(inside)}, which are also values, among the names {shown(names)}."
        )
