"""Read long tables, matrices and response patterns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import (
    LARGEST,
    as_array,
    column_names,
    columns,
    fit_floats,
    narrow,
    plain,
    present,
    refuse,
    shown,
)
from bayesfuse.data.names import encode, names_of, places, unique_names
from bayesfuse.data.silence import require_abstain, silence_of, with_stand_in
from bayesfuse.errors import ResponsesError, brief

LONG = {"item", "rater", "label"}  # columns of a table with one row per response
NUMBERED = 6  # rows that no rater numbers by chance
EMPTY = ""  # a missing label, as NaN and None are, unless it is declared


UNDECLARED = (-1,)
"""The default mark of missing responses: −1, unless that is a declared class."""

Rows = tuple[Any, ...]
"""``(item * raters + rater) * classes + label`` of every response, three names, and silence."""


def read_long(
    frame: Any, names: Sequence[str], declared: tuple[Any, Any, Any], abstain: Any = None
) -> Rows:
    """Read the item, rater and label columns of a table."""
    frame = present(frame)
    known = column_names(frame)
    if missing := [name for name in names if name not in (known or [])]:
        seen = brief(frame) if known is None else f"no column {missing[0]!r} among {shown(known)}"
        raise ResponsesError(
            "A table has one row per response, and item=, rater= and label= name its columns; "
            "pd.read_csv reads it from a file, and bf.Responses.from_matrix reads one with a "
            f"column per rater. Got: {seen}."
        )
    if twice := [name for name in names if names.count(name) > 1]:
        raise ResponsesError(
            "Items, raters and labels must be in a column each, because a name is one of them. "
            f"Got: {twice[0]!r} for two."
        )
    values = columns(frame, names, "responses")
    quiet = None
    if abstain is not None:
        require_abstain(abstain, declared[2], [])
        values[2], quiet = with_stand_in(values[2], declared[2], abstain, names[2])
    _require_written(values[2], declared[2], names[2])
    key, found = np.zeros(len(values[0]), dtype=np.int64), []
    for what, name, given in zip(("item", "rater", "class"), names, declared, strict=True):
        # one column at a time: its codes are the largest arrays needed
        code, own = encode(values.pop(0), given, what, name)
        key *= len(own)
        key += code
        found.append(own)
    silent = None
    if quiet is not None:
        pair, key = key[quiet] // len(found[2]), key[~quiet]
        silent = silence_of(pair, key, found, declared[1] is not None)
    return key, *found, silent


def _require_written(labels: Any, classes: Any, column: str) -> None:
    """Raise ResponsesError if some label is empty text and that is no declared class."""
    if classes is not None and is_list_like(classes) and EMPTY in list(classes):
        return
    if hasattr(labels, "codes") or labels.dtype.kind in "OU":
        refuse(
            np.asarray(labels == EMPTY, dtype=bool),
            f"Column {column!r} must have a label in every row, and empty text is none unless "
            "classes= declares it; drop rows without a response (bf.fuse does it with "
            "missing=\"drop\"), or give abstain=''.",
            lambda n: f"'' in row {n}, counted from 0",
        )


def read_matrix(
    matrix: Any,
    missing: Any,
    items: Sequence[Any] | None,
    raters: Sequence[Any] | None,
    classes: Any,
    abstain: Any = None,
) -> Rows:
    """Read a matrix of labels, shape (items, raters)."""
    matrix, known = present(matrix), raters is not None
    if classes is not None:
        classes = unique_names(classes, "class")
    marks = _marks(missing, classes, abstain)
    if abstain is not None:
        require_abstain(abstain, classes, marks)
    known_columns = None if isinstance(matrix, Mapping) else column_names(matrix)
    if known_columns is not None:
        items = getattr(matrix, "index", None) if items is None else items
        raters = known_columns if raters is None else raters
        parts = [
            as_array(matrix.iloc[:, place] if hasattr(matrix, "iloc") else matrix[name])
            for place, name in enumerate(known_columns)  # names may be duplicate in pandas
        ]
        if classes is None:
            if odd := odd_column(parts, known_columns, [*marks, abstain]):
                which = "a column" if odd[0] is None else f"{odd[0]!r}"
                found = odd[1] if odd[0] is None else f"column {odd[0]!r} {odd[1]}"
                raise ResponsesError(
                    "Columns of a table with one row per item and one column per rater share their "
                    f"labels. If {which} holds something else, drop it; if it names the items, "
                    "give item= of bf.fuse or make it the index (set_index); if each row is one "
                    "response, name the columns by item=, rater= and label= (of bf.fuse or "
                    "bf.Responses.from_long); classes= of from_matrix declares labels of one rater "
                    "alone. Got: "
                    f"{found}, among columns {shown(known_columns)}."
                )
            if missing is UNDECLARED and any(
                hasattr(part, "codes") and -1 in part.categories for part in parts
            ):
                marks = [mark for mark in marks if mark is EMPTY]
            classes = _categories(parts, [*marks, abstain])
        values = _side_by_side(parts)
    else:
        if isinstance(matrix, xr.DataArray) and matrix.ndim == 2:
            own: Any = list(map(matrix.coords.get, matrix.dims))
            items = own[0] if items is None else items
            raters = own[1] if raters is None else raters
        values = as_array(matrix)
    if values.ndim != 2:
        if isinstance(matrix, str | PathLike):
            raise ResponsesError(
                "A matrix of responses must be in memory: pd.read_csv(path, index_col=0) reads it "
                f"from a file whose first column names the items. Got: {brief(matrix)}."
            )
        sizes = sorted({len(row) for row in values.flat if isinstance(row, Sequence | np.ndarray)})
        shape = f"{type(matrix).__name__} of shape {getattr(matrix, 'shape', values.shape)}"
        raise ResponsesError(
            "A matrix of responses must have one row per item and one column per rater. Got: "
            f"{f'rows of lengths {sizes}' if sizes else shape}."
        )
    if values.dtype.kind == "V":
        raise ResponsesError(
            "A matrix of responses must hold one label in each cell; use from_long for records. "
            f"Got: entries of dtype {values.dtype}."
        )
    answered = ~pd.isna(values)
    if values.dtype.kind not in "OU":
        marks = [mark for mark in marks if not isinstance(mark, str)]
    quiet = np.zeros(values.shape, dtype=bool)
    if values.dtype.kind != "m":  # durations equal no mark
        for mark in marks:
            answered[answered] = np.asarray(values[answered] != mark, dtype=bool)
        if abstain is not None:
            quiet[answered] = np.asarray(values[answered] == plain(abstain), dtype=bool)
            answered &= ~quiet
    if not answered.any() and (classes is None or not quiet.any()):
        nothing = "missing" if abstain is None else "missing or silent"
        raise ResponsesError(
            f"A matrix must hold at least one response. Got: shape {values.shape}, all {nothing}."
        )
    answers = values[answered]
    if answers.dtype == object:  # as in a frame with missing values
        answers = narrow(answers)
    if answers.dtype.kind == "f":
        broken = answers[(answers != np.floor(answers)) | (np.abs(answers) > LARGEST)]
        halves = np.all(np.abs(answers) <= LARGEST) and np.all(2 * answers == np.floor(2 * answers))
        if len(broken) and not (halves and answers.max() > 1):  # scores such as 3.5
            raise ResponsesError(
                "A matrix of floats must hold whole or half numbers (the labels) and NaN or the "
                "missing mark, because probabilities are not responses; other scores are read "
                f"from a table with one row per response. Got: {plain(broken[0])!r}."
            )
        answers = answers if len(broken) else answers.astype(np.int64)
    n_items, n_raters = values.shape
    names = [names_of(n_items, items, "item"), names_of(n_raters, raters, "rater")]
    label, class_names = encode(answers, classes, "class", "labels")
    names.append(class_names)
    key, silent = np.flatnonzero(answered) * len(class_names) + label, None
    if abstain is not None:
        silent = silence_of(np.flatnonzero(quiet), key, names, known)
    return key, *names, silent


def _marks(missing: Any, classes: NDArray[Any] | None, abstain: Any = None) -> list[Any]:
    """Return the marks of missing responses, apart from NaN and None."""
    given = missing if is_list_like(missing) else [missing]
    marks = [mark for mark in given if not np.all(pd.isna(mark))]
    both = [mark for mark in marks if _among(mark, classes)]
    if both and missing is not UNDECLARED:
        raise ResponsesError(
            "A mark for missing responses must not be a class, because its responses would be "
            f"dropped. Got: {both[0]!r} in missing= and in classes=."
        )
    if missing is UNDECLARED and (both or (np.isscalar(abstain) and abstain == -1)):
        marks = []
    silent = isinstance(abstain, str) and abstain == EMPTY
    return marks if silent or _among(EMPTY, classes) else [*marks, EMPTY]


def _among(mark: Any, classes: NDArray[Any] | None) -> bool:
    return classes is not None and bool(places(as_array([mark]), classes)[0] >= 0)


def odd_column(parts: list[Any], columns: list[Any], marks: list[Any]) -> tuple[Any, str] | None:
    """Return a column that seems to hold no labels (None: those of a long table do), and why."""
    if LONG <= set(columns):
        return None, f"columns {sorted(LONG)}"
    try:
        said = [
            {label: n for label, n in counts.items() if label not in marks}
            for counts in (pd.Series(np.asarray(part)).value_counts() for part in parts)
        ]
    except (TypeError, ValueError):  # such as lists in cells, which are refused later
        return None
    raters = Counter(label for own in said for label in own)
    number = [sum(own.values()) for own in said]
    odd, apart = [], [own and all(raters[label] == 1 for label in own) for own in said]
    for name, part, own, told in zip(columns, map(np.asarray, parts), said, number, strict=True):
        alone = sum(raters[label] == 1 for label in own)
        whole = told == len(part) <= sum(number) - told  # and others might have said the same
        free = len(own) >= NUMBERED and 2 * len(own) > told  # text in some rows
        if (whole or free) and len(own) > 1 and 2 * alone > len(own):
            odd.append((len(own), name, f"with {len(own)} labels, {alone} of them in no other"))
        elif whole and len(own) == told >= NUMBERED and part.dtype.kind in "iu":
            if (np.diff(part.astype(np.int64)) == 1).all():
                odd.append((len(own), name, "which numbers the rows"))
        elif alone == len(own) > 0 and len(columns) > 3 and sum(map(bool, apart)) == 1:
            if all(isinstance(label, str) for label in own):  # such as remarks
                odd.append((len(own), name, f"with labels of no other, such as {min(own)!r}"))
    return max(odd, key=lambda each: each[0])[1:] if odd else None


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
            found = sorted(set().union(*declared, *others))
            ordered = all(names == sorted(names) for names in declared)
        except TypeError:
            ordered = False
        if not ordered:
            raise ResponsesError(
                "All columns must have the same categories in one order, because it is the order "
                f"of the classes; else give classes=. Got: {shown(declared, 3)}."
            )
        declared = [found]
    return [name for name in declared[0] if name not in marks]


def read_counts(
    patterns: Any, counts: Any, items: Sequence[Any] | None
) -> tuple[Any, NDArray[Any], Sequence[Any] | None]:
    """Return a matrix of patterns, their counts and their names."""
    if isinstance(patterns, Mapping):
        if counts is not None:
            raise ResponsesError(
                "Counts must be given once, and a mapping holds them. Got: a mapping and counts."
            )
        counts = list(patterns.values())
        if odd := [pattern for pattern in patterns if not isinstance(pattern, str | tuple)]:
            raise ResponsesError(
                "A pattern in a mapping must be a tuple of labels, or text with one character per "
                f"rater. Got: {odd[0]!r}."
            )
        if items is None:  # labels joined, if that is unique
            labels = [[str(label) for label in pattern] for pattern in patterns]
            short = ["" if all(len(label) == 1 for label in own) else "," for own in labels]
            items = [between.join(own) for between, own in zip(short, labels, strict=True)]
            items = items if len(set(items)) == len(items) else [repr(each) for each in patterns]
        lengths = {len(pattern) for pattern in patterns}
        if len(lengths) != 1:
            raise ResponsesError(
                "All patterns must be of the same raters and so of one length. Got: lengths "
                f"{sorted(lengths)}."
            )
        patterns = [list(pattern) for pattern in patterns]
    if counts is None:
        raise ResponsesError(
            "Patterns need counts, one each: from_matrix reads items one by one, and a Series "
            "becomes a mapping by to_dict(). Got: no counts."
        )
    count = as_array(counts)
    numbers = count.size > 0 and count.shape == (len(patterns),) and count.dtype.kind in "iuf"
    if not (numbers and 0 < count.max() < np.inf and np.all((count >= 0) & (count % 1 == 0))):
        raise ResponsesError(
            f"Counts must be non-negative integers, one for each of the {len(patterns)} "
            f"patterns, and not all zero. Got: {shown(count)}."
        )
    if sum(map(int, count.tolist())) * max(np.shape(patterns)[1:], default=1) >= LARGEST:
        raise ResponsesError(
            "Counts times raters must stay below 2⁵³, because larger sums are not exact. Got: "
            f"{shown(count)}."
        )
    return patterns, count, items


def with_order[T: Any](
    table: T, ordered: bool | None, declared: Any, frame: Any, label: str | None = None
) -> T:
    """Return a table whose attribute ``ordered`` is set, from all of ``frame`` or one column."""
    dtypes = []
    if label is not None and (isinstance(frame, Mapping) or hasattr(frame, "columns")):
        dtypes = [getattr(frame[label], "dtype", None)]
    elif label is None and isinstance(frame, pd.DataFrame):
        dtypes = frame.dtypes.tolist()
    return replace(table, ordered=read_order(ordered, dtypes, declared, table.classes))


def read_order(
    ordered: bool | None, dtypes: list[Any], declared: Any, classes: NDArray[Any]
) -> bool:
    """Return whether the classes are ordered, if not given by the types of columns and names."""
    if ordered is not None and not isinstance(ordered, bool | np.bool_):
        raise ResponsesError(
            "ordered must be True or False, or left out where the names have an order. Got: "
            f"{ordered!r}."
        )
    if ordered is not None and not ordered:
        return False
    orders = [
        as_array(dtype.categories)
        for dtype in dtypes
        if isinstance(dtype, pd.CategoricalDtype) and dtype.ordered
    ]
    for order in orders:
        place = places(order, classes)
        if (np.diff(place[place >= 0]) < 0).any():
            if ordered is None:
                return False
            raise ResponsesError(
                "The order of the classes is given twice, by classes= and by an ordered "
                "categorical, and must then be the same. Got: "
                f"{shown(classes)} and {shown(order)}."
            )
    categorical = bool(orders) and len(orders) == len(dtypes)
    by_name = classes.dtype.kind not in "US"  # numbers and times
    if ordered is None:
        return categorical or (by_name and bool((classes[1:] > classes[:-1]).all()))
    if declared is None and not (categorical or by_name):
        raise ResponsesError(
            "Text has only alphabetical order, so ordered=True needs classes= with the lowest "
            f"class first, or an ordered categorical. Got: {shown(classes)} and no classes=."
        )
    return True
