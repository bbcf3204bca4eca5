"""Digests of data, which detect results of other models, and items with the same responses."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

ROWS_AT_ONCE = 2_000_000  # responses hashed at a time

MIX = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
"""Odd multipliers that mix 64 bits."""


def of_responses(responses: Any) -> dict[str, str]:
    """Return digests of the names, in order, and of the responses, in any order."""
    items, raters, classes = (
        of_names(names) for names in (responses.items, responses.raters, responses.classes)
    )
    item_hash = _mixed(items, responses.multiplicity.astype(np.uint64))
    label_digest = _mixed(raters[:, None], classes).ravel()
    item, _ = responses.small_columns
    total = np.zeros(2, dtype=np.uint64)
    for at in range(0, responses.n_responses, ROWS_AT_ONCE):
        part = slice(at, at + ROWS_AT_ONCE)
        row = _mixed(item_hash[item[part]], label_digest[responses.cell[part]])
        total += row.sum(dtype=np.uint64), (row ^ (row >> np.uint64(29))).sum(dtype=np.uint64)
    contents = [total]
    if (silent := responses.silent) is not None:
        word = _mixed(raters, np.ones_like(raters))  # the hash of the number 0 is 0
        silent_hash = _mixed(silent.sums(word, responses.n_items), item_hash).sum(dtype=np.uint64)
        contents.append(np.array([int(silent.complete), silent_hash], dtype=np.uint64))
    if (stated := responses.stated) is not None:
        spread = pd.util.hash_array(stated.probability.ravel()).reshape(stated.probability.shape)
        word = _mixed(np.broadcast_to(classes, spread.shape), spread).sum(axis=1, dtype=np.uint64)
        row = _mixed(item_hash[stated.item], _mixed(raters[stated.rater], word))
        contents.append(np.array([len(row), row.sum(dtype=np.uint64)], dtype=np.uint64))
    return {
        "items": _digest([items]),
        "raters": _digest([raters]),
        "classes": _digest([classes]),
        "responses": _digest(contents),
    }


def of_gold(responses: Any, gold: NDArray[np.int64]) -> str:
    """Return a digest of the known labels, for items in any order."""
    known = np.flatnonzero(gold >= 0)
    items, classes = of_names(responses.items)[known], of_names(responses.classes)[gold[known]]
    return _digest([np.sort(_mixed(items, classes))]) if len(known) else ""


def of_set(numbers: NDArray[np.int64]) -> str:
    """Return a digest of numbers that does not depend on their order."""
    return of_arrays([np.sort(numbers, axis=None)])


def of_arrays(arrays: Iterable[NDArray[Any]]) -> str:
    """Return a digest of numeric arrays, the same for integers of any width."""
    return _digest([_wide(array) for array in arrays])


def seed_of(values: NDArray[np.float64]) -> int:
    """Return a seed that follows from numbers, whatever the order in which they were summed."""
    return int(_digest([np.round(values, 6) + 0.0]), 16)


def of_draws(values: NDArray[Any]) -> NDArray[np.int64]:
    """Return one number for each draw of ``values`` (chain, draw, …), equal for equal draws."""
    shape = values.shape[:2]
    rows = np.ascontiguousarray(_wide(values)).reshape(int(np.prod(shape)), -1)
    digests = b"".join(blake2b(row.tobytes(), digest_size=8).digest() for row in rows)
    return np.frombuffer(digests, dtype="<i8").astype(np.int64).reshape(shape)


def of_names(names: NDArray[Any]) -> NDArray[np.uint64]:
    """Return a hash of each name, the same on every machine."""
    if names.dtype.kind in "biuf":
        return pd.util.hash_array(_wide(names))
    return pd.util.hash_array(names.astype(str).astype(object), categorize=False)


def uniforms(*names: NDArray[np.uint64]) -> NDArray[np.float64]:
    """Return a number between 0 and 1 for each combination of hashes of names."""
    mixed = np.zeros_like(names[0])
    for numbers in names:
        mixed = _mixed(mixed, numbers)
    uniform: NDArray[np.float64] = (mixed >> np.uint64(11)).astype(np.float64) * 2.0**-53
    return uniform


def _wide(values: NDArray[Any]) -> NDArray[Any]:
    kind = values.dtype.kind
    return values.astype(np.float64 if kind == "f" else np.uint64 if kind == "u" else np.int64)


def _mixed(first: NDArray[np.uint64], second: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return a number for each pair of numbers; the order within the pair matters."""
    mixed = first * MIX[0] + second * MIX[1]
    mixed ^= mixed >> np.uint64(32)
    mixed *= MIX[0]
    return mixed ^ (mixed >> np.uint64(29))


def _digest(arrays: list[NDArray[Any]]) -> str:
    made = blake2b(digest_size=8)
    for array in arrays:
        made.update(str(array.shape).encode())
        made.update(np.ascontiguousarray(array).tobytes())
    return made.hexdigest()


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
