"""Models of labels in sequence and on graphs: modes, posteriors by enumeration."""

import warnings
from itertools import product

import arviz as az
import numpy as np
import pymc as pm
import pytest
from communities import communities
from scipy import stats
from scipy.special import logsumexp
from squares import RATERS, square_of_pixels
from typed_crowds import random_crowd

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import HiddenMarkov, MarkovRandomField
from bayesfuse.testing import assert_close, simulate

ZEROS = {
    "initial_prior": [1, 1, 0],
    "transition_prior": np.array([[1.0, 2.0, 0.0], [1.0, 1.0, 1.0], [3.0, 0.0, 1.0]]),
}


def sequences_of(lengths):
    return bf.Sequences.from_lengths(lengths, names=[f"s{n}" for n in range(len(lengths))])


@pytest.fixture(scope="module")
def data():
    """Responses drawn from the model with zeros, some twice, some items without; its sequences."""
    table = random_crowd(59, 3, 3, seed=3)
    sequences = sequences_of([5, 1, 14, 10, 3, 7, 20])
    return simulate(HiddenMarkov(table, sequences, **ZEROS), 4)[2], sequences


def test_numbers_are_tags_where_bio_says_so(data):
    """The numbers 0, 1 and 2 are O, B and I: as the same table with these names."""
    responses, sequences = data
    labels = responses.classes[responses.label]
    table = {"item": responses.items[responses.item], "rater": responses.raters[responses.rater]}
    codes = dict(zip(responses.classes, range(3), strict=True))
    numbers = [codes[label] for label in labels]
    names = np.array(["O", "B", "I"])[numbers]
    fits = []
    for values, classes in ((numbers, [0, 1, 2]), (names, ["O", "B", "I"])):
        renamed = bf.Responses.from_long(
            {**table, "label": values}, items=responses.items, classes=classes
        )
        model = HiddenMarkov(renamed, sequences, bio=True)
        fits.append(bf.find_map(model))
    first, second = (fit["point"].dataset for fit in fits)
    assert first["transition"].values[0, 2] == 0.0
    assert np.array_equal(first["transition"].values, second["transition"].values)
    with pytest.raises(ModelError, match="must be 'O'"):
        renamed = bf.Responses.from_long({**table, "label": numbers}, classes=[0, 1, 2, 3])
        HiddenMarkov(renamed, sequences, bio=True)


def test_the_mode_of_a_stationary_chain_has_no_slope(data):
    """EM is not closed there: its end must still be where the plain density is flat."""
    prior = {"transition_prior": np.full((3, 3), 3.0), "confusion_prior": np.full((3, 3), 2.0)}
    prior["confusion_prior"] += np.eye(3)
    model = HiddenMarkov(*data, initial="stationary", **prior)
    point = bf.find_map(model, tolerance=1e-14, iterations=20_000)["point"]
    observation = make_plan(model).observation
    values = {name: point[name].values for name in ("transition", "confusion")}
    _, counts = observation.expected(observation.rows(values))
    for name, alpha in make_plan(model).continuous_priors().items():
        total = counts[name] + alpha.concentration - 1
        assert np.allclose(total / total.sum(axis=-1, keepdims=True), values[name], atol=1e-5)


def test_first_labels_inform_stationary_transitions():
    """All labels known: draws of the transition against its density on a grid."""
    labels = np.array([0, 0, 1, 0, 1, *[0] * 24])  # one sequence of five items, 24 of one
    responses = bf.Responses.from_matrix(labels[:, None], classes=[0, 1])
    prior = np.array([[2.0, 1.0], [1.5, 2.5]])
    model = HiddenMarkov(
        responses,
        sequences_of([5] + [1] * 24),
        initial="stationary",
        transition_prior=prior,
        gold=dict(enumerate(labels.tolist())),
    )
    drawn = bf.sample(model, 2000, chains=1, random_seed=1, progressbar=False, quiet=True)
    leave, back = np.meshgrid(*[(np.arange(400) + 0.5) / 400] * 2, indexing="ij")
    counts = prior - 1 + [[1, 2], [1, 0]]
    weight = (1 - leave) ** counts[0, 0] * leave ** counts[0, 1] * back ** counts[1, 0]
    weight *= (1 - back) ** counts[1, 1] * (back / (leave + back)) ** 25
    weight /= weight.sum()
    transition = drawn["posterior"]["transition"].sel(chain=0).values
    for values, expected in (
        (transition[:, 0, 1], (weight * leave).sum()),
        (transition[:, 1, 0], (weight * back).sum()),
    ):
        error = values.reshape(50, 40).mean(axis=1).std(ddof=1) / np.sqrt(50)
        assert abs(values.mean() - expected) < 5 * error < 0.1


def test_short_sequences_may_be_stationary():
    """A step of what is not EM may rule out what was observed; half of it does not."""
    matrix = np.random.default_rng(0).integers(0, 2, (40, 6))
    responses = bf.Responses.from_matrix(matrix)
    point = bf.find_map(HiddenMarkov(responses, sequences_of([1] * 40), initial="stationary"))
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and np.isfinite(point.attrs["log_evidence"])
    assert np.isfinite([v for k, v in point.attrs.items() if "start_log" in k]).all()
    assert_close(point["label_posterior"]["probability"].sum("class").values, np.ones(40), "sums")


