"""Elementary symmetric polynomials over groups of rows: implicit sums over pairs and triples."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, inner, kernel

FEW = 16  # lanes up to which sums in registers are faster, half of it in single precision
MOST_ROWS = 100  # rows up to which all triples are counted: 8 MB


@kernel
def symmetric(values, weight, start, row, in_fours):
    """Sum 1st to 3rd elementary symmetric polynomials over groups of rows, lane by lane.

    Group ``n`` holds the rows ``row[start[n]:start[n + 1]]`` of ``values`` (rows, lanes), with a
    multiple of four lanes, better of eight if not ``in_fours``. Returns their weighted sum
    (lanes,), and for every row its derivative (rows, lanes): ``1 + e1 + e2`` of the others, summed
    over the row's groups.
    """
    n_rows, n_lanes = values.shape
    total = np.zeros(n_lanes)
    others = np.zeros((n_rows, n_lanes))
    # Four sums stay in registers; with many lanes it is faster to vectorise over them. Each is
    # twice as fast in its range.
    if in_fours:
        by_fours(values, weight, start, row, total, others)
    else:
        by_rows(values, weight, start, row, total, others)
    # Euler: Σ x ∂E = e1 + 2 e2 + 3 e3, so E is a third of that plus 2 e1 + e2
    for i in range(n_rows):
        for j in range(n_lanes):
            total[j] += values[i, j] * others[i, j]
    return total / 3.0, others


@inner
def by_fours(values, weight, start, row, total, others):
    """Add ``2 e1 + e2`` to ``total`` and ``1 + e1 + e2`` of the others to ``others``."""
    for n in range(weight.size):
        first, last = start[n], start[n + 1]
        w = weight[n]
        for j in range(0, total.size, 4):
            a0 = a1 = a2 = a3 = 0.0  # e1
            b0 = b1 = b2 = b3 = 0.0  # e2
            for r in range(first, last):
                i = row[r]
                x0, x1, x2, x3 = values[i, j], values[i, j + 1], values[i, j + 2], values[i, j + 3]
                b0 += a0 * x0
                b1 += a1 * x1
                b2 += a2 * x2
                b3 += a3 * x3
                a0 += x0
                a1 += x1
                a2 += x2
                a3 += x3
            total[j] += w * (2.0 * a0 + b0)
            total[j + 1] += w * (2.0 * a1 + b1)
            total[j + 2] += w * (2.0 * a2 + b2)
            total[j + 3] += w * (2.0 * a3 + b3)
            b0, b1, b2, b3 = 1.0 + a0 + b0, 1.0 + a1 + b1, 1.0 + a2 + b2, 1.0 + a3 + b3
            a0, a1, a2, a3 = 1.0 + a0, 1.0 + a1, 1.0 + a2, 1.0 + a3
            # without x, e1 is e1 − x and e2 is e2 − x (e1 − x)
            for r in range(first, last):
                i = row[r]
                x0, x1, x2, x3 = values[i, j], values[i, j + 1], values[i, j + 2], values[i, j + 3]
                others[i, j] += w * (b0 - x0 * (a0 - x0))
                others[i, j + 1] += w * (b1 - x1 * (a1 - x1))
                others[i, j + 2] += w * (b2 - x2 * (a2 - x2))
                others[i, j + 3] += w * (b3 - x3 * (a3 - x3))


@inner
def by_rows(values, weight, start, row, total, others):
    """Do the same as :func:`by_fours`, all lanes of a row at once, in the precision of the values.

    Sums in single precision are added to double precision every few dozen terms, so that their
    relative error is that of one term, 1e-7.
    """
    n_rows, n_lanes = values.shape
    some = np.zeros_like(values)
    a = np.empty(n_lanes, dtype=values.dtype)  # 1 + e1
    b = np.empty(n_lanes, dtype=values.dtype)  # 1 + e1 + e2
    n_seen = np.int64(0)
    for n in range(weight.size):
        first, last = np.int64(start[n]), np.int64(start[n + 1])
        w = values.dtype.type(weight[n])
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
            total[j] += weight[n] * (a[j] + b[j] - 2.0)
        for r in range(first, even, 2):
            x, y = values[row[r]], values[row[r + 1]]
            for_x, for_y = some[row[r]], some[row[r + 1]]
            for j in range(n_lanes):
                for_x[j] += w * (b[j] - x[j] * (a[j] - x[j]))
                for_y[j] += w * (b[j] - y[j] * (a[j] - y[j]))
        for r in range(even, last):
            x, for_x = values[row[r]], some[row[r]]
            for j in range(n_lanes):
                for_x[j] += w * (b[j] - x[j] * (a[j] - x[j]))
        n_seen += last - first
        if n_seen >= 32 * n_rows or n == weight.size - 1:
            n_seen = np.int64(0)
            for i in range(n_rows):
                for j in range(n_lanes):
                    others[i, j] += some[i, j]
                    some[i, j] = 0.0


@kernel
def by_threes(weight, start, row, one, two, three):
    """Compute weights of all rows, pairs and triples with the same sums as the groups.

    A triple also counts for its pairs and rows: of s rows, a pair is in s − 2 triples.
    """
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
        """Return fewer groups with the same sums, if a few rows form many groups.

        RowGroups of at most three rows are enough, because no polynomial has a higher degree.
        """
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

    def polynomials(self, values: Array, *, roughly: bool = False) -> tuple[Array, Array]:
        """Return the sum and the leave-one-out sums of every lane of ``values`` (rows, lanes).

        Single precision may be used if ``roughly``.
        """
        n_lanes = values.shape[1]
        if self.weight.min(initial=0.0) < 0.0:
            roughly = False  # terms may cancel
        in_fours = n_lanes <= (FEW // 2 if roughly else FEW)
        block = 4 if in_fours else 8
        single = roughly and not in_fours
        shape = len(values), -(-n_lanes // block) * block
        padded = np.zeros(shape, dtype=np.float32 if single else np.float64)
        padded[:, :n_lanes] = values
        total, others = symmetric(padded, self.weight, self.start, self.row, in_fours)
        return total[:n_lanes], others[:, :n_lanes]
