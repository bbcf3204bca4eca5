"""Kernels for the weight of a set of raters with a common verdict, rows integrated out.

Given the labels y, the joint density of a set S with verdicts z is

    p(x_S, z | y) = DM(z | y) Π_{m ∈ S} DM(x_m | z),

where DM is the Dirichlet–multinomial of the integrated rows. Verdicts are proposed from
q(z) = Π p(z_n | x_S, y, rows fitted to x_S and y by EM). The fit depends only on x_S and y, so the
weight p / q is valid for current and proposed sets; it varies little with z.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import fill, inlined, inner
from bayesfuse.numerics.rows import split
from bayesfuse.raters.confusion import by_rater, multiply
from bayesfuse.raters.verdicts import number_patterns, pass_on, weigh

STEPS = 20, 100  # most EM steps, for many patterns and for few
PATTERNS = 50_000  # most patterns in all EM steps together, if more than the first of those limits

GAIN = 0.1
"""Gain in log-likelihood that ends EM: it hardly changes a Metropolis ratio.

With a hundredth, up to a sixth more moves are accepted, but they take half as long again.
"""


class Answers(NamedTuple):
    """Words of cells, scratch, labels (items,) or (items, classes), responses by item and rater."""

    words: NDArray[np.uint64]
    marks: NDArray[np.uint64]
    drawn: NDArray[Any]
    start: NDArray[np.uint32]
    cell: NDArray[np.uint32]
    rater_start: NDArray[np.uint32]
    rater_item: NDArray[np.uint32]
    rater_label: NDArray[np.uint16]


@inlined
def sizes(assignment, n_groups):
    """Count the raters of every group."""
    size = np.zeros(n_groups, dtype=np.int64)
    for group in assignment:
        if group >= 0:
            size[group] += 1
    return size


@inner
def log_dirichlet_multinomial(counts, concentration):
    """Log probability of a sequence with these counts by row, rows integrated out."""
    total = 0.0
    for i in range(counts.shape[0]):
        n, alpha = 0.0, 0.0
        for j in range(counts.shape[1]):
            n += counts[i, j]
            alpha += concentration[i, j]
            if counts[i, j] > 0.0:
                total += math.lgamma(concentration[i, j] + counts[i, j])
                total -= math.lgamma(concentration[i, j])
        if n > 0.0:
            total += math.lgamma(alpha) - math.lgamma(alpha + n)
    return total


@inner
def add_item(counts, row, drawn, n):
    """Add the label of an item, or the labels of a merged item, to a row of counts."""
    if drawn.ndim == 1:
        counts[row, np.uint64(drawn[n])] += 1.0
    else:
        for k in range(drawn.shape[1]):
            counts[row, k] += drawn[n, k]


@inlined
def count_labels(m, answers, n_classes, n_labels):
    """Count the labels of a rater by the items' classes (classes, labels)."""
    drawn, rater_start = answers.drawn, answers.rater_start
    rater_item, rater_label = answers.rater_item, answers.rater_label
    counts = np.zeros((n_labels, n_classes))
    for r in range(rater_start[m], rater_start[m + 1]):
        add_item(counts, rater_label[r], drawn, rater_item[r])
    return np.ascontiguousarray(counts.T)


