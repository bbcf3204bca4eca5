"""Kernels of moments: least squares over simplices, and sums over pairs and triples of rows."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, inner, kernel

MOST_ROWS = 100  # rows up to which all triples are counted: 8 MB


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


@kernel
def symmetric(values, weight, start, row):
    """Sum 1st to 3rd elementary symmetric polynomials over groups of rows, lane by lane.

    Group ``n`` holds the rows ``row[start[n]:start[n + 1]]`` of ``values`` (rows, lanes). Returns
    their weighted sum (lanes,), and for every row its derivative (rows, lanes): ``1 + e1 + e2`` of
    the others, summed over the row's groups.
    """
    n_rows, n_lanes = values.shape
    total, others = np.zeros(n_lanes), np.zeros((n_rows, n_lanes))
    a, b = np.empty(n_lanes), np.empty(n_lanes)  # 1 + e1 and 1 + e1 + e2
    for n in range(weight.size):
        first, last, w = np.int64(start[n]), np.int64(start[n + 1]), weight[n]
        a[:] = 1.0
        b[:] = 1.0
        even = last - (last - first) % 2
        for r in range(first, even, 2):  # by twos, with half the loads and stores of a and b
            x, y = values[row[r]], values[row[r + 1]]
            for j in range(n_lanes):
                with_x = a[j] + x[j]
                b[j] += a[j] * x[j] + with_x * y[j]
                a[j] = with_x + y[j]
        for r in range(even, last):
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


@kernel
def by_threes(weight, start, row, one, two, three):
    """Compute weights of rows, pairs and triples with the same sums: a triple counts for both."""
    for n in range(weight.size):
        first, last = start[n], start[n + 1]
        w, s = weight[n], float(last - first)
        for p in range(first, last):
            one[row[p]] += w * (1.0 - (s - 1.0) * (3.0 - s) - (s - 1.0) * (s - 2.0) / 2.0)
            for q in range(p + 1, last):
                two[row[p], row[q]] += w * (3.0 - s)
                for r in range(q + 1, last):
                    three[row[p], row[q], row[r]] += w


@dataclass(frozen=True, eq=False)
class RowGroups:
    """Rows of a table by group, as :func:`symmetric` takes them."""

    weight: Array
    start: NDArray[np.uint32]
    row: NDArray[np.uint32]

    def condensed(self, n_rows: int) -> RowGroups:
        """Return fewer groups, of at most three rows, with the same sums, if that is possible."""
        if n_rows > MOST_ROWS or n_rows * (n_rows - 1) * (n_rows - 2) >= 2 * self.row.size:
            return self
        counts = [np.zeros((n_rows,) * size) for size in (1, 2, 3)]
        by_threes(self.weight, self.start, self.row, *counts)
        members = [np.argwhere(count) for count in counts]
        sizes = np.repeat([1, 2, 3], [len(found) for found in members])
        return RowGroups(
            np.concatenate([count[count != 0.0] for count in counts]),
            np.concatenate([[0], sizes.cumsum()]).astype(np.uint32),
            np.concatenate([found.ravel() for found in members]).astype(np.uint32),
        )

    def polynomials(self, values: Array) -> tuple[Array, Array]:
        """Return the sum and the leave-one-out sums of every lane of ``values`` (rows, lanes)."""
        found: tuple[Array, Array] = symmetric(values, self.weight, self.start, self.row)
        return found
