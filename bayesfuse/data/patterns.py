"""Equal values, and items with the same responses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray


def first_occurrences(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return the first index of each distinct value, in order, and the number of every value."""
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def item_patterns(
    responses: Any, key: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Apply :func:`first_occurrences` to items, which are equal if responses and ``key`` are."""

    # A sum of random 64-bit words does not depend on the order of the rows, and two items collide
    # with probability 2⁻⁶⁴; with two such sums no exact comparison is needed.
    def words(seed: int, count: int) -> NDArray[np.uint64]:
        rng = np.random.default_rng(seed)
        return rng.integers(0, 2**64, size=(2, count), dtype=np.uint64)

    marks = np.empty((responses.n_items, 3), dtype=np.uint64)
    for mark, word in zip(
        marks.T, words(0, responses.n_raters * responses.n_classes), strict=False
    ):
        total = np.concatenate([[np.uint64(0)], np.cumsum(word[responses.cell], dtype=np.uint64)])
        mark[:] = total[responses.start[1:]] - total[responses.start[:-1]]
    if responses.silent is not None:
        for mark, word in zip(marks.T, words(1, responses.n_raters), strict=False):
            mark += responses.silent.sums(word, responses.n_items)
    if responses.stated is not None:  # statements are seldom equal, so their items stay apart
        alone = np.flatnonzero(responses.stated.per_item)
        marks[alone, :2] = words(2, len(alone)).T
    marks[:, 2] = 0 if key is None else np.asarray(key).astype(np.uint64)
    return first_occurrences(marks.view([("a", "u8"), ("b", "u8"), ("c", "u8")]).ravel())


class Merging:
    """Methods of :class:`bayesfuse.Responses` that merge items."""

    def merged(self, key: NDArray[np.int64] | None = None) -> tuple[Self, NDArray[np.int64]]:
        """Merge items with the same responses, adding up their multiplicities.

        Parameters
        ----------
        key : ndarray of int, shape (items,), optional
            Merge only items with equal keys (known classes, for instance).

        Returns
        -------
        responses : Responses
            One item per pattern, named by the first item with that pattern.
        inverse : ndarray of int64, shape (items,)
            Position of every item's pattern in ``responses``.
        """
        table = cast(Any, self)
        first, inverse = item_patterns(table, key)
        size = np.bincount(inverse, table.multiplicity, minlength=len(first)).astype(np.int64)
        return replace(table.take(first), multiplicity=size), inverse

    def condensed(self, key: NDArray[np.int64] | None = None) -> tuple[Self, NDArray[np.int64]]:
        """Return :meth:`merged` if it at least halves the items (of a sample), else this table."""
        whole = cast(Any, self)
        unchanged = self, np.arange(whole.n_items)
        sample = min(whole.n_items, 10_000)
        few, _ = whole.head(sample).merged(None if key is None else key[:sample])
        if few.n_items > sample / 2:
            return unchanged
        table, inverse = whole.merged(key)
        return (table, inverse) if table.n_items <= whole.n_items / 2 else unchanged
