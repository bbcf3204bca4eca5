"""Kernels of the latent-group channel: latent verdicts summed out, weighted and drawn.

Items share patterns, the cells of a group's responses, so verdicts are computed once per pattern.
The rows of a table are the cells, for raters in no group, and then the patterns; an item is a list
of rows, for the kernels of independent raters.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import fill, inlined, inner, kernel, rescale
from bayesfuse.numerics.rows import pick, share_out, split
from bayesfuse.raters.confusion import by_cell, by_rater, multiply, scaled, weigh_rows


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
    at, sorted_cells = start.copy(), np.empty_like(cell)
    for r in by_group:
        sorted_cells[at[item[r]]] = cell[r]
        at[item[r]] += 1
    return sorted_cells


@inner
def number_patterns(mark):
    """Number equal marks (sums of random words) alike; return numbers and first occurrences."""
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


# Probabilities are multiplied, because sums over verdicts of logarithms need exponentials. Patterns
# whose products become too small are multiplied relative to their most probable verdict.


@inner
def verdict_likelihood(table, log_table, pattern_start, pattern_cell):
    """Return p(pattern | verdict) up to a factor, and the logarithm of the factor."""
    message, in_logs = multiply(table, log_table, pattern_start, pattern_cell)
    log_scale = np.zeros(in_logs.size)
    for p in range(in_logs.size):
        if in_logs[p]:
            log_scale[p] = rescale(message, p)
    return message, log_scale


@inlined
def weigh(outer, i, message, p, weight):
    """Fill in p(pattern, verdict | truth), and return their sum."""
    total = 0.0
    for v in range(weight.size):
        weight[v] = outer[i, v] * message[p, v]
        total += weight[v]
    return total


@kernel
def likelihood(
    log_group, log_rater, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the verdicts out: (items, classes), and the rows' log scale."""
    table, log_table = by_cell(log_rater, pattern_group.size)
    n_cells, n_classes = table.shape[0] - pattern_group.size, table.shape[1]
    # a row per group and truth
    outer = np.exp(np.ascontiguousarray(log_group).reshape(-1, n_classes))
    message, log_scale = verdict_likelihood(table, log_table, pattern_start, pattern_cell)
    weight = np.empty(n_classes)
    for p in range(pattern_group.size):
        at, scale = n_cells + p, log_scale[p]
        for k in range(n_classes):
            total = weigh(outer, np.int64(pattern_group[p]) * n_classes + k, message, p, weight)
            table[at, k] = total * math.exp(scale)
            # computed only where products underflow
            log_table[at, k] = scale + math.log(total) if scale != 0.0 else 0.0
    product, lost = multiply(table, log_table, row_start, row)
    return scaled(product, lost, gold, 0.0)


@kernel
def expected(log_group, log_rater, weight, *structure):
    """Sum the weights of every item into the entries that its truth and its verdicts use."""
    return count(log_group, log_rater, weight, None, *structure)


@kernel
def count(log_group, log_rater, labels, rng, row_start, row, *patterns):
    """Draw (or without ``rng`` weigh) verdicts, and count; ``labels`` as for :func:`weigh_rows`."""
    patterns = patterns[:3]  # without the known classes
    cells, log_cells = by_cell(log_rater, 0)
    n_cells, n_classes = cells.shape
    log_outer = np.ascontiguousarray(log_group).reshape(-1, n_classes)
    used = weigh_rows(n_cells + patterns[2].size, n_classes, labels, row_start, row)
    messages = verdict_likelihood(cells, log_cells, patterns[0], patterns[1])
    cell_counts = used[:n_cells].copy()
    outer_counts, _ = divide_patterns(
        log_outer, messages, used[n_cells:], patterns, cell_counts, rng
    )
    return outer_counts.reshape(log_group.shape), by_rater(cell_counts, log_rater.shape[0])


