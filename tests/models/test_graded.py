"""Graded raters in the models: mixing, agreement of samplers, what order buys, refusals."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.parameters.graded_rows import LOGS, GradedPriors
from bayesfuse.testing import assert_uniform, assert_within_mcse, sbc_ranks

QUIET = {"progressbar": False, "quiet": True}


def simulated(n_items, seed, n_raters=5):
    """Five grades by raters of different strictness; returns the table and the truth."""
    rng = np.random.default_rng(seed)
    truth = rng.choice(5, n_items, p=[0.1, 0.2, 0.3, 0.25, 0.15])
    thresholds = np.arange(4) - 1.5 + rng.normal(0, 0.5, (n_raters, 1))
    precision = np.exp(rng.normal(np.log(1.7), 0.3, n_raters))
    rows = bf.Graded(thresholds, precision, 0.03).parameters["confusion"]
    up_to = rows[np.arange(n_raters), truth[:, None]].cumsum(axis=-1)
    answers = (rng.random((n_items, n_raters, 1)) > up_to[..., :-1] / up_to[..., -1:]).sum(axis=-1)
    return bf.Responses.from_matrix(answers, classes=range(5)), truth


@pytest.fixture(scope="module")
def small():
    return simulated(80, seed=1)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
def test_everything_is_drawn_by_gibbs_and_mixes(small, pooled):
    table, truth = small
    model = DawidSkene(table, raters="graded", pooled=pooled)
    assert set(bf.LabelGibbs(model=model).vars) == set(model.value_vars)
    result = bf.sample(model, 200, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert posterior["thresholds"].dims[2:] == ("rater", "threshold")
    assert (posterior["thresholds"].diff("threshold") > 0).all()
    assert posterior["position"].values[..., [0, -1]].ravel().tolist() == pytest.approx(
        [-2.0, 2.0] * (posterior.sizes["chain"] * posterior.sizes["draw"])
    )
    assert float(az.ess(posterior)["strictness"].min()) > 20
    found = bf.grades(result)
    assert np.abs(found["mean"].values - truth).mean() < 0.4


@pytest.mark.parametrize(
    "build",
    [
        lambda table: HiddenMarkov(
            table, bf.Sequences.from_lengths([40, 40]), raters="graded", pooled=True
        ),
        lambda table: MarkovRandomField(table, bf.Graph.grid((8, 10)), raters="graded"),
        lambda table: DawidSkene(table, raters="graded", populations=np.arange(80) % 2),
    ],
    ids=["sequences", "graph", "populations"],
)
def test_any_label_prior(small, build):
    table, truth = small
    result = bf.sample(build(table), 60, chains=2, random_seed=1, **QUIET)
    assert np.abs(bf.grades(result)["mean"].values - truth).mean() < 0.6
    assert bf.rater_grades(result)["precision"].shape == (5,)


def test_two_classes_and_a_named_model():
    made = bf.datasets.simulate_dawid_skene(600, 12, 2, random_seed=2)
    model = DawidSkene(made.responses, raters="graded", pooled=True, name="a")
    result = bf.sample(model, 100, chains=2, random_seed=1, **QUIET)
    own = bf.sample(DawidSkene(made.responses, pooled=True), 100, chains=2, random_seed=1, **QUIET)
    one, other = (bf.label_probabilities(each).values for each in (result, own))
    # the priors differ, the rows do not
    assert (one.argmax(axis=1) == other.argmax(axis=1)).mean() > 0.98
    assert np.abs(one - other).mean() < 0.02


def test_raters_without_responses_are_predicted(small):
    table, _ = small
    model = DawidSkene(table, raters="graded", pooled=True)
    result = bf.sample(model, 60, chains=2, random_seed=1, **QUIET)
    new = bf.Responses.from_long(
        {"item": ["a", "a"], "rater": [0, 99], "label": [4, 4]}, classes=range(5)
    )
    said = bf.predict(result, new)["label_posterior"]["probability"].values[0]
    assert said.argmax() == 4 and said.sum() == pytest.approx(1)
    mean = result["posterior"]["confusion_mean"]
    assert mean.dims[2:] == ("class", "answer")
    assert np.allclose(mean.sum("answer"), 1)


def test_errors(small):
    table, _ = small
    words = bf.Responses.from_matrix([["a", "b"], ["c", "b"]])
    with pytest.raises(ModelError, match=r"need ordered classes.*ordered=True.* Got: "):
        DawidSkene(words, raters="graded")
    with pytest.raises(ModelError, match=r"confusion_prior is for free rows.* Got: "):
        DawidSkene(table, raters="graded", confusion_prior=bf.priors.diagonal(5))
    with pytest.raises(ModelError, match=r"must be 'confusion', .*'graded'\. Got: "):
        DawidSkene(table, raters="ordered")
    with pytest.raises(ModelError, match="sensible maximum"):
        bf.find_map(DawidSkene(table, raters="graded", pooled=True))


@pytest.mark.slow
def test_a_mode_is_found(small):
    table, truth = small
    point = bf.find_map(DawidSkene(table, raters="graded"))
    assert np.abs(bf.grades(point)["mean"].values - truth).mean() < 0.4


@pytest.mark.slow
def test_gibbs_and_nuts_agree(small):
    table, truth = small
    model = DawidSkene(table, raters="graded", gold={n: int(truth[n]) for n in range(0, 80, 4)})
    gibbs = bf.sample(model, 3000, random_seed=1, **QUIET)
    nuts = bf.sample(model, 700, sampler="nuts", chains=2, random_seed=2, **QUIET)
    names = ["prevalence", "strictness", "threshold_gap", "position_gap", "confusion"]
    assert_within_mcse(nuts["posterior"].dataset, gibbs["posterior"].dataset, names)


@pytest.mark.slow
@pytest.mark.parametrize("pooled", [False, True])
def test_prior_draws_rank_uniformly_among_posterior_draws(pooled):
    rng = np.random.default_rng(9)
    item, rater = np.nonzero(rng.random((30, 6)) < 0.8)
    columns = {"item": item, "rater": rater, "label": np.arange(len(item)) % 3}
    table = bf.Responses.from_long(columns, items=range(30))

    def build(responses, gold=None):
        return DawidSkene(
            responses,
            prevalence_prior=[4.0, 5.0, 6.0],
            raters="graded",
            pooled=pooled,
            gold=gold,
        )

    simulations = 60
    ranks = sbc_ranks(
        build,
        table,
        revealed=range(0, 30, 3),
        simulations=simulations,
        draws=99,
        thin=2,
        sweeps=6,
        tune=100,
        random_seed=7,
        start="prior",
    )
    for name, values in ranks.items():
        flat = values.values.reshape(simulations, -1)
        if name == "labels":  # those of one simulation share its parameters
            assert_uniform(flat[np.arange(simulations), np.arange(simulations) % 30], 1, name)
            continue
        for entry in range(flat.shape[1]):
            assert_uniform(flat[:, entry], 99, f"{name}, entry {entry}")


@pytest.mark.slow
def test_order_is_worth_half_the_responses():
    """Graded raters know as much from 100 items as confusion matrices from 200."""
    losses = {}
    for seed in range(4):
        for n_items, raters in ((100, "graded"), (200, "confusion")):
            table, truth = simulated(n_items, seed)
            model = DawidSkene(table, raters=raters, pooled=True)
            result = bf.sample(model, 200, chains=2, random_seed=1, **QUIET)
            own = bf.label_probabilities(result).values[np.arange(n_items), truth]
            losses.setdefault(raters, []).append(-np.log(np.maximum(own, 1e-4)).mean())
    # six seeds gave .34 and .87; the standard error of the difference is .2
    assert np.mean(losses["graded"]) < np.mean(losses["confusion"])


@pytest.mark.parametrize("pooled", [False, True])
def test_the_row_of_a_new_rater_is_the_mean_over_raters(small, pooled):
    model, rng, n = (
        DawidSkene(small[0], raters="graded", pooled=pooled),
        np.random.default_rng(1),
        40_000,
    )
    point = {k: v + rng.normal(0, 0.5, np.shape(v)) for k, v in model.initial_point(1).items()}
    with plain_python():
        values = value_function(
            model, {v.name: v for v in [*model.free_RVs, *model.deterministics]}
        )(point)
    drawn = {}
    for role, (mean, spread) in GradedPriors().alone.items():
        if pooled:
            mean, spread = values[f"{role}_mean"], values[f"{role}_spread"]
            mean = np.log(mean) if role in LOGS else mean
        drawn[role] = mean + spread * rng.standard_normal((n, 3 if role == "threshold_gap" else 1))
    positions = values["position"]
    middles = (positions[1:] + positions[:-1]) / 2
    cuts = np.cumsum(np.exp(drawn["threshold_gap"]) * np.diff(middles), axis=1)
    cuts = np.concatenate([np.zeros((n, 1)), cuts], axis=1)
    cuts += drawn["strictness"] - (cuts - middles).mean(axis=1, keepdims=True)
    rate = 1 / (1 + np.exp(-drawn["guess_log_odds"][:, 0]))
    rows = bf.Graded(cuts, np.exp(drawn["precision"][:, 0]), rate, positions=positions)
    rows = rows.parameters["confusion"]
    error = rows.std(axis=0) / np.sqrt(n)
    gap = np.abs(values["confusion_mean"] - rows.mean(axis=0))
    assert (gap < 5 * error + 1e-3).all()  # the documented accuracy
    told = model["responses"].owner.op.observation.prediction["newcomers"]["confusion"]
    assert told["source"] == ("pool" if pooled else "prior")
