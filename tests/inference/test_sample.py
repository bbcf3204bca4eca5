"""Sampling: samplers against each other, where chains begin, results, interruptions, refusals."""

import arviz as az
import numpy as np
import pymc as pm
import pytest
import xarray as xr
from refusals import refused, refused_as
from within_mcse import assert_within_mcse

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, IncompleteWarning, ModelError
from bayesfuse.inference import chains
from bayesfuse.models import DawidSkene

QUIET = {"progressbar": False, "quiet": True}
PARAMETERS = ["prevalence", "confusion", "sensitivity", "specificity"]


@pytest.mark.slow
@pytest.mark.parametrize("nuts_sampler", ["pymc", "nutpie", "numpyro"])
def test_gibbs_and_nuts_agree(small_model, small_gibbs, nuts_sampler):
    pytest.importorskip(nuts_sampler)
    settings = {"sampler": "nuts", "nuts_sampler": nuts_sampler, "chains": 2, "random_seed": 4}
    draws, tune = (1000, 500) if nuts_sampler == "numpyro" else (2000, 1000)  # the slowest
    result = bf.sample(small_model, draws, tune=tune, **settings, **QUIET)
    assert_within_mcse(result["posterior"].dataset, small_gibbs["posterior"].dataset, PARAMETERS)
    for fit in (result, small_gibbs):
        assert "start" in fit.attrs
    one, other = (bf.label_probabilities(fit) for fit in (result, small_gibbs))
    error = np.hypot(result["label_posterior"]["mcse"], small_gibbs["label_posterior"]["mcse"])
    assert (np.abs(one - other) <= 5 * error + 1e-9).all()


def test_same_seed_same_draws_whatever_the_layout(small):
    frame = small.to_frame().sample(frac=1, random_state=1)
    declared = {"items": small.items, "raters": small.raters, "classes": small.classes}
    fits = [
        bf.sample(DawidSkene(responses), 15, chains=2, random_seed=7, **QUIET)
        for responses in (small, bf.Responses.from_long(frame, **declared))
    ]
    for name in PARAMETERS:
        assert (fits[0]["posterior"][name] == fits[1]["posterior"][name]).all()
    other = bf.sample(DawidSkene(small), 15, chains=2, random_seed=8, **QUIET)
    assert (fits[0]["posterior"]["prevalence"] != other["posterior"]["prevalence"]).any()


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # of few draws
def test_counts_and_written_out_items_give_the_same_posterior():
    counted = bf.Responses.from_counts({"000": 30, "100": 4, "011": 6, "110": 3, "111": 17})
    fits = [
        bf.sample(DawidSkene(r), 60, chains=2, random_seed=1, **QUIET)
        for r in (counted, counted.expand())
    ]
    assert (fits[0]["posterior"]["confusion"] == fits[1]["posterior"]["confusion"]).all()
    one, other = (az.loo(fit) for fit in fits)
    assert one.n_data_points == 60
    assert one.elpd == pytest.approx(other.elpd, rel=1e-9)
    assert float(bf.label_probabilities(fits[1]).sel(item="111/1")[1]) > 0.95


def test_log_likelihoods_of_too_many_values_are_kept_if_asked_for(small_model, monkeypatch):
    monkeypatch.setattr("bayesfuse.results.draws.MAX_VALUES", 100)
    for asked, kept in ((None, False), (True, True)):
        few = bf.sample(small_model, 5, chains=1, log_likelihood=asked, **QUIET)
        assert ("log_likelihood" in few.children) == kept


def test_label_gibbs_is_a_step_method_of_pymc(small):
    """It finds the model that it is sampled with; another than the last must be named."""
    settings = {"chains": 2, "cores": 1, "random_seed": 1} | QUIET
    model = DawidSkene(small)
    result = pm.sample(300, tune=20, step=bf.build.LabelGibbs(), model=model, **settings)
    ours = bf.sample(model, 300, **settings)
    assert_within_mcse(result["posterior"].dataset, ours["posterior"].dataset, PARAMETERS)
    DawidSkene(small)
    with pytest.raises(ValueError, match="pass model= for another"):
        pm.sample(5, step=bf.build.LabelGibbs(), model=model, **settings)


