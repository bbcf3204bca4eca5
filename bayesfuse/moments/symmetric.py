"""Elementary symmetric polynomials over groups of rows: implicit sums over pairs and triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, kernel

MOST_ROWS = 100  # rows up to which all triples are counted: 8 MB


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
