"""A comparison of two samplers, for several test files."""

import arviz as az
import numpy as np


def assert_within_mcse(found, other, names, *, sigmas=5.0):
    """Fail if posterior means differ by more than Monte Carlo error allows."""
    for name in names:
        means, errors = [], []
        for posterior in (found, other):
            means.append(posterior[name].mean(("chain", "draw")).values)
            errors.append(az.mcse(posterior[[name]])[name].values)
        allowed = sigmas * np.hypot(*errors)
        excess = np.abs(means[0] - means[1]) / np.maximum(allowed, 1e-12)
        place = np.unravel_index(int(np.argmax(excess)), excess.shape)
        assert excess.max() <= 1, (
            f"{name}: means differ by more than {sigmas} standard errors, worst at {place}: "
            f"{means[0][place]:.4f} and {means[1][place]:.4f}, allowed {allowed[place]:.4f}"
        )
