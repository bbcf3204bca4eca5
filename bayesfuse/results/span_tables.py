"""Spans of raters as a table, and how good spans are: those of an answer and of every rater."""

from __future__ import annotations

import warnings
from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, columns, plain, refuse
from bayesfuse.data.names import encode, places
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import responses_of
from bayesfuse.results.paths import in_order, runs_of, span_kinds, spans
from bayesfuse.results.summaries import tails

COLUMNS = ["sequence", "rater", "start", "stop", "kind"]


def read_spans(table: Any, sequences: Sequences, *, outside: Any = "O") -> Responses:
    """Read spans that raters marked, such as standoff annotations, as tags of the items.

    Parameters
    ----------
    table : dataframe or mapping of arrays
        One row per span: columns sequence, rater, start, stop (zero-based positions of items,
        ``stop`` excluded) and kind ("" if spans have no kinds). A row without start, or with
        ``stop`` equal to it, says that the rater read the sequence. Items of a sequence of which a
        rater has no row are unlabelled.
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
    size, long = sequences.lengths[of], (stop - start)[marked].astype(np.int64)
    first = (size.cumsum() - size)[pair[marked]] + start[marked].astype(np.int64)
    within = _counted(long)
    at = np.repeat(first, long) + within
    item = np.repeat(sequences.start[of], size) + _counted(size)
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
    sequences, outside
        As in :func:`bayesfuse.read_spans`.

    Returns
    -------
    DataFrame
        Rater by rater, last the sequences in which a rater marked nothing, with ``start`` and
        ``stop`` 0. Unlabelled items end spans.

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
    place = np.argsort(sequences.places(responses))
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


def span_scores(
    labels: Any,
    sequences: Sequences | None = None,
    found: pd.DataFrame | None = None,
    *,
    scheme: Literal["bio", "runs"] = "bio",
    outside: Any = "O",
    ci_prob: float | None = None,
) -> pd.DataFrame:
    """Return the precision, recall and F1 that spans are expected to have, with intervals.

    Spans are compared with every draw of the labels: exactly (borders and kind), and with credit
    for overlap, the share of the items of a span that are in a span of its kind. Errors that all
    raters make are not seen.

    Parameters
    ----------
    labels, sequences, scheme, outside
        As in :func:`bayesfuse.spans`; labels are draws (draw, item), a result, or the truth as a
        mapping, Series or DataFrame (columns item and label), to be compared with ``found``.
        Sequences whose truth is not known for all items are left out.
    found : DataFrame, optional
        Spans to be scored: columns sequence, start, stop and kind, such as rows of
        :func:`bayesfuse.spans`. Default: those chosen by it.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        Rows exact and overlap; columns precision, recall and f1, each followed by the ends of its
        interval, as precision_low and precision_high. Undefined ones are NaN.

    Raises
    ------
    ModelError
        As :func:`bayesfuse.spans`; spans of unknown sequences or beyond their ends.

    Examples
    --------
    >>> import bayesfuse as bf, numpy as np, xarray as xr
    >>> draws = [["O", "B", "I"], ["O", "B", "I"], ["B", "I", "I"], ["O", "O", "O"]]
    >>> labels = xr.DataArray(draws, {"item": range(3)}, ["draw", "item"])
    >>> found = bf.spans(labels, bf.Sequences.from_lengths([3])).iloc[[1]]
    >>> found[["start", "stop", "probability", "overlap"]].values.tolist()
    [[1.0, 3.0, 0.5, 0.75]]
    >>> bf.span_scores(labels, bf.Sequences.from_lengths([3]), found)["precision"].tolist()
    [0.5, 0.75]
    """
    between = tails(ci_prob)
    if found is not None:
        require_kind("found", found, pd.DataFrame)
    every = sequences
    codes, classes, sequences = in_order(labels, sequences)
    kind_of, begins, kinds = span_kinds(classes, scheme, outside)
    if found is not None and every is not None and sequences.n_sequences < every.n_sequences:
        left_out = np.setdiff1d(every.names, sequences.names)
        found = found[~found["sequence"].isin(left_out)]
    if found is None and len(codes) == 1 and not isinstance(labels, xr.DataTree):
        raise ModelError(
            "Labels of one draw, such as the truth, are compared with the spans found=. Got: none."
        )
    if found is None:
        found = spans(labels, sequences, scheme=scheme, outside=outside)
        found = found[found["chosen"]]
    given = _as_runs(found, sequences, kinds)
    own = np.full(sequences.n_items, -1)
    for start, stop, kind in given.tolist():
        own[start:stop] = kind
    keys = _keys(given, sequences.n_items, len(kinds))
    values = np.empty((2, 3, len(codes)))
    for draw, row in enumerate(codes):
        true = runs_of(row, sequences, kind_of, begins)
        hits = int(np.isin(keys, _keys(true, sequences.n_items, len(kinds))).sum())
        covered = _overlap(given, kind_of[row]), _overlap(true, own)
        for measure, right in enumerate(((hits, hits), covered)):
            values[measure, :, draw] = _scores(*right, len(given), len(true))
    table = _with_intervals(values, between)
    table.index = pd.Index(["exact", "overlap"])
    return table


def rater_spans(
    result: xr.DataTree,
    sequences: Sequences | None = None,
    labels: Any = None,
    *,
    scheme: Literal["bio", "runs"] = "bio",
    outside: Any = "O",
    ci_prob: float | None = None,
) -> pd.DataFrame:
    """Return the precision and recall of the spans of every rater, with intervals.

    A rater's spans are compared with those of every draw of the labels, exactly: borders and kind.
    Recall is among spans all of whose items the rater labelled.

    Parameters
    ----------
    result : DataTree
        With the responses, and joint draws of the labels unless ``labels`` has them.
    labels : DataArray, mapping, Series or DataFrame, optional
        From :func:`bayesfuse.draw_labels`, or true labels (of whole sequences).
    sequences, scheme, outside, ci_prob
        As in :func:`bayesfuse.span_scores`; ``sequences`` is needed with ``labels``.

    Returns
    -------
    DataFrame
        One row per rater: spans (their number), and precision, recall and f1, each followed by the
        ends of its interval. Draws without spans to find do not count; NaN for raters without
        spans, or without any to find in every draw.

    Raises
    ------
    ModelError
        As :func:`bayesfuse.spans`; a result without its responses.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> said = [["O", "O"], ["B", "B"], ["I", "O"], ["O", "O"]] * 5
    >>> responses = bf.Responses.from_matrix(said, raters=["x", "y"], classes=["O", "B", "I"])
    >>> model = bf.models.HiddenMarkov(responses, bf.Sequences.from_lengths([4] * 5))
    >>> bf.rater_spans(bf.fit(model, random_seed=1))["spans"].to_dict()
    {'x': 5, 'y': 5}
    """
    between = tails(ci_prob)
    codes, classes, sequences = in_order(result if labels is None else labels, sequences)
    kind_of, begins, kinds = span_kinds(classes, scheme, outside)
    responses = responses_of(result)
    if sequences.n_items < responses.n_items:
        responses = responses.take(np.flatnonzero(np.isin(responses.items, sequences.items)))
    code = places(as_array(responses.classes), np.array(classes, dtype=object))
    place = np.argsort(sequences.places(responses))
    drawn = [runs_of(row, sequences, kind_of, begins) for row in codes]
    draw = np.repeat(np.arange(len(drawn)), [len(each) for each in drawn])
    true = np.concatenate(drawn)
    keys = _keys(true, sequences.n_items, len(kinds))
    unlabelled = len(classes)
    kind_of, begins = np.append(kind_of, -1), np.append(begins, False)
    values, numbers = np.empty((responses.n_raters, 3, len(codes))), []
    for rater in range(responses.n_raters):
        rows = np.flatnonzero(responses.rater == rater)
        own = np.full(sequences.n_items, unlabelled)
        own[place[responses.item[rows]]] = code[responses.label[rows]]
        runs = runs_of(own, sequences, kind_of, begins)
        up_to = np.append(0, (own != unlabelled).cumsum())
        asked = up_to[true[:, 1]] - up_to[true[:, 0]] == true[:, 1] - true[:, 0]
        hit = asked & np.isin(keys, _keys(runs, sequences.n_items, len(kinds)))
        hits, wanted = (np.bincount(draw[which], minlength=len(drawn)) for which in (hit, asked))
        values[rater] = _scores(hits, hits, np.full(len(drawn), len(runs)), wanted)
        numbers.append(len(runs))
    table = _with_intervals(values, between)
    table.index = pd.Index(responses.raters, name="rater")
    table.insert(0, "spans", numbers)
    return table


def _counted(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, … within each of several stretches, one after the other."""
    return np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)


