"""Models of item types with Dirichlet priors of one's own: samplers against enumeration."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy.special import logsumexp
from typed_crowds import posterior_means, summed

import bayesfuse as bf
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True}
PRIORS = {
    "prevalence": np.array([3.0, 1.5]),
    "share": np.array([[4.0, 1.0, 2.0], [0.7, 2.0, 1.0]]),
    "type_confusion": np.array(
        [[[5.0, 1.0], [1.0, 3.0], [1.0, 1.0]], [[2.0, 1.0], [0.5, 2.0], [2.0, 2.0]]]
    ),
}
"""Two raters, three types, two classes."""

GOLD = {1: 1}


def table():
    """Four items, of which one has no answer, one a missing and one a repeated one."""
    item, rater, label = [0, 0, 1, 1, 1, 2, 0], [0, 1, 0, 1, 1, 1, 1], [0, 0, 1, 1, 0, 1, 1]
    columns = {"item": item, "rater": rater, "label": label}
    return bf.Responses.from_long(columns, items=range(4), raters=range(2), classes=range(2))


def build(responses, gold=None):
    with pm.Model() as model:
        rows = {name: pm.Dirichlet(name, alpha) for name, alpha in PRIORS.items()}
        labels = bf.Independent(rows["prevalence"])
        channel = bf.TypedConfusion(rows["share"], rows["type_confusion"])
        bf.observe(responses, labels=labels, raters=channel, gold=gold)
    return model


@pytest.fixture(scope="module")
def fitted():
    model = build(table(), GOLD)
    return model, bf.sample(model, 2000, chains=2, sweeps=2, random_seed=1, **QUIET)


def test_gibbs_has_the_means_by_enumeration(fitted):
    """Within five Monte Carlo errors."""
    _, result = fitted
    exact = posterior_means(table(), PRIORS, GOLD)
    posterior = result["posterior"].dataset
    for name in PRIORS:
        error = az.mcse(posterior[[name]])[name].values
        gap = posterior[name].mean(("chain", "draw")).values - exact[name]
        assert (np.abs(gap) <= 5 * error + 1e-12).all(), (name, gap / error)
    found = result["label_posterior"].dataset
    gap = found["probability"].values - exact["labels"]
    assert (np.abs(gap) <= 5 * found["mcse"].values + 1e-9).all(), gap


def test_log_likelihoods_by_item_are_summed_over_types(fitted):
    """At some of the draws, in NumPy; they are what ``az.loo`` takes."""
    _, result = fitted
    found = result["log_likelihood"]["responses"]
    assert found.dims == ("chain", "draw", "item")
    for chain, draw in [(0, 0), (1, 1999)]:
        at = result["posterior"].dataset.isel(chain=chain, draw=draw)
        joint = np.log(at["prevalence"].values) + summed(
            at["share"].values, at["type_confusion"].values, table(), GOLD
        )
        expected = logsumexp(joint, axis=1)
        assert_close(found.values[chain, draw], expected, "log likelihood", rtol=1e-9)


@pytest.mark.filterwarnings("ignore:Numba will use object mode")
def test_predictive_draws(fitted):
    model, result = fitted
    few = result.isel(draw=slice(None, None, 200))
    with model:
        drawn = pm.sample_posterior_predictive(few, progressbar=False, random_seed=1)
    label = drawn["posterior_predictive"]["responses"]
    assert label.shape == (2, 10, 7) and set(np.unique(label)) == {0, 1}