@inner
def divide_patterns(log_outer, messages, used, patterns, cell_counts, rng):
    """Divide counts of patterns among verdicts; return these and an expected log-likelihood."""
    pattern_start, pattern_cell, pattern_group = patterns
    message, log_scale = messages
    n_patterns, n_classes = used.shape
    outer, outer_counts = np.exp(log_outer), np.zeros_like(log_outer)
    weight, parts, through = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    log_lik = 0.0
    for p in range(n_patterns):
        through[:] = 0.0
        for k in range(n_classes):
            number = used[p, k]
            if number == 0.0:
                continue
            i = np.int64(pattern_group[p]) * n_classes + k
            total = weigh(outer, i, message, p, weight)
            if rng is None:
                if total > 0.0:
                    number /= total
                for v in range(n_classes):
                    through[v] += number * weight[v]
                    outer_counts[i, v] += number * weight[v]
                log_lik += used[p, k] * (log_scale[p] + math.log(total))
            elif number == 1.0:  # faster than split(), because most patterns may have one item
                v = pick(weight, rng.random() * total)
                through[v] += 1.0
                outer_counts[i, v] += 1.0
            else:
                split(number, weight, total, rng, parts)
                for v in range(n_classes):
                    through[v] += parts[v]
                    outer_counts[i, v] += parts[v]
        for v in range(n_classes):
            if through[v] != 0.0:
                for r in range(pattern_start[p], pattern_start[p + 1]):
                    cell_counts[pattern_cell[r], v] += through[v]
    return outer_counts, log_lik


@kernel
def verdict_likelihoods(log_rater, arrangement):
    """Return p(pattern | verdict), with a last row of ones for items without responses."""
    messages, _ = verdict_likelihood(*by_cell(log_rater, 0), arrangement[2], arrangement[3])
    message = np.ones((messages.shape[0] + 1, messages.shape[1]))
    fill(message[:-1], messages)
    return message


@inner
def pattern_of(n, g, row_start, row, pattern_group, n_cells):
    """Return the pattern of a group for an item, or the number of patterns if there is none."""
    at = np.int64(row_start[n + 1])
    while at > row_start[n] and row[at - 1] >= n_cells:  # patterns come last
        at -= 1
        pattern = np.int64(row[at]) - n_cells
        if pattern_group[pattern] == g:
            return pattern
    return pattern_group.size


@kernel
def draw_verdicts(g, log_group, message, drawn, arrangement, n_cells, rng, verdict):
    """Draw a group's verdicts on all items; return counts by truth (classes, verdicts).

    If labels are numbers by class, verdicts are numbers, too: expected ones without ``rng``.
    """
    row_start, row, _, _, pattern_group = arrangement
    outer = np.exp(log_group[g])
    n_classes = outer.shape[0]
    counts = np.zeros((n_classes, n_classes))
    weight, parts = np.empty(n_classes), np.empty(n_classes)
    for n in range(row_start.size - 1):
        pattern = pattern_of(n, g, row_start, row, pattern_group, n_cells)
        if drawn.ndim == 1:
            k, of_item, up_to = drawn[n], 0, 0.0
            left = rng.random() * weigh(outer, k, message, pattern, weight)
            for v in range(n_classes - 1):  # branches would be mispredicted
                up_to += weight[v]
                of_item += up_to <= left
            verdict[n] = of_item
            counts[k, of_item] += 1.0
        else:
            verdict[n] = 0.0
            for k in range(n_classes):
                if drawn[n, k] != 0.0:
                    total = weigh(outer, k, message, pattern, weight)
                    share_out(drawn[n, k], weight, total, rng, parts)
                    for v in range(n_classes):
                        verdict[n, v] += parts[v]
                        counts[k, v] += parts[v]
    return counts


def add_verdicts(total, probability, log_group, log_rater, *arrangement):
    """Add probabilities of verdicts, with responses or without, (items, groups, verdicts)."""
    message = verdict_likelihoods(log_rater, arrangement)
    verdict, n_cells = np.empty(probability.shape), log_rater.shape[0] * log_rater.shape[2]
    for g in range(len(log_group)):
        draw_verdicts(g, log_group, message, probability, arrangement, n_cells, None, verdict)
        total[:, g] += verdict
