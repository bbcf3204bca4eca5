"""Models of a table of three classes, for several test files.

One of every conjugate prior × channel, and a hierarchical one that is not conjugate.
"""

import numpy as np
import pymc as pm
from scipy import special

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.inference.start import find_start
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup


def chains(responses):
    n = responses.n_items
    return bf.Sequences.from_lengths([n // 2, n // 4, n - n // 2 - n // 4], items=responses.items)


# Transitions may not skip a class upwards, and nothing begins in the last.
SPARSE = {
    "initial_prior": [1.0, 2.0, 0.0],
    "transition_prior": [[2.0, 1.0, 0.0], [1.0, 1.0, 1.0], [1.0, 2.0, 1.0]],
}

MODELS = {
    "confusion": lambda r, **kw: DawidSkene(r, prevalence_prior=[1.0, 2.0, 3.0], **kw),
    "class": lambda r, **kw: DawidSkene(r, raters="class", **kw),
    "coin": lambda r, **kw: DawidSkene(r, raters="coin", **kw),
    "groups": lambda r, **kw: LatentGroup(r, groups=[[0, 1, 2]], **kw),
    "all alone": lambda r, **kw: LatentGroup(r, groups={}, **kw),
    "chain": lambda r, **kw: HiddenMarkov(r, chains(r), **{"raters": "confusion"} | kw),
    "sparse chain": lambda r, **kw: HiddenMarkov(r, chains(r), **SPARSE, **kw),
    "chain of coins": lambda r, **kw: HiddenMarkov(r, chains(r), raters="coin", **kw),
    "stationary": lambda r, **kw: HiddenMarkov(r, chains(r), initial="stationary", **kw),
}


def hierarchical(responses, weight=None):
    """Raters whose accuracies share a mean; the weight of the prevalence's prior may be unknown."""
    with pm.Model(coords={"rater": responses.raters}) as model:
        if weight is None:
            weight = pm.Gamma("weight", 5, 1)
        prevalence = pm.Dirichlet("prevalence", weight * np.ones(responses.n_classes))
        mean = pm.Normal("mean", 1.0, 0.5)
        logit = pm.Normal("logit", mean, 0.5, dims="rater")
        channel = bf.build.OneCoin(pm.math.sigmoid(logit))
        bf.build.observe(responses, labels=bf.build.Independent(prevalence), raters=channel)
    return model


def pieces(model):
    """Return the observation, the prior and the rows to start from."""
    plan = make_plan(model)
    prior = plan.continuous_priors()
    return plan.observation, prior, find_start(plan.observation, prior).rows


def typical(model):
    """Return rows in the middle of the prior."""
    plan, rng = make_plan(model), np.random.default_rng(3)
    rows = {name: prior.centre() for name, prior in plan.priors().items()}
    for pooled in plan.pools:
        rows |= pooled.rows(pooled.pool.begin(rng))
        below = pooled.pool.parameter
        if below in plan.blocks:
            rows[below] = pooled.pool.prior(pooled.values(rows)).centre()
    return rows


def log_multinomial(alpha, counts):
    """Log probability of counts in one order, the Dirichlet row summed out."""
    rising = special.gammaln(alpha + counts) - special.gammaln(alpha)
    total = alpha.sum(axis=-1)
    return rising.sum(-1) + special.gammaln(total) - special.gammaln(total + counts.sum(-1))
