"""Rows (last axis) of probabilities and their logarithms, which do not underflow."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, inner, kernel


def normalise(rows: Array) -> Array:
    """Normalise log rows."""
    flat = np.array(rows, dtype=np.float64, order="C").reshape(-1, rows.shape[-1])
    return _normalise(flat).reshape(rows.shape)


@inner
def normalise_row(rows, i):
    """Normalise log row i in place."""
    top, total = -np.inf, 0.0
    for j in range(rows.shape[1]):
        top = max(top, rows[i, j])
    for j in range(rows.shape[1]):
        total += math.exp(rows[i, j] - top)
    total = math.log(total)
    for j in range(rows.shape[1]):  # the largest first: logs of 10¹² have few digits left
        rows[i, j] = (rows[i, j] - top) - total


@kernel
def _normalise(rows):
    """Normalise log rows in place."""
    for i in range(len(rows)):
        normalise_row(rows, i)
    return rows


def shares(counts: Array, otherwise: Any = 0.0) -> Array:
    """Divide rows of counts by their sums; rows without counts are ``otherwise``."""
    total = counts.sum(axis=-1, keepdims=True)
    rows = np.full(counts.shape, otherwise, dtype=float)
    return np.divide(counts, total, out=rows, where=total > 0)


def draw_columns(up_to: Array, rng: np.random.Generator) -> NDArray[np.int64]:
    """Draw a column for each of several rows of cumulative weights, (rows,)."""
    left = rng.random(len(up_to)) * up_to[:, -1]
    return (left[:, None] >= up_to[:, :-1]).sum(axis=1)


def draw_dirichlet(concentration: Array, rng: np.random.Generator) -> Array:
    """Draw log rows with these concentrations (…, columns), −inf for structural zeros."""
    # gamma draws by NumPy, because numba's take a second to compile
    alpha = np.ascontiguousarray(concentration, dtype=np.float64).ravel()
    least = alpha.min(initial=np.inf)  # there may be no row
    if least >= 1.0:
        rows = np.log(rng.standard_gamma(alpha))
    else:  # gamma draws of small shape underflow, their logarithms do not
        small = (alpha < 1.0).nonzero()[0]
        few, shape = alpha[small], alpha.copy()
        shape[small] += 1.0
        rows = np.log(rng.standard_gamma(shape))
        boost = rng.standard_exponential(len(small))
        if least > 0.0:
            rows[small] -= boost / few
        else:  # concentration zero: a structural zero
            rows[small] -= np.divide(boost, few, np.full(len(small), np.inf), where=few > 0.0)
    return _normalise(rows.reshape(-1, concentration.shape[-1])).reshape(concentration.shape)


@inner
def draw_gamma(shape, rng):
    """Draw from a gamma distribution of shape one or more (Marsaglia & Tsang 2000)."""
    d = shape - 1.0 / 3.0
    c = 1.0 / math.sqrt(9.0 * d)
    while True:
        x = rng.standard_normal()
        v = 1.0 + c * x
        if v <= 0.0:
            continue
        v = v * v * v
        u = 1.0 - rng.random()
        if u < 1.0 - 0.0331 * x * x * x * x or math.log(u) < 0.5 * x * x + d * (
            1 - v + math.log(v)
        ):
            return d * v


@inner
def draw_rows(prior, counts, log_rows, rng):
    """Draw rows from Dirichlet(prior + counts) as logarithms: small gammas underflow."""
    n_rows, n_columns = prior.shape
    for i in range(n_rows):
        least, total = np.inf, 0.0
        for j in range(n_columns):
            least = min(least, prior[i, j] + counts[i, j])
        if least >= 1.0:
            for j in range(n_columns):
                log_rows[i, j] = draw_gamma(prior[i, j] + counts[i, j], rng)
                total += log_rows[i, j]
            total = math.log(total)
            for j in range(n_columns):
                log_rows[i, j] = math.log(log_rows[i, j]) - total
            continue
        for j in range(n_columns):
            shape = prior[i, j] + counts[i, j]
            if shape <= 0.0:
                log_rows[i, j] = -np.inf
            elif shape < 1.0:
                boost = math.log(1.0 - rng.random()) / shape
                log_rows[i, j] = math.log(draw_gamma(shape + 1.0, rng)) + boost
            else:
                log_rows[i, j] = math.log(draw_gamma(shape, rng))
        normalise_row(log_rows, i)


@inner
def split(number, weight, total, rng, parts):
    """Draw multinomial counts; how many random numbers this takes is not subject to rounding."""
    last = weight.size - 1
    while last > 0 and weight[last] == 0.0:
        parts[last] = 0.0
        last -= 1
    left, remaining = np.int64(number), total
    for v in range(last):
        part = np.int64(0)
        if left > 0 and weight[v] > 0.0:
            share = weight[v] / max(remaining, weight[v])
            part = np.int64(rng.random() < share) if left == 1 else rng.binomial(left, share)
        parts[v] = part
        left -= part
        remaining -= weight[v]
    parts[last] = left


@inner
def share_out(number, weight, total, rng, parts):
    """Divide a number in proportion to weights: expected or, with an ``rng``, multinomial."""
    if rng is None:
        for v in range(weight.size):
            parts[v] = number * weight[v] / total if total > 0.0 else 0.0
    else:
        split(number, weight, total, rng, parts)


@inner
def pick(weight, left):
    """Return the class by inversion of ``left``, between zero and the sum of the weights."""
    label = -1
    for k in range(weight.size):
        if weight[k] > 0.0:  # never an impossible class, whatever the rounding
            label = k
            if left < weight[k]:
                break
            left -= weight[k]
    return label
