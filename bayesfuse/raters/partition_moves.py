"""Moves of the partition of raters given labels, with all rows integrated out.

A Gibbs move reassigns raters to existing groups, given labels and verdicts: one pass over the
responses is enough, however large the groups are, but mixing is slow if verdicts are uncertain.

A Metropolis–Hastings move takes one rater out of a group, into another, or into a new group with a
rater in none. The two sets that change get new verdicts, and the acceptance ratio is that of their
weights, of the priors and of the chances to propose the move and its reverse.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.random import Generator
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import Array, kernel
from bayesfuse.parameters.factor import Integers, Structure
from bayesfuse.parameters.partition import ALONE
from bayesfuse.raters.confusion import weigh_rows
from bayesfuse.raters.partition_weights import (
    Answers,
    Point,
    count_labels,
    log_dirichlet_multinomial,
    weigh_set,
)
from bayesfuse.raters.verdicts import draw_verdicts, verdict_likelihoods

GROUPS = 2  # most groups in a Gibbs move, which bounds its time
COLUMNS = 64  # most combinations of truth and verdicts counted jointly: the table fits the cache

LEAVE = 0.5  # probability that a rater of a group proposes to leave, and not to join another rater

# Cells in the patterns of a set up to which it is always proposed. The verdicts of larger sets are
# almost certain, and Gibbs moves do as well.
CHEAP = 500.0

Weight = tuple[float, Any, Any]  # log weight, counts of verdicts (of a group), and of labels


@dataclass
class Partition:
    """A partition, and counts of verdicts and labels, changed in place; weights once computed."""

    assignment: Integers
    group_counts: Array
    rater_counts: Array
    answers: Answers
    point: Point
    rng: Generator
    together: dict[int, float] = field(default_factory=dict)  # log weights of groups
    alone: dict[int, Weight] = field(default_factory=dict)  # of raters in no group

    def members(self, m: int) -> Integers:
        """Return the set of a rater, in ascending order."""
        group = self.assignment[m]
        return np.array([m]) if group == ALONE else np.flatnonzero(self.assignment == group)

    def weigh(self, members: Integers, group: int = ALONE) -> Weight:
        """Weigh a set; draw verdicts at the current rows of a group, or else as proposed."""
        if len(members) > 1:
            return weigh_set(members, group, self.answers, self.point, self.rng)
        if len(members) == 0:
            return 0.0, None, None
        (m,) = members.tolist()
        if m not in self.alone:
            counts = self.rater_counts[m].copy()  # counted by the sweep, of raters alone
            if self.assignment[m] != ALONE:
                counts = count_labels(m, self.answers, counts.shape)
            weight = log_dirichlet_multinomial(counts, self.point.concentration_rater[m])
            self.alone[m] = weight, None, counts
        return self.alone[m]

    def place(self, members: Integers, group: int, weighed: Weight) -> None:
        """Make raters a group, or a single one alone."""
        if len(members) > 1:
            self.together[group], self.group_counts[group], _ = weighed
        self.assignment[members] = group if len(members) > 1 else ALONE
        if len(members):
            self.rater_counts[members] = weighed[2]

    def current(self, m: int) -> float:
        """Return the log weight of a rater's set; verdicts of a group are drawn the first time."""
        group, members = int(self.assignment[m]), self.members(m)
        if group == ALONE:
            return self.weigh(members)[0]
        if group not in self.together:
            self.place(members, group, self.weigh(members, group))
        return self.together[group]

    def reassign(self, arrangement: Structure, log_alpha: float) -> None:
        """Redraw the sets of raters alone or in chosen groups of more than two raters (Gibbs)."""
        answers, point, rng = self.answers, self.point, self.rng
        n_raters, n_classes, n_labels = self.rater_counts.shape
        n_cells = n_raters * n_labels
        size = np.bincount(self.assignment + 1, minlength=len(self.group_counts) + 1)[1:]
        chosen = np.flatnonzero(size)
        n_chosen = min(len(chosen), GROUPS)
        for i in range(n_chosen):
            j = i + int(rng.random() * (len(chosen) - i))
            chosen[[i, j]] = chosen[[j, i]]
        chosen = chosen[:n_chosen]
        if n_chosen == 0:
            return
        message = verdict_likelihoods(point.log_rater, arrangement)
        sources = np.repeat(answers.drawn[None], n_chosen + 1, axis=0)
        for i, group in enumerate(chosen.tolist()):
            arguments = group, point.log_group, message, answers.drawn, arrangement, n_cells, rng
            self.group_counts[group] = draw_verdicts(*arguments, sources[i + 1])
        table = count_by_source(sources, n_classes, n_cells, answers)
        counts = table.reshape(-1, n_raters, n_labels, n_classes).swapaxes(2, 3).copy()
        weight = np.empty((n_chosen + 1, n_raters))
        for i, m in np.ndindex(weight.shape):
            weight[i, m] = log_dirichlet_multinomial(counts[i, m], point.concentration_rater[m])
        place = {ALONE: 0} | {group: i + 1 for i, group in enumerate(chosen.tolist())}
        for m, now in enumerate(self.assignment.tolist()):
            if now not in place:
                continue
            at = place[now]
            if at == 0 or size[now] > 2:
                if at > 0:
                    size[now] -= 1
                log_weight = np.append(log_alpha, np.log(size[chosen])) + weight[:, m]
                up_to = np.exp(log_weight - log_weight.max()).cumsum()
                at = int(np.searchsorted(up_to, rng.random() * up_to[-1], side="right"))
                self.assignment[m] = chosen[at - 1] if at > 0 else ALONE
                if at > 0:
                    size[chosen[at - 1]] += 1
            self.rater_counts[m] = counts[at, m]

    def move(self, log_alpha: float) -> None:
        """Propose to move one rater (Metropolis–Hastings)."""
        n_raters, rng = len(self.assignment), self.rng
        mover = int(rng.random() * n_raters)
        source, group_members = int(self.assignment[mover]), self.members(mover)
        partner, with_partner, slot = -1, group_members[:0], ALONE
        if len(group_members) == 1 or rng.random() >= LEAVE:
            others = np.delete(np.arange(n_raters), group_members)
            if len(others) == 0:
                return
            partner = int(others[int(rng.random() * len(others))])
            with_partner, slot = self.members(partner), int(self.assignment[partner])
            if slot == ALONE:
                size = np.bincount(self.assignment + 1, minlength=len(self.group_counts) + 1)[1:]
                if len(group_members) == 2:
                    size[source] = 0  # after the move
                if size.all():  # no group is left
                    return
                slot = int(size.argmin())
        s, t = len(group_members), len(with_partner)
        if rng.random() >= worth(max(s, t + 1), self.answers):
            return
        log_ratio = log_chances(s, t, n_raters, log_alpha) - self.current(mover)
        if partner >= 0:
            log_ratio -= self.current(partner)
        remaining, joined = (
            group_members[group_members != mover],
            np.sort(np.append(with_partner, mover)),
        )
        of_remaining, of_joined = self.weigh(remaining), self.weigh(joined)
        log_ratio += of_remaining[0] + of_joined[0]
        if math.log(max(rng.random(), 1e-300)) >= log_ratio:
            return
        self.place(remaining, source, of_remaining)
        if s == 2:
            self.together.pop(source)
            self.group_counts[source] = 0.0
        self.place(joined, slot, of_joined)


