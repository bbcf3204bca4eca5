"""Gibbs sweeps: labels given the parameters, then parameters given the labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.chains import ROTATION_SHARE
from bayesfuse.numerics.kernels import Array
from bayesfuse.numerics.rotation import MAX_ANGLE, rotate
from bayesfuse.observation import Counts, LogParameters, ResponseModel
from bayesfuse.parameters.contract import Prior, Role
from bayesfuse.parameters.dirichlet import Dirichlet

MIN_ACCEPTANCE = 0.1  # of rotations, below which drawing labels moves the prevalence as well


class State(NamedTuple):
    """Log parameters, current labels, rotation flag, numbers of rotations tried and accepted."""

    rows: LogParameters
    labels: NDArray[Any] | None
    rotates: bool
    n_tried: int = 0
    n_accepted: int = 0

    def tuned(self) -> State:
        """Return the state after tuning: without rotations if few were accepted."""
        is_useful = self.n_accepted >= MIN_ACCEPTANCE * self.n_tried
        return self._replace(rotates=self.rotates and is_useful)


@dataclass(frozen=True)
class Sweep:
    """The parameters that a sweep draws, fixed priors of these and of constants, and pools."""

    observation: ResponseModel
    priors: Mapping[str, Prior]
    drawn: tuple[str, ...]
    pools: tuple[PooledBlock, ...] = ()
    can_rotate: bool = False

    @classmethod
    def of(cls, plan: Plan, drawn: tuple[str, ...] | None = None, pools: Any = None) -> Sweep:
        """Return the sweep over some parameters and pools of a plan, by default all."""
        drawn = tuple(plan.blocks) if drawn is None else drawn
        block_priors = {name: plan.blocks[name].prior for name in drawn}
        fixed = {name: prior for name, prior in block_priors.items() if prior is not None}
        return cls(
            plan.observation,
            fixed | plan.constants,
            drawn,
            plan.pools if pools is None else tuple(pools),
            can_rotate(plan, block_priors),
        )

    def init(self, rows: LogParameters, labels: NDArray[Any] | None = None) -> State:
        """Return the state of a chain that begins at these parameters."""
        return State(rows, labels, self.can_rotate)

    def with_priors(self, priors: Mapping[str, Prior]) -> Sweep:
        """Return the sweep with other priors, checked where groups are inferred."""
        sweep = replace(self, priors={**self.priors, **priors})
        indices, raters = set(self.observation.indices), self.observation.raters
        if indices & set(self.drawn):
            raters.require_priors({n: sweep.priors[n] for n in set(raters.parameters) - indices})
        return sweep

    def priors_at(self, rows: LogParameters) -> dict[str, Any]:
        """Return all priors, those of rows below pools at the values of the pools' members."""
        below = {
            pooled.pool.parameter: pooled.pool.prior(pooled.values(rows))
            for pooled in self.pools
            if pooled.pool.parameter not in pooled.implied
        }
        return {**self.priors, **below}


def step(sweep: Sweep, state: State, rng: np.random.Generator) -> State:
    """Return the state after one sweep."""
    observation, prior = sweep.observation, sweep.observation.labels
    state, likelihood = _maybe_rotate(sweep, state, rng)
    rows = state.rows
    labels, sampled, counts = _draw_labels(sweep, state, likelihood, rng)
    sampled |= draw_pools(sweep, rows, counts, rng)
    proposed = draw_parameters(sweep, rows, sampled, counts, rng)
    if not prior.counts_all:  # draws given the counts alone are proposals (Metropolis–Hastings)
        before = _uncounted(observation, rows, labels)
        if not np.log(rng.random()) < _uncounted(observation, rows | proposed, labels) - before:
            proposed |= {name: rows[name] for name in prior.parameters if name in proposed}
    next_labels = labels if prior.moves_labels else None
    return state._replace(rows=rows | sampled | proposed, labels=next_labels)


def draw_pools(
    sweep: Sweep, rows: LogParameters, counts: Counts, rng: np.random.Generator
) -> LogParameters:
    """Draw the members of pools, with the rows below them summed out."""
    drawn: LogParameters = {}
    for pooled in sweep.pools:
        values = pooled.values(rows)
        drawn |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
    return drawn


def draw_parameters(
    sweep: Sweep,
    rows: LogParameters,
    sampled: LogParameters,
    counts: Counts,
    rng: np.random.Generator,
) -> LogParameters:
    """Draw the parameters that are not among those sampled, given these and the counts."""
    priors = sweep.priors_at(rows | sampled)
    statistics = sweep.observation.statistics(rows, counts)
    names = [name for name in sweep.drawn if name not in sampled]
    return {name: priors[name].draw(statistics[name], rows[name], rng) for name in names}


