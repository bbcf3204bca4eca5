"""Statements: sources that give a probability to every class instead of naming one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, column_names, columns, present, refuse, shown
from bayesfuse.data.class_names import positive_last
from bayesfuse.data.names import (
    encode,
    matched,
    names_of,
    places,
    refuse_missing,
    require_32_bits,
    require_two,
    unique_names,
)
from bayesfuse.data.silence import ByItem, by_item, rows_of
from bayesfuse.errors import ResponsesError
from bayesfuse.numerics.kernels import Array

SUM_TOLERANCE = 1e-6  # of the sum of probabilities, which are not rescaled


@dataclass(frozen=True, eq=False)
class Statements(ByItem):
    """Probabilities of classes that sources stated: ``start[n]:start[n + 1]`` are of item ``n``."""

    start: NDArray[np.uint32]  # (items + 1,)
    rater: NDArray[np.uint32]  # index (statements,)
    probability: Array  # (statements, classes)

    def take(self, items: NDArray[np.int64]) -> Statements:
        """Return the statements on items, by number and in the given order."""
        start, row = rows_of(self.start, items)
        return Statements(start, self.rater[row], self.probability[row])

    @property
    def are_sets(self) -> bool:
        """Whether all are even over some classes, as partial answers are."""
        top = self.probability.max(axis=1, keepdims=True)
        return bool(((self.probability == 0.0) | np.isclose(self.probability, top)).all())

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
        positive: Any = None,
    ) -> Self:
        """Read probabilities of every class, stated by classifiers or annotators.

        Parameters
        ----------
        frame : dataframe, mapping of arrays, or array, shape (items, raters, classes)
            A table with one row per statement: columns ``item`` and ``rater``, and one column of
            probabilities per class, named after it, which sum to one (tolerance 1e-6). Or an array
            or DataArray, with NaN for all classes if a source made no statement on an item.
        item, rater : str
        items, raters, classes : sequence, optional
            All names, in order. By default items and raters of a table sorted, and classes in the
            order of the columns; of an array its coordinates, or 0, 1, 2, … Of two classes the last
            one is positive, and by default one that is certainly positive, such as "yes", is last.
        positive : scalar, optional
            The positive one of two classes.

        Returns
        -------
        Responses
            Without hard labels; :meth:`joined` adds the labels of another table.

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
            pair, names, probability = _read_frame(frame, (item, rater), (items, raters), classes)
        else:
            pair, names, probability = _read_array(frame, items, raters, classes)
        stated = statements_of(pair, probability, len(names[0]), len(names[1]))
        table = replace(table_of(cls, np.empty(0, np.int64), *names), stated=stated)
        return cast(Self, positive_last(table, classes, False, positive))

    def joined(self, other: Self) -> Self:
        """Return the responses and statements of two tables as one, in the order of this table.

        Parameters
        ----------
        other : Responses
            A table of the same classes, in any order; neither table is of counts or with silence.
            Items and raters are matched by name. A response in both tables counts twice.
        """
        both = [cast(Any, self), cast(Any, other)]
        if any(table.silent is not None or not table.is_unweighted for table in both):
            raise ResponsesError(
                "Tables of counts are joined after expand(), because their items are patterns, and "
                "tables with silence before completed(), because a source of one may not have been "
                "given the items of the other. Got: counts or silence in one of the tables."
            )
        first, second = both
        place = places(as_array(second.classes), first.classes)
        if len(place) != first.n_classes or (place < 0).any():
            raise ResponsesError(
                "Tables must have the same classes to be joined, because a source cannot name a "
                "class that it does not have; declare the same classes= for both. Got: "
                f"{shown(first.classes)} and {shown(second.classes)}."
            )
        items, item_codes = _united([table.items for table in both], "item")
        raters, rater_codes = _united([table.raters for table in both], "rater")
        keys, pairs, probability = [], [], []
        orders = np.arange(len(place)), place
        parts = zip(both, item_codes, rater_codes, orders, strict=True)
        for table, of_item, of_rater, order in parts:
            pair = of_item[table.item] * len(raters) + of_rater[table.rater]
            keys.append(pair * len(order) + order[table.label])
            if (stated := table.stated) is not None:
                pairs.append(of_item[stated.item] * len(raters) + of_rater[stated.rater])
                probability.append(stated.with_classes(order, len(order)).probability)
        stated = None
        if pairs:
            rows = np.concatenate(pairs), np.concatenate(probability)
            stated = statements_of(*rows, len(items), len(raters))
        table = table_of(type(self), np.concatenate(keys), items, raters, first.classes)
        normalised = first.normalised or second.normalised
        return replace(table, ordered=first.ordered, stated=stated, normalised=normalised)

    def without_statements(self) -> Self:
        """Return the table with hard labels only, for models that take no probabilities."""
        return replace(cast(Any, self), stated=None)

    def with_rows(self, item: Any, rater: Any, label: Any, **changes: Any) -> Self:
        """Return the table with other rows, by index of item, rater and class.

        Other attributes, such as ``multiplicity``, are the same but for ``changes``. Silence and
        statements are those of the raters of the table, so other raters have none.
        """
        table = cast(Any, self)
        if "raters" in changes:
            changes = {"silent": None, "stated": None} | changes
        names = (changes.get(name, getattr(table, name)) for name in ("items", "raters", "classes"))
        rows = table_of_codes(type(self), item, rater, label, *names)
        return cast(Self, replace(table, start=rows.start, cell=rows.cell, **changes))


