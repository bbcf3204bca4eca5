"""Matrices, patterns and names as users give them: read without changing any of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pandas.api.types import infer_dtype, is_list_like

from bayesfuse.data.arrays import as_array, column_names, narrow, plain, present, shown
from bayesfuse.errors import ResponsesError

LARGEST = 2**53
"""Above this floats are not all the whole numbers."""


class Undeclared:
    """The default mark of what is missing: −1, unless that is declared to be a class."""

    def __repr__(self) -> str:
        return "-1"


UNDECLARED = Undeclared()

# -------------------------------------------------------------------- matrices and patterns


def read_matrix(
    matrix: Any,
    missing: Any,
    items: Sequence[Any] | None,
    raters: Sequence[Any] | None,
    classes: Any,
) -> tuple[NDArray[Any], NDArray[np.bool_], NDArray[Any], NDArray[Any], Any]:
    """Return the answers row by row, the mask of where they are, and names.

    Names of rows, of columns, and of classes, None if neither the user nor a column lists them.
    """
    matrix = present(matrix)
    if classes is not None:
        classes = unique_names(classes, "class")
    marks = _marks(missing, classes)
    columns = None if isinstance(matrix, Mapping) else column_names(matrix)
    if columns is not None:
        items = getattr(matrix, "index", None) if items is None else items
        raters = columns if raters is None else raters
        whole = isinstance(matrix, pd.DataFrame)  # in which a name may come twice
        parts = [
            as_array(matrix.iloc[:, place] if whole else matrix[name])
            for place, name in enumerate(columns)
        ]
        if classes is None:
            if missing is UNDECLARED and any(_declares(part, marks) for part in parts):
                marks = []
            classes = _categories(parts, marks)
        values = _side_by_side(parts)
    else:
        if isinstance(matrix, xr.DataArray) and matrix.ndim == 2:
            own: list[Any] = [matrix[dim] if dim in matrix.coords else None for dim in matrix.dims]
            items = own[0] if items is None else items
            raters = own[1] if raters is None else raters
        values = as_array(matrix)
    if values.ndim != 2:
        sizes = sorted({len(row) for row in values.flat if isinstance(row, Sequence | np.ndarray)})
        shape = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', values.shape)}"
        raise ResponsesError(
            "A matrix of responses has one row per item and one column per rater. Got: "
            f"{f'rows of lengths {sizes}' if sizes else shape}."
        )
    if values.dtype.kind == "V":
        raise ResponsesError(
            "A matrix of responses holds one label in each cell; rows of fields are read by "
            f"from_long. Got: entries of dtype {values.dtype}."
        )
    answered = ~pd.isna(values)
    for mark in [] if values.dtype.kind == "m" else marks:  # which durations have no equals
        answered[answered] = np.asarray(values[answered] != mark, dtype=bool)
    if not answered.any():
        raise ResponsesError(
            f"A matrix of responses must hold at least one. Got: shape {values.shape}, all missing."
        )
    answers = values[answered]
    if answers.dtype == object:  # as of a frame with missing values
        answers = narrow(answers)
    if answers.dtype.kind == "f":
        broken = answers[(answers != np.floor(answers)) | (np.abs(answers) > LARGEST)]
        if len(broken):
            raise ResponsesError(
                "A matrix of floats must hold whole numbers (the labels) and NaN or the missing "
                f"mark; probabilities are no responses. Got: {plain(broken[0])!r}."
            )
        answers = answers.astype(np.int64)
    n_items, n_raters = values.shape
    item_names, rater_names = names_of(n_items, items, "item"), names_of(n_raters, raters, "rater")
    return answers, answered, item_names, rater_names, classes


def _marks(missing: Any, classes: NDArray[Any] | None) -> list[Any]:
    """Return what means "did not answer" beside what is missing by itself.

    Raises
    ------
    ResponsesError
        A mark that the user gives is a class that the user declares.
    """
    given = [-1] if missing is UNDECLARED else missing if is_list_like(missing) else [missing]
    marks = [mark for mark in given if not _no(mark)]
    if classes is None or not marks:
        return marks
    both = [mark for mark in marks if places(as_array([mark]), classes)[0] >= 0]
    if both and missing is not UNDECLARED:
        raise ResponsesError(
            "A mark for missing responses must not be a class, else its responses would be lost. "
            f"Got: {both[0]!r} in missing= and in classes=."
        )
    return [] if both else marks


def _declares(part: Any, marks: list[Any]) -> bool:
    """Say whether a column has such a category."""
    return hasattr(part, "codes") and any(mark in part.categories for mark in marks)


def _no(value: Any) -> bool:
    """Say whether a value is missing by itself."""
    return bool(np.all(pd.isna(value)))


def _side_by_side(parts: list[Any]) -> NDArray[Any]:
    """Put columns beside each other without a change of any entry."""
    parts = [as_array(part.to_numpy()) if hasattr(part, "codes") else part for part in parts]
    kinds = {part.dtype.kind for part in parts}
    if len({part.dtype for part in parts}) > 1 and not (kinds <= set("iuf") and _fit_floats(parts)):
        parts = [pd.Series(part).astype(object).to_numpy() for part in parts]
    return np.column_stack(parts) if parts else np.empty((0, 0))


def _fit_floats(arrays: Sequence[NDArray[Any]]) -> bool:
    """Say whether floats hold all these numbers exactly."""
    whole = [array for array in arrays if array.dtype.kind != "f" and array.size]
    return all(array.min() >= -LARGEST and array.max() <= LARGEST for array in whole)


def _categories(parts: list[Any], marks: list[Any]) -> list[Any] | None:
    """Return the classes that columns declare, None if they do not."""
    declared = [part.categories.tolist() for part in parts if hasattr(part, "codes")]
    if not declared:
        return None
    if len(declared) < len(parts) or any(names != declared[0] for names in declared):
        others = [part[~pd.isna(part)].tolist() for part in parts if not hasattr(part, "codes")]
        try:
            found = sorted(set().union(*declared, *others))
            ordered = all(names == sorted(names) for names in declared)
        except TypeError:
            ordered = False
        if not ordered:
            raise ResponsesError(
                "The categories of all columns must be the same, in one order, else that of the "
                f"classes is not known; give classes=. Got: {shown(declared, 3)}."
            )
        declared = [found]
    return [name for name in declared[0] if name not in marks]


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
        if odd := [pattern for pattern in patterns if not isinstance(pattern, str | tuple)]:
            raise ResponsesError(
                "A pattern in a mapping must be a tuple of labels, or text with one character per "
                f"rater. Got: {odd[0]!r}."
            )
        if items is None:
            items = _pattern_names(patterns)
        lengths = {len(pattern) for pattern in patterns}
        if len(lengths) != 1:
            raise ResponsesError(
                "All patterns must be answers of the same raters, so of one length. Got: "
                f"lengths {sorted(lengths)}."
            )
        patterns = [list(pattern) for pattern in patterns]
    if counts is None:
        raise ResponsesError("Patterns need counts, one each (or use from_matrix). Got: no counts.")
    count = as_array(counts)
    if (
        count.size == 0
        or count.shape != (len(patterns),)
        or count.dtype.kind not in "iuf"
        or not np.all(np.isfinite(count))
        or not np.all((count >= 0) & (count == np.floor(count)))
        or count.max() == 0
    ):
        raise ResponsesError(
            f"Counts must be non-negative integers, one for each of the {len(patterns)} "
            f"patterns, and not all zero. Got: {shown(count)}."
        )
    if sum(map(int, count.tolist())) * max(np.shape(patterns)[1:], default=1) >= LARGEST:
        raise ResponsesError(
            "Counts times raters must stay below 2⁵³, because sums of more responses are not "
            f"exact. Got: {shown(count)}."
        )
    return patterns, count, items


def _pattern_names(patterns: Mapping[Any, Any]) -> list[str]:
    """Name patterns by their labels, as Python writes them where that is needed to differ."""
    labels = [[str(label) for label in pattern] for pattern in patterns]
    names = [("" if all(len(label) == 1 for label in own) else ",").join(own) for own in labels]
    return names if len(set(names)) == len(names) else [repr(pattern) for pattern in patterns]


# -------------------------------------------------------------------- names


def encode(
    values: Any, declared: Sequence[Any] | NDArray[Any] | None, what: str, column: str
) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Number the values by their place among the names."""
    if declared is None:
        codes, found = numbered(values, what, column)
        return codes, unique_names(found, what)
    _require_whole(values, column)
    names = unique_names(declared, what)
    if isinstance(values, pd.Categorical):
        codes = places(as_array(values.categories), names)[values.codes]
    else:
        codes = places(values, names)
    unknown = np.flatnonzero(codes < 0)
    if len(unknown):
        raise ResponsesError(
            f"Every {what} in {column!r} must be among the declared ones {shown(names)}, else it "
            f"would be lost. Got: {plain(values[unknown[0]])!r} in row {unknown[0]} "
            f"(the first is 0; {len(unknown)} such rows)."
        )
    return codes, names


