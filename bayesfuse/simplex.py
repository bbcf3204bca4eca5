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
    """PyMC's coordinates of rows: centred log-ratios without the last (SimplexTransform), or the log odds of p."""
    if kind == "probability":
        return rows[..., 0] - rows[..., 1]
    return rows[..., :-1] - rows.mean(axis=-1, keepdims=True)


def from_unconstrained(value: Array, kind: Kind) -> Array:
    """Invert :func:`to_unconstrained`, returning log rows."""
    if kind == "probability":
        rows = np.stack([value, np.zeros_like(value)], axis=-1)
    else:
        rows = np.concatenate([value, -value.sum(axis=-1, keepdims=True)], axis=-1)
    return normalise(rows)


def normalise(rows: Array) -> Array:
    """Subtract from log rows the logarithm of their sum."""
    top = rows.max(axis=-1, keepdims=True)
    shifted = rows - top
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


@njit(cache=True, nogil=True)
def _draw(concentration, rng):
    n_rows, n_columns = concentration.shape
    rows = np.empty((n_rows, n_columns))
    for i in range(n_rows):
        top = -np.inf
        for j in range(n_columns):
            shape = concentration[i, j]
            if shape >= 1.0:
                rows[i, j] = math.log(rng.standard_gamma(shape))
            else:  # a gamma of small shape underflows, its logarithm does not
                boosted = math.log(rng.standard_gamma(shape + 1.0))
                rows[i, j] = boosted - rng.standard_exponential() / shape
            top = max(top, rows[i, j])
        total = 0.0
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
    flat = np.ascontiguousarray(concentration, dtype=np.float64).reshape(-1, concentration.shape[-1])
    return _draw(flat, rng).reshape(concentration.shape)
