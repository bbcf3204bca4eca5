"""Where chains begin: at a start that all share, dispersed by a sweep of each its own.

Under a pool the density is highest where all raters are alike. So labels come from the model
without the pool, or from Dawid and Skene's, and hyperparameters and rows are drawn given labels.
Where a pool has inputs (what is known of items), their slopes begin with the labels, by EM.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfuse.errors import ModelError, require_mapping
from bayesfuse.inference.gibbs import Sweep, draw_all, step
from bayesfuse.inference.gradients import Gradients, Tilts
from bayesfuse.inference.plan import Plan, require_value
from bayesfuse.inference.start import Start, find_start
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import Prior
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import diagonal
from bayesfuse.raters.confusion import Confusion

SETTLING = 10  # draws of hyperparameters given the same labels, before a chain begins


class Beginning:
    """The start (a method, or values of variables) and the points around it where chains begin."""

    def __init__(self, plan: Plan, start: str | Mapping[str, Any]) -> None:
        self.plan, self.plain = plan, plan.observation
        self.rest: Gradients | None = None
        if not isinstance(start, str):
            own = {variable.name for variable in plan.model.free_RVs}
            self.start = Start({}, "given", values={n: v for n, v in start.items() if n in own})
            return
        if not plan.pooled:
            self.start, self.rest = start_of(plan, start)
            return
        self.plain, priors = _without_pools(plan)
        observation = self.plain.pilot
        if plan.inputs:  # slopes settle sooner without items of which no response is known
            self.rest = Tilts(plan, self.plain)
            told = (observation.table.per_item > 0) | (observation.table_gold >= 0)
            observation = observation.part(np.flatnonzero(told))
        self.start = find_start(observation, priors, start, self.rest)

    def start_rows(self) -> Rows:
        """Return the parameters of the start, at which all chains may begin."""
        return self.start.rows if self.start.values is None else self._given(self.start.values)

    def rows(self, rng: np.random.Generator) -> Rows:
        """Return all parameters, in kernel coordinates, where a chain begins."""
        if self.start.values is not None:
            return self._given(self.start.values)
        if self.plan.pooled:
            return self._pooled(self.start.rows, rng)
        rows: Rows = {**self.start.rows, **self.plan.indices()}
        priors: dict[str, Prior] = self.plan.priors()
        if self.rest is not None:
            priors |= self.rest.priors(rows)
        drawn = tuple(name for name, prior in priors.items() if prior.free)
        sweep = Sweep(self.plan.observation, priors, drawn)
        begun = {n: prior.centre() for n, prior in priors.items()} | rows
        found = step(sweep, sweep.begin(begun), rng).rows
        if self.rest is None:
            return found
        _, counts = self.plan.observation.expected(rows)
        return self.rest.disperse(found, counts, rng)

    def _pooled(self, begun: Rows, rng: np.random.Generator) -> Rows:
        """Draw labels, then all parameters given these."""
        plan, sweep, rows = self.plan, Sweep.of(self.plan), dict(begun)
        if self.rest is not None:
            rows = self.rest.disperse(rows, self.plain.expected(rows)[1], rng)
        rows = {name: prior.centre() for name, prior in sweep.priors.items()} | rows
        for pooled in plan.pools:
            rows |= pooled.rows(pooled.begin(rows, rng))
        rows |= {name: prior.centre() for name, prior in sweep.below_pools(rows).items()}
        # labels and hidden variables of the channel are drawn once
        counts = plan.observation.draw_counts(rows, rng, by=(self.plain.raters, dict(begun)))
        for _ in range(SETTLING):
            for pooled in plan.pools:
                values = pooled.values(rows)
                rows |= pooled.rows(values | pooled.pool.draw(values, counts, rng))
        said = plan.observation.statistics(rows, counts)
        priors = {**sweep.priors, **sweep.below_pools(rows)}
        return rows | draw_all({name: priors[name] for name in sweep.drawn}, said, rows, rng)

    def values(self, rng: np.random.Generator) -> dict[str, Any]:
        """Return values of the model's variables at which a chain begins, off any boundary."""
        if self.start.values is not None:
            return dict(self.start.values)
        rows = self.rows(rng)
        return self.plan.natural(rows) | ({} if self.rest is None else self.rest.natural(rows))

    def _given(self, values: Mapping[str, Any]) -> Rows:
        """Return the rows of given values, and of PyMC's initial ones where none are given."""
        rows, point = self.plan.priors(), self.plan.model.initial_point(0)
        found: Rows = {name: prior.centre() for name, prior in rows.items() if not prior.free}
        with np.errstate(divide="ignore"):  # zero is a legal probability
            for block in self.plan.all_blocks:
                name, given = block.parameter, values.get(block.variable.name)
                if given is None:
                    found[name] = np.asarray(block.read(point))
                else:
                    found[name] = np.asarray(block.support.to_kernel(np.asarray(given)))
        for pooled in self.plan.pools:
            found |= pooled.rows(pooled.values(found))
        return found


def start_of(plan: Plan, method: str) -> tuple[Start, Gradients | None]:
    """Return the start of a model as it is, and the gradients of what has no closed form."""
    rest = None if plan.complete else Gradients(plan)
    return find_start(plan.begun(), plan.continuous_priors(), method, rest), rest


def require_start(model: Any, start: Mapping[str, Any]) -> None:
    """Raise ModelError unless a start gives possible values to free variables of a model."""
    require_mapping("start, unless it is a word,", start)
    known = {variable.name: variable for variable in model.free_RVs}
    if unknown := set(start) - set(known):
        raise ModelError(
            f"A start must give values to free variables of the model, {sorted(known)}. Got: "
            f"{sorted(unknown)}."
        )
    for name, value in start.items():
        require_value(model, known[name], value)


def _without_pools(plan: Plan) -> tuple[Observation, dict[str, Prior]]:
    """Return the model without pools, or with a confusion matrix per rater, and fixed priors."""
    own, pools = plan.priors(), [pooled.pool for pooled in plan.pools]
    unpooled = {pool.parameter: prior for pool in pools if (prior := pool.unpooled()) is not None}
    if len(unpooled) == len(pools):
        return plan.observation, {**own, **unpooled}
    observation = replace(plan.observation, raters=Confusion(None), arranged=None)
    table = observation.responses
    rows = np.tile(diagonal(table.n_classes), (table.n_raters, 1, 1))
    flat = Dirichlet(np.ones(table.n_classes))
    names = () if plan.inputs else observation.labels.parameters  # shares follow from slopes
    return observation, {n: own.get(n, flat) for n in names} | {"confusion": Dirichlet(rows)}
