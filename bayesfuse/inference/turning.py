"""A Metropolis move of the prevalence, which responses determine weakly, with labels summed out.

Turning the classes into each other keeps the raters' means and the covariances of all pairs.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.turns import WIDEST, mixing_of
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import Prior, Role
from bayesfuse.parameters.dirichlet import RowPrior


def turn(
    observation: Observation, rows: Rows, priors: Mapping[str, RowPrior], rng: np.random.Generator
) -> tuple[Rows, tuple[Array, Array] | None]:
    r"""Propose another prevalence at which all pairs of raters agree as often; accept it or not.

    With :math:`s = \sqrt\pi`, turned to t by the rotation Q, every matrix Θ that starts at the
    truth becomes :math:`\mathrm{diag}(t)^{-1} Q\, \mathrm{diag}(s)\, \Theta` (Jaffe, Nadler &
    Kluger 2015, eq. 5 and theorem 2). Returns rows and, where computed, the likelihood there.
    """
    share: Any = observation.labels.named(Role.CLASS_SHARES)  # `possible` has asked
    moved = observation.raters.from_truth(rows)
    # of any order up to the widest: some fit, whatever the responses say, and nothing needs tuning
    angle = WIDEST * (least_angle(observation) / WIDEST) ** rng.random()
    proposed = propose(rows, share, moved, angle, rng)
    if proposed is None:
        return rows, None
    new, log_ratio = proposed
    (before, now), (after, then) = observation.evidence(rows), observation.evidence(new)
    log_ratio += after - before
    for name, places in (moved | {share: slice(None)}).items():
        log_ratio += priors[name].log_ratio(new[name], rows[name], places)
    return (new, then) if math.log(1.0 - rng.random()) < log_ratio else (rows, now)


def possible(
    observation: Observation, indices: Mapping[str, Any], priors: Mapping[str, Prior | None]
) -> bool:
    """Return whether :func:`turn` can be used: what it moves has priors without zeros."""
    share = observation.labels.named(Role.CLASS_SHARES)
    if share is None:
        return False
    names = {share, *observation.raters.from_truth(indices)}
    return (
        len(names) > 1
        and names <= set(priors)
        and not any(isinstance(p, RowPrior) and p.has_zeros for p in map(priors.get, names))
    )


def propose(
    rows: Rows, share: str, moved: Mapping[str, Any], angle: float, rng: np.random.Generator
) -> tuple[Rows, float] | None:
    """Turn rows by an angle; return them and the log ratio of densities, None off the simplex."""
    if any(np.isneginf(rows[name]).any() for name in (share, *moved)):
        return None
    log_shares = np.empty_like(rows[share])
    mixing, possible = mixing_of(
        rows[share], angle, rng.standard_normal(log_shares.size), log_shares
    )
    if not possible:
        return None
    new, n_columns = {**rows, share: log_shares}, 0
    for name, places in moved.items():
        turned = mixing @ np.exp(rows[name][places])
        if turned.min(initial=1.0) <= 0.0:
            return None
        new[name] = rows[name].copy()
        new[name][places] = np.log(turned)
        n_columns += len(turned) * (turned.shape[-1] - 1)
    # uniform on the sphere is a Dirichlet of halves; a column of a matrix scales by det(mixing)
    return new, 0.5 * (1 - n_columns) * (new[share] - rows[share]).sum()


def least_angle(observation: Observation) -> float:
    """Return the angle of one item."""
    return WIDEST / math.sqrt(max(int(observation.table.multiplicity.sum()), 2))
