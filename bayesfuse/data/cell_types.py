"""What the text in files stands for: integers, other numbers, booleans, or names as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from pandas.api.types import infer_dtype

from bayesfuse.data.column_contents import is_number
from bayesfuse.data.column_roles import Roles
from bayesfuse.data.files import read_path
from bayesfuse.data.missing_text import left_out

NUMBER = re.compile(r"-?((0|[1-9][0-9]{0,14})(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
"""A number as it is written, unlike the codes 007 and +1."""

BOOLEANS = {"true": True, "false": False}
INTEGER = re.compile(r"0|-?[1-9][0-9]{0,18}")


def with_types(
    frame: pd.DataFrame, roles: Roles, naming: dict[str, Any]
) -> tuple[pd.DataFrame, dict[str, Any]]:
    """Return a table of text with the names that the text stands for, also in ``naming``.

    Names of items and raters are integers if all are plain ones, and unchanged text otherwise.
    Labels, of all raters together, may also be other numbers, or true and false.
    """
    ends = [name for name in (roles.item, roles.rater) if name is not None]
    labels = [roles.label] if roles.is_long else [name for name in frame if name != roles.item]
    kinds = {name: infer_dtype(frame[name], skipna=True) for name in (*ends, *labels)}
    typed = {
        name: _replaced(frame[name], as_integers(frame[name].dropna().unique()))
        for name in ends
        if kinds[name] == "string"
    }
    if not {kinds[name] for name in labels} <= {"string", "empty"}:
        return _with_columns(frame, typed), naming
    declared = [name for name in naming["classes"] or () if isinstance(name, str)]
    cells = chain.from_iterable(frame[name].dropna().unique() for name in labels)
    texts = pd.Series([*dict.fromkeys(cells)], dtype=object)
    marks = {*chain.from_iterable(left_out(texts, naming["classes"]))}
    names = [*(text for text in texts if text not in marks), *declared]
    values = as_integers(names) if marks else _label_values(names)
    typed |= {name: _replaced(frame[name], values) for name in labels}
    if declared:
        naming = naming | {"classes": [values.get(name, name) for name in naming["classes"]]}
    if isinstance(naming["positive"], str):
        naming = naming | {"positive": values.get(naming["positive"], naming["positive"])}
    return _with_columns(frame, typed), naming


def read_file(path: str | PathLike[str]) -> pd.DataFrame:
    """Return the table in a file, every column with values of one type."""
    frame, separator = read_path(path)
    if not separator:
        return frame
    texts = [name for name in frame if infer_dtype(frame[name], skipna=True) == "string"]
    columns = {name: _replaced(frame[name], _label_values(frame[name].dropna().unique()))
               for name in texts}  # fmt: skip
    return _with_columns(frame, columns)


def _with_columns(frame: pd.DataFrame, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
    """Return a table with other columns, whose names may be numbers."""
    frame = frame.copy(deep=False)
    for name, column in columns.items():
        frame[name] = column
    return frame


def _label_values(texts: Sequence[str]) -> dict[str, Any]:
    """Map labels to numbers or booleans if all are such, else to themselves."""
    if all(text.casefold() in BOOLEANS for text in texts):
        return {text: BOOLEANS[text.casefold()] for text in texts}
    integers = as_integers(texts)
    if all(NUMBER.fullmatch(text) for text in texts) and any("." in text for text in texts):
        return {text: float(text) for text in texts}
    return integers


def _replaced(column: pd.Series, values: Mapping[str, Any]) -> pd.Series:
    """Return a column of text with the values in place of texts that have one."""
    kinds = {type(value) for value in values.values()} - {str}
    if len(kinds) != 1:
        return column
    codes, texts = pd.factorize(column)
    replaced = np.array([*(values.get(text, text) for text in texts), None], dtype=object)[codes]
    if not {*texts} <= {*values}:  # marks of missing labels are text
        return pd.Series(replaced, column.index, dtype=object)
    dtype = {int: "Int64", float: "float64", bool: "boolean"}[kinds.pop()]
    names = pd.Series(replaced, column.index).astype(dtype)
    return names if names.hasnans else names.astype(dtype.lower().removesuffix("ean"))


def is_altered(column: pd.Series) -> bool:
    """Whether pandas would read a column of text as numbers or booleans."""
    if infer_dtype(column, skipna=True) != "string":
        return False
    texts = column.dropna().unique()
    return all(map(is_number, texts)) or all(text.casefold() in BOOLEANS for text in texts)


def as_integers(names: Iterable[str]) -> dict[str, Any]:
    """Map names to integers if all are plain integers, else to themselves."""
    listed = list(names)
    are_integers = all(INTEGER.fullmatch(name) and abs(int(name)) < 2**63 for name in listed)
    return {name: int(name) if are_integers else name for name in listed}
