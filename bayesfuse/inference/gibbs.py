"""Gibbs sweeps: labels given the parameters, then parameters given the labels."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.chains import TURNS, WIDEST, mixing_of
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, LogParameters, ResponseModel
from bayesfuse.parameters.contract import Prior, Role
from bayesfuse.parameters.dirichlet import Dirichlet

WORTH_TURNING = 0.1  # acceptance rate of turns below which drawing labels moves prevalence as well


@dataclass(frozen=True)
class Sweep:
    """The parameters drawn in a sweep, fixed priors of these and of constants, and pools."""

    observation: ResponseModel
    priors: Mapping[str, Prior]
    drawn: tuple[str, ...]
    pools: tuple[PooledBlock, ...] = ()
    may_turn: bool = False

    @classmethod
    def of(cls, plan: Plan, drawn: tuple[str, ...] | None = None, pools: Any = None) -> Sweep:
        """Return the sweep over all parameters of a plan that have conditionals, or over some."""
        drawn = tuple(plan.blocks) if drawn is None else drawn
        of_blocks = {n: block.prior for n, block in plan.blocks.items() if n in drawn}
        priors = {n: prior for n, prior in of_blocks.items() if prior is not None}
        return cls(
            plan.observation,
            priors | plan.constants,
            drawn,
            plan.pools if pools is None else tuple(pools),
            may_turn(plan.observation, plan.indices(), of_blocks),
        )

    def begin(self, rows: LogParameters, labels: NDArray[Any] | None = None) -> State:
        """Return the state of a chain that begins at these rows."""
        return State(rows, labels, self.may_turn, 0, 0)

    def below_pools(self, rows: LogParameters) -> dict[str, Prior]:
        """Return the priors of rows below pools whose members have these values."""
        return {
            pooled.pool.parameter: pooled.pool.prior(pooled.values(rows))
            for pooled in self.pools
            if pooled.pool.parameter not in pooled.implied
        }


class State(NamedTuple):
    """Rows in kernel coordinates, labels to go on from, whether sweeps try turns, and counts."""

    rows: LogParameters
    labels: NDArray[Any] | None
    turns: bool
    tried: int
    accepted: int

    def tuned(self) -> State:
        """Return the state after tuning: without turns if too few were accepted."""
        return self._replace(turns=self.turns and self.accepted >= WORTH_TURNING * self.tried)


def step(sweep: Sweep, state: State, rng: np.random.Generator) -> State:
    """Return the state after one sweep."""
    observation, rows, priors, likelihood = sweep.observation, state.rows, sweep.priors, None
    if state.turns and rng.random() < TURNS:
        all_priors: Any = {**priors, **sweep.below_pools(rows)}
        turned, likelihood = rotate_prevalence(observation, rows, all_priors, rng)
        accepted = state.accepted + (turned is not rows)
        rows, state = turned, state._replace(tried=state.tried + 1, accepted=accepted)
    if sweep.pools:
        priors = {**priors, **sweep.below_pools(rows)}
    labels, sampled, counts = _draw_labels(observation, rows, priors, rng, state.labels, likelihood)
    statistics = observation.statistics(rows, counts)
    for pooled in sweep.pools:
        values = pooled.values(rows)
        sampled |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
    if sweep.pools:
        priors = {**priors, **sweep.below_pools(rows | sampled)}
    names = [name for name in sweep.drawn if name not in sampled]
    proposed: LogParameters = {n: priors[n].draw(statistics[n], rows[n], rng) for n in names}
    prior, structure = observation.labels, observation.label_structure
    if (
        not prior.capabilities.sufficient
    ):  # those drawn by counts alone are proposals (Metropolis–Hastings)
        tables = observation.label_tables(rows), observation.label_tables(rows | proposed)
        old, new = (prior.uncounted(table, labels, structure) for table in tables)
        if not np.log(rng.random()) < new - old:
            proposed |= {n: rows[n] for n in prior.parameters if n in proposed}
    next_labels = labels if prior.capabilities.moves_labels else None
    return state._replace(rows=rows | sampled | proposed, labels=next_labels)


def _draw_labels(
    observation: ResponseModel,
    rows: LogParameters,
    priors: Mapping[str, Prior],
    rng: np.random.Generator,
    previous: NDArray[Any] | None,
    likelihood: tuple[Array, Array] | None,
) -> tuple[Any, dict[str, Any], Counts]:
    """Draw labels (None if their counts suffice), what the channel draws itself, and counts."""
    can = observation.labels.capabilities
    if can.sufficient and not can.moves_labels and not observation.redraws:
        return None, {}, observation.draw_counts(rows, rng, likelihood)
    drawn = observation.draw(rows, rng, previous, likelihood)
    if not observation.redraws:
        return drawn, {}, observation.sample_counts(rows, drawn, rng)
    return drawn, *observation.sample_assignments(rows, drawn, priors, rng)


def with_priors(sweep: Sweep, priors: Mapping[str, Prior]) -> Sweep:
    """Return the sweep with these priors in place of its own, checked where groups are inferred."""
    updated = replace(sweep, priors={**sweep.priors, **priors})
    indices = set(sweep.observation.indices)
    if indices & set(sweep.drawn):
        raters = sweep.observation.raters
        raters.require_priors({n: updated.priors[n] for n in set(raters.parameters) - indices})
    return updated


def rotate_prevalence(
    observation: ResponseModel,
    rows: LogParameters,
    priors: Mapping[str, Dirichlet],
    rng: np.random.Generator,
) -> tuple[LogParameters, tuple[Array, Array] | None]:
    """Propose another prevalence at which all pairs of raters agree as often; accept it or not.

    With s = √π, turned to t by the rotation Q, every matrix Θ that starts at the truth becomes
    diag(t)⁻¹ Q diag(s) Θ (Jaffe, Nadler & Kluger 2015, eq. 5 and theorem 2). Responses determine
    the prevalence weakly. Returns rows and, where computed, the likelihood there.
    """
    share: Any = observation.labels.named(Role.CLASS_SHARES)  # `may_turn` has asked
    moved = observation.raters.from_truth(rows)
    # of any order up to the widest: some fit, whatever the responses say, and nothing needs tuning
    angle = WIDEST * (least_angle(observation) / WIDEST) ** rng.random()
    proposed = propose(rows, share, moved, angle, rng)
    if proposed is None:
        return rows, None
    new, log_ratio = proposed
    (before, now), (after, then) = observation.evidence(rows), observation.evidence(new)
    log_ratio += after - before
    for name in (share, *moved):
        log_ratio += priors[name].log_density(new[name]) - priors[name].log_density(rows[name])
    return (new, then) if math.log(1.0 - rng.random()) < log_ratio else (rows, now)


def may_turn(
    observation: ResponseModel, indices: Mapping[str, Any], priors: Mapping[str, Prior | None]
) -> bool:
    """Return whether :func:`turn` can be used: what it moves has priors without zeros."""
    share = observation.labels.named(Role.CLASS_SHARES)
    if share is None:
        return False
    names = {share, *observation.raters.from_truth(indices)}
    return (
        len(names) > 1
        and names <= set(priors)
        and not any(
            isinstance(p, Dirichlet) and p.concentration.min() <= 0 for p in map(priors.get, names)
        )
    )


def propose(
    rows: LogParameters,
    share: str,
    moved: Mapping[str, Any],
    angle: float,
    rng: np.random.Generator,
) -> tuple[LogParameters, float] | None:
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


def least_angle(observation: ResponseModel) -> float:
    """Return the angle of one item."""
    return WIDEST / math.sqrt(max(int(observation.table.multiplicity.sum()), 2))
