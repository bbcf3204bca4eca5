"""Least squares over probability simplices."""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import inner, kernel


@kernel
def project(x):
    """Project a vector on the simplex, in place (Michelot 1986, J. Optim. Theory Appl. 50, 195)."""
    shift, kept = -np.inf, x.size + 1
    while True:
        total, above = 0.0, 0
        for i in range(x.size):
            if x[i] > shift:
                total += x[i]
                above += 1
        if not 0 < above < kept:
            break
        shift, kept = (total - 1.0) / above, above
    for i in range(x.size):
        x[i] = max(x[i] - shift, 0.0)


@inner
def multiply(one, other, product):
    """Fill in a product of matrices, without the overhead of BLAS for small ones."""
    if one.size > 64:
        np.dot(one, other, product)
        return
    product[:] = 0.0
    for i in range(one.shape[0]):
        for k in range(other.shape[0]):
            for j in range(other.shape[1]):
                product[i, j] += one[i, k] * other[k, j]


@kernel
def simplex_least_squares(normal, right, x, by_row, iterations, tolerance):
    """Minimise ``<X, normal @ X> − 2 <right, X>`` by accelerated projected gradients.

    Every row of X (p, q) is on the simplex if ``by_row``, else its only column is. ``normal``
    (p, p) is symmetric and positive semidefinite; rows where it is zero keep their start.
    """
    # D − normal is positive semidefinite for D[i] = Σ_j |normal[i, j]| s[j] / s[i], whatever s > 0:
    # with its own step for every row, classes of very different prevalence converge equally fast.
    n_rows, n_columns = x.shape
    size, step = np.empty(n_rows), np.zeros(n_rows)
    for i in range(n_rows):
        size[i] = math.sqrt(max(normal[i, i], 0.0))
    for i in range(n_rows):
        for j in range(n_rows):
            if size[i] > 0.0 and size[j] > 0.0:
                step[i] += size[i] * abs(normal[i, j]) / size[j]
    if not by_row:
        largest = 0.0
        for i in range(n_rows):
            largest = max(largest, step[i])
        for i in range(n_rows):
            step[i] = largest
    x, ahead, new = x.copy(), x.copy(), x.copy()
    gradient = np.empty((n_rows, n_columns))
    momentum = 1.0
    for _ in range(iterations):
        multiply(normal, ahead, gradient)
        uphill = furthest = 0.0
        for i in range(n_rows):
            if step[i] > 0.0:
                for j in range(n_columns):
                    new[i, j] = ahead[i, j] - (gradient[i, j] - right[i, j]) / step[i]
                if by_row:
                    project(new[i])
        if not by_row:
            project(new[:, 0])
        for i in range(n_rows):
            for j in range(n_columns):
                moved = new[i, j] - x[i, j]
                uphill += (ahead[i, j] - new[i, j]) * moved
                furthest = max(furthest, abs(moved))
        if uphill > 0.0:
            momentum = 1.0
        larger = 0.5 + math.sqrt(0.25 + momentum * momentum)
        for i in range(n_rows):
            for j in range(n_columns):
                ahead[i, j] = new[i, j] + (momentum - 1.0) / larger * (new[i, j] - x[i, j])
        momentum = larger
        x, new = new, x
        if furthest < tolerance:
            break
    return x
