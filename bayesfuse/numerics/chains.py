"""The compiled function of whole chains, put together from those of two factors.

Some sweeps begin with a turn of the prevalence and the matrices that start at the truth: see
:func:`bayesfuse.inference.gibbs.turn`. Of independent items of unknown class, sweeps begin with a
swap of two classes, so chains visit every mode by its share of the posterior.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

import numpy as np
from numba import njit

from bayesfuse.numerics.kernels import TINY, compiled, fill, inner, kernel
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.tables import draw_pooled

TURNS = 0.25  # share of sweeps that begin with a turn, which is expensive
WIDEST = 0.5  # radians of the widest turns, of square roots: from even odds to 8 to 92
LEAST_LOG_RATIO = -16.0  # of a swap: others would be accepted once in 10⁷ sweeps

# places in what a chain knows of its moves: whether to turn, how many turns were tried and
# accepted, the least angle; whether to swap classes, and how many swaps were tried
TURN, TRIED, ACCEPTED, ANGLE, SWAP, SWAPS = range(6)


@inner
def no_pool(pool, counts, prior, at, rng):
    """Leave priors as they are."""


@cache
def chain_of(
    draw: Any, count: Any, likelihood: Any, count_responses: Any, pooled: bool, turns: bool
) -> Any:
    """Return the compiled chain of two factors, with a pool above the raters' rows, and turns."""
    draw_pool = draw_pooled if pooled else no_pool
    functions = (draw, count, likelihood, count_responses)
    variant = "-".join([f"{kernel.__module__}.{kernel.__name__}" for kernel in functions])
    cached = compiled(f"{variant}-{pooled:d}{turns:d}", nogil=True, no_cfunc_wrapper=True)
    part = njit(nogil=True)  # of that function, with which it is cached

    def turn(labels, raters, table, weight, log_scale, turned, rng):
        """Propose a turn; return the likelihood after it, or as it was."""
        (shares_prior, shares), (rows_prior, rows, structure) = labels, raters
        multiplicity, n_classes = table
        before = log_evidence(shares[0], weight, log_scale, multiplicity)
        new_shares, new_rows = shares[0].copy(), rows[0].copy()
        turned[TRIED] += 1.0
        log_ratio = turn_rows(new_shares, new_rows, shares_prior, rows_prior, turned[ANGLE], rng)
        if log_ratio == -math.inf:
            return weight
        new, new_scale = likelihood((new_rows,), structure, n_classes)
        log_ratio += log_evidence(new_shares, new, new_scale, multiplicity) - before
        if not math.log(1.0 - rng.random()) < log_ratio:
            return weight
        turned[ACCEPTED] += 1.0
        fill(shares[0], new_shares)
        fill(rows[0], new_rows)
        return new

    def stay(labels, raters, table, weight, log_scale, turned, rng):
        return weight

    def swap(labels, raters, turned, rng):
        """Swap two classes if this is accepted, the pairs one after the other."""
        if turned[SWAP] > 0.0:
            swap_classes(*labels, *raters, int(turned[SWAPS]), rng)
            turned[SWAPS] += 1.0

    def keep(labels, raters, turned, rng):
        pass

    move, exchange = part(turn if turns else stay), part(swap if turns and not pooled else keep)

    @cached
    def chain(n_draws, n_sweeps, first, labels, raters, pool, drawn, table, turned, rng):
        """Make draws, write them from ``first`` on unless negative, return how many are possible.

        ``labels`` and ``raters`` are rows, prior and counts (rows, columns), views of rows and
        counts by parameter, structure, and draws.
        """
        (
            label_rows,
            label_prior,
            label_counts,
            label_tables,
            label_counted,
            places,
            stored_labels,
        ) = labels
        rater_rows, rater_prior, rater_counts, rater_tables, rater_counted, cells, stored_rows = (
            raters
        )
        n_classes = table[1]
        for made in range(n_draws):
            at = first + made if first >= 0 else -1
            for _ in range(n_sweeps):
                exchange((label_prior, label_tables), (rater_prior, rater_tables), turned, rng)
                weight, log_scale = likelihood(rater_tables, cells, n_classes)
                if turned[TURN] > 0.0 and rng.random() < TURNS:
                    shares, rows = (label_prior, label_tables), (rater_prior, rater_tables, cells)
                    weight = move(shares, rows, table, weight, log_scale, turned, rng)
                if not draw(label_tables, weight, drawn, rng, places):
                    return made
                count(label_tables, drawn, label_counted, places, n_classes)
                count_responses(rater_tables, drawn, rater_counted, cells, n_classes)
                draw_pool(pool, rater_counts, rater_prior, at, rng)
                draw_rows(label_prior, label_counts, label_rows, rng)
                draw_rows(rater_prior, rater_counts, rater_rows, rng)
            if at >= 0:
                fill(stored_labels[at], label_rows)
                fill(stored_rows[at], rater_rows)
        return n_draws

    return chain


