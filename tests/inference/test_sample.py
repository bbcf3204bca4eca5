"""Sampling: two samplers against each other, reproducibility, results, interruptions, refusals."""

from __future__ import annotations

import arviz as az
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr
from conjugate_models import hierarchical

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError
from bayesfuse.models import DawidSkene
from bayesfuse.testing import assert_within_mcse

QUIET = {"progressbar": False, "quiet": True}
PARAMETERS = ["prevalence", "confusion", "sensitivity", "specificity"]


@pytest.mark.parametrize(
    "nuts_sampler",
    [pytest.param(name, marks=pytest.mark.slow) for name in ("pymc", "nutpie", "numpyro")],
)
def test_gibbs_and_nuts_agree(small_model, small_gibbs, nuts_sampler):
    pytest.importorskip({"pymc": "pymc"}.get(nuts_sampler, nuts_sampler))
    result = bf.sample(
        small_model,
        1000,
        sampler="nuts",
        nuts_sampler=nuts_sampler,
        chains=2,
        random_seed=3,
        **QUIET,
    )
    assert_within_mcse(result["posterior"].dataset, small_gibbs["posterior"].dataset, PARAMETERS)
    for fit in (result, small_gibbs):
        assert "start" in fit.attrs
    one, other = (bf.label_probabilities(fit) for fit in (result, small_gibbs))
    error = np.hypot(result["label_posterior"]["mcse"], small_gibbs["label_posterior"]["mcse"])
    assert (np.abs(one - other) <= 5 * error + 1e-9).all()


@pytest.mark.slow
def test_posterior_of_a_tiny_table_is_exact():
    """Against quadrature over both parameters of a table with one coin and one item."""
    responses = bf.Responses.from_matrix([[1], [0], [1]], raters=["only"])
    model = DawidSkene(responses, raters="coin", prevalence_prior=[2, 1], confusion_prior=[3, 1])
    result = bf.sample(model, 2000, random_seed=1, **QUIET)
    x = (np.arange(2000) + 0.5) / 2000
    one, accuracy = np.meshgrid(x, x, indexing="ij")  # p(class 1), p(right)
    says_one = one * accuracy + (1 - one) * (1 - accuracy)
    weight = says_one**2 * (1 - says_one) * (1 - one) * accuracy**2
    weight /= weight.sum()
    posterior = result["posterior"].dataset
    for name, values, exact in (
        ("prevalence", posterior["prevalence"].sel({"class": 1}), (weight * one).sum()),
        ("accuracy", posterior["accuracy"].sel(rater="only"), (weight * accuracy).sum()),
    ):
        error = float(az.mcse(values.to_dataset(name=name))[name])
        assert float(values.mean()) == pytest.approx(exact, abs=5 * error), name
    label = bf.label_probabilities(result).sel(item=0)[1]
    exact = (weight * one * accuracy / says_one).sum()
    error = float(result["label_posterior"]["mcse"].sel(item=0)[1])
    assert float(label) == pytest.approx(exact, abs=5 * error)


def test_same_seed_same_draws_whatever_the_layout(small):
    frame = small.to_frame().sample(frac=1, random_state=1)
    declared = {"items": small.items, "raters": small.raters, "classes": small.classes}
    fits = [
        bf.sample(DawidSkene(responses), 50, chains=2, random_seed=7, **QUIET)
        for responses in (small, bf.Responses.from_long(frame, **declared))
    ]
    for name in PARAMETERS:
        assert (fits[0]["posterior"][name] == fits[1]["posterior"][name]).all()
    other = bf.sample(DawidSkene(small), 50, chains=2, random_seed=8, **QUIET)
    assert (fits[0]["posterior"]["prevalence"] != other["posterior"]["prevalence"]).any()


def test_matrix_and_long_table_give_the_same_draws():
    matrix = np.random.default_rng(2).integers(-1, 3, (30, 4))
    one = bf.Responses.from_matrix(matrix, classes=[0, 1, 2])
    two = bf.Responses.from_long(
        one.to_frame(), items=one.items, raters=one.raters, classes=[0, 1, 2]
    )
    fits = [bf.sample(DawidSkene(r), 20, chains=1, random_seed=1, **QUIET) for r in (one, two)]
    assert (fits[0]["posterior"]["confusion"] == fits[1]["posterior"]["confusion"]).all()


