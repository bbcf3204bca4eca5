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
def meet(cells, first, last, place_of_cell, size, met):
    """Count cells by place in ``size``, and list the places in ``met``; return their number."""
    n_met = 0
    for r in range(first, last):
        place = place_of_cell[cells[r]]
        if size[place] == 0:
            met[n_met] = place
            n_met += 1
        size[place] += 1
    return n_met


@inner
def segments(start, cell, assignment, n_labels):
    """Sort the responses to every item by group, those of raters in no group first.

    A segment holds the responses of one group to one item. Returns the first segment of every item
    (items + 1), the first response and the group of every segment, and the sorted cells.
    """
    n_items = start.size - 1
    n_groups = np.int64(0)
    place_of_cell = np.empty(assignment.size * n_labels, dtype=np.int64)
    for i in range(place_of_cell.size):
        place_of_cell[i] = assignment[i // n_labels] + 1  # 0: no group
        n_groups = max(n_groups, place_of_cell[i])
    size = np.zeros(n_groups + 1, dtype=np.int64)
    met = np.empty(n_groups + 1, dtype=np.int64)
    item_start = np.zeros(n_items + 1, dtype=np.uint32)
    n_segments = 0
    for n in range(n_items):
        n_met = meet(cell, start[n], start[n + 1], place_of_cell, size, met)
        for i in range(n_met):
            size[met[i]] = 0
        n_segments += n_met
        item_start[n + 1] = n_segments
    segment_start = np.empty(n_segments + 1, dtype=np.uint32)
    group = np.empty(n_segments, dtype=np.int32)
    sorted_cell = np.empty_like(cell)
    segment = 0
    for n in range(n_items):
        n_met = meet(cell, start[n], start[n + 1], place_of_cell, size, met)
        for i in range(1, n_met):  # by insertion, since there are few
            place, j = met[i], i
            while j > 0 and met[j - 1] > place:
                met[j] = met[j - 1]
                j -= 1
            met[j] = place
        at = np.int64(start[n])
        for i in range(n_met):
            segment_start[segment] = at
            group[segment] = met[i] - 1
            segment += 1
            at += size[met[i]]
            size[met[i]] = at - size[met[i]]  # now the position of the next response
        for r in range(start[n], start[n + 1]):
            place = place_of_cell[cell[r]]
            sorted_cell[size[place]] = cell[r]
            size[place] += 1
        for i in range(n_met):
            size[met[i]] = 0
    segment_start[n_segments] = cell.size
    return item_start, segment_start, group, sorted_cell


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
    n_cells = words.size
    item_start, segment_start, group, sorted_cell = segments(
        start, cell, assignment, n_cells // assignment.size
    )
    n_rows = n_grouped = 0
    for s in range(group.size):
        n_grouped += group[s] >= 0
        n_rows += 1 if group[s] >= 0 else np.int64(segment_start[s + 1]) - segment_start[s]
    grouped = np.empty(n_grouped, dtype=np.int64)
    mark = np.zeros(n_grouped, dtype=np.uint64)
    i = 0
    for s in range(group.size):
        if group[s] >= 0:
            grouped[i] = s
            for r in range(segment_start[s], segment_start[s + 1]):
                mark[i] += words[sorted_cell[r]]
            i += 1
    number, first = number_patterns(mark)
    row_start = np.zeros(start.size, dtype=np.uint32)
    row = np.empty(n_rows, dtype=np.uint32)
    at = i = 0
    for n in range(start.size - 1):
        for s in range(item_start[n], item_start[n + 1]):
            if group[s] >= 0:
                row[at] = n_cells + number[i]
                at += 1
                i += 1
                continue
            for r in range(segment_start[s], segment_start[s + 1]):
                row[at] = sorted_cell[r]
                at += 1
        row_start[n + 1] = at
    pattern_start = np.zeros(first.size + 1, dtype=np.uint32)
    n_cells_of_patterns = 0
    for p in range(first.size):
        s = grouped[first[p]]
        n_cells_of_patterns += np.int64(segment_start[s + 1]) - segment_start[s]
        pattern_start[p + 1] = n_cells_of_patterns
    pattern_cell = np.empty(n_cells_of_patterns, dtype=np.uint32)
    pattern_group = np.empty(first.size, dtype=np.int32)
    at = 0
    for p in range(first.size):
        s = grouped[first[p]]
        pattern_group[p] = group[s]
        for r in range(segment_start[s], segment_start[s + 1]):
            pattern_cell[at] = sorted_cell[r]
            at += 1
    return row_start, row, pattern_start, pattern_cell, pattern_group
