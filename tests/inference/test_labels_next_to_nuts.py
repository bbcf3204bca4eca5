"""Labels on a graph that go from draw to draw: next to other steps, and in interrupted chains."""

import itertools

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from squares import square_of_pixels

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference import chains
from bayesfuse.pymc.model import observed
from bayesfuse.results.compatibility import parameters
from bayesfuse.results.posterior import complete

QUIET = {"progressbar": False, "quiet": True}
ANSWERS = [[0, 0, 0], [0, 1, 0], [0, 0, 1], [1, 0, 0], [1, 1, 1], [1, 0, 1], [1, 1, 0], [0, 1, 1]]
CIRCLES, PATH = bf.Graph.grid((2, 4)), bf.Graph.grid((8,))


def observe(coupling, graph):
    raters = bf.Confusion(pm.Dirichlet("confusion", np.ones((3, 2, 2))))
    responses = bf.Responses.from_matrix(ANSWERS)
    bf.observe(responses, labels=bf.Potts(coupling, graph), raters=raters)


def test_labels_that_are_kept_must_not_depend_on_what_nuts_moves():
    with pm.Model() as model:
        observe(pm.LogNormal("coupling", pm.Normal("middle"), 0.7), CIRCLES)
    with pytest.raises(ModelError, match=r"Potts .* Got: \['coupling'\] left to other steps"):
        bf.LabelGibbs([model["confusion"]], model=model)
    with pm.Model() as model:
        observe(pm.math.exp(pm.Normal("log_coupling")), CIRCLES)
    with pytest.raises(ModelError, match="sampler='nuts'"):
        bf.sample(model, 10, **QUIET)


def test_a_bound_that_is_a_variable_leaves_the_number_to_other_steps():
    """In PyMC's coordinate the number moves with its bound."""
    with pm.Model():
        observe(pm.Uniform("coupling", 0.0, pm.HalfNormal("most")), PATH)
        assert [v.name for v in bf.LabelGibbs().vars] == ["confusion_simplex__"]


def complete_graph():
    """Six items, all neighbours, of three known raters; the coupling's prior has a variable."""
    answers = [[0, 0, 1], [0, 1, 0], [1, 1, 1], [1, 1, 0], [0, 1, 1], [1, 0, 0]]
    graph = bf.Graph.from_edges(list(itertools.combinations(range(6), 2)), items=range(6))
    raters = np.array([[[0.6, 0.4], [0.4, 0.6]]] * 3)
    with pm.Model() as model:
        coupling = pm.HalfNormal("coupling", pm.Gamma("scale", 20.0, 20.0))
        bf.observe(
            bf.Responses.from_matrix(answers),
            labels=bf.Potts(coupling, graph),
            raters=bf.Confusion(raters),
        )
    return model, np.log(raters)[np.arange(3), :, answers].sum(axis=1)


@pytest.mark.slow
def test_labels_drawn_next_to_nuts_are_those_of_the_result():
    """Belief propagation, which would take their place, is 0.17 off."""
    model, log_lik = complete_graph()
    settings = {"tune": 200, "chains": 2, "cores": 1, "random_seed": 1}
    result = bf.sample(model, 2000, thin=2, **settings, **QUIET)
    assert result.attrs["sampler"] == "gibbs" and np.ptp(result["posterior"]["scale"].values) > 0
    every = np.array(list(itertools.product([0, 1], repeat=6)))
    ones = every.sum(axis=1)
    agree = ones * (ones - 1) / 2 + (6 - ones) * (5 - ones) / 2
    scale, z = np.meshgrid(np.linspace(0.2, 3.0, 57), np.linspace(0.025, 4.5, 90), indexing="ij")
    prior = np.exp(np.outer((scale * z).ravel(), agree))
    prior *= (stats.gamma.pdf(scale, 20, scale=1 / 20) * stats.norm.pdf(z)).ravel()[:, None] / (
        prior.sum(axis=1, keepdims=True)
    )
    weight = prior.sum(axis=0) * np.exp(log_lik[np.arange(6), every].sum(axis=1))
    exact = weight @ every / weight.sum()
    found = result["label_posterior"]
    assert found.attrs["exact"] == 1 and "Swendsen" in found.attrs["method"]
    one = found.sel({"class": 1})
    assert (one["mcse"] < 0.02).all()
    assert (np.abs(one["probability"] - exact) < 5 * one["mcse"]).all()
    kept = result["label_draws"]["label"]
    assert dict(kept.sizes) == {"chain": 2, "draw": 1000, "item": 6}
    # labels and parameters are those of the same draws
    again = complete(
        result.copy(), observed(model)[1], parameters(result, model), labels=kept.values
    )
    assert np.allclose(again["log_likelihood"]["responses"], result["log_likelihood"]["responses"])


@pytest.fixture(scope="module")
def square():
    return square_of_pixels()


def test_what_is_left_of_interrupted_chains_stays_together(square, monkeypatch):
    """Ctrl-C in a kernel, in one of the chains: Python hands it on as the cause of SystemErrors."""
    settings = {"tune": 10, "chains": 4, "cores": 1, "sweeps": 1, "random_seed": 5} | QUIET
    whole = bf.sample(square[0], 20, **settings)
    monkeypatch.setattr(chains, "SLICE", 0.0)
    sweep, done = chains.step, []

    def interrupted(*arguments):
        done.append(1)
        if len(done) == 4 * 24 + 2:
            inner = SystemError("unpickling returned a result with an exception set")
            inner.__cause__ = KeyboardInterrupt()
            raise SystemError("kernel returned a result with an exception set") from inner
        return sweep(*arguments)

    monkeypatch.setattr(chains, "step", interrupted)
    cut = bf.sample(square[0], 20, **settings)
    assert dict(cut["posterior"].sizes)["chain"] == 4 and cut["posterior"].sizes["draw"] == 14
    for group in ("posterior", "log_likelihood", "label_draws"):
        for name, values in cut[group].dataset.data_vars.items():
            expected = whole[group].dataset[name].isel(draw=slice(14))
            assert (values.values == expected.values).all(), name
