"""Numbers of tables and concentrations of Chinese restaurants against their exact distributions."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma, gammaln

from bayesfuse.numerics.tables import LEAST, draw_concentration, draw_tables
from bayesfuse.testing import assert_frequencies, assert_uniform


def stirling(n):
    """Unsigned Stirling numbers of the first kind |s(n, t)|, t = 0, …, n."""
    found = np.ones(1)
    for guests in range(n):
        found = np.append(0.0, found) + guests * np.append(found, 0.0)
    return found


def antoniak(n, concentration):
    """Probabilities of 0, …, n tables."""
    t = np.arange(n + 1)
    rising = gammaln(concentration + n) - gammaln(concentration)
    return stirling(n) * np.exp(t * np.log(concentration) - rising)


def test_every_entry_has_its_own_count_and_concentration():
    """Concentrations of the last axes serve all of the first; entries without guests have none."""
    counts = np.zeros((4000, 2, 3))
    counts[:, 0] = [3.0, 0.0, 12.0]
    counts[:, 1] = [1.0, 5.0, 2.0]
    concentration = np.array([[0.5, 2.0, 0.1], [3.0, 0.02, 8.0]])
    drawn = draw_tables(counts, concentration, np.random.default_rng(1))
    assert drawn.shape == counts.shape and (drawn[:, 0, 1] == 0).all()
    for place in np.ndindex(2, 3):
        n = int(counts[(0, *place)])
        seen = np.bincount(drawn[(slice(None), *place)].astype(int), minlength=n + 1)
        assert_frequencies(seen.astype(float), antoniak(n, concentration[place]), f"{place}")


def test_tables_of_many_guests_have_the_right_mean():
    """κ (ψ(κ + n) − ψ(κ)), and a variance of its own."""
    kappa, n, size = 3.5, 20000, 400
    drawn = draw_tables(np.full(size, float(n)), np.array(kappa), np.random.default_rng(2))
    open_ = kappa / (kappa + np.arange(n))
    assert open_.sum() == pytest.approx(kappa * (digamma(kappa + n) - digamma(kappa)))
    error = np.sqrt((open_ * (1 - open_)).sum() / size)
    assert abs(drawn.mean() - open_.sum()) < 5 * error


def test_entries_that_cannot_be_are_opened_by_the_first_guest_only():
    drawn = draw_tables(np.array([0.0, 50.0]), np.full(2, 1e-300), np.random.default_rng(1))
    assert drawn.tolist() == [0.0, 1.0]


GRID = np.exp(np.linspace(np.log(1e-6), np.log(1e4), 40001))


def below(values, tables, guests, shape, rate):
    """Posterior probability that the concentration is below these values, on a grid."""
    log_density = stats.gamma(shape, scale=1 / rate).logpdf(GRID) + np.log(GRID)  # of log κ
    for t, n in zip(tables, guests, strict=True):
        log_density += gammaln(GRID) - gammaln(GRID + n) + t * np.log(GRID)
    density = np.exp(log_density - log_density.max())
    steps = np.append(0.0, ((density[1:] + density[:-1]) / 2).cumsum())
    return np.interp(np.log(values), np.log(GRID), steps / steps[-1])


RESTAURANTS = {
    "one": ([3.0], [20.0]),
    "several, one empty": ([2.0, 5.0, 0.0, 1.0], [9.0, 6.0, 0.0, 1.0]),
    "many guests": ([40.0, 11.0], [5000.0, 300.0]),
    "none": ([0.0], [0.0]),
}


@pytest.mark.parametrize("name", RESTAURANTS)
def test_concentrations_have_their_posterior(name, prior=(2.5, 0.4)):
    """Of five thousand sets of restaurants side by side, from far away, by forty steps."""
    tables, guests = (np.array(each) for each in RESTAURANTS[name])
    size, rng = 5000, np.random.default_rng(4)
    many = [np.tile(each[:, None], (1, size)) for each in (tables, guests)]
    now = np.full(size, 200.0)
    for _ in range(40):
        now = draw_concentration(now, *many, *prior, rng, axis=0)
    assert_uniform(below(now, tables, guests, *prior), 1, "concentration", bins=20)


def test_concentrations_stay_positive():
    """A gamma variable of shape 0.001 is zero in floating point, now and then."""
    many = np.zeros((1, 5000)), np.zeros((1, 5000))
    found = draw_concentration(np.ones(5000), *many, 1e-3, 1.0, np.random.default_rng(1), axis=0)
    assert found.min() == LEAST and np.isfinite(np.log(found)).all()
