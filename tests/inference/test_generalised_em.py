"""Models some of whose parameters have no closed form: EM never falls, and finds the classes."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from own_factors import ByItem

import bayesfuse as bf
from bayesfuse.errors import ModelError

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


def regression():
    level = pm.Normal("level", 0, 1, shape=2)
    odds = [np.zeros((N_ITEMS, 1)), level + np.linspace(-1, 1, N_ITEMS)[:, None]]
    return ByItem(pm.math.concatenate(odds, axis=1))


LABELS = {
    "pooled": lambda: bf.Independent(pm.Dirichlet("p", 1 + pm.Gamma("w", 2, 1) * np.ones(3))),
    "softmax": lambda: bf.Independent(pm.math.softmax(pm.Normal("odds", 0, 1, shape=3))),
    "chain": lambda: bf.MarkovChain(
        pm.Dirichlet("initial", np.ones(3)), pooled_transition(), SEQUENCES
    ),
    "stationary": lambda: bf.StationaryMarkovChain(pooled_transition(), SEQUENCES),
    "coupling": lambda: bf.Potts(pm.HalfNormal("c", sigma=pm.Gamma("scale", 3, 3)), GRAPH),
    "regression": regression,
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


@pytest.mark.parametrize(
    ("labels", "raters"), [*zip(LABELS, ["rows", "accuracies", "groups"] * 2, strict=True)]
)
def test_em_climbs(crowd, labels, raters):
    truth, responses = crowd
    with pm.Model() as model:
        bf.observe(responses, labels=LABELS[labels](), raters=RATERS[raters]())
    point = bf.find_map(model, iterations=8)
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
    with pytest.raises(ModelError, match="expression of other variables"):
        bf.find_map(model)
