"""Labels on a graph, whole: posteriors against enumeration, other models and calibration."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.special import logsumexp
from squares import RATERS, square_of_pixels

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning, ResponsesError
from bayesfuse.models import DawidSkene, LatentGroup, MarkovRandomField
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.testing import (
    assert_close,
    assert_uniform,
    assert_within_mcse,
    enumerate_labels,
    sbc_ranks,
)

QUIET = {"progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def square():
    return square_of_pixels()


@pytest.fixture(scope="module")
def square_exactly(square):
    """Quadrature over the coupling of sums over all labellings."""
    _, responses, graph = square
    log_lik = np.zeros((9, 2))
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        log_lik[n] += np.log(RATERS[m, :, c])
    grid = np.linspace(0.005, 8.0, 400)
    prior = bf.Potts(pm.Gamma.dist(2.0, 3.0), graph, [0.4, 0.6])
    structure = prior.structure(responses)
    every = [enumerate_labels(prior, (np.array(b),), log_lik, structure) for b in grid]
    log_weight = np.array([one.total for one in every]) + stats.gamma(2.0, scale=1 / 3).logpdf(grid)
    weight = np.exp(log_weight - logsumexp(log_weight))
    return log_lik, grid, every, weight


@pytest.fixture(scope="module")
def square_sampled(square):
    return bf.sample(square[0], 5000, random_seed=1, **QUIET)


@pytest.mark.slow
def test_posterior_against_enumeration(square_sampled, square_exactly):
    _, grid, every, weight = square_exactly
    result = square_sampled
    draws = result["posterior"]["coupling"].values
    error = az.mcse(result["posterior"].dataset)["coupling"].item()
    mean = float(weight @ grid)
    assert draws.mean() == pytest.approx(mean, abs=5 * error)
    for level in (0.1, 0.5, 0.9):
        value = np.interp(level, np.cumsum(weight), grid)
        share = (draws < value).astype(float)
        ess = az.ess(share)
        assert share.mean() == pytest.approx(level, abs=5 * np.sqrt(0.25 / ess) + 0.005)
    exact = sum(w * one.probability for w, one in zip(weight, every, strict=True))
    found = result["label_posterior"]
    assert found.attrs["exact"] == 1 and "Swendsen" in found.attrs["method"]
    assert (np.abs(found["probability"] - exact) < 5 * found["mcse"] + 1e-9).all()
    share = (result["label_draws"]["label"] == 1).mean(("chain", "draw")).values
    assert_close(share, exact[:, 1], "share of drawn labels", atol=0.03)


def test_leave_one_item_out(square_sampled, square_exactly):
    """Against the posterior without the item, summed over all labellings."""
    log_lik, _, every, weight = square_exactly
    value = square_sampled["log_likelihood"]["responses"].values.reshape(-1, 9)
    estimate = -(logsumexp(-value, axis=0) - np.log(len(value)))
    configurations = every[0].configurations
    joint = sum(w * one.weight for w, one in zip(weight, every, strict=True))
    for n in range(9):
        own = np.exp(log_lik[n, configurations[:, n]])
        exact = -np.log((joint / own).sum())  # 1 / E[1 / p(responses | label)]
        assert estimate[n] == pytest.approx(exact, abs=0.02)


def test_step_method_alone(square):
    with square[0]:
        step = bf.LabelGibbs()
        result = pm.sample(
            300, tune=50, chains=2, step=step, random_seed=1, progressbar=False, quiet=True
        )
    assert np.isfinite(result["posterior"]["coupling"].values).all()


def field(shape, seed, *, accuracy=0.7, n_raters=3, n_classes=2):
    """A disc on a square, and raters of one accuracy."""
    rng = np.random.default_rng(seed)
    down, across = np.indices(shape)
    radius = np.hypot(down - shape[0] / 2, across - shape[1] / 2) / min(shape)
    truth = np.minimum((radius * 2 * n_classes).astype(int), n_classes - 1).ravel()
    wrong = (truth[:, None] + rng.integers(1, n_classes, (truth.size, n_raters))) % n_classes
    right = rng.random((truth.size, n_raters)) < accuracy
    answers = np.where(right, truth[:, None], wrong)
    return bf.Responses.from_matrix(answers, classes=range(n_classes)), truth


@pytest.mark.slow
def test_neighbours_help_and_decide_how_much():
    responses, truth = field((16, 16), 1)
    graph = bf.Graph.grid((16, 16))
    apart = bf.sample(DawidSkene(responses), 500, random_seed=1, **QUIET)
    model = MarkovRandomField(responses, graph)
    result = bf.sample(model, 500, random_seed=1, **QUIET)
    right = [(label_probabilities(r).values.argmax(1) == truth).mean() for r in (apart, result)]
    assert right[1] > right[0] + 0.05
    assert 0.5 < result["posterior"]["coupling"].mean() < 1.5
    assert (bf.decode(result, model).values == truth).mean() > right[0] + 0.05
    assert bf.decode(result, model).attrs["method"] == "iterated conditional modes"
    draws = bf.draw_labels(result, model, 40)
    share = (draws == 1).mean("draw").values
    assert np.abs(share - label_probabilities(result).values[:, 1]).mean() < 0.1
    point = bf.find_map(model)
    assert point.attrs["converged"] == 1
    assert point["label_posterior"].attrs["method"] == "belief propagation"
    assert point["label_posterior"].attrs["exact"] == 0
    assert point["label_posterior"].attrs["converged"] == 1
    again = bf.draw_labels(point, model, 40, random_seed=1)
    assert np.abs((again == 1).mean("draw").values - share).mean() < 0.15


@pytest.mark.slow
def test_next_to_no_coupling_is_dawid_skene():
    responses, _ = field((8, 8), 2)
    graph = bf.Graph.grid((8, 8))
    flat = DawidSkene(responses, prevalence_prior=1e6)  # as good as known to be equal
    one = bf.sample(flat, 3000, random_seed=1, **QUIET)
    other = bf.sample(MarkovRandomField(responses, graph, trust=1e-9), 3000, random_seed=1, **QUIET)
    assert_within_mcse(one["posterior"].dataset, other["posterior"].dataset, ["confusion"])
    errors = np.hypot(one["label_posterior"]["mcse"], other["label_posterior"]["mcse"])
    distance = np.abs(label_probabilities(one) - label_probabilities(other))
    assert (distance < 5 * errors + 1e-4).all()


@pytest.mark.slow
def test_nuts_on_a_tree_agrees_with_gibbs():
    rng = np.random.default_rng(4)
    edges = [(int(rng.integers(0, n)), n) for n in range(1, 40)]
    responses, _ = field((4, 10), 4, accuracy=0.8)
    # sure enough of the raters that classes are not taken for each other
    prior = np.array([16.0, 4.0])
    graph = bf.Graph.from_edges(edges)
    model = MarkovRandomField(responses, graph, raters="coin", confusion_prior=prior)
    gibbs = bf.sample(model, 4000, random_seed=1, **QUIET)
    nuts = bf.sample(
        model, 1000, sampler="nuts", nuts_sampler="pymc", chains=2, random_seed=1, **QUIET
    )
    assert nuts["label_posterior"].attrs["exact"] == 1
    names = ["coupling", "accuracy"]
    assert_within_mcse(gibbs["posterior"].dataset, nuts["posterior"].dataset, names)
    errors = np.hypot(gibbs["label_posterior"]["mcse"], nuts["label_posterior"]["mcse"])
    distance = np.abs(label_probabilities(gibbs) - label_probabilities(nuts))
    assert (distance < 5 * errors).all()


@pytest.mark.slow
def test_calibration_with_inferred_coupling():
    """Ranks of the coupling, the confusion and the labels, some truths revealed."""
    graph = bf.Graph.grid((5, 5))
    rng = np.random.default_rng(1)
    answers = rng.integers(0, 2, (25, 3))
    answers[rng.random((25, 3)) < 0.2] = -1
    responses = bf.Responses.from_matrix(answers, missing=-1, classes=[0, 1])

    def build(responses, gold=None):
        return MarkovRandomField(responses, graph, gold=gold)

    ranks = sbc_ranks(
        build, responses, revealed=[3, 11], simulations=150, draws=60, thin=3, tune=150
    )
    assert_uniform(ranks["coupling"], 60, "rank of the coupling", bins=8)
    assert_uniform(ranks["labels"].drop_isel(labels_0=[3, 11]), 1.0, "labels")
    assert_uniform(ranks["confusion"].isel(confusion_2=0), 60, "rank of the confusion", bins=8)


def test_gold_and_items_without_responses():
    answers = [[0, 0], [-1, -1], [0, 1], [1, 1], [-1, -1], [1, 0]]
    responses = bf.Responses.from_matrix(answers, missing=-1)
    model = MarkovRandomField(responses, bf.Graph.grid((6,)), trust=4.0, gold={0: 0, 5: 1})
    result = bf.sample(model, 1000, random_seed=1, **QUIET)
    probability = label_probabilities(result)
    assert probability.sel(item=0).values.tolist() == [1.0, 0.0]
    assert probability.sel(item=5).values.tolist() == [0.0, 1.0]
    assert probability.sel(item=1).values[0] > 0.7  # its neighbours say so
    labels = bf.draw_labels(result, model, 50, random_seed=1)
    assert (labels.sel(item=0) == 0).all() and (labels.sel(item=5) == 1).all()


@pytest.mark.slow
def test_dependent_raters_on_a_graph():
    """Latent groups × Potts: label probabilities at known parameters, by enumeration."""
    responses, _ = field((2, 4), 6, n_raters=4)
    graph = bf.Graph.grid((2, 4))
    outer = np.array([[[0.8, 0.2], [0.3, 0.7]]])
    inner = np.stack([RATERS[0], RATERS[1], RATERS[0], RATERS[1]])
    channel = bf.LatentGroups(outer, inner, [0, 0, 0, -1])
    with pm.Model() as model:
        coupling = pm.HalfNormal("coupling", 1.0)
        bf.observe(responses, labels=bf.Potts(coupling, graph), raters=channel)
    result = bf.sample(model, 4000, random_seed=1, **QUIET)
    rows = channel.to_kernel(channel.parameters)
    structure = channel.structure(responses, np.full(8, -1))
    log_lik = channel.log_lik(tuple(rows.values()), structure)
    prior = bf.Potts(pm.HalfNormal.dist(1.0), graph)
    made = prior.structure(responses)
    grid = np.linspace(0.01, 5.0, 150)
    every = [enumerate_labels(prior, (np.array(b),), log_lik, made) for b in grid]
    log_weight = np.array([one.total for one in every]) + stats.halfnorm.logpdf(grid)
    weight = np.exp(log_weight - logsumexp(log_weight))
    exact = sum(w * one.probability for w, one in zip(weight, every, strict=True))
    found = result["label_posterior"]
    assert (np.abs(found["probability"] - exact) < 5 * found["mcse"] + 1e-9).all()
    # and with everything inferred it runs
    groups = LatentGroup(responses, groups=[[0, 1, 2]]).groups
    with pm.Model() as model:
        coupling = pm.HalfNormal("coupling", 1.0)
        group = pm.Dirichlet("group", np.ones((1, 2, 2)) + np.eye(2))
        rater = pm.Dirichlet("rater", np.ones((4, 2, 2)) + 3 * np.eye(2))
        channel = bf.LatentGroups(group, rater, groups.assignment)
        bf.observe(responses, labels=bf.Potts(coupling, graph), raters=channel)
    result = bf.sample(model, 100, random_seed=1, **QUIET)
    assert set(result["posterior"].data_vars) == {"coupling", "group", "rater"}


def test_trust_is_twice_the_coupling():
    responses, _ = field((4, 4), 1, n_raters=3)
    graph = bf.Graph.grid((4, 4))
    found = [
        float(MarkovRandomField(responses, graph, trust=trust)["coupling"].get_value())
        for trust in (3.0, "paper")
    ]
    assert found == [1.5, 1.5]


@pytest.mark.parametrize("trust", [0, -1.0, "much", True, np.nan])
def test_trust_must_be_positive(trust):
    responses, _ = field((4, 4), 1)
    with pytest.raises(ModelError, match="trust must be"):
        MarkovRandomField(responses, bf.Graph.grid((4, 4)), trust=trust)


def test_other_bad_input():
    responses, _ = field((4, 4), 1)
    with pytest.raises(ResponsesError, match="Items of a graph"):
        MarkovRandomField(responses, bf.Graph.grid((5, 5)))
    with pytest.raises(ModelError, match="coupling_scale must be"):
        MarkovRandomField(responses, bf.Graph.grid((4, 4)), coupling_scale=0.0)
    with pytest.raises(ModelError, match="approximation must be"):
        MarkovRandomField(responses, bf.Graph.grid((4, 4)), approximation="bethe")


def test_edges_that_were_drawn_tell_more_of_the_coupling():
    """Pairs of one class were linked 27 times as often; a field that was given sees less."""
    made = bf.datasets.simulate_blocks(300, 4, 3, degree=5, random_seed=1)
    couplings = {}
    for edges in ("given", "drawn"):
        model = MarkovRandomField(made.responses, made.graph, edges=edges)
        result = bf.sample(model, 150, random_seed=1, progressbar=False, quiet=True)
        couplings[edges] = float(result["posterior"]["coupling"].mean())
    assert couplings["given"] < 2 < couplings["drawn"] < 5


@pytest.mark.parametrize(
    "arguments", [{"edges": "cut"}, {"edges": "drawn", "approximation": "mean field"}]
)
def test_unknown_edges_are_refused(arguments):
    responses = bf.Responses.from_matrix([[0, 1], [1, 1], [0, 0]])
    with pytest.raises(ModelError, match="edges must be"):
        MarkovRandomField(responses, bf.Graph.grid((3,)), **arguments)


def test_fits_hold_the_coupling_or_approximate_it():
    rng = np.random.default_rng(0)
    truth = np.zeros((10, 10), dtype=int)
    truth[2:8, 2:8] = 1
    answers = np.where(rng.random((100, 3)) < 0.75, truth.reshape(-1, 1), 1 - truth.reshape(-1, 1))
    model = MarkovRandomField(bf.Responses.from_matrix(answers), bf.Graph.grid((10, 10)))
    with pytest.warns(PoorFitWarning) as said:
        fit = bf.fit(model, random_seed=1)
    assert any("['coupling']" in str(warning.message) for warning in said)
    coupling = fit["posterior"]["coupling"].values
    assert (coupling == coupling[0, 0]).all() and coupling[0, 0] > 0
    gap = abs(bf.label_probabilities(fit) - bf.label_probabilities(bf.find_map(model)))
    assert 0 < gap.max() < 0.2
    with pytest.raises(ModelError, match="draws the labels anew"):
        bf.fit(model, sweeps=3)


@pytest.mark.slow
def test_coupling_of_unequal_weights_against_quadrature():
    """All labels known, on a path: twelve Monte Carlo errors off where weak edges were cut off."""
    rng = np.random.default_rng(0)
    weights = np.exp(1.5 * rng.normal(size=199))
    truth = [0]
    for weight in weights:
        truth.append(truth[-1] if rng.random() < 1 / (1 + np.exp(-4 * weight)) else 1 - truth[-1])
    graph = bf.Graph.from_edges([(i, i + 1) for i in range(199)], weights)
    responses = bf.Responses.from_matrix(np.array(truth)[:, None])
    with bf.LabelModel(responses, gold=dict(enumerate(truth))) as model:
        labels = bf.Potts(pm.HalfNormal("c", 10.0), graph)
        model.observe(labels=labels, raters=model.rater_channel("confusion", None))
    result = bf.sample(model, draws=1000, random_seed=3, progressbar=False, quiet=True)
    draws = result["posterior"]["c"]
    c = np.linspace(1e-3, 10, 4000)
    agree = weights @ (np.diff(truth) == 0)
    log_density = c * agree - np.logaddexp(0, c[:, None] * weights).sum(axis=1) - c**2 / 200
    density = np.exp(log_density - log_density.max())
    density /= density.sum()
    mean = density @ c
    found = [draws.values, (draws.values - mean) ** 2]
    for values, exact in zip(found, (mean, density @ (c - mean) ** 2), strict=True):
        assert abs(values.mean() - exact) < 4 * float(az.mcse(values))
