"""Spans of raters read from a table, and the scores of spans."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array, as_python, columns, refuse
from bayesfuse.data.gold_tables import read_gold
from bayesfuse.data.names import encode, places
from bayesfuse.data.responses import Responses
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import observed_labels, sequences_of
from bayesfuse.results.paths import Tagged, any_fully_known, read_tagged, spans
from bayesfuse.results.summaries import tails

COLUMNS = ["sequence", "rater", "start", "stop", "kind"]


def read_spans(table: Any, sequences: Sequences, *, outside: Any = "O") -> Responses:
    """Read spans that raters marked, such as standoff annotations, as tags of the items.

    Parameters
    ----------
    table : dataframe or mapping of arrays
        One row per span: columns sequence, rater, start, stop (zero-based, ``stop`` excluded) and
        kind (may be ""). A row without start, or with ``stop`` equal to it, says that the rater
        read the sequence; sequences without a row of a rater are unlabelled.
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
    >>> table = {"sequence": ["s", "t"], "rater": ["x", "x"], "start": [0, 0], "stop": [2, 0],
    ...          "kind": ["LOC", ""]}
    >>> bf.io.read_spans(table, sequences).to_frame()["label"].tolist()
    ['B-LOC', 'I-LOC', 'O', 'O', 'O']
    """
    require_kind("sequences", sequences, Sequences)
    values = columns(table, COLUMNS, "spans")
    sequence, _ = encode(values[0], sequences.names, "sequence", "sequence")
    rater, raters = encode(values[1], None, "rater", "rater")
    start, stop = (np.asarray(column, dtype=np.float64) for column in values[2:4])
    start, stop = np.where(np.isnan(start), 0.0, start), np.where(np.isnan(start), 0.0, stop)
    right = (0 <= start) & (start <= stop) & (stop <= sequences.lengths[sequence])
    rule = "Spans must be of whole items, and begin and stop within their sequence."
    place = "start {:g} and stop {:g} in row {}, counted from 0"
    refuse(~right | (start % 1 + stop % 1 > 0), rule, lambda n: place.format(start[n], stop[n], n))
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
        lambda n: f"item {as_python(sequences.items[item[n]])!r} in several spans of a rater",
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
    for overlap, the share of the items of a span that are in a span of its kind.

    Parameters
    ----------
    labels, sequences, scheme, outside
        As in :func:`bayesfuse.spans`; also the truth as a mapping, Series or DataFrame (columns
        item and label), to be compared with ``found`` where it is known for whole sequences.
    found : DataFrame, optional
        Spans to be scored, as rows of :func:`bayesfuse.spans`. Default: those chosen by it.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        Rows exact and overlap; precision, recall and f1, each with ends of its interval (``…_low``,
        ``…_high``). At a draw without spans recall is 0, as in conlleval and scikit-learn.
        Precision is NaN if no span is to be scored, recall if there is none in any draw, and f1 if
        there is neither.

    Raises
    ------
    ModelError
        As :func:`bayesfuse.spans`; spans of unknown sequences, beyond their ends or without items.

    Examples
    --------
    >>> import bayesfuse as bf, xarray as xr
    >>> draws = [["O", "B", "I"], ["O", "B", "I"], ["B", "I", "I"], ["O", "O", "O"]]
    >>> labels = xr.DataArray(draws, {"item": range(3)}, ["draw", "item"])
    >>> bf.checks.span_scores(labels, bf.Sequences.from_lengths([3]))["precision"].tolist()
    [0.5, 0.75]
    """
    between = tails(ci_prob)
    tagged = read_tagged(labels, sequences, scheme, outside)
    codes, every, sequences = tagged.codes, sequences, tagged.sequences
    if found is None:
        if len(codes) == 1 and not isinstance(labels, xr.DataTree):
            rule = "Labels of one draw, such as the truth, are compared with the spans found=."
            raise ModelError(f"{rule} Got: none.")
        found = spans(labels, sequences, scheme=scheme, outside=outside)
        found = found[found["chosen"]]
    require_kind("found", found, pd.DataFrame)
    if every is not None and sequences.n_sequences < every.n_sequences:
        left_out = np.setdiff1d(every.names, sequences.names)
        found = found[~found["sequence"].isin(left_out)]
    runs = _as_runs(found, tagged)
    kind_of_item = np.full(sequences.n_items, -1)
    for start, stop, kind in runs.tolist():
        kind_of_item[start:stop] = kind
    true, draw = tagged.every_run()
    hit = np.isin(_keys(true, tagged), _keys(runs, tagged))
    hits: Array = np.bincount(draw, hit, len(codes))
    n_true: NDArray[np.int64] = np.bincount(draw, minlength=len(codes))
    covered = np.array([_in_kind(runs, tagged.kind_of[row]).sum() for row in codes])
    of_true = np.bincount(draw, _in_kind(true, kind_of_item), len(codes))
    exact = _scores(hits, hits, len(runs), n_true)
    values = np.stack([exact, _scores(covered, of_true, len(runs), n_true)])
    table = _with_intervals(values, between)
    table.index = pd.Index(["exact", "overlap"])
    return table


