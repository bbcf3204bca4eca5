"""Columns, matrices and names as users give them: read without changing any of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import ResponsesError

LARGEST = 2**53
"""Above this floats are not all the whole numbers."""


def column(frame: Any, name: str) -> Any:
    """Return a column as an array, or as a Categorical if it is one."""
    columns = list(frame.keys() if isinstance(frame, Mapping) else getattr(frame, "columns", []))
    if name not in columns:
        raise ResponsesError(
            f"The table must have every column that the arguments name. Got: {name!r}, "
            f"which is not among {shown(columns)}."
        )
    column = frame[name]
    if isinstance(getattr(column, "dtype", None), pd.CategoricalDtype):
        return pd.Categorical(column)
    values = column.to_numpy() if hasattr(column, "to_numpy") else as_array(column)
    if values.ndim != 1:
        raise ResponsesError(
            "A column must hold one value per row, and its name must be that of no other. Got: "
            f"{name!r} of shape {values.shape}."
        )
    return values


def as_array(values: Any) -> NDArray[Any]:
    """Values as an array that changes none of them (mixed ones stay objects)."""
    array = np.asarray(values)
    if array.dtype.kind not in "US" or isinstance(values, np.ndarray):
        return array
    given = np.asarray(values, dtype=object)
    return array if all(isinstance(value, str | bytes) for value in given.flat) else given


def read_matrix(
    matrix: Any, missing: Any, items: Sequence[Any] | None, raters: Sequence[Any] | None
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any], NDArray[Any]]:
    """Return the answers row by row, the mask of where they are, and names of rows and columns."""
    if isinstance(matrix, pd.DataFrame):
        items = matrix.index if items is None else items
        raters = matrix.columns if raters is None else raters
    elif isinstance(matrix, xr.DataArray) and matrix.ndim == 2:
        named = [list(matrix[dim].values) if dim in matrix.coords else None for dim in matrix.dims]
        items, raters = (
            own if given is None else given
            for own, given in zip(named, (items, raters), strict=True)
        )
    values = as_array(matrix)
    if values.ndim != 2:
        raise ResponsesError(
            f"A matrix of responses has one row per item and one column per rater. Got: shape "
            f"{values.shape}."
        )
    answered = ~pd.isna(values)
    for mark in [missing] if np.ndim(missing) == 0 else missing:
        answered[answered] = np.asarray(values[answered] != mark, dtype=bool)
    if not answered.any():
        raise ResponsesError(
            f"A matrix of responses must hold at least one. Got: shape {values.shape}, all missing."
        )
    answers = values[answered]
    if answers.dtype == object:  # as of a frame with missing values
        answers = as_array(answers.tolist())
    if np.issubdtype(answers.dtype, np.floating):
        broken = answers[(answers != np.floor(answers)) | (np.abs(answers) > LARGEST)]
        if len(broken):
            raise ResponsesError(
                "A matrix of floats must hold whole numbers (the labels) and NaN or the missing "
                f"mark; probabilities are no responses. Got: {plain(broken[0])!r}."
            )
        answers = answers.astype(np.int64)
    n_items, n_raters = values.shape
    return answers, answered, names_of(n_items, items, "item"), names_of(n_raters, raters, "rater")


def read_counts(
    patterns: Any, counts: Any, items: Sequence[Any] | None
) -> tuple[Any, NDArray[Any], Sequence[Any] | None]:
    """Return a matrix of patterns, how often each occurred, and the names of the patterns."""
    if isinstance(patterns, Mapping):
        if counts is not None:
            raise ResponsesError(
                "Counts must be given once: a mapping already holds them. Got: a mapping and "
                "counts."
            )
        counts = list(patterns.values())
        if items is None:
            items = [_name_pattern(pattern) for pattern in patterns]
        lengths = {len(pattern) for pattern in patterns}
        if len(lengths) != 1:
            raise ResponsesError(
                "All patterns must be answers of the same raters, so of one length. Got "
                f"lengths: {sorted(lengths)}."
            )
        patterns = as_array([list(pattern) for pattern in patterns])
    if counts is None:
        raise ResponsesError("Patterns need counts, one each (or use from_matrix). Got: no counts.")
    count = np.asarray(counts)
    if (
        count.shape != (len(patterns),)
        or count.dtype.kind not in "iuf"
        or not np.all(np.isfinite(count))
        or not np.all((count >= 0) & (count == np.floor(count)))
        or count.sum() == 0
    ):
        raise ResponsesError(
            f"Counts must be non-negative integers, one for each of the {len(patterns)} "
            f"patterns, and not all zero. Got: {shown(count)}."
        )
    return patterns, count, items


def _name_pattern(pattern: Sequence[Any]) -> str:
    labels = [str(label) for label in pattern]
    return ("" if all(len(label) == 1 for label in labels) else ",").join(labels)


def encode(
    values: Any, declared: Sequence[Any] | None, what: str, column: str
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number the values by their place among the names."""
    categories = None
    if isinstance(values, pd.Categorical):
        categories, values = values.categories, values.to_numpy()
    if declared is None:
        declared = categories
    if declared is None:
        missing = pd.isna(values)
        if missing.any():
            raise _missing_value(column, missing)
        try:
            codes, found = pd.factorize(values, sort=True)
        except TypeError:
            kinds = sorted({type(value).__name__ for value in values})
            raise ResponsesError(
                f"Names of the {what} column {column!r} must be of one kind to have an order. "
                f"Got: {', '.join(kinds)}."
            ) from None
        return codes, unique_names(found, what)
    names = unique_names(declared, what)
    codes = pd.Index(names).get_indexer(pd.Index(values))
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        missing = pd.isna(values)
        if missing.any():
            raise _missing_value(column, missing)
        raise ResponsesError(
            f"Every {what} in {column!r} must be among the declared ones {shown(names)}, else it "
            f"would be lost. Got: {plain(values[unknown[0]])!r} in row {unknown[0]} "
            f"(the first is 0; {len(unknown)} such rows)."
        )
    return codes.astype(np.int64), names