@inlined
def patterns_of(members, answers, n_classes, n_labels):
    """Return first cells, cells (numbered among members) and items (patterns, classes)."""
    drawn, start, cell, words = answers.drawn, answers.start, answers.cell, answers.words
    rater_start, rater_item = answers.rater_start, answers.rater_item
    rater_label, marks = answers.rater_label, answers.marks
    place = np.full((rater_start.size - 1), -1)
    for i in range(members.size):
        place[members[i]] = i
    n_answers = np.int64(0)
    for m in members:
        n_answers += np.int64(rater_start[m + 1]) - np.int64(rater_start[m])
    met = np.empty(n_answers, dtype=np.int64)
    n_met = 0
    for m in members:
        for r in range(rater_start[m], rater_start[m + 1]):
            n = rater_item[r]
            if marks[n] == 0:
                met[n_met] = n
                n_met += 1
            marks[n] += words[m * n_labels + rater_label[r]]
    mark = np.empty(n_met, dtype=np.uint64)
    for i in range(n_met):
        mark[i] = marks[met[i]]
        marks[met[i]] = 0
    number, first = number_patterns(mark)
    used = np.zeros((first.size, n_classes))
    for i in range(n_met):
        add_item(used, number[i], drawn, met[i])
    n_cells = 0
    for i in first:
        for r in range(start[met[i]], start[met[i] + 1]):
            n_cells += place[cell[r] // n_labels] >= 0
    pattern_start = np.zeros(first.size + 1, dtype=np.uint32)
    pattern_cell = np.empty(n_cells, dtype=np.uint32)
    at = 0
    for p in range(first.size):
        n = met[first[p]]
        for r in range(start[n], start[n + 1]):
            m = place[cell[r] // n_labels]
            if m >= 0:
                pattern_cell[at] = m * n_labels + cell[r] % n_labels
                at += 1
        pattern_start[p + 1] = at
    return pattern_start, pattern_cell, used


@inner
def means(counts, concentration, row, log_row):
    """Fill in posterior mean rows (rows, entries) and their logarithms."""
    for i in range(counts.shape[0]):
        total = 0.0
        for j in range(counts.shape[1]):
            row[i, j] = counts[i, j] + concentration[i, j]
            total += row[i, j]
        for j in range(counts.shape[1]):
            row[i, j] /= total
            log_row[i, j] = math.log(row[i, j])


@inner
def to_cells(rows, table):
    """Rearrange (members × classes, labels) to (members × labels, classes)."""
    n_classes, n_labels = table.shape[1], rows.shape[1]
    for i in range(rows.shape[0]):
        for c in range(n_labels):
            table[i // n_classes * n_labels + c, i % n_classes] = rows[i, c]


@inlined
def fit(pattern_start, pattern_cell, used, prior_outer, prior_inner):
    """Fit rows from truth to verdict, and the cells' table, by EM; return both with logarithms."""
    n_classes, n_labels = prior_outer.shape[0], prior_inner.shape[1]
    n_cells = prior_inner.shape[0] // n_classes * n_labels
    outer, log_outer = np.full((n_classes, n_classes), 1.0 / n_classes), np.empty_like(prior_outer)
    log_outer[:] = -math.log(n_classes)
    inner, log_inner = np.empty_like(prior_inner), np.empty_like(prior_inner)
    table, log_table = np.empty((n_cells, n_classes)), np.empty((n_cells, n_classes))
    inner_counts, cell_counts = np.zeros_like(prior_inner), np.empty_like(table)
    means(inner_counts, prior_inner, inner, log_inner)
    group = np.zeros(used.shape[0], dtype=np.int32)
    before = -np.inf
    for _ in range(min(max(STEPS[0], PATTERNS // max(used.shape[0], 1)), STEPS[1])):
        to_cells(inner, table)
        to_cells(log_inner, log_table)
        cell_counts[:] = 0.0
        message, in_logs = multiply(table, log_table, pattern_start, pattern_cell)
        patterns = pattern_start, pattern_cell, group
        outer_counts, total = pass_on(
            log_outer, message, in_logs, used, patterns, cell_counts, None
        )
        if abs(total - before) < GAIN:
            break
        before = total
        fill(inner_counts, by_rater(cell_counts, prior_inner.shape[0] // n_classes))
        means(outer_counts, prior_outer, outer, log_outer)
        means(inner_counts, prior_inner, inner, log_inner)
    return outer, log_outer, table, log_table


@inner
def weigh_set(members, group, answers, point, rng):
    """Draw verdicts, at current rows of a ``group`` (−1: from q); return log weight and counts."""
    prior_outer, concentration_rater = point.prior_outer, point.concentration_rater
    log_outer_now, log_rater_now = point.log_group[max(group, 0)], point.log_rater
    n_classes, n_labels = concentration_rater.shape[1:]
    prior_inner = concentration_rater[members].reshape(-1, n_labels)
    now_inner = log_rater_now[members].reshape(-1, n_labels)
    pattern_start, pattern_cell, used = patterns_of(members, answers, n_classes, n_labels)
    rows = fit(pattern_start, pattern_cell, used, prior_outer, prior_inner)
    outer, log_outer, table, log_table = rows
    now_log_table = np.empty_like(log_table)
    to_cells(now_inner, now_log_table)
    now_table, now_outer = np.exp(now_log_table), np.exp(log_outer_now)
    outer_counts = np.zeros((n_classes, n_classes))
    cell_counts = np.zeros_like(table)
    message, in_logs = multiply(table, log_table, pattern_start, pattern_cell)
    now_message, now_in_logs = message, in_logs
    if group >= 0:
        now_message, now_in_logs = multiply(now_table, now_log_table, pattern_start, pattern_cell)
    weight, chance, parts = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    log_q = 0.0
    for p in range(used.shape[0]):
        for k in range(n_classes):
            if used[p, k] == 0.0:
                continue
            weigh(log_outer, outer, k, message[p], in_logs[p], weight)
            fill(chance, weight)
            if group >= 0:
                weigh(log_outer_now, now_outer, k, now_message[p], now_in_logs[p], chance)
            split(used[p, k], chance, 1.0, rng, parts)
            for v in range(n_classes):
                if parts[v] != 0.0:
                    log_q += parts[v] * math.log(max(weight[v], 1e-300))
                    outer_counts[k, v] += parts[v]
                    for r in range(pattern_start[p], pattern_start[p + 1]):
                        cell_counts[pattern_cell[r], v] += parts[v]
    inner_counts = by_rater(cell_counts, members.size)
    log_weight = log_dirichlet_multinomial(outer_counts, prior_outer) - log_q
    for i in range(members.size):
        log_weight += log_dirichlet_multinomial(inner_counts[i], concentration_rater[members[i]])
    return log_weight, outer_counts, inner_counts
