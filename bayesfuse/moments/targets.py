"""A test of whether all raters report the same target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import scipy
import xarray as xr

from bayesfuse.data.responses import Responses
from bayesfuse.errors import MomentsError, require_count, require_seed
from bayesfuse.moments.binary import accuracies
from bayesfuse.moments.completion import rank_one
from bayesfuse.moments.pairs import covariance, sampling_variance
from bayesfuse.numerics.kernels import Array


def spectrum(
    source: Responses | xr.Dataset,
    prevalence: float | None = None,
    *,
    draws: int = 199,
    random_seed: int | np.random.Generator | None = None,
) -> xr.Dataset:
    r"""Test whether some raters report another target than the truth, as a cartel does.

    With one target the covariances between raters have rank one; raters who follow another target,
    or copy each other, add a second direction. The statistic is the largest absolute eigenvalue of
    the residuals :math:`q_{ij} - v_i v_j` divided by their standard deviations. Its distribution
    under one target is simulated at the estimated accuracies, with every rater answering the same
    items as in ``source``.

    Parameters
    ----------
    source : Responses or xarray.Dataset
        Responses of two classes, or their :func:`covariance` (then without p-value).
    prevalence : float, optional
        Of the positive class, if known; see :func:`accuracies`.
    draws : int
        Number of simulated tables.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    xarray.Dataset
        ``eigenvalue[component]``: eigenvalues of the covariance matrix with v² on its diagonal (and
        products of v where two raters share no items), in descending order: one dominates.
        ``statistic`` and its ``p_value``: small if there is more than one target.
        ``suspicion[rater]``: the leading eigenvector of the residuals, signed by its largest entry,
        large for raters who share a second target.

    Raises
    ------
    MomentsError
        Fewer than four raters (three always fit rank one); as :func:`accuracies`.
    ModelError
        Fewer than one draw.

    References
    ----------
    Parisi, Strino, Nadler & Kluger (2014), PNAS 111, 1253–1258, Theorem 1 (rank two with a
    cartel); the test is a parametric bootstrap of this package.

    Examples
    --------
    >>> import numpy as np, bayesfuse as bf
    >>> rng = np.random.default_rng(1)
    >>> truth, other = rng.random((2, 1000)) < 0.4
    >>> target = np.stack([truth] * 6 + [other] * 3, axis=1)
    >>> labels = np.where(rng.random(target.shape) < 0.8, target, ~target)
    >>> responses = bf.Responses.from_matrix(labels.astype(int))
    >>> found = bf.moments.spectrum(responses, draws=99, random_seed=1)
    >>> float(found.p_value), found.rater[found.suspicion > 0.4].values
    (0.01, array([6, 7, 8]))
    """
    require_count("draws", draws)
    rng = require_seed(random_seed)
    moments = source if isinstance(source, xr.Dataset) else covariance(source)
    if moments.sizes["rater"] < 4:
        raise MomentsError(
            "Testing for a second target needs at least four raters, because three covariances "
            f"always fit rank one. Got: {moments.sizes['rater']} raters."
        )
    v = np.nan_to_num(rank_one(moments, "least_squares").values)
    value, suspicion = _second_direction(moments, v)
    known = moments.overlap.values >= 2
    np.fill_diagonal(known, False)
    completed = np.where(known, moments.covariance.values, np.outer(v, v))
    p_value = np.nan
    if isinstance(source, Responses):
        simulate = _one_target(source, prevalence)
        beyond = 0
        for _ in range(draws):
            drawn = covariance(simulate(rng))
            try:
                fitted = np.nan_to_num(rank_one(drawn, "least_squares").values)
                beyond += _second_direction(drawn, fitted)[0] >= value
            except MomentsError:  # no statistic, so no evidence
                beyond += 1
        p_value = (1 + beyond) / (1 + draws)
    return xr.Dataset(
        {
            "eigenvalue": ("component", scipy.linalg.eigh(completed, eigvals_only=True)[::-1]),
            "statistic": value,
            "p_value": p_value,
            "suspicion": ("rater", suspicion),
        },
        coords={"rater": moments.rater, "component": np.arange(1, len(v) + 1)},
    )


def _second_direction(moments: xr.Dataset, v: Array) -> tuple[float, Array]:
    """Return the largest absolute eigenvalue of the standardised residuals and its vector."""
    mean, overlap = moments["mean"].values, moments.overlap.values
    product = np.outer(v, v)
    variance = sampling_variance(mean[:, None], mean, product, overlap)
    known = variance > 0  # pairs that share items and both vary
    np.fill_diagonal(known, False)
    residual = np.zeros_like(product)
    residual[known] = (moments.covariance.values - product)[known] / np.sqrt(variance[known])
    values, vectors = scipy.linalg.eigh(residual)
    most = int(np.argmax(np.abs(values)))
    vector = vectors[:, most]
    return float(abs(values[most])), vector * np.sign(vector[np.argmax(np.abs(vector))])


def _one_target(
    responses: Responses, prevalence: float | None
) -> Callable[[np.random.Generator], Responses]:
    """Return a function that simulates the table with the truth as the only target."""
    found = accuracies(responses, prevalence, completion="least_squares")
    table = responses.expand()
    says_positive = np.stack([1 - found.specificity.values, found.sensitivity.values], axis=-1)
    # covariances of raters of unknown quality are not used, so any draw will do
    chance = np.nan_to_num(says_positive, nan=0.5)
    item, rater = table.item, table.rater

    def simulate(rng: np.random.Generator) -> Responses:
        truth = (rng.random(table.n_items) < found.attrs["prevalence"]).astype(np.int64)
        label = rng.random(len(item)) < chance[rater, truth[item]]
        return replace(table, cell=(2 * rater + label).astype(np.uint32))

    return simulate
