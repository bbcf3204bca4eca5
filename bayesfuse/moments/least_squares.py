"""Least squares over probability simplices."""

from __future__ import annotations

import math

import numpy as np
from numba import njit


@njit(cache=True, nogil=True)
def project(x):
    """Move a vector to the nearest point of the probability simplex, in place.

    References
    ----------
    Held, Wolfe & Crowder (1974), Mathematical Programming 6, 62–88.
    """
    descending = -np.sort(-x)
    total, shift = 0.0, 0.0
    for i in range(x.size):
        total += descending[i]
        if descending[i] * (i + 1) <= total - 1.0:
            break
        shift = (total - 1.0) / (i + 1)
    for i in range(x.size):
        x[i] = max(x[i] - shift, 0.0)


@njit(cache=True, nogil=True)
def simplex_least_squares(normal, right, x, by_row, iterations, tolerance):
    """Minimise ``<X, normal @ X> − 2 <right, X>`` by accelerated projected gradients.

    Every row of X (p, q) is a simplex if ``by_row``, else its only column is. ``normal`` (p, p) is
    symmetric and positive semidefinite; rows that it leaves out stay as they start.
    """
    # D − normal is positive semidefinite for D[i] = Σ_j |normal[i, j]| s[j] / s[i], whatever s > 0:
    # a step of its own for every row makes classes of very different prevalence equally quick.
    size = np.sqrt(np.maximum(np.diag(normal), 0.0))
    step = np.zeros(size.size)
    for i in range(size.size):
        for j in range(size.size):
            if size[i] > 0.0 and size[j] > 0.0:
                step[i] += size[i] * abs(normal[i, j]) / size[j]
    if not by_row:
        step[:] = step.max()
    x = x.copy()
    ahead = x.copy()
    momentum = 1.0
    for _ in range(iterations):
        new = ahead.copy()
        gradient = normal @ ahead - right
        for i in range(size.size):
            if step[i] > 0.0:
                new[i] -= gradient[i] / step[i]
                if by_row:
                    project(new[i])
        if not by_row:
            project(new[:, 0])
        moved = new - x
        if np.sum((ahead - new) * moved) > 0.0:  # momentum points uphill
            momentum = 1.0
        larger = 0.5 + math.sqrt(0.25 + momentum * momentum)
        ahead = new + (momentum - 1.0) / larger * moved
        momentum = larger
        x = new
        if np.abs(moved).max() < tolerance:
            break
    return x
