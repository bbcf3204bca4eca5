"""The compiled function of whole chains, put together from those of two factors."""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from numba import njit

from bayesfuse.numerics.kernels import compiled, fill, inner
from bayesfuse.numerics.rows import draw_rows
from bayesfuse.numerics.tables import draw_pooled
from bayesfuse.numerics.turns import log_evidence, turn_rows

TURNS = 0.25  # share of sweeps that begin with a move of the prevalence, which is expensive


@inner
def no_pool(pool, counts, prior, at, rng):
    """Leave priors as they are."""


@cache
def chain_of(
    draw: Any, count: Any, likelihood: Any, count_responses: Any, pooled: bool, turns: bool
) -> Any:
    """Return the compiled chain of two factors, with a pool above the raters' rows, and turns."""
    draw_pool = draw_pooled if pooled else no_pool
    own = (draw, count, likelihood, count_responses)
    variant = "-".join([f"{each.__module__}.{each.__name__}" for each in own])
    cached = compiled(f"{variant}-{pooled:d}{turns:d}", nogil=True, no_cfunc_wrapper=True)
    part = njit(nogil=True)  # of that function, with which it is cached

    def turn(labels, raters, structure, weight, log_scale, multiplicity, n_classes, turned, rng):
        """Propose a turn; return the likelihood after it, or as it was."""
        (shares_prior, shares), (rows_prior, rows) = labels, raters
        before = log_evidence(shares[0], weight, log_scale, multiplicity)
        new_shares, new_rows = shares[0].copy(), rows[0].copy()
        turned[1] += 1.0
        log_ratio = turn_rows(new_shares, new_rows, shares_prior, rows_prior, turned[3], rng)
        if log_ratio == -math.inf:
            return weight
        new, new_scale = likelihood((new_rows,), structure, n_classes)
        log_ratio += log_evidence(new_shares, new, new_scale, multiplicity) - before
        if not math.log(1.0 - rng.random()) < log_ratio:
            return weight
        turned[2] += 1.0
        fill(shares[0], new_shares)
        fill(rows[0], new_rows)
        return new

    def stay(labels, raters, structure, weight, log_scale, multiplicity, n_classes, turned, rng):
        return weight

    move = part(turn if turns else stay)

    @cached
    def chain(n_draws, n_sweeps, first, labels, raters, pool, drawn, table, turned, rng):
        """Make draws, write them from ``first`` on unless negative, return how many are possible.

        ``labels`` and ``raters`` are rows, prior and counts (rows, columns), views of rows and
        counts by parameter, structure, and draws.
        """
        label_rows, label_prior, label_counts, label_tables, label_counted, places, kept = labels
        rater_rows, rater_prior, rater_counts, rater_tables, rater_counted, cells, kept_rows = (
            raters
        )
        multiplicity, n_classes = table
        for made in range(n_draws):
            at = first + made if first >= 0 else -1
            for _ in range(n_sweeps):
                weight, log_scale = likelihood(rater_tables, cells, n_classes)
                if turned[0] > 0.0 and rng.random() < TURNS:
                    weight = move(
                        (label_prior, label_tables),
                        (rater_prior, rater_tables),
                        cells,
                        weight,
                        log_scale,
                        multiplicity,
                        n_classes,
                        turned,
                        rng,
                    )
                if not draw(label_tables, weight, drawn, rng, places):
                    return made
                count(label_tables, drawn, label_counted, places, n_classes)
                count_responses(rater_tables, drawn, rater_counted, cells, n_classes)
                draw_pool(pool, rater_counts, rater_prior, at, rng)
                draw_rows(label_prior, label_counts, label_rows, rng)
                draw_rows(rater_prior, rater_counts, rater_rows, rng)
            if at >= 0:
                fill(kept[at], label_rows)
                fill(kept_rows[at], rater_rows)
        return n_draws

    return chain