QUIET = {"progressbar": False, "quiet": True, "cores": 1}


def test_a_posterior_against_enumeration():
    """Quadrature over the coupling of sums over all labellings of nine pixels."""
    model, responses, graph = square_of_pixels()
    log_lik = np.zeros((9, 2))
    for n, m, c in zip(responses.item, responses.rater, responses.label, strict=True):
        log_lik[n] += np.log(RATERS[m, :, c])
    y = np.array(list(product(range(2), repeat=9)))
    own, seen = np.log([0.4, 0.6])[y].sum(axis=1), log_lik[np.arange(9), y].sum(axis=1)
    agree = (y[:, graph.edges[:, 0]] == y[:, graph.edges[:, 1]]).sum(axis=1)
    grid = np.linspace(0.005, 8.0, 400)
    log_prior = own + grid[:, None] * agree
    log_joint = log_prior - logsumexp(log_prior, axis=1, keepdims=True) + seen
    log_joint += stats.gamma(2.0, scale=1 / 3).logpdf(grid)[:, None]
    joint = np.exp(log_joint - logsumexp(log_joint))  # (couplings, labellings)
    weight = joint.sum(axis=1)

    result = bf.sample(model, 500, random_seed=1, **QUIET)
    draws = result["posterior"]["coupling"].values
    error = az.mcse(result["posterior"].dataset)["coupling"].item()
    assert draws.mean() == pytest.approx(float(weight @ grid), abs=5 * error)
    for level in (0.1, 0.5, 0.9):
        share = (draws < np.interp(level, np.cumsum(weight), grid)).astype(float)
        allowed = 5 * np.sqrt(level * (1 - level) / az.ess(share)) + 0.005  # of the grid
        assert share.mean() == pytest.approx(level, abs=allowed)
    exact = joint.sum(axis=0) @ (y[:, :, None] == [0, 1]).reshape(512, 18)
    found = result["label_posterior"]
    assert found.attrs["exact"] == 1 and "Swendsen" in found.attrs["method"]
    assert (np.abs(found["probability"] - exact.reshape(9, 2)) < 5 * found["mcse"] + 1e-9).all()
    kept = result["label_draws"]["label"] == 1
    allowed = 5 * np.sqrt(
        0.25 * 4 / (kept.sizes["chain"] * kept.sizes["draw"])
    )  # one in four counts
    share = kept.mean(("chain", "draw")).values
    assert_close(share, exact.reshape(9, 2)[:, 1], "share of drawn labels", atol=allowed)
    # leave one item out: against the posterior without the item
    value = result["log_likelihood"]["responses"].values.reshape(-1, 9)
    estimate = np.log(len(value)) - logsumexp(-value, axis=0)
    for n in range(9):
        without = -np.log((joint.sum(axis=0) / np.exp(log_lik[n, y[:, n]])).sum())
        spread = np.exp(-value[:, n]).std() / np.exp(-value[:, n]).mean()
        assert estimate[n] == pytest.approx(without, abs=5 * spread / np.sqrt(len(value) / 10))


def test_gold_and_items_without_responses():
    answers = [[0, 0], [-1, -1], [0, 1], [1, 1], [-1, -1], [1, 0]]
    responses = bf.Responses.from_matrix(answers, missing=-1)
    model = MarkovRandomField(responses, bf.Graph.grid((6,)), trust=4.0, gold={0: 0, 5: 1})
    result = bf.sample(model, 200, chains=2, random_seed=1, **QUIET)
    probability = bf.label_probabilities(result)
    assert probability.sel(item=0).values.tolist() == [1.0, 0.0]
    assert probability.sel(item=5).values.tolist() == [0.0, 1.0]
    assert probability.sel(item=1).values[0] > 0.7  # its neighbours say so
    labels = bf.draw_labels(result, model, 50, random_seed=1)
    assert (labels.sel(item=0) == 0).all() and (labels.sel(item=5) == 1).all()


@pytest.mark.slow
def test_drawn_edges_inform_the_coupling_more():
    """Pairs of one class were linked 27 times as often; a field that was given sees less."""
    made = bf.datasets.simulate_dawid_skene(200, 4, 3, random_seed=1)
    graph = communities(made.truth, degree=5, within=0.9)
    couplings = {}
    for edges in ("given", "drawn"):
        model = MarkovRandomField(made.responses, graph, edges=edges)
        result = bf.sample(model, 60, chains=2, random_seed=1, **QUIET)
        couplings[edges] = float(result["posterior"]["coupling"].mean())
    assert couplings["given"] < 2 < couplings["drawn"] < 5


