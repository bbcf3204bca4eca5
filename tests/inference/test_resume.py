"""Chains that continue: their draws are appended, and all that follows is of all draws."""

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from refusals import refused
from within_mcse import assert_within_mcse

import bayesfuse as bf
from bayesfuse.models import DawidSkene, HiddenMarkov, MarkovRandomField

QUIET = {"progressbar": False, "quiet": True}
MADE = bf.datasets.simulate_dawid_skene(40, 4, 2, random_seed=1).responses


@pytest.mark.parametrize("settings", [{}, {"pooled": True}, {"raters": "coin"}])
def test_resumed_chains_append_draws_of_the_same_posterior(settings):
    model = DawidSkene(MADE, **settings)
    long = bf.sample(model, 400, chains=3, random_seed=1, **QUIET)
    short = bf.sample(model, 60, chains=3, random_seed=2, **QUIET)
    both = bf.sample(model, 340, resume=short, random_seed=3, **QUIET)
    assert dict(both["posterior"].sizes) == dict(long["posterior"].sizes)
    assert both["posterior"]["draw"].values.tolist() == list(range(400))
    earlier = both["posterior"].dataset.isel(draw=slice(60))
    assert earlier.equals(short["posterior"].dataset)
    assert_within_mcse(both["posterior"].dataset, long["posterior"].dataset, ["prevalence"])
    assert both.attrs == short.attrs
    exact = bf.label_probabilities(both.isel(draw=slice(None)), model)
    np.testing.assert_allclose(bf.label_probabilities(both), exact, atol=1e-12)
    assert both["log_likelihood"].sizes["draw"] == 400
    assert both["label_draws"].sizes["sample"] == 400
    again = bf.sample(model, 340, resume=short, random_seed=3, **QUIET)
    assert again["posterior"].equals(both["posterior"])


def test_resumed_chains_begin_at_the_last_draws_and_differ():
    model = DawidSkene(MADE)
    short = bf.sample(model, 5, chains=2, random_seed=2, **QUIET)
    both = bf.sample(model, 5, resume=short, random_seed=3, **QUIET)
    new = both["posterior"]["prevalence"].values[:, 5:]
    assert (new[0] != new[1]).any()


def test_chains_resumed_by_the_same_seed_draw_other_numbers():
    model = DawidSkene(MADE)
    result = bf.sample(model, 60, chains=2, random_seed=2, **QUIET)
    for _ in range(2):
        result = bf.sample(model, 60, resume=result, random_seed=2, **QUIET)
    parts = np.split(result["posterior"]["prevalence"].values[0, :, 0], 3)
    off_diagonal = np.corrcoef(parts)[np.triu_indices(3, 1)]
    assert np.abs(off_diagonal).max() < 4 / np.sqrt(60)


def test_results_in_single_precision_continue_from_a_file(tmp_path):
    sequences = bf.Sequences.from_lengths([10] * 4)
    model = HiddenMarkov(MADE, sequences, raters="confusion")
    settings = {"thin": 3, "precision": "single", "chains": 2, "random_seed": 1}
    bf.sample(model, 30, **settings, **QUIET).to_netcdf(tmp_path / "result.nc")
    short = xr.load_datatree(tmp_path / "result.nc")
    both = bf.sample(model, 60, resume=short, random_seed=2, **QUIET)
    assert both["posterior"].sizes["draw"] == 30
    assert both["posterior"]["confusion"].dtype == np.float32
    assert (both.attrs["thin"], both.attrs["precision"]) == (3, "single")
    assert bf.label_probabilities(both).sizes["item"] == 40


def test_chains_that_cannot_continue_are_refused():
    model = DawidSkene(MADE)
    short = bf.sample(model, 5, chains=2, random_seed=2, **QUIET)
    refused("of the same responses", bf.sample, DawidSkene(MADE.take(range(20))), resume=short)
    refused("another rater channel", bf.sample, DawidSkene(MADE, raters="coin"), resume=short)
    other = short.copy()
    other.attrs["sampler"] = "nuts"
    for name, value in {"chains": 3, "tune": 5, "thin": 2, "start": "prior"}.items():
        refused(f"leave {name}= out", bf.sample, model, resume=short, **{name: value})
    refused("continues chains of Gibbs sweeps", bf.sample, model, resume=other)
    refused("A result must be", bf.sample, model, resume="result.nc")
    with pm.Model(coords={"class": MADE.classes}) as mixed:
        prevalence = bf.build.dirichlet("prevalence", np.ones(len(MADE.classes)), dims="class")
        skill = pm.Normal("skill", 1.0, 1.0)
        accuracy = bf.build.OneCoin(pm.math.sigmoid(skill) * np.ones(MADE.n_raters))
        bf.build.observe(MADE, labels=bf.build.Independent(prevalence), raters=accuracy)
    drawn = bf.sample(mixed, 5, tune=5, chains=1, random_seed=1, **QUIET)
    refused(r"Got: gibbs.* with skill by NUTS", bf.sample, mixed, resume=drawn)
    refused("'confusion', by these names", bf.checks.switching, drawn)
    edges = bf.Graph.from_edges([(0, 1), (1, 2), (2, 0)], items=range(40))
    graph = MarkovRandomField(MADE, edges)
    drawn = bf.sample(graph, 5, chains=1, random_seed=1, **QUIET)
    refused("labels on a graph", bf.sample, graph, resume=drawn)
