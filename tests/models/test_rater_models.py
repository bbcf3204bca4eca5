"""Models of raters who share a mean, give grades, or are in groups."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from coordinates import at_random
from grouped_crowds import crowd
from refusals import refused
from slowly import with_slow

import bayesfuse as bf
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup, MarkovRandomField
from bayesfuse.parameters.graded_rows import LOGS, PRIORS
from bayesfuse.testing import assert_close

QUIET = {"progressbar": False, "quiet": True, "cores": 1}
RATERS = ["confusion", "class", "coin"]


def own(raters):
    """Return the names of the rows, their mean and their concentration."""
    name = "confusion" if raters == "confusion" else "accuracy"
    return [name, f"{name}_mean", f"{name}_concentration"]


@pytest.mark.parametrize("raters", RATERS)
def test_everything_is_drawn_by_gibbs_and_mixes(raters):
    made = bf.datasets.simulate_dawid_skene(200, 6, 3, per_item=4, random_seed=5)
    model = DawidSkene(made.responses, raters=raters, pooled=True)
    assert set(bf.build.LabelGibbs(model=model).vars) == set(model.value_vars)
    result = bf.sample(model, 500, chains=2, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    shapes = {name: posterior[name].dims[2:] for name in own(raters)}
    by_class = () if raters == "coin" else ("class",)
    answers = ("answer",) if raters == "confusion" else ()
    assert list(shapes.values()) == [
        ("rater", *by_class, *answers),
        (*by_class, *answers),
        by_class,
    ]
    assert float(az.ess(posterior)[own(raters)[2]].min()) > 60
    guess = bf.label_probabilities(result).values.argmax(axis=1)
    assert (guess == np.asarray(made.truth)).mean() > 0.75


def test_classes_of_the_mean_are_aligned_with_those_of_the_rows(small):
    model = DawidSkene(small, pooled=True)
    result = bf.sample(model, 20, chains=2, random_seed=1, **QUIET)
    switched = result.copy()
    order = [2, 0, 1]
    drawn = result["posterior"].dataset
    moved = {
        name: (drawn[name].dims, drawn[name].isel({"class": order}).values)
        for name in ("prevalence", *own("confusion"))
    }
    switched["posterior"] = xr.DataTree(drawn.assign(moved))
    back = bf.checks.align_labels(switched, model, reference=result)["posterior"]
    here = bf.checks.align_labels(result, model, reference=result)["posterior"]
    for name in own("confusion"):
        np.testing.assert_allclose(back[name], here[name])


@pytest.mark.parametrize("raters", with_slow(["confusion", "coin"], "coin"))
def test_starts_take_the_prior_of_the_mean(raters):
    """A crowd that answers the opposite, as the prior says, is begun there."""
    truth = np.arange(60) % 2
    responses = bf.Responses.from_matrix(np.column_stack([1 - truth] * 4))
    prior = [[1, 9], [9, 1]] if raters == "confusion" else [1, 9]
    model = DawidSkene(responses, raters=raters, confusion_prior=prior, pooled=True)
    result = bf.sample(model, 5, tune=0, chains=2, random_seed=1, **QUIET)
    guess = bf.label_probabilities(result).values.argmax(axis=1)
    assert (guess == truth).all()


@pytest.mark.slow
def test_unconverged_modes_are_reported():
    made = bf.datasets.simulate_dawid_skene(40, 4, 2, random_seed=3)
    point = bf.find_map(DawidSkene(made.responses, pooled=True), iterations=10)
    assert point.attrs["converged"] == 0
    assert np.isfinite(point["point"]["confusion_mean"]).all()


def test_methods_for_fixed_priors_are_refused(small):
    model = DawidSkene(small, pooled=True)
    for settings in ({"method": "cavi"}, {"sweeps": 3}):
        refused(r"no such prior on .*confusion_concentration", bf.fit, model, **settings)


def test_a_prior_for_accuracies_of_all_classes(small):
    model = DawidSkene(small, raters="class", confusion_prior=[4, 1], pooled=True)
    assert model.pools[0].mean_prior.tolist() == [[4, 1]] * 3


@pytest.fixture(scope="module")
def table_and_truth():
    """Five grades of eighty items by raters of different strictness."""
    rng = np.random.default_rng(1)
    thresholds = np.arange(4) - 1.5 + rng.normal(0, 0.5, (5, 1))
    precision = np.exp(rng.normal(np.log(1.7), 0.3, 5))
    rows = bf.build.Graded(thresholds, precision, 0.03).parameters["confusion"]
    share = [0.1, 0.2, 0.3, 0.25, 0.15]
    made = bf.datasets.simulate_dawid_skene(
        80, 5, 5, prevalence=share, confusion=rows / rows.sum(axis=-1, keepdims=True), random_seed=1
    )
    return made.responses, made.truth


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
    assert set(bf.build.LabelGibbs(model=model).vars) == set(model.value_vars)
    result = bf.sample(model, 30, tune=30, chains=2, random_seed=1, **QUIET)
    posterior = result["posterior"].dataset
    assert posterior["thresholds"].dims[2:] == ("rater", "threshold")
    assert (posterior["thresholds"].diff("threshold") > 0).all()
    np.testing.assert_allclose(
        posterior["position"][..., [0, -1]], 2 * np.ones((2, 30, 2)) * [-1, 1]
    )
    assert np.abs(bf.decisions.item_grades(result)["mean"].values - truth).mean() < 0.6
    assert bf.rater_table(result)["precision"].notna().sum() == 5
    if name == "pooled":
        raters_without_responses_have_the_crowds_rows(result)


def raters_without_responses_have_the_crowds_rows(result):
    columns = {"item": ["a", "a"], "rater": [0, 99], "label": [4, 4]}
    new = bf.Responses.from_long(columns, classes=range(5))
    with pytest.warns(bf.errors.NewRatersWarning):
        said = bf.predict(result, new)["label_posterior"]["probability"].values[0]
    assert said.argmax() == 4 and said.sum() == pytest.approx(1)
    mean = result["posterior"]["confusion_mean"]
    assert mean.dims[2:] == ("class", "answer")
    np.testing.assert_allclose(mean.sum("answer"), 1)


def test_pooled_raters_have_no_mode(table_and_truth):
    refused("sensible maximum", bf.find_map, BUILDS["pooled"](table_and_truth[0]))


@pytest.mark.slow
def test_a_mode_is_found(table_and_truth):
    table, truth = table_and_truth
    point = bf.find_map(DawidSkene(table, raters="graded"))
    assert np.abs(bf.decisions.item_grades(point)["mean"].values - truth).mean() < 0.4


@pytest.mark.parametrize("pooled", [False, True])
def test_the_row_of_a_new_rater_is_the_mean_over_raters(table_and_truth, pooled):
    model = DawidSkene(table_and_truth[0], raters="graded", pooled=pooled)
    (_, values), rng, n = at_random(model), np.random.default_rng(2), 40_000
    drawn = {}
    for role, (mean, spread, *_) in PRIORS.items():
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
    rows = bf.build.Graded(cuts, np.exp(drawn["precision"][:, 0]), rate, positions=positions)
    rows = rows.parameters["confusion"]
    error = rows.std(axis=0) / np.sqrt(n)
    gap = np.abs(values["confusion_mean"] - rows.mean(axis=0))
    assert (gap < 5 * error + 1e-3).all()  # the documented accuracy
    told = model["responses"].owner.op.observation.prediction["newcomers"]["confusion"]
    assert told["source"] == ("pool" if pooled else "prior")


@pytest.mark.parametrize("n_classes", [2, 3])
def test_rates_are_conditional_probabilities(n_classes):
    """Against the truth and against the verdict, at parameters drawn from the prior."""
    blank = bf.Responses.from_matrix([[0, 0, 0, 0]], classes=range(n_classes))
    model = LatentGroup(blank, [[0, 2]])
    names = ["prevalence", "group_confusion", "rater_confusion", "confusion"]
    names += ["sensitivity", "specificity", "verdict_sensitivity", "verdict_specificity"]
    drawn = dict(zip(names, pm.draw([model[n] for n in names], random_seed=2), strict=True))
    prevalence, outer, inner = drawn["prevalence"], drawn["group_confusion"][0], drawn[names[2]]
    whole = np.where(np.array([1, 0, 1, 0])[:, None, None], outer @ inner, inner)
    assert_close(drawn["confusion"], whole, "confusion")
    for prefix, rows, group_share in (
        ("", whole, prevalence),
        ("verdict_", inner, prevalence @ outer),
    ):
        for rater, share in enumerate([group_share, prevalence] * 2):
            for k in [1] if n_classes == 2 else range(n_classes):
                place = (rater,) if n_classes == 2 else (rater, k)
                alarm = share @ rows[rater, :, k] - share[k] * rows[rater, k, k]
                right = rows[rater, k, k], 1 - alarm / (1 - share[k])
                for name, rate in zip(("sensitivity", "specificity"), right, strict=True):
                    assert_close(drawn[prefix + name][place], rate, prefix + name)


def test_a_group_has_one_vote_at_the_start():
    responses, _, _ = crowd(np.random.default_rng(1), 50)
    model = LatentGroup(responses, [[0, 1, 2], [3, 4]])
    plan = make_plan(model)
    observation = plan.observation
    votes = observation.raters.votes(observation.table)
    item = responses.item
    sources = model.groups.assignment[responses.rater]
    n = int(np.argmax(responses.per_item))
    alone = (sources[item == n] < 0).sum()
    assert votes[observation.inverse[n]].sum() == pytest.approx(alone + 2)