def count_by_source(sources: NDArray[Any], n_classes: int, n_rows: int, answers: Answers) -> Array:
    """Count responses by class of each source, (sources, items) or (sources, items, classes)."""
    n_sources, start, cell = len(sources), answers.start, answers.cell
    n_columns = n_classes**n_sources
    if sources.ndim == 3 or n_columns > COLUMNS:
        return np.stack([count_rows(n_rows, n_classes, labels, start, cell) for labels in sources])
    # jointly, and summed afterwards, because passes over the responses are slow
    worth = n_classes ** np.arange(n_sources, dtype=sources.dtype)
    table = count_rows(n_rows, n_columns, worth @ sources, start, cell)
    jointly = table.reshape(n_rows, *[n_classes] * n_sources)  # the last source comes first
    axes = range(1, n_sources + 1)
    return np.stack([jointly.sum(axis=tuple(set(axes) - {axis})) for axis in reversed(axes)])


@kernel
def count_rows(n_rows, n_classes, labels, start, cell):
    """See :func:`weigh_rows`."""
    return weigh_rows(n_rows, n_classes, labels, start, cell)


def log_chances(s: int, t: int, n_raters: int, log_alpha: float) -> float:
    """Log ratio of priors and proposals for a move from s raters to t, of which 0 is alone."""
    # a Chinese restaurant: α for every set, (size − 1)! for its seating
    total = (
        math.lgamma(max(s - 1, 1)) - math.lgamma(s) + math.lgamma(t + 1) - math.lgamma(max(t, 1))
    )
    total += log_alpha * ((s > 1) - (t > 0))
    if t == 0:
        return total + math.log((s - 1) / (LEAVE * (n_raters - 1)))
    if s == 1:
        return total + math.log(LEAVE * (n_raters - 1) / t)
    return total + math.log((s - 1) * (n_raters - s) / (t * (n_raters - t - 1)))


def worth(size: int, answers: Answers) -> float:
    """Return the probability of trying a move, or its reverse, whose larger set has this size."""
    n_labels = len(answers.words) // (len(answers.rater_start) - 1)
    patterns = min(n_labels ** min(size, 64), len(answers.marks))  # no array has more
    return min(CHEAP / (size * patterns), 1.0)
