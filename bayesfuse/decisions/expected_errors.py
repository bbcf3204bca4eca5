"""Expected number of wrong labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from numpy.typing import NDArray

from bayesfuse.errors import require_count, require_seed
from bayesfuse.numerics.kernels import Array
from bayesfuse.results.contents import constants
from bayesfuse.results.paths import draw_labels
from bayesfuse.results.probabilities import label_probabilities
from bayesfuse.results.summaries import tails


def expected_errors(
    result: xr.DataTree,
    model: pm.Model | None = None,
    *,
    draws: int = 1000,
    ci_prob: float | None = None,
    random_seed: Any = None,
) -> xr.Dataset:
    r"""Return the expected number of wrong labels among the most probable ones, with an interval.

    The expectation is exactly :math:`\sum_n (1 - \max_k p_{nk})`. With the model, the interval is
    from joint draws of the labels and so reflects their dependence. Without it, labels are treated
    as independent given the data (Poisson-binomial), and the interval is too narrow if there are
    few raters or their accuracy is uncertain.

    Parameters
    ----------
    result : DataTree
        With label probabilities.
    model : pymc.Model, optional
        The model of the result.
    draws : int, default 1000
        Number of joint draws of the labels, with a model.
    ci_prob : float, optional
        Probability of the (equal-tailed) interval. Default ``az.rcParams["stats.ci_prob"]``.
    random_seed : int, Generator, optional

    Returns
    -------
    Dataset
        ``expected``, ``low``, ``high`` and ``items`` (the number of items, in a table of counts by
        their count). The attribute ``method`` names the method of the interval.

    Raises
    ------
    ModelError
        A result without label probabilities, or of another model; with a model, a table of counts.

    Examples
    --------
    >>> import bayesfuse as bf
    >>> model = bf.models.DawidSkene(bf.datasets.anesthesia())
    >>> result = bf.sample(model, draws=50, chains=1, random_seed=1, progressbar=False, quiet=True)
    >>> found = bf.decisions.expected_errors(result, model, random_seed=1)
    >>> bool(found["low"] <= found["expected"] <= found["high"]), int(found["items"])
    (True, 45)
    """
    require_count("draws", draws)
    generator = require_seed(random_seed)
    probability = label_probabilities(result, model)
    error = 1 - probability.max("class").values
    known = constants(result)
    copies = np.ones(len(error), dtype=np.int64)
    if "multiplicity" in known:
        copies = known["multiplicity"].values
    ends = tails(ci_prob)
    if model is None:
        method = "independent items"
        below = _number_of_errors(error, copies).cumsum()
        low, high = (int(np.searchsorted(below, q)) for q in ends)
    else:
        method = "joint draws of the labels"
        drawn = draw_labels(result, model, draws, random_seed=generator)
        wrong = (drawn.values != probability.values.argmax(axis=1)).sum(axis=1)
        low, high = np.quantile(wrong, ends, method="inverted_cdf")
    numbers = {
        "expected": float(copies @ error),
        "low": float(low),
        "high": float(high),
        "items": int(copies.sum()),
    }
    return xr.Dataset(numbers, attrs={"method": method})


def _number_of_errors(error: Array, copies: NDArray[np.int64]) -> Array:
    """Return the Poisson-binomial distribution of the number of errors, by convolution in pairs."""
    from scipy.signal import convolve
    from scipy.stats import binom

    used = (error > 0) & (copies > 0)
    parts = [
        binom.pmf(np.arange(m + 1), m, q) for q, m in zip(error[used], copies[used], strict=True)
    ] or [np.ones(1)]
    while len(parts) > 1:
        paired = [convolve(*parts[n : n + 2]) for n in range(0, len(parts) - 1, 2)]
        parts = paired + parts[len(parts) - len(parts) % 2 :]
    return np.maximum(parts[0], 0.0)  # a Fourier transform may round below zero
