"""Coordinates of rows, and priors of positive numbers."""

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.transforms import LogOddsTransform, SimplexTransform
from refusals import refused

import bayesfuse as bf
from bayesfuse.errors import PoorFitWarning
from bayesfuse.inference.plan import make_plan
from bayesfuse.models import DawidSkene, MarkovRandomField
from bayesfuse.parameters.simplex import (
    PROBABILITY,
    SIMPLEX,
    CentredLogs,
    LogOdds,
)
from bayesfuse.testing import assert_close


@pytest.mark.parametrize("support", [SIMPLEX, PROBABILITY])
def test_unconstrained_coordinates_are_pymcs(support):
    rng = np.random.default_rng(0)
    value = rng.dirichlet(np.ones(4), size=3) if support is SIMPLEX else rng.random((3, 4))
    transform = SimplexTransform() if support is SIMPLEX else LogOddsTransform()
    own = CentredLogs() if support is SIMPLEX else LogOdds()
    coordinates = transform.forward(value).eval()
    rows = support.to_kernel(value)
    assert_close(own.write(rows), coordinates, "coordinates")
    assert_close(own.read(coordinates), rows, "rows", atol=1e-10)
    assert_close(support.from_kernel(rows), value, "value")
    assert_close(own.natural(rows), value, "natural value")


def log_ratio(weight):
    """Return the coordinates of Dirichlet rows with these concentrations."""
    with pm.Model() as model:
        rows = bf.build.dirichlet("rows", np.asarray(weight, dtype=float))
    return model.rvs_to_transforms[rows]


@pytest.mark.parametrize("shape", [(3,), (2, 4), (3, 2, 5)])
@pytest.mark.parametrize("zeros", [0.0, 0.4])
def test_log_ratios_as_numbers_and_as_graphs(shape, zeros):
    rng = np.random.default_rng(1)
    weight = rng.random(shape) * (rng.random(shape) >= zeros)
    weight[..., 0] += 0.1  # something is left of every row
    rows = rng.dirichlet(np.ones(shape[-1]), size=shape[:-1]) * (weight > 0)
    rows /= rows.sum(axis=-1, keepdims=True)
    transform = log_ratio(weight)
    with np.errstate(divide="ignore"):
        logs = np.log(rows)
    value = transform.from_log(logs)
    place = weight.argmax(axis=-1)[..., None]
    ratios = logs - np.take_along_axis(logs, place, axis=-1)
    others = (weight > 0) & (np.arange(shape[-1]) != place)
    assert_close(value.ravel(), ratios[others], "ratios")
    assert_close(transform.forward(rows).eval(), value, "coordinates")
    assert_close(transform.backward(value).eval(), rows, "rows")
    assert_close(transform.to_log(value), logs, "log rows", atol=1e-10)
    both = transform.to_log(np.stack([value, 2 * value]))  # many at once: to the last bit
    assert (both == [transform.to_log(value), transform.to_log(2 * value)]).all()


@pytest.mark.parametrize("weight", [[[1, 1, 2], [3, 2, 1]], [[1, 0, 2], [3, 2, 1], [0, 1, 0]]])
def test_the_determinant_of_log_ratios_is_that_of_the_map(weight):
    transform = log_ratio(weight)
    value = np.random.default_rng(2).normal(size=transform.value_shape)
    x = pt.as_tensor(np.zeros_like(value)).type()
    # of a row's entries all but one are free: those but the reference
    free = transform.backward(x).ravel()[transform.free]
    jacobian = pytensor.gradient.jacobian(free, x)
    found, matrix = pytensor.function([x], [transform.log_jac_det(x), jacobian])(value)
    square = matrix.reshape(value.size, value.size)
    assert found.sum() == pytest.approx(np.linalg.slogdet(square)[1], rel=1e-10)


def test_confusion_rows_are_ratios_to_the_diagonal():
    model = DawidSkene(bf.datasets.anesthesia())
    transform = model.rvs_to_transforms[model["confusion"]]
    rows = np.log(np.tile(np.full((4, 4), 0.1) + 0.6 * np.eye(4), (5, 1, 1)))
    assert_close(transform.from_log(rows), np.full((5, 4, 3), np.log(0.1 / 0.7)), "ratios")


QUIET = {"progressbar": False, "quiet": True}
ANSWERS = np.random.default_rng(3).integers(0, 2, (12, 3))


def model_of(prior):
    confusion = 20 * np.array([[[0.8, 0.2], [0.3, 0.7]]] * 3)
    with pm.Model() as model:
        labels = bf.build.Potts(prior("coupling"), bf.Graph.grid((3, 4)))
        raters = bf.build.Confusion(pm.Dirichlet("confusion", confusion))
        bf.build.observe(bf.Responses.from_matrix(ANSWERS), labels=labels, raters=raters)
    return model