def rater_spans(
    result: xr.DataTree, truth: Any = None, *, ci_prob: float | None = None
) -> pd.DataFrame:
    """Return the number of spans of every rater and their precision, recall and F1.

    Spans are compared with those of ``truth`` in sequences of known labels, if there are any, else
    with those of the joint draws. Recall is among spans all of whose items the rater labelled.
    """
    between = tails(ci_prob)
    responses = observed_labels(result)
    sequences: Any = sequences_of(result, responses)
    labels: Any = None if truth is None else read_gold(truth, responses)
    if labels is None or not any_fully_known(sequences, labels.keys()):
        labels = result
    tagged = read_tagged(labels, sequences, "bio", "O")
    sequences, n_draws = tagged.sequences, len(tagged.codes)
    if sequences.n_items < responses.n_items:
        responses = responses.take(np.flatnonzero(np.isin(responses.items, sequences.items)))
    code = places(as_array(responses.classes), np.array(tagged.classes, dtype=object))
    place = np.argsort(sequences.places(responses))
    true, draw = tagged.every_run()
    # draws share most of their spans, so compare each distinct span once
    keys, first, which = np.unique(_keys(true, tagged), return_index=True, return_inverse=True)
    start, stop = true[first, 0], true[first, 1]
    scores, n_spans = np.empty((responses.n_raters, 3, n_draws)), []
    for rater in range(responses.n_raters):
        rows = np.flatnonzero(responses.rater == rater)
        rater_codes = np.full(sequences.n_items, -1)  # no label
        rater_codes[place[responses.item[rows]]] = code[responses.label[rows]]
        runs = tagged.runs(rater_codes)
        n_labelled = np.append(0, (rater_codes >= 0).cumsum())
        is_labelled = n_labelled[stop] - n_labelled[start] == stop - start
        is_hit = is_labelled & np.isin(keys, _keys(runs, tagged))
        hits = np.bincount(draw, is_hit[which], n_draws)
        n_true = np.bincount(draw, is_labelled[which], n_draws)
        scores[rater] = _scores(hits, hits, len(runs), n_true)
        n_spans.append(len(runs))
    table = _with_intervals(scores, between)
    table.index = pd.Index(responses.raters, name="rater")
    table.insert(0, "spans", n_spans)
    return table


def _counted(sizes: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return 0, 1, … within each of several stretches, one after the other."""
    return np.arange(sizes.sum()) - np.repeat(sizes.cumsum() - sizes, sizes)


def _as_runs(table: pd.DataFrame, tagged: Tagged) -> NDArray[np.int64]:
    """Return spans of a table as runs (start, stop, kind) of items in the order of sequences."""
    if len(table) == 0:
        return np.empty((0, 3), dtype=np.int64)
    sequences, kinds = tagged.sequences, tagged.kinds
    sequence = places(as_array(table["sequence"].to_numpy()), sequences.names)
    kind = np.array([kinds.index(name) if name in kinds else len(kinds) for name in table["kind"]])
    start, stop = (table[name].to_numpy(dtype=np.int64) for name in ("start", "stop"))
    is_within = (sequence >= 0) & (start >= 0) & (stop <= sequences.lengths[sequence])
    if not (is_within & (start < stop)).all():
        raise ModelError(
            "Spans must be of the sequences, within them, and of one item at least. Got: some of "
            "other sequences, beyond their ends, or without items."
        )
    begin = sequences.start[sequence]
    return np.stack([start + begin, stop + begin, kind], axis=1)


def _keys(runs: NDArray[np.int64], tagged: Tagged) -> NDArray[np.int64]:
    """Return a number for every run, the same for the same ones."""
    n_places = tagged.sequences.n_items + 1
    return np.ravel_multi_index(tuple(runs.T), (n_places, n_places, len(tagged.kinds) + 1))


def _in_kind(runs: NDArray[np.int64], kind_of_item: NDArray[np.int64]) -> Array:
    """Return the share of the items of every run that are of its kind."""
    start, stop, kind = runs.T
    size = stop - start
    run = np.repeat(np.arange(len(runs)), size)
    right = kind_of_item[start[run] + _counted(size)] == kind[run]
    return np.bincount(run, right, len(runs)) / size


def _scores(right: Array, n_recalled: Array, n_predicted: int, n_true: NDArray[np.int64]) -> Array:
    """Return precision, recall and F1, their harmonic mean, at every draw (3, draws).

    All scores treat 0/0 here: 0 at a draw, as in conlleval and scikit-learn, but NaN if no draw has
    the spans that the score counts.
    """
    precision, recall = right / max(n_predicted, 1), n_recalled / np.maximum(n_true, 1)
    total = precision + recall
    f1 = 2 * precision * recall / np.where(total > 0, total, 1.0)
    scores = np.array([precision, recall, f1])
    no_predicted, no_true = n_predicted == 0, not n_true.any()
    scores[[no_predicted, no_true, no_predicted and no_true]] = np.nan
    return scores


def _with_intervals(values: Array, between: tuple[float, float]) -> pd.DataFrame:
    """Return means over draws (…, 3 scores, draws), and intervals with equal tails."""
    ends, means = np.quantile(values, between, axis=-1), values.mean(axis=-1)
    columns = {}
    for at, name in enumerate(("precision", "recall", "f1")):
        columns[name] = means[:, at]
        columns[f"{name}_low"], columns[f"{name}_high"] = ends[:, :, at]
    return pd.DataFrame(columns)
