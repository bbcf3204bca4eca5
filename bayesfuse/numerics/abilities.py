r"""Logits of how often raters are right on every class, partially pooled over raters.

.. math:: \theta_{rk} = \mu_k + u_r + v_{rk}, \quad
          u_r \sim \mathrm N(0, \sigma^2), \quad v_{rk} \sim \mathrm N(0, \tau^2)

so raters who are good on one class are expected to be good on others. Numbers of right responses
are binomial, and need not be whole.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from bayesfuse.numerics.kernels import Array, inner, kernel
from bayesfuse.numerics.slice_sampling import slice_from

WIDTH = 1.0  # of slices of logits, near the posterior standard deviation after few responses

# Priors in view of twelve public crowds: mean logits of accuracies were −.4 to 1.8, the median .86,
# and standard deviations between raters 0 to 1.3, the median .57, exp(−.56)
CENTRE, SCALE = 0.8, 1.5  # normal prior of the means
# normal priors of log σ and log τ: 90 % are within a factor of 3.2, and classes differ by less
LOG_SPREAD, LOG_SCALE = (-0.5, -1.0), 0.7


class Logits(NamedTuple):
    """Logits of abilities in parts, which a sweep changes in place."""

    mean: Array  # (columns,)
    level: Array  # (raters,)
    deviation: Array  # (raters, columns)
    log_spread: Array  # (2,), of levels and deviations

    @classmethod
    def begin(cls, n_raters: int, n_columns: int) -> Logits:
        """Return logits to begin with."""
        shape = n_raters, n_columns
        mean, spread = np.full(n_columns, CENTRE), np.array(LOG_SPREAD)
        return cls(mean, np.zeros(n_raters), np.zeros(shape), spread)

    def total(self) -> Array:
        """Return the logits (raters, columns)."""
        return self.mean + self.level[:, None] + self.deviation


def sweep(logits: Logits, right: Array, total: Array, rng: np.random.Generator) -> None:
    """Draw all parts once given numbers of right and of all responses (raters, columns)."""
    _sweep(*logits, np.ascontiguousarray(right), np.ascontiguousarray(total), rng)


@inner
def _row_density(level, arguments):
    """Return the log density of a rater's level, the deviations fixed."""
    base, right, total, precision = arguments
    log_density = -0.5 * precision * level * level
    for k in range(base.size):
        if total[k] > 0.0:
            log_density += _log_likelihood(base[k] + level, right[k], total[k])
    return log_density


@inner
def _column_density(mean, arguments):
    """Return the log density of the mean of a column, levels and deviations fixed."""
    base, right, total, k = arguments
    z = (mean - CENTRE) / SCALE
    log_density = -0.5 * z * z
    for r in range(base.shape[0]):
        if total[r, k] > 0.0:
            log_density += _log_likelihood(base[r, k] + mean, right[r, k], total[r, k])
    return log_density


@inner
def _log_likelihood(logit, right, total):
    if logit > 0.0:
        return (right - total) * logit - total * math.log1p(math.exp(-logit))
    return right * logit - total * math.log1p(math.exp(logit))


@inner
def _spread_density(log_spread, arguments):
    """Return the log density of a log standard deviation given a sum of squares."""
    squares, number, centre = arguments
    z = (log_spread - centre) / LOG_SCALE
    return -number * log_spread - 0.5 * squares * math.exp(-2.0 * log_spread) - 0.5 * z * z


@kernel
def _sweep(mean, level, deviation, log_spread, right, total, rng):
    n_raters, n_columns = deviation.shape
    precision = math.exp(-2.0 * log_spread[0]), math.exp(-2.0 * log_spread[1])
    base = np.empty((n_raters, n_columns))
    one = np.empty(1)
    for r in range(n_raters):
        for k in range(n_columns):
            base[r, k] = mean[k] + deviation[r, k]
        arguments = base[r], right[r], total[r], precision[0]
        floor = _row_density(level[r], arguments) - rng.exponential(1.0)
        accepted = slice_from(_row_density, arguments, level[r], floor, WIDTH, rng)
        if not math.isnan(accepted):
            level[r] = accepted
        for k in range(n_columns if n_columns > 1 else 0):  # of one column, levels are all
            if total[r, k] <= 0.0:
                deviation[r, k] = rng.standard_normal() * math.exp(log_spread[1])
                continue
            one[0] = mean[k] + level[r]
            cell = one, right[r, k : k + 1], total[r, k : k + 1], precision[1]
            floor = _row_density(deviation[r, k], cell) - rng.exponential(1.0)
            accepted = slice_from(_row_density, cell, deviation[r, k], floor, WIDTH, rng)
            if not math.isnan(accepted):
                deviation[r, k] = accepted
    for k in range(n_columns):
        for r in range(n_raters):
            base[r, k] = level[r] + deviation[r, k]
        column = base, right, total, k
        floor = _column_density(mean[k], column) - rng.exponential(1.0)
        accepted = slice_from(_column_density, column, mean[k], floor, WIDTH, rng)
        if not math.isnan(accepted):
            mean[k] = accepted
    _move_centred(mean, level, deviation, precision, rng)
    for part in range(2 if n_columns > 1 else 1):
        squares = (level * level).sum() if part == 0 else (deviation * deviation).sum()
        number = n_raters if part == 0 else n_raters * n_columns
        spread_arguments = squares, number, LOG_SPREAD[part]
        floor = _spread_density(log_spread[part], spread_arguments) - rng.exponential(1.0)
        accepted = slice_from(
            _spread_density, spread_arguments, log_spread[part], floor, WIDTH, rng
        )
        if not math.isnan(accepted):
            log_spread[part] = accepted


@inner
def _move_centred(mean, level, deviation, precision, rng):
    """Draw means with the logits fixed, then levels: what the parts share moves freely."""
    n_raters, n_columns = deviation.shape
    single = n_columns == 1
    weight = precision[0] if single else precision[1]
    for k in range(n_columns):
        total = 0.0
        for r in range(n_raters):
            total += level[r] if single else deviation[r, k]
        posterior = n_raters * weight + SCALE**-2
        centre = (weight * (total + n_raters * mean[k]) + CENTRE * SCALE**-2) / posterior
        shift = centre + rng.standard_normal() / math.sqrt(posterior) - mean[k]
        mean[k] += shift
        for r in range(n_raters):
            if single:
                level[r] -= shift
            else:
                deviation[r, k] -= shift
    if single:
        return
    for r in range(n_raters):
        total = deviation[r].sum() + n_columns * level[r]
        posterior = n_columns * precision[1] + precision[0]
        drawn = precision[1] * total / posterior + rng.standard_normal() / math.sqrt(posterior)
        for k in range(n_columns):
            deviation[r, k] -= drawn - level[r]
        level[r] = drawn