def _as_runs(found: pd.DataFrame, sequences: Sequences, kinds: list[Any]) -> NDArray[np.int64]:
    """Return spans of a table as runs (start, stop, kind) of items in the order of sequences."""
    if len(found) == 0:
        return np.empty((0, 3), dtype=np.int64)
    sequence = places(as_array(found["sequence"].to_numpy()), sequences.names)
    kind = np.array([kinds.index(name) if name in kinds else len(kinds) for name in found["kind"]])
    start, stop = (found[name].to_numpy(dtype=np.int64) for name in ("start", "stop"))
    if sequence.min() < 0 or (start < 0).any() or (stop > sequences.lengths[sequence]).any():
        raise ModelError(
            "Spans must be of the sequences, and within them. Got: some of other sequences, or "
            "beyond their ends."
        )
    begin = sequences.start[sequence]
    return np.stack([start + begin, stop + begin, kind], axis=1)


def _keys(runs: NDArray[np.int64], n_items: int, n_kinds: int) -> NDArray[np.int64]:
    """Return a number for every run, the same for the same ones."""
    start, stop, kind = runs.T
    return (start * (n_items + 1) + stop) * (n_kinds + 1) + kind


def _overlap(runs: NDArray[np.int64], kind_of_item: NDArray[np.int64]) -> float:
    """Return the sum over runs of the share of their items that are of their kind."""
    start, stop, kind = runs.T
    size = stop - start
    right = kind_of_item[np.repeat(start, size) + _counted(size)] == np.repeat(kind, size)
    return float((right / np.repeat(size, size)).sum())


def _scores(right: Any, found: Any, n_given: Any, n_true: Any) -> Array:
    """Return precision, recall and F1, their harmonic mean, NaN where they are not defined."""
    with np.errstate(invalid="ignore", divide="ignore"):
        precision, recall = np.divide(right, n_given), np.divide(found, n_true)
        both = 2 * precision * recall / (precision + recall)
    none = (precision == 0) & (recall == 0)
    return np.array([precision, recall, np.where(none, 0.0, both)])


def _with_intervals(values: Array, between: tuple[float, float]) -> pd.DataFrame:
    """Return means over draws (…, 3 scores, draws), and intervals with equal tails."""
    with warnings.catch_warnings():  # of raters for whom nothing is defined
        warnings.simplefilter("ignore", RuntimeWarning)
        ends = np.nanquantile(values, between, axis=-1)
        means = np.nanmean(values, axis=-1)
    columns = {}
    for at, name in enumerate(("precision", "recall", "f1")):
        columns[name] = means[:, at]
        columns[f"{name}_low"], columns[f"{name}_high"] = ends[:, :, at]
    return pd.DataFrame(columns)
