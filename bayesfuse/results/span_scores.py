"""How good spans are: those of an answer, and those of every rater."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.data.arrays import as_array
from bayesfuse.data.names import places
from bayesfuse.data.sequences import Sequences
from bayesfuse.errors import ModelError, require_kind
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import responses_of
from bayesfuse.results.paths import in_order, runs_of, span_kinds, spans
from bayesfuse.results.summaries import tails

KEPT = 0.5
"""Probability above which spans are returned: no two of these overlap."""

SCORES = ["precision", "recall", "f1"]


def span_scores(
    labels: xr.DataArray | xr.DataTree,
    sequences: Sequences | None = None,
    found: pd.DataFrame | None = None,
    *,
    scheme: Literal["bio", "runs"] = "bio",
    outside: Any = "O",
    ci_prob: float | None = None,
) -> pd.DataFrame:
    """Return the precision, recall and F1 that spans are expected to have, with intervals.

    They are those against every draw of the labels: exact, where a span counts if borders and kind
    are right, and with credit for overlap, where it counts by the share of its items that are in a
    span of its kind. They are as right as the model is: errors that all raters make are not seen.

    Parameters
    ----------
    labels : DataArray, dims (draw, item), or DataTree
        As in :func:`bayesfuse.spans`.
    sequences : Sequences, optional
        Default: those of the result.
    found : DataFrame, optional
        Spans to be scored: columns sequence, start, stop and kind, such as rows of
        :func:`bayesfuse.spans`. Default: those of probability above one half.
    scheme, outside
        As in :func:`bayesfuse.spans`.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        Rows exact and overlap; columns precision, recall and f1, each followed by the ends of its
        interval, as precision_low and precision_high. Undefined values are NaN.

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
    codes, classes, sequences = in_order(labels, sequences)
    kind_of, begins, kinds = span_kinds(classes, scheme, outside)
    if found is None:
        found = spans(labels, sequences, scheme=scheme, outside=outside)
        found = found[found["probability"] > KEPT]
    given = _as_runs(found, sequences, kinds)
    own = _marked(given, sequences.n_items)
    keys = _keys(given, sequences.n_items, len(kinds))
    values = np.empty((2, 3, len(codes)))
    for draw, row in enumerate(codes):
        true = runs_of(row, sequences, kind_of, begins)
        hits = int(np.isin(keys, _keys(true, sequences.n_items, len(kinds))).sum())
        values[0, :, draw] = _scores(hits, hits, len(given), len(true))
        covered = _overlap(given, kind_of[row]), _overlap(true, own)
        values[1, :, draw] = _scores(*covered, len(given), len(true))
    table = _with_intervals(values, between)
    table.index = pd.Index(["exact", "overlap"])
    return table


def rater_spans(
    result: xr.DataTree,
    sequences: Sequences | None = None,
    labels: xr.DataArray | None = None,
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
    sequences : Sequences, optional
        Default: those of the result. Needed with ``labels``.
    labels : DataArray, optional
        From :func:`bayesfuse.draw_labels`, or the true labels.
    scheme, outside
        As in :func:`bayesfuse.spans`.
    ci_prob : float, optional
        Probability of the intervals. Default ``az.rcParams["stats.ci_prob"]``.

    Returns
    -------
    DataFrame
        One row per rater: spans (their number), and precision, recall and f1, each followed by the
        ends of its interval. NaN for raters without spans, or without any to find.

    Raises
    ------
    ModelError
        As :func:`bayesfuse.spans`; a result without its responses.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> from bayesfuse.models import HiddenMarkov
    >>> said = [["O", "O"], ["B", "B"], ["I", "O"], ["O", "O"]] * 5
    >>> sequences = bf.Sequences.from_lengths([4] * 5)
    >>> responses = bf.Responses.from_matrix(said, raters=["x", "y"], classes=["O", "B", "I"])
    >>> result = bf.sample(HiddenMarkov(responses, sequences), 100, random_seed=1, quiet=True,
    ...                    progressbar=False)
    >>> bf.rater_spans(result, sequences)["spans"].to_dict()
    {'x': 5, 'y': 5}
    """
    between = tails(ci_prob)
    codes, classes, sequences = in_order(result if labels is None else labels, sequences)
    kind_of, begins, kinds = span_kinds(classes, scheme, outside)
    responses = responses_of(result)
    code = places(as_array(responses.classes), np.array(classes, dtype=object))
    place = np.empty(responses.n_items, dtype=np.int64)
    place[sequences.places(responses)] = np.arange(sequences.n_items)
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


def _as_runs(found: pd.DataFrame, sequences: Sequences, kinds: list[Any]) -> NDArray[np.int64]:
    """Return spans of a table as runs (start, stop, kind) of items in the order of sequences."""
    sequence = places(as_array(found["sequence"].to_numpy()), sequences.names)
    kind = np.array([kinds.index(name) if name in kinds else len(kinds) for name in found["kind"]])
    start, stop = (found[name].to_numpy(dtype=np.int64) for name in ("start", "stop"))
    if len(found) == 0:
        return np.empty((0, 3), dtype=np.int64)
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


def _marked(runs: NDArray[np.int64], n_items: int) -> NDArray[np.int64]:
    """Return the kind of every item, −1 outside the runs."""
    found = np.full(n_items, -1)
    for start, stop, kind in runs.tolist():
        found[start:stop] = kind
    return found


def _overlap(runs: NDArray[np.int64], kind_of_item: NDArray[np.int64]) -> float:
    """Return the sum over runs of the share of their items that are of their kind."""
    start, stop, kind = runs.T
    size = stop - start
    item = np.repeat(start - np.append(0, size.cumsum()[:-1]), size) + np.arange(size.sum())
    right = kind_of_item[item] == np.repeat(kind, size)
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
    ends = np.quantile(values, between, axis=-1)
    columns = {}
    for at, name in enumerate(SCORES):
        columns[name] = values[:, at].mean(axis=-1)
        columns[f"{name}_low"], columns[f"{name}_high"] = ends[:, :, at]
    return pd.DataFrame(columns)
