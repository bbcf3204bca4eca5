"""Tables and known labels in the forms that users have, each read by one rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import (
    as_array,
    as_python,
    column_names,
    columns,
    present,
)
from bayesfuse.data.cell_types import BOOLEANS, is_altered, with_types
from bayesfuse.data.class_names import renamed_classes
from bayesfuse.data.column_roles import (
    ITEM,
    KNOWN,
    LABEL,
    RATER,
    Roles,
    assign_roles,
    known_names,
)
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.files import UNNAMED, read_call, read_path
from bayesfuse.data.headings import without_headings
from bayesfuse.data.layouts import naming_reader, refuse_nested
from bayesfuse.data.missing_text import EMPTY, left_out, skipped
from bayesfuse.data.names import encode, listed
from bayesfuse.data.responses import Responses
from bayesfuse.data.vote_counts import refuse_counts
from bayesfuse.errors import ModelError, ResponsesError
from bayesfuse.errors.messages import brief

MAX_NAMED = 5  # raters whose names a description lists
MAX_NUMBERS, LOW_AGREEMENT = 20, 0.2
"""More numbers than these as classes, with less agreement, are scores."""

MIN_RESPONSES = 20  # of a table in which most labels occur once only if they are free text

type Table = Responses | pd.DataFrame | NDArray[Any] | str | PathLike[str]
"""What functions of responses take."""


ROLES = [ITEM, RATER, LABEL]  # names of the columns, where the table has none
FRAME = "# frame is your table, as read by pandas"
CODE = "# responses is your table: bf.Responses.from_long(frame, item=…, rater=…, label=…)"
RENAMED = """responses = bf.Responses.from_long(
    responses.to_frame(), items=responses.items, raters=responses.raters{},
)"""


def read_table(
    source: Any,
    *,
    item: str = ITEM,
    rater: str = RATER,
    label: str = LABEL,
    missing: str = "error",
    classes: Sequence[Any] | None = None,
    positive: Any = None,
    normalise: bool = False,
) -> tuple[Responses, str, str, list[str]]:
    """Return a table as responses, how it was read, in words and as code, and its columns.

    A long table has columns of raters and labels, as :func:`assign_roles` recognises them. Items of
    a wide table are named by a column of items if there is one, else by the index.
    """
    wanted = item, rater, label
    naming = {"classes": classes, "positive": positive, "normalise": normalise}
    if missing not in ("error", "drop"):
        raise ModelError(
            'missing must be "error" or "drop": what to do with rows that have no label; marks of '
            f"missing responses are missing= of bf.Responses.from_matrix. Got: {brief(missing)}."
        )
    if isinstance(source, Responses):
        names = {ITEM: item, RATER: rater, LABEL: label}
        if renamed := {role: name for role, name in names.items() if name != role}:
            raise ModelError(
                "item=, rater= and label= name the columns of a DataFrame, and Responses have "
                f"none. Got: {brief(renamed)} with Responses."
            )
        if positive is None and normalise is False:
            return source, "", CODE, ROLES
        code_of_names = RENAMED.format(naming_code(naming))
        return renamed_classes(source, positive, normalise), "", f"{CODE}\n{code_of_names}", ROLES
    if isinstance(source, str | PathLike):
        frame, separator = read_path(source, wanted)
        code = [read_call(source, separator)]
    else:
        frame, separator, code = _as_frame(source), "", [FRAME]
    if not isinstance(frame, pd.DataFrame):
        refuse_counts(frame)
        table = Responses.from_matrix(frame, **naming)
        code.append(f"responses = bf.Responses.from_matrix(frame{naming_code(naming)})")
        return table, wide(table, frame, "numbered from 0"), "\n".join(code), ROLES
    refuse_nested(frame)
    with naming_reader(frame.columns):
        frame, note = _tidy(_with_index_columns(frame, wanted, code), code)
        frame, roles = assign_columns(frame, wanted, code)
        if separator or note:
            typed, naming = with_types(frame, roles, naming)
            if note:  # the headings made text of numbers
                changed = [name for name in typed if typed[name].dtype != frame[name].dtype]
                booleans = [name for name in changed if typed[name].dtype == bool]
                if numbers := [name for name in changed if name not in booleans]:
                    code.append(f"frame[{numbers}] = frame[{numbers}].apply(pd.to_numeric)")
                if booleans:
                    code.append(f"frame[{booleans}] = frame[{booleans}].replace({BOOLEANS})")
            else:
                texts = [name for name in typed if not roles.is_long or name in roles]
                texts = [name for name in texts if is_altered(typed[name])]
                code[0] = read_call(source, separator, texts)
            frame = typed
        table, words = read_rows(frame, roles, naming, missing, code)
    of_table = [
        role if name in (None, UNNAMED) else str(name)
        for name, role in zip(roles, ROLES, strict=True)
    ]
    return table, words + note, "\n".join(code), of_table


def _with_index_columns(
    frame: pd.DataFrame, wanted: tuple[str, str, str], code: list[str]
) -> pd.DataFrame:
    """Move levels of the index that are columns of a long table, such as items, to columns."""
    levels = [name for name in frame.index.names if name is not None and name not in frame]
    known = [*wanted, *(name for role in KNOWN for name in known_names(levels, role))]
    if not (levels := [name for name in levels if name in known]):
        return frame
    code.append(f"frame = frame.reset_index({levels})")
    return frame.reset_index(levels)


def naming_code(naming: dict[str, Any]) -> str:
    """Return the arguments for the names of classes as code."""
    positive = naming["positive"]
    code = "" if positive is None else f", positive={as_python(positive)!r}"
    return code + (", normalise=True" if naming["normalise"] else "")


def _as_frame(table: Any) -> Any:
    """Return a table of any library as a DataFrame, and a matrix unchanged."""
    table = present(table)
    if isinstance(table, list) and table and isinstance(table[0], list | tuple | Mapping):
        return pd.DataFrame(table)
    if isinstance(table, pd.Series) and table.index.nlevels > 1:  # by item and rater
        return table.reset_index()
    names = column_names(table)
    if names is None or isinstance(table, xr.DataTree):
        if not isinstance(table, np.ndarray | xr.DataArray):
            raise ModelError(
                "responses must be a DataFrame or a two-dimensional array, or the bf.Responses "
                "that bf.Responses.from_long and from_matrix return, or the path of a CSV or "
                f"Parquet file. Got: {type(table).__name__}."
            )
        return table
    if isinstance(table, pd.DataFrame):
        return table
    return pd.DataFrame(dict(zip(names, columns(table, names, "responses"), strict=True)))


def _tidy(frame: pd.DataFrame, code: list[str]) -> tuple[pd.DataFrame, str]:
    """Return a table without rows of headings and unnamed columns, and a note; extend ``code``."""
    frame, empty, rows = without_headings(frame)
    if empty:
        code.append(f"frame = frame.drop(columns={empty})")
    if rows:
        frame = frame.reset_index(drop=True)
        code.append(f"frame = frame.drop(index=frame.index[{rows}]).reset_index(drop=True)")
    return frame, headings(len(rows))


def assign_columns(
    frame: pd.DataFrame,
    wanted: tuple[Any, Any, Any],
    code: list[str],
    *,
    is_wide: bool | None = None,
    others: Sequence[Any] = (),
) -> tuple[pd.DataFrame, Roles]:
    """Return a table without columns that are not read, and the roles of its columns.

    The first column is the index, as pandas writes it, if it has no name and distinct values: the
    items of a wide table in which no column is named so. ``others`` are neither items nor raters.
    """
    unread = [*others]
    if frame.shape[1] > 1 and frame.columns[0] == UNNAMED and frame[UNNAMED].is_unique:
        unread.append(UNNAMED)
    has_index = UNNAMED in unread or not isinstance(frame.index, pd.RangeIndex)
    names = [name for name in frame.columns if name not in unread]
    roles = assign_roles(frame, names, wanted, is_wide=is_wide, has_index=has_index)
    if roles.is_long:
        return frame, roles
    if roles.item is None and UNNAMED in unread:
        roles = Roles(UNNAMED)
    if dropped := [name for name in frame if name in unread and name != roles.item]:
        frame = frame.drop(columns=dropped)
        code.append(f"frame = frame.drop(columns={dropped})")
    return frame, roles


def headings(number: int) -> str:
    """Return in words how many rows were left out as headings."""
    if not number:
        return ""
    return f" Left out as headings: {number} {'row' if number == 1 else 'rows'}."


def read_rows(
    frame: pd.DataFrame, roles: Roles, naming: dict[str, Any], missing: str, code: list[str]
) -> tuple[Responses, str]:
    """Return the responses in a table with these roles, and how it was read; extend ``code``."""
    if roles.is_long:
        return _read_long(frame, roles, missing, naming, code)
    is_numbered = roles.item is None and isinstance(frame.index, pd.RangeIndex)
    source = "numbered from 0" if is_numbered else "index"
    if roles.item is not None:
        source = "index" if roles.item == UNNAMED else f"column {roles.item}"
        frame = frame.set_index(roles.item)
        code.append(f"frame = frame.set_index({roles.item!r})")
    refuse_counts(frame)
    return _read_wide(frame, source, naming, code)


def _read_long(
    frame: pd.DataFrame, roles: Roles, missing: str, naming: dict[str, Any], code: list[str]
) -> tuple[Responses, str]:
    item, rater, label = roles
    items, note, filters, classes = None, "", "", naming["classes"]
    call = f"{item=}, {rater=}, {label=}"
    columns(frame, roles, "responses")  # raises if one is missing
    marks, skips = left_out(frame[label], classes)
    no_label = np.asarray(frame[label].isna() | frame[label].isin(marks))
    is_skipped = np.asarray(frame[label].isin(skips))
    dropped = is_skipped | (no_label & (missing == "drop"))
    if dropped.all():
        raise ResponsesError(
            f"At least one row must have a label. Got: none in {len(frame):,} rows of {label!r}."
        )
    rows = frame
    if dropped.any():
        rows = frame.loc[~dropped, list(roles)]
        rows[label] = _without(rows[label], [*marks, *skips]).infer_objects()
        filters = f"[frame[{label!r}].notna()]" if no_label.any() else ""
        if marks or skips:
            has_label = f"~frame[{label!r}].isin({[*marks, *skips]})"
            filters = f"{filters.removesuffix(']')} & {has_label}]" if filters else f"[{has_label}]"
        before, kind = frame[label].dtype, rows[label].dtype.kind
        # labels may have another type only because of missing ones
        if kind in "if" and (before.kind in "fO" or before == "Int64"):
            is_whole = (rows[label] == np.floor(rows[label])).all()
            if is_whole:
                rows[label] = rows[label].astype(np.int64)
            if is_whole or before.kind == "O":
                filters += f".astype({{{label!r}: {'int' if is_whole else 'float'}}})"
        elif kind == "b" and before.kind == "O":
            filters += f".replace({{{label!r}: {BOOLEANS}}})"
        if rows[item].nunique() < frame[item].nunique():
            (named,) = columns(frame[[item]].dropna(), [item], "responses")
            items = listed(encode(named, None, "item", item)[1])
            call += f",\n    items=sorted(frame[{item!r}].unique())"
        remaining = set(pd.unique(rows[rater]))
        lost = [name for name in pd.unique(frame[rater].dropna()) if name not in remaining]
        note = without_labels(int((no_label & dropped).sum()), lost)
        note += skipped(frame[label][is_skipped])
    elif other := [mark for mark in marks if mark != EMPTY]:
        rows = frame.assign(**{label: _without(frame[label], other)})
    table = Responses.from_long(rows, item=item, rater=rater, label=label, items=items, **naming)
    call += naming_code(naming)
    code.append(f"responses = bf.Responses.from_long(\n    frame{filters},\n    {call},\n)")
    return table, long(item, rater, label) + note


def _read_wide(
    frame: pd.DataFrame, item_source: str, naming: dict[str, Any], code: list[str]
) -> tuple[Responses, str]:
    """Return the responses in a table with items in the index, and how they were read."""
    classes = naming["classes"]
    texts = frame.select_dtypes(exclude=["number", "bool", "datetime"])
    cells = pd.Series(texts.to_numpy(dtype=object).ravel(), dtype=object)
    ordered = [dtype.categories for dtype in texts.dtypes if getattr(dtype, "ordered", False)]
    marks, skips = left_out(cells, [*ordered[0], *(classes or ())] if ordered else classes)
    if marks := [mark for mark in marks if mark != EMPTY] + skips:
        frame = frame.apply(_without, args=(marks,))
        code.append(f"frame = frame.mask(frame.isin({marks}))")
        kinds = {type(cell) for cell in cells[cells.notna()]} - {str}  # of a file
        if bool in kinds:
            code.append(f"frame = frame.replace({BOOLEANS})")
        elif kinds:
            code.append("frame = frame.apply(pd.to_numeric)")
    table = Responses.from_matrix(frame, **naming)
    code.append(f"responses = bf.Responses.from_matrix(frame{naming_code(naming)})")
    return table, wide(table, frame, item_source) + skipped(cells[cells.isin(skips)])


def _without(labels: pd.Series, marks: list[str]) -> pd.Series:
    """Return labels with missing values in place of marks."""
    if isinstance(labels.dtype, pd.CategoricalDtype):
        return labels.cat.remove_categories([m for m in marks if m in labels.cat.categories])
    return labels.mask(labels.isin(marks)) if labels.dtype.kind not in "biufM" else labels


def require_few_classes(table: Responses) -> None:
    """Raise ResponsesError if most responses have a label that no other has."""
    alone = int((np.bincount(table.label) == 1).sum())
    if table.n_responses >= MIN_RESPONSES and 2 * alone > table.n_responses:
        raise ResponsesError(
            "Labels must be few classes, shared by responses: bf.Responses.from_scores cuts scores "
            "on a scale into classes, and bf.Responses.from_votes reads counts of votes. Got: "
            f"{alone:,} labels of one response among {table.n_responses:,}."
        )
    may_be_scores = table.classes.dtype.kind in "iuf" and table.n_classes > MAX_NUMBERS
    if may_be_scores and table.agreement() < LOW_AGREEMENT:
        raise ResponsesError(
            "Scores on a scale are read as ordered classes by bf.Responses.from_scores, because "
            "hardly any are equal; numbers that are codes of classes become text. Got: "
            f"{table.n_classes:,} numbers, {table.agreement():.0%} of the pairs on an item equal."
        )


def long(item: str, rater: str, label: str) -> str:
    """Return in words how a long table was read."""
    return f"Read as a long table, one row per response (columns {item}, {rater} and {label})."


def without_labels(number: int, lost: Sequence[Any]) -> str:
    """Return in words how many rows without a label were dropped, and raters who have no other."""
    if not number:
        return ""
    raters = f"; no others have the raters {_first(lost)}, who are left out" if len(lost) else ""
    return f" Dropped rows without a label: {number:,}{raters}."


def _first(names: Sequence[Any]) -> str:
    more = ", …" if len(names) > MAX_NAMED else ""
    return ", ".join(map(in_one_line, names[:MAX_NAMED])) + more


def wide(table: Responses, cells: Any, items: str) -> str:
    """Return in words how a wide table was read, with the number of missing responses."""
    words = f"Read as a wide table, one row per item ({items}) and one column per rater"
    if table.raters.dtype.kind in "OU":  # a column of other things would be seen
        words += f" ({_first(table.raters.tolist())})"
    size = np.size(cells)
    empty = size - table.n_responses
    if not empty:
        return f"{words}."
    values = cells.to_numpy() if isinstance(cells, pd.DataFrame) else as_array(cells)
    answers = values[~pd.isna(values)]
    marked = empty - (size - len(answers))
    blank = int(np.count_nonzero(answers == EMPTY)) if values.dtype.kind in "OU" else 0
    missing_note = f"; {empty:,} of {size:,} responses {'is' if empty == 1 else 'are'} missing"
    for number, how in ((blank, "empty text"), (marked - blank, "marked −1")):
        missing_note += f", {number:,} of them {how}" if number else ""
    return f"{words}{missing_note}."