def numbered(values: Any, what: str, column: str) -> tuple[NDArray[np.int64], Any]:
    """Number the values in their order, that of the categories if they have any."""
    _require_whole(values, column)
    if isinstance(values, pd.Categorical):
        return values.codes.astype(np.int64), values.categories
    try:
        codes, found = pd.factorize(values, sort=True)
        if found.dtype == object and infer_dtype(found, skipna=False).startswith("mixed"):
            sorted(found)  # where pandas puts numbers before text
    except TypeError:
        kinds = sorted({type(value).__name__ for value in values})
        raise ResponsesError(
            f"Names of the {what} column {column!r} must be of one kind to have an order. "
            f"Got: {', '.join(kinds)}."
        ) from None
    return codes.astype(np.int64), found


def _require_whole(values: Any, column: str) -> None:
    missing = pd.isna(values)
    if missing.any():
        raise ResponsesError(
            f"Column {column!r} must have a value in every row; leave a row out if nobody "
            f"answered. Got: a missing value in row {int(np.argmax(missing))} (the first is 0; "
            f"{int(missing.sum())} such rows)."
        )


def places(values: NDArray[Any], names: NDArray[Any]) -> NDArray[np.int64]:
    """Return where values stand among names, −1 where they are none of them; all compared exactly.

    Whole numbers and floats are the same if they are equal; truth values are no numbers.
    """
    names = as_array(names)  # times again, if they are that
    both = values, names
    kinds = {array.dtype.kind for array in both}
    if len(kinds) > 1 and ("M" in kinds or ("b" in kinds and kinds <= set("biuf"))):
        return np.full(len(values), -1)
    dtype: np.dtype[Any] | None = np.dtype(object)
    if kinds <= set("iuf"):
        common = np.result_type(*both)
        if common.kind != "f":
            dtype = common
        elif _fit_floats(both):
            dtype = np.dtype(np.float64)
    elif kinds <= set("bM"):
        dtype = None
    try:
        index = pd.Index(names, dtype=dtype).get_indexer(pd.Index(values, dtype=dtype))
    except TypeError:  # a list, say, which is no name
        return places(np.frompyfunc(_hashable, 1, 1)(values), names)
    return index.astype(np.int64)


