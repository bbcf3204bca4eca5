"""EM: monotone, at a stationary point, and in line with other ways to the same mode."""

import numpy as np
import pymc as pm
import pytest
from coordinates import coordinates

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.inference import em
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_close


@pytest.mark.parametrize("raters", ["confusion", "class", "coin"])
def test_log_posterior_never_falls(small, raters):
    point = bf.find_map(DawidSkene(small, raters=raters), tolerance=1e-12)
    trace = point["trace"]["log_posterior"].values
    assert (np.diff(trace) > -1e-9).all() and len(trace) > 5
    assert point.attrs["converged"] == 1


def test_the_mode_has_no_slope_and_no_nearby_point_is_higher(small):
    """Concentrations above one: at the mode, expected counts are proportional to the rows."""
    model = DawidSkene(small, confusion_prior=np.full((3, 3), 2.0) + np.eye(3), prevalence_prior=2)
    point = bf.find_map(model, tolerance=1e-15, iterations=20_000)
    plan = make_plan(model)
    above = {name: a.concentration - 1 for name, a in plan.continuous_priors().items()}

    def expected(values):
        total, counts = plan.observation.expected(plan.observation.rows(values))
        return total + sum((above[n] * np.log(v)).sum() for n, v in values.items()), counts

    mode = {name: point["point"][name].values for name in ("prevalence", "confusion")}
    best, counts = expected(mode)
    for name, value in mode.items():
        total = counts[name] + above[name]
        assert np.allclose(total / total.sum(axis=-1, keepdims=True), value, atol=1e-6)
    rng = np.random.default_rng(1)
    for _ in range(50):
        other = {
            name: 0.98 * value + 0.02 * rng.dirichlet(np.ones(3), value.shape[:-1])
            for name, value in mode.items()
        }
        assert expected(other)[0] < best


def test_published_estimates_of_dawid_and_skene():
    """Table 3 of the paper: prevalence .40 .42 .11 .07, by EM from the shares of the votes.

    That is a local maximum: the default start ends in a higher one.
    """
    model = DawidSkene(bf.datasets.anesthesia(), confusion_prior=np.ones((4, 4)))
    plan = make_plan(model)
    observation, flat = plan.observation, plan.continuous_priors()
    votes = observation.table.votes().astype(float)
    share = votes / votes.sum(axis=1, keepdims=True)
    uniform = {name: prior.centre() for name, prior in flat.items()}
    counts = observation.tally(uniform, share, np.random.default_rng(0))
    with np.errstate(divide="ignore"):
        rows = {name: np.log(c / c.sum(-1, keepdims=True)) for name, c in counts.items()}
    fit = em.fit(observation, rows, flat, tolerance=1e-12)
    assert np.abs(np.exp(fit.rows["prevalence"]) - [0.40, 0.42, 0.11, 0.07]).max() < 0.005
    assert bf.find_map(model).attrs["log_evidence"] > fit.log_evidence


def test_gold_labels_of_all_items_give_counts(small):
    """Everything known: the mode is counting, by hand."""
    rng = np.random.default_rng(0)
    truth = rng.integers(0, 3, small.n_items)
    gold = dict(zip(small.items.tolist(), truth.tolist(), strict=True))
    model = DawidSkene(small, gold=gold, confusion_prior=np.full((3, 3), 1.5))
    point = bf.find_map(model)["point"]
    counts = np.full((6, 3, 3), 0.5)
    np.add.at(counts, (small.rater, truth[small.item], small.label), 1)
    assert np.allclose(point["confusion"], counts / counts.sum(axis=-1, keepdims=True))
    assert np.allclose(point["prevalence"], np.bincount(truth) / len(truth))


def test_em_takes_gradient_steps_where_a_prior_depends_on_other_variables(small):
    """The mode has no neighbour that is higher, and no hyperparameter is left behind."""
    with pm.Model() as model:
        weight = pm.Gamma("weight", 5, 1)
        prevalence = pm.Dirichlet("prevalence", 1 + weight * np.ones(3))
        confusion = pm.Dirichlet("confusion", np.ones((6, 3, 3)) + 1)
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.Confusion(confusion))
    point = bf.find_map(model, tolerance=1e-12)["point"]
    logp = model.compile_logp(jacobian=False)

    def height(weight, prevalence):
        at = {"weight": weight, "prevalence": prevalence, "confusion": point["confusion"].values}
        return logp(coordinates(model, at))

    weight, prevalence = float(point["weight"]), point["prevalence"].values
    best = height(weight, prevalence)
    for factor in (0.98, 1.02):
        assert height(factor * weight, prevalence) < best
    for step in (-0.005, 0.005):
        assert height(weight, prevalence + step * np.array([1, -1, 0])) < best
        assert height(weight, prevalence + step * np.array([0, -1, 1])) < best


def test_em_refuses_what_it_cannot_do(small, small_model):
    with pytest.raises(ModelError, match=r"start must be one of.*Got: \{\}"):
        bf.find_map(small_model, start={})
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        accuracy = pm.Beta("accuracy", 1 + pm.Poisson("extra", 1.0), 1, shape=6)
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.OneCoin(accuracy))
    with pytest.raises(ModelError, match=r"whole ones have no gradients.*\['extra'\]"):
        bf.find_map(model)


def test_constant_parameters_stay_as_they_are(small):
    """With a known prevalence the accuracies climb to where it was set free with that mode."""
    share = np.array([0.2, 0.3, 0.5])
    with pm.Model() as known:
        accuracy = pm.Beta("accuracy", 2, 1, shape=6)
        bf.observe(small, labels=bf.Independent(share), raters=bf.OneCoin(accuracy))
    with pm.Model() as nearly:
        prevalence = pm.Dirichlet("prevalence", 1e9 * share)
        accuracy = pm.Beta("accuracy", 2, 1, shape=6)
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.OneCoin(accuracy))
    one, other = (bf.find_map(each, tolerance=1e-12) for each in (known, nearly))
    assert_close(
        one["point"]["accuracy"].values, other["point"]["accuracy"].values, "accuracy", atol=1e-4
    )
    assert bf.fit(known, draws=50, random_seed=1).attrs["method"] == "cavi"


def test_models_of_ones_own_need_no_names(small):
    """Variables without dims, and a Beta prior one of whose numbers is the same for all."""
    right = np.array([2.0, 3, 4, 2, 3, 4])
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        accuracy = pm.Beta("accuracy", right, 1.5)
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.OneCoin(accuracy))
    prior = np.stack([right, np.full(6, 1.5)], axis=-1)
    named = DawidSkene(small, raters="coin", confusion_prior=prior)
    steps = {"iterations": 20, "tolerance": 0}
    one, other = (bf.find_map(each, **steps)["point"] for each in (model, named))
    assert_close(one["accuracy"].values, other["accuracy"].values, "accuracy", rtol=1e-9)
