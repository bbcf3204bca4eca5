"""Kernels that find the patterns of responses of every group of raters.

A pattern is a list of cells: the responses of a group to an item. Items share patterns, so verdicts
are computed once per distinct pattern. The rows of a table are the cells, for raters in no group,
and then the patterns; an item is a list of rows, for the kernels of independent raters.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import inner, kernel


def cell_words(n_cells: int) -> NDArray[np.uint64]:
    """Return a random odd number for every cell, by whose sums patterns are compared."""
    return np.random.default_rng(0).integers(0, 2**64, n_cells, dtype=np.uint64) | np.uint64(1)


@inner
def sort_by_group(start, cell, group_of_cell, n_groups):
    """Sort the cells of every item by group, −1 first: counting by group, then by item."""
    item = np.empty(cell.size, dtype=np.uint32)
    begin = np.zeros(n_groups + 2, dtype=np.int64)
    for n in range(start.size - 1):
        for r in range(start[n], start[n + 1]):
            item[r] = n
            begin[group_of_cell[cell[r]] + 2] += 1
    begin = begin.cumsum()
    by_group = np.empty(cell.size, dtype=np.uint32)
    for r in range(cell.size):
        group = group_of_cell[cell[r]] + 1
        by_group[begin[group]] = r
        begin[group] += 1
    at, found = start.copy(), np.empty_like(cell)
    for r in by_group:
        found[at[item[r]]] = cell[r]
        at[item[r]] += 1
    return found


@inner
def number_patterns(mark):
    """Number equal marks alike; return the numbers, and the first occurrence of each mark.

    A mark is the sum of random words: different patterns share one with probability 2⁻⁶³.
    """
    size = 1
    while size < 2 * mark.size:
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)  # open addressing: a number per slot
    number = np.empty(mark.size, dtype=np.int64)
    first = np.empty(mark.size, dtype=np.int64)
    n_patterns = 0
    for i in range(mark.size):
        # without the last bit, which is the same in all marks of as many (odd) words
        slot = np.int64((mark[i] >> np.uint64(1)) & np.uint64(size - 1))
        while slots[slot] >= 0 and mark[first[slots[slot]]] != mark[i]:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = n_patterns
            first[n_patterns] = i
            n_patterns += 1
        number[i] = slots[slot]
    return number, first[:n_patterns]


@kernel
def arrange(start, cell, assignment, words):
    """Return the rows of the items and the cells of the patterns, from ``words`` of the cells.

    Item ``n`` has the rows ``row[row_start[n]:row_start[n + 1]]``: cells of raters in no group, and
    patterns of groups, numbered after the last cell. Pattern ``p`` has the cells
    ``pattern_cell[pattern_start[p]:pattern_start[p + 1]]`` and the group ``pattern_group[p]``.
    """
    n_cells, n_labels = words.size, words.size // assignment.size
    group_of_cell = np.empty(n_cells, dtype=np.int64)
    for i in range(n_cells):
        group_of_cell[i] = assignment[i // n_labels]
    cell = sort_by_group(start, cell, group_of_cell, max(assignment.max() + 1, 0))
    row_start = np.zeros(start.size, dtype=np.uint32)
    row = np.empty(cell.size, dtype=np.uint32)
    mark = np.empty(cell.size, dtype=np.uint64)
    begin, size = np.empty((2, cell.size), dtype=np.uint32)  # of the patterns that are met
    n_rows = n_met = 0
    for n in range(start.size - 1):
        before = -1
        for r in range(start[n], start[n + 1]):
            group = group_of_cell[cell[r]]
            if group < 0:
                row[n_rows] = cell[r]
            elif group == before:
                mark[n_met - 1] += words[cell[r]]
                size[n_met - 1] += 1
                continue
            else:
                row[n_rows] = n_cells  # plus the number of the pattern, below
                mark[n_met], begin[n_met], size[n_met] = words[cell[r]], r, 1
                n_met += 1
            before = group
            n_rows += 1
        row_start[n + 1] = n_rows
    number, first = number_patterns(mark[:n_met])
    i = 0
    for at in range(n_rows):
        if row[at] == n_cells:
            row[at] += number[i]
            i += 1
    pattern_start = np.zeros(first.size + 1, dtype=np.uint32)
    for p in range(first.size):
        pattern_start[p + 1] = pattern_start[p] + size[first[p]]
    pattern_cell = np.empty(pattern_start[first.size], dtype=np.uint32)
    pattern_group = np.empty(first.size, dtype=np.int32)
    for p in range(first.size):
        for j in range(size[first[p]]):
            pattern_cell[pattern_start[p] + j] = cell[begin[first[p]] + j]
        pattern_group[p] = group_of_cell[cell[begin[first[p]]]]
    return row_start, row[:n_rows].copy(), pattern_start, pattern_cell, pattern_group
