"""Partitions of raters: the support, the prior, and draws from it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy
from numpy.random import Generator

from bayesfuse.errors import ModelError
from bayesfuse.parameters.contract import UNCHANGED, Coordinates, Known, Prior, Support
from bayesfuse.parameters.factor import Integers

SEATING = "seating"  # name of the random variable that is a partition, variables.RaterGroupingRV

ALONE = -1  # group index of raters in no group


class Partition(Support):
    """Group of every rater, −1 for none; channels draw it by ``sample_assignments``."""

    counts = False
    discrete = True

    def require(self, name: str, value: Any) -> None:
        values = np.asarray(value)
        if values.ndim != 1 or not np.issubdtype(values.dtype, np.integer) or len(values) == 0:
            raise ModelError(
                f"{name} must be one whole number per rater, its group or −1 for a rater alone. "
                f"Got: {value!r}."
            )

    def coordinates(self, model: Any, variable: Any) -> Coordinates | None:
        return UNCHANGED if getattr(variable.owner.op, "name", "") == SEATING else None

    def prior(self, variable: Any) -> Prior:
        concentration, _, start = (
            value.eval() for value in variable.owner.op.dist_params(variable.owner)
        )
        return PartitionPrior(start, float(concentration))


@dataclass(frozen=True, eq=False)
class PartitionPrior(Known):
    """The Chinese restaurant process: the channel draws partitions, other fits keep the start."""

    concentration: float
    free = True


PARTITION = Partition()


def draw(n_raters: int, n_groups: int, concentration: float, rng: Generator) -> Integers:
    """Draw an assignment: numbers of grouped raters and groups, raters, their partition."""
    # log numbers of permutations of n with g cycles of two or more, (raters + 1, groups + 1)
    log_ways = np.full((n_raters + 1, n_groups + 1), -np.inf)
    log_ways[0, 0] = 0.0
    for n in range(2, n_raters + 1):
        log_ways[n] = log_ways[n - 1]
        log_ways[n, 1:] = np.logaddexp(log_ways[n, 1:], log_ways[n - 2, :-1])
        log_ways[n] += np.log(n - 1)
    together, groups = np.arange(n_raters + 1)[:, None], np.arange(n_groups + 1)
    alone = n_raters - together
    log_weight = log_ways + np.log(concentration) * (alone + groups)
    log_weight -= scipy.special.gammaln(together + 1) + scipy.special.gammaln(alone + 1)
    weight = scipy.special.softmax(log_weight).ravel()
    n, left = divmod(int(rng.choice(weight.size, p=weight)), n_groups + 1)
    waiting = rng.permutation(n_raters)[:n].tolist()
    assignment = np.full(n_raters, ALONE)
    followers = []
    while waiting:
        rater = waiting.pop()
        other = int(rng.integers(len(waiting)))
        n = len(waiting)
        log_pair = log_ways[n - 1, left - 1]
        if np.log(rng.random()) < log_pair - np.logaddexp(log_ways[n, left], log_pair):
            left -= 1
            assignment[[rater, waiting.pop(other)]] = left
        else:
            followers.append((rater, waiting[other]))
    for rater, other in reversed(followers):
        assignment[rater] = assignment[other]
    return number_groups(assignment, n_groups)[0]


def number_groups(assignment: Integers, n_groups: int) -> tuple[Integers, Integers]:
    """Number groups by their first rater; return the assignment, and the old number of each."""
    used = [g for g in dict.fromkeys(assignment.tolist()) if g != ALONE]
    order = np.array([*used, *(g for g in range(n_groups) if g not in set(used))], dtype=np.int64)
    rank = np.empty(n_groups, dtype=np.int64)
    rank[order] = np.arange(n_groups)
    return np.where(assignment == ALONE, ALONE, rank[assignment]), order
