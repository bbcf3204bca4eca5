"""Graded raters in the models: every label prior, agreement of samplers, refusals."""

import numpy as np
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField
from bayesfuse.parameters.compiled import plain_python, value_function
from bayesfuse.parameters.graded_rows import LOGS, GradedPriors

QUIET = {"progressbar": False, "quiet": True}


@pytest.fixture(scope="module")
def table_and_truth():
    """Five grades of eighty items by raters of different strictness."""
    rng = np.random.default_rng(1)
    truth = rng.choice(5, 80, p=[0.1, 0.2, 0.3, 0.25, 0.15])
    thresholds = np.arange(4) - 1.5 + rng.normal(0, 0.5, (5, 1))
    precision = np.exp(rng.normal(np.log(1.7), 0.3, 5))
    rows = bf.Graded(thresholds, precision, 0.03).parameters["confusion"]
    up_to = rows[np.arange(5), truth[:, None]].cumsum(axis=-1)
    answers = (rng.random((80, 5, 1)) > up_to[..., :-1] / up_to[..., -1:]).sum(axis=-1)
    return bf.Responses.from_matrix(answers, classes=range(5)), truth


BUILDS = {
    "pooled": lambda table: DawidSkene(table, raters="graded", pooled=True),
    "sequences": lambda table: HiddenMarkov(
        table, bf.Sequences.from_lengths([40, 40]), raters="graded", pooled=True
    ),
    "graph": lambda table: MarkovRandomField(table, bf.Graph.grid((8, 10)), raters="graded"),
    "populations": lambda table: DawidSkene(table, raters="graded", populations=np.arange(80) % 2),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", BUILDS)
def test_everything_is_drawn_by_gibbs_under_any_label_prior(table_and_truth, name):
    table, truth = table_and_truth
    model = BUILDS[name](table)
    assert set(bf.LabelGibbs(model=model).vars) == set(model.value_vars)
    result = bf.sample(model, 30, tune=30, chains=2, cores=1, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert posterior["thresholds"].dims[2:] == ("rater", "threshold")
    assert (posterior["thresholds"].diff("threshold") > 0).all()
    np.testing.assert_allclose(
        posterior["position"][..., [0, -1]], 2 * np.ones((2, 30, 2)) * [-1, 1]
    )
    assert np.abs(bf.grades(result)["mean"].values - truth).mean() < 0.6
    assert bf.rater_grades(result)["precision"].shape == (5,)
    if name == "pooled":
        raters_without_responses_have_the_crowds_rows(result)


def raters_without_responses_have_the_crowds_rows(result):
    columns = {"item": ["a", "a"], "rater": [0, 99], "label": [4, 4]}
    new = bf.Responses.from_long(columns, classes=range(5))
    said = bf.predict(result, new)["label_posterior"]["probability"].values[0]
    assert said.argmax() == 4 and said.sum() == pytest.approx(1)
    mean = result["posterior"]["confusion_mean"]
    assert mean.dims[2:] == ("class", "answer")
    np.testing.assert_allclose(mean.sum("answer"), 1)


def test_pooled_raters_have_no_mode(table_and_truth):
    with pytest.raises(ModelError, match="sensible maximum"):
        bf.find_map(BUILDS["pooled"](table_and_truth[0]))


@pytest.mark.slow
def test_a_mode_is_found(table_and_truth):
    table, truth = table_and_truth
    point = bf.find_map(DawidSkene(table, raters="graded"))
    assert np.abs(bf.grades(point)["mean"].values - truth).mean() < 0.4


@pytest.mark.parametrize("pooled", [False, True])
def test_the_row_of_a_new_rater_is_the_mean_over_raters(table_and_truth, pooled):
    model, rng, n = (
        DawidSkene(table_and_truth[0], raters="graded", pooled=pooled),
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
