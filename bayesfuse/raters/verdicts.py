"""Kernels of the latent-group channel: latent verdicts summed out, weighted and drawn.

Responses are arranged by ``group_patterns.py``: items are lists of rows of a table, for cells and
for patterns of groups; those of patterns are computed here.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.numerics.kernels import TINY, inlined, inner, kernel
from bayesfuse.raters.confusion import (
    begin_with_cells,
    by_cell,
    by_rater,
    count_rows,
    multiply,
    multiply_rows,
    weigh_rows,
)

# ---------------------------------------------------------------- verdicts of one pattern

# Probabilities are multiplied, because sums over verdicts of logarithms need exponentials. Patterns
# whose products become too small are computed in logarithms. The usual case is written out in every
# loop, because a call with arrays as arguments takes longer than the computation.


@inner
def join_in_logs(log_rows, i, message, in_logs, weight):
    """Fill in p(pattern, verdict | truth) / exp(scale); return the scale and the sum.

    ``message`` is p(pattern | verdict) or its logarithm. If the pattern is impossible, the scale is
    −inf and the sum zero.
    """
    top, total = -np.inf, 0.0
    for v in range(weight.size):
        weight[v] = log_rows[i, v] + (message[v] if in_logs else math.log(message[v]))
        top = max(top, weight[v])
    for v in range(weight.size):
        weight[v] = math.exp(weight[v] - top) if top > -np.inf else 0.0
        total += weight[v]
    return top, total


@inner
def weigh(log_rows, rows, i, message, in_logs, weight):
    """Fill in the verdicts' probabilities given a truth; return log p(pattern | truth)."""
    scale, total = 0.0, 0.0
    if not in_logs:
        for v in range(weight.size):
            weight[v] = rows[i, v] * message[v]
            total += weight[v]
    if total < TINY:
        scale, total = join_in_logs(log_rows, i, message, in_logs, weight)
        if total == 0.0:
            return scale
    share = 1.0 / total
    for v in range(weight.size):
        weight[v] *= share
    return scale + math.log(total)


@inner
def by_truth(table):
    """Return (groups × classes, verdicts) from (groups, classes, verdicts): a row per truth."""
    return np.ascontiguousarray(table).reshape(-1, table.shape[2])


@inner
def all_rows(log_group, log_rater, patterns):
    """Return the table of cells and p(pattern | truth), and the logarithms that are needed."""
    pattern_start, pattern_cell, pattern_group = patterns
    n_raters, n_classes, n_labels = log_rater.shape
    n_cells = n_raters * n_labels
    table, log_table = begin_with_cells(log_rater, n_cells + pattern_group.size)
    log_outer = by_truth(log_group)
    outer = np.exp(log_outer)
    message, in_logs = multiply(table, log_table, pattern_start, pattern_cell)
    weight = np.empty(n_classes)
    for p in range(pattern_group.size):
        row = n_cells + p
        for k in range(n_classes):
            i, total = np.int64(pattern_group[p]) * n_classes + k, 0.0
            if not in_logs[p]:
                for v in range(n_classes):
                    total += outer[i, v] * message[p, v]
            log_table[row, k] = 0.0
            if total < TINY:
                log_table[row, k] = weigh(log_outer, outer, i, message[p], in_logs[p], weight)
                total = math.exp(log_table[row, k])
            table[row, k] = total
    return table, log_table


@inner
def split(number, weight, total, rng, parts):
    """Draw multinomial counts; how many random numbers this takes does not depend on rounding."""
    last = weight.size - 1
    while last > 0 and weight[last] == 0.0:
        parts[last] = 0.0
        last -= 1
    left, rest = np.int64(number), total
    for v in range(last):
        part = np.int64(0)
        if left > 0 and weight[v] > 0.0:
            share = weight[v] / max(rest, weight[v])
            part = np.int64(rng.random() < share) if left == 1 else rng.binomial(left, share)
        parts[v] = part
        left -= part
        rest -= weight[v]
    parts[last] = left


# ---------------------------------------------------------------- kernels


