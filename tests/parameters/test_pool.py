"""Rows around a mean in common: their prior, and draws of the mean and of how near rows are."""

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from kept import assert_kept
from typed_crowds import random_crowd

import bayesfuse as bf
from bayesfuse.inference.gibbs import Sweep, step
from bayesfuse.inference.plan import make_plan
from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.observation import Observation
from bayesfuse.parameters.pool import SCALE, Member, SharedMean
from bayesfuse.parameters.simplex import SIMPLEX
from bayesfuse.testing import assert_close


def test_rows_have_the_prior_that_the_members_say():
    members = dict.fromkeys(("mean", "concentration"))
    pool = SharedMean("confusion", members, np.ones((2, 2)), 2.0, 0.4, 3)
    values = {"mean": np.log([[0.7, 0.3], [0.2, 0.8]]), "concentration": np.array([4.0, 10.0])}
    prior = pool.prior(values)
    assert prior.concentration.shape == (3, 2, 2)
    assert_close(prior.concentration[1], [[2.8, 1.2], [2.0, 8.0]], "concentration")
    assert pool.implied(values) == {}


SHARE = np.random.default_rng(3).uniform(0.5, 2.0, (2, 12))
INITIAL, TRANSITION = np.array([2.0, 3.0]), np.array([[5.0, 2.0], [2.0, 3.0]])
MEAN, LOOKS = np.array([6.0, 2.0]), (3.0, 2.0)
"""Priors of the mean of the raters' guesses, and of their competence."""


PRIORS = {
    "initial": INITIAL,
    "transition": TRANSITION,
    "share": SHARE,
    "competence": np.tile(LOOKS, (3, 1)),
}


def of_ones_own(responses):
    """Types of items in sequences: shares of types by class, guesses of raters around a mean."""
    with pm.Model() as model:
        initial, transition = (
            pm.Dirichlet("initial", INITIAL),
            bf.dirichlet("transition", TRANSITION),
        )
        labels = bf.MarkovChain(initial, transition, bf.Sequences.from_lengths([4, 2]))
        share = bf.dirichlet("share", SHARE)
        mean, near = pm.Dirichlet("mean", MEAN), pm.Gamma("near", 4.0, 0.5)
        guess = pm.Dirichlet("guess", pt.alloc(near * mean, 3, 2))
        members = {"mean": Member(mean, SIMPLEX), "concentration": Member(near, SCALE)}
        model.pools = [SharedMean("guess", members, MEAN, 4.0, 0.5, 3)]
        raters = bf.Consensus(share, pm.Beta("competence", *LOOKS, shape=3), guess)
        bf.observe(responses, labels=labels, raters=raters)
    return model


def test_sweeps_of_a_model_of_ones_own_with_a_pool_leave_the_posterior_as_it_is():
    """Parameters from the prior, responses from these, one truth in six known."""
    responses, rng = random_crowd(5, 2, 2, seed=6), np.random.default_rng(2)
    plan = make_plan(of_ones_own(responses))
    sweep, whole, (pooled,) = Sweep.of(plan), plan.observation, plan.pools
    before, after = [], []
    for _ in range(400):
        values = {
            "mean": draw_dirichlet(MEAN, rng),
            "concentration": np.asarray(rng.gamma(4.0, 1 / 0.5)),
        }
        rows = pooled.rows(values)
        for name, prior in PRIORS.items():
            rows[name] = draw_dirichlet(prior, rng)
        rows["guess"] = draw_dirichlet(pooled.pool.prior(values).concentration, rng)
        truth, table = whole.redraw(rows, rng)
        seen = Observation.build(table, whole.labels, whole.raters, {2: truth[2]})
        own = replace(sweep, observation=seen)
        for kept in (before, after):
            near = pooled.values(rows)["concentration"]
            found = {name: np.exp(row) for name, row in rows.items() if np.ndim(row) > 1}
            found |= {"near": near / (1 + near)}
            found["evidence"] = seen.marginal(rows).total / responses.n_responses
            kept.append(found)
            for _ in range(3 if kept is before else 0):
                rows = step(own, own.begin(rows), rng).rows
    assert_kept(before, after)


def test_chains_begin_where_only_some_parameters_have_a_pool():
    """Labels come from a start without types, whose shares are none of its parameters."""
    model = of_ones_own(random_crowd(5, 2, 2, seed=6))
    found = bf.sample(model, 20, tune=10, chains=1, random_seed=1, progressbar=False, quiet=True)
    assert found["posterior"]["share"].shape == (1, 20, 2, 12)
    assert found["posterior"]["share"].std(("chain", "draw")).min() > 0.01
