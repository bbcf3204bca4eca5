"""Whether a sampler leaves the posterior as it is: from what was simulated, on, and compared."""

import numpy as np


def assert_kept(before, after, *, sigmas=5.0):
    """Fail if functions of parameters and data have another law after the sampler's steps.

    Parameters and data are drawn from the model, so the parameters are draws from the posterior
    given the data, and still are after steps of a correct sampler. Functions that depend on both
    (the evidence) find a sampler that forgets the data, those of parameters one with another prior.
    Means and mean squares are compared, pair by pair.

    Parameters
    ----------
    before, after : list of dict of ndarray
        Bounded functions by name, one dictionary per simulation.
    """
    assert len(before) == len(after)
    for name in before[0]:
        one, other = (np.array([each[name] for each in when]) for when in (before, after))
        assert (one != other).any(), f"{name} does not move"
        middle = one.mean(axis=0)
        for gap in (other - one, (other - middle) ** 2 - (one - middle) ** 2):
            error = np.maximum(gap.std(axis=0, ddof=1), 1e-12) / np.sqrt(len(gap))
            score = np.abs(gap.mean(axis=0)) / error
            assert score.max() < sigmas, f"{name}: {score} standard errors from where it began"
