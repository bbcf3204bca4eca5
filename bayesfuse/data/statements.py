"""Statements: sources that give a probability to every class instead of naming one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, column_names, columns, plain, present, refuse, shown
from bayesfuse.data.names import (
    encode,
    names_of,
    places,
    require_32_bits,
    require_two,
    require_whole,
    unique_names,
)
from bayesfuse.data.silence import rows_of
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.kernels import Array

TOLERANCE = 1e-6  # of the sum of probabilities, which are not rescaled


@dataclass(frozen=True, eq=False)
class Statements:
    """Probabilities of classes that sources stated: ``start[n]:start[n + 1]`` are of item ``n``."""

    start: NDArray[np.uint32]  # (items + 1,)
    rater: NDArray[np.uint32]  # index (statements,)
    probability: Array  # (statements, classes)

    @property
    def per_item(self) -> NDArray[np.int64]:
        """Number of statements on every item, shape (items,)."""
        return self.start[1:].astype(np.int64) - self.start[:-1]

    @property
    def item(self) -> NDArray[np.int64]:
        """Item index of every row, shape (statements,)."""
        return np.repeat(np.arange(len(self.start) - 1), self.per_item)

    def take(self, items: NDArray[np.int64]) -> Statements:
        """Return the statements on items, by number and in the given order."""
        start, row = rows_of(self.start, items)
        return Statements(start, self.rater[row], self.probability[row])

    def votes(self) -> Array:
        """Add up the statements on every item, shape (items, classes)."""
        total = np.zeros((len(self.start) - 1, self.probability.shape[1]))
        np.add.at(total, self.item, self.probability)
        return total

    def with_classes(self, place: NDArray[np.int64], n_classes: int) -> Statements:
        """Return the statements on other classes, which contain the present ones at ``place``."""
        probability = np.zeros((len(self.rater), n_classes))
        probability[:, place] = self.probability
        return replace(self, probability=probability)

    def __repr__(self) -> str:
        return f"<Statements: {len(self.rater)} rows>"


class KnowsStatements:
    """Methods of :class:`bayesfuse.Responses` for stated probabilities."""

    stated: Statements | None

    @classmethod
    def from_probabilities(
        cls,
        frame: Any,
        *,
        item: str = "item",
        rater: str = "rater",
        items: Sequence[Any] | None = None,
        raters: Sequence[Any] | None = None,
        classes: Sequence[Any] | None = None,
    ) -> Self:
        """Read probabilities of every class, stated by classifiers or annotators.

        Parameters
        ----------
        frame : dataframe, mapping of arrays, or array, shape (items, raters, classes)
            A table with one row per statement: columns for the item and the rater, and one column
            of probabilities per class, named after it. Or an array or DataArray with these axes in
            this order, with NaN for all classes where a source stated nothing of an item.
        item, rater : str
            Names of the columns of a table.
        items, raters, classes : sequence, optional
            All names, in order. By default the names in the table: items and raters sorted, classes
            in the order of the columns; of an array its coordinates, or 0, 1, 2, …

        Returns
        -------
        Responses
            Without hard labels; :meth:`joined` adds the labels of another table.

        Raises
        ------
        ResponsesError
            Probabilities outside [0, 1], or that do not sum to one (tolerance 1e-6); columns that
            are not declared classes, declared classes without a column; names as in
            :meth:`from_long`.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> table = {"item": ["a", "b"], "rater": ["net", "net"],
        ...          "cat": [0.9, 0.2], "dog": [0.1, 0.8]}
        >>> bf.Responses.from_probabilities(table).stated.probability
        array([[0.9, 0.1],
               [0.2, 0.8]])
        """
        frame = present(frame)
        if column_names(frame) is not None and not isinstance(frame, xr.DataArray):
            code, names, probability = read_table(frame, (item, rater), (items, raters), classes)
        else:
            code, names, probability = read_array(frame, items, raters, classes)
        return cast(Self, _table(cls, names, np.empty((0, 3), np.int64), code, probability))

    def joined(self, other: Self) -> Self:
        """Return the responses and statements of two tables as one.

        Parameters
        ----------
        other : Responses
            A table of the same classes, in any order. Items and raters are matched by name; a
            response that is in both tables counts twice.

        Returns
        -------
        Responses
            Items and raters of this table, then the others of the second table; classes in the
            order of this table.

        Raises
        ------
        ResponsesError
            Other classes; tables of counts, or with silence; names that are text in one table and
            numbers in the other.

        Examples
        --------
        Two raters, and a classifier that states probabilities:

        >>> import bayesfuse as bf
        >>> hard = bf.Responses.from_matrix([[0, 0], [1, 0], [1, 1]], raters=["ann", "bob"])
        >>> soft = bf.Responses.from_probabilities(
        ...     {"item": [0, 1, 3], "rater": ["net"] * 3, 0: [0.9, 0.3, 0.2], 1: [0.1, 0.7, 0.8]})
        >>> hard.joined(soft)
        Responses: 6 responses to 4 items by 3 raters, 2 classes
          classes              0 (3), 1 (3)
          responses per item   0 to 2, median 2
          responses per rater  0 to 3, median 3
          agreement            0.67 of the pairs of responses to one item
          statements           3 by 1 rater, on 3 items
        """
        both = [cast(Any, self), cast(Any, other)]
        for table in both:
            if table.silent is not None:
                raise ResponsesError(
                    "Tables with silence cannot be joined, because a source of one table may not "
                    "have been given the items of the other: join the votes, then call "
                    "completed(). Got: a table with silence."
                )
            if not table.is_plain:
                raise ResponsesError(
                    "Tables of counts cannot be joined, because their items are patterns: call "
                    "expand() first. Got: a table of counts."
                )
        first, second = both
        place = places(as_array(second.classes), first.classes)
        if len(place) != first.n_classes or (place < 0).any():
            raise ResponsesError(
                "Tables must have the same classes to be joined, because a source that does not "
                "know a class cannot name it; declare the same classes= for both. Got: "
                f"{shown(first.classes)} and {shown(second.classes)}."
            )
        items, item_codes = _united([table.items for table in both], "item")
        raters, rater_codes = _united([table.raters for table in both], "rater")
        hard, code, probability = [], [], []
        for table, of_item, of_rater in zip(both, item_codes, rater_codes, strict=True):
            order = places(as_array(table.classes), first.classes)
            rows = of_item[table.item], of_rater[table.rater], order[table.label]
            hard.append(np.column_stack(rows))
            if (stated := table.stated) is not None:
                code.append(np.column_stack([of_item[stated.item], of_rater[stated.rater]]))
                probability.append(stated.with_classes(order, len(order)).probability)
        names = items, raters, first.classes
        found = (np.concatenate(code), np.concatenate(probability)) if code else (None, None)
        table = _table(type(self), names, np.concatenate(hard), *found)
        return cast(Self, replace(table, ordered=first.ordered))

    def without_statements(self) -> Self:
        """Return the table with hard labels only, for models that take no probabilities.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> table = bf.Responses.from_probabilities([[[0.9, 0.1]], [[0.5, 0.5]]])
        >>> table.stated, table.without_statements().stated
        (<Statements: 2 rows>, None)
        """
        return cast(Self, replace(cast(Any, self), stated=None))


def read_table(
    frame: Any, ends: tuple[str, str], declared: tuple[Any, Any], classes: Any
) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...], Array]:
    """Return item and rater of every row of a table, the names, and the probabilities."""
    others = [name for name in column_names(frame) or [] if name not in ends]
    names = unique_names(others if classes is None else classes, "class")
    others_at = places(as_array(others), names) if classes is not None else np.arange(len(names))
    if (others_at < 0).any():
        raise ResponsesError(
            "Every column besides item and rater must be a declared class, because it holds "
            f"the probabilities of one. Got: {others[int(np.argmin(others_at))]!r}, which is "
            f"not among {shown(names)}."
        )
    if absent := sorted(set(range(len(names))) - set(others_at.tolist())):
        raise ResponsesError(
            "Every declared class must have a column of probabilities; state zeros for a class "
            f"that no source knows. Got: no column for {plain(names[absent[0]])!r}."
        )
    others = [others[n] for n in np.argsort(others_at)]
    require_two(names)
    item, rater, *values = columns(frame, [*ends, *others], "statements")
    of_item, items = encode(item, declared[0], "item", ends[0])
    of_rater, raters = encode(rater, declared[1], "rater", ends[1])
    probability = []
    for name, each in zip(others, values, strict=True):
        require_whole(each, name)
        probability.append(_numbers(each, repr(name)))
    code = np.column_stack([of_item, of_rater])
    return code, (items, raters, names), np.column_stack(probability)


def read_array(
    values: Any, items: Any, raters: Any, classes: Any
) -> tuple[NDArray[np.int64], tuple[NDArray[Any], ...], Array]:
    """Return item and rater of every statement of an array, the names, and the probabilities."""
    own: list[Any] = [None, None, None]
    if isinstance(values, xr.DataArray) and values.ndim == 3:
        own = [values[dim] if dim in values.coords else None for dim in values.dims]
    array = as_array(values)
    if getattr(array, "ndim", 0) != 3:
        raise ResponsesError(
            "Probabilities must be a table with named columns, or an array of items × raters × "
            f"classes. Got: {type(values).__name__} of shape {np.shape(array)}."
        )
    cells = _numbers(array, "the array")
    given = (items, raters, classes)
    names = tuple(
        names_of(size, theirs if chosen is None else chosen, what)
        for size, chosen, theirs, what in zip(
            cells.shape, given, own, ("item", "rater", "class"), strict=True
        )
    )
    require_two(names[2])
    there = ~np.isnan(cells).all(axis=2)
    if not there.any():
        raise ResponsesError(
            f"An array must hold at least one statement. Got: shape {cells.shape}, all missing."
        )
    return np.argwhere(there), names, cells[there]


def _numbers(values: Any, where: str) -> Array:
    """Return values as floats, or raise ResponsesError if they are no numbers."""
    kind = getattr(getattr(values, "dtype", None), "kind", "O")
    if kind not in "biuf":
        raise ResponsesError(
            "Columns of classes must hold probabilities, which are numbers. Got: values of dtype "
            f"{getattr(values, 'dtype', type(values).__name__)} in {where}."
        )
    return np.asarray(values, dtype=np.float64)


def require_probabilities(probability: Array) -> None:
    """Raise ResponsesError unless every row holds probabilities that sum to one."""
    wrong = ~((probability >= 0) & (probability <= 1))  # true for NaN
    refuse(
        wrong.any(axis=1),
        "Stated probabilities must be from 0 to 1, and none missing.",
        lambda n: (
            f"{float(probability[n, np.argmax(wrong[n])])!r} for class number "
            f"{np.argmax(wrong[n])} of statement {n}, counted from 0"
        ),
    )
    total = probability.sum(axis=1)
    refuse(
        np.abs(total - 1) > TOLERANCE,
        f"Stated probabilities must sum to one up to {TOLERANCE:g}, because scaling them would "
        "hide mistakes: divide them by their sum if that is intended.",
        lambda n: f"a sum of {float(total[n])!r} in statement {n}, counted from 0",
    )


def _table(
    kind: Any,
    names: tuple[NDArray[Any], ...],
    hard: NDArray[np.int64],
    code: NDArray[np.int64] | None,
    probability: Array | None,
) -> Any:
    """Build a table of hard rows (item, rater, label) and statements (item, rater)."""
    items, raters, classes = names
    stated = None
    if code is not None and probability is not None:
        require_probabilities(probability)
        order = np.lexsort((*probability.T[::-1], code[:, 1], code[:, 0]))
        begin = np.searchsorted(code[order, 0], np.arange(len(items) + 1))
        stated = Statements(
            begin.astype(np.uint32), code[order, 1].astype(np.uint32), probability[order] + 0.0
        )
    require_32_bits(max(len(hard), 0 if stated is None else len(stated.rater)), "responses")
    item, rater, label = hard[np.lexsort(hard.T[::-1])].T
    return kind(
        items,
        raters,
        classes,
        np.searchsorted(item, np.arange(len(items) + 1)).astype(np.uint32),
        (rater * len(classes) + label).astype(np.uint32),
        np.ones(len(items), dtype=np.int64),
        stated=stated,
    )


def _united(both: list[NDArray[Any]], what: str) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Return the names of two tables, and the place of each table's own names among them."""
    new = both[1][places(as_array(both[1]), both[0]) < 0]
    names = unique_names([*both[0].tolist(), *new.tolist()], what) if len(new) else both[0]
    return names, [places(as_array(own), names) for own in both]