@pytest.mark.slow
def test_processes_do_not_change_the_draws(small_model):
    # not by forking this process, in which another test may have started JAX's threads
    settings = {"tune": 10, "chains": 2, "random_seed": 7, "mp_ctx": "forkserver"} | QUIET
    fits = [bf.sample(small_model, 30, cores=cores, **settings) for cores in (1, 2)]
    one, other = (fit["posterior"]["confusion"].values for fit in fits)
    assert (one == other).all()


@pytest.mark.slow
def test_counts_and_written_out_items_give_the_same_posterior():
    counted = bf.datasets.caries()
    fits = [
        bf.sample(DawidSkene(r), 100, chains=2, random_seed=1, **QUIET)
        for r in (counted, counted.expand())
    ]
    assert (fits[0]["posterior"]["confusion"] == fits[1]["posterior"]["confusion"]).all()
    one, other = (az.loo(fit) for fit in fits)
    assert one.n_data_points == 3869
    assert one.elpd == pytest.approx(other.elpd, rel=1e-12)
    probability = bf.label_probabilities(fits[1])
    assert float(probability.sel(item="11111/1")[1]) > 0.99
    assert probability.sizes["item"] == 3869


def test_result_is_complete_and_survives_netcdf(tmp_path, small):
    names = bf.Responses.from_long(
        {
            "item": [f"item {n}" for n in small.item],
            "rater": [f"rater {m}" for m in small.rater],
            "label": np.array(["no", "so-so", "yes"])[small.label],
        },
        items=[f"item {n}" for n in range(62)],
    )
    model = DawidSkene(names, gold={"item 0": "yes"})
    result = bf.sample(model, 30, chains=2, random_seed=1, **QUIET)
    path = tmp_path / "result.nc"
    result.to_netcdf(path)
    with xr.open_datatree(path) as loaded:
        assert (
            set(loaded.children)
            == set(result.children)
            >= {
                "posterior",
                "sample_stats",
                "log_likelihood",
                "observed_data",
                "constant_data",
                "label_posterior",
            }
        )
        for group in result.children:
            xr.testing.assert_equal(loaded[group].dataset, result[group].dataset)
        assert loaded.attrs == result.attrs
        probability = bf.label_probabilities(loaded)
        assert probability["item"].values[-1] == "item 61"
        assert probability["class"].values.tolist() == ["no", "so-so", "yes"]
        assert float(probability.sel({"item": "item 0", "class": "yes"})) == 1.0
        assert loaded["posterior"]["confusion"].rater.values.tolist() == names.raters.tolist()


@pytest.mark.slow
def test_monte_carlo_error_of_label_probabilities_is_their_spread_between_runs(small_model):
    fits = [bf.sample(small_model, 130, chains=2, random_seed=s, **QUIET) for s in range(40)]
    spread = np.std([bf.label_probabilities(fit) for fit in fits], axis=0, ddof=1)
    error = np.mean([fit["label_posterior"]["mcse"] for fit in fits], axis=0)
    free = spread > 1e-4
    # 40 runs give each spread to 11 %; the mean log ratio of dozens of them to a few percent
    assert abs(np.log(error[free] / spread[free]).mean()) < 0.15


def test_summary_names_every_row_rightly(small_gibbs):
    names = ["prevalence", "sensitivity", "confusion"]
    table = bf.summary(small_gibbs, names, round_to=8)
    for name in names:
        mean = small_gibbs["posterior"][name].mean(("chain", "draw"))
        for place in np.ndindex(mean.shape):
            entry = ", ".join(str(mean[d].values[i]) for d, i in zip(mean.dims, place, strict=True))
            assert table["mean"][f"{name}[{entry}]"] == pytest.approx(float(mean[place]), abs=1e-6)
    assert len(bf.summary(small_gibbs)) == 3 + 6 * 9 + 2 * 6 * 3
    with pytest.raises(ModelError, match="'trust'"):
        bf.summary(small_gibbs, ["trust"])


