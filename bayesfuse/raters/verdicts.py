"""Kernels of the latent-group channel: hidden verdicts summed out, weighed and drawn.

What the raters of a group say of one item is a pattern, a list of cells. Items share patterns, so
everything that concerns verdicts is done once per different pattern; an item is a list of rows of
a table whose rows are the cells, for raters alone, and then the patterns. On that table the
kernels of independent raters do the rest.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bayesfuse.raters.confusion import by_cell, by_rater, count_rows, multiply_rows, weigh_rows
from bayesfuse.simplex import TINY

# ---------------------------------------------------------------- patterns


@njit(cache=True, nogil=True)
def segments(start, cell, assignment, n_labels):
    """Sort the responses of every item by group, those of raters alone first.

    Returns where the segments (responses of one item and group) of every item begin (items + 1),
    where the responses of every segment begin (segments + 1), the group of every segment, −1 for
    raters alone, and the sorted cells.
    """
    n_items = start.size - 1
    n_groups = max(assignment.max(), -1) + 1
    place_of_cell = np.repeat(assignment + 1, n_labels)  # 0: alone
    size = np.zeros(n_groups + 1, dtype=np.int64)
    met = np.empty(n_groups + 1, dtype=np.int64)
    item_start = np.zeros(n_items + 1, dtype=np.uint32)
    n_segments = 0
    for n in range(n_items):
        n_met = 0
        for r in range(start[n], start[n + 1]):
            place = place_of_cell[cell[r]]
            if size[place] == 0:
                met[n_met] = place
                n_met += 1
            size[place] += 1
        for i in range(n_met):
            size[met[i]] = 0
        n_segments += n_met
        item_start[n + 1] = n_segments
    segment_start = np.empty(n_segments + 1, dtype=np.uint32)
    group = np.empty(n_segments, dtype=np.int32)
    sorted_cell = np.empty_like(cell)
    segment = 0
    for n in range(n_items):
        n_met = 0
        for r in range(start[n], start[n + 1]):
            place = place_of_cell[cell[r]]
            if size[place] == 0:
                met[n_met] = place
                n_met += 1
            size[place] += 1
        met[:n_met].sort()
        at = np.int64(start[n])
        for i in range(n_met):
            segment_start[segment] = at
            group[segment] = met[i] - 1
            segment += 1
            at += size[met[i]]
            size[met[i]] = at - size[met[i]]  # from now on, where the next response goes
        for r in range(start[n], start[n + 1]):
            place = place_of_cell[cell[r]]
            sorted_cell[size[place]] = cell[r]
            size[place] += 1
        for i in range(n_met):
            size[met[i]] = 0
    segment_start[n_segments] = cell.size
    return item_start, segment_start, group, sorted_cell


@njit(cache=True, nogil=True)
def same(cell, one, other, length):
    """Whether two runs of cells are equal."""
    for i in range(length):
        if cell[one + i] != cell[other + i]:
            return False
    return True


@njit(cache=True, nogil=True)
def number_patterns(segment_start, group, cell):
    """Number equal segments of groups alike, in order of appearance; −1 for raters alone.

    Returns the number of every segment, and the segment that shows every number first.
    """
    n_segments = group.size
    size = 1
    while size < 2 * n_segments:
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)  # open addressing: a number per slot
    number = np.full(n_segments, -1, dtype=np.int64)
    shown_by = np.empty(n_segments, dtype=np.int64)
    n_patterns = 0
    for s in range(n_segments):
        if group[s] < 0:
            continue
        first = np.int64(segment_start[s])
        length = np.int64(segment_start[s + 1]) - first
        mark = np.uint64(14695981039346656037)  # Fowler, Noll & Vo's hash, a word at a time
        for r in range(first, first + length):
            mark = (mark ^ np.uint64(cell[r])) * np.uint64(1099511628211)
        mark ^= mark >> np.uint64(32)
        slot = np.int64(mark & np.uint64(size - 1))
        while slots[slot] >= 0:
            other = shown_by[slots[slot]]
            begin = np.int64(segment_start[other])
            # a cell names its rater and so its group
            if np.int64(segment_start[other + 1]) - begin == length and same(
                cell, first, begin, length
            ):
                break
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = n_patterns
            shown_by[n_patterns] = s
            n_patterns += 1
        number[s] = slots[slot]
    return number, shown_by[:n_patterns].copy()


@njit(cache=True, nogil=True)
def arrange(start, cell, assignment, n_labels):
    """Return the rows of the items and the cells of the patterns.

    Item ``n`` has the rows ``row[row_start[n]:row_start[n + 1]]``: the cells of raters alone, and
    the patterns of groups, numbered after the last cell. Pattern ``p`` has the cells
    ``pattern_cell[pattern_start[p]:pattern_start[p + 1]]`` and is of ``pattern_group[p]``.
    """
    item_start, segment_start, group, sorted_cell = segments(start, cell, assignment, n_labels)
    number, shown_by = number_patterns(segment_start, group, sorted_cell)
    n_cells = assignment.size * n_labels
    n_rows = 0
    for s in range(group.size):
        n_rows += 1 if group[s] >= 0 else np.int64(segment_start[s + 1]) - segment_start[s]
    row_start = np.zeros(start.size, dtype=np.uint32)
    row = np.empty(n_rows, dtype=np.uint32)
    at = 0
    for n in range(start.size - 1):
        for s in range(item_start[n], item_start[n + 1]):
            if group[s] >= 0:
                row[at] = n_cells + number[s]
                at += 1
                continue
            for r in range(segment_start[s], segment_start[s + 1]):
                row[at] = sorted_cell[r]
                at += 1
        row_start[n + 1] = at
    pattern_start = np.zeros(shown_by.size + 1, dtype=np.uint32)
    n_cells_of_patterns = 0
    for p in range(shown_by.size):
        s = shown_by[p]
        n_cells_of_patterns += np.int64(segment_start[s + 1]) - segment_start[s]
        pattern_start[p + 1] = n_cells_of_patterns
    pattern_cell = np.empty(n_cells_of_patterns, dtype=np.uint32)
    pattern_group = np.empty(shown_by.size, dtype=np.int32)
    at = 0
    for p in range(shown_by.size):
        s = shown_by[p]
        pattern_group[p] = group[s]
        for r in range(segment_start[s], segment_start[s + 1]):
            pattern_cell[at] = sorted_cell[r]
            at += 1
    return row_start, row, pattern_start, pattern_cell, pattern_group


# ---------------------------------------------------------------- verdicts of one pattern

# Probabilities are multiplied, not their logarithms added, because sums over verdicts would need
# exponentials. Where a product becomes too small for that, the pattern is taken in logarithms.


@njit(cache=True, nogil=True)
def listen(log_table, table, cell, first, last, message):
    """Fill in p(pattern | verdict), and say whether that had to become its logarithm."""
    smallest, v = 1.0, 0
    while v + 2 <= message.size:  # by twos, as in confusion.py
        p0 = p1 = 1.0
        for r in range(first, last):
            row = cell[r]
            p0 *= table[row, v]
            p1 *= table[row, v + 1]
        message[v], message[v + 1] = p0, p1
        smallest = min(smallest, min(p0, p1))
        v += 2
    if v < message.size:
        p0 = 1.0
        for r in range(first, last):
            p0 *= table[cell[r], v]
        message[v] = p0
        smallest = min(smallest, p0)
    if smallest >= TINY:
        return False
    for v in range(message.size):
        message[v] = 0.0
        for r in range(first, last):
            message[v] += log_table[cell[r], v]
    return True


@njit(cache=True, nogil=True)
def weigh(log_row, row, message, in_logs, weight):
    """Fill in the probabilities of the verdicts given a truth, and return log p(pattern | truth).

    Zeros and −inf where the pattern is impossible.
    """
    top, total = 0.0, 0.0
    if not in_logs:
        for v in range(weight.size):
            weight[v] = row[v] * message[v]
            total += weight[v]
    if total < TINY:
        top = -np.inf
        for v in range(weight.size):
            weight[v] = log_row[v] + (message[v] if in_logs else math.log(message[v]))
            top = max(top, weight[v])
        if top == -np.inf:
            weight[:] = 0.0
            return top
        total = 0.0
        for v in range(weight.size):
            weight[v] = math.exp(weight[v] - top)
            total += weight[v]
    for v in range(weight.size):
        weight[v] /= total
    return top + math.log(total)


@njit(cache=True, nogil=True)
def all_rows(log_group, log_rater, pattern_start, pattern_cell, pattern_group):
    """Return the table of all rows, the cells' and then p(pattern | truth), and its logarithm."""
    cells, log_cells = by_cell(log_rater)
    outer = np.exp(log_group)
    n_cells, n_classes = cells.shape
    table = np.empty((n_cells + pattern_group.size, n_classes))
    log_table = np.empty_like(table)
    table[:n_cells], log_table[:n_cells] = cells, log_cells
    message, weight = np.empty(n_classes), np.empty(n_classes)
    for p in range(pattern_group.size):
        g, row = pattern_group[p], n_cells + p
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        for k in range(n_classes):
            log_table[row, k] = weigh(log_group[g, k], outer[g, k], message, in_logs, weight)
            table[row, k] = math.exp(log_table[row, k])
    return table, log_table