@inner
def swap_classes(shares_prior, shares, rows_prior, rows, number, rng):
    """Swap the classes of a pair, in place, if accepted: the likelihood is the same after it.

    Shares (1, classes) and matrices (raters, classes, labels) are the first of their tables, and
    priors are concentrations, (1, classes) and (raters times classes, labels).
    """
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
    if not log_ratio > LEAST_LOG_RATIO or not math.log(1.0 - rng.random()) < log_ratio:
        return
    log_shares[0, i], log_shares[0, j] = log_shares[0, j], log_shares[0, i]
    for m in range(n_raters):
        for c in range(n_labels):
            log_rows[m, i, c], log_rows[m, j, c] = log_rows[m, j, c], log_rows[m, i, c]


@kernel
def mixing_of(log_shares, angle, aside, turned):
    """Turn shares by an angle towards ``aside`` (classes,), which is overwritten, into ``turned``.

    Returns the matrix that mixes the rows of the classes, and whether shares are positive.
    """
    n_classes = log_shares.size
    s, mixing = np.empty(n_classes), np.empty((n_classes, n_classes))
    inside, length = 0.0, 0.0
    for k in range(n_classes):
        s[k] = math.exp(log_shares[k] / 2)
        inside += s[k] * aside[k]
    for k in range(n_classes):
        aside[k] -= s[k] * inside
        length += aside[k] * aside[k]
    length = math.sqrt(length)
    near = 0.0
    for k in range(n_classes):
        aside[k] = math.cos(angle) * s[k] + math.sin(angle) * aside[k] / length
        if not aside[k] > 0.0:
            return mixing, False
        near += s[k] * aside[k]
        turned[k] = 2.0 * math.log(aside[k])
    for k in range(n_classes):
        for j in range(n_classes):
            rotation = 2.0 * aside[k] * s[j] - (s[k] + aside[k]) * (s[j] + aside[j]) / (1.0 + near)
            if k == j:
                rotation += 1.0
            mixing[k, j] = rotation * s[j] / aside[k]
    return mixing, True


@inner
def turn_rows(log_shares, log_rows, shares_prior, rows_prior, least, rng):
    """Turn shares (1, classes) and matrices (raters, classes, labels) in place, by a random angle.

    Returns the log ratio of the proposal's and the prior's densities, -inf where a row would leave
    the simplex. Priors are concentrations, (1, classes) and (raters times classes, labels).
    """
    n_raters, n_classes, n_labels = log_rows.shape
    angle = WIDEST * (least / WIDEST) ** rng.random()
    aside, turned = np.empty(n_classes), np.empty(n_classes)
    for k in range(n_classes):
        aside[k] = rng.standard_normal()
        if log_shares[0, k] == -np.inf:
            return -np.inf
    mixing, possible = mixing_of(log_shares[0], angle, aside, turned)
    if not possible:
        return -np.inf
    log_ratio, moved, mixed = 0.0, 0.0, np.empty((n_classes, n_labels))
    for k in range(n_classes):
        moved += turned[k] - log_shares[0, k]
        log_ratio += (shares_prior[0, k] - 1.0) * (turned[k] - log_shares[0, k])
        log_shares[0, k] = turned[k]
    # uniform on the sphere is a Dirichlet of halves; a column of a matrix scales by det(mixing)
    log_ratio += 0.5 * (1.0 - n_raters * (n_labels - 1.0)) * moved
    for m in range(n_raters):
        for j in range(n_classes):
            for c in range(n_labels):
                if log_rows[m, j, c] == -np.inf:
                    return -np.inf
                row = math.exp(log_rows[m, j, c])
                for k in range(n_classes):
                    before = mixed[k, c] if j > 0 else 0.0
                    mixed[k, c] = before + mixing[k, j] * row
        for k in range(n_classes):
            for c in range(n_labels):
                if not mixed[k, c] > 0.0:
                    return -np.inf
                new = math.log(mixed[k, c])
                prior = rows_prior[m * n_classes + k, c]
                log_ratio += (prior - 1.0) * (new - log_rows[m, k, c])
                log_rows[m, k, c] = new
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
