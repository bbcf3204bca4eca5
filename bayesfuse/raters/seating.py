"""A kernel that lets all raters choose their source anew, given the verdicts of the groups.

With labels and verdicts known and all rows summed out, raters choose independently of each other
but for the sizes of the groups: what a rater says weighs as a Dirichlet–multinomial given the truth
or given a verdict. A look at every response does it, however large the groups are. Groups are not
founded or dissolved here, for that see ``partition.py``, and where verdicts are uncertain, raters
stick to those that they helped to form.
"""

from __future__ import annotations

import math

import numpy as np

from bayesfuse.raters.confusion import by_rater, weigh_rows
from bayesfuse.raters.sets import log_dirichlet_multinomial, sizes
from bayesfuse.raters.verdicts import split, weigh_patterns
from bayesfuse.simplex import inner, kernel

GROUPS = 2
"""Groups to choose from in a pass, so that it takes as long however many there are."""


@inner
def some_of(n, most, rng):
    """Draw at most so many different numbers below n."""
    order = np.arange(n)
    for i in range(min(n, most)):
        j = i + np.int64(rng.random() * (n - i))
        order[i], order[j] = order[j], order[i]
    return order[:most]


@inner
def draw_verdicts(g, log_group, posterior, copies, arrangement, n_cells, rng):
    """Draw the verdicts of a group on all items, also on those of which nobody in it speaks.

    Returns how many copies of every item got each verdict (items, verdicts), and their counts by
    truth (classes, verdicts).
    """
    row_start, row, _, _, pattern_group = arrangement
    n_items, n_classes = copies.shape
    outer = np.exp(log_group[g])
    verdict, counts = np.zeros((n_items, n_classes)), np.zeros((n_classes, n_classes))
    parts = np.empty(n_classes)
    for n in range(n_items):
        own = -1
        at = np.int64(row_start[n + 1])
        while at > row_start[n] and row[at - 1] >= n_cells:  # patterns come last
            at -= 1
            if pattern_group[row[at] - n_cells] == g:
                own = np.int64(row[at]) - n_cells
        for k in range(n_classes):
            if copies[n, k] == 0.0:
                continue
            split(copies[n, k], posterior[own, k] if own >= 0 else outer[k], rng, parts)
            for v in range(n_classes):
                verdict[n, v] += parts[v]
                counts[k, v] += parts[v]
    return verdict, counts


@inner
def choose(log_alpha, size, weight, rng):
    """Draw where a rater sits: 0 is alone, then come groups of these sizes without the rater.

    ``weight`` (groups + 1,) is the log density of the rater's responses in every place. A priori it
    is a Chinese restaurant: new tables by α, others by who sits there.
    """
    up_to = weight + log_alpha
    for g in range(size.size):
        up_to[g + 1] = weight[g + 1] + math.log(size[g])
    up_to = np.exp(up_to - up_to.max()).cumsum()
    left = rng.random() * up_to[-1]
    place = 0
    while place < size.size and up_to[place] <= left:
        place += 1
    return place


@kernel
def reseat(assignment, group_counts, rater_counts, answers, arrangement, point, log_alpha, rng):
    """Let raters choose among some groups and being alone; all three arrays change in place.

    Raters of other groups stay there, and so do those whose group would be left with one.
    """
    n_raters, n_classes, n_labels = rater_counts.shape
    size = sizes(assignment, group_counts.shape[0])
    used = np.flatnonzero(size)
    chosen = used[some_of(used.size, GROUPS, rng)]
    place = np.full(size.size, -1)
    counts = np.empty((chosen.size + 1, n_raters, n_classes, n_labels))
    weight = np.empty((chosen.size + 1, n_raters))
    n_cells = n_raters * n_labels
    start, cell = answers.start, answers.cell
    counts[0] = by_rater(weigh_rows(n_cells, answers.copies, start, cell), n_raters)
    posterior = weigh_patterns(point.log_group, point.log_rater, arrangement, chosen)
    for i in range(chosen.size):
        place[chosen[i]] = i + 1
        verdict, group_counts[chosen[i]] = draw_verdicts(
            chosen[i],
            point.log_group,
            posterior,
            answers.copies,
            arrangement,
            n_cells,
            rng,
        )
        counts[i + 1] = by_rater(weigh_rows(n_cells, verdict, start, cell), n_raters)
    for i in range(chosen.size + 1):
        for m in range(n_raters):
            weight[i, m] = log_dirichlet_multinomial(counts[i, m], point.concentration_rater[m])
    for m in range(n_raters):
        now = assignment[m]
        if now >= 0 and place[now] < 0:
            continue
        at = place[now] if now >= 0 else 0
        if now < 0 or size[now] > 2:
            if now >= 0:
                size[now] -= 1
            at = choose(log_alpha, size[chosen], weight[:, m], rng)
            assignment[m] = chosen[at - 1] if at > 0 else -1
            if at > 0:
                size[chosen[at - 1]] += 1
        rater_counts[m] = counts[at, m]
