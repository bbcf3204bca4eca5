"""Read long tables, matrices and response patterns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import (
    MAX_EXACT_FLOAT,
    as_array,
    as_python,
    column_names,
    columns,
    fit_floats,
    narrow,
    present,
    quoted,
    shown,
)
from bayesfuse.data.column_roles import ITEM, LABEL, RATER, odd_columns
from bayesfuse.data.missing_text import (
    EMPTY,
    marks_in_text,
    names_of_labels,
    without_missing,
)
from bayesfuse.data.names import encode, names_of, places, unique_names
from bayesfuse.data.silence import Silence, require_abstain, silence_of, split_abstentions
from bayesfuse.errors import ResponsesError, require_flag
from bayesfuse.errors.messages import brief

UNDECLARED = (-1,)
"""The default mark of missing responses: −1, unless that is a declared class."""


class CodedRows(NamedTuple):
    """The rows of a table in numbers, with the names that these index."""

    key: NDArray[np.int64]  # (item * raters + rater) * classes + label
    items: NDArray[Any]
    raters: NDArray[Any]
    classes: NDArray[Any]
    silent: Silence | None


def read_long(
    frame: Any,
    names: Sequence[str],
    declared: tuple[Any, Any, Any],
    abstain: Any = None,
    missing: str = "error",
) -> CodedRows:
    """Read the item, rater and label columns of a table."""
    if twice := [name for name in names if names.count(name) > 1]:
        raise ResponsesError(
            "Items, raters and labels must be in a column each, because a name is one of them. "
            f"Got: {twice[0]!r} for two."
        )
    *ends, labels = columns(frame, names, "responses")
    if abstain is not None:
        require_abstain(abstain, declared[2], [])
    labels, is_skipped = without_missing(labels, names[2], declared[2], abstain, missing)
    labels, quiet = split_abstentions(labels, abstain)
    pair, names_of = np.zeros(int((~is_skipped).sum()), dtype=np.int64), []
    for what, name, declared_names in zip(("item", "rater"), names, declared, strict=False):
        # one column at a time, because codes are the largest arrays
        values = ends.pop(0)
        if what == "rater" and is_skipped.any():
            values = values[~is_skipped]
        code, distinct = encode(values, declared_names, what, name)
        if what == "item" and is_skipped.any():  # an item remains if all have skipped it
            code = code[~is_skipped]
        pair *= len(distinct)
        pair += code
        names_of.append(distinct)
    left_out_rows = is_skipped
    if quiet is not None:
        left_out_rows = is_skipped.copy()
        left_out_rows[~is_skipped] = quiet
    return _coded(pair, labels, quiet, names_of, declared[1:], names[2], left_out_rows)


def _coded(
    pair: NDArray[np.int64],
    labels: Any,
    quiet: Any,
    names: list[Any],
    declared: Any,
    column: str,
    left_out_rows: Any,
) -> CodedRows:
    """Return the rows of pairs, item × raters + rater; those that are ``quiet`` have no label.

    ``left_out_rows`` of the table have no label in ``labels``.
    """
    raters, classes = declared
    if classes is None and len(labels) == 0:
        raise ResponsesError(
            "Some source must respond, or the classes must be declared with classes=, because they "
            f"are unknown otherwise. Got: silence in all {len(pair)} rows."
        )
    key, silent_pairs = (pair, pair[:0]) if quiet is None else (pair[~quiet], pair[quiet])
    code, distinct = encode(labels, classes, "class", column, left_out_rows)
    key *= len(distinct)  # in place, to save memory
    key += code
    items, rater_names = names
    silent = None
    if quiet is not None:
        silent = silence_of(silent_pairs, key, [*names, distinct], raters is not None)
    return CodedRows(key, items, rater_names, distinct, silent)


def read_matrix(
    matrix: Any,
    missing: Any,
    items: Sequence[Any] | None,
    raters: Sequence[Any] | None,
    classes: Any,
    abstain: Any = None,
) -> CodedRows:
    """Read a matrix of labels, shape (items, raters)."""
    matrix, declared = present(matrix), raters
    if classes is not None:
        classes = unique_names(classes, "class")
    marks = _marks(missing, classes, abstain)
    if abstain is not None:
        require_abstain(abstain, classes, marks)
    names = None if isinstance(matrix, Mapping) else column_names(matrix)
    if names is not None:
        items = getattr(matrix, "index", None) if items is None else items
        raters = names if raters is None else raters
        values, marks, classes = _frame_values(matrix, names, marks, classes, missing, abstain)
        _require_cells(values, matrix)
    else:
        if isinstance(matrix, xr.DataArray) and matrix.ndim == 2:
            coordinates: Any = list(map(matrix.coords.get, matrix.dims))
            items = coordinates[0] if items is None else items
            raters = coordinates[1] if raters is None else raters
        values = as_array(matrix)
        _require_cells(values, matrix)
        if missing is UNDECLARED:
            marks += marks_in_text([values], names_of_labels(classes, abstain))
    if values.dtype.kind not in "OU":
        marks = [mark for mark in marks if not isinstance(mark, str)]
    answered = ~pd.isna(values)
    answered[answered] = places(values[answered], as_array(marks)) < 0
    if not answered.any():
        raise ResponsesError(
            f"A matrix must hold at least one response. Got: shape {values.shape}, all missing."
        )
    labels, quiet = split_abstentions(values[answered], abstain)
    if labels.dtype == object:  # as in a frame with missing values
        labels = narrow(labels)
    if labels.dtype.kind == "f":
        labels = _without_decimals(labels)
    names = [names_of(len(values), items, "item"), names_of(values.shape[1], raters, "rater")]
    pair = np.flatnonzero(answered)
    return _coded(pair, labels, quiet, names, (declared, classes), "labels", quiet)


def _frame_values(
    frame: Any, names: list[Any], marks: list[Any], classes: Any, missing: Any, abstain: Any
) -> tuple[NDArray[Any], list[Any], Any]:
    """Return the cells of a frame, the marks of missing responses, and the classes if declared."""
    parts = [
        as_array(frame.iloc[:, place] if hasattr(frame, "iloc") else frame[name])
        for place, name in enumerate(names)  # names may be duplicate in pandas
    ]
    if missing is UNDECLARED:
        marks = marks + marks_in_text(parts, names_of_labels(classes, abstain))
    if classes is None:
        _require_labels(parts, names, [*marks, abstain])
        categories = [part.categories for part in parts if hasattr(part, "codes")]
        if missing is UNDECLARED and any(-1 in column for column in categories):
            marks = [mark for mark in marks if mark is EMPTY]
        classes = _categories(parts, [*marks, abstain])
    return _side_by_side(parts), marks, classes


def _require_labels(parts: list[Any], names: list[Any], marks: list[Any]) -> None:
    """Raise ResponsesError if columns of a frame seem to hold no labels of a rater."""
    odd = odd_columns(parts, names, marks)
    reasons = "; ".join(f"column {quoted(name)} {why}" for name, why in odd)
    if {ITEM, RATER, LABEL} <= set(names):
        reasons = f"columns {sorted((ITEM, RATER, LABEL))}"
    if reasons:
        listed_names = [as_python(name) for name, _ in odd]
        drop = f", as by frame.drop(columns={listed_names})" if odd else ""
        raise ResponsesError(
            "In a table with a row per item and a column per rater, columns share labels. "
            f"Drop those that hold something else{drop}; if one names the items, give item= of "
            "bf.fuse or set_index; if a row is a response, name the columns by item=, rater= and "
            "label= of bf.Responses.from_long; classes= of bf.Responses.from_matrix declares "
            "labels that only one rater uses. Got: "
            f"{reasons}, among columns {shown(names)}."
        )


def _require_cells(values: NDArray[Any], matrix: Any) -> None:
    """Raise ResponsesError unless values are one label per item and rater."""
    if values.ndim == 2 and values.dtype.kind != "V":
        return
    sizes = sorted({len(row) for row in values.flat if isinstance(row, Sequence | np.ndarray)})
    shape = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', values.shape)}"
    description = brief(matrix) if isinstance(matrix, str | PathLike) else shape
    raise ResponsesError(
        "A matrix of responses must have one row per item and one column per rater, with one "
        "label in each cell; pd.read_csv(path, index_col=0) reads it from a file, and "
        "from_long reads records. Got: "
        f"{f'rows of lengths {sizes}' if len(sizes) > 1 else description}."
    )


def _without_decimals(labels: NDArray[Any]) -> NDArray[Any]:
    """Return whole numbers as integers and half ones unchanged, or raise ResponsesError."""
    is_exact = np.abs(labels) <= MAX_EXACT_FLOAT
    is_integer = is_exact & (labels == np.floor(labels))
    if is_integer.all():
        return labels.astype(np.int64)
    is_half = is_exact & (2 * labels == np.floor(2 * labels))
    if not (is_half.all() and labels.max() > 1):  # scores such as 3.5
        raise ResponsesError(
            "A matrix of floats must hold whole or half numbers (the labels) and NaN or the "
            "missing mark, because probabilities are not responses; other scores are read "
            f"from a table with one row per response. Got: {as_python(labels[~is_integer][0])!r}."
        )
    return labels


def _marks(missing: Any, classes: NDArray[Any] | None, abstain: Any = None) -> list[Any]:
    """Return the marks of missing responses, each once, apart from NaN and None."""
    listed_marks = missing if is_list_like(missing) else [missing]
    marks = [mark for mark in dict.fromkeys(listed_marks) if not np.all(pd.isna(mark))]
    both = [mark for mark in marks if _among(mark, classes)]
    if both and missing is not UNDECLARED:
        raise ResponsesError(
            "A mark for missing responses must not be a class, because its responses would be "
            f"dropped. Got: {both[0]!r} in missing= and in classes=."
        )
    if missing is UNDECLARED and (both or (np.isscalar(abstain) and abstain == -1)):
        marks = []
    is_label = (isinstance(abstain, str) and abstain == EMPTY) or _among(EMPTY, classes)
    return marks if is_label or EMPTY in marks else [*marks, EMPTY]


def _among(mark: Any, classes: NDArray[Any] | None) -> bool:
    return classes is not None and bool(places(as_array([mark]), classes)[0] >= 0)


def _side_by_side(parts: list[Any]) -> NDArray[Any]:
    """Stack columns without changing any entry."""
    parts = [as_array(part.to_numpy()) if hasattr(part, "codes") else part for part in parts]
    kinds = {part.dtype.kind for part in parts}
    if len({part.dtype for part in parts}) > 1 and not (kinds <= set("iuf") and fit_floats(parts)):
        parts = [pd.Series(part).astype(object).to_numpy() for part in parts]
    return np.column_stack(parts) if parts else np.empty((0, 0))


def _categories(parts: list[Any], marks: list[Any]) -> list[Any] | None:
    """Return the classes that categorical columns declare, None if there are none."""
    declared = [part.categories.tolist() for part in parts if hasattr(part, "codes")]
    if not declared:
        return None
    if len(declared) < len(parts) or any(names != declared[0] for names in declared):
        others = [part[~pd.isna(part)].tolist() for part in parts if not hasattr(part, "codes")]
        try:
            united = sorted(set().union(*declared, *others))
            ordered = all(names == sorted(names) for names in declared)
        except TypeError:
            ordered = False
        if not ordered:
            raise ResponsesError(
                "All columns must have the same categories in one order, because it is the order "
                f"of the classes; else give classes=. Got: {shown(declared, 3)}."
            )
        declared = [united]
    return [name for name in declared[0] if name not in marks]


def _joined(pattern: str | tuple[Any, ...]) -> str:
    """Return the labels of a pattern as one name."""
    labels = list(map(str, pattern))
    return ("," if any(len(label) != 1 for label in labels) else "").join(labels)


def read_counts(
    patterns: Any, counts: Any, items: Sequence[Any] | None
) -> tuple[Any, NDArray[Any], Sequence[Any] | None]:
    """Return a matrix of patterns, their counts and their names."""
    if isinstance(patterns, Mapping) is not (counts is None):
        raise ResponsesError(
            "Counts must be given once, by a mapping from patterns (of a Series, to_dict()) or by "
            "counts=; from_matrix reads items one by one. Got: "
            f"{'no counts' if counts is None else 'a mapping and counts'}."
        )
    if isinstance(patterns, Mapping):
        counts = list(patterns.values())
        if odd := [pattern for pattern in patterns if not isinstance(pattern, str | tuple)]:
            raise ResponsesError(
                "A pattern in a mapping must be a tuple of labels, or text with one character per "
                f"rater. Got: {odd[0]!r}."
            )
        items = [_joined(pattern) for pattern in patterns] if items is None else items
        if len(set(items)) < len(items):
            items = [repr(pattern) for pattern in patterns]
        patterns = [list(pattern) for pattern in patterns]
    count = as_array(counts)
    numbers = count.size > 0 and count.shape == (len(patterns),) and count.dtype.kind in "iuf"
    if not (numbers and 0 < count.max() < np.inf and np.all((count >= 0) & (count % 1 == 0))):
        raise ResponsesError(
            f"Counts must be non-negative integers, one for each of the {len(patterns)} "
            f"patterns, and not all zero. Got: {shown(count)}."
        )
    most = max((np.size(pattern) for pattern in patterns), default=1)
    if sum(map(int, count.tolist())) * most >= MAX_EXACT_FLOAT:
        raise ResponsesError(
            "Counts times raters must stay below 2⁵³, because larger sums are not exact. Got: "
            f"{shown(count)}."
        )
    return patterns, count, items


def read_order(
    ordered: bool | None, dtypes: list[Any], declared: Any, classes: NDArray[Any]
) -> bool:
    """Return whether the classes are ordered, if not given by the types of columns and names."""
    if ordered is not None:
        require_flag("ordered", ordered)
        if not ordered:
            return False
    n_ordered = 0
    for dtype in dtypes:
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered:
            n_ordered += 1
            place = places(as_array(dtype.categories), classes)
            if (np.diff(place[place >= 0]) < 0).any():
                return bool(ordered)  # as declared by classes=
    categorical = n_ordered == len(dtypes) > 0
    by_name = classes.dtype.kind not in "US"  # numbers and times
    if ordered is None:
        return categorical or (by_name and bool((classes[1:] > classes[:-1]).all()))
    if declared is None and not (categorical or by_name):
        raise ResponsesError(
            "Text has only alphabetical order, so ordered=True needs classes= with the lowest "
            f"class first, or an ordered categorical. Got: {shown(classes)} and no classes=."
        )
    return True
