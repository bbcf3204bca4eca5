"""A Gibbs kernel that reassigns raters to existing groups, given labels and verdicts.

With all rows integrated out, the responses of a rater are Dirichlet–multinomial given the truth or
a verdict, so one pass over the responses is enough, however large the groups are. Mixing is slow if
verdicts are uncertain, because they depend on the raters of the group.
"""

import math

import numpy as np

from bayesfuse.numerics.kernels import TINY, fill, inlined, inner, kernel
from bayesfuse.numerics.rows import split
from bayesfuse.raters.confusion import by_cell, by_rater, multiply, weigh_rows
from bayesfuse.raters.partition_weights import log_dirichlet_multinomial, sizes
from bayesfuse.raters.verdicts import join_in_logs

GROUPS = 2  # most groups in a pass, which bounds its time
COLUMNS = 64  # most combinations of truth and verdicts counted jointly: the table fits the cache


@inlined
def some_of(size, most, rng):
    """Draw at most this many distinct groups among those with raters."""
    used, n = np.empty(size.size, dtype=np.int64), 0
    for g in range(size.size):
        if size[g] > 0:
            used[n] = g
            n += 1
    for i in range(min(n, most)):
        j = i + np.int64(rng.random() * (n - i))
        used[i], used[j] = used[j], used[i]
    return used[: min(n, most)]


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


@inner
def draw_verdicts(g, log_group, heard, drawn, arrangement, n_cells, rng, verdict):
    """Fill in a group's verdicts on all items; return counts by truth (classes, verdicts)."""
    row_start, row, _, _, pattern_group = arrangement
    message, in_logs = heard
    log_outer = log_group[g]
    outer = np.exp(log_outer)
    n_classes = outer.shape[0]
    counts = np.zeros((n_classes, n_classes))
    weight, parts = np.empty(n_classes), np.empty(n_classes)
    for n in range(row_start.size - 1):
        own = pattern_of(n, g, row_start, row, pattern_group, n_cells)
        first, last = np.int64(0), np.int64(n_classes)
        if drawn.ndim == 1:
            first, last = np.int64(drawn[n]), np.int64(drawn[n]) + 1
        else:
            verdict[n] = 0.0
        for k in range(first, last):
            if drawn.ndim == 2 and drawn[n, k] == 0.0:
                continue
            total = 0.0
            if not in_logs[own]:
                for v in range(n_classes):
                    weight[v] = outer[k, v] * message[own, v]
                    total += weight[v]
            if total < TINY:
                _, total = join_in_logs(log_outer, k, message[own], in_logs[own], weight)
            if drawn.ndim == 1:
                left, up_to, of_item = rng.random() * total, 0.0, 0
                for v in range(n_classes - 1):  # branches would be mispredicted
                    up_to += weight[v]
                    of_item += up_to <= left
                verdict[n] = of_item
                counts[k, of_item] += 1.0
            else:
                split(drawn[n, k], weight, total, rng, parts)
                for v in range(n_classes):
                    verdict[n, v] += parts[v]
                    counts[k, v] += parts[v]
    return counts


@inner
def count_by_source(sources, n_classes, n_rows, start, cell):
    """Count responses by class of each source, (sources, items) or (sources, items, classes)."""
    n_sources = sources.shape[0]
    counts = np.zeros((n_sources, n_rows, n_classes))
    if sources.ndim == 3 or n_classes**n_sources > COLUMNS:
        for i in range(n_sources):
            fill(counts[i], weigh_rows(n_rows, n_classes, sources[i], start, cell))
    else:  # jointly, and summed afterwards, because passes over the responses are slow
        jointly = sources[0].copy()
        for i in range(1, n_sources):
            jointly += sources[i] * np.int32(n_classes**i)
        columns = n_classes**n_sources
        table = weigh_rows(n_rows, columns, jointly, start, cell)
        for row in range(n_rows):
            for column in range(columns):
                says = column
                for i in range(n_sources):
                    counts[i, row, says % n_classes] += table[row, column]
                    says //= n_classes
    return counts


@inlined
def choose(log_alpha, size, weight, rng):
    """Draw the set of a rater, 0 for alone, from log densities (groups + 1,) and group sizes."""
    log_weight, top = np.empty(weight.size), -np.inf
    for g in range(weight.size):
        log_weight[g] = weight[g] + (math.log(size[g - 1]) if g > 0 else log_alpha)
        top = max(top, log_weight[g])
    up_to, total = np.empty(weight.size), 0.0
    for g in range(weight.size):
        total += math.exp(log_weight[g] - top)
        up_to[g] = total
    left = rng.random() * total
    place = 0
    while place < size.size and up_to[place] <= left:
        place += 1
    return place


@kernel
def reassign(assignment, group_counts, rater_counts, answers, arrangement, point, log_alpha, rng):
    """Redraw, in place, the sets of raters alone or in chosen groups of more than two raters."""
    n_raters, n_classes, n_labels = rater_counts.shape
    size = sizes(assignment, group_counts.shape[0])
    chosen = some_of(size, GROUPS, rng)
    if chosen.size == 0:  # no groups
        return
    n_cells = n_raters * n_labels
    drawn, start, cell = answers.drawn, answers.start, answers.cell
    heard = multiply(*by_cell(point.log_rater, 0), arrangement[2], arrangement[3])
    # p(pattern | verdict) or its logarithm, and which; the last row is for no responses
    message = np.ones((heard[1].size + 1, n_classes))
    in_logs = np.zeros(heard[1].size + 1, dtype=np.bool_)
    fill(message[:-1], heard[0])
    fill(in_logs[:-1], heard[1])
    sources = np.empty((chosen.size + 1, *drawn.shape), dtype=drawn.dtype)
    fill(sources[0], drawn)
    place = np.full(size.size, -1)
    for i in range(chosen.size):
        place[chosen[i]] = i + 1
        verdict, said = sources[i + 1], (message, in_logs)
        found = draw_verdicts(
            chosen[i], point.log_group, said, drawn, arrangement, n_cells, rng, verdict
        )
        fill(group_counts[chosen[i]], found)
    table = count_by_source(sources, n_classes, n_cells, start, cell)
    counts = np.empty((chosen.size + 1, n_raters, n_classes, n_labels))
    weight = np.empty((n_raters, chosen.size + 1))
    size_of_chosen = np.empty(chosen.size, dtype=np.int64)
    for i in range(chosen.size + 1):
        fill(counts[i], by_rater(table[i], n_raters))
        for m in range(n_raters):
            weight[m, i] = log_dirichlet_multinomial(counts[i, m], point.concentration_rater[m])
    for m in range(n_raters):
        now = assignment[m]
        if now >= 0 and place[now] < 0:
            continue
        at = place[now] if now >= 0 else 0
        if now < 0 or size[now] > 2:
            if now >= 0:
                size[now] -= 1
            for i in range(chosen.size):
                size_of_chosen[i] = size[chosen[i]]
            at = choose(log_alpha, size_of_chosen, weight[m], rng)
            assignment[m] = chosen[at - 1] if at > 0 else -1
            if at > 0:
                size[chosen[at - 1]] += 1
        fill(rater_counts[m], counts[at, m])