@njit(cache=True, nogil=True)
def split(total, weight, rng, parts):
    """Split a number among verdicts at random, by their probabilities: a multinomial draw."""
    left, rest = np.int64(total), 1.0
    for v in range(weight.size):
        if left == 0 or weight[v] >= rest:
            part = np.int64(left)
        elif left == 1:
            part = np.int64(rng.random() * rest < weight[v])
        else:
            part = rng.binomial(left, weight[v] / rest)
        parts[v] = part
        left -= part
        rest -= weight[v]
    v = weight.size
    while left > 0:  # rounding left some over, which belong to the last possible verdict
        v -= 1
        if weight[v] > 0.0:
            parts[v] += left
            left = np.int64(0)


# ---------------------------------------------------------------- kernels


@njit(cache=True, nogil=True)
def likelihood(
    log_group, log_rater, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the verdicts out: (items, classes), and the rows' log scale."""
    table, log_table = all_rows(log_group, log_rater, pattern_start, pattern_cell, pattern_group)
    return multiply_rows(table, log_table, row_start, row, gold)


@njit(cache=True, nogil=True)
def expected(
    log_group, log_rater, weight, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the weights of every item into the entries that its truth and its verdicts use."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = weigh_rows(n_rows, weight, row_start, row)
    return share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group)


@njit(cache=True, nogil=True)
def share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group):
    """Share the weights of all rows, (rows, classes), among the entries of both tables."""
    cells, log_cells = by_cell(log_rater)
    outer = np.exp(log_group)
    n_cells, n_classes = cells.shape
    group_counts, rater_counts = np.zeros_like(outer), used[:n_cells].copy()
    message, weight, through = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    for p in range(pattern_group.size):
        g = pattern_group[p]
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        through[:] = 0.0
        for k in range(n_classes):
            if used[n_cells + p, k] == 0.0:
                continue
            weigh(log_group[g, k], outer[g, k], message, in_logs, weight)
            for v in range(n_classes):
                part = used[n_cells + p, k] * weight[v]
                group_counts[g, k, v] += part
                through[v] += part
        for v in range(n_classes):
            if through[v] != 0.0:
                for r in range(first, last):
                    rater_counts[pattern_cell[r], v] += through[v]
    return group_counts, by_rater(rater_counts, log_rater.shape[0])