def _hashable(value: Any) -> Any:
    try:
        hash(value)
    except TypeError:
        return None
    return value


def unique_names(names: Any, what: str) -> NDArray[Any]:
    """Return names as an array of what the file of a result can hold."""
    if isinstance(names, set | frozenset):
        raise ResponsesError(
            f"Names of {_several(what)} must have an order, which a set has not. Got: {names!r}."
        )
    if not is_list_like(names) and not isinstance(names, str):
        raise ResponsesError(
            f"Names of {_several(what)} must be a sequence, one for each. Got: {names!r}."
        )
    values = as_array(names if hasattr(names, "__array__") else list(names))
    if isinstance(values, pd.Categorical):
        values = as_array(values.to_numpy())
    if values.ndim == 1 and (absent := pd.isna(values)).any():
        raise ResponsesError(
            f"Names of {_several(what)} must not be missing. Got: "
            f"{plain(values[int(absent.argmax())])!r}."
        )
    array = _nameable(values, what) if values.ndim == 1 else None
    if array is None:
        kinds = sorted({type(name).__name__ for name in names})
        raise ResponsesError(
            f"Names of {_several(what)} must be all text, all numbers or all times (without a "
            "time zone), and 64 bits must hold each, else a result could not be saved. Got: "
            f"{shown(list(names), 3)} ({', '.join(kinds)})."
        )
    twice = pd.Index(array, dtype=object if array.dtype.kind in "US" else None)
    twice = twice[twice.duplicated()]
    if len(twice):
        raise ResponsesError(
            f"Names of {_several(what)} must differ, else their results could not be told apart. "
            f"Got: {plain(twice[0])!r} more than once."
        )
    return array


def _nameable(values: NDArray[Any], what: str) -> NDArray[Any] | None:
    """Return names as a file has them, None if it cannot."""
    if values.dtype.kind in "biuf":
        return values + 0.0 if values.dtype.kind == "f" else values  # −0 is 0
    if values.dtype.kind == "M":  # as Timestamps, whose tolist() gives no integers
        return np.fromiter(pd.DatetimeIndex(values), dtype=object, count=len(values))
    listed = values.tolist()
    kind = infer_dtype(np.array(listed, dtype=object), skipna=False)
    if kind not in ("string", "bytes"):
        return None
    joined = ("" if kind == "string" else b"").join(listed)
    try:
        holds_zero = 0 in (joined.encode() if isinstance(joined, str) else joined)
    except UnicodeEncodeError as error:
        told: Any = error.object[error.start]
    else:
        if not holds_zero:
            return np.array(listed, dtype=str if kind == "string" else bytes)
        told = "\0" if kind == "string" else b"\0"
    name = next(name for name in listed if told in name)
    raise ResponsesError(
        f"Names of {_several(what)} must be text without the character NUL and without halves of "
        f"characters (surrogates), because files hold neither. Got: {name!r}."
    )


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


def _several(what: str) -> str:
    return f"{what}es" if what.endswith("s") else f"{what}s"


def listed(names: Any) -> list[Any]:
    """Return names as Python has them, times as times; arrays of results have them as integers."""
    array = names if isinstance(names, np.ndarray) else as_array(names)
    if array.dtype.kind == "M":
        return pd.DatetimeIndex(array).tolist()
    found: list[Any] = array.tolist()
    return found


def storable(names: NDArray[Any]) -> Any:
    """Return names as a file's attribute can hold them: truth values as 0 and 1, times as text."""
    if names.dtype == np.uint64:  # a list of them would be read as floats
        return names
    if names.dtype == object:
        return [str(name) for name in names]
    return (names.astype(int) if names.dtype == bool else names).tolist()


def smallest_integer(size: int) -> type[np.signedinteger[Any]]:
    """Return the smallest signed integers that number so many things."""
    kinds = np.int8, np.int16, np.int32, np.int64
    return next(kind for kind in kinds if size - 1 <= np.iinfo(kind).max)
