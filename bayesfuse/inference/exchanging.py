"""A Metropolis move that takes the verdict of a group for the truth, and the truth for a verdict.

Responses cannot tell the two: raters in two camps, each with a source of its own, are explained as
well by a truth that one camp reports on and a verdict of the other as the other way round. Only the
priors decide, and raters who change seats one by one do not get from one to the other.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse import dirichlets
from bayesfuse.labels.independent import Independent
from bayesfuse.observation import Observation, Rows
from bayesfuse.raters.groups import ALONE
from bayesfuse.raters.inferred import InferredGroups
from bayesfuse.simplex import Array

MOVED = "prevalence", "group_confusion", "assignment"


def exchange(
    observation: Observation, rows: Rows, concentration: Mapping[str, Any], rng: np.random.Generator
) -> tuple[Rows, tuple[Array, Array] | None]:
    r"""Propose that truth and verdict of a group change their roles, and accept it or not.

    Whoever was in the group is then alone, and whoever was alone is the group. Truth k and verdict
    v are as probable together as before,

    .. math:: \pi'_v \phi'_{vk} = \pi_k \phi_{kv},

    whence the Jacobian :math:`\prod_k (\pi_k / \pi'_k)^{K - 1}`. What the two camps say stays as
    probable as it was; what other groups say, who now learn of another truth, does not.

    Parameters
    ----------
    observation : Observation
        Of :class:`bayesfuse.Independent` labels and :class:`bayesfuse.InferredGroups`.
    rows : dict of ndarray
        Log rows now, and the assignment.
    concentration : dict
        Dirichlet concentrations of the prevalence and of the groups' matrices, or mixtures, and
        the α of the partition.

    Returns
    -------
    rows : dict of ndarray
    likelihood : tuple of ndarray, or None
        At those rows, as :meth:`Observation.likelihood` returns it, if it had to be known.

    References
    ----------
    Green (1995), Biometrika 82, 711–732, for the Jacobian of a move that is its own reverse.
    """
    assignment = np.asarray(rows["assignment"])
    groups = np.unique(assignment[assignment != ALONE])
    if len(groups) == 0 or np.count_nonzero(assignment == ALONE) < 2:
        return rows, None  # one rater is no group
    group = int(rng.choice(groups))
    new = exchanged(rows, group)
    if any(np.isneginf(at["group_confusion"][group]).any() for at in (rows, new)):
        return rows, None  # no move leads back from the edge
    now, then = observation.likelihood(rows), observation.likelihood(new)
    log_ratio = observation.marginal(new, then).total - observation.marginal(rows, now).total
    for name, places in {"prevalence": slice(None), "group_confusion": group}.items():
        log_ratio += dirichlets.log_ratio(concentration[name], new[name], rows[name], places)
    log_ratio += log_jacobian(rows, new)
    # a Chinese restaurant: α for every set, (size − 1)! for its seating
    size, size_then = (np.count_nonzero(at["assignment"] == group) for at in (rows, new))
    log_ratio += (size - size_then) * math.log(concentration["assignment"])
    log_ratio += math.lgamma(size_then) - math.lgamma(size)
    return (new, then) if math.log(1.0 - rng.random()) < log_ratio else (rows, now)


def exchanged(rows: Rows, group: int) -> Rows:
    """Return the rows and the assignment with truth and verdict of a group in each other's roles.

    Done twice, it leaves everything as it was.
    """
    assignment, outer = rows["assignment"], rows["group_confusion"].copy()
    joint = rows["prevalence"][:, None] + outer[group]
    verdict = np.logaddexp.reduce(joint)
    outer[group] = joint.T - verdict[:, None]
    seats = np.where(assignment == group, ALONE, np.where(assignment == ALONE, group, assignment))
    return {**rows, "prevalence": verdict, "group_confusion": outer, "assignment": seats}


def log_jacobian(rows: Rows, new: Rows) -> float:
    """Return the log of how much volume the exchange makes of prevalence and the group's matrix."""
    return float((len(rows["prevalence"]) - 1) * (rows["prevalence"] - new["prevalence"]).sum())


def possible(observation: Observation, concentration: Mapping[str, Any]) -> bool:
    """Say whether :func:`exchange` can be used: what it moves has priors, and these no zeros.

    ``concentration`` holds that of every parameter that Gibbs draws, None where it varies.
    """
    return (
        isinstance(observation.labels, Independent)
        and isinstance(observation.raters, InferredGroups)
        and set(MOVED) <= set(concentration)
        and not any(
            alpha is not None and dirichlets.has_zeros(alpha)
            for alpha in map(concentration.get, MOVED)
        )
    )
