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

from bayesfuse import priors
from bayesfuse.inference.conditionals import statistics
from bayesfuse.inference.plan import Plan
from bayesfuse.inference.start import Start, find_start
from bayesfuse.numerics.kernels import Array
from bayesfuse.observation import Observation, Rows
from bayesfuse.parameters.contract import Prior, draw_all
from bayesfuse.parameters.dirichlet import Dirichlet
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
    for turn in range(SETTLING):
        for at, pooled in enumerate(plan.pools):
            rows |= pooled.rows(values[at])
            prior, name = pooled.pool.prior(values[at]), pooled.pool.parameter
            if name in plan.blocks:
                rows[name] = prior.centre() if turn == 0 else prior.draw(counts[name], {}, rng)
        if turn == 0:  # hidden variables of the channel are drawn once
            counts = observation.tally(rows, drawn, rng)
        for at, pooled in enumerate(plan.pools):
            values[at] = pooled.pool.draw(values[at], counts, rng)
    said = statistics(observation, rows, counts)
    rows |= draw_all(
        {n: p for n, p in plan.priors().items() if n in said and p.free}, said, rows, rng
    )
    members = [block for pooled in plan.pools for block in pooled.members.values()]
    for at, pooled in enumerate(plan.pools):
        rows |= pooled.rows(values[at])
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
    rows: dict[str, Any] = {"confusion": Dirichlet(priors.confusion(None, responses))}
    flat = Dirichlet(np.ones(responses.n_classes))
    return rows | {name: own.get(name, flat) for name in observation.labels.parameters}