def test_coupling_of_unequal_weights_against_quadrature():
    """All labels known, on a path: twelve Monte Carlo errors off where weak edges were cut off."""
    rng = np.random.default_rng(0)
    weights = np.exp(1.5 * rng.normal(size=199))
    truth = [0]
    for weight in weights:
        truth.append(truth[-1] if rng.random() < 1 / (1 + np.exp(-4 * weight)) else 1 - truth[-1])
    graph = bf.Graph.from_edges([(i, i + 1) for i in range(199)], weights)
    responses = bf.Responses.from_matrix(np.array(truth)[:, None])
    with bf.build.LabelModel(responses, gold=dict(enumerate(truth))) as model:
        labels = bf.build.Potts(pm.HalfNormal("c", 10.0), graph)
        model.observe(labels=labels, raters=model.rater_channel("confusion", None))
    result = bf.sample(model, draws=500, chains=2, random_seed=3, **QUIET)
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


@pytest.fixture(scope="module")
def night():
    rng = np.random.default_rng(1)
    truth = np.repeat(rng.integers(0, 3, 30), 20)  # stages that last
    hard = np.repeat(rng.random(60) < 0.3, 10)  # stretches on which raters tend to one error
    wrong = rng.random((600, 5)) < np.where(hard, 0.45, 0.03)[:, None]
    answers = (truth[:, None] + wrong) % 3
    return bf.Responses.from_matrix(answers), sequences_of([300, 300]), truth


def test_raters_who_err_together_have_types(night):
    """And those whose errors are independent given the class have confusion matrices."""
    responses, sequences, truth = night
    assert "persistence" in HiddenMarkov(responses, sequences).named_vars
    table = bf.datasets.simulate_responses(
        truth, 5, 3, accuracy=(0.55, 0.65), random_seed=1
    ).responses
    assert "transition" in HiddenMarkov(table, sequences).named_vars
    with pytest.raises(bf.errors.ModelError, match="no priors of classes"):
        HiddenMarkov(responses, sequences, raters="types", transition_prior=2.0)


def test_results_of_types_in_sequence_are_of_classes(night):
    responses, sequences, _ = night
    gold = {3: 2, 4: 0}
    model = HiddenMarkov(responses, sequences, raters="types", gold=gold)
    result = bf.sample(model, 5, tune=5, chains=2, random_seed=1, progressbar=False, quiet=True)
    labels = bf.label_probabilities(result)
    assert dict(labels.sizes) == {"item": 600, "class": 3}
    assert_close(labels.sum("class").values, np.ones(600), "probabilities")
    for item, label in gold.items():
        assert float(labels.sel(item=item, **{"class": label})) == 1.0
        assert bf.decode(result, model).sel(item=item) == label
        assert np.all(bf.draw_labels(result, draws=10).sel(item=item) == label)
    assert set(np.unique(bf.draw_labels(result, draws=10))) == {0, 1, 2}
    hard = bf.decisions.difficulty(result, model, draws=2)
    assert np.all(hard["low"] <= hard["high"])
    new = bf.predict(result, responses.take(np.arange(10)), sequences=sequences_of([10]))
    assert_close(bf.label_probabilities(new).sum("class").values, np.ones(10), "predicted")


def test_few_raters_have_types_because_they_cannot_show_independence():
    responses = bf.Responses.from_matrix(np.random.default_rng(0).integers(3, size=(20, 3)))
    assert "persistence" in HiddenMarkov(responses, sequences_of([20])).named_vars
    small = bf.datasets.simulate_dawid_skene(60, 6, 3, random_seed=1).responses
    assert "transition" in HiddenMarkov(small, sequences_of([60])).named_vars
    stationary = HiddenMarkov(responses, sequences_of([20]), initial="stationary")
    assert "transition" in stationary.named_vars  # which types do not have


def test_a_chain_warns_of_errors_that_go_on(night):
    """Not where errors are independent, and not of types, which do not take them for the truth."""
    responses, sequences, truth = night
    chain = HiddenMarkov(responses, sequences, raters="confusion")
    with pytest.warns(bf.errors.PoorFitWarning, match="errors go on"):
        point = bf.find_map(chain)
    outcome = bf.checks.error_runs(point, chain, draws=20, random_seed=1)
    assert outcome.attrs["goes_on"] and outcome.attrs["p_value"] < 0.05
    assert outcome.attrs["observed"] > 1.25 * outcome.attrs["replicated"]
    made = bf.datasets.simulate_responses(truth, 5, 3, accuracy=(0.55, 0.65), random_seed=1)
    independent = HiddenMarkov(made.responses, sequences, raters="confusion")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        point = bf.find_map(independent)
    calm = bf.checks.error_runs(point, independent, draws=20, random_seed=1)
    assert not calm.attrs["goes_on"]
    typed = HiddenMarkov(responses, sequences, raters="types")
    with warnings.catch_warnings():
        warnings.simplefilter("error", bf.errors.PoorFitWarning)
        bf.find_map(typed, iterations=20)
    with pytest.raises(bf.errors.InapplicableError, match="must have some"):
        bf.checks.error_runs(bf.find_map(bf.models.DawidSkene(responses)))
