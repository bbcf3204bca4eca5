"""Tables of the spans of raters, such as standoff annotations, to and from responses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from bayesfuse.data.arrays import columns, plain, refuse
from bayesfuse.data.names import encode
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import require_kind
from bayesfuse.results.paths import runs_of, span_kinds

COLUMNS = ["sequence", "rater", "start", "stop", "kind"]


def read_spans(table: Any, sequences: Sequences, *, outside: Any = "O") -> Responses:
    """Read spans that raters marked, such as standoff annotations, as tags of the items.

    Parameters
    ----------
    table : dataframe or mapping of arrays
        One row per span: columns sequence, rater, start, stop (zero-based positions of items,
        ``stop`` excluded) and kind ("" if spans have no kinds). A row without start, or with
        ``stop`` equal to it, says that the rater read the sequence. The items of a sequence that
        a rater has no row of are unlabelled.
    sequences : Sequences
        All sequences.
    outside : object, default "O"
        Name of the class of the items in no span.

    Returns
    -------
    Responses
        Classes ``outside``, and B-X and I-X for every kind X (B and I without kinds).

    Raises
    ------
    ResponsesError
        No rows, other sequences, positions beyond these; overlapping spans of one rater.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> sequences = bf.Sequences.from_lengths([3, 2], names=["s", "t"])
    >>> table = {"sequence": ["s", "s", "t"], "rater": ["x", "y", "x"], "start": [0, 1, 0],
    ...          "stop": [2, 2, 0], "kind": ["LOC", "LOC", ""]}
    >>> responses = bf.read_spans(table, sequences)
    >>> responses.to_frame()["label"].tolist()
    ['B-LOC', 'O', 'I-LOC', 'B-LOC', 'O', 'O', 'O', 'O']
    """
    require_kind("sequences", sequences, Sequences)
    values = columns(table, COLUMNS, "spans")
    sequence, _ = encode(values[0], sequences.names, "sequence", "sequence")
    rater, raters = encode(values[1], None, "rater", "rater")
    start, stop = (np.asarray(each, dtype=np.float64) for each in values[2:4])
    start, stop = np.where(np.isnan(start), 0.0, start), np.where(np.isnan(start), 0.0, stop)
    right = (0 <= start) & (start <= stop) & (stop <= sequences.lengths[sequence])
    rule = "Spans must be of whole items, and begin and stop within their sequence."
    told = "start {:g} and stop {:g} in row {}, counted from 0"
    refuse(~right | (start % 1 + stop % 1 > 0), rule, lambda n: told.format(start[n], stop[n], n))
    marked = np.flatnonzero(start < stop)
    kind, kinds = encode(np.asarray(values[4], dtype=object)[marked], None, "kind", "kind")
    read, pair = np.unique(sequence * len(raters) + rater, return_inverse=True)
    of, who = np.divmod(read, len(raters))
    size = sequences.lengths[of]
    begin = np.append(0, size.cumsum())[:-1]
    first = begin[pair[marked]] + start[marked].astype(np.int64)
    long = (stop - start)[marked].astype(np.int64)
    within = np.arange(long.sum()) - np.repeat(long.cumsum() - long, long)
    at = np.repeat(first, long) + within
    item = np.arange(size.sum()) + np.repeat(sequences.start[of] - begin, size)
    rule = "Spans of one rater must not overlap, because an item has one class."
    refuse(
        np.bincount(at, minlength=len(item)) > 1,
        rule,
        lambda n: f"item {plain(sequences.items[item[n]])!r} in several spans of a rater",
    )
    label = np.zeros(len(item), dtype=np.int64)
    label[at] = np.repeat(2 * kind + 1, long) + (within > 0)
    tags = [f"{tag}-{name}" if str(name) else tag for name in kinds for tag in "BI"]
    coded = {
        "item": pd.Categorical.from_codes(item, sequences.items),
        "rater": pd.Categorical.from_codes(np.repeat(who, size), raters),
        "label": pd.Categorical.from_codes(label, [outside, *tags]),
    }
    return Responses.from_long(coded)


def response_spans(
    responses: Responses, sequences: Sequences, *, outside: Any = "O"
) -> pd.DataFrame:
    """Return the spans that raters marked, a table that :func:`bayesfuse.read_spans` reads.

    Parameters
    ----------
    responses : Responses
        With classes as in :func:`bayesfuse.spans`.
    sequences : Sequences
    outside : object, default "O"
        Name of the class outside all spans.

    Returns
    -------
    DataFrame
        Columns sequence, rater, start, stop and kind, rater by rater. Last come the sequences in
        which a rater marked nothing, with ``start`` and ``stop`` 0. Unlabelled items end spans.

    Raises
    ------
    ModelError
        Classes with other names.
    ResponsesError
        Responses to other items.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> said = [["B", "O"], ["I", "B"], ["O", "I"]]
    >>> responses = bf.Responses.from_matrix(said, raters=["x", "y"])
    >>> table = bf.response_spans(responses, bf.Sequences.from_lengths([3]))
    >>> table[["rater", "start", "stop"]].values.tolist()
    [['x', 0, 2], ['y', 1, 3]]
    """
    require_kind("responses", responses, Responses)
    require_kind("sequences", sequences, Sequences)
    kind_of, begins, kinds = span_kinds(responses.classes.tolist(), "bio", outside)
    place = np.empty(responses.n_items, dtype=np.int64)
    place[sequences.places(responses)] = np.arange(sequences.n_items)
    key = responses.rater * np.int64(sequences.n_items) + place[responses.item]
    order = np.argsort(key, kind="stable")
    rater, at = np.divmod(key[order], sequences.n_items)
    sequence = np.searchsorted(sequences.start, at, side="right") - 1
    read, first = np.unique(rater * sequences.n_sequences + sequence, return_index=True)
    ends = np.flatnonzero(np.diff(key[order]) != 1) + 1
    parts = np.diff(np.unique([0, *ends, *first, len(at)]))
    runs = runs_of(responses.label[order], Sequences.from_lengths(parts), kind_of, begins)
    begin, stop, kind = runs.T
    empty = np.setdiff1d(read, (rater * sequences.n_sequences + sequence)[begin])
    who, of = np.divmod(empty, sequences.n_sequences)
    start = at[begin] - sequences.start[sequence[begin]]
    return pd.DataFrame(
        {
            "sequence": sequences.names[np.append(sequence[begin], of)],
            "rater": responses.raters[np.append(rater[begin], who)],
            "start": np.append(start, 0 * of),
            "stop": np.append(start + stop - begin, 0 * of),
            "kind": np.array([*kinds, ""], dtype=object)[np.append(kind, np.full(len(of), -1))],
        }
    )
