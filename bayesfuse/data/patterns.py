"""Equal values, and items with the same responses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


def first_occurrences(values: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Number the distinct values in order of first occurrence.

    Returns
    -------
    first : ndarray of int64
        Index of the first occurrence of each distinct value.
    inverse : ndarray of int64
        Number of every value.
    """
    _, first, inverse = np.unique(values, return_index=True, return_inverse=True)
    order = np.argsort(first)
    rank = np.empty_like(order)
    rank[order] = np.arange(len(order))
    return first[order], rank[inverse]


def item_patterns(
    responses: Any, key: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Apply :func:`first_occurrences` to items: equal if their responses and ``key`` are."""
    # A sum of random 64-bit words does not depend on the order of the rows, and two items collide
    # with probability 2⁻⁶⁴; with two such sums no exact comparison is needed.
    words = np.random.default_rng(0).integers(
        0, 2**64, size=(2, responses.n_raters * responses.n_classes), dtype=np.uint64
    )
    marks = np.empty((responses.n_items, 3), dtype=np.uint64)
    for mark, word in zip(marks.T[:2], words, strict=True):
        total = np.concatenate([[np.uint64(0)], np.cumsum(word[responses.cell], dtype=np.uint64)])
        mark[:] = total[responses.start[1:]] - total[responses.start[:-1]]
    marks[:, 2] = 0 if key is None else np.asarray(key).astype(np.uint64)
    return first_occurrences(marks.view([("a", "u8"), ("b", "u8"), ("c", "u8")]).ravel())
