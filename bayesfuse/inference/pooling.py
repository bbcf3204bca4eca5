"""Where chains begin if rater rows share a mean: at the labels of a model where they do not.

Under a pool, modes of rows and hyperparameters are no place to begin: the density is highest where
all raters are alike. So labels come from the model without the pool, or from Dawid and Skene's, and
hyperparameters and rows are drawn given labels. Where a pool has inputs, the variables behind them
begin with the labels (:mod:`bayesfuse.inference.tilts`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfuse import priors
from bayesfuse.inference.conditionals import statistics
from bayesfuse.inference.gradients import Gradients
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.inference.tilts import Tilts
from bayesfuse.observation import Observation, Rows, Spread
from bayesfuse.parameters.contract import Prior, draw_all
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.raters.confusion import Confusion

SETTLING = 10
"""Draws of hyperparameters given the same labels, before a chain begins."""


def rest_of(plan: Plan) -> Gradients | None:
    """Return what a start moves along gradients, None if there is nothing of the kind."""
    return Tilts(plan, _plain(plan)) if any(pooled.inputs for pooled in plan.pools) else None


def begin(plan: Plan, method: str, rest: Gradients | None = None) -> Start:
    """Find parameters of the model without the pool, as :func:`find_start` does."""
    observation = _plain(plan)
    if isinstance(observation, Spread):
        observation = observation.pilot
    if rest is not None:  # slopes settle sooner without items of which no response is known
        told = (observation.table.per_item > 0) | (observation.table_gold >= 0)
        observation = observation.part(np.flatnonzero(told))
    return find_start(observation, _plain_priors(plan), method, rest)


def disperse(
    plan: Plan, begun: Rows, rng: np.random.Generator, rest: Gradients | None = None
) -> Rows:
    """Draw labels, then all parameters given these."""
    observation, plain, rows = plan.observation, _plain(plan), dict(begun)
    if rest is not None:
        rows = rest.disperse(rows, plain.expected(rows)[1], rng)
    values = [pooled.begin(rows, rng) for pooled in plan.pools]

    def below() -> dict[str, Prior]:
        """Return the priors of rows that are blocks, members of pools as they are."""
        every = zip(plan.pools, values, strict=True)
        priors = {pooled.pool.parameter: pooled.pool.prior(value) for pooled, value in every}
        return {name: prior for name, prior in priors.items() if name in plan.blocks}

    for pooled, value in zip(plan.pools, values, strict=True):
        rows |= pooled.rows(value)
    rows |= {name: prior.centre() for name, prior in below().items()}
    rows = {name: prior.centre() for name, prior in plan.priors().items()} | rows
    # labels and hidden variables of the channel are drawn once
    counts = observation.draw_counts(rows, rng, by=(plain.raters, dict(begun)))
    for _ in range(SETTLING):
        for at, pooled in enumerate(plan.pools):
            values[at] |= pooled.pool.draw(values[at], counts, rng)
            rows |= pooled.rows(values[at])
    said = statistics(observation, rows, counts)
    own = {name: p for name, p in plan.priors().items() if name in said and p.free}
    rows |= draw_all(own | below(), said, rows, rng)
    return rows


def _plain(plan: Plan) -> Observation:
    """Return the observation in the model without pools, or with one confusion matrix per rater."""
    observation, channel = plan.observation, Confusion(None)
    if _unpooled(plan) is not None:
        return observation
    return replace(observation, raters=channel, arranged=None)


def _plain_priors(plan: Plan) -> Mapping[str, Prior]:
    """Return fixed priors, those of the model where it has some."""
    observation, own = _plain(plan), plan.priors()
    if (rows := _unpooled(plan)) is not None:
        return {**own, **rows}
    responses = observation.responses
    confusion: Any = priors.confusion(None, responses)
    flat = Dirichlet(np.ones(responses.n_classes))
    moved = any(pooled.inputs for pooled in plan.pools)  # class shares follow from slopes
    shares = {n: own.get(n, flat) for n in observation.labels.parameters if not moved}
    return shares | {"confusion": Dirichlet(confusion)}


def _unpooled(plan: Plan) -> dict[str, Prior] | None:
    """Return the priors of pooled parameters without their pools, None if some have none."""
    found: dict[str, Prior] = {}
    for pooled in plan.pools:
        prior = pooled.pool.unpooled()
        if prior is None:
            return None
        found[pooled.pool.parameter] = prior
    return found
