"""Pairs of responses: where the same pairs recur, their products are computed once per sweep.

Ten raters who answer everything are five pairs. The possible responses of a pair are few, each a
row of a table; an item then has five rows instead of ten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFTEN = 24
"""Least mean number of occurrences of a pair.

With fewer, filling in the table takes the time that half as many look-ups save. It is all pairs or
none: a mixture of five and ten rows is slower than ten, because of mispredicted branches.
"""


def pair_up(
    start: NDArray[np.uint32], cell: NDArray[np.uint32], n_cells: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the first row of every item, the rows, and the pairs of cells (pairs, 2).

    Item ``n`` has the responses ``cell[start[n]:start[n + 1]]``. Rows are cells, or from
    ``n_cells`` pairs of cells; there are no pairs if these are rare.
    """
    none = start, cell, np.empty((0, 2), dtype=np.uint32)
    if n_cells**2 > len(cell):  # possible pairs would outnumber the responses
        return none
    # one byte per response, because memory use is near its peak here
    second = np.repeat(start[:-1] % 2 == 1, np.diff(start))
    second[1::2] ^= True  # whether a response is the second of a pair
    key = cell[:-1][second[1:]]
    key *= n_cells
    key += cell[second]
    met = np.bincount(key) > 0
    if OFTEN * met.sum() > len(key):
        return none
    row = cell.copy()
    row[:-1][second[1:]] = (np.cumsum(met, dtype=np.uint32) + (n_cells - 1))[key]
    rows_before = np.zeros(len(cell) + 1, dtype=np.uint32)
    np.cumsum(~second, out=rows_before[1:])
    pair = np.stack(np.divmod(np.flatnonzero(met), n_cells), axis=1)
    return rows_before[start], row[~second], pair.astype(np.uint32)
