"""Rows of probabilities in log space: Dirichlet draws and PyMC's unconstrained coordinates.

Everything here works on arrays whose last axis is a row. Logarithms stay exact where the
probabilities themselves would underflow to zero, which small concentrations make common.
"""

from __future__ import annotations

import math
from typing import Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray

Array = NDArray[np.float64]

Kind = Literal["simplex", "probability"]
"""What a parameter holds: whole rows, or numbers p that stand for rows (p, 1 − p)."""


def log_rows(value: Any, kind: Kind, xp: Any = np) -> Any:
    """Logarithm of the rows that a parameter holds; ``xp`` is numpy or pytensor.tensor."""
    if kind == "probability":
        return xp.stack([xp.log(value), xp.log1p(-value)], axis=-1)
    return xp.log(value)


def from_log_rows(rows: Array, kind: Kind) -> Array:
    """Invert :func:`log_rows`."""
    return np.exp(rows[..., 0] if kind == "probability" else rows)


def to_unconstrained(rows: Array, kind: Kind) -> Array:
    """Return PyMC's coordinates of log rows.

    Those are the centred logarithms without the last (SimplexTransform), or the log odds of p.
    """
    if kind == "probability":
        return rows[..., 0] - rows[..., 1]
    centred: Array = _centre(_flat(rows)).reshape(*rows.shape[:-1], -1)
    return centred


def from_unconstrained(value: Array, kind: Kind) -> Array:
    """Invert :func:`to_unconstrained`, returning log rows."""
    if kind == "probability":  # log p = −log(1 + exp(−value))
        return -np.logaddexp(0.0, np.stack([-value, value], axis=-1))
    rows: Array = _uncentre(_flat(value)).reshape(*value.shape[:-1], -1)
    return rows


TINY = 1e-290
"""A product of probabilities below this may have lost digits to underflow."""


@njit(cache=True, nogil=True)
def rescale(rows, n):
    """Turn the logarithms of row n, in place, into numbers relative to the largest; return it.

    What is possible stays above zero.
    """
    n_columns = rows.shape[1]
    top = -np.inf
    for k in range(n_columns):
        top = max(top, rows[n, k])
    for k in range(n_columns):
        # where nothing is possible, −inf − (−inf) would not be a number
        rows[n, k] = max(math.exp(rows[n, k] - top), TINY) if rows[n, k] > -np.inf else 0.0
    return top if top > -np.inf else 0.0


def _flat(rows: Array) -> Array:
    return np.ascontiguousarray(rows, dtype=np.float64).reshape(-1, rows.shape[-1])


@njit(cache=True, nogil=True)
def _centre(rows):
    n_rows, n_columns = rows.shape
    value = np.empty((n_rows, n_columns - 1))
    for i in range(n_rows):
        mean = 0.0
        for j in range(n_columns):
            mean += rows[i, j] / n_columns
        for j in range(n_columns - 1):
            value[i, j] = rows[i, j] - mean
    return value


@njit(cache=True, nogil=True)
def _uncentre(value):
    n_rows, n_columns = value.shape[0], value.shape[1] + 1
    rows = np.empty((n_rows, n_columns))
    for i in range(n_rows):
        rows[i, n_columns - 1] = 0.0
        for j in range(n_columns - 1):
            rows[i, j] = value[i, j]
            rows[i, n_columns - 1] -= value[i, j]
    return _normalise(rows)


def normalise(rows: Array) -> Array:
    """Subtract from log rows the logarithm of their sum."""
    normalised: Array = _normalise(_flat(rows).copy()).reshape(rows.shape)
    return normalised


@njit(cache=True, nogil=True)
def _normalise(rows):
    """Subtract from log rows, in place, the logarithm of their sum."""
    n_rows, n_columns = rows.shape
    for i in range(n_rows):
        top, total = -np.inf, 0.0
        for j in range(n_columns):
            top = max(top, rows[i, j])
        for j in range(n_columns):
            total += math.exp(rows[i, j] - top)
        total = top + math.log(total)
        for j in range(n_columns):
            rows[i, j] -= total
    return rows


def draw_dirichlet(concentration: Array, rng: np.random.Generator) -> Array:
    """Draw log rows from Dirichlet distributions, one per row of concentrations.

    Examples
    --------
    >>> import numpy as np
    >>> rows = draw_dirichlet(np.full((5, 3), 0.001), np.random.default_rng(1))
    >>> bool(np.isfinite(rows).all()), np.exp(rows).sum(axis=1).round(12).tolist()
    (True, [1.0, 1.0, 1.0, 1.0, 1.0])
    """
    # NumPy's gammas: numba's take a second to compile, which is much of a first posterior
    flat = _flat(concentration)
    if flat.min() >= 1.0:
        rows = np.log(rng.standard_gamma(flat))
    else:  # a gamma of small shape underflows, its logarithm does not
        small = flat < 1.0
        rows = np.log(rng.standard_gamma(flat + small))
        with np.errstate(divide="ignore"):  # concentration zero: an entry that is always zero
            rows[small] -= rng.standard_exponential(int(small.sum())) / flat[small]
    drawn: Array = _normalise(rows).reshape(concentration.shape)
    return drawn
