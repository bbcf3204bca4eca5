"""Silence: sources that were applied to an item and gave no response."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Self, cast

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_array, narrow, shown
from bayesfuse.data.names import places, require_32_bits, require_whole, unique_names
from bayesfuse.errors import ResponsesError


@dataclass(frozen=True, eq=False)
class Silence:
    """Silent sources: ``rater[start[n]:start[n + 1]]`` on item ``n``.

    Both are None in a complete table: every source without a response to an item was silent there.
    """

    start: NDArray[np.uint32] | None = None
    rater: NDArray[np.uint32] | None = None

    @property
    def complete(self) -> bool:
        """Whether every source without a response to an item was silent there."""
        return self.rater is None

    @property
    def pairs(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Row starts by item and the silent sources, of a table that is not complete."""
        if self.start is None or self.rater is None:
            raise ResponsesError(
                "Silent pairs are not stored in a complete table, which may have many. Got: a "
                "complete table."
            )
        return self.start, self.rater

    def take(self, items: NDArray[np.int64]) -> Silence:
        """Return the silence on items, by number and in the given order."""
        if self.complete:
            return self
        start, rater = self.pairs
        own, row = rows_of(start, items)
        return Silence(own, rater[row])

    def sums(self, word: NDArray[np.uint64], n_items: int) -> NDArray[np.uint64]:
        """Add up the words of the silent sources, by item; 0 where no pairs are stored."""
        if self.complete:
            return np.zeros(n_items, dtype=np.uint64)
        start, rater = self.pairs
        total = np.concatenate([[np.uint64(0)], np.cumsum(word[rater], dtype=np.uint64)])
        return total[start[1:]] - total[start[:-1]]

    def __repr__(self) -> str:
        if self.complete:
            return "<Silence of every source without a response>"
        return f"<Silence of {len(self.pairs[1])} pairs of item and source>"


class KnowsSilence:
    """Methods of :class:`bayesfuse.Responses` for silence."""

    silent: Silence | None

    def completed(self) -> Self:
        """Return the table as one in which every source was applied to every item.

        A source without a response to an item was then silent there, which is informative about
        the item. Silent pairs are not stored, so memory is linear in the responses.

        Returns
        -------
        Responses
            With ``silent`` set. Sources are the raters of the table, so declare with ``raters=``
            the sources that may be silent on all of its items.

        Examples
        --------
        Two rules that are applied to every message, and respond to few:

        >>> import bayesfuse as bf
        >>> votes = {"item": [0, 2, 2], "rater": ["link", "link", "caps"], "label": [1, 1, 0]}
        >>> bf.Responses.from_long(votes, items=range(4)).completed()
        Responses: 3 responses to 4 items by 2 raters, 2 classes
          classes              0 (1), 1 (2)
          responses per item   0 to 2, median 0
          responses per rater  1 to 2, median 2
          agreement            0.00 of the pairs of responses to one item
          coverage             0.25 to 0.50 of the items; silent on all others
        """
        return cast(Self, replace(cast(Any, self), silent=Silence()))

    def without_silence(self) -> Self:
        """Return the table without information about silence, as most models need it.

        Examples
        --------
        >>> import bayesfuse as bf
        >>> table = bf.Responses.from_matrix([[0, 1], [1, -1]], abstain=-1)
        >>> table.silent, table.without_silence().silent
        (<Silence of every source without a response>, None)
        """
        return cast(Self, replace(cast(Any, self), silent=None))

    @property
    def coverage(self) -> NDArray[np.float64]:
        """Share of each source's items to which it responded, shape (raters,).

        Of the items that it is known to have been given: NaN if none, one if no silence is known.
        """
        table = cast(Any, self)
        weight = table.multiplicity.astype(np.float64)
        first = first_rows(table)
        spoke = np.bincount(table.rater[first], weight[table.item[first]], table.n_raters)
        if self.silent is not None and self.silent.complete:
            return spoke / max(weight.sum(), 1.0)
        silent = np.zeros(table.n_raters)
        if self.silent is not None:
            start, rater = self.silent.pairs
            silent = np.bincount(rater, np.repeat(weight, np.diff(start)), table.n_raters)
        total = spoke + silent
        return np.divide(spoke, total, out=np.full(len(total), np.nan), where=total > 0)


