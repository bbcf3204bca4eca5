"""Which variables are updated in closed form, and that those that are get their own posterior."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from own_factors import Guessing

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.parameters.contract import Parameter
from bayesfuse.parameters.real import REAL

TRUTH = np.random.default_rng(0).integers(0, 2, 30)
UNANIMOUS = bf.Responses.from_matrix(np.column_stack([TRUTH] * 3))
QUIET = {"progressbar": False, "quiet": True, "random_seed": 1}


def test_mixtures_are_updated_only_where_shares_and_components_are_fixed():
    """Else the first argument of PyMC's mixture would be taken for concentrations."""
    components = pm.Dirichlet.dist([[2.0, 40.0], [40.0, 2.0]])
    with pm.Model() as model:
        shares = pm.Dirichlet("shares", [4.0, 1.0])
        prevalence = pm.Mixture("prevalence", w=shares, comp_dists=components)
        channel = bf.OneCoin(np.array([0.9, 0.8, 0.7]))
        bf.observe(UNANIMOUS, labels=bf.Independent(prevalence), raters=channel)
    assert not make_plan(model).blocks
    with pm.Model() as model:
        prevalence = pm.Mixture("prevalence", w=[0.8, 0.2], comp_dists=components)
        bf.observe(UNANIMOUS, labels=bf.Independent(prevalence), raters=channel)
    prior = make_plan(model).blocks["prevalence"].prior
    assert np.allclose(prior.mean(), [0.8 * 2 / 42 + 0.2 * 40 / 42, 0.8 * 40 / 42 + 0.2 * 2 / 42])


def test_a_variable_that_is_two_parameters_is_no_block():
    responses = bf.Responses.from_matrix([[0] * 4, [1] * 4, [2] * 4, [0, 0, 0, 1]])
    with pm.Model() as model:
        both = pm.Beta("both", 2, 2, shape=4)
        labels = bf.Independent(np.ones(3) / 3)
        bf.observe(responses, labels=labels, raters=Guessing(both, both))
    assert not make_plan(model).blocks


@pytest.mark.parametrize("below_one", [False, True])
def test_pooled_accuracies_of_raters_who_never_err(below_one):
    """Accuracies near one stay below it, or NUTS could not move what they depend on."""
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 1.0])
        if below_one:  # a density with a pole at one
            accuracy = pm.Beta("accuracy", 3, pm.Gamma("b", 2, 10), shape=3)
        else:
            mean, size = pm.Beta("mean", 2, 2), pm.Exponential("size", 0.5)
            accuracy = pm.Beta("accuracy", mean * size, (1 - mean) * size, shape=3)
        bf.observe(UNANIMOUS, labels=bf.Independent(prevalence), raters=bf.OneCoin(accuracy))
    result = bf.sample(model, 10, tune=10, chains=1, **QUIET)
    assert result.attrs["sampler"] == "gibbs"
    assert (result["posterior"]["accuracy"] < 1).all()
    point = bf.find_map(model, iterations=10)
    assert np.isfinite(point["trace"]["log_posterior"]).all()


def test_starts_stay_within_the_support_of_variables_without_a_transform():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 1.0])
        sd = pm.HalfNormal("sd", 1, default_transform=None)
        channel = bf.OneCoin(pm.math.sigmoid(pm.Normal("logit", 1, sd, shape=3)))
        bf.observe(UNANIMOUS, labels=bf.Independent(prevalence), raters=channel)
    result = bf.sample(model, 5, tune=3, chains=4, cores=1, **QUIET)
    assert (result["posterior"]["sd"] > 0).all()


def test_what_a_factor_declares_is_checked():
    class Silent(bf.OneCoin):
        declared = ()

    class Lost(bf.OneCoin):
        declared = (Parameter("accuracy", REAL, ("camera",)),)

    with pm.Model():
        labels = bf.Independent(np.ones(2) / 2)
        for kind, rule in ((Silent, "must declare all its parameters"), (Lost, "camera")):
            with pytest.raises(ModelError, match=rule):
                bf.observe(UNANIMOUS, labels=labels, raters=kind(np.full(3, 0.8)))