def test_unanswered_items_get_the_prevalence(small_gibbs):
    mean = small_gibbs["posterior"]["prevalence"].mean(("chain", "draw"))
    assert np.allclose(bf.label_probabilities(small_gibbs).sel(item=60), mean, atol=1e-12)


def test_pointwise_log_likelihood_is_the_marginal_one(small, small_gibbs):
    posterior = small_gibbs["posterior"].isel(chain=1, draw=7)
    frame = small.to_frame()
    rows = frame[frame["item"] == 5]
    terms = posterior["prevalence"].values.copy()
    for _, row in rows.iterrows():
        terms *= posterior["confusion"].values[row["rater"], :, row["label"]]
    found = small_gibbs["log_likelihood"]["responses"].isel(chain=1, draw=7).sel(item=5)
    assert float(found) == pytest.approx(np.log(terms.sum()), rel=1e-12)


def test_label_gibbs_is_a_step_method_of_pymc(small_model, small_gibbs):
    result = pm.sample(
        500,
        tune=100,
        chains=2,
        cores=1,
        step=bf.LabelGibbs(model=small_model),
        model=small_model,
        random_seed=1,
        progressbar=False,
        quiet=True,
    )
    assert_within_mcse(result["posterior"].dataset, small_gibbs["posterior"].dataset, PARAMETERS)


def test_label_gibbs_finds_the_model_it_is_sampled_with(small):
    model = DawidSkene(small)
    result = pm.sample(
        5, tune=5, chains=1, step=bf.LabelGibbs(), model=model, progressbar=False, quiet=True
    )
    assert result["posterior"].sizes["draw"] == 5


@pytest.mark.slow
def test_gibbs_next_to_nuts_agrees_with_nuts_in_a_model_of_ones_own(small):
    model = hierarchical(small)
    mixed = bf.sample(model, 1500, chains=2, cores=1, random_seed=1, **QUIET)
    nuts = bf.sample(
        model, 1500, chains=2, cores=1, sampler="nuts", nuts_sampler="pymc", random_seed=2, **QUIET
    )
    assert mixed.attrs["sampler"] == "gibbs"
    assert_within_mcse(
        mixed["posterior"].dataset,
        nuts["posterior"].dataset,
        ["prevalence", "mean", "logit", "weight"],
    )


def test_a_parameter_used_elsewhere_is_not_drawn_by_gibbs(small):
    with pm.Model():
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        confusion = pm.Dirichlet("confusion", np.ones((6, 3, 3)))
        pm.Poisson("size", 100 * prevalence[0], observed=20)
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.Confusion(confusion))
        step = bf.LabelGibbs()
        with pytest.raises(ModelError, match="prevalence"):
            bf.LabelGibbs([prevalence])
    assert [v.name for v in step.vars] == ["confusion_simplex__"]


def test_interruption_returns_the_draws_so_far(small_model):
    def interrupt(trace, draw):
        if draw.chain == 1 and len(trace) == 30:
            raise KeyboardInterrupt

    result = bf.sample(
        small_model, 100, tune=10, chains=2, cores=1, random_seed=1, callback=interrupt, **QUIET
    )
    draws = result["posterior"].sizes["draw"]
    assert 0 < draws <= 100
    assert result["log_likelihood"].sizes["draw"] == draws


def test_chains_begin_apart(small_model):
    result = bf.sample(small_model, 4, tune=0, chains=4, random_seed=1, sweeps=1, **QUIET)
    first = result["posterior"]["prevalence"].isel(draw=0).values
    assert len(np.unique(first.round(12), axis=0)) == 4


def test_explicit_start_and_prior_start(small_model):
    start = {"prevalence": np.array([0.2, 0.3, 0.5])}
    for begin in (start, "prior", "majority"):
        result = bf.sample(small_model, 5, tune=0, chains=1, start=begin, random_seed=1, **QUIET)
        assert result.attrs["start"] == ("given" if isinstance(begin, dict) else begin)
    with pytest.raises(ModelError, match="'prevalenz'"):
        bf.sample(small_model, 5, start={"prevalenz": 1.0}, **QUIET)


