"""Headings of tables: rows of names among the data, columns without names, and no header at all."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from bayesfuse.data.arrays import shown
from bayesfuse.data.column_contents import Columns, is_number
from bayesfuse.data.column_roles import KNOWN, known_names, plain_name
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
    has_known_names = any(known_names(frame.columns.tolist(), role) for role in KNOWN)
    if has_known_names and infer_dtype(frame.iloc[:, 0]) == "string":
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
    if names[0].startswith("Unnamed: "):
        return
    table = Columns(frame.head(1000).set_axis(range(len(names)), axis=1), [*range(len(names))])
    # pandas writes 0.1 for the second column of the name 0
    texts = [re.sub(r"\.\d+$", "", name) if name.rpartition(".")[0] in names else name
             for name in names]  # fmt: skip
    values_of = [{*map(plain_name, table.counts(index))} for index in table.names]
    names_among_values = []
    for index, (text, values) in enumerate(zip(texts, values_of, strict=True)):
        if plain_name(text) in values:
            names_among_values.append(names[index])
        elif any(known_names([text], role) for role in KNOWN):
            return
        elif values and not is_number(text) and all(map(is_number, values)):
            return
    # the first column may hold items; one rater may have the name of a class by chance
    are_values = all(plain_name(text) in set().union(*values_of) for text in texts[1:])
    is_repeated = len({*texts}) < len(texts)
    begins_with_value = names_among_values[:1] == names[:1]
    if names_among_values and (begins_with_value or are_values or is_repeated):
        raise ResponsesError(
            "The first line of a table must hold names of columns, which labels are not: read a "
            "file without names by pd.read_csv(path, header=None) (--no-header), skip further "
            "lines of headings (skiprows=), and rename columns that have the name of a class. "
            f"Got: {shown(names_among_values)}, which are also values, among the names "
            f"{shown(names)}."
        )
