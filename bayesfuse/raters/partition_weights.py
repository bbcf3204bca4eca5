"""Kernels for the weight of a set of raters with a common verdict, rows integrated out.

Given the labels y, the joint density of a set S with verdicts z is p(x_S, z | y) = DM(z | y)
Π_{m ∈ S} DM(x_m | z), with the Dirichlet–multinomial of integrated rows. Verdicts are proposed from
q(z) = Π p(z_n | x_S, y, rows fitted to x_S and y by EM). The fit depends only on x_S and y, so the
weight p / q is valid for current and proposed sets; it varies little with z.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import inlined, inner, kernel
from bayesfuse.numerics.rows import split
from bayesfuse.raters.confusion import by_cell, by_rater
from bayesfuse.raters.verdicts import divide_patterns, number_patterns, verdict_likelihood, weigh

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


class Point(NamedTuple):
    """The current rows, and the Dirichlet concentrations of their priors."""

    prior_outer: NDArray[np.float64]
    concentration_rater: NDArray[np.float64]
    log_group: NDArray[np.float64]
    log_rater: NDArray[np.float64]


@kernel
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


@kernel
def count_labels(m, answers, shape):
    """Count the labels of a rater by the items' classes (classes, labels)."""
    counts = np.zeros((shape[1], shape[0]))
    for r in range(answers.rater_start[m], answers.rater_start[m + 1]):
        add_item(counts, answers.rater_label[r], answers.drawn, answers.rater_item[r])
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
def means(counts, concentration, log_row):
    """Fill in the logarithms of posterior mean rows (rows, entries)."""
    for i in range(counts.shape[0]):
        total = 0.0
        for j in range(counts.shape[1]):
            total += counts[i, j] + concentration[i, j]
        for j in range(counts.shape[1]):
            log_row[i, j] = math.log((counts[i, j] + concentration[i, j]) / total)


@inlined
def fit(patterns, used, prior_outer, prior_inner):
    """Fit log rows from truth to verdict, and from this to labels (members, …), by EM."""
    n_classes = prior_outer.shape[0]
    log_outer, log_inner = np.empty_like(prior_outer), np.empty_like(prior_inner)
    log_outer[:] = -math.log(n_classes)
    flat_prior = prior_inner.reshape(-1, prior_inner.shape[2])
    flat_log = log_inner.reshape(flat_prior.shape)
    before = -np.inf
    means(np.zeros_like(flat_prior), flat_prior, flat_log)
    for _ in range(min(max(STEPS[0], PATTERNS // max(used.shape[0], 1)), STEPS[1])):
        table, log_table = by_cell(log_inner, 0)
        messages = verdict_likelihood(table, log_table, patterns[0], patterns[1])
        cell_counts = np.zeros_like(table)
        outer_counts, total = divide_patterns(
            log_outer, messages, used, patterns, cell_counts, None
        )
        if abs(total - before) < GAIN:
            break
        before = total
        means(outer_counts, prior_outer, log_outer)
        inner_counts = by_rater(cell_counts, prior_inner.shape[0])
        means(inner_counts.reshape(flat_prior.shape), flat_prior, flat_log)
    return log_outer, log_inner


@kernel
def weigh_set(members, group, answers, point, rng):
    """Draw verdicts, at current rows of a ``group`` (−1: from q); return log weight and counts."""
    prior_outer, prior_inner = point.prior_outer, point.concentration_rater[members]
    n_classes, n_labels = prior_inner.shape[1:]
    pattern_start, pattern_cell, used = patterns_of(members, answers, n_classes, n_labels)
    patterns = pattern_start, pattern_cell, np.zeros(used.shape[0], dtype=np.int32)
    log_outer, log_inner = fit(patterns, used, prior_outer, prior_inner)
    outer, now_outer = np.exp(log_outer), np.exp(point.log_group[max(group, 0)])
    outer_counts = np.zeros((n_classes, n_classes))
    table, log_table = by_cell(log_inner, 0)
    cell_counts = np.zeros_like(table)
    message, _ = verdict_likelihood(table, log_table, pattern_start, pattern_cell)
    now_message = message
    if group >= 0:
        table, log_table = by_cell(point.log_rater[members], 0)
        now_message, _ = verdict_likelihood(table, log_table, pattern_start, pattern_cell)
    weight, chance, parts = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    log_q = 0.0
    for p in range(used.shape[0]):
        for k in range(n_classes):
            if used[p, k] == 0.0:
                continue
            total = weigh(outer, k, message, p, weight)
            if group >= 0:
                of_chances = weigh(now_outer, k, now_message, p, chance)
                split(used[p, k], chance, of_chances, rng, parts)
            else:
                split(used[p, k], weight, total, rng, parts)
            for v in range(n_classes):
                if parts[v] != 0.0:
                    log_q += parts[v] * math.log(max(weight[v] / total, 1e-300))
                    outer_counts[k, v] += parts[v]
                    for r in range(pattern_start[p], pattern_start[p + 1]):
                        cell_counts[pattern_cell[r], v] += parts[v]
    inner_counts = by_rater(cell_counts, members.size)
    log_weight = log_dirichlet_multinomial(outer_counts, prior_outer) - log_q
    for i in range(members.size):
        log_weight += log_dirichlet_multinomial(inner_counts[i], prior_inner[i])
    return log_weight, outer_counts, inner_counts
