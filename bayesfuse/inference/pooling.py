"""Where chains begin if rater rows share a mean: at Dawid and Skene's labels.

Under a pool, modes of rows and hyperparameters are no place to begin: the density is highest where
all raters are alike. So labels come from the model without the pool, and hyperparameters and rows
are drawn given labels.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import numpy as np

from bayesfuse.inference.conditionals import statistics
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import Prior, draw_all
from bayesfuse.parameters.dirichlet import Dirichlet
from bayesfuse.priors import confusion as confusion_prior
from bayesfuse.raters.confusion import Confusion

SETTLING = 10
"""Draws of hyperparameters given the same labels, before a chain begins."""


def begin(plan: Plan, method: str) -> Start:
    """Find label parameters and one confusion matrix per rater, as :func:`find_start` does."""
    return find_start(_plain(plan), _plain_priors(plan), method)


def disperse(plan: Plan, begun: Rows, rng: np.random.Generator) -> dict[str, Array]:
    """Draw labels, then all variables given these; return values of the model's variables."""
    observation, rows = plan.observation, dict(begun)
    drawn = _plain(plan).draw(rows, rng)
    values = [pooled.pool.begin(rng) for pooled in plan.pools]
    for pooled, own in zip(plan.pools, values, strict=True):
        rows[pooled.pool.parameter] = pooled.pool.prior(own).centre()
        rows |= pooled.rows(own)
    counts = observation.tally(rows, drawn, rng)  # hidden variables of the channel are drawn
    said = statistics(observation, rows, counts)
    priors = {name: prior for name, prior in plan.priors().items() if name in said and prior.free}
    for pooled, own in zip(plan.pools, values, strict=True):
        for _ in range(SETTLING):
            own = pooled.pool.draw(own, counts, rng)
        rows |= pooled.rows(own)
        if pooled.pool.parameter in plan.blocks:
            priors[pooled.pool.parameter] = pooled.pool.prior(own)
    rows |= draw_all(priors, said, rows, rng)
    members = [block for pooled in plan.pools for block in pooled.members.values()]
    return {
        block.variable.name: block.natural(rows[block.parameter])
        for block in [*plan.blocks.values(), *members]
    }


def _plain(plan: Plan) -> Observation:
    """Return the observation with one confusion matrix per rater."""
    observation, channel = plan.observation, Confusion(None)
    structure = channel.structure(observation.table, observation.table_gold)
    return replace(observation, raters=channel, rater_structure=structure)


def _plain_priors(plan: Plan) -> Mapping[str, Prior]:
    """Return fixed priors, those of the model where it has some."""
    observation, own = plan.observation, plan.priors()
    responses = observation.responses
    rows: dict[str, Any] = {"confusion": Dirichlet(confusion_prior(None, responses))}
    flat = Dirichlet(np.ones(responses.n_classes))
    return rows | {name: own.get(name, flat) for name in observation.labels.parameters}
