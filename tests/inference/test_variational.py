"""Variational fits: every method against sampling, in batches too, their results and warnings."""

import sys
import warnings

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from conjugate_models import MODELS, SPARSE, chains, hierarchical
from refusals import refused, refused_as
from scipy import stats

import bayesfuse as bf
from bayesfuse.errors import ImpossibleDataError, ModelError, PoorFitWarning
from bayesfuse.inference.cavi import pareto_shape
from bayesfuse.models import DawidSkene, HiddenMarkov, LatentGroup

QUIET = {"progressbar": False}

# Most tables here are small, and fits to them poor and said to be so: not what most tests ask.
pytestmark = pytest.mark.filterwarnings("ignore::bayesfuse.errors.PoorFitWarning")


def means_and_spreads(result):
    values = [
        result["posterior"][name].values.reshape(-1, result["posterior"][name][0, 0].size)
        for name in ("prevalence", "confusion")
    ]
    flat = np.concatenate(values, axis=1)
    return flat.mean(axis=0), flat.std(axis=0)


def apart(result, other):
    """Return the distances of means, in units of the other's spread, and ratios of spreads."""
    (one, spread), (two, unit) = means_and_spreads(result), means_and_spreads(other)
    return np.abs(one - two) / unit, spread / unit


@pytest.mark.slow
@pytest.mark.parametrize("name", ["confusion", "groups", "chain"])
def test_batches_arrive_where_all_data_do(name):
    made = bf.datasets.simulate_dawid_skene(600, 6, 3, per_item=4, random_seed=3)
    ten = bf.Sequences.from_lengths([10] * 60)
    chain = name == "chain"
    model = (
        HiddenMarkov(made.responses, ten, raters="confusion")
        if chain
        else MODELS[name](made.responses)
    )
    whole = bf.fit(model, random_seed=1, log_likelihood=False, sweeps=1)
    parts = bf.fit(model, batch_size=6 if chain else 60, iterations=60, random_seed=2)
    # below the optimum by steps of 600 batches, and above it by where the whole fit stops
    assert whole.attrs["elbo"] - 0.1 < parts.attrs["elbo"] < whole.attrs["elbo"] + 1e-3
    assert parts["fit"].sizes["iteration"] <= 61


@pytest.fixture(scope="module")
def plenty():
    """A table that leaves little to doubt: CAVI is near the posterior."""
    return bf.datasets.simulate_dawid_skene(
        600, 5, 3, prevalence=[0.5, 0.3, 0.2], accuracy=(0.85, 0.95), random_seed=2
    ).responses


@pytest.fixture(scope="module")
def plenty_gibbs(plenty):
    return bf.sample(DawidSkene(plenty), 500, chains=2, random_seed=1, quiet=True, **QUIET)


@pytest.mark.slow
def test_cavi_agrees_with_gibbs_where_little_is_hidden(plenty, plenty_gibbs):
    model, gibbs = DawidSkene(plenty), plenty_gibbs
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit = bf.fit(model, draws=2000, random_seed=1)
    distance, ratio = apart(fit, gibbs)
    assert distance.max() < 0.3 and 0.7 < ratio.min() and ratio.max() < 1.15
    assert fit.attrs["converged"] == 1 and fit.attrs["pareto_k"] < 0.7
    assert abs(fit.attrs["widening"] - 1) < 0.05
    one, other = bf.label_probabilities(fit), bf.label_probabilities(gibbs)
    assert float(np.abs(one - other).max()) < 0.03


@pytest.mark.slow
def test_sweeps_bring_back_what_the_product_leaves_out():
    """A table that leaves much to doubt: products of distributions are far from the posterior."""
    made = bf.datasets.simulate_dawid_skene(
        100, 5, 2, per_item=4, accuracy=(0.6, 0.85), random_seed=1
    )
    model = DawidSkene(made.responses)
    gibbs = bf.sample(model, 1000, random_seed=1, quiet=True, **QUIET)
    with pytest.warns(PoorFitWarning, match="they widen the intervals"):
        fits = [bf.fit(model, draws=1000, random_seed=1, sweeps=n) for n in (0, 2)]
    fits.append(bf.fit(model, draws=1000, random_seed=1, sweeps=20))
    widening = [fit.attrs["widening"] for fit in fits]
    ratios = [apart(fit, gibbs)[1].mean() for fit in fits]
    assert sorted(widening, reverse=True) == widening and sorted(ratios) == ratios
    assert ratios[0] < 0.9 < ratios[2] < 1.1


