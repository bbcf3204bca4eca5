"""Priors of positive numbers: bounded ones, poles at zero, and those that fits cannot use."""

import numpy as np
import pymc as pm
import pytest

import bayesfuse as bf
from bayesfuse.errors import ModelError, PoorFitWarning
from bayesfuse.models import MarkovRandomField
from bayesfuse.parameters.positive import POSITIVE, PositivePrior

QUIET = {"progressbar": False, "quiet": True}
ANSWERS = np.random.default_rng(3).integers(0, 2, (12, 3))


def model_of(prior):
    confusion = 20 * np.array([[[0.8, 0.2], [0.3, 0.7]]] * 3)
    with pm.Model() as model:
        labels = bf.Potts(prior("coupling"), bf.Graph.grid((3, 4)))
        raters = bf.Confusion(pm.Dirichlet("confusion", confusion))
        bf.observe(bf.Responses.from_matrix(ANSWERS), labels=labels, raters=raters)
    return model


BOUNDED = {
    "uniform": (lambda name: pm.Uniform(name, 0.1, 3.0), 0.1, 3.0),
    "truncated": (lambda name: pm.TruncatedNormal(name, 1.0, 1.0, lower=0.2, upper=2.0), 0.2, 2.0),
}


@pytest.mark.parametrize("prior", BOUNDED)
def test_modes_are_found_within_the_support(prior):
    build, low, high = BOUNDED[prior]
    with pm.Model():
        found = POSITIVE.prior(build("number"))
    grid = np.linspace(low, high, 1001)
    for shape, rate in ((20.0, 16.0), (0.5, 10.0), (50.0, 1.0)):  # inside, at either end

        def statistic(value, shape=shape, rate=rate):
            return shape * np.log(value) - rate * value

        height = [found.log_density(value) + statistic(value) for value in grid[1:-1]]
        best = grid[1:-1][np.argmax(height)]
        for start in (0.3, 1.9):
            mode = float(found.maximise(statistic, np.asarray(start)))
            assert low <= mode <= high
            assert mode == pytest.approx(best, abs=2 * (grid[1] - grid[0]))


@pytest.mark.slow
def test_fits_stay_within_the_support():
    build, low, high = BOUNDED["truncated"]
    model = model_of(build)
    with pytest.warns(PoorFitWarning, match="holds"):
        fitted = bf.fit(model, draws=20, random_seed=1)
    for group in (bf.find_map(model)["point"], fitted["posterior"]):
        assert (group["coupling"] >= low).all() and (group["coupling"] <= high).all()
    result = bf.sample(model, 50, tune=50, chains=1, random_seed=1, **QUIET)
    drawn = result["posterior"]["coupling"]
    assert low < drawn.min() and drawn.max() < high and np.ptp(drawn.values) > (high - low) / 3


def test_poles_at_zero_count_as_flat_where_modes_are_sought():
    with pm.Model():
        prior = POSITIVE.prior(pm.Gamma("number", 0.5, 1.0))
    flat = prior.with_mode()
    # without its pole Gamma(1/2) is exponential, so that the mode is that of a Gamma(5) density
    for start in (1e-3, 1.0, 50.0):
        mode = flat.maximise(lambda v: 4 * np.log(v), np.asarray(start))
        assert float(mode) == pytest.approx(4.0, rel=1e-5)
    assert flat.log_density(np.asarray(1e-200)) == pytest.approx(
        flat.log_density(np.asarray(1e-9)), abs=1e-6
    )
    smooth = PositivePrior(lambda v: 2 * np.log(v) - v, 1.0)
    assert smooth.with_mode() is smooth


def test_a_mode_at_zero_ends_the_search():
    """With no gain small enough to stop for, too."""
    model = model_of(lambda name: pm.Gamma(name, 0.5, 1.0))
    for tolerance in (1e-8, 0.0):
        point = bf.find_map(model, iterations=80, tolerance=tolerance)
        assert 0 < float(point["point"]["coupling"]) < 1e-3


def test_couplings_need_a_continuous_proper_prior_of_positive_numbers():
    for prior in (
        lambda name: pm.Normal(name, 1.0, 3.0),
        lambda name: pm.Normal(name, pm.HalfNormal("scale"), 1.0),
        lambda name: pm.Uniform(name, -0.5, 3.0),
        lambda name: pm.DiscreteUniform(name, 1, 3),
        lambda name: pm.HalfFlat(name),
    ):
        with pytest.raises(ModelError, match="coupling must be continuous and proper"):
            model_of(prior)
    for prior in (
        lambda name: pm.HalfCauchy(name, 1.0),
        lambda name: pm.InverseGamma(name, 0.1, 1.0),
        lambda name: pm.Truncated(name, pm.Normal.dist(0.0, 1.0), lower=0.0),
        lambda name: pm.Uniform(name, 0.0, pm.HalfNormal("most")),
    ):
        assert "coupling" in {variable.name for variable in model_of(prior).free_RVs}


def test_a_parameter_that_is_held_has_no_part_in_how_much_sweeps_widen():
    responses = bf.Responses.from_matrix(np.random.default_rng(1).integers(0, 2, (60, 4)))
    model = MarkovRandomField(responses, bf.Graph.grid((60,)))
    with pytest.warns(PoorFitWarning) as told:
        found = bf.fit(model, draws=200, random_seed=1)
    assert any("holds" in str(each.message) for each in told)
    assert np.ptp(found["posterior"]["coupling"].values) == 0
    assert 0.8 < found.attrs["widening"] < 2.0
    circles = MarkovRandomField(responses, bf.Graph.grid((6, 10)))
    with pytest.raises(ModelError, match="draws the labels anew"):
        bf.fit(circles, sweeps=3)
