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

from bayesfuse.data.arrays import (
    as_array,
    column_names,
    columns,
    plain,
    present,
    refuse,
    shown,
    usual,
)
from bayesfuse.data.class_names import as_spelt, renamed_classes
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

RENAMED = (
    "responses = bf.Responses.from_long(\n    responses.to_frame(), items=responses.items, "
    "raters=responses.raters{},\n)"
)

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
    positive: Any = None,
    normalise: bool = False,
) -> tuple[Responses, str, str]:
    """Return a table as responses, and how it was read, in words and as code: see ``RULE``.

    Items of a wide table are named by the column ``item`` if there is one, else by the index.
    """
    own = {"item": item, "rater": rater, "label": label}
    naming = {"classes": classes, "positive": positive, "normalise": normalise}
    named = f", positive={plain(positive)!r}" if positive is not None else ""
    named += ", normalise=True" if normalise else ""
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
        if positive is None and normalise is False:
            return given, "", CODE
        return renamed_classes(given, positive, normalise), "", f"{CODE}\n{RENAMED.format(named)}"
    code = "# frame is your table, as read by pandas\n"
    if isinstance(given, str | PathLike):
        given = read_file(given, na_values=MISSING)
        if given.columns[0] == "Unnamed: 0":  # the index, as pandas writes it
            given = given.set_index("Unnamed: 0").rename_axis(None)
    given = present(given)
    if isinstance(given, list) and given and isinstance(given[0], list | tuple | Mapping):
        given = pd.DataFrame(given)
    elif isinstance(given, pd.Series) and given.index.nlevels > 1:  # by item and rater
        given = given.reset_index()
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
        table = Responses.from_matrix(given, **naming)
        return table, wide(table, given, "numbered from 0"), f"{code}matrix(frame{named})"
    if rater != RATER or label != LABEL or rater in names or label in names:
        given, dropped, items = _with_labels(given, (item, rater, label), missing)
        table = Responses.from_long(
            given, item=item, rater=rater, label=label, items=items, **naming
        )
        told = f"{item=}, {rater=}, {label=}"
        frame = "frame"
        if dropped:
            frame = f"frame[frame[{label!r}].notna() & (frame[{label!r}] != '')]"
            if table.classes.dtype.kind == "i":  # floats only because of the missing ones
                frame += f".astype({{{label!r}: int}})"
            told += f",\n    items=sorted(frame[{item!r}].unique())"
        told += named
        words = f"{long(item, rater, label)}{dropped}"
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
        frame, where, index = frame.set_index(item), f"column {item}", f".set_index({item!r})"
    elif own["item"] != ITEM:
        raise ResponsesError(
            f"item= names the column of the items, or the index. Got: {item!r}, which is not "
            f"among {shown(names)}."
        )
    else:
        where, index = "index", ""
    table = Responses.from_matrix(frame, **naming)
    return table, wide(table, frame, where), f"{code}matrix(frame{index}{named})"


def require_few_classes(table: Responses) -> None:
    """Raise ResponsesError if most responses have a label that no other has."""
    alone = int((np.bincount(table.label) == 1).sum())
    if table.n_responses >= MANY and 2 * alone > table.n_responses:
        raise ResponsesError(
            "Labels must be few classes, shared by responses: round measurements or cut them into "
            f"classes (pd.cut). Got: {alone:,} labels of one response among {table.n_responses:,}."
        )


def read_file(path: str | PathLike[str], **settings: Any) -> pd.DataFrame:
    """Return the table in a file, of text as :func:`pandas.read_csv` reads it by settings."""
    try:
        suffixes = Path(path).suffixes
        if ".parquet" in suffixes:
            return pd.read_parquet(path)
        if {".json", ".jsonl"} & {*suffixes}:
            return pd.read_json(path, lines=".jsonl" in suffixes)
        separator = header_of(path, lambda: path)[1]
        return pd.read_csv(path, sep=separator, keep_default_na=False, **settings)
    except (OSError, ValueError) as error:
        raise ModelError(
            "A table as text is the path of a CSV, TSV, Parquet, JSON or JSONL (one object a line) "
            f"file. Got: {brief(str(path))} ({in_short(error)})."
        ) from None


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
    if found is not None and getattr(names, "normalised", False):
        items, labels = list(found.keys()), as_spelt([label for _, label in found.items()], names)
        found = pd.Series(labels, pd.Index(items, dtype=object), dtype=object)
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
    read = read_file(given, dtype=str) if is_file else given
    if (found := column_names(read)) is not None:
        own, plain = usual((item, label), found), usual((ITEM, LABEL), found)
        item, label = (a if a in found else b for a, b in zip(own, plain, strict=True))
    if found is not None and {item, label} <= set(found):
        if is_file:
            rule = "Every row of a file of known labels must have an item."
            refuse(read[item] == "", rule, lambda n: f"an empty one in row {n}, counted from 0")
            return known_as_text(read[item], read[label], names)
        items, labels = columns(read, (item, label), "known labels")
        return pd.Series(labels, index=pd.Index(items, dtype=object), dtype=object)
    if isinstance(given, pd.DataFrame) and given.shape[1] == 1:
        return given.iloc[:, 0]
    got = type(given).__name__ if found is None else f"columns {shown(found)}"
    raise ResponsesError(
        "Known labels (gold=, truth=) are a mapping (a dict, a pandas Series) from item names to "
        f"class names, a DataFrame with the columns {item!r} and {label!r}, or the path of a file "
        f"with these; dict(zip(items, labels)) makes a mapping of two lists. Got: {got}."
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
