"""Kernels that draw which raters share a source, given the labels, with their rows summed out.

A set of raters S that shares a verdict has, given the labels y, the joint density

    p(x_S, z | y) = DM(z | y) Π_{m ∈ S} DM(x_m | z),

where DM is the Dirichlet–multinomial that is left when rows are summed out. The state of the chain
is the partition and the verdicts z. A move proposes a partition that differs in two sets and, for
the new sets, verdicts from q(z) = Π p(z_n | x_S, y, rows fitted to x_S and y by EM). As the fit
depends on nothing that the move changes, p / q weighs new sets and old ones alike, and the
Metropolis–Hastings ratio is that of the weights, the priors and the chances to propose.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from bayesfuse.raters.verdicts import listen, split, weigh

LEAVE = 0.5
"""How often a rater of a group proposes to be alone; else it proposes another group."""

STEPS = 20, 100
"""EM steps at most, for very many patterns and for few."""

PATTERNS = 50_000
"""Patterns looked at in all EM steps together before the first of those limits holds."""

GAIN = 0.01
"""Gain in log-likelihood that ends EM: a hundredth of a nat is nothing to a Metropolis ratio."""


@njit(cache=True, nogil=True)
def log_dirichlet_multinomial(counts, concentration):
    """Log probability of a sequence with these counts, row by row: its rows summed out."""
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


@njit(cache=True, nogil=True)
def count_labels(m, copies, rater_start, rater_item, rater_label, n_labels):
    """Count the labels of a rater by the items' classes (classes, labels)."""
    n_classes = copies.shape[1]
    counts = np.zeros((n_classes, n_labels))
    for r in range(rater_start[m], rater_start[m + 1]):
        for k in range(n_classes):
            counts[k, rater_label[r]] += copies[rater_item[r], k]
    return counts


