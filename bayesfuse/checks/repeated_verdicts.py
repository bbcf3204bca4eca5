"""Whether repeated responses of raters to an item err independently, by a model of verdicts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.responses import Responses, from_key
from bayesfuse.data.silence import first_rows
from bayesfuse.numerics.kernels import Array
from bayesfuse.priors import diagonal

GRID = (np.arange(20) + 0.5) / 20
"""Probabilities that a verdict is right, uniform, of raters whose repeats share errors."""

ITERATIONS = 60  # of EM
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
    evidence = _fit(part, raters, COMPARING).evidence
    separate = probability.copy()
    for place in np.argsort(-table.per_rater[raters], kind="stable")[:MAX_COMPARED]:
        nearest = _nearest(part, int(raters[place]))
        together = _with_raters(part, np.where(part.rater == nearest, raters[place], part.rater))
        remaining = raters[raters != nearest]
        gain = _fit(together, remaining, COMPARING).evidence - evidence
        is_one = scipy.special.expit(gain - 2.0 * np.log(n_raters))
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
    key = (table.item * table.n_raters + rater) * table.n_classes + table.label
    changed = from_key(np.sort(key[rows]), table.items, table.raters, table.classes)
    return replace(changed, multiplicity=table.multiplicity)


class _Fit(NamedTuple):
    """A model of verdicts: their log likelihood and labels by other raters, (pairs, classes)."""

    log_lik: Array
    others: Array
    evidence: float  # log likelihood of the table


def _log_responses(
    table: Responses, pair: NDArray[np.int64], copies: Array, verdicts: Array
) -> Array:
    """Return log probabilities of the responses of pairs by verdict, at rows given these."""
    n_raters, n_classes = table.n_raters, table.n_classes
    weight = (verdicts * copies[:, None])[pair]
    counts = _sums(weight, table.cell.astype(np.int64), n_raters * n_classes)
    counts = counts.reshape(n_raters, n_classes, n_classes).swapaxes(1, 2) + diagonal(n_classes)
    log_rows = np.log(counts / counts.sum(axis=2, keepdims=True))
    return _sums(log_rows[table.rater, :, table.label], pair, len(verdicts))


def _fit(table: Responses, raters: NDArray[np.int64], iterations: int) -> _Fit:
    """Return the model in which verdicts of these raters may be wrong, by EM."""
    pair, first, _ = pairs_of(table)
    verdict = most_frequent(table, pair)
    n_raters, n_classes = table.n_raters, table.n_classes
    item, rater = table.item[first], table.rater[first]
    copies = table.multiplicity[item].astype(float)
    labels = _vote_shares(table, item * n_classes + table.label[verdict])
    right = np.where(np.isin(np.arange(n_raters), raters), 0.8, 1.0)  # of verdicts, by rater
    verdicts: Array = labels[item]

    for _ in range(iterations):
        log_lik = _log_responses(table, pair, copies, verdicts)
        log_verdict = _through_verdict(log_lik, right[rater])
        shares = (labels * table.multiplicity[:, None]).sum(axis=0) + 1.0
        labels = np.log(shares / shares.sum()) + _sums(log_verdict, item, table.n_items)
        of_items = np.logaddexp.reduce(labels, axis=1, keepdims=True)
        labels -= of_items
        others = labels[item] - log_verdict  # labels by the responses of other raters
        others -= np.logaddexp.reduce(others, axis=1, keepdims=True)
        labels = np.exp(labels)
        # the verdict given all responses: right, or another class with equal probabilities
        same = np.exp(others + log_lik)
        different = (1.0 - np.exp(others)) * np.exp(log_lik) / (n_classes - 1.0)
        same, different = right[rater, None] * same, (1.0 - right[rater, None]) * different
        verdicts = same + different
        total = np.maximum(verdicts.sum(axis=1, keepdims=True), np.finfo(float).tiny)
        verdicts /= total
        is_right = np.bincount(rater, copies * (same / total).sum(axis=1), n_raters)
        n_pairs = np.bincount(rater, copies, n_raters)
        right[raters] = ((is_right + 1.0) / (n_pairs + 2.0))[raters]
    return _Fit(log_lik, others, float(of_items[:, 0] @ table.multiplicity))


def _log_odds(table: Responses, raters: NDArray[np.int64]) -> Array:
    """Return log odds that repeats are independent given the class, (raters,)."""
    log_lik, others, _ = _fit(table, raters, ITERATIONS)
    pair, first, _ = pairs_of(table)
    rater, copies = table.rater[first], table.multiplicity[table.item[first]].astype(float)
    repeats = np.isin(rater, raters)
    # rows of responses to the class itself, at the same labels by the other raters
    classes: Array = np.exp(others)
    for _ in range(ITERATIONS):
        direct = others + _log_responses(table, pair, copies, classes)
        evidence = np.logaddexp.reduce(direct, axis=1)
        classes = np.exp(direct - evidence[:, None])
    code = np.searchsorted(raters, rater[repeats])
    weight = copies[repeats]
    independent = np.bincount(code, weight * evidence[repeats], len(raters))
    shared = np.empty((len(GRID), len(raters)))
    for row, value in enumerate(GRID):
        through = others + _through_verdict(log_lik, np.full(len(first), value))
        evidence = np.logaddexp.reduce(through, axis=1)[repeats]
        shared[row] = np.bincount(code, weight * evidence, len(raters))
    log_odds: Array = independent - np.logaddexp.reduce(shared, axis=0) + np.log(len(GRID))
    return log_odds


def _vote_shares(table: Responses, cell: NDArray[np.int64]) -> Array:
    """Return smoothed shares of votes, one for each item and label in ``cell``."""
    votes = np.bincount(cell, minlength=table.n_items * table.n_classes)
    smoothed = votes.reshape(-1, table.n_classes) + 1.0 / table.n_classes
    shares: Array = smoothed / smoothed.sum(axis=1, keepdims=True)
    return shares


def _with_shared_prior(log_odds: Array) -> Array:
    """Return probabilities (raters,) under a prior probability that raters share, by EM."""
    share = 0.5
    for _ in range(ITERATIONS):
        probability: Array = scipy.special.expit(log_odds + np.log(share) - np.log1p(-share))
        share = (1.0 + probability.sum()) / (2.0 + len(log_odds))
    return probability


def _through_verdict(log_lik: Array, right: Array) -> Array:
    """Return log probabilities of pairs by class, from those by verdict, (pairs, classes)."""
    top = log_lik.max(axis=1, keepdims=True)
    mass = np.exp(log_lik - top)
    wrong = (1.0 - right)[:, None] * (mass.sum(axis=1, keepdims=True) - mass)
    mass = right[:, None] * mass + np.maximum(wrong, 0.0) / (mass.shape[1] - 1.0)
    log_mass: Array = np.log(np.maximum(mass, np.finfo(float).tiny)) + top
    return log_mass


def _sums(values: Array, group: NDArray[np.int64], n_groups: int) -> Array:
    """Return sums of rows by group, (groups, columns)."""
    return np.stack([np.bincount(group, column, n_groups) for column in values.T], axis=1)