@pytest.mark.slow
@pytest.mark.parametrize("name", ["coin", "groups", "sparse chain"])
def test_result_is_like_that_of_sampling(small, name, tmp_path):
    model = MODELS[name](small, gold={0: 1, 61: 2})
    sampled = bf.sample(model, 20, chains=1, random_seed=1, quiet=True, **QUIET)
    found = bf.fit(model, draws=20, random_seed=1)
    assert set(found.children) == set(sampled.children) - {"sample_stats"} | {"fit"}
    for group in set(sampled.children) - {"sample_stats"}:
        one, other = found[group].dataset, sampled[group].dataset
        assert set(one.variables) == set(other.variables), group
        for variable in one.variables:
            assert one[variable].dims == other[variable].dims, variable
            assert one[variable].dtype == other[variable].dtype, variable
            assert one[variable].shape == other[variable].shape, variable
    said = {"start", "method", "elbo", "converged", "iterations", "pareto_k", "sweeps", "widening"}
    assert said <= found.attrs.keys()
    found.to_netcdf(tmp_path / "fit.nc")
    with xr.open_datatree(tmp_path / "fit.nc") as loaded:
        for group in found.children:
            xr.testing.assert_equal(loaded[group].dataset, found[group].dataset)
        np.testing.assert_equal(loaded.attrs, found.attrs)


@pytest.mark.slow
def test_inferred_groups_are_held_with_a_warning_without_sweeps():
    rng = np.random.default_rng(1)
    shown = np.repeat(rng.integers(0, 2, (60, 2)), [3, 2], axis=1)
    shown = np.where(rng.random(shown.shape) < 0.7, shown, 1 - shown)  # groups are not certain
    model = LatentGroup(bf.Responses.from_matrix(shown), groups="posterior")
    with pytest.warns(PoorFitWarning, match="held at the estimate from moments"):
        held = bf.fit(model, draws=50, random_seed=1)["posterior"]["assignment"]
    assert (held.values == model.groups.assignment).all()
    swept = bf.fit(model, draws=50, random_seed=1, sweeps=20)["posterior"]["assignment"]
    assert swept.dtype == held.dtype and len(np.unique(swept[0], axis=0)) > 1
    refused("whole numbers", bf.fit, model, "advi")


@pytest.mark.slow
@pytest.mark.parametrize("method", ["advi", "fullrank_advi"])
def test_advi_agrees_with_gibbs(plenty, plenty_gibbs, method):
    model = DawidSkene(plenty)
    fit = bf.fit(model, method, draws=2000, random_seed=1, **QUIET)
    distance, ratio = apart(fit, plenty_gibbs)
    assert distance.mean() < 0.15 and 0.8 < np.median(ratio) < 1.15
    assert fit.attrs["method"] == method and fit.attrs["converged"] == 1
    bound = fit["fit"]["elbo"].values
    best = bf.fit(model, random_seed=1).attrs["elbo"]
    # the normal families are near the Dirichlet one where there are many responses
    assert best - 10 < bound[-500:].mean() < best + 10


@pytest.mark.slow
def test_pathfinder_begins_at_the_moments(plenty, plenty_gibbs):
    pytest.importorskip("pymc_extras", reason="pathfinder needs pymc-extras")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the libraries that it stands on
        fit = bf.fit(
            DawidSkene(plenty), "pathfinder", draws=500, random_seed=1, num_paths=2, **QUIET
        )
    distance, ratio = apart(fit, plenty_gibbs)
    assert np.median(distance) < 0.5 and 0.6 < np.median(ratio) < 1.5
    assert np.isfinite(fit.attrs["pareto_k"]) and np.isfinite(fit.attrs["elbo"])


