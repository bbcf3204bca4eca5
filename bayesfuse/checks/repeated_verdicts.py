"""Whether repeated responses of raters to an item err independently, by a model of verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows
from bayesfuse.numerics import repeats as kernels
from bayesfuse.numerics.kernels import Array
from bayesfuse.priors import diagonal

GRID = (np.arange(10) + 0.5) / 10
"""Values of a uniform probability."""
ALIKE = np.append(np.sqrt(GRID), 0.999)
"""Probabilities that a response is the verdict: of uniform correlation, and of copies."""

ITERATIONS = 60  # of EM
MORE_ITERATIONS = 5  # from the rows at the last value of the grid
COMPARING = 20  # iterations that compare verdicts of two raters with one of both
MAX_COMPARED = 10  # raters, those with most responses, compared with their nearest other one
NEGLIGIBLE = 1e-3  # a probability that saves a fit


def pairs_of(table: Responses) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]:
    """Return the item–rater pair of every row, and the first row and size of every pair."""
    is_first = first_rows(table)
    pair = np.cumsum(is_first) - 1
    return pair, np.flatnonzero(is_first), np.bincount(pair)


def uniforms(table: Responses, rows: NDArray[np.int64]) -> Array:
    """Return numbers between 0 and 1 that depend on the names in these rows only, (rows,)."""
    items, raters, classes = (
        fingerprint.of_names(names) for names in (table.items, table.raters, table.classes)
    )
    names = items[table.item[rows]], raters[table.rater[rows]], classes[table.label[rows]]
    return fingerprint.uniforms(*names)


def most_frequent(table: Responses, pair: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return a row of the most frequent response of every pair, ties by a hash of the names."""
    cell = pair * table.n_classes + table.label
    _, row, count = np.unique(cell, return_index=True, return_counts=True)
    order = np.lexsort((uniforms(table, row), -count, pair[row]))
    chosen: NDArray[np.int64] = row[order][np.unique(pair[row][order], return_index=True)[1]]
    return chosen


def independence(
    table: Responses, raters: NDArray[np.int64], part: Responses | None = None
) -> Array:
    """Return the probability that repeats are independent given the class, (raters,).

    A rater who shares the verdict of another is no evidence of the class for that one. Whether the
    nearest one does is judged by a ``part`` of the table: the likelihood with one verdict of both
    is of the same responses.
    """
    n_raters = np.count_nonzero(table.per_rater)
    if n_raters < 3:
        # agreement with one other rater cannot tell shared errors from accuracy
        return np.zeros(len(raters))
    probability = _with_shared_prior(_log_odds(table, raters))
    if n_raters < 4:
        return probability
    part = table if part is None else part
    _, evidence = _fit(part, raters, COMPARING)
    separate = probability.copy()
    for place in np.argsort(-table.per_rater[raters], kind="stable")[:MAX_COMPARED]:
        nearest = _nearest(part, int(raters[place]))
        together = _with_raters(part, np.where(part.rater == nearest, raters[place], part.rater))
        remaining = raters[raters != nearest]
        _, joint = _fit(together, remaining, COMPARING)
        is_one = scipy.special.expit(joint - evidence - 2.0 * np.log(n_raters))
        if is_one > NEGLIGIBLE:
            without = _with_raters(table, np.where(table.rater == nearest, -1, table.rater))
            others = _with_shared_prior(_log_odds(without, remaining))
            other = others[np.searchsorted(remaining, raters[place])]
            probability[place] += is_one * (other - separate[place])
    return probability


def _nearest(table: Responses, rater: int) -> int:
    """Return the rater whose verdicts are most often those of a rater."""
    pair, first, _ = pairs_of(table)
    verdict = most_frequent(table, pair)
    label = np.full(table.n_items, -1)
    is_of_rater = table.rater[first] == rater
    label[table.item[first[is_of_rater]]] = table.label[verdict[is_of_rater]]
    item, other = table.item[first], table.rater[first]
    copies = table.multiplicity[item].astype(float)
    both = np.bincount(other, copies * (label[item] >= 0), table.n_raters)
    same = np.bincount(other, copies * (label[item] == table.label[verdict]), table.n_raters)
    share = (same + 1.0) / (both + 2.0)
    share[rater] = -1.0
    return int(share.argmax())


def _with_raters(table: Responses, rater: NDArray[np.int64]) -> Responses:
    """Return the table with other raters of its rows, without those of −1."""
    rows = rater >= 0
    return table.with_rows(table.item[rows], rater[rows], table.label[rows])


class _Pairs(NamedTuple):
    """Pairs of items and raters with their responses, which are consecutive rows."""

    of_row: NDArray[np.int64]
    begin: NDArray[np.int64]  # first row of each pair, and the end
    item: NDArray[np.int64]
    rater: NDArray[np.int64]
    of_item: NDArray[np.int64]  # first pair of each item, and the end