def test_large_log_likelihoods_are_left_out_and_small_ones_on_request(small_model, monkeypatch):
    monkeypatch.setattr("bayesfuse.results.draws.MOST_VALUES", 100)
    assert "log_likelihood" not in bf.sample(small_model, 5, chains=1, **QUIET).children
    asked = bf.sample(small_model, 5, chains=1, log_likelihood=True, **QUIET)
    assert "log_likelihood" in asked.children


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"draws": 0}, "draws must be a whole number, at least 1. Got: 0"),
        ({"draws": 1.5}, "Got: 1.5"),
        ({"chains": 0}, "chains"),
        ({"sampler": "metropolis"}, "'metropolis'"),
        ({"start": "guess"}, "'guess'"),
        ({"sweeps": 0}, "sweeps"),
        ({"initvals": {}}, "initvals"),
        ({"var_names": ["prevalence"]}, "var_names"),
        ({"tune": -1}, "tune must be a whole number, at least 0. Got: -1"),
        ({"sampler": "nuts", "sweeps": 2}, "sweeps=2 for NUTS"),
        ({"nuts_sampler": "pymc"}, "nuts_sampler='pymc' for Gibbs"),
        ({"start": {"prevalence": [0.5, 0.5]}}, r"\(3,\). Got: shape \(2,\)"),
        ({"random_seed": np.random.RandomState(1)}, "RandomState"),
    ],
)
def test_bad_requests_are_refused(small_model, arguments, told):
    with pytest.raises(ModelError, match=told):
        bf.sample(small_model, **({"draws": 5} | arguments), **QUIET)


def test_another_model_than_the_last_must_be_named(small):
    model = DawidSkene(small)
    DawidSkene(small)
    with pytest.raises(ValueError, match="pass model= for another"):
        pm.sample(5, chains=1, step=bf.LabelGibbs(), model=model, progressbar=False)


def test_parameters_that_are_observed_are_what_was_observed(small):
    prevalence = np.array([0.01, 0.01, 0.98])
    model = pm.observe(DawidSkene(small), {"prevalence": prevalence})
    with pm.Model() as known:
        rows = np.tile(bf.priors.diagonal(3), (6, 1, 1))
        channel = bf.Confusion(bf.dirichlet("confusion", rows))
        bf.observe(small, labels=bf.Independent(prevalence), raters=channel)
    one, other = (
        bf.sample(each, 1000, chains=2, random_seed=1, **QUIET)["label_posterior"]
        for each in (model, known)
    )
    error = np.hypot(one["mcse"], other["mcse"])
    assert (np.abs(one["probability"] - other["probability"]) < 5 * error + 1e-12).all()


def test_summary_takes_a_name_and_needs_draws(small_model, small_gibbs):
    assert bf.summary(small_gibbs, "prevalence").equals(bf.summary(small_gibbs, ["prevalence"]))
    with pytest.raises(ModelError, match=r"summary needs posterior draws.*no posterior"):
        bf.summary(bf.find_map(small_model))


def test_a_model_without_responses_is_refused():
    with pm.Model() as model:
        pm.Normal("x")
    for use in (bf.sample, bf.find_map):
        with pytest.raises(ModelError, match="must observe responses, with"):
            use(model)


def test_a_prior_that_makes_the_data_impossible_is_refused(small):
    """Before sampling: a fixed confusion matrix with a zero where a gold item was answered."""
    certain = np.tile(np.eye(3), (6, 1, 1))
    with pm.Model() as model:
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        bf.observe(small, labels=bf.Independent(prevalence), raters=bf.Confusion(certain))
    with pytest.raises(ImpossibleDataError, match="probability zero for item"):
        bf.sample(model, 10, **QUIET)


def test_label_probabilities_need_a_result():
    with pytest.raises(ModelError, match="label_posterior"):
        bf.label_probabilities(xr.DataTree())


def test_frame_of_truth_is_recovered(development_data):
    """RTE: better than majority vote (.897); published IBCC .928."""
    responses, truth = development_data("rte")
    result = bf.sample(DawidSkene(responses), 500, chains=2, random_seed=1, **QUIET)
    probability = bf.label_probabilities(result)
    label = pd.Series(probability.argmax("class").values, index=probability["item"].values)
    accuracy = (label.loc[truth["item"]].values == truth["label"].values).mean()
    assert accuracy > 0.92
