"""Raters who share a mean: two samplers, degenerate cases, whole results, refusals."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr

import bayesfuse as bf
from bayesfuse.errors import ModelError
from bayesfuse.models import DawidSkene

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
    assert set(bf.LabelGibbs(model=model).vars) == set(model.value_vars)
    result = bf.sample(model, 200, chains=2, random_seed=1, **QUIET)
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


@pytest.fixture(scope="module")
def fitted(small):
    model = DawidSkene(small, pooled=True, gold={0: 1}, name="crowd")
    return model, bf.sample(model, 50, chains=3, random_seed=1, **QUIET)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto")
def test_results_are_whole(fitted, tmp_path):
    model, result = fitted
    path = tmp_path / "result.nc"
    result.to_netcdf(path)
    with xr.open_datatree(path) as loaded:
        xr.testing.assert_equal(loaded["posterior"].dataset, result["posterior"].dataset)
    some = result.isel(chain=[0, 2])
    probability = bf.label_probabilities(some, model)
    np.testing.assert_allclose(probability.sum("class"), 1)
    assert float(probability[0, 1]) == 1.0
    assert np.isfinite(az.loo(result).elpd)
    replicated = pm.sample_posterior_predictive(
        some.isel(draw=slice(20)), model=model, random_seed=1, progressbar=False
    )
    assert replicated["posterior_predictive"]["crowd::responses"].shape[:2] == (2, 20)
    for check in (bf.checks.item_difficulty, bf.checks.conditional_dependence):
        assert check(result, model, random_seed=1).attrs
    assert bf.checks.switching(result).attrs["named"]
    assert bf.decisions.rank_raters(result).sizes["rater"] == 6


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
    back = bf.align_labels(switched, model, reference=result)["posterior"]
    here = bf.align_labels(result, model, reference=result)["posterior"]
    for name in own("confusion"):
        np.testing.assert_allclose(back[name], here[name])


def test_starts_take_the_prior_of_the_mean():
    """A crowd that answers the opposite, as the prior says, is begun there."""
    truth = np.arange(60) % 2
    responses = bf.Responses.from_matrix(np.column_stack([1 - truth] * 4))
    for raters, prior in (("confusion", [[1, 9], [9, 1]]), ("coin", [1, 9])):
        model = DawidSkene(responses, raters=raters, confusion_prior=prior, pooled=True)
        result = bf.sample(model, 5, tune=0, chains=2, random_seed=1, **QUIET)
        guess = bf.label_probabilities(result).values.argmax(axis=1)
        assert (guess == truth).all()


@pytest.mark.slow
def test_a_mode_that_is_none_is_not_said_to_be_found():
    made = bf.datasets.simulate_dawid_skene(40, 4, 2, random_seed=3)
    point = bf.find_map(DawidSkene(made.responses, pooled=True), iterations=10)
    assert point.attrs["converged"] == 0
    assert np.isfinite(point["point"]["confusion_mean"]).all()


def test_what_needs_fixed_priors_is_refused(fitted):
    model, _ = fitted
    for settings in ({"method": "cavi"}, {"sweeps": 3}):
        with pytest.raises(ModelError, match=r"no such prior on .*confusion_concentration"):
            bf.fit(model, **settings)


def test_a_prior_for_accuracies_of_all_classes(small):
    model = DawidSkene(small, raters="class", confusion_prior=[4, 1], pooled=True)
    assert model.pools[0].mean_prior.tolist() == [[4, 1]] * 3
