"""Gibbs sweeps: labels given the parameters, then parameters given the labels."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from bayesfuse.inference import turning
from bayesfuse.inference.chain_kernel import TURNS
from bayesfuse.inference.plan import Plan, PooledBlock
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Counts, Observation, Rows
from bayesfuse.parameters.contract import Prior, draw_all

WORTH_TURNING = 0.1  # acceptance rate of turns below which drawing labels moves prevalence as well


@dataclass(frozen=True)
class Sweep:
    """The parameters drawn in a sweep, fixed priors of these and of constants, and pools."""

    observation: Observation
    priors: Mapping[str, Prior]
    drawn: tuple[str, ...]
    pools: tuple[PooledBlock, ...] = ()
    may_turn: bool = False

    @classmethod
    def of(cls, plan: Plan, drawn: tuple[str, ...] | None = None, pools: Any = None) -> Sweep:
        """Return the sweep over all parameters of a plan that have conditionals, or over some."""
        drawn = tuple(plan.blocks) if drawn is None else drawn
        own = {n: block.prior for n, block in plan.blocks.items() if n in drawn}
        priors = {n: prior for n, prior in own.items() if prior is not None}
        return cls(
            plan.observation,
            priors | plan.constants,
            drawn,
            plan.pools if pools is None else tuple(pools),
            turning.possible(plan.observation, plan.indices(), own),
        )

    def begin(self, rows: Rows, labels: NDArray[Any] | None = None) -> State:
        """Return the state of a chain that begins at these rows."""
        return State(rows, labels, self.may_turn, 0, 0)

    def below_pools(self, rows: Rows) -> dict[str, Prior]:
        """Return the priors of rows below pools whose members have these values."""
        return {
            pooled.pool.parameter: pooled.pool.prior(pooled.values(rows))
            for pooled in self.pools
            if pooled.pool.parameter not in pooled.implied
        }


class State(NamedTuple):
    """Rows in kernel coordinates, labels to go on from, whether sweeps try turns, and counts."""

    rows: Rows
    labels: NDArray[Any] | None
    turns: bool
    tried: int
    accepted: int

    def tuned(self) -> State:
        """Return the state after tuning: without turns if too few were accepted."""
        return self._replace(turns=self.turns and self.accepted >= WORTH_TURNING * self.tried)


def step(sweep: Sweep, state: State, rng: np.random.Generator) -> State:
    """Return the state after one sweep."""
    observation, rows, priors, seen = sweep.observation, state.rows, sweep.priors, None
    if state.turns and rng.random() < TURNS:
        all_priors: Any = {**priors, **sweep.below_pools(rows)}
        turned, seen = turning.turn(observation, rows, all_priors, rng)
        accepted = state.accepted + (turned is not rows)
        rows, state = turned, state._replace(tried=state.tried + 1, accepted=accepted)
    if sweep.pools:
        priors = {**priors, **sweep.below_pools(rows)}
    labels, found, counts = _draw_labels(observation, rows, priors, rng, state.labels, seen)
    statistics = observation.statistics(rows, counts)
    for pooled in sweep.pools:
        values = pooled.values(rows)
        found |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
    if sweep.pools:
        priors = {**priors, **sweep.below_pools(rows | found)}
    names = [name for name in sweep.drawn if name not in found]
    proposed = draw_all({name: priors[name] for name in names}, statistics, rows, rng)
    if not _accepts(observation, rows, proposed, labels, rng):
        proposed |= {n: rows[n] for n in observation.labels.parameters if n in proposed}
    kept = labels if observation.labels.moves_labels else None
    return state._replace(rows=rows | found | proposed, labels=kept)


def _draw_labels(
    observation: Observation,
    rows: Rows,
    priors: Mapping[str, Prior],
    rng: np.random.Generator,
    previous: NDArray[Any] | None,
    seen: tuple[Array, Array] | None,
) -> tuple[NDArray[Any] | None, dict[str, Any], Counts]:
    """Draw labels (None if their counts suffice), what the channel draws itself, and counts."""
    labels, raters = observation.labels, observation.raters
    if labels.counts_all and not labels.moves_labels and not observation.redraws:
        return None, {}, observation.draw_counts(rows, rng, seen)
    drawn = observation.draw(rows, rng, previous, seen)
    if not observation.redraws:
        return drawn, {}, observation.tally(rows, drawn, rng)
    found, rater_counts = raters.redraw(
        rows, observation.tables(rows), drawn, priors, observation.rater_structure, rng
    )
    return drawn, found, observation.counted(drawn, rater_counts)


def _accepts(
    observation: Observation,
    rows: Rows,
    proposed: Rows,
    drawn: NDArray[Any] | None,
    rng: np.random.Generator,
) -> bool:
    """Accept or reject label parameters drawn by counts alone (Metropolis–Hastings)."""
    labels = observation.labels
    if labels.counts_all:
        return True
    assert drawn is not None  # labels whose counts say all are the only ones that are not kept
    old, new = (
        labels.uncounted(observation.label_tables(at), drawn, observation.label_structure)
        for at in (rows, rows | proposed)
    )
    return bool(np.log(rng.random()) < new - old)


def with_priors(sweep: Sweep, priors: Mapping[str, Prior]) -> Sweep:
    """Return the sweep with these priors in place of its own, checked where groups are inferred."""
    found = replace(sweep, priors={**sweep.priors, **priors})
    indices = set(sweep.observation.indices)
    if indices & set(sweep.drawn):
        raters = sweep.observation.raters
        raters.require_priors({n: found.priors[n] for n in set(raters.parameters) - indices})
    return found