def _read_frame(
    frame: Any, ends: tuple[str, str], declared: tuple[Any, Any], classes: Any
) -> tuple[NDArray[np.int64], Any, Array]:
    """Return ``item * raters + rater`` of every row of a table, the names, and probabilities."""
    others = [name for name in column_names(frame) or [] if name not in ends]
    names = unique_names(others if classes is None else classes, "class")
    rule = "Every declared class must have a column, and every other column must be of one."
    others = [others[n] for n in np.argsort(matched(as_array(others), names, rule, rule))]
    require_two(names)
    item, rater, *values = columns(frame, [*ends, *others], "statements")
    of_item, items = encode(item, declared[0], "item", ends[0])
    of_rater, raters = encode(rater, declared[1], "rater", ends[1])
    probability = []
    for name, column in zip(others, values, strict=True):
        refuse_missing(column, name)
        probability.append(_numbers(column, repr(name)))
    pair = of_item * len(raters) + of_rater
    return pair, (items, raters, names), np.column_stack(probability)


def _read_array(values: Any, *chosen: Any) -> tuple[NDArray[np.int64], Any, Array]:
    """Return ``item * raters + rater`` of the statements of an array, the names, and these."""
    coordinates: Any = [None] * 3
    if isinstance(values, xr.DataArray) and values.ndim == 3:
        coordinates = map(values.coords.get, values.dims)
    array = as_array(values)
    if getattr(array, "ndim", 0) != 3:
        raise ResponsesError(
            "Probabilities must be a table with named columns, or an array of items × raters × "
            f"classes. Got: {type(values).__name__} of shape {np.shape(array)}."
        )
    cells = _numbers(array, "the array")
    axis_names = [
        theirs if ours is None else ours for ours, theirs in zip(chosen, coordinates, strict=True)
    ]
    names = tuple(map(names_of, cells.shape, axis_names, ("item", "rater", "class")))
    there = ~np.isnan(cells).all(axis=2)
    if not there.any():
        raise ResponsesError(
            f"An array must hold at least one statement. Got: shape {cells.shape}, all missing."
        )
    return np.flatnonzero(there), names, cells[there]


def _numbers(values: Any, where: str) -> Array:
    """Return values as floats, or raise ResponsesError if they are not numbers."""
    if values.dtype.kind not in "biuf":
        raise ResponsesError(
            "Columns of classes must hold probabilities, which are numbers. Got: values of dtype "
            f"{values.dtype} in {where}."
        )
    return np.asarray(values, dtype=np.float64)


def statements_of(
    pair: NDArray[np.int64], probability: Array, n_items: int, n_raters: int
) -> Statements:
    """Return statements of pairs, ``item * raters + rater``, checked."""
    total = probability.sum(axis=1)
    sound = ((probability >= 0) & (probability <= 1)).all(axis=1) & (
        np.abs(total - 1) <= SUM_TOLERANCE
    )
    refuse(
        ~sound,  # also of NaN
        f"Stated probabilities must be from 0 to 1, none missing, and sum to one up to "
        f"{SUM_TOLERANCE:g}, because scaling them would hide mistakes: divide them by their sum if "
        "that is intended.",
        lambda n: f"{probability[n].tolist()} in statement {n}, counted from 0",
    )
    order = np.lexsort((*probability.T[::-1], pair))
    rows = by_item(pair[order], n_items, n_raters, "statements")
    return Statements(*rows, probability[order] + 0.0)


def table_of(
    kind: Any,
    key: NDArray[np.int64],
    items: NDArray[Any],
    raters: NDArray[Any],
    classes: NDArray[Any],
    silent: Any = None,
) -> Any:
    """Build a table from ``(item * raters + rater) * classes + label`` by row, sorted in place."""
    require_two(classes)
    cells = len(raters) * len(classes)
    require_32_bits(cells, "rater × class cells")
    key.sort()
    rows = by_item(key, len(items), cells, "responses")
    return kind(items, raters, classes, *rows, np.ones(len(items), dtype=np.int64), silent)


def table_of_codes(kind: Any, item: Any, rater: Any, label: Any, *names: Any) -> Any:
    """Build a table from item, rater and label by row, with the names as in :func:`table_of`."""
    _, raters, classes = names[:3]
    pair = item.astype(np.int64) * len(raters) + rater
    return table_of(kind, pair * len(classes) + label.astype(np.int64), *names)


def _united(both: list[NDArray[Any]], noun: str) -> tuple[NDArray[Any], list[NDArray[np.int64]]]:
    """Return the names of two tables, and the place of each table's own names among them."""
    new = both[1][places(as_array(both[1]), both[0]) < 0]
    names = unique_names([*both[0].tolist(), *new.tolist()], noun) if len(new) else both[0]
    return names, [places(as_array(part), names) for part in both]
