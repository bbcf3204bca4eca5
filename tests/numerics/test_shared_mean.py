"""Concentrations and means of rows that are summed out, against quadrature."""

import numpy as np
from scipy.special import gammaln

from bayesfuse.numerics.rows import draw_dirichlet
from bayesfuse.numerics.tables import _opened, draw_shared
from bayesfuse.testing import assert_frequencies

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


def test_concentration_and_mean_have_their_posterior(n=4000):
    """Standard errors are those of the means of batches of draws."""
    rng = np.random.default_rng(1)
    kappa, mean, found = np.array(1.0), np.array([0.5, 0.5]), []
    for _ in range(n):
        kappa, tables = draw_shared(kappa, mean, GUESTS, SHAPE, RATE, rng)
        mean = np.exp(draw_dirichlet(PRIOR + tables, rng))
        found.append([np.log(kappa), np.log(kappa) ** 2, mean[0], mean[0] ** 2])
    batches = np.reshape(found, (40, -1, 4)).mean(axis=1)
    means, errors = batches.mean(axis=0), batches.std(axis=0, ddof=1) / np.sqrt(40)
    for (name, exact), mean, error in zip(exactly().items(), means, errors, strict=True):
        assert abs(mean - exact) < 5 * error + 1e-3, (name, mean, exact)


def test_numbers_of_tables_have_the_distribution_of_antoniak():
    """By unsigned Stirling numbers of the first kind; a dish of no weight opens a single table."""
    rng = np.random.default_rng(1)
    for n, opens in ((0, 2.0), (1, 3.0), (3, 0.5), (12, 0.1), (5, 8.0)):
        stirling = np.ones(1)
        for guests in range(n):
            stirling = np.append(0.0, stirling) + guests * np.append(stirling, 0.0)
        rising = gammaln(opens + n) - gammaln(opens)
        probability = stirling * np.exp(np.arange(n + 1) * np.log(opens) - rising)
        seen = [int(_opened.py_func(n, opens, rng)) for _ in range(4000)]
        assert_frequencies(np.bincount(seen, minlength=n + 1).astype(float), probability, f"{n}")
    assert _opened.py_func(50, 1e-300, rng) == 1.0
