"""Metropolis–Hastings kernels for the partition of raters given labels, rows integrated out.

A move takes one rater out of a group, into another, or into a new group with a rater in none. The
two sets that change get new verdicts, and the acceptance ratio is that of their weights (see
``partition_weights.py``), of the priors and of the chances to propose the move and its reverse.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.numerics.kernels import fill, inlined, inner, kernel
from bayesfuse.raters.partition_weights import (
    count_labels,
    log_dirichlet_multinomial,
    sizes,
    weigh_set,
)

LEAVE = 0.5  # probability that a rater of a group proposes to leave, and not to join another rater

CHEAP = 500.0
"""Cells in the patterns of a set up to which it is always proposed; larger sets are proposed less.

The verdicts of larger sets are almost certain, and ``partition_gibbs.py`` does as well.
"""

NOBODY = np.int64(-1)  # a literal would be compiled once more


class State(NamedTuple):
    """The partition, counts of labels and verdicts, and weights of sets, NaN until computed."""

    assignment: NDArray[np.int64]
    size: NDArray[np.int64]
    group_counts: NDArray[np.float64]
    rater_counts: NDArray[np.float64]
    together: NDArray[np.float64]
    alone: NDArray[np.float64]
    alone_counts: NDArray[np.float64]


class Point(NamedTuple):
    """The current rows, and the Dirichlet concentrations of their priors."""

    prior_outer: NDArray[np.float64]
    concentration_rater: NDArray[np.float64]
    log_group: NDArray[np.float64]
    log_rater: NDArray[np.float64]


@inner
def raters_of(assignment, group, one, other, without):
    """Return the raters of a group (−1: none) with one and another, without one."""
    found, size = np.empty(assignment.size, dtype=np.int64), 0
    for m in range(assignment.size):
        inside = m == one or m == other or (group >= 0 and assignment[m] == group)
        if inside and m != without:
            found[size] = m
            size += 1
    return found[:size]


@inner
def settle(state, members, group, weight, outer_counts, inner_counts):
    """Make raters a group, with the counts of its verdicts."""
    state.size[group] = members.size
    state.together[group] = weight
    fill(state.group_counts[group], outer_counts)
    for i in range(members.size):
        state.assignment[members[i]] = group
        fill(state.rater_counts[members[i]], inner_counts[i])


@inlined
def weight_of_group(state, group, answers, point, rng):
    """Return the log weight of a current group, drawing its verdicts the first time."""
    if math.isnan(state.together[group]):
        members = raters_of(state.assignment, group, NOBODY, NOBODY, NOBODY)
        weight, outer_counts, inner_counts = weigh_set(members, group, answers, point, rng)
        settle(state, members, group, weight, outer_counts, inner_counts)
    return state.together[group]


@inner
def weight_alone(state, m, answers, point):
    """Return the log weight of a rater alone."""
    if math.isnan(state.alone[m]):
        if state.assignment[m] < 0:  # counted by the sweep
            fill(state.alone_counts[m], state.rater_counts[m])
        else:
            _, n_classes, n_labels = point.log_rater.shape
            counts = count_labels(m, answers, n_classes, n_labels)
            fill(state.alone_counts[m], counts)
        state.alone[m] = log_dirichlet_multinomial(
            state.alone_counts[m], point.concentration_rater[m]
        )
    return state.alone[m]


@inlined
def choose_partner(state, mover, rng):
    """Choose a rater who is not in the mover's set; −1 if there is none."""
    source, n_raters = state.assignment[mover], state.assignment.size
    left = n_raters - (1 if source < 0 else state.size[source])
    if left == 0:
        return -1
    nth = np.int64(rng.random() * left)
    for m in range(n_raters):
        if m == mover or (source >= 0 and state.assignment[m] == source):
            continue
        if nth == 0:
            return m
        nth -= 1
    return -1


@inlined
def log_chances(s, t, n_raters, log_alpha):
    """Log ratio of priors and proposals for a move from s raters to t, of which 0 is alone."""
    # a Chinese restaurant: α for every set, (size − 1)! for its seating
    total = math.lgamma(max(s - 1.0, 1.0)) - math.lgamma(s)
    total += math.lgamma(t + 1.0) - math.lgamma(max(t, 1.0))
    total += log_alpha * ((s > 1) - (t > 0))
    if t == 0:
        return total + math.log((s - 1.0) / (LEAVE * (n_raters - 1.0)))
    if s == 1:
        return total + math.log(LEAVE * (n_raters - 1.0) / t)
    return total + math.log((s - 1.0) * (n_raters - s) / (t * (n_raters - t - 1.0)))


