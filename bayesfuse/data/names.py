"""Names of items, raters and classes."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_hashable, is_list_like

from bayesfuse.data.arrays import as_array, as_python, fit_floats, quoted, refuse, shown
from bayesfuse.errors import ResponsesError

JOINT = " / "  # between the names of an item in several columns


def encode(
    values: Any, declared: Any, noun: str, column: str, left_out: NDArray[np.bool_] | None = None
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Return the index of every value among the names, and the names.

    Rows in messages are counted with those that were ``left_out``.
    """
    if declared is None:
        codes, distinct = numbered(values, noun, column)
        return codes, unique_names(distinct, noun)
    refuse_missing(values, column)
    names = unique_names(declared, noun)
    if isinstance(values, pd.Categorical):
        codes = places(as_array(values.categories), names)[values.codes]
    else:
        codes = places(values, names)
    rule = f"Every {noun} in {column!r} must be among the declared ones {shown(names)}."
    entry = "{} in row {}, counted from 0".format
    refuse(codes < 0, rule, lambda n: entry(quoted(values[n]), numbers(left_out, n)))
    return codes, names


def numbers(left_out: NDArray[np.bool_] | None, row: int) -> int:
    """Return the number of a row, counted with those that were left out."""
    return row if left_out is None else int(np.flatnonzero(~left_out)[row])


def numbered(values: Any, noun: str, column: str) -> tuple[NDArray[np.int64], Any]:
    """Return codes and the sorted distinct values (the categories, of a categorical)."""
    refuse_missing(values, column)
    if isinstance(values, pd.Categorical):
        return values.codes.astype(np.int64), values.categories
    try:
        codes, distinct = pd.factorize(values, sort=True)
        if distinct.dtype == object and infer_dtype(distinct, skipna=False).startswith("mixed"):
            sorted(distinct)  # raises TypeError; pandas puts numbers before text
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise ResponsesError(
            f"Names in the {noun} column {column!r} must be of one kind, because they are sorted; "
            f"astype(str) makes all of them text. Got: {', '.join(kinds)}."
        ) from None
    return codes.astype(np.int64), distinct


def refuse_missing(values: Any, column: str) -> None:
    """Raise ResponsesError if a value of a column is missing."""
    rule = (
        f"Column {column!r} must have a value in every row: frame.dropna(subset=[{column!r}]) "
        'drops rows without one, and missing="drop" those without a label.'
    )
    refuse(pd.isna(values), rule, lambda n: f"a missing value in row {n}, counted from 0")


