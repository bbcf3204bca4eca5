"""Text that means a missing response or a skipped item, by one rule for every table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import chain
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import MISSING, SKIPPED, as_array, narrow, quoted, refuse, shown
from bayesfuse.data.names import refuse_missing
from bayesfuse.errors import ResponsesError, require_choice, warn

EMPTY = ""  # a missing label, as NaN and None are, unless it is declared

DECLARED_BY = "classes= of bf.Responses"  # declares classes that would be read as missing

SKIPS_DECLARED_BY = "classes= or abstain="

NO_LABEL = {"none", "nothing", "no label", "n/a", "na", "null", "-"}
"""Text of cells that may mean an empty set, in lower case."""


def left_out(labels: pd.Series, classes: Sequence[Any] | None) -> tuple[list[str], list[str]]:
    """Return the labels that mark missing responses, and those that mark skipped tasks.

    Declared classes, including those of an ordered categorical, mark neither.
    """
    if getattr(labels.dtype, "ordered", False):
        classes = [*(classes or ()), *labels.dtype.categories]
    if labels.dtype.kind in "biufM":
        return [], []
    try:
        declared = set() if classes is None else set(classes)
        names = [name for name in pd.unique(labels.dropna()) if name not in declared]
    except TypeError:  # such as lists, which are refused later
        return [], []
    texts = [name for name in names if isinstance(name, str)]
    marks = [name for name in texts if name.strip() in MISSING]
    skips = [name for name in texts if name.strip().casefold() in SKIPPED]
    n_classes = len(names) + len(declared) - len(marks) - len(skips)
    if skips and n_classes == 1:
        raise ResponsesError(
            f"Responses {shown(skips)} usually mean that a rater skipped the item, and only one "
            "class remains without them: declare both with classes= of bf.Responses if it is a "
            f"class. Got: {len(names)} labels."
        )
    return marks, skips


def skipped(labels: pd.Series, keep: str = DECLARED_BY) -> str:
    """Return in words which responses were read as missing because the item was skipped."""
    return "".join(
        f" {number:,} {'response' if number == 1 else 'responses'} {name!r} "
        f"{'is' if number == 1 else 'are'} read as missing, unless {keep} declares it."
        for name, number in labels.value_counts().items()
        if number
    )


def names_of_labels(classes: Any, abstain: Any) -> list[Any]:
    """Return the labels that a user has declared to be classes or silence."""
    named = [*classes] if is_list_like(classes) else []
    return named if abstain is None else [*named, abstain]


def marks_in_text(parts: list[Any], named: list[Any]) -> list[str]:
    """Return the texts that mean a missing response, with a warning of those that mean skipped."""
    orders = [part.categories for part in parts if getattr(part, "ordered", False)]
    arrays = [as_array(part) for part in parts]
    texts = [np.asarray(part).ravel().tolist() for part in arrays if part.dtype.kind in "OU"]
    cells = pd.Series([*chain.from_iterable(texts)], dtype=object)
    marks, skips = left_out(cells, [*named, *chain.from_iterable(orders)])
    if skips:
        warn(skipped(cells[cells.isin(skips)], SKIPS_DECLARED_BY).strip())
    return [mark for mark in marks if mark != EMPTY] + skips


def without_missing(
    labels: Any, column: str, classes: Any, abstain: Any, missing: str = "error"
) -> tuple[Any, NDArray[np.bool_]]:
    """Return the labels of items that were not skipped, and which rows were; warn of these.

    Missing values, and text that means a missing label, raise ResponsesError, or are left out as
    well (``missing="drop"``).
    """
    require_choice("missing", missing, "error", "drop")
    if missing == "error":
        refuse_missing(labels, column)
    # as objects, because pandas' text holds no surrogates, which are refused by name later
    is_text = isinstance(labels, list) or labels.dtype.kind in "OU"
    cells = pd.Series(labels, dtype=object if is_text else None)
    marks, skips = left_out(cells, names_of_labels(classes, abstain))
    is_missing = np.asarray(cells.isna() | cells.isin(marks), dtype=bool)
    refuse(
        is_missing & (missing == "error"),
        f"Column {column!r} must have a label in every row, and empty text is none (nor is NA) "
        'unless classes= declares it; drop rows without a response (missing="drop" of '
        f"bf.Responses.from_long), or give abstain={marks[0] if marks else EMPTY!r}.",
        lambda n: f"{quoted(cells[n])} in row {n}, counted from 0",
    )
    is_skipped = np.asarray(cells.isin(skips), dtype=bool)
    if skips:
        warn(skipped(cells[is_skipped], SKIPS_DECLARED_BY).strip())
    is_left_out = is_skipped | is_missing
    if not is_left_out.any():
        return labels, is_left_out
    if is_left_out.all() and classes is None:
        raise ResponsesError(
            "At least one row must have a label, or classes= must declare the classes. Got: none "
            f"in {len(cells):,} rows of {column!r}."
        )
    remaining = labels[~is_left_out]
    if isinstance(labels, pd.Categorical):
        remaining = remaining.remove_categories([*{*marks, *skips}.intersection(labels.categories)])
    elif remaining.dtype == object:
        remaining = narrow(remaining)
    if remaining.dtype.kind == "f" and np.all(remaining % 1 == 0):
        remaining = remaining.astype(np.int64)  # floats only because of the missing ones
    return remaining, is_left_out


def sets_without_skipped(sets: list[list[Any] | None], declared: Any) -> list[list[Any] | None]:
    """Return sets, missing where the only label marks a skipped task, and warn of such labels."""
    alone = Counter(labels[0] for labels in sets if labels is not None and len(labels) == 1)
    marks = [name for name in alone if isinstance(name, str) and name not in (declared or ())]
    if skips := [name for name in marks if name.strip().casefold() in SKIPPED]:
        warn(
            f"{sum(alone[name] for name in skips):,} cells {shown(skips)} are read as missing, "
            "unless labels= declares them."
        )
    if nothing := [name for name in marks if name.strip().casefold() in NO_LABEL]:
        warn(
            f"{sum(alone[name] for name in nothing):,} cells {shown(nothing)} count as a label. If "
            "they mean that no label applies, make them empty text; labels= declares the others."
        )
    return [None if labels and labels[0] in skips else labels for labels in sets]


def note_missing_sets(cells: Sequence[Any], sets: Sequence[list[Any] | None]) -> None:
    """Warn if cells of text are NaN and none is empty, as pandas reads files."""
    n_missing = sum(isinstance(cell, float) and cell != cell for cell in cells)  # not None
    if n_missing and [] not in sets and any(isinstance(cell, str) for cell in cells):
        warn(
            f"{n_missing:,} missing cells and no empty set: were empty cells, which mean that no "
            "label applies, read as NaN, which is no response? pd.read_csv(…, "
            "keep_default_na=False) keeps them empty; if not, drop these rows."
        )
