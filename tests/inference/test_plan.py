"""What is updated in closed form, and EM of models with parameters that are not."""

import numpy as np
import pymc as pm
import pytest
from own_factors import Guessing
from refusals import refused

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.parameters.contract import REAL, Parameter

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
    with pm.Model() as model:  # as is one on which another depends
        after, rows = pm.Dirichlet("after", np.ones((3, 3))), bf.priors.diagonal(3)
        labels = bf.MarkovChain(after.mean(axis=0), after, bf.Sequences.from_lengths([4]))
        rows = bf.dirichlet("rows", rows, shape=(4, 3, 3))
        bf.observe(responses, labels=labels, raters=bf.Confusion(rows))
    assert set(make_plan(model).blocks) == {"confusion"}


@pytest.mark.slow
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
    result = bf.sample(model, 5, tune=5, chains=1, **QUIET)
    assert result.attrs["sampler"] == "gibbs"
    assert (result["posterior"]["accuracy"] < 1).all()
    point = bf.find_map(model, iterations=5)
    assert np.isfinite(point["trace"]["log_posterior"]).all()


@pytest.mark.slow
def test_starts_stay_within_the_support_of_variables_without_a_transform():
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", [1.0, 1.0])
        sd = pm.HalfNormal("sd", 1, default_transform=None)
        channel = bf.OneCoin(pm.math.sigmoid(pm.Normal("logit", 1, sd, shape=3)))
        bf.observe(UNANIMOUS, labels=bf.Independent(prevalence), raters=channel)
    result = bf.sample(model, 5, tune=3, chains=2, cores=1, **QUIET)
    assert (result["posterior"]["sd"] > 0).all()


def test_what_a_factor_declares_is_checked():
    class Silent(bf.OneCoin):
        declared = ()

    class Lost(bf.OneCoin):
        declared = (Parameter("accuracy", REAL, ("camera",)),)

    with pm.Model():
        labels = bf.Independent(np.ones(2) / 2)
        for kind, rule in ((Silent, "must declare all its parameters"), (Lost, "camera")):
            refused(rule, bf.observe, UNANIMOUS, labels=labels, raters=kind(np.full(3, 0.8)))


N_ITEMS, N_RATERS = 90, 6


@pytest.fixture(scope="module")
def crowd():
    rng = np.random.default_rng(1)
    truth = np.repeat(rng.integers(0, 3, 30), 3)
    right = rng.random((N_ITEMS, N_RATERS)) < 0.7
    said = np.where(right, truth[:, None], rng.integers(0, 3, right.shape))
    said[rng.random(said.shape) < 0.3] = -1
    return truth, bf.Responses.from_matrix(said, classes=[0, 1, 2])


SEQUENCES = bf.Sequences.from_lengths([45, 45])
GRAPH = bf.Graph.from_edges([(n, n + step) for step in (1, 2) for n in range(N_ITEMS - step)])


def pooled_transition():
    stay = pm.Gamma("stay", 2, 0.5)
    return pm.Dirichlet("transition", np.ones((3, 3)) + stay * np.eye(3), shape=(3, 3))


LABELS = {
    "pooled": lambda: bf.Independent(pm.Dirichlet("p", 1 + pm.Gamma("w", 2, 1) * np.ones(3))),
    "chain": lambda: bf.MarkovChain(
        pm.Dirichlet("initial", np.ones(3)), pooled_transition(), SEQUENCES
    ),
    "stationary": lambda: bf.StationaryMarkovChain(pooled_transition(), SEQUENCES),
    "coupling": lambda: bf.Potts(pm.HalfNormal("c", sigma=pm.Gamma("scale", 3, 3)), GRAPH),
}


def pooled_rows():
    size = pm.Gamma("size", 2, 0.2, shape=3)
    mean = pm.Dirichlet("mean", np.ones((3, 3)) + 2 * np.eye(3))
    rows = (size[:, None] * mean)[None] * np.ones((N_RATERS, 1, 1))
    return bf.Confusion(pm.Dirichlet("confusion", rows, shape=(N_RATERS, 3, 3)))


def pooled_accuracies():
    mean, sd = pm.Normal("logit", 1, 1), pm.HalfNormal("sd", 1)
    return bf.OneCoin(pm.math.sigmoid(pm.Normal("own", mean, sd, shape=N_RATERS)))


def groups():
    outer = pm.Dirichlet("outer", 1 + pm.Gamma("size", 2, 0.2) * np.eye(3)[None], shape=(1, 3, 3))
    inner = pm.Dirichlet("inner", np.tile(1 + 3 * np.eye(3), (N_RATERS, 1, 1)))
    return bf.LatentGroups(outer, inner, np.array([0, 0, -1, -1, -1, -1]))


RATERS = {"rows": pooled_rows, "accuracies": pooled_accuracies, "groups": groups}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("labels", "raters"), [*zip(LABELS, ["accuracies", "groups", "rows", "groups"], strict=True)]
)
def test_em_climbs(crowd, labels, raters):
    truth, responses = crowd
    with pm.Model() as model:
        bf.observe(responses, labels=LABELS[labels](), raters=RATERS[raters]())
    point = bf.find_map(model, iterations=5)
    assert "start_log_evidence_moments" in point.attrs
    height = point["trace"]["log_posterior"].values
    assert (np.diff(height) > -1e-6 * responses.n_responses).all()
    guess = point["label_posterior"]["probability"].values.argmax(axis=1)
    assert (guess == truth).mean() > 0.85
    for variable in model.free_RVs:
        assert np.isfinite(point["point"][variable.name]).all()


def test_a_coupling_that_is_an_expression_is_refused(crowd):
    _, responses = crowd
    with pm.Model() as model:
        labels = bf.Potts(pm.math.exp(pm.Normal("log_coupling", -1, 0.5)), GRAPH)
        rows = bf.dirichlet("confusion", bf.priors.diagonal(3), shape=(N_RATERS, 3, 3))
        bf.observe(responses, labels=labels, raters=bf.Confusion(rows))
    refused("expression of other variables", bf.find_map, model)
