"""The compiled function of whole chains, put together from those of two factors.

Some sweeps begin with a rotation of the prevalence and the matrices with rows by truth. For
independent items of unknown class, sweeps also propose to swap two classes, so chains visit every
mode with its posterior probability.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from bayesfuse.numerics.batches import add_to_batches
from bayesfuse.numerics.kernels import TINY, compiled, fill, inner
from bayesfuse.numerics.rotation import rotate
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.tables import draw_pooled

ROTATION_SHARE = 0.25  # share of sweeps that begin with a rotation, which is expensive
MIN_LOG_RATIO = -16.0  # of a swap: others would be accepted once in 10⁷ sweeps

# indices of the state of the moves: whether to rotate, rotations tried and accepted, the smallest
# angle, whether to swap classes, and swaps tried
ROTATES, TRIED, ACCEPTED, MIN_ANGLE, SWAPS_CLASSES, N_SWAPS = range(6)


@cache
def chain_of(
    draw: Any,
    count: Any,
    likelihood: Any,
    count_responses: Any,
    marginal: Any,
    *,
    pooled: bool,
    rotates: bool,
) -> Any:
    """Return the compiled chain of two factors, perhaps with a pool of raters, and rotations.

    The chain adds up label probabilities if there is a kernel for ``marginal`` ones.
    """
    kernels = filter(None, (draw, count, likelihood, count_responses, marginal))
    variant = "-".join([f"{kernel.__module__}.{kernel.__name__}" for kernel in kernels])
    # numba leaves out the branches of flags that are false
    swaps, adds = rotates and not pooled, marginal is not None
    move_prevalence = _rotation_with(likelihood)
    add_labels = _label_sums_with(marginal)

    @compiled(f"{variant}-{pooled:d}{rotates:d}", nogil=True, no_cfunc_wrapper=True)
    def chain(n_draws, n_sweeps, first, labels, raters, pool, drawn, table, moves, sums, rng):
        """Make draws, write them from ``first`` on unless negative, return how many are possible.

        ``labels`` and ``raters``: rows, prior, counts (rows, columns), rows and counts as views by
        parameter (tables, uses), structure, draws. ``sums``: of label probabilities, and log
        evidence (draws, units), of all draws but the last, to which the next sweep adds them.
        """
        label_rows, label_prior, label_counts, label_tables, label_uses, place, label_draws = labels
        rater_rows, rater_prior, rater_counts, rater_tables, rater_uses, cells, rater_draws = raters
        shares, rows = (label_prior, label_tables), (rater_prior, rater_tables, cells)
        n_classes = table[1]
        for made in range(n_draws):
            at = first + made if first >= 0 else -1
            for sweep in range(n_sweeps):
                weight, log_scale = likelihood(rater_tables, cells, n_classes)
                if adds:
                    if sweep == 0 and at > 0:
                        add_labels(label_tables, weight, log_scale, place, sums, at - 1)
                if swaps:
                    if moves[SWAPS_CLASSES] > 0.0:
                        pair = int(moves[N_SWAPS])
                        moves[N_SWAPS] += 1.0
                        if swap_classes(shares, rows, pair, rng):
                            weight, log_scale = likelihood(rater_tables, cells, n_classes)
                if rotates:
                    if moves[ROTATES] > 0.0 and rng.random() < ROTATION_SHARE:
                        weight = move_prevalence(shares, rows, table, weight, log_scale, moves, rng)
                if not draw(label_tables, weight, drawn, rng, place):
                    return made
                count(label_tables, drawn, label_uses, place, n_classes)
                count_responses(rater_tables, drawn, rater_uses, cells, n_classes)
                if pooled:
                    draw_pooled(pool, rater_counts, rater_prior, at, rng)
                draw_rows(label_prior, label_counts, label_rows, rng)
                draw_rows(rater_prior, rater_counts, rater_rows, rng)
            if at >= 0:
                fill(label_draws[at], label_rows)
                fill(rater_draws[at], rater_rows)
        return n_draws

    return chain


def _rotation_with(likelihood: Any) -> Any:
    """Return the compiled rotation of the prevalence, whose ratio needs the likelihood."""

    @njit(nogil=True)  # cached with the chain
    def rotate_prevalence(labels, raters, table, weight, log_scale, moves, rng):
        """Propose a rotation; return the likelihood after it, or as it was."""
        (shares_prior, shares), (rows_prior, rows, structure) = labels, raters
        multiplicity, n_classes = table
        new_shares, new_rows = shares[0].copy(), rows[0].copy()
        moves[TRIED] += 1.0
        log_ratio = rotate(new_shares[0], (new_rows,), moves[MIN_ANGLE], rng)
        if log_ratio == -math.inf:
            return weight
        log_ratio += _log_prior_ratio(shares_prior, shares[0], new_shares)
        log_ratio += _log_prior_ratio(rows_prior, rows[0], new_rows)
        log_ratio -= log_evidence(shares[0], weight, log_scale, multiplicity)
        new_weight, new_scale = likelihood((new_rows,), structure, n_classes)
        log_ratio += log_evidence(new_shares, new_weight, new_scale, multiplicity)
        if not math.log(1.0 - rng.random()) < log_ratio:
            return weight
        moves[ACCEPTED] += 1.0
        fill(shares[0], new_shares)
        fill(rows[0], new_rows)
        return new_weight

    return rotate_prevalence


def _label_sums_with(marginal: Any) -> Any:
    """Return the compiled function that adds up label probabilities by a marginal kernel."""

    @njit(nogil=True)
    def add_labels(tables, weight, log_scale, structure, sums, at):
        """Add label probabilities at the parameters of the draw ``at``, and its log evidence."""
        result = marginal(*tables, weight, log_scale, *structure)
        total, batch, mean, squares, counts, log_evidence = sums
        add_to_batches(result[2].ravel(), total, batch, mean, squares, counts)
        if len(log_evidence) > 0:
            fill(log_evidence[at], result[1])

    return add_labels


@inner
def swap_classes(labels, raters, number, rng):
    """Swap the classes of a pair, in place, if accepted; return whether they were.

    Shares (1, classes) and matrices (raters, classes, labels) are the first of their tables, and
    priors are concentrations, (1, classes) and (raters times classes, labels).
    """
    (shares_prior, shares), (rows_prior, rows, _) = labels, raters
    log_shares, log_rows = shares[0], rows[0]
    n_raters, n_classes, n_labels = log_rows.shape
    number, i = number % (n_classes * (n_classes - 1) // 2), 0
    while number >= n_classes - 1 - i:
        number -= n_classes - 1 - i
        i += 1
    j = i + 1 + number
    log_ratio = (shares_prior[0, i] - shares_prior[0, j]) * (log_shares[0, j] - log_shares[0, i])
    for m in range(n_raters):
        for c in range(n_labels):
            more = rows_prior[m * n_classes + i, c] - rows_prior[m * n_classes + j, c]
            log_ratio += more * (log_rows[m, j, c] - log_rows[m, i, c])
    # no random number where none can matter; a row with a zero has no ratio
    if not log_ratio > MIN_LOG_RATIO or not math.log(1.0 - rng.random()) < log_ratio:
        return False
    log_shares[0, i], log_shares[0, j] = log_shares[0, j], log_shares[0, i]
    for m in range(n_raters):
        for c in range(n_labels):
            log_rows[m, i, c], log_rows[m, j, c] = log_rows[m, j, c], log_rows[m, i, c]
    return True


@inner
def _log_prior_ratio(prior, log_rows, new_log_rows):
    """Return the log ratio of Dirichlet densities of rows, (…, columns), in the order of priors."""
    concentration, before, after = prior.reshape(-1), log_rows.reshape(-1), new_log_rows.reshape(-1)
    log_ratio = 0.0
    for i in range(concentration.size):
        log_ratio += (concentration[i] - 1.0) * (after[i] - before[i])
    return log_ratio


@inner
def log_evidence(log_shares, likelihood, log_scale, multiplicity):
    """Return the log evidence of independent items with these shares, (1, classes)."""
    shares, total, product = np.empty(log_shares.shape[1]), 0.0, 1.0
    for k in range(shares.size):
        shares[k] = math.exp(log_shares[0, k])
    for n in range(len(likelihood)):
        evidence, scale = 0.0, log_scale[n]
        for k in range(shares.size):
            evidence += shares[k] * likelihood[n, k]
        if evidence < TINY:
            top = -np.inf
            for k in range(shares.size):
                if likelihood[n, k] > 0.0:
                    top = max(top, log_shares[0, k] + math.log(likelihood[n, k]))
            if top == -np.inf:
                if multiplicity[n] > 0:
                    return -np.inf
                continue
            evidence, scale = 0.0, scale + top
            for k in range(shares.size):
                if likelihood[n, k] > 0.0:
                    evidence += math.exp(log_shares[0, k] + math.log(likelihood[n, k]) - top)
        if multiplicity[n] == 1 and scale == 0.0:
            product *= evidence
            if not 1e-15 < product < 1e15:  # one logarithm for many items
                total += math.log(product)
                product = 1.0
        else:
            total += multiplicity[n] * (math.log(evidence) + scale)
    return total + math.log(product)