def test_a_parameter_used_elsewhere_is_not_drawn_by_gibbs(small):
    with pm.Model():
        prevalence = pm.Dirichlet("prevalence", np.ones(3))
        confusion = pm.Dirichlet("confusion", np.ones((6, 3, 3)))
        pm.Poisson("size", 100 * prevalence[0], observed=20)
        bf.build.observe(
            small, labels=bf.build.Independent(prevalence), raters=bf.build.Confusion(confusion)
        )
        step = bf.build.LabelGibbs()
        refused("prevalence", bf.build.LabelGibbs, [prevalence])
    assert [v.name for v in step.vars] == ["confusion_simplex__"]


def test_chains_are_dispersed_or_begin_at_given_points(small_model):
    counts = {"draws": np.int64(4), "tune": np.uint8(0), "chains": np.int32(4)}  # are numbers, too
    seed, cores = np.int64(1), np.int64(1)
    result = bf.sample(small_model, **counts, cores=cores, random_seed=seed, sweeps=1, **QUIET)
    first = result["posterior"]["prevalence"].isel(draw=0).values
    assert len(np.unique(first.round(12), axis=0)) == 4
    start = {"prevalence": np.array([0.2, 0.3, 0.5])}
    for begin in (start, "prior", "majority"):
        result = bf.sample(small_model, 5, tune=0, chains=1, start=begin, random_seed=1, **QUIET)
        assert result.attrs["start"] == ("given" if isinstance(begin, dict) else begin)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"draws": 0}, "draws must be a whole number, at least 1. Got: 0"),
        ({"chains": 0}, "chains"),
        ({"sampler": "metropolis"}, "'metropolis'"),
        ({"start": "guess"}, "'guess'"),
        ({"sweeps": 0}, "sweeps"),
        ({"minutes": 1, "draws": 10**9}, r"takes no minutes=.*Ctrl-C ends bf.sample"),
        ({"initvals": {}}, "initvals"),
        ({"var_names": ["prevalence"]}, "var_names"),
        ({"tune": -1}, "tune must be a whole number, at least 0. Got: -1"),
        ({"sampler": "nuts", "sweeps": 2}, "leave sweeps= out. Got: sweeps=2"),
        ({"nuts_sampler": "pymc"}, "leave nuts_sampler= out. Got: nuts_sampler='pymc'"),
        ({"start": {"prevalence": [0.5, 0.5]}}, r"\(3,\). Got: shape \(2,\)"),
        ({"start": {"prevalenz": 1.0}}, "'prevalenz'"),
        ({"start": {"prevalence": [0.5, 0.6, -0.1]}}, r"Got: .*prevalence|prevalence.*Got"),
        ({"start": {"prevalence": [0.5, np.nan, 0.5]}}, "NaN"),
        ({"start": {"prevalence": [0.5, 0.5, 0.5]}}, "sum to one"),
        ({"start": {"prevalence": ["a", "b", "c"]}}, "prevalence"),
        ({"draws": "5"}, "draws must be a whole number"),
        ({"random_seed": np.random.RandomState(1)}, "RandomState"),
    ],
)
def test_bad_requests_are_refused(small_model, arguments, told):
    with pytest.raises(ModelError, match=told) as caught:
        bf.sample(small_model, **({"draws": 5} | arguments), **QUIET)
    assert "\n" not in str(caught.value)


@pytest.mark.slow
def test_parameters_that_are_observed_are_what_was_observed(small):
    prevalence = np.array([0.01, 0.01, 0.98])
    model = pm.observe(DawidSkene(small), {"prevalence": prevalence})
    with pm.Model() as known:
        rows = np.tile(bf.priors.diagonal(3), (6, 1, 1))
        channel = bf.build.Confusion(bf.build.dirichlet("confusion", rows))
        bf.build.observe(small, labels=bf.build.Independent(prevalence), raters=channel)
    one, other = (bf.find_map(m, iterations=9, tolerance=0)["point"] for m in (model, known))
    assert np.allclose(one["confusion"], other["confusion"], rtol=1e-9)