@kernel
def likelihood(
    log_group, log_rater, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the verdicts out: (items, classes), and the rows' log scale."""
    patterns = pattern_start, pattern_cell, pattern_group
    table, log_table = all_rows(log_group, log_rater, patterns)
    return multiply_rows(table, log_table, row_start, row, gold)


@kernel
def expected(
    log_group, log_rater, weight, row_start, row, pattern_start, pattern_cell, pattern_group, gold
):
    """Sum the weights of every item into the entries that its truth and its verdicts use."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    used = weigh_rows(n_rows, weight, row_start, row)
    patterns = pattern_start, pattern_cell, pattern_group
    return share(log_group, log_rater, used, patterns, None)


@kernel
def count(
    log_group, log_rater, drawn, row_start, row, pattern_start, pattern_cell, pattern_group, rng
):
    """Draw the verdicts given the labels (items,), or numbers (items, classes), and count."""
    n_rows = log_rater.shape[0] * log_rater.shape[2] + pattern_group.size
    if drawn.ndim == 2:
        used = weigh_rows(n_rows, drawn, row_start, row)
    else:
        used = count_rows(n_rows, log_rater.shape[1], drawn, row_start, row)
    patterns = pattern_start, pattern_cell, pattern_group
    return share(log_group, log_rater, used, patterns, rng)


@inlined
def share(log_group, log_rater, used, patterns, rng):
    """Divide counts of rows (rows, classes) among verdicts: expected or, with an ``rng``, drawn.

    Given the truth, items with the same pattern are exchangeable, so only numbers are drawn.
    """
    cells, log_cells = by_cell(log_rater)
    log_outer, n_cells = by_truth(log_group), cells.shape[0]
    message, in_logs = multiply(cells, log_cells, patterns[0], patterns[1])
    cell_counts = used[:n_cells].copy()
    outer_counts, _ = pass_on(
        log_outer, message, in_logs, used[n_cells:], patterns, cell_counts, rng
    )
    return outer_counts.reshape(log_group.shape), by_rater(cell_counts, log_rater.shape[0])


@inner
def pass_on(log_outer, message, in_logs, used, patterns, cell_counts, rng):
    """Divide counts of patterns (patterns, classes) among verdicts; add to ``cell_counts``.

    Returns counts (groups × classes, verdicts) and, of expected counts, the log-likelihood.
    """
    pattern_start, pattern_cell, pattern_group = patterns
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
            i, scale, total = np.int64(pattern_group[p]) * n_classes + k, 0.0, 0.0
            if not in_logs[p]:
                for v in range(n_classes):
                    weight[v] = outer[i, v] * message[p, v]
                    total += weight[v]
            if total < TINY:
                scale, total = join_in_logs(log_outer, i, message[p], in_logs[p], weight)
            if rng is None:
                if total > 0.0:
                    number /= total
                for v in range(n_classes):
                    through[v] += number * weight[v]
                    outer_counts[i, v] += number * weight[v]
                log_lik += used[p, k] * (scale + math.log(total))
            elif number == 1.0:  # as split(), because most patterns may have one item
                left, up_to, v = rng.random() * total, weight[0], 0
                while v < n_classes - 1 and up_to <= left:
                    v += 1
                    up_to += weight[v]
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
    """Add the probabilities of the verdicts to ``total`` (items, groups, verdicts).

    A verdict of a group without responses to an item is informed by the truth only.
    """
    cells, log_cells = by_cell(log_rater)
    log_outer = by_truth(log_group)
    outer = np.exp(log_outer)
    n_cells, n_classes = cells.shape
    message, in_logs = multiply(cells, log_cells, pattern_start, pattern_cell)
    posterior = np.empty((pattern_group.size, n_classes, n_classes))
    for p in range(pattern_group.size):
        for k in range(n_classes):
            i = np.int64(pattern_group[p]) * n_classes + k
            weigh(log_outer, outer, i, message[p], in_logs[p], posterior[p, k])
    n_groups = log_group.shape[0]
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
                        total[n, g, v] += probability[n, k] * outer[g * n_classes + k, v]