def _missing_value(column: str, missing: NDArray[np.bool_]) -> ResponsesError:
    return ResponsesError(
        f"Column {column!r} must have a value in every row; leave a row out if nobody answered. "
        f"Got: a missing value in row {int(np.argmax(missing))} (the first is 0; "
        f"{int(missing.sum())} such rows)."
    )


def unique_names(names: Any, what: str) -> NDArray[Any]:
    """Return names as an array of what the file of a result can hold."""
    if isinstance(names, set | frozenset):
        raise ResponsesError(
            f"Names of {_several(what)} must have an order, which a set has not. Got: {names!r}."
        )
    given = list(names)
    absent = pd.isna(np.fromiter(given, dtype=object, count=len(given)))
    if absent.any():
        raise ResponsesError(
            f"Names of {_several(what)} must not be missing. Got: {given[int(absent.argmax())]!r}."
        )
    array = _times(given)
    if array is None:
        array = as_array(given) if all(map(pd.api.types.is_scalar, given)) else np.array(None)
        if array.dtype.kind not in "biufUS":
            kinds = sorted({type(name).__name__ for name in given})
            raise ResponsesError(
                f"Names of {_several(what)} must be all text, all numbers or all times (without a "
                f"time zone), else a result could not be saved. Got: {shown(given, 3)} "
                f"({', '.join(kinds)})."
            )
    twice = pd.Index(array)
    twice = twice[twice.duplicated()]
    if len(twice):
        raise ResponsesError(
            f"Names of {_several(what)} must differ, else their results could not be told apart. "
            f"Got: {plain(twice[0])!r} more than once."
        )
    return array


def names_of(count: int, given: Any, what: str) -> NDArray[Any]:
    """Return one name for each of so many things: those given, or numbers from 0."""
    if given is None:
        return np.arange(count)
    names = unique_names(given, what)
    if len(names) != count:
        raise ResponsesError(
            f"There must be one {what} name for each of the {count} {_several(what)}. Got: "
            f"{len(names)} names."
        )
    return names


def _times(names: list[Any]) -> NDArray[Any] | None:
    """Return names that are all times as pandas has them, None if they are something else."""
    if not names or not all(isinstance(name, datetime | np.datetime64) for name in names):
        return None
    if any(getattr(name, "tzinfo", None) is not None for name in names):
        return None
    times = pd.DatetimeIndex(names)
    return np.fromiter(times, dtype=object, count=len(times))  # whose tolist() gives no integers


def _several(what: str) -> str:
    return f"{what}es" if what.endswith("s") else f"{what}s"


def listed(names: Any) -> list[Any]:
    """Return names as Python has them, times as times; arrays of results have them as integers."""
    array = names if isinstance(names, np.ndarray) else as_array(names)
    if array.dtype.kind == "M":
        return pd.DatetimeIndex(array).tolist()
    found: list[Any] = array.tolist()
    return found


def storable(names: NDArray[Any]) -> list[Any]:
    """Return names as a file's attribute can hold them: truth values as 0 and 1, times as text."""
    if names.dtype == object:
        return [str(name) for name in names]
    return (names.astype(int) if names.dtype == bool else names).tolist()


def smallest_integer(size: int) -> type[np.signedinteger[Any]]:
    """Return the smallest signed integers that number so many things."""
    kinds = np.int8, np.int16, np.int32, np.int64
    return next(kind for kind in kinds if size - 1 <= np.iinfo(kind).max)


def plain(value: Any) -> Any:
    """Return a NumPy scalar as the Python value that prints like one."""
    return value.item() if isinstance(value, np.generic) else value


def shown(values: Any, most: int = 8) -> str:
    """Return the first of many values, for an error."""
    listed = [repr(plain(value)) for value in list(values)[:most]]
    return "[" + ", ".join(listed) + (", …]" if len(values) > most else "]")