def test_pathfinder_names_the_missing_package(small_model, monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc_extras", None)
    with pytest.raises(ImportError, match=r"bayesfuse\[pathfinder\]"):
        bf.fit(small_model, "pathfinder")


@pytest.mark.slow
def test_advi_fits_a_user_defined_model(small):
    model = hierarchical(small, weight=1.0)
    refused(r"CAVI needs .* Got: no such prior on .*'logit', 'mean'", bf.fit, model, "cavi")
    refused("Gibbs sweeps need", bf.fit, model, "advi", sweeps=1)
    gibbs = bf.sample(model, 300, chains=2, random_seed=1, quiet=True, **QUIET)
    fit = bf.fit(model, "advi", random_seed=1, **QUIET)
    assert fit.attrs["start"] in ("moments", "majority")
    one, two = (result["posterior"]["logit"] for result in (fit, gibbs))
    distance = np.abs(one.mean(("chain", "draw")) - two.mean(("chain", "draw")))
    assert (distance < 0.5 * two.std(("chain", "draw"))).all()


def test_pareto_shape_distinguishes_narrow_from_wide():
    """A normal fitted too narrow has ratios of infinite variance; too wide, bounded ones."""

    def shape(scale):
        x = scale * np.random.default_rng(1).normal(size=4000)
        return pareto_shape(stats.norm.logpdf(x) - stats.norm.logpdf(x, scale=scale))

    # the exact shape is 1 − scale² for scales below one
    assert shape(0.4) == pytest.approx(1 - 0.4**2, abs=0.2)
    assert shape(0.95) < 0.5 and shape(1.5) < 0.5
    assert np.isnan(pareto_shape(np.zeros(50)))


def test_a_fit_that_ends_early_is_marked_as_not_converged(small_model):
    with pytest.warns(PoorFitWarning, match="still rising"):
        assert bf.fit(small_model, iterations=2, tolerance=0, sweeps=1).attrs["converged"] == 0


@pytest.mark.slow
def test_advi_that_ends_early_or_diverges_is_marked(small_model, monkeypatch):
    monkeypatch.setattr("bayesfuse.inference.gaussian.WINDOW", 10)
    with pytest.warns(PoorFitWarning):
        bf.fit(small_model, "advi", iterations=12, random_seed=1, **QUIET)
    with pytest.raises(ModelError, match="bound must stay finite"):
        bf.fit(small_model, "advi", obj_optimizer=pm.sgd(learning_rate=1e6), random_seed=1, **QUIET)


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"method": "gibbs"}, "'gibbs'"),
        ({"draws": 0}, "draws must be a whole number, at least 1. Got: 0"),
        ({"draws": None}, "draws"),
        ({"iterations": 2.5}, "Got: 2.5"),
        ({"batch_size": 0}, "batch_size"),
        ({"sweeps": -1}, "sweeps must be a whole number, at least 0. Got: -1"),
        ({"start": "guess"}, "'guess'"),
        ({"obj_n_mc": 5}, "obj_n_mc"),
        ({"method": "advi", "batch_size": 10}, "natural gradients"),
        ({"method": "advi", "batches": []}, "natural gradients"),
        ({"batches": bf.datasets.anesthesia()}, "iterable.*Got: Responses"),
        ({"batches": [{"item": [1]}]}, "bf.Responses.*Got: dict"),
    ],
)
def test_bad_requests_are_refused(small_model, arguments, told):
    refused(told, bf.fit, small_model, **arguments)


def test_impossible_data_are_refused(small):
    """A transition that may not be, between two labels that are known."""
    first, second, *_ = small.items.tolist()
    model = HiddenMarkov(small, chains(small), **SPARSE, gold={first: 0, second: 2})
    refused_as(ImpossibleDataError, "probability zero for sequence", bf.fit, model)