def _pairs(table: Responses) -> _Pairs:
    of_row, first, _ = pairs_of(table)
    begin = np.append(first, table.n_responses)
    of_item = np.searchsorted(first, table.start)
    return _Pairs(of_row, begin, table.item[first], table.rater[first], of_item)


def _fit(table: Responses, raters: NDArray[np.int64], iterations: int) -> tuple[Array, float]:
    """Fit the model in which verdicts of these raters may be wrong, by EM.

    Return log probabilities of labels by the responses of other raters (pairs, classes), and the
    log likelihood.
    """
    pairs, copies = _pairs(table), table.multiplicity.astype(float)
    verdict = most_frequent(table, pairs.of_row)
    n_raters, n_classes = table.n_raters, table.n_classes
    labels = _vote_shares(table, pairs.item * n_classes + table.label[verdict])
    right = np.where(np.isin(np.arange(n_raters), raters), 0.8, 1.0)  # of verdicts, by rater
    verdicts, prior = labels[pairs.item], diagonal(n_classes)
    counts, others, evidence = np.empty((n_raters, n_classes, n_classes)), verdicts.copy(), 0.0
    rows = pairs.begin, table.label, pairs.rater
    for _ in range(iterations):
        kernels.sum_labels(*rows, copies[pairs.item], verdicts, prior, counts)
        log_rows = np.log(counts / counts.sum(axis=2, keepdims=True))
        evidence, n_right, n_pairs = kernels.update_verdicts(
            pairs.of_item, *rows, copies, log_rows, labels, right, verdicts, others
        )
        right[raters] = ((n_right + 1.0) / (n_pairs + 2.0))[raters]
    return np.log(np.maximum(others, np.finfo(float).tiny)), evidence


def _log_odds(table: Responses, raters: NDArray[np.int64]) -> Array:
    """Return log odds that repeats are independent given the class, (raters,).

    Whether repeats share a verdict or not, a single response has the same probability, so that
    raters with few repeats are not judged by the others.
    """
    others, _ = _fit(table, raters, ITERATIONS)
    pairs = _pairs(table)
    is_judged = np.isin(pairs.rater, raters)
    others, size = others[is_judged], np.diff(pairs.begin)[is_judged]
    copies = table.multiplicity[pairs.item[is_judged]].astype(float)
    label = table.label[is_judged[pairs.of_row]]
    begin = np.append(0, np.cumsum(size))
    rows = begin, label, np.searchsorted(raters, pairs.rater[is_judged])
    n_classes = table.n_classes
    prior, alike = diagonal(n_classes), np.eye(n_classes)
    counts = np.empty((len(raters), n_classes, n_classes))
    log_likelihood = np.empty((1 + len(ALIKE), len(raters)))
    classes: Array = np.exp(others)
    for number, share in enumerate((0.0, *ALIKE)):
        weight = copies / (1.0 + (size - 1.0) * share**2)
        for _ in range(MORE_ITERATIONS if number else ITERATIONS):
            kernels.sum_labels(*rows, weight, classes, prior, counts)
            probability = counts / counts.sum(axis=2, keepdims=True)
            by_verdict = (1.0 - share) * probability + share * alike
            verdict = np.tile(alike, (len(raters), 1, 1))
            if share:  # verdicts by class, whose product with by_verdict is the probability
                verdict = (verdict - share * np.linalg.inv(by_verdict)) / (1.0 - share)
                verdict = np.maximum(verdict, 0.0)
                verdict /= verdict.sum(axis=2, keepdims=True)
            evidence = kernels.update_classes(
                *rows, copies, others, np.log(by_verdict), verdict, classes
            )
        log_likelihood[number] = evidence
    shared = np.logaddexp.reduce(log_likelihood[1:], axis=0) - np.log(len(ALIKE))
    log_odds: Array = log_likelihood[0] - shared
    return log_odds


def _vote_shares(table: Responses, cell: NDArray[np.int64]) -> Array:
    """Return smoothed shares of votes, one for each item and label in ``cell``."""
    votes = np.bincount(cell, minlength=table.n_items * table.n_classes)
    smoothed = votes.reshape(-1, table.n_classes) + 1.0 / table.n_classes
    shares: Array = smoothed / smoothed.sum(axis=1, keepdims=True)
    return shares


def _with_shared_prior(log_odds: Array) -> Array:
    """Return probabilities (raters,) under a uniform prior probability that raters share."""
    log_prior = (np.log(GRID) - np.log1p(-GRID))[:, None]
    probability = scipy.special.expit(log_odds + log_prior)  # (grid, raters)
    log_lik = np.logaddexp(np.log(GRID)[:, None] + log_odds, np.log1p(-GRID)[:, None])
    weight = scipy.special.softmax(log_lik.sum(axis=1))
    averaged: Array = weight @ probability
    return averaged