def rows_of(
    start: NDArray[np.uint32], items: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return row starts of items, by number and in the given order, and their rows."""
    first = start[:-1][items].astype(np.int64)
    size = start[1:][items] - first
    own = np.concatenate([[0], np.cumsum(size)])
    # row = first row of the item + position within the item
    row = np.repeat(first - own[:-1], size)
    row += np.arange(own[-1])
    return own.astype(np.uint32), row


def first_rows(responses: Any) -> NDArray[np.bool_]:
    """Return which rows are the first of their source on their item, shape (responses,)."""
    rater = responses.cell // np.uint32(responses.n_classes)
    first = np.ones(len(rater), dtype=bool)
    first[1:] = rater[1:] != rater[:-1]
    first[responses.start[:-1][responses.per_item > 0]] = True
    return first


def require_abstain(abstain: Any, classes: Any, marks: list[Any]) -> None:
    """Raise ResponsesError unless ``abstain`` is one label, not a class or a missing mark."""
    if is_list_like(abstain) or pd.isna(abstain):
        raise ResponsesError(
            "abstain must be one label, and NaN and None mean that there is no response at all. "
            f"Got: abstain={abstain!r}."
        )
    own = as_array([abstain])
    if classes is not None and places(own, unique_names(classes, "class"))[0] >= 0:
        raise ResponsesError(
            "The label of silence must not be a class, because a source that abstains names none. "
            f"Got: {abstain!r} in abstain= and in classes=."
        )
    if marks and (places(as_array(marks), own) >= 0).any():
        raise ResponsesError(
            "Silence and missing responses must have different marks, because a source that was "
            f"not asked is not silent. Got: {abstain!r} in abstain= and in missing=."
        )


def with_stand_in(
    values: Any, classes: Any, abstain: Any, column: str
) -> tuple[Any, NDArray[np.bool_]]:
    """Return labels with any other label in the place of silence, and which rows are silent."""
    require_whole(values, column)
    categorical = isinstance(values, pd.Categorical)
    named = places(as_array(values.categories) if categorical else values, as_array([abstain])) >= 0
    silent = named[values.codes] if categorical else named
    if silent.all():
        if classes is None:
            raise ResponsesError(
                "Some source must speak, or the classes must be declared with classes=, because "
                f"they are unknown otherwise. Got: {abstain!r} in all {len(values)} rows."
            )
        return np.repeat(unique_names(classes, "class")[:1], len(values)), silent
    filled = values.copy()
    filled[silent] = values[~silent][0]
    if categorical:
        return filled.set_categories(values.categories[~named]), silent
    return narrow(filled) if filled.dtype == object else filled, silent


def apart(
    key: NDArray[np.int64], silent: NDArray[np.bool_], names: list[NDArray[Any]], declared: bool
) -> tuple[NDArray[np.int64], Silence]:
    """Separate (item × raters + rater) × classes + label of responses from that of silence."""
    items, raters, classes = names
    pair, votes = key[silent] // len(classes), key[~silent]
    spoke = np.unique(votes // len(classes))
    mute = np.setdiff1d(pair % len(raters), spoke % len(raters))
    if len(mute) and not declared:
        raise ResponsesError(
            "Every source must speak at least once, because nothing is learnt from silence alone: "
            "leave the source out, or declare all with raters= (as in a few new items). "
            f"Got: {shown(raters[mute])}, only silent ({len(mute)} such)."
        )
    n_pairs = len(items) * len(raters)
    if len(spoke) + len(pair) == n_pairs and len(np.union1d(spoke, pair)) == n_pairs:
        return votes, Silence()
    return votes, of_pairs(pair, len(items), len(raters))


def of_pairs(pair: NDArray[np.int64], n_items: int, n_raters: int) -> Silence:
    """Return the silence of pairs, ``item * raters + rater``."""
    # a table in which every source was applied to every item stores none
    require_32_bits(len(pair), "pairs of an item and a silent source")
    pair = np.sort(pair)
    start = np.searchsorted(pair, np.arange(n_items + 1, dtype=np.int64) * n_raters)
    return Silence(start.astype(np.uint32), (pair % n_raters).astype(np.uint32))
