"""What the text in files stands for: integers, other numbers, booleans, or names as they are."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype

from bayesfuse.data.column_contents import is_number
from bayesfuse.data.column_roles import Roles
from bayesfuse.data.files import read_path
from bayesfuse.data.missing_text import left_out

NUMBER = re.compile(r"-?((0|[1-9][0-9]{0,14})(\.[0-9]*)?|\.[0-9]+)(e[+-]?[0-9]+)?", re.IGNORECASE)
"""A number as it is written, unlike the codes 007 and +1."""

BOOLEANS = {
    spelt: text == "true"
    for text in ("true", "false")
    for spelt in (text, text.title(), text.upper())
}  # as pandas reads them
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
    named = [_Texts.of(frame[name]) for name in ends if kinds[name] == "string"]
    typed = {column.name: column.replaced(as_integers(column.texts)) for column in named}
    if not {kinds[name] for name in labels} <= {"string", "empty"}:
        return _with_columns(frame, typed), naming
    declared = [name for name in naming["classes"] or () if isinstance(name, str)]
    labelled = [_Texts.of(frame[name]) for name in labels]
    cells = chain.from_iterable(column.texts for column in labelled)
    texts = pd.Series([*dict.fromkeys(cells)], dtype=object)
    marks = {*chain.from_iterable(left_out(texts, naming["classes"]))}
    names = [*(text for text in texts if text not in marks), *declared]
    values = _label_values(names)
    typed |= {column.name: column.replaced(values) for column in labelled}
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
    named = [_Texts.of(frame[name]) for name in frame if _is_text(frame[name])]
    columns = {column.name: column.replaced(_label_values(column.texts)) for column in named}
    return _with_columns(frame, columns)


@dataclass(frozen=True)
class _Texts:
    """A column of text: every text once, and the place of its text for each row, −1 if missing."""

    column: pd.Series
    codes: NDArray[np.intp]
    texts: list[str]

    @classmethod
    def of(cls, column: pd.Series) -> _Texts:
        """Return the texts of a column."""
        codes, unique = pd.factorize(column)
        return cls(column, codes, unique.tolist())

    @property
    def name(self) -> Any:
        """Name of the column."""
        return self.column.name

    def replaced(self, values: Mapping[str, Any]) -> pd.Series:
        """Return the column with the values in place of texts that have one."""
        kinds = {type(value) for value in values.values()} - {str}
        if len(kinds) != 1:
            return self.column
        index = self.column.index
        if not values.keys() >= {*self.texts}:  # marks of missing labels are text
            mixed = np.array([*(values.get(text, text) for text in self.texts), None], dtype=object)
            return pd.Series(mixed[self.codes], index, dtype=object)
        kind = kinds.pop()
        names = np.array([values[text] for text in self.texts], dtype=kind)
        if self.codes.min(initial=0) >= 0:
            return pd.Series(names[self.codes], index)
        dtype = {int: "Int64", float: "float64", bool: "boolean"}[kind]
        return pd.Series(names, dtype=dtype).reindex(self.codes).set_axis(index)


def _with_columns(frame: pd.DataFrame, columns: Mapping[Any, pd.Series]) -> pd.DataFrame:
    """Return a table with other columns, whose names may be numbers."""
    frame = frame.copy(deep=False)
    for name, column in columns.items():
        frame[name] = column
    return frame


def _label_values(texts: Sequence[str]) -> dict[str, Any]:
    """Map labels to numbers or booleans if all are such, else to themselves."""
    if all(text in BOOLEANS for text in texts):
        return {text: BOOLEANS[text] for text in texts}
    integers = as_integers(texts)
    if all(NUMBER.fullmatch(text) for text in texts) and any("." in text for text in texts):
        return {text: float(text) for text in texts}
    return integers


def _is_text(column: pd.Series) -> bool:
    return infer_dtype(column, skipna=True) == "string"


def is_altered(column: pd.Series) -> bool:
    """Whether pandas would read a column of text as numbers or booleans."""
    if not _is_text(column):
        return False
    texts = column.dropna().unique().tolist()
    return all(map(is_number, texts)) or all(text in BOOLEANS for text in texts)


def as_integers(names: Iterable[str]) -> dict[str, Any]:
    """Map names to integers if all are plain integers, else to themselves."""
    listed = list(names)
    are_integers = all(INTEGER.fullmatch(name) and abs(int(name)) < 2**63 for name in listed)
    return {name: int(name) if are_integers else name for name in listed}