@njit(cache=True, nogil=True)
def patterns_of(
    members, copies, start, cell, rater_start, rater_item, rater_label, n_labels, words, marks
):
    """Merge the items on which a set of raters says the same.

    ``words`` are random and odd, one per cell; their sum over an item's cells tells patterns
    apart (a collision has odds of one in 2⁶³ per pair). ``marks`` (items,) is zero, before and
    after.

    Returns where the cells of every pattern begin, the cells (numbered among the members), and
    how many items of every class show the pattern (patterns, classes).
    """
    place = np.full((rater_start.size - 1), -1)
    place[members] = np.arange(members.size)
    n_met = 0
    for m in members:
        n_met += np.int64(rater_start[m + 1]) - np.int64(rater_start[m])
    met = np.empty(n_met, dtype=np.int64)
    n_met = 0
    for m in members:
        for r in range(rater_start[m], rater_start[m + 1]):
            n = rater_item[r]
            if marks[n] == 0:
                met[n_met] = n
                n_met += 1
            marks[n] += words[m * n_labels + rater_label[r]]
    size = 1
    while size < 2 * n_met:
        size *= 2
    slots = np.full(size, -1, dtype=np.int64)
    word_of = np.empty(n_met, dtype=np.uint64)
    shown_by = np.empty(n_met, dtype=np.int64)
    number = np.empty(n_met, dtype=np.int64)
    n_patterns, n_cells = 0, 0
    for i in range(n_met):
        n = met[i]
        word = marks[n]
        marks[n] = 0
        slot = np.int64(word & np.uint64(size - 1))
        while slots[slot] >= 0 and word_of[slots[slot]] != word:
            slot = (slot + 1) & (size - 1)
        if slots[slot] < 0:
            slots[slot] = n_patterns
            word_of[n_patterns] = word
            shown_by[n_patterns] = n
            n_patterns += 1
            for r in range(start[n], start[n + 1]):
                n_cells += place[cell[r] // n_labels] >= 0
        number[i] = slots[slot]
    used = np.zeros((n_patterns, copies.shape[1]))
    for i in range(n_met):
        for k in range(copies.shape[1]):
            used[number[i], k] += copies[met[i], k]
    pattern_start = np.zeros(n_patterns + 1, dtype=np.int64)
    pattern_cell = np.empty(n_cells, dtype=np.uint32)
    at = 0
    for p in range(n_patterns):
        n = shown_by[p]
        for r in range(start[n], start[n + 1]):
            m = place[cell[r] // n_labels]
            if m >= 0:
                pattern_cell[at] = m * n_labels + cell[r] % n_labels
                at += 1
        pattern_start[p + 1] = at
    return pattern_start, pattern_cell, used


@njit(cache=True, nogil=True)
def means(counts, concentration, row, log_row):
    """Fill in posterior mean rows (…, entries) and their logarithms, for arrays of two axes."""
    for i in range(counts.shape[0]):
        total = 0.0
        for j in range(counts.shape[1]):
            row[i, j] = counts[i, j] + concentration[i, j]
            total += row[i, j]
        for j in range(counts.shape[1]):
            row[i, j] /= total
            log_row[i, j] = math.log(row[i, j])


@njit(cache=True, nogil=True)
def to_cells(rows, table):
    """Rearrange (members × classes, labels) to (members × labels, classes)."""
    n_classes, n_labels = table.shape[1], rows.shape[1]
    for i in range(rows.shape[0]):
        for c in range(n_labels):
            table[i // n_classes * n_labels + c, i % n_classes] = rows[i, c]


@njit(cache=True, nogil=True)
def fit(pattern_start, pattern_cell, used, prior_outer, prior_inner):
    """Fit the rows of a set of raters who share a verdict to their patterns, by EM.

    ``prior_inner`` (members × classes, labels). Returns the rows from truth to verdict and the
    cells' table, each with its logarithm.
    """
    n_classes, n_labels = prior_outer.shape[0], prior_inner.shape[1]
    n_cells = prior_inner.shape[0] // n_classes * n_labels
    outer, log_outer = np.full((n_classes, n_classes), 1.0 / n_classes), np.empty_like(prior_outer)
    log_outer[:] = -math.log(n_classes)
    inner, log_inner = np.empty_like(prior_inner), np.empty_like(prior_inner)
    table, log_table = np.empty((n_cells, n_classes)), np.empty((n_cells, n_classes))
    outer_counts, inner_counts = np.zeros_like(prior_outer), np.zeros_like(prior_inner)
    means(inner_counts, prior_inner, inner, log_inner)
    message, weight, through = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    before = -np.inf
    for _ in range(min(max(STEPS[0], PATTERNS // max(used.shape[0], 1)), STEPS[1])):
        to_cells(inner, table)
        to_cells(log_inner, log_table)
        outer_counts[:] = 0.0
        inner_counts[:] = 0.0
        total = 0.0
        for p in range(used.shape[0]):
            first, last = pattern_start[p], pattern_start[p + 1]
            in_logs = listen(log_table, table, pattern_cell, first, last, message)
            through[:] = 0.0
            for k in range(n_classes):
                if used[p, k] == 0.0:
                    continue
                likelihood = weigh(log_outer[k], outer[k], message, in_logs, weight)
                total += used[p, k] * likelihood
                for v in range(n_classes):
                    outer_counts[k, v] += used[p, k] * weight[v]
                    through[v] += used[p, k] * weight[v]
            for r in range(first, last):
                m, c = pattern_cell[r] // n_labels, pattern_cell[r] % n_labels
                for v in range(n_classes):
                    inner_counts[m * n_classes + v, c] += through[v]
        if abs(total - before) < GAIN:
            break
        before = total
        means(outer_counts, prior_outer, outer, log_outer)
        means(inner_counts, prior_inner, inner, log_inner)
    return outer, log_outer, table, log_table


@njit(cache=True, nogil=True)
def weigh_set(
    members,
    concentration_outer,
    concentration_inner,
    current_outer,
    current_inner,
    is_current,
    copies,
    start,
    cell,
    rater_start,
    rater_item,
    rater_label,
    words,
    marks,
    rng,
):
    """Draw the verdicts of a set of raters, and return its log weight and the counts.

    The verdicts are drawn at the log rows ``current_…`` if the set ``is_current``, else from q.
    Counts are (classes, verdicts) and (members, classes, labels).
    """
    n_classes, n_labels = concentration_inner.shape[1:]
    prior_inner = np.empty((members.size * n_classes, n_labels))
    now_inner = np.empty_like(prior_inner)
    for i in range(members.size):
        for v in range(n_classes):
            prior_inner[i * n_classes + v] = concentration_inner[members[i], v]
            now_inner[i * n_classes + v] = current_inner[members[i], v]
    pattern_start, pattern_cell, used = patterns_of(
        members,
        copies,
        start,
        cell,
        rater_start,
        rater_item,
        rater_label,
        n_labels,
        words,
        marks,
    )
    outer, log_outer, table, log_table = fit(
        pattern_start, pattern_cell, used, concentration_outer, prior_inner
    )
    now_log_table = np.empty_like(log_table)
    to_cells(now_inner, now_log_table)
    now_table, now_outer = np.exp(now_log_table), np.exp(current_outer)
    outer_counts = np.zeros((n_classes, n_classes))
    inner_counts = np.zeros((members.size, n_classes, n_labels))
    message, weight, chance = np.empty(n_classes), np.empty(n_classes), np.empty(n_classes)
    now_message, parts = np.empty(n_classes), np.empty(n_classes, dtype=np.int64)
    log_q = 0.0
    for p in range(used.shape[0]):
        first, last = pattern_start[p], pattern_start[p + 1]
        in_logs = listen(log_table, table, pattern_cell, first, last, message)
        now_in_logs = False
        if is_current:
            now_in_logs = listen(now_log_table, now_table, pattern_cell, first, last, now_message)
        for k in range(n_classes):
            if used[p, k] == 0.0:
                continue
            weigh(log_outer[k], outer[k], message, in_logs, weight)
            chance[:] = weight
            if is_current:
                weigh(current_outer[k], now_outer[k], now_message, now_in_logs, chance)
            split(used[p, k], chance, rng, parts)
            for v in range(n_classes):
                if parts[v] == 0:
                    continue
                log_q += parts[v] * math.log(max(weight[v], 1e-300))
                outer_counts[k, v] += parts[v]
                for r in range(first, last):
                    m, c = pattern_cell[r] // n_labels, pattern_cell[r] % n_labels
                    inner_counts[m, v, c] += parts[v]
    log_weight = log_dirichlet_multinomial(outer_counts, concentration_outer) - log_q
    for i in range(members.size):
        log_weight += log_dirichlet_multinomial(inner_counts[i], concentration_inner[members[i]])
    return log_weight, outer_counts, inner_counts


@njit(cache=True, nogil=True)
def redraw(
    assignment,
    log_group,
    log_rater,
    group_counts,
    rater_counts,
    concentration_group,
    concentration_rater,
    log_alpha,
    moves,
    copies,
    start,
    cell,
    rater_start,
    rater_item,
    rater_label,
    words,
    rng,
):
    """Make Metropolis–Hastings moves of the assignment; the counts follow, in place.

    Groups keep their places while the chain moves: :func:`number_groups` renumbers them.
    Returns how many moves were accepted.
    """
    n_raters, n_classes, n_labels = concentration_rater.shape
    n_groups = log_group.shape[0]
    prior_outer = concentration_group[0]
    marks = np.zeros(start.size - 1, dtype=np.uint64)
    size = np.zeros(n_groups, dtype=np.int64)
    for m in range(n_raters):
        if assignment[m] >= 0:
            size[assignment[m]] += 1
    # log weights of raters alone and of groups; NaN: not yet worked out
    alone, together = np.full(n_raters, np.nan), np.full(n_groups, np.nan)
    alone_counts = np.zeros((n_raters, n_classes, n_labels))
    accepted = 0
    for _ in range(moves):
        h = np.int64(rng.random() * n_raters)
        source = assignment[h]
        s = 1 if source < 0 else size[source]
        target, t, partner = -1, 0, -1
        if source >= 0 and rng.random() < LEAVE:
            log_chance = math.log((s - 1) / (LEAVE * (n_raters - 1)))
        else:
            if s == n_raters:
                continue
            nth = np.int64(rng.random() * (n_raters - s))
            for m in range(n_raters):
                if m == h or (source >= 0 and assignment[m] == source):
                    continue
                if nth == 0:
                    partner = m
                    break
                nth -= 1
            target = assignment[partner]
            t = 1 if target < 0 else size[target]
            if source < 0:
                log_chance = math.log(LEAVE * (n_raters - 1) / t)
            else:
                log_chance = math.log((s - 1) * (n_raters - s) / (t * (n_raters - t - 1.0)))
        # a Chinese restaurant: α for every set, (size − 1)! for its seating
        log_ratio = log_chance + (math.lgamma(max(s - 1, 1)) - math.lgamma(s))
        log_ratio += math.lgamma(t + 1) - math.lgamma(max(t, 1))
        log_ratio += log_alpha * ((s > 1) - (t > 0))

        # ---- what stands now
        if source >= 0:
            if np.isnan(together[source]):
                own = np.flatnonzero(assignment == source)
                together[source], outer_counts, inner_counts = weigh_set(
                    own, prior_outer, concentration_rater, log_group[source], log_rater, True,
                    copies, start, cell, rater_start, rater_item, rater_label, words, marks, rng,
                )
                group_counts[source] = outer_counts
                for i in range(own.size):
                    rater_counts[own[i]] = inner_counts[i]
            log_ratio -= together[source]
        if target >= 0:
            if np.isnan(together[target]):
                own = np.flatnonzero(assignment == target)
                together[target], outer_counts, inner_counts = weigh_set(
                    own, prior_outer, concentration_rater, log_group[target], log_rater, True,
                    copies, start, cell, rater_start, rater_item, rater_label, words, marks, rng,
                )
                group_counts[target] = outer_counts
                for i in range(own.size):
                    rater_counts[own[i]] = inner_counts[i]
            log_ratio -= together[target]
        left = -1  # a partner left behind by the move
        if s == 2:
            for m in range(n_raters):
                if m != h and assignment[m] == source:
                    left = m
        for m in (h, left, partner):
            if m >= 0 and np.isnan(alone[m]):
                alone_counts[m] = count_labels(
                    m, copies, rater_start, rater_item, rater_label, n_labels
                )
                alone[m] = log_dirichlet_multinomial(alone_counts[m], concentration_rater[m])
        if source < 0:
            log_ratio -= alone[h]
        if target < 0 and partner >= 0:
            log_ratio -= alone[partner]

        # ---- what is proposed
        rest_weight, rest_outer = 0.0, np.empty((0, 0))
        rest_inner, rest = np.empty((0, 0, 0)), np.empty(0, dtype=np.int64)
        if left >= 0:
            rest_weight = alone[left]
        elif s > 2:
            rest = np.flatnonzero(assignment == source)
            rest = rest[rest != h]
            rest_weight, rest_outer, rest_inner = weigh_set(
                rest, prior_outer, concentration_rater, log_group[source], log_rater, False,
                copies, start, cell, rater_start, rater_item, rater_label, words, marks, rng,
            )
        new_weight, new_outer = 0.0, np.empty((0, 0))
        new_inner, new = np.empty((0, 0, 0)), np.empty(0, dtype=np.int64)
        slot = target
        if partner < 0:
            new_weight = alone[h]
        else:
            if target < 0:
                new = np.sort(np.array([h, partner]))
                slot = -1
                for g in range(n_groups):
                    if size[g] == 0 or (g == source and s == 2):
                        slot = g
                        break
                if slot < 0:
                    continue  # more groups than there may be
            else:
                new = np.sort(np.append(np.flatnonzero(assignment == target), h))
            new_weight, new_outer, new_inner = weigh_set(
                new, prior_outer, concentration_rater, log_group[slot], log_rater, False,
                copies, start, cell, rater_start, rater_item, rater_label, words, marks, rng,
            )
        log_ratio += rest_weight + new_weight
        if math.log(max(rng.random(), 1e-300)) >= log_ratio:
            continue

        accepted += 1
        if source >= 0:
            size[source] -= 1
            if left >= 0:
                size[source] = 0
                assignment[left] = -1
                rater_counts[left] = alone_counts[left]
                group_counts[source] = 0.0
                together[source] = np.nan
            else:
                group_counts[source] = rest_outer
                together[source] = rest_weight
                for i in range(rest.size):
                    rater_counts[rest[i]] = rest_inner[i]
        assignment[h] = -1
        if partner < 0:
            rater_counts[h] = alone_counts[h]
        else:
            size[slot] = new.size
            group_counts[slot] = new_outer
            together[slot] = new_weight
            for i in range(new.size):
                assignment[new[i]] = slot
                rater_counts[new[i]] = new_inner[i]
    return accepted


@njit(cache=True, nogil=True)
def by_raters(start, cell, n_raters, n_labels):
    """Sort the responses by rater: where each rater's begin, their items and labels."""
    rater_start = np.zeros(n_raters + 1, dtype=np.uint32)
    for r in range(cell.size):
        rater_start[cell[r] // n_labels + 1] += 1
    for m in range(n_raters):
        rater_start[m + 1] += rater_start[m]
    at = rater_start[:-1].copy()
    rater_item = np.empty(cell.size, dtype=np.uint32)
    rater_label = np.empty(cell.size, dtype=np.uint16)
    for n in range(start.size - 1):
        for r in range(start[n], start[n + 1]):
            m = cell[r] // n_labels
            rater_item[at[m]] = n
            rater_label[at[m]] = cell[r] % n_labels
            at[m] += 1
    return rater_start, rater_item, rater_label
