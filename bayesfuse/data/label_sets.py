"""Items that may have several labels: sets of labels that raters gave, as binary questions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_array, column_names, present, shown
from bayesfuse.data.class_names import labels_once
from bayesfuse.data.column_roles import did_you_mean, known_names, suggest_columns
from bayesfuse.data.joined_labels import warn_of_joined
from bayesfuse.data.missing_text import note_missing_sets, sets_without_skipped
from bayesfuse.data.names import encode, unique_names
from bayesfuse.data.statements import table_of
from bayesfuse.errors import ResponsesError, require_flag, require_kind

CLASSES = np.array(["no", "yes"])


@dataclass(frozen=True, eq=False, repr=False)
class LabelSets:
    """Sets of labels that raters gave to items, of :meth:`bayesfuse.Responses.from_label_sets`.

    Whether an item has a label is a question with the classes "no" and "yes". A label that a rater
    was not asked about is a missing response, not a "no".

    Attributes
    ----------
    items, raters, labels : array
        Names.
    questions : bayesfuse.Responses
        Items are the questions, in the order item, label; raters are pairs of a rater and a label,
        in that order, because raters are good at some labels and bad at others.
    separator : str or None
        What separates labels in text, also of known labels.
    normalised : bool
        Whether labels were matched without regard to spelling, as known labels then are.

    Examples
    --------
    >>> import pandas as pd, bayesfuse as bf
    >>> frame = pd.DataFrame({"item": [1, 1], "rater": ["a", "b"], "label": ["cat|dog", "dog"]})
    >>> sets = bf.Responses.from_label_sets(frame, separator="|")
    >>> sets.labels.tolist(), sets.questions.n_responses
    (['cat', 'dog'], 4)
    """

    items: NDArray[Any]
    raters: NDArray[Any]
    labels: NDArray[Any]
    questions: Any
    separator: str | None = None
    normalised: bool = False

    @property
    def n_labels(self) -> int:
        """Number of labels."""
        return len(self.labels)

    @property
    def item(self) -> NDArray[np.int64]:
        """Item of every question, shape (questions,)."""
        return np.repeat(np.arange(len(self.items)), self.n_labels)

    @property
    def label(self) -> NDArray[np.int64]:
        """Label of every question, shape (questions,)."""
        return np.tile(np.arange(self.n_labels), len(self.items))

    def masi(self) -> float:
        """Mean agreement of two raters on an item by MASI (NaN without pairs).

        The measure of Passonneau (2006) weighs the Jaccard index of two sets by 1 if they are
        equal, 2/3 if one contains the other, 1/3 if they overlap, else 0. Sets are compared on the
        labels about which both raters were asked.
        """
        total, number = self.masi_by_item().sum(axis=0)
        return float(total / number) if number else float("nan")

    def masi_by_item(self) -> NDArray[np.float64]:
        """Return the sum of MASI over pairs of raters, and their number, shape (items, 2)."""
        table, n_labels = self.questions, self.n_labels
        answers: list[dict[int, dict[int, int]]] = [{} for _ in self.items]
        rows = zip(table.item.tolist(), table.rater.tolist(), table.label.tolist(), strict=True)
        for question, source, answer in rows:
            item, label = divmod(question, n_labels)
            answers[item].setdefault(source // n_labels, {})[label] = answer
        sums = np.zeros((len(self.items), 2))
        for item, by_rater in enumerate(answers):
            for first, second in combinations(by_rater.values(), 2):
                if first.keys() & second.keys():
                    sums[item] += _masi(first, second), 1
        return sums

    def __repr__(self) -> str:
        table = self.questions
        yes = int(table.label.sum())
        return (
            f"LabelSets: {len(self.items):,} items, {len(self.raters):,} raters, "
            f"{self.n_labels:,} labels, {table.n_responses:,} answers, {yes:,} of them yes"
        )


def _masi(first: Mapping[int, int], second: Mapping[int, int]) -> float:
    """Return the MASI similarity of two sets, given as answers to labels."""
    common = first.keys() & second.keys()
    one, other = ({label for label in common if answers[label]} for answers in (first, second))
    if one == other:
        return 1.0
    if not one & other:
        return 0.0
    weight = 2 / 3 if one <= other or other <= one else 1 / 3
    return weight * len(one & other) / len(one | other)


class ReadsLabelSets:
    """The method of :class:`bayesfuse.Responses` that reads several labels an item."""

    @classmethod
    def from_label_sets(
        cls,
        frame: Any,
        *,
        separator: str | None = None,
        item: str = "item",
        rater: str = "rater",
        label: str = "label",
        labels: Sequence[Any] | None = None,
        asked: Mapping[Any, Iterable[Any]] | None = None,
        normalise: bool = False,
    ) -> LabelSets:
        """Read a table in which raters gave sets of labels to items.

        Parameters
        ----------
        frame : dataframe or mapping of arrays
            Columns of items and raters, as in :meth:`from_long`, and either a column of labels,
            whose cells are lists, text or single labels, or a column of 0 and 1 for every label.
            Several rows of a rater and an item are united. An empty set answers "no" to all labels;
            a missing cell is no response, in a column of 0 and 1 none about this label. pandas
            reads empty cells of a file as missing, unless ``keep_default_na=False``.
        separator : str, optional
            What separates the labels in a cell of text. Default: a cell is a single label.
        item, rater, label : str
            Names of the columns. By default also other usual names, such as tags or categories.
        labels : sequence, optional
            All labels, in order, or the columns of 0 and 1. Default: those that were given, sorted,
            or all other columns.
        asked : mapping of rater to labels, optional
            The labels that raters were asked about, by default all. Others are missing responses.
        normalise : bool, default False
            Whether labels in cells that differ only in case, spaces or Unicode form are one, as in
            :meth:`from_long`.

        Returns
        -------
        LabelSets
            For :func:`bayesfuse.fuse` and :class:`bayesfuse.models.LabelProfiles`.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> frame = {"item": [1, 2], "rater": ["a", "a"], "label": [["cat", "dog"], []]}
        >>> bf.Responses.from_label_sets(frame)
        LabelSets: 2 items, 1 raters, 2 labels, 4 answers, 2 of them yes
        """
        return _read(cls, frame, (item, rater, label), (separator, labels, normalise), asked)


def _read(
    kind: Any,
    frame: Any,
    roles: tuple[str, str, str],
    reading: tuple[str | None, Any, bool],
    asked: Any,
) -> LabelSets:
    separator, labels, normalise = reading
    require_flag("normalise", normalise)
    frame = present(frame)
    names = column_names(frame)
    if names is None:
        raise ResponsesError(
            "Sets of labels are read from a table with columns of items and raters. Got: "
            f"{type(frame).__name__}."
        )
    frame = frame if isinstance(frame, pd.DataFrame) else pd.DataFrame(frame)
    column_of = dict(zip(("item", "rater", "label"), roles, strict=True))
    for role, wanted in column_of.items():
        known = [wanted] if wanted in names else known_names(names, role)
        column_of[role] = known[0] if known else ""
    if absent := [role for role in ("item", "rater") if not column_of[role]]:
        read = [name for name in column_of.values() if name]
        hints = [f"{r}={did_you_mean(suggest_columns(frame, names, r, read))}" for r in absent]
        raise ResponsesError(
            "Sets of labels need a column of items and one of raters: name the column by "
            f"{' and '.join(hints)}. Got: columns {shown(names)}."
        )
    sources = [column_of["item"], column_of["rater"]]
    item, items = encode(as_array(frame[sources[0]]), None, "item", sources[0])
    rater, raters = encode(as_array(frame[sources[1]]), None, "rater", sources[1])
    if column_of["label"]:
        cells = as_array(frame[column_of["label"]])
        sets = sets_without_skipped([labels_of(cell, separator) for cell in cells], labels)
        note_missing_sets(cells, sets)
        rows, label_names = _of_sets(_spelt(sets, labels, normalise), labels)
        if labels is None:
            is_used = any(isinstance(cell, str) and (separator or "") in cell for cell in cells)
            warn_of_joined(label_names.tolist(), separator, is_used)
    else:
        rows, label_names = of_indicators(frame, [n for n in names if n not in sources], labels)
    yes, is_answered = _united(rows, item * len(raters) + rater)
    allowed = _labels_asked(raters, label_names, asked)
    table = _of_answers(kind, (items, raters, label_names), yes, is_answered, allowed)
    return LabelSets(items, raters, label_names, table, separator, normalise)


Rows = Sequence[Mapping[int, bool] | None]
"""Answers by label of every row of a table, None where the row has no response."""


def labels_of(cell: Any, separator: str | None) -> list[Any] | None:
    """Return the labels in a cell, None if it is missing."""
    if is_list_like(cell):
        return list(cell)
    if cell is None or cell != cell:  # NaN
        return None
    if separator is None:
        return [cell]
    require_kind("separator", separator, str)
    return [part.strip() for part in str(cell).split(separator) if part.strip()]


def _spelt(sets: list[list[Any] | None], declared: Any, normalise: bool) -> list[list[Any] | None]:
    """Return sets in which labels that are spelt alike are one, or warn of them."""
    number = Counter(name for labels in sets for name in labels or () if isinstance(name, str))
    target = labels_once(number, declared, normalise)
    return [labels and [target.get(name, name) for name in labels] for labels in sets]


def _of_sets(sets: Sequence[list[Any] | None], declared: Any) -> tuple[Rows, NDArray[Any]]:
    """Return the answers of sets of labels, and the names of the labels."""
    values = [label for labels in sets if labels for label in labels]
    distinct = sorted(set(values), key=str) if declared is None else list(declared)
    names = unique_names(distinct, "label")
    place = {name: index for index, name in enumerate(names.tolist())}
    if unknown := sorted({str(value) for value in values if value not in place}):
        raise ResponsesError(
            f"Labels must be among labels=, {shown(names)}. Got: {shown(unknown, 3)}."
        )
    rows: list[Mapping[int, bool] | None] = []
    for labels in sets:
        chosen = None if labels is None else {place[label] for label in labels}
        rows.append(None if chosen is None else {at: at in chosen for at in range(len(names))})
    return rows, names


def of_indicators(frame: pd.DataFrame, columns: list[Any], declared: Any) -> tuple[Rows, Any]:
    """Return the answers of columns of 0 and 1, missing where a rater was not asked."""
    columns = columns if declared is None else list(declared)
    if absent := [name for name in columns if name not in frame]:
        raise ResponsesError(f"labels= must name columns of the table. Got: {shown(absent, 3)}.")
    table = frame[columns].apply(pd.to_numeric, errors="coerce").to_numpy(dtype=float)
    is_missing = frame[columns].isna().to_numpy()
    if not columns or not np.isin(table[~is_missing], (0.0, 1.0)).all():
        raise ResponsesError(
            "Without a column of labels, all columns but those of items and raters must be labels "
            "with entries 0 and 1 (or missing): name the column of sets by label=, or the columns "
            f"of labels by labels=. Got: columns {shown(columns)}."
        )
    rows = [
        {at: bool(row[at]) for at in np.flatnonzero(~missing).tolist()} or None
        for row, missing in zip(table, is_missing, strict=True)
    ]
    return rows, unique_names(columns, "label")


def _united(rows: Rows, pair: NDArray[np.int64]) -> tuple[dict[int, set[int]], dict[int, set[int]]]:
    """Return the labels that are set, and those answered, of every pair of item and rater."""
    yes: dict[int, set[int]] = {}
    answered: dict[int, set[int]] = {}
    for row, at in zip(rows, pair.tolist(), strict=True):
        if row is not None:
            yes.setdefault(at, set()).update(label for label, is_set in row.items() if is_set)
            answered.setdefault(at, set()).update(row)
    return yes, answered


def _of_answers(
    kind: Any,
    names: tuple[NDArray[Any], NDArray[Any], NDArray[Any]],
    yes: Mapping[int, set[int]],
    answered: Mapping[int, set[int]],
    allowed: Sequence[set[int]],
) -> Any:
    """Return the table of questions from the answers of every pair of item and rater."""
    (items, raters, labels), keys = names, list[int]()
    n_labels, n_sources = len(labels), len(raters) * len(labels)
    for pair, answers in answered.items():
        item, rater = divmod(pair, len(raters))
        for label in answers & allowed[rater] | yes[pair]:
            cell = (item * n_labels + label) * n_sources + rater * n_labels + label
            keys.append(2 * cell + (label in yes[pair]))
    questions, sources = (
        unique_names([f"{name}: {label}" for name in all_names for label in labels.tolist()], noun)
        for all_names, noun in ((items.tolist(), "question"), (raters.tolist(), "rater"))
    )
    return table_of(kind, np.array(keys, dtype=np.int64), questions, sources, CLASSES)


def _labels_asked(raters: NDArray[Any], labels: NDArray[Any], asked: Any) -> list[set[int]]:
    """Return the labels that every rater was asked about."""
    everything = set(range(len(labels)))
    if asked is None:
        return [everything] * len(raters)
    require_kind("asked", asked, Mapping)
    place = {name: index for index, name in enumerate(labels.tolist())}
    unknown: Iterable[Any] = set(asked) - set(raters.tolist())
    unknown = [*unknown, *(name for names in asked.values() for name in names if name not in place)]
    if unknown:
        raise ResponsesError(
            "asked= must map raters to the labels that they were asked about. Got: "
            f"{shown(list(unknown), 3)}, which is no rater or no label."
        )
    return [
        {place[name] for name in asked[rater]} if rater in asked else everything
        for rater in raters.tolist()
    ]
