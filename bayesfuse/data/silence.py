"""Silence: sources that were applied to an item and gave no response."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pandas.api.types import is_list_like

from bayesfuse.data.arrays import as_array, narrow, shown
from bayesfuse.data.names import places, require_32_bits
from bayesfuse.errors import ResponsesError

MIN_UNIPOLAR_SHARE = 0.9  # share of sources with one label only, from which they count as rules
MIN_RESPONSES = 10  # of a source: with fewer it may have used one class by chance


class ByItem:
    """Rows that are sorted by item: those of item ``n`` are ``start[n]:start[n + 1]``."""

    start: NDArray[np.uint32]

    @property
    def per_item(self) -> NDArray[np.int64]:
        """Number of rows of every item, shape (items,)."""
        return self.start[1:].astype(np.int64) - self.start[:-1]

    @property
    def item(self) -> NDArray[np.int64]:
        """Item index of every row, shape (rows,)."""
        return np.repeat(np.arange(len(self.start) - 1), self.per_item)


@dataclass(frozen=True, eq=False)
class Silence:
    """Silent sources: ``rater[start[n]:start[n + 1]]`` did not respond to item ``n``.

    Both are None in a complete table, in which every source without a response to an item was
    silent.
    """

    start: Any = None
    rater: Any = None

    @property
    def complete(self) -> bool:
        """Whether every source without a response to an item was silent there."""
        return self.rater is None

    @property
    def pairs(self) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
        """Row starts by item and the silent sources, of a table that is not complete."""
        return self.start, self.rater

    def take(self, items: NDArray[np.int64]) -> Silence:
        """Return the silence on items, by number and in the given order."""
        if self.complete:
            return self
        start, rater = self.pairs
        start, row = rows_of(start, items)
        return Silence(start, rater[row])

    def sums(self, word: NDArray[np.uint64], n_items: int) -> NDArray[np.uint64]:
        """Add up the words of the silent sources, by item; 0 where no pairs are stored."""
        if self.complete:
            return np.zeros(n_items, dtype=np.uint64)
        start, rater = self.pairs
        total = np.concatenate([[np.uint64(0)], np.cumsum(word[rater], dtype=np.uint64)])
        return total[start[1:]] - total[start[:-1]]


def rows_of(
    start: NDArray[np.uint32], items: NDArray[np.int64]
) -> tuple[NDArray[np.uint32], NDArray[np.int64]]:
    """Return row starts of items, by number and in the given order, and their rows."""
    first = start[:-1][items].astype(np.int64)
    size = start[1:][items] - first
    first_row = np.concatenate([[0], np.cumsum(size)])
    # row = first row of the item + position within the item
    row = np.repeat(first - first_row[:-1], size)
    row += np.arange(first_row[-1])
    return first_row.astype(np.uint32), row


def by_item(
    key: NDArray[np.int64], n_items: int, size: int, noun: str
) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Return row starts of items, and the rest of a sorted ``item * size + rest`` (overwritten)."""
    require_32_bits(len(key), noun)
    start = np.searchsorted(key, np.arange(n_items + 1, dtype=np.int64) * size)
    key %= size
    return start.astype(np.uint32), key.astype(np.uint32)


def first_rows(responses: Any) -> NDArray[np.bool_]:
    """Return which rows are the first of their source on their item, shape (responses,)."""
    rater = responses.cell // np.uint32(responses.n_classes)
    first = np.append(True, rater[1:] != rater[:-1])[: len(rater)]
    first[responses.start[:-1][responses.per_item > 0]] = True
    return first


def require_abstain(abstain: Any, classes: Any, marks: list[Any]) -> None:
    """Raise ResponsesError unless ``abstain`` is one label, not a class or a missing mark."""
    if is_list_like(abstain) or pd.isna(abstain):
        raise ResponsesError(
            "abstain must be one label, and NaN and None mean a missing response. "
            f"Got: abstain={abstain!r}."
        )
    for where, values in (("classes", classes), ("missing", marks)):
        names = as_array([] if values is None else list(values))
        if (places(names, as_array([abstain])) >= 0).any():
            raise ResponsesError(
                "The label of silence must be neither a class, because a source that abstains "
                "names none, nor a mark of missing responses, because a source that was not asked "
                f"is not silent. Got: {abstain!r} in abstain= and in {where}=."
            )


def split_abstentions(values: Any, abstain: Any) -> tuple[Any, NDArray[np.bool_] | None]:
    """Return the labels other than ``abstain``, and which values are that, None without one."""
    if abstain is None:
        return values, None
    mark = as_array([abstain])
    if isinstance(values, pd.Categorical):
        named = places(as_array(values.categories), mark) >= 0
        quiet = named[values.codes]
        return values[~quiet].set_categories(values.categories[~named]), quiet
    quiet = places(values, mark) >= 0
    labels = values[~quiet]
    return narrow(labels) if labels.dtype == object else labels, quiet


def silence_of(
    pair: NDArray[np.int64], key: NDArray[np.int64], names: list[NDArray[Any]], declared: bool
) -> Silence:
    """Return the silence of pairs, item × raters + rater, in a table of responses with a key."""
    items, raters, classes = names
    responded = np.unique(key // len(classes))
    silent_pairs = np.setdiff1d(pair % len(raters), responded % len(raters))
    if len(silent_pairs) and not declared:
        raise ResponsesError(
            "Every source must respond at least once, because silence alone is not informative: "
            "leave the source out, or declare all with raters= (as in a few new items). "
            f"Got: {shown(raters[silent_pairs])}, only silent ({len(silent_pairs)} such)."
        )
    n_pairs = len(items) * len(raters)
    if len(responded) + len(pair) == n_pairs and len(np.union1d(responded, pair)) == n_pairs:
        return Silence()
    return of_pairs(pair, len(items), len(raters))


def of_pairs(pair: NDArray[np.int64], n_items: int, n_raters: int) -> Silence:
    """Return the silence of pairs, ``item * raters + rater``."""
    # a table in which every source was applied to every item stores none
    noun = "pairs of an item and a silent source"
    return Silence(*by_item(np.sort(pair), n_items, n_raters, noun))


def are_labelling_functions(responses: Any) -> bool:
    """Return whether the sources vote for one class each and abstain on most items."""
    if responses.n_raters < 2:
        return False
    votes_for = np.zeros((responses.n_raters, responses.n_classes), dtype=bool)
    votes_for[responses.rater, responses.label] = True
    is_active = responses.per_rater >= MIN_RESPONSES
    if not is_active.any():
        return False
    n_pairs = responses.n_items * responses.n_raters
    if votes_for.any(axis=0).sum() == 1:
        # without any vote for another class, only silence can speak for it
        return responses.n_responses < n_pairs
    is_unipolar = votes_for.sum(axis=1) == 1
    is_sparse = responses.n_responses < 0.5 * n_pairs
    return bool(is_sparse and is_unipolar[is_active].mean() >= MIN_UNIPOLAR_SHARE)