def _draw_labels(
    sweep: Sweep,
    state: State,
    likelihood: tuple[Array, Array] | None,
    rng: np.random.Generator,
) -> tuple[Any, dict[str, Any], Counts]:
    """Draw labels (None if their counts suffice), parameters that the channel draws, and counts."""
    observation, rows = sweep.observation, state.rows
    labels, raters = observation.labels, observation.raters
    if labels.counts_all and not labels.moves_labels and not observation.redraws:
        return None, {}, observation.draw_counts(rows, rng, likelihood)
    drawn = observation.draw(rows, rng, state.labels, likelihood)
    if not observation.redraws:
        return drawn, {}, observation.sample_counts(rows, drawn, rng)
    sampled, rater_counts = raters.sample_assignments(
        rows,
        observation.tables(rows),
        drawn,
        sweep.priors_at(rows),
        observation.rater_structure,
        rng,
    )
    return drawn, sampled, observation.counted(drawn, rater_counts)


def _uncounted(observation: ResponseModel, rows: LogParameters, labels: Any) -> float:
    """Return the part of the labels' log probability that counts do not cover."""
    tables = observation.label_tables(rows)
    return observation.labels.uncounted(tables, labels, observation.label_structure)


def _maybe_rotate(
    sweep: Sweep, state: State, rng: np.random.Generator
) -> tuple[State, tuple[Array, Array] | None]:
    """Begin some sweeps with a rotation; return the likelihood where it was computed."""
    if not state.rotates or rng.random() >= ROTATION_SHARE:
        return state, None
    priors = sweep.priors_at(state.rows)
    rows, likelihood = rotate_prevalence(sweep.observation, state.rows, priors, rng)
    n_accepted = state.n_accepted + (rows is not state.rows)
    return state._replace(rows=rows, n_tried=state.n_tried + 1, n_accepted=n_accepted), likelihood


def rotate_prevalence(
    observation: ResponseModel,
    rows: LogParameters,
    priors: Mapping[str, Any],
    rng: np.random.Generator,
) -> tuple[LogParameters, tuple[Array, Array] | None]:
    """Propose a rotation (:func:`bayesfuse.numerics.rotation.rotate`), and accept it or not.

    Responses determine the prevalence weakly, because all pairs of raters agree as often after it.
    Returns parameters and, where computed, the likelihood there.
    """
    proposed = propose_rotation(observation, rows, rng)
    if proposed is None:
        return rows, None
    rotated, log_ratio = proposed
    (before, likelihood), (after, new_likelihood) = map(observation.evidence, (rows, rotated))
    log_ratio += after - before
    for name in _rotated_names(observation, rows):
        log_ratio += priors[name].log_density(rotated[name]) - priors[name].log_density(rows[name])
    if math.log(1.0 - rng.random()) < log_ratio:
        return rotated, new_likelihood
    return rows, likelihood


def propose_rotation(
    observation: ResponseModel, rows: LogParameters, rng: np.random.Generator
) -> tuple[LogParameters, float] | None:
    """Return rotated parameters and the log ratio of the proposal, None off the simplex."""
    share: Any = observation.labels.named(Role.CLASS_SHARES)
    places = observation.raters.from_truth(rows)
    log_shares = rows[share].copy()
    matrices = tuple(np.array(rows[name][place]) for name, place in places.items())
    log_ratio = rotate(log_shares, matrices, min_angle(observation), rng)
    if log_ratio == -math.inf:
        return None
    rotated = {**rows, share: log_shares}
    for (name, place), matrix in zip(places.items(), matrices, strict=True):
        rotated[name] = rows[name].copy()
        rotated[name][place] = matrix
    return rotated, log_ratio


def can_rotate(plan: Plan, priors: Mapping[str, Prior | None]) -> bool:
    """Return whether rotations are possible: all that they move has a prior without zeros."""
    names = _rotated_names(plan.observation, plan.indices())
    if len(names) < 2 or not set(names) <= set(priors):
        return False
    for prior in map(priors.get, names):
        if isinstance(prior, Dirichlet) and prior.concentration.min() <= 0:
            return False
    return True


def _rotated_names(observation: ResponseModel, rows: LogParameters) -> list[str]:
    """Return the names of the prevalence, if there is one, and of matrices with rows by truth."""
    share = observation.labels.named(Role.CLASS_SHARES)
    return [] if share is None else [share, *observation.raters.from_truth(rows)]


def min_angle(observation: ResponseModel) -> float:
    """Return the smallest angle of rotations, that of one item."""
    return MAX_ANGLE / math.sqrt(max(int(observation.table.multiplicity.sum()), 2))
