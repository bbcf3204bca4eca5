"""Responses taken two by two: where the same pairs come up again and again, one product serves all.

Ten raters who answer everything are five pairs. What a pair may say are few combinations, each a
row of a table that is filled in once per sweep; an item then names five rows, not ten.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

OFTEN = 24
"""How often a pair must come up on average.

Below, filling in the table costs what looking up half as many rows saves. It is all pairs or none:
items that name now five rows, now ten, cost the processor more than ten rows do, because it cannot
guess where they end.
"""


def pair_up(
    start: NDArray[np.uint32], cell: NDArray[np.uint32], n_cells: int
) -> tuple[NDArray[np.uint32], NDArray[np.uint32], NDArray[np.uint32]]:
    """Return the rows that items name, and of which cells the rows after the last cell are pairs.

    Parameters
    ----------
    start, cell : ndarray
        Item ``n`` has the responses ``cell[start[n]:start[n + 1]]``, each a rater and a label.
    n_cells : int
        Number of cells there are.

    Returns
    -------
    row_start, row : ndarray
        Item ``n`` names the rows ``row[row_start[n]:row_start[n + 1]]``: cells, or from ``n_cells``
        on pairs of them.
    pair : ndarray, shape (pairs, 2)
        The cells of every pair; no pairs where they do not come up often.

    Examples
    --------
    >>> import numpy as np
    >>> start = np.arange(0, 301, 3, dtype=np.uint32)  # a hundred items with the same responses
    >>> row_start, row, pair = pair_up(start, np.tile(np.uint32([0, 3, 5]), 100), n_cells=6)
    >>> row[:4].tolist(), row_start[:3].tolist(), pair.tolist()
    ([6, 5, 6, 5], [0, 2, 4], [[0, 3]])
    """
    none = start, cell, np.empty((0, 2), dtype=np.uint32)
    if n_cells**2 > len(cell):  # a table of all that may come up would be larger than theirs
        return none
    # memory is short here, near its peak on the way to a posterior: one byte per response
    second = np.repeat(start[:-1] % 2 == 1, np.diff(start))
    second[1::2] ^= True  # now whether a response is at an odd place among those to its item
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
