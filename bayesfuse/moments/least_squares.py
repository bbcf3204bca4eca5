"""Kernels of moments: least squares over simplices, and sums over pairs and triples of rows."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, kernel


@kernel
def project(x):
    """Project a vector on the simplex, in place (Michelot 1986, J. Optim. Theory Appl. 50, 195)."""
    shift, n_active = -np.inf, x.size + 1
    while True:
        total, above = 0.0, 0
        for i in range(x.size):
            if x[i] > shift:
                total += x[i]
                above += 1
        if not 0 < above < n_active:
            break
        shift, n_active = (total - 1.0) / above, above
    for i in range(x.size):
        x[i] = max(x[i] - shift, 0.0)


@kernel
def simplex_least_squares(normal, right, x, by_row, iterations, tolerance):
    """Minimise ``<X, normal @ X> − 2 <right, X>`` by accelerated projected gradients.

    Every row of X (p, q) is on the simplex if ``by_row``, else its only column is. ``normal``
    (p, p) is symmetric and positive semidefinite; rows where it is zero keep their start.
    """
    # D − normal is positive semidefinite for D[i] = Σ_j |normal[i, j]| s[j] / s[i], whatever s > 0:
    # with its own step for every row, classes of very different prevalence converge equally fast.
    size = np.sqrt(np.maximum(np.diag(normal), 0.0))
    step = np.abs(normal) @ size
    for i in range(size.size):
        step[i] = step[i] / size[i] if size[i] > 0.0 else 0.0
    if not by_row:
        step[:] = step.max()
    x, ahead, new = x.copy(), x.copy(), x.copy()
    gradient = np.empty_like(x)
    momentum = 1.0
    for _ in range(iterations):
        np.dot(normal, ahead, gradient)
        uphill = furthest = 0.0
        for i in range(step.size):
            if step[i] > 0.0:
                for j in range(x.shape[1]):
                    new[i, j] = ahead[i, j] - (gradient[i, j] - right[i, j]) / step[i]
                if by_row:
                    project(new[i])
        if not by_row:
            project(new[:, 0])
        for i in range(step.size):
            for j in range(x.shape[1]):
                moved = new[i, j] - x[i, j]
                uphill += (ahead[i, j] - new[i, j]) * moved
                furthest = max(furthest, abs(moved))
        if uphill > 0.0:
            momentum = 1.0
        larger = 0.5 + math.sqrt(0.25 + momentum * momentum)
        for i in range(step.size):
            for j in range(x.shape[1]):
                ahead[i, j] = new[i, j] + (momentum - 1.0) / larger * (new[i, j] - x[i, j])
        momentum = larger
        x, new = new, x
        if furthest < tolerance:
            break
    return x


@kernel
def symmetric(values, weight, start, row):
    """Sum 1st to 3rd elementary symmetric polynomials over groups of rows, lane by lane.

    Group ``n`` holds the rows ``row[start[n]:start[n + 1]]`` of ``values`` (rows, lanes). Returns
    their weighted sum (lanes,), and its derivative (rows, lanes): ``1 + e1 + e2`` of the others,
    summed over the row's groups.
    """
    n_rows, n_lanes = values.shape
    total, others = np.zeros(n_lanes), np.zeros((n_rows, n_lanes))
    a, b = np.empty(n_lanes), np.empty(n_lanes)  # 1 + e1 and 1 + e1 + e2
    for n in range(weight.size):
        first, last, w = np.int64(start[n]), np.int64(start[n + 1]), weight[n]
        a[:] = 1.0
        b[:] = 1.0
        for r in range(first, last):
            x = values[row[r]]
            for j in range(n_lanes):
                b[j] += a[j] * x[j]
                a[j] += x[j]
        for j in range(n_lanes):
            total[j] += w * (a[j] + b[j] - 2.0)
        # without x, e1 is e1 − x and e2 is e2 − x (e1 − x)
        for r in range(first, last):
            x, for_x = values[row[r]], others[row[r]]
            for j in range(n_lanes):
                for_x[j] += w * (b[j] - x[j] * (a[j] - x[j]))
    # Euler: Σ x ∂E = e1 + 2 e2 + 3 e3, so E is a third of that plus 2 e1 + e2
    for i in range(n_rows):
        for j in range(n_lanes):
            total[j] += values[i, j] * others[i, j]
    return total / 3.0, others


class RowGroups(NamedTuple):
    """Rows of a table by group, as :func:`symmetric` takes them."""

    weight: Array
    start: NDArray[np.uint32]
    row: NDArray[np.uint32]
