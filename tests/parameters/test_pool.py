"""Rows around a mean in common: exact posteriors of the mean and of how near rows are to it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from kept import assert_kept
from scipy import stats
from scipy.special import gammaln

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Counts, Observation
from bayesfuse.parameters.pool import SCALE, Member, SharedMean
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.testing import assert_close, assert_uniform, assert_within_mcse

MEAN_PRIOR = np.array([[3.0, 1.0], [1.0, 2.0]])
COUNTS = np.array([[[5.0, 1.0], [0.0, 3.0]], [[2.0, 2.0], [0.0, 0.0]], [[7.0, 0.0], [1.0, 9.0]]])
"""Of three raters, (raters, classes, answers), of which one has not met the second class."""


def pool_of(n_raters, members=None):
    members = dict.fromkeys(("mean", "concentration")) if members is None else members
    return SharedMean("confusion", members, MEAN_PRIOR, 2.0, 0.4, n_raters)


def exact(counts, mean_prior):
    """Posterior of one mean (its first share) and concentration on a grid: marginal weights."""
    share = (np.arange(400) + 0.5) / 400
    kappa = np.exp(np.linspace(np.log(1e-3), np.log(400), 600))
    a, b = kappa[:, None] * share, kappa[:, None] * (1 - share)
    log_weight = stats.beta(*mean_prior).logpdf(share) + np.log(kappa)[:, None]
    log_weight = log_weight + stats.gamma(2.0, scale=1 / 0.4).logpdf(kappa)[:, None]
    for one, other in counts:
        log_weight += gammaln(a + one) - gammaln(a) + gammaln(b + other) - gammaln(b)
        log_weight += (gammaln(kappa) - gammaln(kappa + one + other))[:, None]
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    return (share, weight.sum(axis=0)), (kappa, weight.sum(axis=1))


def test_mean_and_concentration_have_their_posterior():
    """Of five hundred chains side by side, after forty draws each, by rows of the mean."""
    pool, counts, rng = pool_of(3), Counts({"confusion": COUNTS}, (), ()), np.random.default_rng(1)
    shares, kappas = [], []
    for _ in range(500):
        values = pool.begin(rng)
        for _ in range(40):
            values = pool.draw(values, counts, rng)
        shares.append(np.exp(values["mean"][:, 0]))
        kappas.append(values["concentration"])
    for k in (0, 1):
        for (grid, weight), drawn, name in zip(
            exact(COUNTS[:, k], MEAN_PRIOR[k]),
            (shares, kappas),
            ("mean", "concentration"),
            strict=True,
        ):
            up_to = np.interp(np.array(drawn)[:, k], grid, weight.cumsum() - weight / 2)
            assert_uniform(up_to, 1, f"{name} of class {k}")


def test_rows_have_the_prior_that_the_members_say():
    pool = pool_of(3)
    values = {"mean": np.log([[0.7, 0.3], [0.2, 0.8]]), "concentration": np.array([4.0, 10.0])}
    prior = pool.prior(values)
    assert prior.concentration.shape == (3, 2, 2)
    assert_close(prior.concentration[1], [[2.8, 1.2], [2.0, 8.0]], "concentration")
    assert pool.implied(values) == {}


def build(responses, gold=None):
    with pm.Model(coords={"rater": responses.raters.tolist()}) as model:
        mean = pm.Dirichlet("mean", MEAN_PRIOR)
        near = pm.Gamma("near", 2.0, 0.4, shape=2)
        rows = pm.Dirichlet("rows", (near[:, None] * mean)[None] * np.ones((3, 1, 1)))
        prevalence = pm.Dirichlet("prevalence", [2.0, 1.0])
        bf.observe(
            responses, labels=bf.Independent(prevalence), raters=bf.Confusion(rows), gold=gold
        )
    members = {"mean": Member(mean, SIMPLEX), "concentration": Member(near, SCALE)}
    model.pools = [pool_of(3, members)]
    return model


def table():
    rng = np.random.default_rng(3)
    item, rater = np.nonzero(rng.random((12, 3)) < 0.8)
    item, rater = np.append(item, item[:3]), np.append(rater, rater[:3])
    label = rng.choice(2, len(item), p=[0.6, 0.4])
    return bf.Responses.from_long({"item": item, "rater": rater, "label": label})


def test_a_model_of_ones_own_with_a_pool():
    """Sweeps of the step leave the posterior as it is, next to a parameter with a fixed prior."""
    responses, rng = table(), np.random.default_rng(2)
    step = bf.LabelGibbs(model=build(responses), rng=1)
    assert len(step.vars) == 4
    whole, (pooled,) = step.observation, step.pools
    before, after = [], []
    for _ in range(600):
        values = {
            "mean": draw_dirichlet(MEAN_PRIOR, rng),
            "concentration": rng.gamma(2.0, 1 / 0.4, size=2),
        }
        rows = pooled.rows(values) | {"prevalence": draw_dirichlet(np.array([2.0, 1.0]), rng)}
        rows["confusion"] = draw_dirichlet(pooled.pool.prior(values).concentration, rng)
        truth, label = whole.simulate(rows, rng)
        step.observation = Observation.build(
            responses.relabelled(label), whole.labels, whole.raters, {0: int(truth[0])}
        )
        for kept in (before, after):
            near = pooled.values(rows)["concentration"]
            found = {name: np.exp(rows[name]) for name in ("prevalence", "confusion")}
            found |= {"mean": np.exp(pooled.values(rows)["mean"]), "near": near / (1 + near)}
            found["evidence"] = step.observation.marginal(rows).total / responses.n_responses
            kept.append(found)
            for _ in range(3):
                rows = rows | step.sweep(rows, step.fixed)
    assert_kept(before, after)


@pytest.mark.slow
def test_gibbs_with_a_pool_agrees_with_nuts():
    model = build(table(), gold={2: 1})
    assert make_plan(model).pooled
    settings = {"chains": 2, "progressbar": False, "quiet": True}
    gibbs = bf.sample(model, 6000, sweeps=2, random_seed=1, **settings)
    nuts = bf.sample(
        model,
        2000,
        sampler="nuts",
        nuts_sampler="pymc",
        random_seed=2,
        target_accept=0.95,
        **settings,
    )
    names = ["mean", "near", "rows", "prevalence"]
    assert_within_mcse(gibbs["posterior"].dataset, nuts["posterior"].dataset, names)
