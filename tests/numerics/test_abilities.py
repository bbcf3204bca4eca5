"""Draws of abilities: from the prior where nothing is observed, and as of their joint density."""

import numpy as np
import pytest
from scipy.special import expit

from bayesfuse.numerics.abilities import CENTRE, LOG_SCALE, LOG_SPREAD, SCALE, Logits, sweep


def prior_draws(n_raters, n_columns, number, rng):
    """Draw mean, spreads and logits from their prior, (number, …)."""
    mean = rng.normal(CENTRE, SCALE, (number, n_columns))
    log_spread = rng.normal(LOG_SPREAD, LOG_SCALE, (number, 2))
    level = rng.standard_normal((number, n_raters)) * np.exp(log_spread[:, :1])
    spread = np.exp(log_spread[:, 1:, None]) * (n_columns > 1)
    deviation = rng.standard_normal((number, n_raters, n_columns)) * spread
    return mean, log_spread, level, deviation


@pytest.mark.parametrize("n_columns", [1, 2])
def test_sweeps_leave_the_joint_distribution_as_it_is(n_columns):
    """Parameters from the prior, data from these, then sweeps: still the prior (Geweke 2004)."""
    rng, number = np.random.default_rng(n_columns), 3000
    total = np.array([[4.0] * n_columns, [0.0] * n_columns, [30.0] * n_columns])
    draws = prior_draws(3, n_columns, number, rng)
    after = []
    for mean, log_spread, level, deviation in zip(*draws, strict=True):
        logits = Logits(mean.copy(), level.copy(), deviation.copy(), log_spread.copy())
        right = rng.binomial(total.astype(int), expit(logits.total())).astype(float)
        for _ in range(2):
            sweep(logits, right, total, rng)
        after.append([*logits.mean, *logits.log_spread[:n_columns], *logits.total()[:2, 0]])
    after = np.array(after)
    mean, log_spread, level, deviation = draws
    before = np.column_stack(
        [mean, log_spread[:, :n_columns], (mean[:, :1] + level + deviation[..., 0])[:, :2]]
    )
    for moment in (1, 2):
        one, other = before**moment, after**moment
        error = np.sqrt((one.var(axis=0) + other.var(axis=0)) / number)
        assert np.all(np.abs(one.mean(axis=0) - other.mean(axis=0)) < 4 * error)


def test_many_responses_determine_an_ability():
    rng = np.random.default_rng(1)
    logits, share = Logits.begin(3, 2), np.array([[0.9, 0.3], [0.5, 0.99], [0.7, 0.6]])
    drawn = []
    for at in range(150):
        sweep(logits, 4000 * share, np.full((3, 2), 4000.0), rng)
        if at >= 30:
            drawn.append(expit(logits.total()))
    np.testing.assert_allclose(np.mean(drawn, axis=0), share, atol=0.01)
    assert np.std(drawn, axis=0).max() < 0.02