@njit(cache=True, nogil=True)
def draw(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng):
    """Draw verdicts given how often every row was used with every label (rows, classes).

    Returns the counts of group and rater entries. Given the truth, items with the same pattern
    have the same chances, and only how many of them drew each verdict matters.
    """
    cells, log_cells = by_cell(log_rater)
    outer = np.exp(log_group)
    n_cells, n_classes = cells.shape
    group_counts, rater_counts = np.zeros_like(outer), used[:n_cells].copy()
    message, weight, through = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    parts = np.empty(n_classes, dtype=np.int64)
    for p in range(pattern_group.size):
        g = pattern_group[p]
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        through[:] = 0.0
        for k in range(n_classes):
            if used[n_cells + p, k] == 0.0:
                continue
            weigh(log_group[g, k], outer[g, k], message, in_logs, weight)
            split(used[n_cells + p, k], weight, rng, parts)
            for v in range(n_classes):
                group_counts[g, k, v] += parts[v]
                through[v] += parts[v]
        for v in range(n_classes):
            if through[v] != 0.0:
                for r in range(first, last):
                    rater_counts[pattern_cell[r], v] += through[v]
    return group_counts, by_rater(rater_counts, log_rater.shape[0])


@njit(cache=True, nogil=True)
def count(
    log_group, log_rater, labels, row_start, row, pattern_start, pattern_cell, pattern_group, rng
):
    """Draw the verdicts given the labels (items,), and count what labels and verdicts use."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = count_rows(n_rows, log_rater.shape[1], labels, row_start, row)
    return draw(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng)


@njit(cache=True, nogil=True)
def count_copies(
    log_group, log_rater, drawn, row_start, row, pattern_start, pattern_cell, pattern_group, rng
):
    """Do the same where an item stands for several: ``drawn`` (items, classes) of each class."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = weigh_rows(n_rows, drawn, row_start, row)
    return draw(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng)


