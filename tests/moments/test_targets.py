"""More than one target: the spectrum, and a test that keeps its level."""

import numpy as np
import xarray as xr
from binary_populations import moments, population, sample, true_v

import bayesfuse as bf
from bayesfuse.moments import pairs
from bayesfuse.moments.score import spectrum


def test_residuals_of_one_target_vanish():
    found = spectrum(pairs.covariance(population()))
    assert found.statistic < 1e-3  # 1e-10 in units of a standard deviation at n = 1e14
    assert np.isnan(found.p_value)
    wanted = [true_v() @ true_v(), 0, 0, 0, 0]
    np.testing.assert_allclose(found.eigenvalue, wanted, atol=1e-10)


def test_suspicion_falls_on_those_who_share_another_target():
    v = np.array([0.6, 0.5, 0.7, 0.4, 0.0, 0.0, 0.0])
    other = np.array([0.0, 0.0, 0.0, 0.0, 0.5, 0.4, 0.3])
    q = np.outer(v, v) + np.outer(other, other)
    np.fill_diagonal(q, 1.0)
    found = spectrum(moments(q))
    assert np.all(found.suspicion[4:] > 0.3)
    assert np.all(np.abs(found.suspicion[:4]) < 0.1)


def test_spectrum_fires_with_a_cartel():
    rng = np.random.default_rng(1)
    sensitivity, specificity = rng.uniform(0.6, 0.95, (2, 8))
    truth, other = rng.random((2, 800, 1)) < 0.4
    target = np.repeat(truth, 8, axis=1)
    target[:, 5:] = other
    labels = sample(rng, None, sensitivity, specificity, None, 0.8, target)
    responses = bf.Responses.from_matrix(labels)
    first, second = (spectrum(responses, draws=39, random_seed=3) for _ in "12")
    assert first.p_value == 1 / 40
    xr.testing.assert_identical(first, second)


def test_spectrum_of_few_responses_suspects_nobody():
    """Two items: many a simulated table has no covariances at all, which must not count."""
    responses = bf.Responses.from_matrix([[0, 0, 0, 1], [1, 1, 1, 0]])
    found = spectrum(responses, prevalence=0.5, draws=39, random_seed=1)
    assert found.p_value > 0.1