def test_models_and_results_that_cannot_be_used_are_refused(small, small_model):
    certain = np.tile(np.eye(3), (6, 1, 1))  # rules out repeated responses that differ
    with pm.Model() as impossible:
        labels = bf.build.Independent(pm.Dirichlet("prevalence", np.ones(3)))
        bf.build.observe(small, labels=labels, raters=bf.build.Confusion(certain))
    refused_as(ImpossibleDataError, "probability zero for item", bf.sample, impossible, 10, **QUIET)
    with pm.Model() as empty:
        pm.Normal("x")
    result = bf.sample(small_model, 5, chains=1, **QUIET)
    for use, told in (
        (lambda: bf.sample(empty), "must observe responses, with"),
        (lambda: bf.find_map(empty), "must observe responses, with"),
        (lambda: bf.label_probabilities(xr.DataTree()), "label_posterior"),
        (lambda: bf.summary(bf.find_map(small_model)), "summary needs posterior draws.*no poster"),
        (lambda: bf.summary(result, ["trust"]), "'trust'"),
    ):
        refused(told, use)
    assert bf.summary(result, "prevalence").equals(bf.summary(result, ["prevalence"]))


@pytest.mark.slow
def test_nutpie_begins_every_chain_elsewhere(small_model, monkeypatch):
    nutpie = pytest.importorskip("nutpie")
    compiled, points = [], []
    sample = nutpie.sample
    monkeypatch.setattr(nutpie, "sample", lambda m, **kw: compiled.append(m) or sample(m, **kw))
    settings = {"sampler": "nuts", "nuts_sampler": "nutpie", "random_seed": 1}
    bf.sample(small_model, 5, tune=5, chains=2, **settings, **QUIET)
    points = [compiled[0].initial_point_func(seed) for seed in (1, 2, 3, 1)]
    assert (points[0] == points[3]).all()
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert (points[one] != points[other]).all()


@pytest.mark.parametrize("step", ["with_deterministics", "evaluate", "LabelSummary.draw"])
def test_an_interrupted_end_keeps_the_draws(small_model, monkeypatch, step):
    def interrupt(*_, **__):
        raise KeyboardInterrupt

    monkeypatch.setattr(f"bayesfuse.inference.completion.{step}", interrupt)
    with pytest.warns(IncompleteWarning, match=r"are not computed: call bf\."):
        result = bf.sample(small_model, 20, tune=5, chains=2, random_seed=1, **QUIET)
    whole = {"confusion", "prevalence"}
    assert whole <= set(result["posterior"].data_vars)
    assert dict(result["posterior"].sizes)["draw"] == 20
    assert "label_draws" in result.attrs["missing"]
    assert ("sensitivity" in result.attrs["missing"]) == (step == "with_deterministics")
    assert result.attrs["sampler"] == "gibbs"
    assert bf.label_probabilities(result, small_model).shape == (62, 3)


def test_interrupted_chains_are_marked_and_have_the_log_likelihood_of_their_draws(
    small_model, monkeypatch, caplog
):
    monkeypatch.setattr(chains, "SLICE", 0.0)
    monkeypatch.setattr("bayesfuse.results.draws.MAX_VALUES", 2 * 100 * 62)
    settings = {"tune": 5, "chains": 2, "cores": 1, "random_seed": 1}
    whole = bf.sample(small_model, 101, **settings, **QUIET)
    assert "log_likelihood" not in whole.children and whole.attrs["interrupted"] == 0
    left = iter(range(100))

    def press(_):
        if next(left, None) is None:
            raise KeyboardInterrupt

    with caplog.at_level("INFO", "pymc"):
        cut = bf.sample(small_model, 101, progressbar=press, **settings)
    assert cut.attrs["interrupted"] == 1 and "and ended before 101 draws." in caplog.text
    assert cut["log_likelihood"].sizes["draw"] == cut["posterior"].sizes["draw"] < 100


def test_without_a_progress_bar_only_warnings_are_logged(small_model, caplog):
    with caplog.at_level("INFO", "pymc"):
        bf.sample(small_model, 20, tune=20, chains=2, random_seed=1, progressbar=False)
        assert "Gibbs sampling" not in caplog.text
        bf.sample(small_model, 20, tune=20, chains=2, random_seed=1)
        assert "Gibbs sampling 2 chains for 20 tune and 20 draw" in caplog.text


@pytest.mark.parametrize("shown", [True, "combined"])
def test_progress_counts_the_draws_of_chains(small_model, capsys, monkeypatch, shown):
    monkeypatch.setenv("COLUMNS", "120")  # else a narrow terminal may cut the numbers
    bf.sample(small_model, 30, tune=10, chains=2, random_seed=1, progressbar=shown, quiet=True)
    assert "80/80" in capsys.readouterr().out
    made = []
    settings = {"tune": 10, "chains": 2, "random_seed": 1, "quiet": True}
    bf.sample(small_model, 30, progressbar=made.append, **settings)
    assert sum(made) == 80