def places(values: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """Return the index of every value among the names, −1 if absent; booleans match no numbers."""
    names = as_array(names)  # Timestamps become times again
    arrays = values, names
    kinds = {array.dtype.kind for array in arrays}
    if len(kinds) > 1 and ("M" in kinds or ("b" in kinds and kinds <= set("biuf"))):
        return np.full(len(values), -1)
    dtype: np.dtype[Any] | None = np.dtype(object)
    if kinds <= set("iuf"):
        common = np.result_type(*arrays)
        if common.kind != "f" or fit_floats(arrays):
            dtype = common
    elif kinds <= set("bM"):
        dtype = None
    try:
        index = pd.Index(names, dtype=dtype).get_indexer(pd.Index(values, dtype=dtype))
    except TypeError:  # unhashable, such as a list
        hashable = np.frompyfunc(lambda value: value if is_hashable(value) else None, 1, 1)
        return places(hashable(values), names)
    return index.astype(np.int64)


def matched(
    mentioned: NDArray[Any], names: NDArray[Any], known_rule: str, complete_rule: str
) -> NDArray[np.int64]:
    """Return the index of every given name among ``names``, which must be the same set."""
    index = places(as_array(mentioned), names)
    unknown, absent = index < 0, np.ones(len(names), dtype=bool)
    refuse(unknown, known_rule, lambda _: f"{shown(mentioned[unknown], 3)} not among them")
    absent[index] = False
    refuse(absent, complete_rule, lambda _: f"{shown(names[absent], 3)} missing")
    return index


def unique_names(names: Any, noun: str) -> NDArray[Any]:
    """Return names as an array that can be saved with a result, checked."""
    rule = f"Names of {_plural(noun)} must"
    if isinstance(names, set | frozenset) or not (is_list_like(names) or isinstance(names, str)):
        raise ResponsesError(f"{rule} be a sequence, which has an order. Got: {names!r}.")
    values = as_array(names if hasattr(names, "__array__") else list(names))
    if isinstance(values, pd.Categorical):
        values = as_array(values.to_numpy())
    if values.ndim == 1:
        refuse(pd.isna(values), f"{rule} not be missing.", lambda n: repr(as_python(values[n])))
    array = _nameable(values, noun) if values.ndim == 1 else None
    if array is None:
        kinds = sorted({type(name).__name__ for name in names})
        raise ResponsesError(
            f"{rule} be all text, all numbers or all times (without a time zone), and 64 bits must "
            "hold each, so that results can be saved; astype(str) makes a column text. Got: "
            f"{shown(list(names), 3)} ({', '.join(kinds)})."
        )
    repeated = pd.Index(array, dtype=object if array.dtype.kind in "US" else None)
    repeated = repeated[repeated.duplicated()]
    if len(repeated):
        raise ResponsesError(
            f"{rule} differ, because they identify the results. Got: "
            f"{quoted(repeated[0])} more than once."
        )
    return array


def _nameable(values: NDArray[Any], noun: str) -> NDArray[Any] | None:
    """Return names as a file stores them, None if it cannot."""
    if values.dtype.kind in "biuf":
        return values + 0.0 if values.dtype.kind == "f" else values  # −0 is 0
    if values.dtype.kind == "M":  # Timestamps, because tolist() of times gives integers
        return np.fromiter(pd.DatetimeIndex(values), dtype=object, count=len(values))
    listed = values.tolist()
    kind = infer_dtype(np.array(listed, dtype=object), skipna=False)
    if kind not in ("string", "bytes"):
        return None
    text = kind == "string"
    pattern: Any = "[\0\ud800-\udfff]" if text else b"\0"
    if match := re.search(pattern, ("" if text else b"").join(listed)):
        name = next(name for name in listed if match[0] in name)
        raise ResponsesError(
            f"Names of {_plural(noun)} must be text without the character NUL and without "
            f"surrogates, because files hold neither. Got: {quoted(name)}."
        )
    return np.array(listed, dtype=str if text else bytes)


def names_of(count: int, declared: Any, noun: str) -> NDArray[Any]:
    """Return ``count`` names, as given or numbers from 0."""
    if declared is None:
        return np.arange(count)
    names = unique_names(declared, noun)
    if len(names) != count:
        raise ResponsesError(
            f"There must be one {noun} name for each of the {count} {_plural(noun)}. Got: "
            f"{len(names)} names."
        )
    return names


def require_two(classes: NDArray[Any]) -> None:
    """Raise ResponsesError if there are fewer than two classes."""
    if len(classes) < 2:
        raise ResponsesError(
            "There must be at least two classes, because one class leaves nothing to infer; "
            "declare classes that were never used with classes= of bf.Responses.from_long or "
            "from_matrix, also -1 if it marks no missing responses, as in classes=[-1, 1]. Got: "
            f"{shown(classes)}."
        )


def require_32_bits(count: int, noun: str) -> None:
    """Raise ResponsesError if 32 bits cannot index so many rows, cells or pairs."""
    if count >= 2**32:
        raise ResponsesError(
            f"A table must have fewer than 2³² {noun}, because they are indexed with 32 bits. "
            f"Got: {count} {noun}."
        )


def _plural(noun: str) -> str:
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"


def listed(names: Any) -> list[Any]:
    """Return names as Python objects, with times (integers in arrays of results) as Timestamps."""
    array = names if isinstance(names, np.ndarray) else as_array(names)
    if array.dtype.kind == "M":
        return pd.DatetimeIndex(array).tolist()
    return array.tolist()


def storable(names: NDArray[Any]) -> Any:
    """Return names for an attribute in a file: booleans as 0 and 1, times as text."""
    if names.dtype == np.uint64:  # a list of them would be read as floats
        return names
    if names.dtype == object:
        return [str(name) for name in names]
    return (names.astype(int) if names.dtype == bool else names).tolist()


def smallest_integer(size: int) -> type[np.signedinteger[Any]]:
    """Return the smallest signed integer type that holds 0 to ``size`` − 1."""
    return np.min_scalar_type(-max(size, 1)).type


def joined_columns(frame: pd.DataFrame, columns: list[Any], separator: str) -> Any:
    """Return names that columns have together, as text, or those of a single column unchanged."""
    if len(columns) == 1:
        return frame[columns[0]]
    return frame[columns].astype(str).agg(separator.join, axis=1)
