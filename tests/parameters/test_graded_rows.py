"""Draws of graded raters given counts leave the joint distribution of both as it is."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import beta, halfnorm, kstest, norm

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene
from bayesfuse.parameters.graded_rows import LOGS

REPLICATES = 400
ALPHA = 1e-5


def pool_of(n_classes, pooled):
    table = bf.Responses.from_matrix([[0, 1, 0], [1, 1, 0]], classes=range(n_classes))
    model = DawidSkene(table, raters="graded", pooled=pooled)
    return make_plan(model).pools[0].pool


def from_prior(pool, rng):
    """Draw the members' values."""
    values, priors = {}, pool.priors
    for role in pool.roles:
        shape = (pool.n_classes - 2,) if role == "threshold_gap" else ()
        mean, spread = priors.alone[role]
        if pool.pooled:
            centre, width = priors.mean[role]
            mean = centre + width * rng.standard_normal(shape)
            spread = priors.spread[role] * abs(rng.standard_normal())
            values[f"{role}_mean"] = np.exp(mean) if role in LOGS else mean
            values[f"{role}_spread"] = spread
        own = mean + spread * rng.standard_normal((pool.n_raters, *shape))
        values[role] = np.exp(own) if role in LOGS else own
    if pool.n_classes > 2:
        concentration = np.full(pool.n_classes - 1, priors.position_gap)
        values["position_gap"] = np.log(rng.dirichlet(concentration))
    return {role: np.asarray(values[role]) for role in pool.members}


@pytest.mark.parametrize(("n_classes", "pooled"), [(2, True), (4, False), (4, True)])
def test_draws_leave_the_prior_as_it_is(n_classes, pooled):
    pool, rng = pool_of(n_classes, pooled), np.random.default_rng(3)
    size = np.array([[40] * n_classes, [5] * n_classes, [0] * n_classes])  # of raters and classes
    seen = {role: [] for role in pool.members}
    for _ in range(REPLICATES):
        values = from_prior(pool, rng)
        rows = np.exp(pool.implied(values)["confusion"])
        counts = rng.multinomial(size, rows / rows.sum(axis=-1, keepdims=True)).astype(float)
        values = pool.draw(values, SimpleNamespace(raters=(counts,)), rng)
        for role, value in values.items():
            seen[role].append(value)
    for role, drawn in seen.items():
        scaled = uniform(pool, role, np.array(drawn), seen)
        for place in np.ndindex(scaled.shape[1:]):
            p_value = kstest(scaled[:, *place], "uniform").pvalue
            assert p_value > ALPHA, (role, place, p_value)


def uniform(pool, role, drawn, seen):
    """Return the prior probability of values below those drawn, given what is above them."""
    priors = pool.priors
    if role == "position_gap":
        own = priors.position_gap
        return beta(own, own * (pool.n_classes - 2)).cdf(np.exp(drawn))
    if role.endswith("_spread"):
        return halfnorm(scale=priors.spread[role.removesuffix("_spread")]).cdf(drawn)
    logs = np.log(drawn) if role.startswith(LOGS) else drawn
    if role.endswith("_mean"):
        return norm(*priors.mean[role.removesuffix("_mean")]).cdf(logs)
    mean, spread = priors.alone[role]
    if pool.pooled:
        mean = np.array(seen[f"{role}_mean"])[:, None]
        mean = np.log(mean) if role in LOGS else mean
        spread = np.array(seen[f"{role}_spread"]).reshape(-1, *[1] * (logs.ndim - 1))
    return norm(mean, spread).cdf(logs)
