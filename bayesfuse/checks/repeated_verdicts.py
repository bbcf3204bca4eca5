"""Whether repeated responses of raters to an item err independently, by a model of verdicts."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy
from numpy.typing import NDArray

from bayesfuse.data import fingerprint
from bayesfuse.data.responses import Responses
from bayesfuse.data.silence import first_rows
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
    return table.with_rows(table.item[rows], rater[rows], table.label[rows])


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
    """Return log odds that repeats are independent given the class, (raters,).

    Whether repeats share a verdict or not, a single response has the same probability, so that
    raters with few repeats are not judged by the others.
    """
    others = _fit(table, raters, ITERATIONS).others
    pair, first, size = pairs_of(table)
    pairs = np.flatnonzero(np.isin(table.rater[first], raters))
    others, copies = others[pairs], table.multiplicity[table.item[first[pairs]]].astype(float)
    rows = np.flatnonzero(np.isin(pair, pairs))
    place, label = np.searchsorted(pairs, pair[rows]), table.label[rows]
    of_pair = np.searchsorted(raters, table.rater[first[pairs]])
    of_rater, n_classes = of_pair[place], table.n_classes
    log_likelihood = np.empty((1 + len(ALIKE), len(raters)))
    classes: Array = np.exp(others)
    for number, share in enumerate((0.0, *ALIKE)):
        effective = 1.0 / (1.0 + (size[pairs] - 1.0) * share**2)
        for _ in range(MORE_ITERATIONS if number else ITERATIONS):
            weight = (classes * (copies * effective)[:, None])[place]
            counts = _sums(weight, of_rater * n_classes + label, len(raters) * n_classes)
            counts = counts.reshape(-1, n_classes, n_classes).swapaxes(1, 2) + diagonal(n_classes)
            probability = counts / counts.sum(axis=2, keepdims=True)
            by_verdict = (1.0 - share) * probability + share * np.eye(n_classes)
            verdict = np.maximum(probability @ np.linalg.pinv(by_verdict), 0.0)
            verdict /= verdict.sum(axis=2, keepdims=True)
            log_mass = _sums(np.log(by_verdict)[of_rater, :, label], place, len(pairs))
            top = log_mass.max(axis=1, keepdims=True)
            mass = np.exp(log_mass - top)
            by_class = np.zeros_like(mass)
            for column in range(n_classes):
                by_class += verdict[of_pair, :, column] * mass[:, [column]]
            classes = others + np.log(np.maximum(by_class, np.finfo(float).tiny)) + top
            evidence = np.logaddexp.reduce(classes, axis=1)
            classes = np.exp(classes - evidence[:, None])
        log_likelihood[number] = np.bincount(of_pair, copies * evidence, len(raters))
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
