"""Sequences of items, each with its order."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import time
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from pandas.api.types import infer_dtype

from bayesfuse.data.arrays import as_array, as_python, columns, refuse
from bayesfuse.data.names import encode, matched, names_of, numbered, places, require_32_bits
from bayesfuse.errors import ResponsesError, warn

__all__ = ["Sequences"]

CLOCK = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}(?:\.\d+)?))?(?:\s?([ap])\.?m\.?)?", re.IGNORECASE)
DAY_FIRST = re.compile(r"\d{1,2}[./-]\d{1,2}[./-]\d{2,4}\b")  # or month first
DAY = 24 * 60 * 60  # seconds


class Structured:
    """Items that are ordered or connected, and matched to a table of responses by name."""

    items: NDArray[Any]
    words = "Items in sequence", "a sequence"

    @property
    def n_items(self) -> int:
        """Number of items."""
        return len(self.items)

    def places(self, responses: Any) -> NDArray[np.int64]:
        """Return the index of every item in a table of the same items, shape (items,)."""
        what, where = self.words
        known = (
            f"{what} must be items of the responses; declare those without responses by items= of "
            "bf.Responses.from_long."
        )
        rule = f"Every item of the responses must be in {where}, if only alone."
        return matched(self.items, responses.items, known, rule)


@dataclass(frozen=True, eq=False, repr=False)
class Sequences(Structured):
    """Items in sequence: words of sentences, epochs of recordings, frames of films.

    Items are matched to a table of responses by name, in any order. Duplicate items, two at one
    position, and lengths below one raise :class:`bayesfuse.errors.ResponsesError`.

    Attributes
    ----------
    names : ndarray, shape (sequences,)
        Unique names of the sequences.
    items : ndarray, shape (items,)
        Names of the items, sequence by sequence, in order.
    start : ndarray of int64, shape (sequences + 1,)
        Sequence ``s`` is ``items[start[s]:start[s + 1]]``, at least one item.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> table = {"item": ["dog", "The", "Hello"], "sequence": [1, 1, 2], "position": [2, 1, 1]}
    >>> bf.Sequences.from_table(table).items.tolist()
    ['The', 'dog', 'Hello']
    """

    names: NDArray[Any]
    items: NDArray[Any]
    start: NDArray[np.int64]

    @classmethod
    def from_table(
        cls,
        frame: Any,
        *,
        item: str = "item",
        sequence: str = "sequence",
        position: str | None = "position",
    ) -> Sequences:
        """Read a table with one row per item.

        Parameters
        ----------
        frame : dataframe or mapping of arrays
        item, sequence, position : str
            Names of the columns. Positions are numbers, times or anything that sorts, also as text
            (numbers in it sort as numbers), and gaps are ignored; None keeps the order of the rows.
            Times of the day without a date warn where a sequence seems to pass midnight.
        """
        names = [item, sequence] if position is None else [item, sequence, position]
        values = columns(frame, names, "sequences")
        place, distinct = encode(values[0], None, "item", item)
        code, sequence_names = encode(values[1], None, "sequence", sequence)
        _refuse_ambiguous(distinct, sequence_names, place, code, (item, sequence))
        refuse(
            np.bincount(place) > 1,
            "A table of items must have one row per item, because an item has one position: of a "
            "table of responses give frame.drop_duplicates(item).",
            lambda n: f"{as_python(distinct[n])!r} in several rows",
        )
        items = distinct[place]
        rank: NDArray[Any] = np.arange(len(items))
        if position is not None:
            rank, _ = numbered(_sortable(values[2], position), "position", position)
            _note_midnight(values[2], code, sequence_names, position)
        order = np.lexsort((rank, code))
        refuse(
            (np.diff(code[order]) == 0) & (np.diff(rank[order]) == 0),
            "Items of one sequence must have different positions, because these are their order.",
            lambda n: (
                f"{as_python(items[order[n]])!r} and {as_python(items[order[n + 1]])!r} "
                f"at one position of sequence {as_python(sequence_names[code[order[n]]])!r}"
            ),
        )
        used, size = np.unique(code, return_counts=True)  # categories may be unused
        return cls(sequence_names[used], items[order], np.concatenate([[0], np.cumsum(size)]))

    @classmethod
    def from_lengths(
        cls,
        lengths: ArrayLike,
        *,
        items: Sequence[Any] | None = None,
        names: Sequence[Any] | None = None,
    ) -> Sequences:
        """Split ordered items into sequences of given lengths.

        Parameters
        ----------
        lengths : array-like of int, shape (sequences,)
        items, names : sequence, optional
            Names of the items and of the sequences; by default 0, 1, 2, …
        """
        size = as_array(lengths)
        if size.ndim != 1 or size.size == 0 or size.dtype.kind not in "iu":
            raise ResponsesError(
                f"Lengths must be whole numbers, one per sequence. Got: {size.dtype} of shape "
                f"{size.shape}."
            )
        rule = "Every sequence must have at least one item."
        refuse(size < 1, rule, lambda n: f"length {size[n]} of sequence number {n}")
        require_32_bits(sum(size.tolist()), "items in sequence")
        start = np.concatenate([[0], np.cumsum(size.astype(np.int64))])
        sequence_names = names_of(len(size), names, "sequence")
        return cls(sequence_names, names_of(int(start[-1]), items, "item"), start)

    @property
    def n_sequences(self) -> int:
        """Number of sequences."""
        return len(self.names)

    @property
    def lengths(self) -> NDArray[np.int64]:
        """Number of items of every sequence, shape (sequences,)."""
        return np.diff(self.start)

    def to_frame(self) -> pd.DataFrame:
        """Return one row per item: columns item, sequence, position (from zero)."""
        return pd.DataFrame(
            {
                "item": self.items,
                "sequence": np.repeat(self.names, self.lengths),
                "position": np.arange(self.n_items) - np.repeat(self.start[:-1], self.lengths),
            }
        )

    def __repr__(self) -> str:
        low, high = int(self.lengths.min()), int(self.lengths.max())
        long = f"{low:,}" if low == high else f"{low:,} to {high:,}"
        return f"Sequences: {self.n_items:,} items in {self.n_sequences:,} sequences, {long} long"


def _refuse_ambiguous(
    items: NDArray[Any],
    sequences: NDArray[Any],
    place: NDArray[np.int64],
    code: NDArray[np.int64],
    columns_in_words: tuple[str, str],
) -> None:
    """Raise ResponsesError if an item is in several sequences."""
    order = np.lexsort((code, place))
    is_split = (np.diff(place[order]) == 0) & (np.diff(code[order]) != 0)
    item, sequence = columns_in_words
    refuse(
        is_split,
        "Names of items must be unique over all sequences. Make one of both columns here, and in "
        f"the table of responses: frame['item'] = frame[{sequence!r}].astype(str) + ' / ' + "
        f"frame[{item!r}].astype(str).",
        lambda n: (
            f"{as_python(items[place[order[n]]])!r} in sequences "
            f"{as_python(sequences[code[order[n]]])!r} and "
            f"{as_python(sequences[code[order[n + 1]]])!r}"
        ),
    )


def _sortable(positions: Any, column: str) -> Any:
    """Return positions in text as numbers that sort as what they mean: numbers, times, "week 10".

    Other positions are returned unchanged.
    """
    if isinstance(positions, pd.Categorical):
        is_sorted = positions.categories.is_monotonic_increasing  # as text, not in an order
        if positions.ordered or not is_sorted or positions.isna().any():
            return positions
        positions = np.asarray(positions)
    if infer_dtype(positions, skipna=False) != "string":
        return positions
    codes, distinct = pd.factorize(positions)
    texts = pd.Series(distinct)
    numbers = pd.to_numeric(texts, errors="coerce")
    if not numbers.isna().any():
        return numbers.to_numpy()[codes]
    seconds = _seconds(distinct)
    if seconds is not None:
        return seconds[codes]
    instants = pd.to_datetime(texts, format="ISO8601", utc=True, errors="coerce")
    if not instants.isna().any():
        return instants.dt.tz_convert(None).to_numpy("datetime64[ns]").astype(np.int64)[codes]
    refuse(
        [DAY_FIRST.match(text) is not None for text in positions],
        "Positions that are dates in text begin with the year, because the order of day and month "
        f"differs; convert them, as in pd.to_datetime(frame[{column!r}], dayfirst=True).",
        lambda n: repr(str(positions[n])),
    )
    keys = [
        [int(part) if place % 2 else part for place, part in enumerate(re.split(r"(\d+)", text))]
        for text in distinct
    ]
    rank = np.empty(len(keys), dtype=np.int64)
    rank[sorted(range(len(keys)), key=keys.__getitem__)] = np.arange(len(keys))
    return rank[codes]


def _seconds(times: Sequence[Any]) -> NDArray[np.float64] | None:
    """Return times of the day, as text, in seconds from midnight; None if some are no times."""
    matches = [CLOCK.fullmatch(str(text).strip()) for text in times]
    seconds = np.empty(len(matches))
    for n, match in enumerate(matches):
        if match is None:
            return None
        hour, half = int(match[1]), match[4]
        if half:
            hour = hour % 12 + 12 * (half in "pP")
        seconds[n] = 3600 * hour + 60 * int(match[2]) + float(match[3] or 0)
    return seconds


def _note_midnight(
    positions: Any, code: NDArray[np.int64], names: NDArray[Any], column: str
) -> None:
    """Warn of times of the day without a date in sequences that seem to pass midnight.

    On the circle of a day, a sequence begins after its longest gap.
    """
    if not isinstance(np.asarray(positions[:1], dtype=object)[0], str | time):
        return
    codes, distinct = pd.factorize(np.asarray(positions, dtype=object))
    of_distinct = _seconds(distinct)
    if of_distinct is None or of_distinct.max() >= DAY:  # hours since the beginning
        return
    seconds = of_distinct[codes]
    order = np.lexsort((seconds, code))
    gap = np.append(np.diff(seconds[order]), 0.0)
    last = np.append(np.diff(code[order]) != 0, True)
    first = np.flatnonzero(np.append(True, last[:-1]))
    gap[last] = 0.0
    longest = np.maximum.reduceat(gap, first)
    over_midnight = DAY - (seconds[order][last] - seconds[order][first])
    if len(passed := np.flatnonzero(longest > over_midnight)):
        begin = first[passed[0]]
        n = begin + int(np.argmax(gap[begin:] == longest[passed[0]]))
        warn(
            f"Positions in {column!r} are times of the day without a date, and {len(passed):,} of "
            f"{len(first):,} sequences seem to pass midnight, such as "
            f"{as_python(names[code[order[n]]])!r}, without items between {positions[order[n]]} "
            f"and {positions[order[n + 1]]}: its items after midnight come first. Give times with "
            "dates, or position=None if the rows are in order."
        )


def positions_of(sequences: Sequences, items: NDArray[Any]) -> NDArray[np.int64]:
    """Return the place of items in their sequences, from zero."""
    place = _rows_of(sequences, items)
    return place - sequences.start[np.searchsorted(sequences.start, place, side="right") - 1]


def previous_labels(
    sequences: Sequences, responses: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return for every row the rater's label of the previous item, and the number of that pair.

    Both are −1 if there is none; of several labels, the last counts. Pairs of item and rater are
    numbered in the order of the rows. The items may be a subset of those of the sequences.
    """
    place = _rows_of(sequences, responses.items)
    number = np.full(sequences.n_items, -1)
    number[place] = np.arange(len(place))
    before = np.where(np.isin(place, sequences.start), -1, number[place - 1])
    item, rater = responses.item, responses.rater
    key = item * responses.n_raters + rater  # ascending, and labels of a pair ascend, too
    last = np.append(key[1:] != key[:-1], True)[: len(key)]
    pairs, label = np.append(key[last], -1), np.append(responses.label[last], -1)
    wanted = before[item] * responses.n_raters + rater
    at = np.searchsorted(pairs[:-1], wanted)
    at = np.where((before[item] >= 0) & (pairs[at] == wanted), at, -1)
    return label[at], at


def consecutive_rows(
    sequences: Sequences, responses: Any
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return rows whose rater labelled the previous item, too, and the first row of that label."""
    _, pair = previous_labels(sequences, responses)
    key = responses.item.astype(np.int64) * responses.n_raters + responses.rater
    _, first = np.unique(key, return_index=True)  # pairs are numbered in the order of the rows
    later = np.flatnonzero(pair >= 0)
    return later, first[pair[later]]


def _rows_of(sequences: Sequences, items: NDArray[Any]) -> NDArray[np.int64]:
    """Return the rows of items among those of the sequences."""
    place = places(as_array(items), sequences.items)
    rule = "Every item of the responses must be in a sequence, if only alone."
    refuse(place < 0, rule, lambda n: f"{as_python(items[n])!r} in none")
    return place
