"""Concentrations and means of rows that are summed out, against quadrature."""

import numpy as np
import pytest
from scipy.special import gammaln

from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.tables import draw_concentration, draw_shared, draw_tables

GUESTS = np.array([[7.0, 1.0], [2.0, 3.0], [90.0, 15.0], [0.0, 0.0], [0.0, 4.0], [41.0, 40.0]])
PRIOR, SHAPE, RATE = np.array([2.0, 1.0]), 2.0, 0.3


def exactly():
    """Return posterior means of log κ and of the first share, and κ's of E[κ] and E[κ²]."""
    log_kappa = np.linspace(-6, 6, 500)[:, None, None]
    share = (np.arange(400) + 0.5)[:, None] / 400
    kappa = np.exp(log_kappa)
    log_weight = SHAPE * log_kappa - RATE * kappa
    log_weight = log_weight + (PRIOR[0] - 1) * np.log(share) + (PRIOR[1] - 1) * np.log1p(-share)
    total = GUESTS.sum(axis=1)
    log_weight = log_weight + gammaln(kappa) - gammaln(kappa + total)
    for part, own in ((share, GUESTS[:, 0]), (1 - share, GUESTS[:, 1])):
        log_weight = log_weight + gammaln(kappa * part + own) - gammaln(kappa * part)
    log_prior = (SHAPE * log_kappa - RATE * kappa)[..., 0]
    log_prior = log_prior + ((PRIOR - 1) * np.log(np.stack([share, 1 - share], -1))).sum(-1)[:, 0]
    parts = log_weight.sum(axis=-1) - (len(GUESTS) - 1) * log_prior
    weight = np.exp(parts - parts.max())
    weight /= weight.sum()
    return {
        "log κ": (weight.sum(axis=1) * log_kappa[:, 0, 0]).sum(),
        "(log κ)²": (weight.sum(axis=1) * log_kappa[:, 0, 0] ** 2).sum(),
        "share": (weight.sum(axis=0) * share[:, 0]).sum(),
        "share²": (weight.sum(axis=0) * share[:, 0] ** 2).sum(),
    }


def drawn(step, n=4000):
    """Return means and their standard errors, from batches of draws."""
    rng = np.random.default_rng(1)
    kappa, mean, found = np.array(1.0), np.array([0.5, 0.5]), []
    for _ in range(n):
        kappa, tables = step(kappa, mean, rng)
        mean = np.exp(draw_dirichlet(PRIOR + tables, rng))
        found.append([np.log(kappa), np.log(kappa) ** 2, mean[0], mean[0] ** 2])
    batches = np.reshape(found, (40, -1, 4)).mean(axis=1)
    return batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(40)


def given_guests(kappa, mean, rng):
    return draw_shared(kappa, mean, GUESTS, SHAPE, RATE, rng)


def given_tables(kappa, mean, rng):
    tables = draw_tables(GUESTS, kappa * mean, rng)
    by_row = tables.sum(axis=1), GUESTS.sum(axis=1)
    return draw_concentration(kappa, *by_row, SHAPE, RATE, rng), tables.sum(axis=0)


@pytest.mark.parametrize("step", [given_guests, given_tables])
def test_concentration_and_mean_have_their_posterior(step):
    means, errors = drawn(step)
    for (name, exact), mean, error in zip(exactly().items(), means, errors, strict=True):
        assert abs(mean - exact) < 5 * error + 1e-3, (name, mean, exact)
