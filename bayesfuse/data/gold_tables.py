"""Known labels as users have them: mappings, Series, tables and files."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import permutations
from os import PathLike
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_scalar

from bayesfuse.data.arrays import MISSING, SKIPPED, as_array, column_names, columns, refuse, shown
from bayesfuse.data.class_names import as_spelt
from bayesfuse.data.column_contents import by_text
from bayesfuse.data.column_roles import ITEM, LABEL, TRUTH, known_names, plain_name
from bayesfuse.data.files import UNNAMED, read_path
from bayesfuse.data.headings import without_headings
from bayesfuse.data.names import JOINT, joined_columns
from bayesfuse.data.responses import Responses
from bayesfuse.errors import ResponsesError

MAX_NAMING = 6  # columns of known labels among which some together name the items


class Names(NamedTuple):
    """Names of items and classes for which the text of files stands."""

    items: NDArray[Any]
    classes: NDArray[Any]


def read_gold(
    gold: Any, names: Responses | Names, item: str = ITEM, label: str = LABEL
) -> Mapping[Any, Any] | pd.Series | None:
    """Return known labels as a mapping, or as a Series, in which names may be repeated.

    In files, names are text and are converted to those of the table ``names``. Missing labels are
    left out: NaN, None, the texts ``MISSING`` and, unless they are classes, −1 and skipped tasks.
    """
    labels_by_item = _gold(gold, names, item, label)
    if labels_by_item is None:
        return None
    if getattr(names, "normalised", False):
        items = pd.Index(list(labels_by_item.keys()), dtype=object)
        labels = as_spelt([label for _, label in labels_by_item.items()], names.classes)
        labels_by_item = pd.Series(labels, items, dtype=object)
    classes = set(names.classes.tolist())

    def is_missing(value: Any) -> bool:
        if not is_scalar(value) or value in classes:
            return False
        if isinstance(value, str):
            return value.strip() in {*MISSING, "-1"} or value.strip().casefold() in SKIPPED
        return bool(pd.isna(value)) or value == -1

    if isinstance(labels_by_item, Mapping):
        return {name: value for name, value in labels_by_item.items() if not is_missing(value)}
    is_known = [not is_missing(value) for value in labels_by_item]
    return labels_by_item.loc[np.array(is_known, dtype=bool)]


def _gold(gold: Any, names: Responses | Names, item: str, label: str) -> Any:
    """Return known labels as a mapping or Series, in which labels may be missing."""
    if isinstance(gold, pd.Series) and gold.index.nlevels > 1:
        gold = gold.rename(LABEL).reset_index()
    if gold is None or isinstance(gold, Mapping | pd.Series):
        return gold
    is_file = isinstance(gold, str | PathLike)
    read = read_path(gold, [item, label])[0] if is_file else gold
    if isinstance(read, pd.DataFrame):
        read = with_item_names(without_headings(read)[0], names)
    header = column_names(read)
    ends = [] if header is None else gold_columns(header, item, label)
    if len(ends) == 2:
        if is_file:
            rule = "Every row of a file of known labels must have an item."
            row_in_words = "an empty one in row {}, counted from 0".format
            refuse(read[ends[0]].isna(), rule, row_in_words)
            return known_as_text(read[ends[0]], read[ends[1]], names)
        items, labels = columns(read, ends, "known labels")
        return pd.Series(labels, index=pd.Index(items, dtype=object), dtype=object)
    if isinstance(read, pd.DataFrame) and read.shape[1] == 1:
        return read.iloc[:, 0]
    got = type(gold).__name__ if header is None else f"columns {shown(header)}"
    raise ResponsesError(
        "Known labels (gold=, truth=) are a mapping (a dict, a pandas Series) from item names to "
        f"class names, a DataFrame with the columns {item!r} and {label!r}, or the path of a file "
        f"with these; dict(zip(items, labels)) makes a mapping of two lists. Got: {got}."
    )


def with_item_names(frame: pd.DataFrame, names: Responses | Names) -> pd.DataFrame:
    """Return a table with a column of items, which others name: together, or one of any name.

    Items of the table of responses are named so by :func:`bayesfuse.io.read_verdicts`.
    """
    items = as_array(names.items).tolist()
    numbers = {name.count(JOINT) + 1 if isinstance(name, str) else 1 for name in items}
    labels = {LABEL, *known_names(frame.columns.tolist(), LABEL)}
    naming = [name for name in frame if name not in labels and plain_name(name) not in TRUTH]
    size = min(numbers, default=1)
    if not {ITEM, UNNAMED, *known_names([*frame], ITEM)} & {*frame}:
        texts = {*map(str, items)}
        holding = [name for name in naming if not texts.isdisjoint(frame[name].astype(str))]
        if len(holding) == 1:
            return frame.rename(columns={holding[0]: ITEM})
    if len(numbers) != 1 or size == 1 or not size <= len(naming) <= MAX_NAMING:
        return frame
    wanted = set(items)
    for chosen in permutations(naming, size):
        joined = joined_columns(frame, list(chosen), JOINT)
        if not wanted.isdisjoint(joined):
            return frame.drop(columns=list(chosen)).assign(**{ITEM: joined})
    return frame


def gold_columns(names: list[Any], item: str = ITEM, label: str = LABEL) -> list[Any]:
    """Return the columns of items and of known labels, where there is one of these."""
    pairs: list[Any] = []
    for role, wanted in ((ITEM, item), (LABEL, label)):
        if role == ITEM:  # a Series as pandas writes it has no name for its index
            others = [name for name in names if name == UNNAMED]
        else:
            others = [name for name in names if plain_name(name) in TRUTH]
        exact = [name for name in (wanted, role) if name in names][:1]
        alike = exact or others or known_names(names, role)
        pairs += alike if len(alike) == 1 else []
    return pairs


def known_as_text(items: pd.Series, labels: pd.Series, names: Responses | Names) -> pd.Series:
    """Return known labels by item, from texts that stand for the names of a table."""
    item_of = {str(name): name for name in as_array(names.items).tolist()}
    class_of = by_text(as_array(names.classes).tolist())
    # whole numbers have a decimal point where others of their column are missing
    classes = [
        text if pd.isna(text) else class_of.get(text, class_of.get(text.removesuffix(".0"), text))
        for text in labels
    ]
    index = pd.Index([item_of.get(text, text) for text in items], dtype=object)
    return pd.Series(classes, index, dtype=object)
