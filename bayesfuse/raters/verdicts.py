"""Kernels of the latent-group channel: hidden verdicts summed out, weighed and drawn.

Responses are arranged by ``patterns.py``: items name rows of a table, those of raters alone and
those of what a group says, and here the latter are filled in and taken apart.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.raters.confusion import by_cell, by_rater, count_rows, multiply_rows, weigh_rows
from bayesfuse.simplex import TINY, inner, kernel

# ---------------------------------------------------------------- verdicts of one pattern

# Probabilities are multiplied, not their logarithms added, because sums over verdicts would need
# exponentials. Where a product becomes too small for that, the pattern is taken in logarithms.


@inner
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


@inner
def weigh(log_rows, rows, i, message, in_logs, weight):
    """Fill in the probabilities of the verdicts given a truth, and return log p(pattern | truth).

    Row ``i`` says how probable verdicts are before. Zeros and −inf where the pattern is impossible.
    """
    top, total = 0.0, 0.0
    if not in_logs:
        for v in range(weight.size):
            weight[v] = rows[i, v] * message[v]
            total += weight[v]
    if total < TINY:
        top = -np.inf
        for v in range(weight.size):
            weight[v] = log_rows[i, v] + (message[v] if in_logs else math.log(message[v]))
            top = max(top, weight[v])
        if top == -np.inf:
            weight[:] = 0.0
            return top
        total = 0.0
        for v in range(weight.size):
            weight[v] = math.exp(weight[v] - top)
            total += weight[v]
    share = 1.0 / total
    for v in range(weight.size):
        weight[v] *= share
    return top + math.log(total)


@inner
def by_truth(table):
    """Return (groups × classes, verdicts) from (groups, classes, verdicts): a row per truth."""
    return np.ascontiguousarray(table).reshape(-1, table.shape[2])


@inner
def all_rows(log_group, log_rater, pattern_start, pattern_cell, pattern_group):
    """Return the table of all rows, the cells' and then p(pattern | truth), and its logarithm."""
    cells, log_cells = by_cell(log_rater)
    log_outer = by_truth(log_group)
    outer = np.exp(log_outer)
    n_cells, n_classes = cells.shape
    table = np.empty((n_cells + pattern_group.size, n_classes))
    log_table = np.empty_like(table)
    table[:n_cells], log_table[:n_cells] = cells, log_cells
    message, weight = np.empty(n_classes), np.empty(n_classes)
    for p in range(pattern_group.size):
        g, row = np.int64(pattern_group[p]), n_cells + p
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        for k in range(n_classes):
            total = 0.0
            if not in_logs:
                for v in range(n_classes):
                    total += outer[g * n_classes + k, v] * message[v]
            if total >= TINY:  # as nearly always: what is left of weighing
                table[row, k], log_table[row, k] = total, math.log(total)
                continue
            i = g * n_classes + k
            log_table[row, k] = weigh(log_outer, outer, i, message, in_logs, weight)
            table[row, k] = math.exp(log_table[row, k])
    return table, log_table


@inner
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


@inner
def pass_on(through, cell, first, last, counts):
    """Add how many copies of a pattern got each verdict to the counts of its cells."""
    for v in range(through.size):
        if through[v] != 0.0:
            for r in range(first, last):
                counts[cell[r], v] += through[v]


# ---------------------------------------------------------------- kernels


@kernel
def likelihood(
    log_group, log_rater, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the verdicts out: (items, classes), and the rows' log scale."""
    table, log_table = all_rows(log_group, log_rater, pattern_start, pattern_cell, pattern_group)
    return multiply_rows(table, log_table, row_start, row, gold)


@kernel
def expected(
    log_group, log_rater, weight, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the weights of every item into the entries that its truth and its verdicts use."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = weigh_rows(n_rows, weight, row_start, row)
    return share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, None)


@inner
def share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng):
    """Share how often every row was used with every label, (rows, classes), among verdicts.

    Returns the counts of group and rater entries: expected ones, or if there is an ``rng``, drawn.
    Given the truth, items with the same pattern have the same chances, and only how many of them
    drew each verdict matters.
    """
    cells, log_cells = by_cell(log_rater)
    log_outer = by_truth(log_group)
    outer = np.exp(log_outer)
    n_cells, n_classes = cells.shape
    group_counts, rater_counts = np.zeros_like(log_group), used[:n_cells].copy()
    message, weight = np.empty(n_classes), np.empty(n_classes)
    parts, through = np.empty(n_classes), np.empty(n_classes)
    for p in range(pattern_group.size):
        g = np.int64(pattern_group[p])
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        through[:] = 0.0
        for k in range(n_classes):
            if used[n_cells + p, k] == 0.0:
                continue
            weigh(log_outer, outer, g * n_classes + k, message, in_logs, weight)
            if rng is None:
                for v in range(n_classes):
                    parts[v] = used[n_cells + p, k] * weight[v]
            else:
                split(used[n_cells + p, k], weight, rng, parts)
            for v in range(n_classes):
                group_counts[g, k, v] += parts[v]
                through[v] += parts[v]
        pass_on(through, pattern_cell, first, last, rater_counts)
    return group_counts, by_rater(rater_counts, log_rater.shape[0])


@kernel
def count(
    log_group, log_rater, labels, row_start, row, pattern_start, pattern_cell, pattern_group, rng
):
    """Draw the verdicts given the labels (items,), and count what labels and verdicts use."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = count_rows(n_rows, log_rater.shape[1], labels, row_start, row)
    return share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng)


@kernel
def count_copies(
    log_group, log_rater, drawn, row_start, row, pattern_start, pattern_cell, pattern_group, rng
):
    """Do the same where an item stands for several: ``drawn`` (items, classes) of each class."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = weigh_rows(n_rows, drawn, row_start, row)
    return share(log_group, log_rater, used, pattern_start, pattern_cell, pattern_group, rng)


@inner
def weigh_patterns(log_group, log_rater, arrangement, groups):
    """Return the probabilities of the verdicts given pattern and truth, of some groups' patterns.

    Shape (patterns, classes, verdicts); other groups' are left empty.
    """
    _, _, pattern_start, pattern_cell, pattern_group = arrangement
    cells, log_cells = by_cell(log_rater)
    log_outer = by_truth(log_group)
    outer = np.exp(log_outer)
    n_groups, n_classes, _ = log_group.shape
    wanted = np.zeros(n_groups, dtype=np.bool_)
    wanted[groups] = True
    posterior = np.empty((pattern_group.size, n_classes, n_classes))
    message = np.empty(n_classes)
    for p in range(pattern_group.size):
        g = np.int64(pattern_group[p])
        if not wanted[g]:
            continue
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_cells, cells, pattern_cell, first, last, message)
        for k in range(n_classes):
            weigh(log_outer, outer, g * n_classes + k, message, in_logs, posterior[p, k])
    return posterior


@kernel
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