@inlined
def worth(size, answers):
    """Return the probability of trying a move whose larger set, before or after, has this size.

    It is the same for a move and its reverse, so the acceptance ratio does not change.
    """
    n_raters = answers.rater_start.size - 1
    n_labels = answers.words.size // n_raters
    patterns = min(float(n_labels) ** size, answers.marks.size)
    return min(CHEAP / (size * patterns), 1.0)


@inlined
def free_group(state, source):
    """Return the first group that is empty, or empty after the move; −1 if there is none."""
    for g in range(state.size.size):
        if state.size[g] == 0 or (g == source and state.size[g] == 2):
            return g
    return -1


@inner
def weigh_proposed(state, members, answers, point, rng):
    """Return the log weight of a set, 0 if it is empty, and the counts if it is a group."""
    if members.size > 1:
        return weigh_set(members, NOBODY, answers, point, rng)
    weight = weight_alone(state, members[0], answers, point) if members.size == 1 else 0.0
    return weight, np.empty((0, 0)), np.empty((0, 0, 0))


@inner
def place(state, members, group, weight, outer_counts, inner_counts):
    """Make raters a group, with the counts of its verdicts, or a single one alone."""
    if members.size == 1:
        state.assignment[members[0]] = -1
        fill(state.rater_counts[members[0]], state.alone_counts[members[0]])
    elif members.size > 1:
        settle(state, members, group, weight, outer_counts, inner_counts)


@inlined
def move_rater(state, answers, point, log_alpha, rng):
    """Propose to move one rater, and return whether the move was accepted."""
    n_raters = state.assignment.size
    mover = np.int64(rng.random() * n_raters)
    source = state.assignment[mover]
    s = 1 if source < 0 else state.size[source]
    partner, target, t = -1, -1, 0
    if s == 1 or rng.random() >= LEAVE:
        partner = choose_partner(state, mover, rng)
        if partner < 0:
            return False
        target = state.assignment[partner]
        t = 1 if target < 0 else state.size[target]
    slot = target
    if partner >= 0 and target < 0:
        slot = free_group(state, source)
        if slot < 0:  # no group is left
            return False
    if rng.random() >= worth(max(s, t + 1 if partner >= 0 else 1), answers):
        return False
    log_ratio = log_chances(s, t, n_raters, log_alpha)

    # current sets
    rest = raters_of(state.assignment, source, NOBODY, NOBODY, mover)
    for m, group in ((mover, source), (partner, target)):
        if group >= 0:
            log_ratio -= weight_of_group(state, group, answers, point, rng)
        elif m >= 0:
            log_ratio -= weight_alone(state, m, answers, point)

    # proposed sets: the rest of the mover's set, and the set that the mover joins
    joined = raters_of(state.assignment, target, mover, partner, NOBODY)
    of_rest = weigh_proposed(state, rest, answers, point, rng)
    of_joined = weigh_proposed(state, joined, answers, point, rng)
    log_ratio += of_rest[0] + of_joined[0]
    if math.log(max(rng.random(), 1e-300)) >= log_ratio:
        return False

    place(state, rest, source, of_rest[0], of_rest[1], of_rest[2])
    if s == 2:
        state.size[source], state.together[source] = 0, np.nan
        fill(state.group_counts[source], np.zeros(state.group_counts.shape[1:]))
    place(state, joined, slot, of_joined[0], of_joined[1], of_joined[2])
    return True


@kernel
def move_raters(assignment, group_counts, rater_counts, answers, point, log_alpha, moves, rng):
    """Move raters, in place, where counts of those alone are correct; return how many moved."""
    n_groups = group_counts.shape[0]
    state = State(
        assignment,
        sizes(assignment, n_groups),
        group_counts,
        rater_counts,
        np.full(n_groups, np.nan),
        np.full(assignment.size, np.nan),
        np.zeros_like(rater_counts),
    )
    accepted = 0
    for _ in range(moves):
        accepted += move_rater(state, answers, point, log_alpha, rng)
    return accepted
