"""Tables and known labels as people have them, each read by one rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, column_names, columns, present, refuse, shown, usual
from bayesfuse.data.describing import in_one_line
from bayesfuse.data.names import encode, listed
from bayesfuse.data.reading import EMPTY
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ModelError, ResponsesError, brief

ITEM, RATER, LABEL = "item", "rater", "label"
NAMED = 5  # raters that are named when a table is read
MANY = 20  # responses of which most are of one kind each only if they are measurements or text

MISSING = ("", "NA", "N/A", "n/a", "#N/A", "<NA>", "NaN", "nan")
"""Missing values in files; all else, "None" and "null" included, is a name."""

Table = Responses | pd.DataFrame | NDArray[Any] | str | PathLike[str]
"""What functions of responses take."""


class Names(NamedTuple):
    """Names of items and classes for which the text of files stands."""

    items: NDArray[Any]
    classes: NDArray[Any]


CODE = "# responses is your table: bf.Responses.from_long(frame, item=…, rater=…, label=…)"

RULE = (
    "A DataFrame with a column rater= or label= has one row per response, and any other has one "
    "row per item and one column per rater"
)


def read_table(
    given: Any,
    *,
    item: str = ITEM,
    rater: str = RATER,
    label: str = LABEL,
    missing: str = "error",
    classes: Sequence[Any] | None = None,
) -> tuple[Responses, str, str]:
    """Return a table as responses, and how it was read, in words and as code: see ``RULE``.

    Items of a wide table are named by the column ``item`` if there is one, else by the index.
    """
    own = {"item": item, "rater": rater, "label": label}
    if missing not in ("error", "drop"):
        raise ModelError(
            'missing must be "error" or "drop": what to do with rows that have no label; marks of '
            f"missing responses are missing= of bf.Responses.from_matrix. Got: {brief(missing)}."
        )
    if isinstance(given, Responses):
        if renamed := {what: name for what, name in own.items() if name != what}:
            raise ModelError(
                "item=, rater= and label= name the columns of a DataFrame, and Responses have "
                f"none. Got: {brief(renamed)} with Responses."
            )
        return given, "", CODE
    code = "# frame is your table, as read by pandas\n"
    if isinstance(given, str | PathLike):
        given = _from_file(given)
    given = _as_frame(present(given))
    if isinstance(given, pd.DataFrame):  # such as items in the index of a long table
        meant = usual((item, rater, label), [*given.index.names, *given.columns])
        levels = [name for name in given.index.names if name in meant and name not in given]
        given = given.reset_index(levels) if levels else given
        code += f"frame = frame.reset_index({levels})\n" if levels else ""
    code += "responses = bf.Responses.from_"
    names = column_names(given)
    item, *both = usual((item, rater, label), names)
    if set(both) <= set(names or ()):
        rater, label = both
    if names is None or isinstance(given, xr.DataTree):
        if not isinstance(given, np.ndarray | xr.DataArray):
            raise ModelError(
                "responses must be a DataFrame or a two-dimensional array, or the bf.Responses "
                "that bf.Responses.from_long and from_matrix return, or the path of a CSV or "
                f"Parquet file. Got: {type(given).__name__}."
            )
        table = _matrix(given, classes)
        return table, wide(table, given, "numbered from 0"), f"{code}matrix(frame)"
    if rater != RATER or label != LABEL or rater in names or label in names:
        given, dropped, items = _with_labels(given, (item, rater, label), missing)
        table = Responses.from_long(
            given, item=item, rater=rater, label=label, items=items, classes=classes
        )
        told = f"{item=}, {rater=}, {label=}"
        frame = "frame"
        if dropped:
            frame = f"frame[frame[{label!r}].notna() & (frame[{label!r}] != '')]"
            if table.classes.dtype.kind == "i":  # floats only because of the missing ones
                frame += f".astype({{{label!r}: int}})"
            told += f",\n    items=sorted(frame[{item!r}].unique())"
        words = f"{long(item, rater, label)}{dropped}{_minus_one(table)}"
        return table, words, f"{code}long(\n    {frame},\n    {told},\n)"
    frame = given
    if not isinstance(frame, pd.DataFrame):
        frame = pd.DataFrame(dict(zip(names, columns(given, names, "responses"), strict=True)))
    if item != own["item"] and frame[item].duplicated().any():
        item = own["item"]  # labels of a rater of such a name
    if item in names:
        twice = frame[item][frame[item].duplicated()]
        if len(twice):
            raise ResponsesError(
                f"{RULE}, so that an item has one row: name the columns by rater= and label= "
                f"(rename them for a model). Got: item {twice.iloc[0]!r} in several rows, and "
                f"columns {shown(names)}."
            )
        frame, where, named = frame.set_index(item), f"column {item}", f".set_index({item!r})"
    elif own["item"] != ITEM:
        raise ResponsesError(
            f"item= names the column of the items, or the index. Got: {item!r}, which is not "
            f"among {shown(names)}."
        )
    else:
        where, named = "index", ""
    try:
        table = _matrix(frame, classes)
    except ResponsesError as error:
        if classes is None:
            raise
        raise ResponsesError(f"{error} If a column names the items, make it the index.") from None
    return table, wide(table, frame, where), f"{code}matrix(frame{named})"


def require_few_classes(table: Responses) -> None:
    """Raise ResponsesError if most responses have a label that no other has."""
    alone = int((np.bincount(table.label) == 1).sum())
    if table.n_responses >= MANY and 2 * alone > table.n_responses:
        raise ResponsesError(
            "Labels must be few classes, shared by responses: round measurements or cut them into "
            f"classes (pd.cut). Got: {alone:,} labels of one response among {table.n_responses:,}."
        )


def _from_file(path: str | PathLike[str]) -> pd.DataFrame:
    """Return the table in a CSV, TSV or Parquet file, whose first unnamed column is the index."""
    try:
        if Path(path).suffix == ".parquet":
            return pd.read_parquet(path)
        separator = header_of(path, lambda: path)[1]
        frame = pd.read_csv(path, sep=separator, keep_default_na=False, na_values=MISSING)
    except (OSError, ValueError) as error:
        raise ModelError(
            "A table as text is the path of a CSV or Parquet file. Got: "
            f"{brief(str(path))} ({in_short(error)})."
        ) from None
    unnamed = frame.columns[0] == "Unnamed: 0"
    return frame.set_index("Unnamed: 0").rename_axis(None) if unnamed else frame


def header_of(
    path: str | PathLike[str],
    opened: Callable[[], Any],
    wanted: Sequence[str] = (),
    **settings: Any,
) -> tuple[list[str], str]:
    """Return the column names of a text file, duplicates included, and the separator.

    The separator follows from the suffix of the file, unless another one finds more of the wanted
    columns or, with equally many of these, more columns.
    """
    settings = {"dtype": str, "keep_default_na": False, **settings}
    found = []
    for separator in "\t,;" if ".tsv" in Path(path).suffixes else ",;\t":
        # read as a row, because pandas renames duplicate columns
        frame = pd.read_csv(opened(), sep=separator, header=None, nrows=1, **settings)
        found.append((frame.iloc[0].tolist(), separator))
    return max(found, key=lambda each: (len({*each[0]} & {*wanted}), len(each[0])))


def _as_frame(given: Any) -> Any:
    """Return lists of rows, and a Series by item and rater, as DataFrames."""
    if isinstance(given, list) and given and isinstance(given[0], list | tuple | Mapping):
        return pd.DataFrame(given)
    if isinstance(given, pd.Series) and given.index.nlevels > 1:
        return given.reset_index()
    if isinstance(given, Mapping) and given and isinstance(next(iter(given.values())), dict):
        raise ResponsesError(
            "A dict of dicts may be by item or by rater: pd.DataFrame.from_dict(table, "
            "orient='index') reads {item: {rater: label}}. Got: a dict of dicts."
        )
    return given


def _matrix(cells: Any, classes: Sequence[Any] | None) -> Responses:
    """Read a table with one column per rater, in which −1 may not be one of two classes."""
    found = pd.unique(np.asarray(cells, dtype=object).ravel())[:4]
    labels = [value for value in found.tolist() if not pd.isna(value)]
    if classes is None and len(labels) == 2 and -1 in labels:
        raise ResponsesError(
            "−1 marks missing responses in a table of numbers, which would leave one class here: "
            "for the classes −1 and 1 give bf.Responses.from_matrix(table, classes=[-1, 1]). Got: "
            f"labels {sorted(labels)}."
        )
    return Responses.from_matrix(cells, classes=classes)


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
    return ", ".join(map(in_one_line, names[:NAMED])) + (", …" if len(names) > NAMED else "")


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
    marked = empty - int(np.count_nonzero(pd.isna(values)))
    blank = int(np.count_nonzero(values == EMPTY)) if values.dtype.kind in "OU" else 0
    said = f"; {empty:,} of {size:,} responses {'is' if empty == 1 else 'are'} missing"
    for number, how in ((blank, "empty text"), (marked - blank, "marked −1")):
        said += f", {number:,} of them {how}" if number else ""
    return f"{words}{said}."


def _minus_one(table: Responses) -> str:
    """Return in words that −1 is a class of a long table, where it might mark no response."""
    if table.n_classes < 3 or table.classes.dtype.kind not in "if" or table.classes[0] != -1:
        return ""
    number = int(np.count_nonzero(table.label == 0))
    return f" The label −1 (of {number:,} rows) is a class; leave them out if it marks none."


def _with_labels(
    given: Any, names: tuple[str, str, str], missing: str
) -> tuple[Any, str, list[Any] | None]:
    """Return a long table without the rows that have no label, if asked, the words, and all items.

    Items are those of all rows where some items lose all of theirs, else None.
    """
    if missing == "error" or not set(names) <= set(column_names(given) or []):
        return given, "", None
    values = columns(given, names, "responses")
    written = ~np.asarray(pd.isna(values[2]) | (values[2] == ""), dtype=bool)
    if written.all():
        return given, "", None
    dropped = int(np.count_nonzero(~written))
    if not written.any():
        raise ResponsesError(
            f"At least one row must have a label. Got: none in {dropped:,} rows of {names[2]!r}."
        )
    kept = {name: own[written] for name, own in zip(names, values, strict=True)}
    labels = kept[names[2]]
    if getattr(labels.dtype, "kind", "") == "f" and (labels == np.floor(labels)).all():
        kept[names[2]] = labels.astype(np.int64)  # floats only because of the missing ones
    _, items = encode(values[0], None, "item", names[0])
    (item, rater), before = (pd.unique(pd.Series(kept[name])) for name in names[:2]), values[1]
    lost = [name for name in pd.unique(pd.Series(before).dropna()) if name not in set(rater)]
    return kept, without_labels(dropped, lost), listed(items) if len(item) < len(items) else None


def read_gold(
    given: Any, names: Responses | Names, item: str = ITEM, label: str = LABEL
) -> Mapping[Any, Any] | pd.Series | None:
    """Return known labels as a mapping, or as a Series, in which names may be repeated.

    The text of a file stands for the names of the table ``names``.
    """
    found = _gold(given, names, item, label)
    if "" in names.classes.tolist():
        return found
    if isinstance(found, Mapping):
        return {name: own for name, own in found.items() if not (own is None or own != own)}
    return found if found is None else found[found.notna() & (found.astype(object) != "")]


def _gold(given: Any, names: Responses | Names, item: str, label: str) -> Any:
    """Return known labels as a mapping or Series, in which labels may be missing."""
    if given is None or isinstance(given, Mapping | pd.Series):
        return given
    is_file = isinstance(given, str | PathLike)
    if is_file:
        try:
            given = pd.read_csv(given, dtype=str, keep_default_na=False)
        except (OSError, ValueError) as error:
            raise ResponsesError(
                f"Known labels as text are the path of a CSV file with the columns {item!r} and "
                f"{label!r}. Got: {brief(str(given))} ({in_short(error)})."
            ) from None
    found = column_names(given)
    own, plain = usual((item, label), found), usual((ITEM, LABEL), found)
    item, label = (a if a in (found or ()) else b for a, b in zip(own, plain, strict=True))
    if found is not None and {item, label} <= set(found):
        if is_file:
            rule = "Every row of a file of known labels must have an item."
            refuse(given[item] == "", rule, lambda n: f"an empty one in row {n}, counted from 0")
            return known_as_text(given[item], given[label], names)
        items, labels = columns(given, (item, label), "known labels")
        return pd.Series(labels, index=pd.Index(items, dtype=object), dtype=object)
    if isinstance(given, pd.DataFrame) and given.shape[1] == 1 and not is_file:
        return given.iloc[:, 0]
    got = type(given).__name__ if found is None else f"columns {shown(found)}"
    raise ResponsesError(
        "Known labels (gold=, truth=) are a mapping (a dict, a pandas Series) from item names to "
        f"class names, a DataFrame with the columns {item!r} and {label!r}, or the path of a CSV "
        "file with these; dict(zip(items, labels)) makes a mapping of two lists. Got: "
        f"{got}."
    )


def known_as_text(items: pd.Series, labels: pd.Series, names: Responses | Names) -> pd.Series:
    """Return known labels by item, from texts that stand for the names of a table."""
    item_of, class_of = (
        {str(name): name for name in as_array(own).tolist()} for own in (names.items, names.classes)
    )
    # whole numbers have a decimal point where others of their column are missing
    said = [class_of.get(text, class_of.get(text.removesuffix(".0"), text)) for text in labels]
    index = pd.Index([item_of.get(text, text) for text in items], dtype=object)
    return pd.Series(said, index, dtype=object)


def in_short(error: Exception) -> str:
    """Return the first line of an error's message."""
    return getattr(error, "strerror", None) or str(error).partition("\n")[0]