@njit(cache=True, nogil=True)
def weigh_patterns(log_group, log_rater, arrangement, groups):
    """Return the probabilities of the verdicts given pattern and truth, of some groups' patterns.

    Shape (patterns, classes, verdicts); other groups' are left empty.
    """
    _, _, pattern_start, pattern_cell, pattern_group = arrangement
    cells, log_cells = by_cell(log_rater)
    outer = np.exp(log_group)
    n_groups, n_classes, _ = outer.shape
    wanted = np.zeros(n_groups, dtype=np.bool_)
    wanted[groups] = True
    posterior = np.empty((pattern_group.size, n_classes, n_classes))
    message = np.empty(n_classes)
    for p in range(pattern_group.size):
        g = pattern_group[p]
        if not wanted[g]:
            continue
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        for k in range(n_classes):
            weigh(log_group[g, k], outer[g, k], message, in_logs, posterior[p, k])
    return posterior


@njit(cache=True, nogil=True)
def add_posterior(
    log_group,
    log_rater,
    probability,
    row_start,
    row,
    pattern_start,
    pattern_cell,
    pattern_group,
    total,
):
    """Add to ``total`` (items, groups, verdicts) the probabilities of the verdicts.

    ``probability`` (items, classes) is that of the labels. Where nobody of a group answered, the
    verdict is known through the truth alone.
    """
    arrangement = row_start, row, pattern_start, pattern_cell, pattern_group
    outer = np.exp(log_group)
    n_groups, n_classes, _ = outer.shape
    n_cells = log_rater.shape[0] * log_rater.shape[2]
    posterior = weigh_patterns(log_group, log_rater, arrangement, np.arange(n_groups))
    answered = np.full(n_groups, -1)
    for n in range(row_start.size - 1):
        for r in range(row_start[n], row_start[n + 1]):
            if row[r] < n_cells:
                continue
            p = row[r] - n_cells
            answered[pattern_group[p]] = n
            for k in range(n_classes):
                for v in range(n_classes):
                    total[n, pattern_group[p], v] += probability[n, k] * posterior[p, k, v]
        for g in range(n_groups):
            if answered[g] != n:
                for k in range(n_classes):
                    for v in range(n_classes):
                        total[n, g, v] += probability[n, k] * outer[g, k, v]
