"""Partial answers: "A or B", "not A"."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_array, columns, present, quoted, shown
from bayesfuse.data.class_names import positive_last
from bayesfuse.data.missing_text import without_missing
from bayesfuse.data.names import encode, unique_names
from bayesfuse.data.statements import statements_of, table_of
from bayesfuse.errors import ResponsesError, warn

NOT = "not "  # before a class that an answer excludes
BETWEEN = re.compile(r"\s+or\s+|\s*[,;/|+&]\s*")  # classes in one cell


class ReadsPartialAnswers:
    """The method of :class:`bayesfuse.Responses` that reads answers of several classes."""

    @classmethod
    def from_partial_answers(
        cls,
        frame: Any,
        *,
        separator: str = "|",
        item: str = "item",
        rater: str = "rater",
        label: str = "label",
        classes: Sequence[Any] | None = None,
    ) -> Any:
        """Read a long table in which an answer may be a set of classes, one of which it means.

        The probability of "A or B" is the sum of those of the answers A and B. So it is read as a
        statement (:meth:`from_probabilities`) that is even over the set, and takes the models of
        statements: Dawid and Skene's, also in sequence and on graphs, and item types. A rule that
        excludes a class where it fires is a rater whose answers are "not A".

        Parameters
        ----------
        frame : dataframe or mapping of arrays
            Columns of items, raters and answers: a class, a list of classes, or text such as "A|B",
            or "not A" and "not A|B", which exclude classes. Answers such as "?" and "skip" are left
            out with a warning, as in :meth:`from_long`.
        separator : str, default "|"
            What separates the classes in a cell of text.
        item, rater, label : str
            Names of the columns.
        classes : sequence, optional
            All names, in order; by default those that answers name, sorted. Of two classes the last
            one is positive, and by default one that is certainly positive, such as "yes", is last.

        Returns
        -------
        Responses
            Answers of one class are labels, and others statements. An answer of all classes has no
            information.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> frame = {"item": [1, 1, 2], "rater": ["x", "y", "x"], "label": ["A|B", "C", "not A"]}
        >>> table = bf.Responses.from_partial_answers(frame)
        >>> table.n_responses, table.stated.probability.tolist()
        (1, [[0.5, 0.5, 0.0], [0.0, 0.5, 0.5]])
        """
        item_column, rater_column, cells = columns(present(frame), (item, rater, label), "answers")
        cells, is_left_out = without_missing(cells, label, classes, None)
        item_code, items = encode(item_column, None, "item", item)
        rater_code, raters = encode(rater_column[~is_left_out], None, "rater", rater)
        item_code = item_code[~is_left_out]  # an item remains if all have skipped it
        answers = [_parts(cell, separator) for cell in cells]
        if classes is None:
            used = as_array([name for _, named in answers for name in named])
            names = encode(used, None, "class", label)[1]
            _note_several(names.tolist())
        else:
            names = unique_names(classes, "class")
        allowed = np.array([_allowed(answer, names) for answer in answers])  # (rows, classes)
        pair = item_code * len(raters) + rater_code
        is_label = allowed.sum(axis=1) == 1
        key = pair[is_label] * len(names) + allowed[is_label].argmax(axis=1)
        table = table_of(cls, key, items, raters, names)
        if not is_label.all():
            share = allowed[~is_label] / allowed[~is_label].sum(axis=1, keepdims=True)
            stated = statements_of(pair[~is_label], share, len(items), len(raters))
            table = replace(table, stated=stated)
        return positive_last(table, classes, False, None)


def _note_several(classes: Sequence[Any]) -> None:
    """Warn of a class whose name holds those of others."""
    for name in classes:
        parts = BETWEEN.split(name) if isinstance(name, str) else []
        if len(parts) > 1 and set(parts) <= {*classes}:
            between = BETWEEN.search(name)
            warn(
                f"The class {quoted(name)} holds the names of others: if it is an answer of one of "
                f"these, give separator={between and between[0]!r}; else classes=."
            )
            return


def _parts(cell: Any, separator: str) -> tuple[bool, list[Any]]:
    """Return whether an answer excludes classes, and the classes that it names."""
    if is_list_like(cell):
        return False, list(cell)
    if not isinstance(cell, str):
        return False, [] if pd.isna(cell) else [cell]
    excludes = cell.strip().startswith(NOT)
    text = cell.strip().removeprefix(NOT)
    return excludes, [part.strip() for part in text.split(separator) if part.strip()]


def _allowed(answer: tuple[bool, list[Any]], names: NDArray[Any]) -> NDArray[np.bool_]:
    """Return which classes an answer allows, or raise ResponsesError."""
    excludes, named = answer
    if unknown := [name for name in named if name not in names.tolist()]:
        raise ResponsesError(
            f"Answers name classes, {shown(names)}. Got: {quoted(unknown[0])}; separator= is what "
            "separates several."
        )
    is_named = np.isin(names, named)
    allowed: NDArray[np.bool_] = ~is_named if excludes else is_named
    if not named or not allowed.any():
        raise ResponsesError(
            "Every answer must allow a class; drop rows without an answer. Got: "
            f"{'all classes excluded' if named else 'an empty answer'}."
        )
    return allowed