def prior_of(build):
    """Return the prior that fits update a coupling with."""
    return make_plan(model_of(build)).blocks["coupling"].prior


def test_positive_numbers_are_drawn_and_maximised():
    """A gamma posterior from a gamma prior and a Poisson likelihood."""
    prior = prior_of(lambda name: pm.Gamma(name, 2.5, 2.0))

    def log_weight(value):
        return 7 * np.log(value) - 3.0 * value

    rng, value, values = np.random.default_rng(1), 1.0, []
    for _ in range(3000):
        value = prior.draw(log_weight, value, rng)
        values.append(value)
    mean, variance = 9.5 / 5, 9.5 / 25
    error = np.sqrt(variance / 750)  # slices are correlated a little
    assert np.mean(values) == pytest.approx(mean, abs=5 * error)
    assert np.var(values) == pytest.approx(variance, rel=5 * np.sqrt(3 / 750))
    assert prior.maximise(log_weight, 0.1) == pytest.approx(8.5 / 5, rel=1e-6)


@pytest.mark.parametrize("build", [lambda n: pm.Gamma(n, 2, 3), lambda n: pm.Uniform(n, 0, 2)])
def test_tabulated_densities_are_exact(build):
    prior, value = prior_of(build), pt.dscalar()
    with pm.Model():
        density = pytensor.function([value], pm.logp(build("number"), value))
    for at in (1e-9, 0.01, 0.7, 1.999, 2.001, 30.0):
        assert prior.log_density(at) == pytest.approx(float(density(at)), rel=1e-8)


BOUNDED = {
    "uniform": (lambda name: pm.Uniform(name, 0.1, 3.0), 0.1, 3.0),
    "truncated": (lambda name: pm.TruncatedNormal(name, 1.0, 1.0, lower=0.2, upper=2.0), 0.2, 2.0),
}


@pytest.mark.parametrize("prior", BOUNDED)
def test_modes_are_found_within_the_support(prior):
    build, low, high = BOUNDED[prior]
    found = prior_of(build)
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
    flat = prior_of(lambda name: pm.Gamma(name, 0.5, 1.0)).with_mode()
    # without its pole Gamma(1/2) is exponential, so that the mode is that of a Gamma(5) density
    for start in (1e-3, 1.0, 50.0):
        mode = flat.maximise(lambda v: 4 * np.log(v), np.asarray(start))
        assert float(mode) == pytest.approx(4.0, rel=1e-5)
    assert flat.log_density(np.asarray(1e-200)) == pytest.approx(
        flat.log_density(np.asarray(1e-9)), abs=1e-6
    )
    smooth = prior_of(lambda name: pm.Gamma(name, 3.0, 1.0))
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
        refused("coupling must be continuous and proper", model_of, prior)
    for prior in (
        lambda name: pm.HalfCauchy(name, 1.0),
        lambda name: pm.InverseGamma(name, 0.1, 1.0),
        lambda name: pm.Truncated(name, pm.Normal.dist(0.0, 1.0), lower=0.0),
        lambda name: pm.Uniform(name, 0.0, pm.HalfNormal("most")),
    ):
        assert "coupling" in {variable.name for variable in model_of(prior).free_RVs}


def test_constants_do_not_widen_sweeps():
    responses = bf.Responses.from_matrix(np.random.default_rng(1).integers(0, 2, (60, 4)))
    model = MarkovRandomField(responses, bf.Graph.grid((60,)))
    with pytest.warns(PoorFitWarning) as told:
        found = bf.fit(model, draws=200, random_seed=1)
    assert any("holds" in str(each.message) for each in told)
    assert np.ptp(found["posterior"]["coupling"].values) == 0
    assert 0.8 < found.attrs["widening"] < 2.0
    circles = MarkovRandomField(responses, bf.Graph.grid((6, 10)))
    refused("label updates form a Markov chain", bf.fit, circles, sweeps=3)


def test_concentrations_are_broadcast_to_further_dims():
    with pm.Model(coords={"rater": "abc", "class": [0, 1], "answer": [0, 1]}) as model:
        dims = ("rater", "class", "answer")
        rows = bf.build.dirichlet("rows", bf.priors.diagonal(2), dims=dims)
        mixed = bf.build.dirichlet("mixed", bf.priors.robust(2), dims=dims)
        with pytest.raises(KeyError, match="nobody"):
            bf.build.dirichlet("other", np.ones(2), dims=("nobody", "class"))
    assert rows.eval().shape == mixed.eval().shape == (3, 2, 2)
    assert model.initial_point()["rows_logratio__"].shape == (3, 2, 1)
    assert np.isfinite(model.compile_logp()(model.initial_point()))
